// @ts-check
// The views: the road, timeline, controllers, watches, nodes, search. The tree and the object have files of their own.

import { discover, k8s, list, now, pathOf, post, state } from "./api.js";
import { ask, attempt, css, duration, h, replace, setText, table } from "./dom.js";
import { linkTo } from "./object.js";
import { items, keep } from "./objects.js";
import { detail, linkOf, timeline } from "./timeline.js";
import { causesText, indexAt, isFailure, keyOf, summary } from "./questions.js";
import uPlot from "./vendor/uPlot.esm.js";

/** @typedef {import("./api.js").Entry} Entry */
/** @typedef {(main: HTMLElement, path: string[], query: URLSearchParams) => (Promise<Leave> | Leave)} View */
/** @typedef {{redraw?: () => void, leave?: () => void}} Leave */

/** How far back the road looks, in microseconds. */
const WINDOW = 10e6;
/** How many seconds the charts of the road show. */
const SECONDS = 60;
/** How many entries the road looks at; a busier cluster shows its newest. */
const ROAD_MAX = 20000;
const SVG = "http://www.w3.org/2000/svg";

/** @param {Entry} it */
const linkToKey = (it) => (it.kind ? linkOf(it.kind, it.namespace, it.name ?? "") : undefined);

/** What is wrong, in one line each. @returns {{text: string, href?: string}[]} */
function troubles() {
  const loops = state.model.loops().map((it) => ({ text: it.text, href: linkToKey(it.it) }));
  const fails = state.model.failing().map((it) => ({ text: `${it.controller} fails for ${keyOf(it)}, ${(it.attempt ?? 0) + 1} times in a row: ${it.error}`, href: linkToKey(it) }));
  const watches = state.record.watches.filter((it) => it.error).map((it) => ({ text: `The watch of ${it.source}${it.operator ? ` (${it.operator})` : ""} fails: ${it.error}`, href: "#/watches" }));
  return [...loops, ...fails, ...watches];
}

/** The list of what is wrong, which changes only when its content does. */
function troubleList() {
  const element = h("ul.troubles", { "aria-label": "What is wrong", "aria-live": "polite" });
  let shown = "";
  return {
    element,
    update() {
      const all = troubles(), key = JSON.stringify(all.slice(0, 8)) + all.length;
      if (key === shown) return;
      shown = key;
      replace(element, ...(all.length ? all.slice(0, 8).map((it) => h("li.bad", null, it.href ? h("a", { href: it.href }, it.text) : it.text)) : [h("li.good", null, "Nothing loops, nothing is stuck.")]),
        all.length > 8 ? h("li.more", null, `and ${all.length - 8} more`) : null);
    },
  };
}

/** The stations of the road, and what each of them counts. @type {{name: string, title: string, hint: string}[]} */
const STATIONS = [
  { name: "client", title: "Client", hint: "who sends requests" },
  { name: "server", title: "API server", hint: "requests answered" },
  { name: "store", title: "Store", hint: "revisions written" },
  { name: "watch", title: "Watch", hint: "open watches" },
  { name: "cache", title: "Cache", hint: "objects held" },
  { name: "queue", title: "Queue", hint: "keys waiting" },
  { name: "reconcile", title: "Reconcile", hint: "reconciles ended" },
];

