// @ts-check
// The tree of owners, from custom resources to their pods.

import { isCustom } from "./api.js";
import { h, replace, setText, virtual } from "./dom.js";
import { linkTo } from "./object.js";
import { items, keep } from "./objects.js";

/** @typedef {import("./objects.js").Item} Item */
/** @typedef {{item: Item, depth: number, children: number, open: boolean, worst: string}} Row */

/** The height of a row in pixels, as in the style sheet. */
const ROW = 34;
const TONES = ["dim", "good", "warn", "bad"];
/** Kinds that nobody looks for when nobody owns them: every namespace has some. */
const QUIET = ["ConfigMap", "Secret", "Service", "Node"];

/** Which objects are closed, by uid; kept while the page is open. @type {Set<string>} */
const closed = new Set();

/** @param {Item[]} all @param {{text: string, troubled: boolean}} filter @returns {Row[]} */
function rows(all, { text, troubled }) {
  const known = new Set(all.map((it) => it.uid));
  /** @type {Map<string, Item[]>} */
  const below = new Map();
  const roots = [];
  for (const it of all) {
    const owner = it.owners.find((uid) => known.has(uid));
    if (owner) { const list = below.get(owner); if (list) list.push(it); else below.set(owner, [it]); }
    else if (!QUIET.includes(it.kind)) roots.push(it);
  }
  const order = (/** @type {Item} */ it) => `${isCustom(it.resource) ? 0 : 1}${it.namespace}/${it.kind}/${it.name}`;
  roots.sort((a, b) => (order(a) < order(b) ? -1 : 1));
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const has = (/** @type {Item} */ it) => words.every((word) => `${it.kind} ${it.namespace} ${it.name} ${it.text}`.toLowerCase().includes(word));
  /** @type {Row[]} */
  const out = [];
  const seen = new Set();
  // A tree that is filtered shows what fits, below its owners.
  /** @param {Item} it @param {number} depth @param {boolean} wanted @returns {{fits: boolean, worst: number}} */
  const add = (it, depth, wanted) => {
    if (seen.has(it.uid)) return { fits: false, worst: 0 };
    seen.add(it.uid);
    const children = below.get(it.uid) ?? [], open = !closed.has(it.uid) || words.length > 0;
    const at = out.length;
    const mine = wanted || (words.length > 0 && has(it));
    const row = { item: it, depth, children: children.length, open, worst: it.tone };
    out.push(row);
    let worst = TONES.indexOf(it.tone), fits = mine || !words.length;
    children.sort((a, b) => (a.kind + a.name < b.kind + b.name ? -1 : 1));
    const start = out.length;
    for (const child of children) { const of = add(child, depth + 1, mine); worst = Math.max(worst, of.worst); fits ||= of.fits; }
    row.worst = TONES[worst];
    if (!fits || (troubled && worst < 2)) out.length = at;
    else if (!open) out.length = start;
    return { fits, worst };
  };
  for (const root of roots) add(root, 0, false);
  return out;
}

/** @type {import("./views.js").View} */
export function tree(main, _path, query) {
  const filter = { text: query.get("q") ?? "", troubled: query.get("troubled") === "1" };
  const count = h("p.dim.note", { "aria-live": "polite" });
  const input = /** @type {HTMLInputElement} */ (h("input", { type: "search", placeholder: "Filter by name, kind or state", "aria-label": "Filter", value: filter.text }));
  const only = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", id: "troubled" }));
  only.checked = filter.troubled;
  const none = h("div.card.nothing", null, h("h2", null, "Nothing to show"), h("p.dim", null, "Apply a custom resource or a Deployment, and it grows here with what it owns."));
  /** @param {Row} row */
  const element = ({ item, depth, children, open, worst }) => {
    const turn = () => { if (open) closed.add(item.uid); else closed.delete(item.uid); show(); };
    const fold = children ? h("button.fold", { "aria-label": `${open ? "Close" : "Open"} ${item.name}`, onclick: turn, tabindex: "-1" }, open ? "▾" : "▸") : h("span.fold");
    const line = h("div.node", { role: "treeitem", "aria-level": String(depth + 1), "aria-expanded": children ? String(open) : null },
      fold, h(`i.dot.${open ? item.tone : worst}`, { "aria-hidden": "true" }), h("span.kind", null, item.kind),
      h("a", { href: linkTo({ namespace: item.namespace || undefined, name: item.name }, item.resource) }, item.name),
      h("span.place", null, depth === 0 ? item.namespace : ""), h(`span.state.${item.tone}`, null, item.text));
    line.style.setProperty("--depth", String(Math.min(depth, 8)));
    return line;
  };
  const list = virtual({ height: ROW, role: "tree", label: "Owners", row: element, keyOf: ({ item, depth, children, open, worst }) => `${item.uid} ${depth} ${children} ${open} ${worst} ${item.tone} ${item.text}` });
  const card = h("div.card.tree", null, list.element);
  const show = () => {
    const found = rows(items(), filter);
    list.update(found);
    card.hidden = !found.length;
    none.hidden = found.length > 0;
    setText(count, `${found.length.toLocaleString("en")} objects`);
  };
  const change = () => {
    filter.text = input.value;
    filter.troubled = only.checked;
    const link = new URLSearchParams({ ...(filter.text && { q: filter.text }), ...(filter.troubled && { troubled: "1" }) });
    history.replaceState(null, "", `#/tree${link.size ? `?${link}` : ""}`);
    show();
  };
  input.addEventListener("input", change);
  only.addEventListener("change", change);
  // The arrows walk the rows, as in any tree.
  card.addEventListener("keydown", (event) => {
    const lines = /** @type {HTMLElement[]} */ ([...card.querySelectorAll(".node")].sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top));
    const at = lines.findIndex((it) => it.contains(document.activeElement));
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const fold = { ArrowRight: "false", ArrowLeft: "true" }[event.key];
    if (step && lines[at + step]) { event.preventDefault(); lines[at + step].querySelector("a")?.focus(); }
    if (fold && lines[at]?.getAttribute("aria-expanded") === fold) { event.preventDefault(); const name = lines[at].querySelector("a")?.getAttribute("href"); lines[at].querySelector("button")?.click(); /** @type {HTMLElement | null} */ (card.querySelector(`a[href="${CSS.escape(name ?? "")}"]`))?.focus(); }
  });
  replace(main, h("h1", null, "Owners"), h("p.lead", null, "From custom resources to their pods, each with its state."),
    h("div.row.tools", null, input, h("label.check", { for: "troubled" }, only, "Only what is not ready"), count), card, none);
  show();
  none.hidden = true;
  return { leave: ((end) => () => { end(); list.end(); })(keep(show)) };
}
