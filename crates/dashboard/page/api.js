// @ts-check
// What the page reads and writes: the record, and the objects of the cluster as the logged-in user.

import { Model } from "./model.js";

/** @typedef {{path: string, from?: string, to?: string}} Change */
/** @typedef {{at: number, by?: string, verb: string, group?: string, resource: string, subresource?: string, namespace?: string, name?: string, code: number, took: number, revision?: number, changes?: Change[], error?: string}} Sent */
/** @typedef {{what: string, kind?: string, namespace?: string, name?: string}} Cause */
/** @typedef {{type: string, at: number, controller?: string, kind?: string, namespace?: string, name?: string, causes?: Cause[], moreCauses?: number, wait?: number, took?: number, attempt?: number, requests?: Sent[], reads?: any[], outcome?: string, again?: number, error?: string, id?: string, trace?: string, [key: string]: any}} Entry */
/** @typedef {{name: string, started: string, taken: number, bytes: number, bytesMax: number, dropped: number, controllers: any[], watches: any[]}} Head */
/** @typedef {{group: string, version: string, resource: string, kind: string, namespaced: boolean, verbs: string[]}} Resource */

/** How many objects are asked for at once: reading more would hold up the page. */
const LIST_PAGE = 500;

export const state = {
  /** @type {any} */ session: null,
  /** @type {Head} What the record says besides its entries. */ record: { name: "", started: "", taken: 0, bytes: 0, bytesMax: 0, dropped: 0, controllers: [], watches: [] },
  model: new Model(),
  live: "connecting",
  /** @type {Resource[]} */ resources: [],
};

/** When the last news came, by the browser's clock in milliseconds. */
let heard = 0;

/** The time of the record now, in microseconds since its start: that of the last news, and what has passed since. */
export function now() {
  return state.record.taken + (state.live === "live" && heard ? (performance.now() - heard) * 1000 : 0);
}

/** @type {Set<(news: Entry[]) => void>} */
const listeners = new Set();
/** @param {(news: Entry[]) => void} listener @returns {() => void} */
export function onChange(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
/** @param {Entry[]} [news] */
function changed(news = []) {
  listeners.forEach((it) => it(news));
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

/** @param {string} path @param {any} body */
export function post(path, body) {
  return call(path, { method: "POST", type: "application/json", body: JSON.stringify(body) });
}

/** @param {Resource} it @param {string | undefined} namespace @param {string} [name] */
export function pathOf(it, namespace, name) {
  const base = it.group ? `/apis/${it.group}/${it.version}` : `/api/${it.version}`;
  const place = it.namespaced && namespace ? `/namespaces/${encodeURIComponent(namespace)}` : "";
  return `${base}${place}/${it.resource}${name ? "/" + encodeURIComponent(name) : ""}`;
}

/** All objects of a kind, in pages, so that the page answers in between. @param {string} path @param {string} [accept] @returns {Promise<any[]>} */
export async function list(path, accept) {
  const all = [];
  let token = "";
  do {
    const sign = path.includes("?") ? "&" : "?";
    const page = await k8s(`${path}${sign}limit=${LIST_PAGE}${token ? `&continue=${encodeURIComponent(token)}` : ""}`, { accept });
    for (const it of page.items) all.push(it);
    token = page.metadata?.continue ?? "";
  } while (token);
  return all;
}

/** @param {any} record */
function add(record) {
  const { entries, ...head } = record;
  state.model.add(entries);
  Object.assign(state.record, head);
  heard = performance.now();
  return entries;
}

/** Reads the record, follows it, and comes back when the server does. */
export async function follow() {
  for (let pause = 500; ; pause = Math.min(pause * 2, 5000)) {
    try {
      state.session = await call("/session");
      if (!state.session.mayReadRecord) {
        state.live = "no permission to read the record";
        return changed();
      }
      if (state.session.saved) {
        state.model.clear();
        state.live = "saved record";
        return changed(add(await call("/record")));
      }
      changed();
      await stream();
      pause = 500;
    } catch (error) {
      if (error instanceof Refused && error.code === 401) return;
    }
    state.live = "connection lost, trying again";
    changed();
    await new Promise((done) => setTimeout(done, pause));
  }
}

/** Follows the record. The first event is the whole record. */
async function stream() {
  const answer = await fetch("/record/stream", { headers: { "x-evenkeel-page": "1" } });
  if (!answer.ok || !answer.body) throw new Error("no stream");
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  /** @type {string[]} */
  let parts = [];
  let first = true;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    // An event may be large, and come in many pieces: only the new one is searched for the end.
    const [end, ...more] = value.split("\n\n");
    parts.push(end);
    for (const next of more) {
      const text = parts.join("");
      parts = [next];
      if (!text.startsWith("data: ")) continue;
      if (first) state.model.clear();
      first = false;
      const news = add(JSON.parse(text.slice(6)));
      state.live = "live";
      changed(news);
    }
  }
}

/** @type {Promise<Resource[]> | null} */
let discovering = null;
let discoveredAt = 0;
/** How long the kinds of the cluster are remembered, in milliseconds. */
const DISCOVERY_MAX_AGE = 15000;

/** All resources that can be listed. */
export async function discover() {
  if (state.session?.cluster === false) return [];
  if (discovering && performance.now() - discoveredAt < DISCOVERY_MAX_AGE) return discovering;
  discoveredAt = performance.now();
  discovering = readResources();
  discovering.catch(() => { discovering = null; });
  return discovering;
}

async function readResources() {
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