/** A line of bars, one for each second. */
function spark() {
  const path = document.createElementNS(SVG, "path"), svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${SECONDS} 20`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  svg.append(path);
  return {
    svg,
    /** @param {number[]} counts */
    update(counts) {
      const most = Math.max(1, ...counts);
      path.setAttribute("d", counts.map((count, at) => (count ? `M${at + 0.5} 20V${20 - Math.max(1.5, (count / most) * 19)}` : "")).join(""));
    },
  };
}

/** @type {View} */
export function road(main) {
  const wrong = troubleList();
  const feed = h("ol.feed", { "aria-label": "What happens" });
  const stops = STATIONS.map((it, at) => {
    const [count, note, line] = [h("div.count"), h("div.dim"), spark()];
    const li = h("li.station", { title: it.hint }, h("div.name", null, it.title), count, note, at < STATIONS.length - 1 && h("span.way", { "aria-hidden": "true" }, h("i")));
    li.insertBefore(line.svg, li.lastElementChild?.classList.contains("way") ? li.lastElementChild : null);
    return { li, count, note, line };
  });
  replace(main, h("h1", null, "The road"), h("p.lead", null, "A change travels from a client through the API server and the store to the watches, into the caches and queues, and ends as a reconcile. The numbers are those of the last ten seconds, the bars those of the last minute."),
    h("ol.road", { "aria-label": "The road of a change" }, stops.map((it) => it.li)), wrong.element, h("h2", null, "Now"), feed);
  const redraw = () => {
    const seen = look();
    STATIONS.forEach(({ name }, at) => {
      const { li, count, note, line } = stops[at], [number, text, moves, bars] = /** @type {any} */ (seen)[name];
      setText(count, typeof number === "number" ? number.toLocaleString("en") : number);
      setText(note, text);
      li.classList.toggle("moves", moves);
      line.update(bars);
    });
    wrong.update();
    const { entries } = state.model, last = entries.slice(-14).reverse();
    replace(feed, ...(last.length ? last.map(line) : [h("li.dim", null, "Nothing has happened yet.")]));
  };
  redraw();
  return { redraw };
}

/** What the last minute says about each station: its number, a note, whether something moves, and the counts of each second. */
function look() {
  const { entries } = state.model, at = now(), begin = Math.floor(at / 1e6) - SECONDS + 1;
  const bars = () => new Array(SECONDS).fill(0);
  const counts = { client: bars(), server: bars(), store: bars(), reconcile: bars(), queue: bars() };
  const [clients, took, waits, ended] = [new Set(), /** @type {number[]} */ ([]), /** @type {number[]} */ ([]), /** @type {number[]} */ ([])];
  let [sent, wrote, failed, newest] = [0, 0, 0, 0];
  /** @param {import("./api.js").Sent} it @param {number} slot @param {boolean} recent */
  const request = (it, slot, recent) => {
    counts.server[slot]++;
    if (it.revision) { counts.store[slot]++; newest = Math.max(newest, it.revision); }
    if (!recent) return;
    sent++;
    took.push(it.took);
    if (it.revision) wrote++;
  };
  const from = Math.max(indexAt(entries, begin * 1e6), entries.length - ROAD_MAX);
  for (let n = from; n < entries.length; n++) {
    const it = entries[n], slot = Math.min(SECONDS - 1, Math.max(0, Math.floor(it.at / 1e6) - begin)), recent = it.at >= at - WINDOW;
    if (it.type === "request") {
      counts.client[slot]++;
      if (recent) clients.add(it.by);
      request(/** @type {any} */ (it), slot, recent);
    } else if (it.type === "reconcile") {
      counts.reconcile[slot]++;
      counts.queue[slot]++;
      for (const one of it.requests ?? []) request(one, slot, recent);
      if (recent) { ended.push(it.took ?? 0); waits.push(it.wait ?? 0); if (isFailure(it)) failed++; }
    }
  }
  const { watches, controllers } = state.record;
  const sum = (/** @type {any[]} */ list, /** @type {string} */ field) => list.reduce((total, it) => total + (it[field] ?? 0), 0);
  const median = (/** @type {number[]} */ list) => duration(list.sort((a, b) => a - b)[list.length >> 1]);
  const broken = watches.filter((it) => it.state === "failing").length;
  return {
    client: [clients.size, clients.size ? [...clients].slice(0, 2).join(", ") + (clients.size > 2 ? " …" : "") : "quiet", clients.size > 0, counts.client],
    server: [sent, sent ? `median ${median(took)}` : "quiet", sent > 0, counts.server],
    store: [wrote, newest ? `revision ${newest.toLocaleString("en")}` : "no new revision", wrote > 0, counts.store],
    watch: [watches.length, broken ? `${broken} failing` : "all in sync", wrote > 0, counts.store],
    cache: [sum(watches, "objects"), "objects held", wrote > 0, counts.store],
    queue: [sum(controllers, "ready"), `${sum(controllers, "delayed")} later${waits.length ? `, waits ${median(waits)}` : ""}`, ended.length > 0, counts.queue],
    reconcile: [ended.length, failed ? `${failed} failed` : ended.length ? `median ${median(ended)}` : "quiet", ended.length > 0, counts.reconcile],
  };
}

/** @param {Entry} it */
function line(it) {
  const at = h("time", null, duration(it.at));
  const row = (/** @type {string | undefined} */ by, /** @type {string} */ text, bad = false) => h(`li${bad ? ".bad" : ""}`, null, at, h("b", null, by), h("span", null, text));
  if (it.type === "reconcile") return row(it.controller, `${isFailure(it) ? "failed for" : "reconciled"} ${keyOf(it)}: ${isFailure(it) ? it.error : causesText(it)}`, isFailure(it));
  if (it.type === "request") return row(it.by, `${summary(/** @type {any} */ (it))} → ${it.code || "no answer"}`, it.code >= 500 || !it.code);
  if (it.type === "webhook") return row("webhook", `${it.path}${it.what ?? ""} → ${it.code}`);
  if (it.type === "disturbance") return row("you", it.what ?? "");
  return row(it.type, it.what ?? it.lease ?? it.source ?? "");
}

/** @type {View} */
export function timelineView(main, _path, query) {
  const only = query.get("controller") ?? "";
  const box = h("div.card", { "aria-live": "polite" }, h("p.dim", null, "Pick a reconcile to see what it read, wrote and changed."));
  /** @returns {[string, import("./model.js").Lane][]} */
  const lanes = () => (only ? [...state.model.keys.values()].filter((it) => it.controller === only).map((it) => [keyOf(it.lane.all[0]), it.lane]) : [...state.model.controllers]);
  const drawn = timeline(lanes, (it) => detail(box, it));
  replace(main, h("h1", null, only ? `Timeline of ${only}` : "Timeline"), h("p.lead", null, only ? "One lane for each object. " : "One lane for each controller.", only ? h("a", { href: "#/timeline" }, "All controllers") : null), drawn.element, box);
  return { redraw: drawn.redraw, leave: drawn.end };
}

/** @type {View} */
export function controllers(main) {
  const chart = h("div.card.wide.chart", { role: "img", "aria-label": "Reconciles in each of the last sixty seconds" });
  const wrong = troubleList();
  const rows = table(["Controller", "Kind", "#Rate /s", "#Ready", "#Later", "#Running", "#Median", "#p90", "#p99", "#Failed", "#Retries", ""], (/** @type {any} */ it) => [
    { text: it.name, href: `#/timeline?controller=${encodeURIComponent(it.name)}` }, it.kind ?? "", it.rate.toFixed(2), it.ready, it.delayed, `${it.inFlight}/${it.workers}`,
    ...it.took.map(duration), it.failed, it.retried, it.loops ? { text: "loops", badge: "bad" } : "",
  ], "Controllers", "No controller runs.");
  replace(main, h("h1", null, "Controllers"), h("p.lead", null, "Reconciles in each of the last sixty seconds, and what each controller did since the record begins."), chart, wrong.element, rows.element);
  /** @type {any} */ let plot = null;
  let drawnAt = 0, width = 0;
  const redraw = () => {
    if (performance.now() - drawnAt < 900) return;
    drawnAt = performance.now();
    draw();
    wrong.update();
    const { model, record } = state, looping = new Set(model.loops().map((it) => it.it.controller));
    const all = record.controllers.map((it) => {
      const mine = model.controllers.get(it.name), count = mine?.all.length ?? 0, first = mine?.all[0]?.at ?? 0;
      return { ...it, count, rate: count / Math.max(1, (now() - first) / 1e6), took: model.percentiles(it.name), failed: mine?.failed.length ?? 0, retried: mine?.retried ?? 0, loops: looping.has(it.name) };
    });
    rows.update(all.sort((a, b) => b.count - a.count || (a.name < b.name ? -1 : 1)));
  };
  const draw = () => {
    const { all } = state.model.reconciles, end = Math.floor(now() / 1e6), begin = end - SECONDS + 1;
    const xs = Array.from({ length: SECONDS }, (_, at) => at - SECONDS + 1), done = new Array(SECONDS).fill(0), failed = new Array(SECONDS).fill(0);
    for (let at = indexAt(all, Math.max(0, begin) * 1e6); at < all.length; at++) {
      const slot = Math.floor(all[at].at / 1e6) - begin;
      if (slot >= 0 && slot < SECONDS) (isFailure(all[at]) ? failed : done)[slot]++;
    }
    if (!width) return;
    if (!plot) plot = new uPlot({ width, height: 170, legend: { show: false }, cursor: { show: false }, scales: { x: { time: false }, y: { range: (/** @type {any} */ _u, /** @type {number} */ _min, /** @type {number} */ max) => [0, Math.max(5, max * 1.1)] } },
      axes: [{ stroke: css("--dim"), grid: { show: false }, values: (/** @type {any} */ _u, /** @type {number[]} */ v) => v.map((it) => (it ? `${it} s` : "now")) }, { stroke: css("--dim"), grid: { stroke: css("--line"), width: 1 } }],
      series: [{}, { stroke: css("--good"), width: 2, fill: css("--good") + "22", points: { show: false } }, { stroke: css("--bad"), width: 2, points: { show: false } }] }, [xs, done, failed], chart);
    else plot.setData([xs, done, failed]);
  };
  const resized = new ResizeObserver(([entry]) => {
    width = Math.max(200, Math.floor(entry.contentRect.width));
    if (plot) plot.setSize({ width, height: 170 }); else draw();
  });
  resized.observe(chart);
  redraw();
  return { redraw, leave: () => { resized.disconnect(); plot?.destroy(); } };
}

