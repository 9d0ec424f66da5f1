// @ts-check
// Elements from data. Every text becomes a text node: names from a cluster are never markup.

/** @typedef {Node | string | number | null | undefined | false} Child */

/** How long a text may be in the page; annotations can have a mebibyte. */
const TEXT_MAX = 20000;

/**
 * Control characters and marks that turn the direction of text, as visible signs.
 * @param {unknown} value
 */
export function plain(value) {
  let text = String(value ?? "");
  if (text.length > TEXT_MAX) text = text.slice(0, TEXT_MAX) + ` … and ${text.length - TEXT_MAX} more characters`;
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069]/g, (it) =>
    `\\u${it.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/**
 * @param {string} tag `div.a.b`
 * @param {Record<string, any> | null} [attributes] names that begin with `on` are listeners
 * @param {...(Child | Child[])} children
 * @returns {HTMLElement}
 */
export function h(tag, attributes, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name);
  if (classes.length) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "value") /** @type {any} */ (element).value = value;
    else element.setAttribute(key, value === true ? "" : plain(value));
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : plain(child));
  }
  return element;
}

/** @param {HTMLElement} parent @param {...Child} children */
export function replace(parent, ...children) {
  const kept = children.filter((it) => it !== null && it !== undefined && it !== false);
  parent.replaceChildren(...kept.map((it) => (it instanceof Node ? it : document.createTextNode(plain(it)))));
}

/** Sets a text if it has changed, so that a selection in it survives. @param {HTMLElement} element @param {unknown} value */
export function setText(element, value) {
  const text = plain(value);
  if (element.textContent !== text) element.textContent = text;
}

/** The colour of this name in the theme. @param {string} name */
export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** @param {number} micros */
export function duration(micros) {
  if (!Number.isFinite(micros)) return "–";
  if (micros < 1000) return `${Math.round(micros)} µs`;
  if (micros < 1e4) return `${(micros / 1e3).toFixed(1)} ms`;
  if (micros < 1e6) return `${Math.round(micros / 1e3)} ms`;
  if (micros < 6e7) return `${(micros / 1e6).toFixed(1)} s`;
  if (micros < 3.6e9) return `${Math.floor(micros / 6e7)}m${String(Math.floor(micros / 1e6) % 60).padStart(2, "0")}s`;
  return `${Math.floor(micros / 3.6e9)}h${String(Math.floor(micros / 6e7) % 60).padStart(2, "0")}m`;
}

/** A cell of a table: a text, or a text that is a link or a badge. @typedef {string | number | {text: string | number, href?: string, badge?: string, code?: boolean}} Cell */

/** How many rows a table shows at first. */
const ROWS = 60;

/**
 * A table that is brought up to date in place, so that the focus, the selection and the pointer stay where they are.
 * Columns whose head begins with `#` hold numbers.
 * @template T
 * @param {string[]} heads @param {(row: T) => Cell[]} cells @param {string} label @param {string} [empty]
 * @returns {{element: HTMLElement, update: (rows: T[]) => void}}
 */
