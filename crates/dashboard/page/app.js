// @ts-check
// The page: finds the view of the link, keeps it up to date, and knows the keys.

import { call, follow, onChange, state } from "./api.js";
import { h, replace, toast } from "./dom.js";
import { objectView, ofKindView } from "./object.js";
import { tree } from "./tree.js";
import { controllers, nodes, road, search, timelineView, watches } from "./views.js";

/** @type {{id: string, label: string, key: string, view: import("./views.js").View, cluster?: boolean}[]} */
const VIEWS = [
  { id: "road", label: "Road", key: "r", view: road },
  { id: "tree", label: "Owners", key: "o", view: tree, cluster: true },
  { id: "timeline", label: "Timeline", key: "l", view: timelineView },
  { id: "controllers", label: "Controllers", key: "c", view: controllers },
  { id: "watches", label: "Watches", key: "w", view: watches },
  { id: "nodes", label: "Nodes", key: "n", view: nodes, cluster: true },
  { id: "search", label: "Search", key: "/", view: search, cluster: true },
];

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const nav = /** @type {HTMLElement} */ (document.getElementById("nav"));
const live = /** @type {HTMLElement} */ (document.getElementById("live"));
/** @type {import("./views.js").Leave} */
let current = {};
let turn = 0;

async function go() {
  const mine = ++turn;
  current.leave?.();
  current = {};
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [id, ...rest] = path.split("/").map((part) => { try { return decodeURIComponent(part); } catch { return part; } });
  const found = VIEWS.find((it) => it.id === id) ?? VIEWS[0];
  replace(nav, ...VIEWS.filter((it) => !it.cluster || state.session?.cluster !== false).map((it) =>
    h("a", { href: `#/${it.id}`, "aria-current": it.id === (id || "road") ? "page" : null, title: `Key ${it.key}` }, it.label, h("kbd", { "aria-hidden": "true" }, it.key))));
  const isObject = id === "object" || id === "of";
  document.title = `${isObject ? rest[rest.length - 1] : found.label} · Evenkeel`;
  try {
    const view = { object: objectView, of: ofKindView }[id] ?? found.view;
    const leave = await view(main, rest, new URLSearchParams(query));
    // Another view may have been opened meanwhile.
    if (mine === turn) current = leave; else leave.leave?.();
  } catch (error) {
    if (mine === turn) replace(main, h("h1", null, "This view cannot be shown"), h("p.wrong", { role: "alert" }, error instanceof Error ? error.message : String(error)));
  }
}

let asked = false;
let known = false;
/** How often a view is drawn at most, in milliseconds: often enough to look live. */
const DRAW_EVERY = 200;
onChange(() => {
  if (asked) return;
  asked = true;
  setTimeout(() => {
    asked = false;
    if (state.session && !known) {
      known = true;
      // Which views there are depends on the session.
      if (!state.session.cluster || location.hash.startsWith("#/of/")) go();
    }
    live.textContent = state.live;
    live.classList.toggle("on", state.live === "live");
    const who = /** @type {HTMLElement} */ (document.getElementById("who"));
    if (state.session) who.textContent = `${state.session.user}, for ${Math.ceil(state.session.endsInSeconds / 3600)} h`;
    if (!document.hidden) current.redraw?.();
  }, DRAW_EVERY);
});

/** @param {string} theme */
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  localStorage.setItem("evenkeel-theme", theme);
}
const isDark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
const kept = localStorage.getItem("evenkeel-theme");
if (kept) setTheme(kept);
const turnTheme = () => { setTheme(isDark() ? "light" : "dark"); go(); };
document.getElementById("theme")?.addEventListener("click", turnTheme);
document.getElementById("logout")?.addEventListener("click", async () => { await call("/logout", { method: "POST" }); location.assign("/"); });

addEventListener("keydown", (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|CANVAS)$/.test(target.tagName)) return;
  const view = VIEWS.find((it) => it.key === event.key);
  if (view) { event.preventDefault(); location.hash = `#/${view.id}`; }
  else if (event.key === "t") turnTheme();
  else if (event.key === "?") toast(VIEWS.map((it) => `${it.key} ${it.label}`).join(" · ") + " · t theme");
});
// A view may move the focus on, as the search does.
addEventListener("hashchange", () => { main.focus({ preventScroll: true }); go(); });
if (!location.hash) history.replaceState(null, "", "#/road");
go();
follow();