/** @type {View} */
export function watches(main) {
  const acts = h("div.row.tools");
  const tone = (/** @type {string} */ it) => (it === "synced" ? "good" : it === "failing" ? "bad" : "warn");
  const rows = table(["Source", "Operator", "State", "#Objects", "#Revision", "#Lists", "#Restarts", "#Last heard", "Error"], (/** @type {any} */ it) => [
    it.source, it.operator ?? "", { text: it.state, badge: tone(it.state) }, it.objects, it.revision ?? "", it.lists, it.restarts, it.silent === undefined ? "" : `${duration(it.silent)} ago`, it.error ?? "",
  ], "Watches", "Nothing is watched.");
  replace(main, h("h1", null, "Watches and caches"), h("p.lead", null, "What the controllers watch, and how far their caches are. Break something here, and see how the operators take it."), acts, rows.element);
  const act = (/** @type {any} */ body) => attempt(() => post("/act", body));
  const advance = async () => {
    const minutes = await ask({ title: "Advance the clock", text: "Certificates, leases and tokens see the new time at once. Timers that run keep their pace.", act: "Advance", field: { label: "Minutes", value: "60", type: "number", min: "1" } });
    if (minutes !== null) act({ act: "advance", seconds: Math.max(1, Math.round(Number(minutes) * 60)) });
  };
  const crash = async (/** @type {string} */ name) => {
    if (await ask({ title: `Crash ${name}?`, text: "Its process ends without warning, and starts again.", act: "Crash", danger: true })) act({ act: "crash", operator: name });
  };
  let shown = "";
  const redraw = () => {
    const may = state.session?.mayAct, names = state.session?.operators ?? [], key = `${may} ${names}`;
    if (key !== shown) {
      shown = key;
      replace(acts, ...(may ? [h("button.quiet", { onclick: () => act({ act: "cut-watch" }) }, "Cut all watches"),
        ...names.map((/** @type {string} */ name) => h("button.quiet", { onclick: () => crash(name) }, `Crash ${name}`)),
        h("button.quiet", { onclick: advance }, "Advance the clock …")] : []));
    }
    const order = { failing: 0, starting: 1, synced: 2 };
    rows.update([...state.record.watches].sort((a, b) => (/** @type {any} */ (order)[a.state] ?? 1) - (/** @type {any} */ (order)[b.state] ?? 1) || (a.source < b.source ? -1 : 1)));
  };
  redraw();
  return { redraw };
}

