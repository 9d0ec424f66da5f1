// @ts-check
// The views: the road, the tree of owners, timeline, controllers, watches, nodes, search.

import { call, discover, k8s, objects, pathOf, state, isCustom } from "./api.js";
import { duration, h, replace, table, toast } from "./dom.js";
import { linkTo } from "./object.js";
import { detail, timeline } from "./timeline.js";
import { causesText, indexAt, isFailure, keyOf, loops, percentile, reconcilesOf, stuck, summary } from "./questions.js";
import uPlot from "./vendor/uPlot.esm.js";

/** @typedef {import("./api.js").Entry} Entry */
/** @typedef {(main: HTMLElement, path: string[], query: URLSearchParams) => (Promise<Leave> | Leave)} View */
/** @typedef {{redraw?: () => void, leave?: () => void}} Leave */

const WINDOW = 10e6;
const reconciles = () => reconcilesOf(state.record.entries);
const recent = () => state.record.entries.slice(indexAt(state.record.entries, state.record.taken - WINDOW));

/** What is wrong, in one line each. */
function troubles() {
  const found = loops(state.record.entries).map((it) => ({ key: it.it, text: `${it.it.controller} triggers itself for ${keyOf(it.it)}: ${it.rounds} rounds in ${duration(it.within)}, each by ${it.write}${it.fields.length ? `, which changes ${it.fields.join(", ")} every time` : ""}` }));
  const fails = stuck(state.record.entries).map((it) => ({ key: it, text: `${it.controller} fails for ${keyOf(it)}, ${(it.attempt ?? 0) + 1} times in a row: ${it.error}` }));
  const watches = state.record.watches.filter((it) => it.error).map((it) => ({ key: it, text: `The watch of ${it.source}${it.operator ? ` (${it.operator})` : ""} fails: ${it.error}` }));
  return [...found, ...fails, ...watches];
}

function troubleList() {
  const all = troubles();
  return h("ul.troubles", { "aria-label": "What is wrong" }, all.length ? all.slice(0, 8).map((it) => h("li.bad", null, it.text)) : h("li.good", null, "Nothing loops, nothing is stuck."));
}

/** @type {View} */
export function road(main) {
  const stations = h("ol.road", { "aria-label": "The road of a change" });
  const wrong = h("div");
  const feed = h("ol.feed", { "aria-label": "What happens" });
  replace(main, h("h1", null, "The road"), h("p.lead", null, "A change travels from a client through the API server and the store to the watches, into the caches and queues, and ends as a reconcile. This is the last ten seconds."), stations, wrong, h("h2", null, "Now"), feed);
  const redraw = () => {
    const now = recent(), done = now.filter((it) => it.type === "reconcile");
    const sent = [...now.filter((it) => it.type === "request"), ...done.flatMap((it) => it.requests ?? [])];
    const wrote = sent.filter((it) => it.revision);
    const watches = state.record.watches, controllers = state.record.controllers;
    const sum = (/** @type {any[]} */ list, /** @type {string} */ field) => list.reduce((total, it) => total + (it[field] ?? 0), 0);
    const clients = new Set(now.filter((it) => it.type === "request").map((it) => it.by));
    const took = (/** @type {any[]} */ list, /** @type {string} */ field) => list.length ? `median ${duration(percentile(list.map((it) => it[field] ?? 0), 50))}` : "quiet";
    const stops = [
      ["Client", clients.size || "–", clients.size ? "clients wrote or read" : "quiet", clients.size],
      ["API server", sent.length, took(sent, "took"), sent.length],
      ["Store", wrote.length, wrote.length ? `up to revision ${Math.max(...wrote.map((it) => it.revision ?? 0))}` : "no new revision", wrote.length],
      ["Watch", watches.length, `${watches.filter((it) => it.state === "failing").length} failing`, wrote.length],
      ["Cache", sum(watches, "objects"), "objects held", wrote.length],
      ["Queue", sum(controllers, "ready"), `${sum(controllers, "delayed")} later, ${took(done, "wait").replace("median", "waits")}`, done.length],
      ["Reconcile", done.length, done.some(isFailure) ? `${done.filter(isFailure).length} failed` : took(done, "took"), done.length],
    ];
    replace(stations, ...stops.map(([name, count, note, moves], at) => h(`li.station${Number(moves) > 0 ? ".moves" : ""}`, null,
      h("div.name", null, name), h("div.count", null, count), h("div.dim", null, note), at < stops.length - 1 && h("span.way", { "aria-hidden": "true" }, h("i")))));
    replace(wrong, troubleList());
    replace(feed, ...now.slice(-14).reverse().map(line));
  };
  redraw();
  return { redraw };
}

