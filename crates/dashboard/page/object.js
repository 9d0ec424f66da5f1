// @ts-check
// One object: why it is as it is, its YAML, who manages which field, its history, its events, and what can be done.

import { discover, k8s, onChange, pathOf, post, Refused, state } from "./api.js";
import { ask, attempt, h, replace, setText, table } from "./dom.js";
import { timeline, detail } from "./timeline.js";
import { isFailure, isPluralOf } from "./questions.js";
import { diff, editable, yaml } from "./yaml.js";

/** @typedef {import("./api.js").Resource} Resource */
/** @typedef {import("./api.js").Entry} Entry */

const MANAGER = "evenkeel-dashboard";
/** The shortest time between two questions why, in milliseconds. */
const WHY_EVERY = 1500;
const TABS = { yaml: "YAML", managers: "Managers", history: "History", events: "Events", timeline: "Timeline" };
/** Conditions that are good when they are false. */
const GOOD_WHEN_FALSE = ["Degraded", "DiskPressure", "Failed", "MemoryPressure", "NetworkUnavailable", "PIDPressure", "ReplicaFailure", "Stalled"];

/** @param {{namespace?: string, name: string}} meta @param {Resource} resource */
export function linkTo(meta, resource) {
  return `#/object/${resource.group || "core"}/${resource.resource}/${encodeURIComponent(meta.namespace || "-")}/${encodeURIComponent(meta.name)}`;
}

/** An object by the group and plural of its kind. @param {HTMLElement} main @param {string[]} path @param {URLSearchParams} query */
export async function objectView(main, [group, plural, namespace, name], query) {
  const resource = (await discover()).find((it) => (it.group || "core") === group && it.resource === plural);
  return show(main, { resource, kind: resource?.kind ?? plural, ns: namespace === "-" ? undefined : namespace, name }, query);
}

/** An object by its kind, as the record names it. @param {HTMLElement} main @param {string[]} path @param {URLSearchParams} query */
export async function ofKindView(main, [kind, namespace, name], query) {
  const all = (await discover().catch(() => [])).filter((it) => it.kind === kind);
  // Two groups may have a kind of this name: a custom resource is more likely meant than a built-in one.
  const resource = all.find((it) => it.group.includes(".")) ?? all[0];
  return show(main, { resource, kind, ns: namespace === "-" ? undefined : namespace, name }, query);
}

/**
 * @param {HTMLElement} main @param {{resource: Resource | undefined, kind: string, ns: string | undefined, name: string}} what @param {URLSearchParams} query
 * @returns {Promise<{redraw?: () => void, leave: () => void}>}
 */