/** How many pods a node's card names; the others are counted. */
const PODS_SHOWN = 60;

/** @type {View} */
export function nodes(main) {
  const box = h("div.grid"), waiting = h("section.card"), none = h("div.card.nothing", null, h("h2", null, "No nodes"), h("p.dim", null, "This cluster has no node that you may see."));
  replace(main, h("h1", null, "Nodes and pods"), h("p.lead", null, "Where the pods run, and how they are."), box, waiting, none);
  /** @param {string} name */
  const drain = async (name) => {
    if (!(await ask({ title: `Drain ${name}?`, text: "Its pods are evicted as their disruption budgets allow, and no new ones come.", act: "Drain", danger: true }))) return;
    await attempt(() => drainNode(name), `Drained ${name}`);
  };
  const uncordon = (/** @type {string} */ name) => attempt(() => schedulable(name, true), `${name} takes pods again`);
  /** @param {import("./objects.js").Item} it */
  const chip = (it) => h("li", null, h("a", { href: linkTo(it, it.resource), class: `pod ${it.tone}`, title: `${it.namespace}/${it.name}: ${it.text}` }, it.name));
  let shown = "";
  async function show() {
    const all = items(), pods = all.filter((it) => it.kind === "Pod" && !it.resource.group);
    const cordoned = new Set((await k8s("/api/v1/nodes?fieldSelector=spec.unschedulable%3Dtrue").catch(() => ({ items: [] }))).items.map((/** @type {any} */ it) => it.metadata.name));
    const byNode = Map.groupBy(pods, (it) => it.node);
    const list = all.filter((it) => it.kind === "Node").sort((a, b) => (a.name < b.name ? -1 : 1));
    const key = JSON.stringify([list.map((it) => [it.name, it.tone, cordoned.has(it.name)]), pods.map((it) => [it.name, it.node, it.tone])]);
    if (key === shown) return;
    shown = key;
    const chips = (/** @type {import("./objects.js").Item[]} */ some) => {
      const order = ["bad", "warn", "dim", "good"], sorted = [...some].sort((a, b) => order.indexOf(a.tone) - order.indexOf(b.tone) || (a.name < b.name ? -1 : 1));
      return h("ul.pods", null, sorted.slice(0, PODS_SHOWN).map(chip), some.length > PODS_SHOWN ? h("li.dim", null, `and ${some.length - PODS_SHOWN} more`) : null);
    };
    replace(box, ...list.map((it) => {
      const mine = byNode.get(it.name) ?? [], off = cordoned.has(it.name);
      const acts = off ? h("button.quiet", { onclick: () => uncordon(it.name) }, "Uncordon") : h("button.quiet", { onclick: () => drain(it.name) }, "Drain");
      return h("section.card.nodecard", null, h("div.row.title", null, h("h2", null, h("a", { href: linkTo({ name: it.name }, it.resource) }, it.name)), acts),
        h("p.dim", null, h(`span.state.${it.tone}`, null, it.text), ` · ${mine.length} pods${off ? " · takes no new pods" : ""}`), chips(mine));
    }));
    const without = byNode.get("") ?? [];
    waiting.hidden = !without.length;
    none.hidden = list.length > 0;
    replace(waiting, h("h2", null, "Waiting for a node"), chips(without));
  }
  waiting.hidden = none.hidden = true;
  return { leave: keep(() => { show(); }) };
}