/** @param {Entry} it */
function line(it) {
  const at = h("time", null, duration(it.at));
  if (it.type === "reconcile") return h(`li${isFailure(it) ? ".bad" : ""}`, null, at, h("b", null, it.controller), ` ${isFailure(it) ? "failed for" : "reconciled"} ${keyOf(it)}: ${isFailure(it) ? it.error : causesText(it)}`);
  if (it.type === "request") return h("li", null, at, h("b", null, it.by), ` ${summary(/** @type {any} */ (it))} → ${it.code || "no answer"}`);
  if (it.type === "webhook") return h("li", null, at, h("b", null, "webhook"), ` ${it.path}${it.what ?? ""} → ${it.code}`);
  return h("li", null, at, h("b", null, it.type), ` ${it.what ?? it.lease ?? it.source ?? ""}`);
}

/** @param {any} it */
function health(it) {
  if (it.metadata.deletionTimestamp) return ["warn", "being deleted"];
  const conditions = it.status?.conditions ?? [];
  const ready = conditions.find((/** @type {any} */ c) => ["Ready", "Available", "Complete"].includes(c.type));
  if (ready) return ready.status === "True" ? ["good", ready.type] : ["warn", `${ready.type}: ${ready.reason ?? ready.status}`];
  if (it.status?.phase) return [["Running", "Ready", "Succeeded", "Bound", "Active"].includes(it.status.phase) ? "good" : "warn", it.status.phase];
  if (typeof it.spec?.replicas === "number" && it.status) { const r = it.status.readyReplicas ?? 0; return [r === it.spec.replicas ? "good" : "warn", `${r}/${it.spec.replicas} ready`]; }
  return ["dim", ""];
}

/** @type {View} */
export async function tree(main) {
  const box = h("div");
  replace(main, h("h1", null, "Owners"), h("p.lead", null, "From custom resources to their pods. What nobody owns stands at the left."), box);
  const show = async () => {
    const all = await objects();
    const byUid = new Map(all.map((it) => [it.metadata.uid, it]));
    /** @type {Map<string, any[]>} */
    const below = new Map();
    const roots = [];
    for (const it of all) {
      const owner = it.metadata.ownerReferences?.find((/** @type {any} */ ref) => byUid.has(ref.uid));
      if (owner) below.set(owner.uid, [...(below.get(owner.uid) ?? []), it]);
      else if (isCustom(it.resource) || (!["ConfigMap", "Secret", "Service"].includes(it.kind))) roots.push(it);
    }
    roots.sort((a, b) => Number(isCustom(b.resource)) - Number(isCustom(a.resource)) || a.metadata.name.localeCompare(b.metadata.name));
    /** @param {any} it @param {number} depth @returns {HTMLElement} */
    const node = (it, depth) => {
      const [tone, text] = health(it);
      const children = below.get(it.metadata.uid) ?? [];
      const row = h("span.node", null, h(`i.dot.${tone}`, { "aria-hidden": "true" }), h("span.kind", null, it.kind), h("a", { href: linkTo(it.metadata, it.resource) }, it.metadata.name), h(`span.state.${tone}`, null, text));
      return h("li", { role: "treeitem", "aria-expanded": children.length ? "true" : null, "aria-level": String(depth + 1) }, row, children.length && depth < 8 ? h("ul", { role: "group" }, children.slice(0, 200).map((child) => node(child, depth + 1))) : null);
    };
    const open = new Set([...box.querySelectorAll("details[open]")].map((it) => it.id));
    void open;
    replace(box, roots.length ? h("ul.tree", { role: "tree", "aria-label": "Owners" }, roots.slice(0, 300).map((it) => node(it, 0))) : h("p.dim", null, "There is nothing that you may see."), roots.length > 300 ? h("p.dim", null, `and ${roots.length - 300} more: search for them`) : null);
  };
  await show();
  const timer = setInterval(() => { if (!document.hidden) show().catch(() => {}); }, 3000);
  return { leave: () => clearInterval(timer) };
}