async function show(main, what, query) {
  const { resource, kind, ns, name } = what;
  const path = resource ? pathOf(resource, ns, name) : "";
  const [why, facts, tabs, body] = [h("p.why.dim", { "aria-live": "polite" }, "Asking why …"), h("div.row.conditions"), h("div.tabs", { role: "tablist", "aria-label": "About the object" }), h("section", { role: "tabpanel", tabindex: "-1" })];
  const title = h("div.row.title");
  /** @type {any} */ let object = null;
  /** @type {{redraw?: () => void, end: () => void} | null} */ let drawn = null;
  let missing = "";
  const shownTabs = resource ? TABS : { timeline: TABS.timeline };
  let tab = query.get("tab") ?? "";
  if (!(tab in shownTabs)) tab = Object.keys(shownTabs)[0];

  async function load() {
    if (!resource) return;
    try { object = await k8s(path); missing = ""; } catch (error) { object = null; missing = error instanceof Error ? error.message : String(error); }
    showFacts();
  }

  let askedAt = -Infinity, waiting = 0;
  /** Asks why, but not too often: the answer takes some lists. */
  function askWhy() {
    if (waiting) return;
    waiting = setTimeout(async () => {
      waiting = 0;
      askedAt = performance.now();
      try {
        const answer = await post("/why", { kind: resource?.group ? `${resource.resource}.${resource.group}` : kind, namespace: ns, name });
        why.className = `why ${answer.problem ? (answer.reason === "pod" || answer.reason === "condition" ? "warn" : "bad") : answer.reason === "fine" ? "good" : "dim"}`;
        setText(why, answer.line);
      } catch (error) { setText(why, error instanceof Error ? error.message : String(error)); }
    }, Math.max(0, askedAt + WHY_EVERY - performance.now()));
  }

  function showFacts() {
    const conditions = object?.status?.conditions ?? [], owners = object?.metadata?.ownerReferences ?? [];
    const tone = (/** @type {any} */ it) => ((it.status === "True") !== GOOD_WHEN_FALSE.includes(it.type) ? "good" : it.status === "Unknown" ? "warn" : "bad");
    replace(facts, ...owners.map((/** @type {any} */ it) => h("a.badge.plain", { href: `#/of/${encodeURIComponent(it.kind)}/${encodeURIComponent(ns ?? "-")}/${encodeURIComponent(it.name)}` }, `owned by ${it.kind} ${it.name}`)),
      object?.metadata?.deletionTimestamp ? h("span.badge.warn", null, "being deleted") : null,
      ...conditions.map((/** @type {any} */ it) => h(`span.badge.${tone(it)}`, { title: [it.reason, it.message].filter(Boolean).join(": ") }, `${it.type}: ${it.status}`)));
    const scalable = typeof object?.spec?.replicas === "number";
    replace(title, h("h1", null, name), !object ? null : h("div.row.acts", null,
      scalable && h("button.quiet", { onclick: scale }, "Scale"), h("button.quiet", { onclick: reconcile }, "Reconcile"),
      h("button.danger", { onclick: remove }, kind === "Pod" ? "Kill" : "Delete")));
  }

  /** @param {() => Promise<any>} act @param {string} done */
  const doing = async (act, done) => { if (await attempt(act, done)) { await load(); askWhy(); } };
  const patch = (/** @type {any} */ change) => k8s(`${path}?fieldManager=${MANAGER}`, { method: "PATCH", type: "application/merge-patch+json", body: JSON.stringify(change) });
  async function scale() {
    const count = await ask({ title: `Scale ${name}`, act: "Scale", field: { label: "Replicas", value: String(object.spec.replicas), type: "number", min: "0" } });
    if (count !== null) doing(() => patch({ spec: { replicas: Number(count) } }), `Scaled ${name} to ${count}`);
  }
  const reconcile = () => doing(() => patch({ metadata: { annotations: { "evenkeel.dev/reconcile-requested-at": new Date().toISOString() } } }), `Asked for a reconcile of ${name}`);
  async function remove() {
    const verb = kind === "Pod" ? "Kill" : "Delete";
    if (await ask({ title: `${verb} ${kind} ${name}?`, act: verb, danger: true })) doing(() => k8s(path, { method: "DELETE" }), verb === "Kill" ? `Killed ${name}` : `Deleted ${name}`);
  }

  function editor() {
    const text = /** @type {HTMLTextAreaElement} */ (h("textarea.yaml", { spellcheck: "false", "aria-label": "YAML", "aria-describedby": "problems", value: object ? yaml(editable(object)) : "" }));
    const problems = h("ul.problems", { id: "problems", role: "alert" });
    /** @param {boolean} dry */
    const send = async (dry) => {
      replace(problems);
      try {
        const query = `?fieldManager=${MANAGER}&force=true&fieldValidation=Strict${dry ? "&dryRun=All" : ""}`;
        await k8s(path + query, { method: "PATCH", type: "application/apply-patch+yaml", body: text.value });
        text.removeAttribute("aria-invalid");
        if (dry) replace(problems, h("li.good", null, "The server would accept this."));
        else { await attempt(async () => {}, `Applied ${kind} ${name}`); await load(); askWhy(); }
      } catch (error) {
        text.setAttribute("aria-invalid", "true");
        const causes = error instanceof Refused && error.causes.length ? error.causes.map((/** @type {any} */ it) => `${it.field}: ${it.message}`) : [error instanceof Error ? error.message : String(error)];
        replace(problems, ...causes.map((/** @type {string} */ it) => h("li", null, it)));
      }
    };
    let timer = 0;
    text.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => send(true), 600); });
    text.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); clearTimeout(timer); send(false); } });
    replace(body, text, problems, h("div.row", null, h("button.primary", { onclick: () => { clearTimeout(timer); send(false); }, title: "Ctrl+Enter" }, "Apply"), h("button.quiet", { onclick: () => send(true) }, "Validate"),
      h("button.quiet", { onclick: async () => { await load(); editor(); } }, "Reload")));
  }

  function managers() {
    const all = (object?.metadata?.managedFields ?? []).flatMap((/** @type {any} */ it) => leaves(it.fieldsV1 ?? {}, []).map((field) => ({ field, by: it.manager, how: it.operation, part: it.subresource ?? "", at: it.time ?? "" })));
    const rows = table(["Field", "Manager", "Operation", "Subresource", "Time"], (/** @type {any} */ it) => [{ text: it.field, code: true }, it.by, it.how, it.part, it.at], "Fields and their managers", "No manager is known.");
    rows.update(all.sort((/** @type {any} */ a, /** @type {any} */ b) => (a.field < b.field ? -1 : 1)));
    replace(body, rows.element);
  }

  async function past() {
    replace(body, h("p.dim", null, "Reading the history …"));
    const versions = resource ? await revisions(resource, ns, name) : [];
    if (tab !== "history") return;
    if (!versions.length) return replace(body, h("p.dim", null, "The server keeps no history of this object any more."));
    replace(body, h("ol.history", { reversed: true }, versions.map((it, at) => {
      const before = versions[at + 1];
      const text = (/** @type {any} */ v) => yaml({ ...v.object, metadata: { ...v.object.metadata, managedFields: undefined, resourceVersion: undefined } });
      const by = newest(it.object.metadata.managedFields);
      return h("li", null, h("details", at === 0 ? { open: true } : null, h("summary", null, `Revision ${it.object.metadata.resourceVersion} · ${it.type.toLowerCase()}${by ? ` · ${by}` : ""}`),
        h("pre.diff", { tabindex: "0" }, (before ? diff(text(before), text(it)) : text(it).split("\n").map((line) => ({ sign: "+", text: line }))).slice(0, 400)
          .map((line) => h(`span.${line.sign === "+" ? "plus" : line.sign === "-" ? "minus" : "same"}`, null, `${line.sign} ${line.text}\n`)))));
    })));
  }

  async function events() {
    const rows = table(["Type", "Reason", "Message", "From", "#Count"], (/** @type {any} */ it) => [it.type === "Warning" ? { text: it.type, badge: "warn" } : it.type ?? "", it.reason ?? "", it.message ?? "", it.source?.component || it.reportingComponent || "", it.count ?? it.series?.count ?? 1], "Events", "There are no events about this object.");
    replace(body, rows.element);
    const selector = encodeURIComponent(`involvedObject.name=${name},involvedObject.kind=${kind}`);
    const found = await k8s(`/api/v1/${ns ? `namespaces/${encodeURIComponent(ns)}/` : ""}events?fieldSelector=${selector}`).catch(() => ({ items: [] }));
    rows.update(found.items);
  }

  const isOwn = (/** @type {Entry} */ it) => it.name === name && (it.namespace ?? undefined) === ns && (!it.kind || it.kind === kind);
  const isAbout = (/** @type {Entry} */ it) => it.type === "reconcile" && (isOwn(it) || it.causes?.some((cause) => cause.kind === kind && cause.name === name && (cause.namespace ?? undefined) === ns) ||
    it.requests?.some((sent) => isPluralOf(sent.resource, kind) && sent.name === name && (sent.namespace ?? undefined) === ns));

  function life() {
    const box = h("div.card", { "aria-live": "polite" }, h("p.dim", null, "Pick a reconcile to see what it did."));
    /** @type {Map<string, import("./model.js").Lane>} */
    const lanes = new Map();
    /** @param {Entry} it */
    const add = (it) => {
      const by = it.controller ?? "";
      let lane = lanes.get(by);
      if (!lane) lanes.set(by, (lane = { all: [], failed: [], longest: 0 }));
      lane.all.push(it);
      if (isFailure(it)) lane.failed.push(it);
      lane.longest = Math.max(lane.longest, it.took ?? 0, it.wait ?? 0);
    };
    state.model.reconciles.all.filter(isAbout).forEach(add);
    const line = timeline(() => [...lanes], (it) => detail(box, it));
    const stop = onChange((news) => { news.filter(isAbout).forEach(add); });
    replace(body, line.element, box);
    drawn = { redraw: line.redraw, end: () => { stop(); line.end(); } };
  }

  const views = { yaml: editor, managers, history: past, events, timeline: life };
  function open() {
    drawn?.end();
    drawn = null;
    const buttons = Object.entries(shownTabs).map(([id, label]) => h("button", { role: "tab", id: `tab-${id}`, "aria-selected": String(tab === id), tabindex: tab === id ? "0" : "-1", onclick: () => choose(id) }, label));
    replace(tabs, ...buttons);
    body.setAttribute("aria-labelledby", `tab-${tab}`);
    views[/** @type {keyof typeof views} */ (tab)]();
  }
  /** @param {string} id */
  function choose(id) {
    tab = id;
    history.replaceState(null, "", `${location.hash.split("?")[0]}?tab=${id}`);
    open();
  }
  tabs.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], ids = Object.keys(shownTabs);
    if (!step) return;
    event.preventDefault();
    choose(ids[(ids.indexOf(tab) + step + ids.length) % ids.length]);
    document.getElementById(`tab-${tab}`)?.focus();
  });
  replace(main, h("p.dim.crumb", null, kind, ns ? ` in ${ns}` : ""), title, why, facts, tabs, body);
  showFacts();
  await load();
  if (missing) setText(why, missing);
  askWhy();
  open();
  // A write of the object, or a reconcile of it, may change the reason. Its end may also be without either.
  const stop = onChange((news) => {
    const touches = (/** @type {any} */ it) => isAbout(it) || (it.type === "request" && isPluralOf(it.resource, kind) && it.name === name);
    if (news.some(touches)) { askWhy(); load(); }
  });
  const timer = setInterval(() => { if (!document.hidden) askWhy(); }, 4000);
  return { redraw: () => drawn?.redraw?.(), leave: () => { stop(); clearInterval(timer); clearTimeout(waiting); drawn?.end(); } };
}