/** @param {string} name @param {boolean} may */
const schedulable = (name, may) => k8s(`/api/v1/nodes/${encodeURIComponent(name)}`, { method: "PATCH", type: "application/merge-patch+json", body: JSON.stringify({ spec: { unschedulable: may ? null : true } }) });

/** Evicts the pods of a node, but for those of DaemonSets, after it was made to take no more. @param {string} name */
async function drainNode(name) {
  await schedulable(name, false);
  const pods = await list(`/api/v1/pods?fieldSelector=${encodeURIComponent(`spec.nodeName=${name}`)}`);
  /** @type {string[]} */
  const refused = [];
  for (const pod of pods.filter((it) => it.metadata.ownerReferences?.every((/** @type {any} */ ref) => ref.kind !== "DaemonSet") ?? true)) {
    const { name: podName, namespace } = pod.metadata;
    const body = JSON.stringify({ apiVersion: "policy/v1", kind: "Eviction", metadata: { name: podName, namespace } });
    await k8s(`/api/v1/namespaces/${namespace}/pods/${encodeURIComponent(podName)}/eviction`, { method: "POST", type: "application/json", body }).catch((error) => refused.push(`${podName}: ${error.message}`));
  }
  if (refused.length) throw new Error(`${refused.length} pods stay: ${refused[0]}`);
}

const METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/** @type {View} */
export function search(main, _path, query) {
  const input = /** @type {HTMLInputElement} */ (h("input.search", { type: "search", placeholder: "A name, a kind, a label, a controller …", "aria-label": "Search", value: query.get("q") ?? "" }));
  const count = h("p.dim", { "aria-live": "polite" }), names = h("p.row");
  const rows = table(["Kind", "Namespace", "Name"], (/** @type {any} */ it) => [it.resource.kind, it.namespace ?? "", { text: it.name, href: linkTo(it, it.resource) }], "Found", "Nothing has all of these words.");
  replace(main, h("h1", null, "Search"), input, count, names, rows.element);
  /** @type {{name: string, namespace?: string, resource: import("./api.js").Resource, text: string}[]} */ let all = [];
  let ended = false;
  const find = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    history.replaceState(null, "", `#/search?q=${encodeURIComponent(input.value)}`);
    rows.element.hidden = !words.length;
    const has = (/** @type {string} */ text) => words.every((word) => text.includes(word));
    const found = words.length ? all.filter((it) => has(it.text)) : [], controllers = words.length ? state.record.controllers.filter((it) => has(it.name.toLowerCase())) : [];
    setText(count, words.length ? `${found.length.toLocaleString("en")} objects` : `${all.length.toLocaleString("en")} objects can be found.`);
    replace(names, ...controllers.slice(0, 20).map((it) => h("a.badge.plain", { href: `#/timeline?controller=${encodeURIComponent(it.name)}` }, it.name)));
    rows.update(found);
  };
  input.addEventListener("input", find);
  input.focus();
  find();
  const read = async () => {
    for (const resource of await discover()) {
      const some = await list(pathOf(resource, undefined), METADATA).catch(() => []);
      if (ended) return;
      all.push(...some.map(({ metadata: { name, namespace, labels } }) => ({ name, namespace, resource, text: `${resource.kind} ${namespace ?? ""} ${name} ${Object.entries(labels ?? {}).map(([key, value]) => `${key}=${value}`).join(" ")}`.toLowerCase() })));
    }
    find();
  };
  read();
  return { leave: () => { ended = true; } };
}
