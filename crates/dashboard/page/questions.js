// @ts-check
// What an entry of the record says, in the words of `evenkeel-record`.

/** @typedef {import("./api.js").Entry} Entry */
/** @typedef {import("./api.js").Sent} Sent */

export const keyOf = (/** @type {Entry} */ it) => (it.namespace ? `${it.namespace}/${it.name}` : it.name ?? "");
export const causeText = (/** @type {import("./api.js").Cause} */ it) => it.kind ? `${it.kind} ${it.namespace ? it.namespace + "/" : ""}${it.name} ${it.what}` : it.what;
export const causesText = (/** @type {Entry} */ it) => (it.causes ?? []).map(causeText).join(", ") + (it.moreCauses ? ` and ${it.moreCauses} more` : "");
export const isFailure = (/** @type {Entry} */ it) => it.outcome === "failed" || it.outcome === "failedForGood";
export const isWrite = (/** @type {Sent} */ it) => ["create", "update", "patch", "apply", "delete", "deletecollection"].includes(it.verb);
export const hasWritten = (/** @type {Entry} */ it) => Boolean(it.requests?.some((sent) => sent.revision));
export const summary = (/** @type {Sent} */ it) => `${it.verb} ${[it.resource, it.name, it.subresource].filter(Boolean).join("/")}${it.namespace && it.namespace !== "default" ? ` in ${it.namespace}` : ""}`;

/** @param {string} resource @param {string} [kind] */
export function isPluralOf(resource, kind) {
  const one = (kind ?? "").toLowerCase();
  return Boolean(one) && [one, one + "s", one + "es", one.replace(/y$/, "ies")].includes(resource);
}

/** The first entry at or after a time, from an index on, by bisection. @param {Entry[]} entries @param {number} at @param {number} from @returns {number} */
export function indexAt(entries, at, from = 0) {
  let low = from, high = entries.length;
  while (low < high) { const mid = (low + high) >> 1; if (entries[mid].at < at) low = mid + 1; else high = mid; }
  return low;
}
