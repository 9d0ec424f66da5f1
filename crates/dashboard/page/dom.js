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

/**
 * A table whose rows are made when they are seen: ten thousand rows cost as much as forty.
 * @template T
 * @param {string[]} heads @param {T[]} rows @param {(row: T) => Child[]} cells @param {string} label
 */
export function table(heads, rows, cells, label) {
  const SHOWN = 60;
  let end = 0;
  const body = h("tbody");
  const more = h("button.quiet", { onclick: () => grow() });
  const grow = () => {
    const next = rows.slice(end, end + SHOWN);
    body.append(...next.map((row) => h("tr", null, cells(row).map((cell, at) => h("td", { "data-head": heads[at] }, cell)))));
    end += next.length;
    more.hidden = end >= rows.length;
    more.textContent = `Show more of ${rows.length}`;
  };
  grow();
  return h("div.table", null,
    h("table", { "aria-label": label }, h("thead", null, h("tr", null, heads.map((it) => h("th", { scope: "col" }, it)))), body),
    more, rows.length === 0 && h("p.dim.empty", null, "Nothing here."));
}

/** @param {string} text */
export function toast(text) {
  const box = /** @type {HTMLElement} */ (document.getElementById("toast"));
  box.textContent = plain(text);
  box.classList.add("shown");
  clearTimeout(Number(box.dataset.timer));
  box.dataset.timer = String(setTimeout(() => box.classList.remove("shown"), 5000));
}
