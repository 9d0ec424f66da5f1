// @ts-check
// What the page reads and writes: the record, and the objects of the cluster as the logged-in user.

/** @typedef {{path: string, from?: string, to?: string}} Change */
/** @typedef {{at: number, by?: string, verb: string, group?: string, resource: string, subresource?: string, namespace?: string, name?: string, code: number, took: number, revision?: number, changes?: Change[], error?: string}} Sent */
/** @typedef {{what: string, kind?: string, namespace?: string, name?: string}} Cause */
/** @typedef {{type: string, at: number, controller?: string, kind?: string, namespace?: string, name?: string, causes?: Cause[], moreCauses?: number, wait?: number, took?: number, attempt?: number, requests?: Sent[], reads?: any[], outcome?: string, again?: number, error?: string, id?: string, trace?: string, [key: string]: any}} Entry */
/** @typedef {{name: string, started: string, taken: number, bytes: number, bytesMax: number, dropped: number, controllers: any[], watches: any[], entries: Entry[]}} Record_ */
/** @typedef {{group: string, version: string, resource: string, kind: string, namespaced: boolean, verbs: string[]}} Resource */

/** How many entries the page keeps. */
export const ENTRIES_MAX = 60000;

export const state = {
  /** @type {any} */ session: null,
  /** @type {Record_} */ record: { name: "", started: "", taken: 0, bytes: 0, bytesMax: 0, dropped: 0, controllers: [], watches: [], entries: [] },
  live: "connecting",
  /** @type {Resource[]} */ resources: [],
};

/** @type {Set<() => void>} */
const listeners = new Set();
/** @param {() => void} listener @returns {() => void} */
export function onChange(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
function changed() {
  listeners.forEach((it) => it());
}

export class Refused extends Error {
  /** @param {number} code @param {any} status */
  constructor(code, status) {
    super(status?.message ?? `status ${code}`);
    this.code = code;
    this.causes = status?.details?.causes ?? [];
  }
}

/** @param {string} path @param {{method?: string, type?: string, body?: string, accept?: string}} [options] */
export async function call(path, options = {}) {
  /** @type {Record<string, string>} */
  const headers = { "x-evenkeel-page": "1" };
  if (options.type) headers["content-type"] = options.type;
  if (options.accept) headers.accept = options.accept;
  const answer = await fetch(path, { method: options.method ?? "GET", headers, body: options.body });
  if (answer.status === 401 && !path.startsWith("/k8s")) {
    sessionStorage.setItem("evenkeel-view", location.hash);
    location.assign("/");
  }
  const text = await answer.text();
  let value = null;
  try { value = JSON.parse(text); } catch { value = { message: text }; }
  if (!answer.ok) throw new Refused(answer.status, value);
  return value;
}

/** @param {string} path @param {{method?: string, type?: string, body?: string, accept?: string}} [options] */
export function k8s(path, options) {
  return call("/k8s" + path, options);
}

/** @param {Resource} it @param {string | undefined} namespace @param {string} [name] */
export function pathOf(it, namespace, name) {
  const base = it.group ? `/apis/${it.group}/${it.version}` : `/api/${it.version}`;
  const place = it.namespaced && namespace ? `/namespaces/${encodeURIComponent(namespace)}` : "";
  return `${base}${place}/${it.resource}${name ? "/" + encodeURIComponent(name) : ""}`;
}

/** @param {any} record */
function add(record) {
  const kept = state.record.entries;
  kept.push(...record.entries);
  if (kept.length > 1 && record.entries.length && kept[kept.length - record.entries.length - 1]?.at > record.entries[0].at) {
    kept.sort((a, b) => a.at - b.at);
  }
  if (kept.length > ENTRIES_MAX) kept.splice(0, kept.length - ENTRIES_MAX);
  Object.assign(state.record, { ...record, entries: kept });
}

/** Reads the record, follows it, and comes back when the server does. */
export async function follow() {
  for (let pause = 500; ; pause = Math.min(pause * 2, 5000)) {
    try {
      state.session = await call("/session");
      if (state.session.mayReadRecord) {
        state.record = { ...state.record, ...(await call("/record")) };
        state.live = state.session.cluster ? "live" : "saved record";
        changed();
        if (!state.session.cluster) return;
        await stream();
      } else {
        state.live = "no permission to read the record";
        changed();
        return;
      }
      pause = 500;
    } catch (error) {
      if (error instanceof Refused && error.code === 401) return;
    }
    state.live = "connection lost, trying again";
    changed();
    await new Promise((done) => setTimeout(done, pause));
  }
}

async function stream() {
  const answer = await fetch("/record/stream", { headers: { "x-evenkeel-page": "1" } });
  if (!answer.ok || !answer.body) throw new Error("no stream");
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const parts = rest.split("\n\n");
    rest = parts.pop() ?? "";
    for (const part of parts) if (part.startsWith("data: ")) add(JSON.parse(part.slice(6)));
    state.live = "live";
    changed();
  }
}

/** All resources that can be listed. */
export async function discover() {
  if (state.resources.length) return state.resources;
  const groups = await k8s("/apis");
  // The preferred version of a group comes first; another version may have kinds that it lacks.
  const versions = [["", "v1", "/api/v1"], ...groups.groups.flatMap((/** @type {any} */ it) => [it.preferredVersion, ...it.versions.filter((/** @type {any} */ v) => v.version !== it.preferredVersion.version)].map((v) => [it.name, v.version, "/apis/" + v.groupVersion]))];
  const lists = await Promise.all(versions.map(([, , path]) => k8s(path).catch(() => ({ resources: [] }))));
  /** @type {Resource[]} */
  const found = [];
  lists.forEach((list, at) => {
    for (const it of list.resources) {
      if (it.name.includes("/") || !it.verbs.includes("list")) continue;
      if (found.some((other) => other.group === versions[at][0] && other.resource === it.name)) continue;
      found.push({ group: versions[at][0], version: versions[at][1], resource: it.name, kind: it.kind, namespaced: it.namespaced, verbs: it.verbs });
    }
  });
  state.resources = found;
  return found;
}

export const isCustom = (/** @type {Resource} */ it) => it.group.includes(".") && !it.group.endsWith(".k8s.io");
const TREE = new Set(["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "Pod", "Service", "ConfigMap", "Secret", "PersistentVolumeClaim"]);

/** The objects of the tree: custom resources and what they own. Kinds that the user may not list are left out. */
export async function objects() {
  const wanted = (await discover()).filter((it) => isCustom(it) || (TREE.has(it.kind) && ["", "apps", "batch"].includes(it.group)));
  const lists = await Promise.all(wanted.map((it) => {
    // Nothing of a Secret is needed but its metadata.
    const accept = it.kind === "Secret" ? "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1" : undefined;
    return k8s(pathOf(it, undefined), { accept }).then((list) => list.items, () => []);
  }));
  return lists.flatMap((items, at) => items.map((/** @type {any} */ item) => ({ ...item, kind: wanted[at].kind, resource: wanted[at] })));
}
