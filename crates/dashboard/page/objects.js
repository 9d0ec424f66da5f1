// @ts-check
// The objects that the views show, reduced to what they show of them. Kinds are listed once; later only what the record
// says was written is read again.

import { discover, isCustom, k8s, list, onChange, pathOf, state } from "./api.js";
import { isWrite } from "./questions.js";

/** @typedef {import("./api.js").Resource} Resource */
/** @typedef {{uid: string, kind: string, namespace: string, name: string, resource: Resource, owners: string[], tone: string, text: string, node: string}} Item */

const SHOWN = new Set(["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "Pod", "Service", "ConfigMap", "Secret", "PersistentVolumeClaim", "Node"]);
/** How many written objects of one kind are read one by one; for more of them, the kind is listed. */
const SINGLE_MAX = 12;
/** The shortest time between two refreshes, in milliseconds; one that took long makes the next one wait ten times as long. */
const REFRESH_MIN = 800;
/** How often all kinds are listed again, in milliseconds: writes that the record does not show are seen then. */
const LIST_EVERY = 20000;
const METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/** The objects of one kind, by namespace and name. @type {Map<string, {resource: Resource, items: Map<string, Item>}>} */
const kinds = new Map();
/** What was written since the last refresh, by plural: the names, or null if they are not all known. @type {Map<string, Set<string> | null>} */
const written = new Map();
let listedAt = -Infinity;

/** What an object's status says, and how good it is. @param {any} it @returns {[string, string]} */
export function health(it) {
  if (it.metadata.deletionTimestamp) return ["warn", "being deleted"];
  const conditions = it.status?.conditions ?? [];
  const failed = conditions.find((/** @type {any} */ c) => ["ReplicaFailure", "Failed", "Stalled", "Degraded"].includes(c.type) && c.status === "True");
  if (failed) return ["bad", `${failed.type}: ${failed.reason ?? ""}`];
  const waiting = [...(it.status?.initContainerStatuses ?? []), ...(it.status?.containerStatuses ?? [])].find((c) => /BackOff|Err|Invalid/.test(c.state?.waiting?.reason ?? ""));
  if (waiting) return ["bad", waiting.state.waiting.reason];
  const ready = conditions.find((/** @type {any} */ c) => ["Ready", "Available", "Complete"].includes(c.type));
  if (ready) return ready.status === "True" ? ["good", ready.type] : ["warn", `${ready.type}: ${ready.reason ?? ready.status}`];
  if (it.status?.phase) return [["Running", "Ready", "Succeeded", "Bound", "Active"].includes(it.status.phase) ? "good" : "warn", it.status.phase];
  if (typeof it.spec?.replicas === "number" && it.status) { const r = it.status.readyReplicas ?? 0; return [r === it.spec.replicas ? "good" : "warn", `${r}/${it.spec.replicas} ready`]; }
  return ["dim", ""];
}

/** @param {any} it @param {Resource} resource @returns {Item} */
function reduce(it, resource) {
  const [tone, text] = health(it), meta = it.metadata;
  return { uid: meta.uid, kind: resource.kind, namespace: meta.namespace ?? "", name: meta.name, resource, owners: (meta.ownerReferences ?? []).map((/** @type {any} */ owner) => owner.uid), tone, text, node: it.spec?.nodeName ?? "" };
}

const keyOf = (/** @type {{namespace?: string, name?: string}} */ it) => `${it.namespace ?? ""}/${it.name ?? ""}`;

onChange((news) => {
  for (const entry of news) {
    const all = entry.type === "request" ? [/** @type {any} */ (entry)] : entry.requests ?? [];
    for (const sent of all) if (isWrite(sent) && sent.revision) note(sent);
  }
});

/** @param {import("./api.js").Sent} sent */
function note(sent) {
  const names = written.get(sent.resource);
  if (names === null) return;
  if (!sent.name || sent.name.includes("…")) written.set(sent.resource, null);
  else if (names) names.add(keyOf(sent)); else written.set(sent.resource, new Set([keyOf(sent)]));
}

/** @param {Resource} resource */
async function listKind(resource) {
  // Nothing of a Secret or a ConfigMap is needed but its metadata.
  const accept = ["Secret", "ConfigMap"].includes(resource.kind) ? METADATA : undefined;
  const items = await list(pathOf(resource, undefined), accept).catch(() => []);
  kinds.set(`${resource.group}/${resource.resource}`, { resource, items: new Map(items.map((it) => [keyOf(it.metadata), reduce(it, resource)])) });
}

/** @param {Resource} resource @param {Set<string>} names */
async function readSome(resource, names) {
  const known = kinds.get(`${resource.group}/${resource.resource}`);
  if (!known) return listKind(resource);
  await Promise.all([...names].map(async (key) => {
    const [namespace, name] = key.split("/");
    const it = await k8s(pathOf(resource, namespace || undefined, name)).catch(() => null);
    if (it) known.items.set(key, reduce(it, resource)); else known.items.delete(key);
  }));
}

/** Reads what has changed. @returns {Promise<boolean>} whether anything was read */
async function refresh() {
  const wanted = (await discover()).filter((it) => isCustom(it) || (SHOWN.has(it.kind) && ["", "apps", "batch"].includes(it.group)));
  const all = performance.now() - listedAt > LIST_EVERY;
  if (all) { listedAt = performance.now(); written.clear(); }
  const work = wanted.filter((it) => all || written.has(it.resource) || !kinds.has(`${it.group}/${it.resource}`)).map((it) => {
    const names = all ? null : written.get(it.resource);
    return names && names.size <= SINGLE_MAX ? readSome(it, names) : listKind(it);
  });
  written.clear();
  await Promise.all(work);
  return work.length > 0;
}

/** All objects that are known. */
export const items = () => [...kinds.values()].flatMap((it) => [...it.items.values()]);

/** Keeps the objects up to date while a view shows them. @param {() => void} onNews @returns {() => void} */
export function keep(onNews) {
  let ended = false;
  const run = async () => {
    for (let first = true; !ended; first = false) {
      const begun = performance.now();
      const news = document.hidden && !first ? false : await refresh().catch(() => false);
      if (ended) return;
      if (news || first) onNews();
      await new Promise((done) => setTimeout(done, Math.max(REFRESH_MIN, 10 * (performance.now() - begun))));
    }
  };
  if (state.session?.cluster !== false) run();
  return () => { ended = true; };
}
