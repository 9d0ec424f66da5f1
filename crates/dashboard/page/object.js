// @ts-check
// One object: its YAML, who manages which field, its history, its events, and what can be done with it.

import { k8s, pathOf, discover, state, Refused } from "./api.js";
import { duration, h, replace, table, toast } from "./dom.js";
import { timeline, detail } from "./timeline.js";
import { causesText, isFailure, isPluralOf, keyOf, loops } from "./questions.js";
import { diff, editable, yaml } from "./yaml.js";

const MANAGER = "evenkeel-dashboard";

/** @param {any} meta @param {import("./api.js").Resource} resource */
export function linkTo(meta, resource) {
  return `#/object/${resource.group || "core"}/${resource.resource}/${encodeURIComponent(meta.namespace ?? "-")}/${encodeURIComponent(meta.name)}`;
}

/** @param {HTMLElement} main @param {string[]} path @returns {Promise<() => void>} */
export async function objectView(main, [group, plural, namespace, name]) {
  const found = (await discover()).find((it) => (it.group || "core") === group && it.resource === plural);
  if (!found) { replace(main, h("h1", null, name), h("p", null, "The cluster does not serve this kind, or you may not see it.")); return () => {}; }
  const resource = found;
  const ns = namespace === "-" ? undefined : namespace;
  const path = pathOf(resource, ns, name);
  const [why, tabs, body] = [h("p.why", { "aria-live": "polite" }), h("div.tabs", { role: "tablist" }), h("section", { role: "tabpanel" })];
  /** @type {any} */ let object = null;
  /** @type {() => void} */ let leave = () => {};
  let tab = "yaml";

  async function load() {
    try {
      object = await k8s(path);
    } catch (error) {
      object = null;
      replace(why, error instanceof Error ? error.message : String(error));
    }
  }

  /** What the record says about it, in one line. */
  function reason() {
    const mine = state.record.entries.filter((it) => it.type === "reconcile" && it.name === name && (it.namespace ?? "-") === namespace && (!it.kind || it.kind === resource.kind));
    const found = loops(mine)[0];
    const last = mine[mine.length - 1];
    const meta = object?.metadata;
    const wrong = object?.status?.conditions?.find((/** @type {any} */ it) => it.status === "False" && !["Degraded", "Failed", "Progressing", "Stalled"].includes(it.type));
    if (found) return ["bad", `${found.it.controller} triggers itself: ${found.rounds} rounds in ${duration(found.within)}, each by ${found.write}${found.fields.length ? `, which changes ${found.fields.join(", ")} every time` : ""}`];
    if (meta?.deletionTimestamp && meta.finalizers?.length) return ["bad", `Deletion waits for the finalizer ${meta.finalizers.join(", ")}${last && isFailure(last) ? `: ${last.controller} fails: ${last.error}` : ""}`];
    if (last && isFailure(last)) return ["bad", `${last.controller} fails: ${last.error} (tried ${(last.attempt ?? 0) + 1} times${last.again ? `, next in ${duration(last.again)}` : ""})`];
    if (wrong) return ["warn", `Condition ${wrong.type} is not true: ${[wrong.reason, wrong.message].filter(Boolean).join(": ")}`];
    if (last) return ["good", `${last.controller} reconciled it without an error, because of ${causesText(last)}`];
    return ["dim", object ? "No recorded controller has reconciled it." : "There is no such object."];
  }

  function showReason() {
    const [tone, text] = reason();
    why.className = `why ${tone}`;
    replace(why, text);
  }

  const views = {
    yaml: () => editor(),
    managers: () => managers(),
    history: () => history_(),
    events: () => events(),
    timeline: () => life(),
  };

  function editor() {
    const text = /** @type {HTMLTextAreaElement} */ (h("textarea.yaml", { spellcheck: "false", "aria-label": "YAML", value: object ? yaml(editable(object)) : "" }));
    const problems = h("ul.problems", { role: "alert" });
    /** @param {boolean} dry */
    const send = async (dry) => {
      replace(problems);
      try {
        const query = `?fieldManager=${MANAGER}&force=true&fieldValidation=Strict${dry ? "&dryRun=All" : ""}`;
        await k8s(path + query, { method: "PATCH", type: "application/apply-patch+yaml", body: text.value });
        if (dry) replace(problems, h("li.good", null, "The server would accept this."));
        else { toast(`Applied ${resource.kind} ${name}`); await load(); showReason(); }
      } catch (error) {
        const causes = error instanceof Refused && error.causes.length ? error.causes.map((/** @type {any} */ it) => `${it.field}: ${it.message}`) : [error instanceof Error ? error.message : String(error)];
        replace(problems, ...causes.map((/** @type {string} */ it) => h("li", null, it)));
      }
    };
    let timer = 0;
    text.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => send(true), 600); });
    replace(body, text, problems, h("div.row", null, h("button.primary", { onclick: () => send(false) }, "Apply"), h("button.quiet", { onclick: () => send(true) }, "Validate"),
      h("button.quiet", { onclick: async () => { await load(); editor(); } }, "Reload")));
  }

  function managers() {
    const rows = (object?.metadata?.managedFields ?? []).flatMap((/** @type {any} */ it) => leaves(it.fieldsV1 ?? {}, []).map((field) => ({ field, by: it.manager, how: it.operation, part: it.subresource ?? "", at: it.time ?? "" })));
    rows.sort((/** @type {any} */ a, /** @type {any} */ b) => a.field.localeCompare(b.field));
    replace(body, table(["Field", "Manager", "Operation", "Subresource", "Time"], rows, (/** @type {any} */ it) => [h("code", null, it.field), it.by, it.how, it.part, it.at], "Fields and their managers"));
  }

  async function history_() {
    replace(body, h("p.dim", null, "Reading the history …"));
    const versions = await revisions(resource, ns, name);
    if (!versions.length) return replace(body, h("p.dim", null, "The server keeps no history of this object any more."));
    replace(body, h("ol.history", { reversed: true }, versions.map((it, at) => {
      const before = versions[at + 1];
      const text = (/** @type {any} */ v) => yaml({ ...v.object, metadata: { ...v.object.metadata, managedFields: undefined, resourceVersion: undefined } });
      const by = newest(it.object.metadata.managedFields);
      return h("li", null, h("details", at === 0 ? { open: true } : null, h("summary", null, `Revision ${it.object.metadata.resourceVersion} · ${it.type.toLowerCase()}${by ? ` · ${by}` : ""}`),
        h("pre.diff", null, (before ? diff(text(before), text(it)) : text(it).split("\n").map((line) => ({ sign: "+", text: line }))).slice(0, 400)
          .map((line) => h(`span.${line.sign === "+" ? "plus" : line.sign === "-" ? "minus" : "same"}`, null, `${line.sign} ${line.text}\n`)))));
    })));
  }

  async function events() {
    const list = await k8s(`/api/v1/${ns ? `namespaces/${encodeURIComponent(ns)}/` : ""}events?fieldSelector=${encodeURIComponent(`involvedObject.name=${name},involvedObject.kind=${resource.kind}`)}`).catch((error) => ({ items: [], error }));
    replace(body, table(["Type", "Reason", "Message", "From", "Count"], list.items, (/** @type {any} */ it) => [it.type, it.reason, it.message, it.source?.component || it.reportingComponent, it.count ?? it.series?.count ?? 1], "Events"));
  }

  function life() {
    const about = () => state.record.entries.filter((it) => it.type === "reconcile" && ((it.name === name && (it.namespace ?? "-") === namespace) ||
      it.causes?.some((cause) => cause.kind === resource.kind && cause.name === name) || it.requests?.some((sent) => isPluralOf(sent.resource, resource.kind) && sent.name === name)));
    const box = h("div.card", null, h("p.dim", null, "Pick a reconcile to see what it did."));
    const line = timeline(about, (it) => it.controller ?? "", (it) => detail(box, it));
    replace(body, line.element, box);
    leave = line.end;
  }

  function show() {
    leave(); leave = () => {};
    replace(tabs, ...Object.entries({ yaml: "YAML", managers: "Managers", history: "History", events: "Events", timeline: "Timeline" }).map(([id, label]) =>
      h("button", { role: "tab", "aria-selected": String(tab === id), onclick: () => { tab = id; show(); } }, label)));
    views[/** @type {keyof typeof views} */ (tab)]();
  }

  /** @param {string} question @param {() => Promise<any>} act @param {string} done */
  const doing = async (question, act, done) => {
    if (question && !confirm(question)) return;
    try { await act(); toast(done); await load(); showReason(); } catch (error) { toast(error instanceof Error ? error.message : String(error)); }
  };
  await load();
  const scalable = object?.spec && typeof object.spec.replicas === "number";
  const acts = h("div.row.acts", null,
    scalable && h("button.quiet", { onclick: () => { const count = prompt("Replicas", String(object.spec.replicas)); if (count !== null) doing("", () => k8s(path, { method: "PATCH", type: "application/merge-patch+json", body: JSON.stringify({ spec: { replicas: Number(count) } }) }), `Scaled to ${count}`); } }, "Scale"),
    h("button.quiet", { onclick: () => doing("", () => k8s(path, { method: "PATCH", type: "application/merge-patch+json", body: JSON.stringify({ metadata: { annotations: { "evenkeel.dev/reconcile-requested-at": new Date().toISOString() } } }) }), "Asked for a reconcile") }, "Reconcile"),
    h("button.danger", { onclick: () => doing(`Delete ${resource.kind} ${name}?`, () => k8s(path, { method: "DELETE" }), `Deleted ${name}`) }, resource.kind === "Pod" ? "Kill" : "Delete"));
  replace(main, h("p.dim.crumb", null, resource.kind, ns ? ` in ${ns}` : ""), h("div.row.title", null, h("h1", null, name), acts), why, tabs, body);
  showReason();
  show();
  const timer = setInterval(showReason, 1000);
  return () => { clearInterval(timer); leave(); };
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