/** @param {any[]} [fields] */
function newest(fields) {
  return fields?.reduce((best, it) => (!best || (it.time ?? "") >= (best.time ?? "") ? it : best), null)?.manager;
}

/** The paths of a tree of managed fields. @param {any} tree @param {string[]} path @returns {string[]} */
function leaves(tree, path) {
  const below = Object.keys(tree).filter((it) => it !== ".");
  if (!below.length) return [path.join(".") || "."];
  return below.flatMap((key) => leaves(tree[key], [...path, key.replace(/^[fkv]:/, "")]));
}

/** The states of an object that the server still knows, the newest first. @param {import("./api.js").Resource} resource @param {string | undefined} ns @param {string} name */
async function revisions(resource, ns, name) {
  let from = "1";
  for (let tries = 0; tries < 2; tries++) {
    const query = `?watch=1&resourceVersion=${from}&timeoutSeconds=1&fieldSelector=${encodeURIComponent(`metadata.name=${name}`)}`;
    const answer = await fetch("/k8s" + pathOf(resource, ns) + query, { headers: { "x-evenkeel-page": "1" } });
    const text = await answer.text();
    const lines = text.split("\n").filter(Boolean).map((it) => { try { return JSON.parse(it); } catch { return {}; } });
    const error = lines.find((it) => it.type === "ERROR" || it.code === 410);
    const oldest = /\((\d+)\)/.exec(error?.object?.message ?? error?.message ?? "")?.[1];
    if (error && oldest) { from = oldest; continue; }
    return lines.filter((it) => ["ADDED", "MODIFIED", "DELETED"].includes(it.type)).reverse();
  }
  return [];
}