/** @type {View} */
export function timelineView(main, _path, query) {
  const only = query.get("controller") ?? "";
  const box = h("div.card", { "aria-live": "polite" }, h("p.dim", null, "Pick a reconcile to see what it read, wrote and changed."));
  const shown = () => (only ? reconciles().filter((it) => it.controller === only) : reconciles());
  const drawn = timeline(shown, (it) => (only ? keyOf(it) : it.controller ?? ""), (it) => detail(box, it));
  replace(main, h("h1", null, only ? `Timeline of ${only}` : "Timeline"), h("p.lead", null, only ? "One lane for each object." : "One lane for each controller. ", only ? h("a", { href: "#/timeline" }, " All controllers") : null, " Green read only, amber wrote, red failed; the thin line before is the wait in the queue."), drawn.element, box);
  return { redraw: drawn.redraw, leave: drawn.end };
}

/** @type {View} */
export function controllers(main) {
  const chart = h("div.card.wide.chart", { role: "img", "aria-label": "Reconciles a second" });
  const wrong = h("div"), box = h("div");
  replace(main, h("h1", null, "Controllers"), h("p.lead", null, "Reconciles a second over the last minute, and what each controller did."), chart, wrong, box);
  /** @type {any} */ let plot = null;
  const css = (/** @type {string} */ name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  let drawnAt = 0;
  const redraw = () => {
    if (Date.now() - drawnAt < 900) return;
    drawnAt = Date.now();
    const all = reconciles(), end = Math.floor(state.record.taken / 1e6);
    const xs = Array.from({ length: 60 }, (_, at) => end - 59 + at), done = new Array(60).fill(0), failed = new Array(60).fill(0);
    for (let at = indexAt(all, (end - 59) * 1e6); at < all.length; at++) {
      const slot = Math.floor(all[at].at / 1e6) - (end - 59);
      if (slot >= 0 && slot < 60) (isFailure(all[at]) ? failed : done)[slot]++;
    }
    const width = chart.clientWidth - 24 || 600;
    if (!plot) plot = new uPlot({ width, height: 160, legend: { show: false }, cursor: { show: false }, scales: { x: { time: false } },
      axes: [{ stroke: css("--dim"), grid: { show: false }, values: (/** @type {any} */ _u, /** @type {number[]} */ v) => v.map((it) => `${it} s`) }, { stroke: css("--dim"), grid: { stroke: css("--line"), width: 1 } }],
      series: [{}, { stroke: css("--good"), width: 2, fill: css("--good") + "22" }, { stroke: css("--bad"), width: 2 }] }, [xs, done, failed], chart);
    else plot.setData([xs, done, failed]);
    const looping = new Set(loops(state.record.entries).map((it) => it.it.controller));
    const byName = Map.groupBy ? Map.groupBy(all, (it) => it.controller) : group(all);
    const rows = state.record.controllers.map((it) => ({ ...it, all: byName.get(it.name) ?? [] })).sort((a, b) => b.all.length - a.all.length);
    replace(wrong, troubleList());
    replace(box, table(["Controller", "Kind", "Rate /s", "Ready", "Later", "Running", "Median", "p90", "p99", "Failed", "Retries", ""], rows, (it) => {
      const took = it.all.map((/** @type {Entry} */ r) => r.took ?? 0), first = it.all[0]?.at ?? 0;
      return [h("a", { href: `#/timeline?controller=${encodeURIComponent(it.name)}` }, it.name), it.kind, (it.all.length / Math.max(1, (state.record.taken - first) / 1e6)).toFixed(2), it.ready, it.delayed, `${it.inFlight}/${it.workers}`,
        duration(percentile(took, 50)), duration(percentile(took, 90)), duration(percentile(took, 99)), it.all.filter(isFailure).length, it.all.filter((/** @type {Entry} */ r) => r.attempt).length, looping.has(it.name) ? h("span.badge.bad", null, "loops") : ""];
    }, "Controllers"));
  };
  redraw();
  return { redraw, leave: () => plot?.destroy() };
}

/** @param {Entry[]} all */
function group(all) {
  const by = new Map();
  for (const it of all) { const list = by.get(it.controller); if (list) list.push(it); else by.set(it.controller, [it]); }
  return by;
}

/** @type {View} */
export function watches(main) {
  const box = h("div"), acts = h("div.row");
  replace(main, h("h1", null, "Watches and caches"), h("p.lead", null, "What the controllers watch, and how far their caches are."), acts, box);
  const act = (/** @type {any} */ body) => call("/act", { method: "POST", type: "application/json", body: JSON.stringify(body) }).then((it) => toast(it.message), (error) => toast(error.message));
  let operators = "";
  const redraw = () => {
    // Buttons that are made anew cannot be clicked: they change only with the operators.
    const names = (state.session?.operators ?? []).join(" ");
    if (state.session?.mayAct && (!acts.hasChildNodes() || names !== operators)) {
      operators = names;
      replace(acts, h("button.quiet", { onclick: () => act({ act: "cut-watch" }) }, "Cut all watches"),
        ...(state.session.operators ?? []).map((/** @type {string} */ name) => h("button.quiet", { onclick: () => act({ act: "crash", operator: name }) }, `Crash ${name}`)),
        h("button.quiet", { onclick: () => act({ act: "advance", seconds: 3600 }) }, "Advance the clock by an hour"));
    }
    replace(box, table(["Source", "Operator", "State", "Objects", "Revision", "Lists", "Restarts", "Last heard", "Error"], state.record.watches, (it) => [it.source, it.operator ?? "", h(`span.badge.${it.state === "synced" ? "good" : it.state === "failing" ? "bad" : "warn"}`, null, it.state), it.objects, it.revision ?? "", it.lists, it.restarts, it.silent === undefined ? "" : `${duration(it.silent)} ago`, it.error ?? ""], "Watches"));
  };
  redraw();
  return { redraw };
}

/** @type {View} */
export async function nodes(main) {
  const box = h("div");
  replace(main, h("h1", null, "Nodes and pods"), box);
  /** @param {string} name */
  const drain = async (name) => {
    if (!confirm(`Drain ${name}? Its pods are evicted, and no new ones come.`)) return;
    try {
      await k8s(`/api/v1/nodes/${encodeURIComponent(name)}`, { method: "PATCH", type: "application/merge-patch+json", body: JSON.stringify({ spec: { unschedulable: true } }) });
      const pods = await k8s(`/api/v1/pods?fieldSelector=${encodeURIComponent(`spec.nodeName=${name}`)}`);
      for (const pod of pods.items.filter((/** @type {any} */ it) => it.metadata.ownerReferences?.every((/** @type {any} */ ref) => ref.kind !== "DaemonSet") ?? true)) {
        const { name: podName, namespace } = pod.metadata;
        await k8s(`/api/v1/namespaces/${namespace}/pods/${encodeURIComponent(podName)}/eviction`, { method: "POST", type: "application/json", body: JSON.stringify({ apiVersion: "policy/v1", kind: "Eviction", metadata: { name: podName, namespace } }) });
      }
      toast(`Drained ${name}`);
    } catch (error) { toast(error instanceof Error ? error.message : String(error)); }
    show();
  };
  async function show() {
    const [nodeList, podList] = await Promise.all(["/api/v1/nodes", "/api/v1/pods"].map((path) => k8s(path).catch(() => ({ items: [] }))));
    const pod = { group: "", version: "v1", resource: "pods", kind: "Pod", namespaced: true, verbs: [] }, node = { ...pod, resource: "nodes", kind: "Node", namespaced: false };
    /** @param {any} it */
    const card = (it) => {
      const mine = podList.items.filter((/** @type {any} */ p) => p.spec.nodeName === it.metadata.name);
      return h("section.card.nodecard", null, h("div.row.title", null, h("h2", null, h("a", { href: linkTo(it.metadata, node) }, it.metadata.name)), h("button.quiet", { onclick: () => drain(it.metadata.name) }, "Drain")),
        h("p.dim", null, `${mine.length} pods${it.spec.unschedulable ? ", unschedulable" : ""}`),
        h("ul.pods", null, mine.slice(0, 300).map((/** @type {any} */ p) => { const [tone, text] = health(p); return h("li", null, h("a.pod", { href: linkTo(p.metadata, pod), class: `pod ${tone}`, title: `${p.metadata.namespace}/${p.metadata.name}: ${text}` }, p.metadata.name)); })));
    };
    const waiting = podList.items.filter((/** @type {any} */ p) => !p.spec.nodeName);
    replace(box, h("div.grid", null, nodeList.items.map(card)), waiting.length ? h("section.card", null, h("h2", null, "Waiting for a node"), h("ul.pods", null, waiting.slice(0, 300).map((/** @type {any} */ p) => h("li", null, h("a", { href: linkTo(p.metadata, pod), class: "pod warn" }, p.metadata.name))))) : null);
  }
  await show();
  const timer = setInterval(() => { if (!document.hidden) show().catch(() => {}); }, 3000);
  return { leave: () => clearInterval(timer) };
}

/** @type {View} */
export async function search(main, _path, query) {
  const input = /** @type {HTMLInputElement} */ (h("input.search", { type: "search", placeholder: "A name, a kind, a label, a controller …", "aria-label": "Search", value: query.get("q") ?? "" }));
  const box = h("div", { "aria-live": "polite" });
  replace(main, h("h1", null, "Search"), input, box);
  /** @type {any[]} */ let all = [];
  const find = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    history.replaceState(null, "", `#/search?q=${encodeURIComponent(input.value)}`);
    if (!words.length) return replace(box, h("p.dim", null, `${all.length} objects can be found.`));
    const has = (/** @type {string} */ text) => words.every((word) => text.includes(word));
    const found = all.filter((it) => has(it.text)), names = state.record.controllers.filter((it) => has(it.name.toLowerCase()));
    replace(box, names.length ? h("p", null, names.map((it) => h("a.badge", { href: `#/timeline?controller=${encodeURIComponent(it.name)}` }, it.name))) : null,
      table(["Kind", "Namespace", "Name"], found, (it) => [it.resource.kind, it.metadata.namespace ?? "", h("a", { href: linkTo(it.metadata, it.resource) }, it.metadata.name)], "Found"));
  };
  let timer = 0;
  input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(find, 40); });
  input.focus();
  find();
  if (state.session?.cluster !== false) {
    const meta = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    const lists = await Promise.all((await discover()).map((it) => k8s(pathOf(it, undefined), { accept: meta }).then((list) => list.items.map((/** @type {any} */ item) => ({ ...item, resource: it })), () => [])));
    all = lists.flat().map((it) => ({ ...it, text: `${it.resource.kind} ${it.metadata.namespace ?? ""} ${it.metadata.name} ${Object.entries(it.metadata.labels ?? {}).join(" ").replaceAll(",", "=")}`.toLowerCase() }));
    find();
  }
  return {};
}