export function table(heads, cells, label, empty = "Nothing here.") {
  const names = heads.map((it) => it.replace(/^#/, ""));
  const body = h("tbody"), more = h("button.quiet", { onclick: () => { most += 10 * ROWS; update(last); } });
  const none = h("p.dim.empty", null, empty);
  /** @type {T[]} */ let last = [];
  /** @type {string[][]} */ const shown = [];
  let most = ROWS;
  /** @param {HTMLElement} td @param {Cell} cell */
  const fill = (td, cell) => {
    if (typeof cell !== "object") return replace(td, cell);
    if (cell.href) replace(td, h("a", { href: cell.href }, cell.text));
    else if (cell.badge !== undefined) replace(td, h(`span.badge.${cell.badge || "plain"}`, null, cell.text));
    else replace(td, h("code", null, cell.text));
  };
  /** @param {T[]} rows */
  const update = (rows) => {
    last = rows;
    const count = Math.min(rows.length, most);
    while (body.children.length > count) { body.lastElementChild?.remove(); shown.pop(); }
    for (let at = 0; at < count; at++) {
      let tr = /** @type {HTMLElement | undefined} */ (body.children[at]);
      if (!tr) { tr = h("tr", null, heads.map((head, column) => h(head.startsWith("#") ? "td.number" : "td", { "data-head": names[column] }))); body.append(tr); shown.push([]); }
      cells(rows[at]).forEach((cell, column) => {
        const key = typeof cell === "object" ? JSON.stringify(cell) : String(cell);
        if (shown[at][column] === key) return;
        shown[at][column] = key;
        fill(/** @type {HTMLElement} */ (tr.children[column]), cell);
      });
    }
    more.hidden = rows.length <= count;
    setText(more, `Show more of ${rows.length}`);
    none.hidden = rows.length > 0;
  };
  update([]);
  const head = h("thead", null, h("tr", null, heads.map((it, at) => h(it.startsWith("#") ? "th.number" : "th", { scope: "col" }, names[at]))));
  return { element: h("div.table", null, h("table", { "aria-label": label }, head, body), more, none), update };
}

/**
 * A list whose rows exist only while they can be seen: ten thousand cost as much as forty.
 * @template T
 * @param {{height: number, role: string, label: string, row: (item: T, at: number) => HTMLElement, keyOf: (item: T) => string}} options
 * @returns {{element: HTMLElement, update: (items: T[]) => void, end: () => void}}
 */
export function virtual({ height, role, label, row, keyOf }) {
  const space = h("div.space", { role, "aria-label": label });
  /** @type {T[]} */ let all = [];
  /** @type {Map<string, HTMLElement>} */ let shown = new Map();
  let asked = false;
  const draw = () => {
    asked = false;
    const top = space.getBoundingClientRect().top;
    // A screen above and below, so that a step of the keyboard or the wheel finds its rows.
    const first = Math.max(0, Math.floor((-top - innerHeight) / height)), last = Math.min(all.length, Math.ceil((2 * innerHeight - top) / height));
    /** @type {Map<string, HTMLElement>} */
    const next = new Map();
    for (let at = first; at < last; at++) {
      const key = `${at} ${keyOf(all[at])}`;
      let element = shown.get(key);
      if (!element) {
        element = row(all[at], at);
        element.style.top = `${at * height}px`;
        element.setAttribute("aria-setsize", String(all.length));
        element.setAttribute("aria-posinset", String(at + 1));
        space.append(element);
      }
      next.set(key, element);
    }
    for (const [key, element] of shown) if (!next.has(key)) element.remove();
    shown = next;
  };
  const ask = () => { if (!asked) { asked = true; requestAnimationFrame(draw); } };
  addEventListener("scroll", ask, { passive: true });
  addEventListener("resize", ask);
  return {
    element: space,
    update: (items) => { all = items; space.style.height = `${items.length * height}px`; draw(); },
    end: () => { removeEventListener("scroll", ask); removeEventListener("resize", ask); },
  };
}

/** @param {string} text @param {boolean} [bad] */
export function toast(text, bad = false) {
  const box = /** @type {HTMLElement} */ (document.getElementById("toast"));
  box.textContent = plain(text);
  box.classList.toggle("bad", bad);
  box.classList.add("shown");
  clearTimeout(Number(box.dataset.timer));
  box.dataset.timer = String(setTimeout(() => box.classList.remove("shown"), 5000));
}

/** Says what an act did, or why it failed. @param {() => Promise<any>} act @param {string} [done] */
export async function attempt(act, done) {
  try {
    const answer = await act();
    toast(done ?? answer.message);
    return true;
  } catch (error) {
    toast(error instanceof Error ? error.message : String(error), true);
    return false;
  }
}

/**
 * Asks before an act, in a dialog; with a field, for a value.
 * @param {{title: string, text?: string, act: string, danger?: boolean, field?: {label: string, value: string, type?: string, min?: string}}} question
 * @returns {Promise<string | null>} the value, or null if the answer is no
 */
export function ask({ title, text, act, danger, field }) {
  const input = field && /** @type {HTMLInputElement} */ (h("input", { id: "answer", type: field.type ?? "text", value: field.value, min: field.min, required: true }));
  const cancel = h("button.quiet", { type: "button", onclick: () => dialog.close("") }, "Cancel");
  const form = h("form", { method: "dialog" }, h("h2", { id: "question" }, title), text ? h("p", null, text) : null,
    field && input ? [h("label", { for: "answer" }, field.label), input] : null,
    h("div.row.end", null, cancel, h(danger ? "button.primary.danger" : "button.primary", { value: "yes" }, act)));
  const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { "aria-labelledby": "question" }, form));
  document.body.append(dialog);
  dialog.showModal();
  (input ?? /** @type {HTMLElement} */ (form.querySelector(".primary"))).focus();
  input?.select();
  return new Promise((done) => dialog.addEventListener("close", () => {
    dialog.remove();
    done(dialog.returnValue === "yes" ? input?.value ?? "yes" : null);
  }));
}
