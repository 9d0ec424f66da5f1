// @ts-check
// Questions over the record, as `evenkeel-record` answers them.

/** @typedef {import("./api.js").Entry} Entry */
/** @typedef {import("./api.js").Sent} Sent */

export const keyOf = (/** @type {Entry} */ it) => (it.namespace ? `${it.namespace}/${it.name}` : it.name ?? "");
export const causeText = (/** @type {import("./api.js").Cause} */ it) => it.kind ? `${it.kind} ${it.namespace ? it.namespace + "/" : ""}${it.name} ${it.what}` : it.what;
export const causesText = (/** @type {Entry} */ it) => (it.causes ?? []).map(causeText).join(", ") + (it.moreCauses ? ` and ${it.moreCauses} more` : "");
export const isFailure = (/** @type {Entry} */ it) => it.outcome === "failed" || it.outcome === "failedForGood";
export const isWrite = (/** @type {Sent} */ it) => ["create", "update", "patch", "apply", "delete", "deletecollection"].includes(it.verb);
export const summary = (/** @type {Sent} */ it) => `${it.verb} ${[it.resource, it.name, it.subresource].filter(Boolean).join("/")}${it.namespace && it.namespace !== "default" ? ` in ${it.namespace}` : ""}`;

/** @param {string} resource @param {string} [kind] */
export function isPluralOf(resource, kind) {
  const one = (kind ?? "").toLowerCase();
  return Boolean(one) && [one, one + "s", one + "es", one.replace(/y$/, "ies")].includes(resource);
}

const ROUNDS_MIN = 5;
const ROUND_MAX = 60e6;

/**
 * Answers a question once for each state of a list: entries are only added at the end and dropped at the beginning.
 * @template T @param {(entries: Entry[]) => T} question @returns {(entries: Entry[]) => T}
 */
function once(question) {
  /** @type {{first: Entry | undefined, last: Entry | undefined, length: number, answer: T} | null} */
  let kept = null;
  return (entries) => {
    const [first, last, length] = [entries[0], entries[entries.length - 1], entries.length];
    if (!kept || kept.first !== first || kept.last !== last || kept.length !== length) kept = { first, last, length, answer: question(entries) };
    return kept.answer;
  };
}

/** Keys whose reconciles trigger one another. */
export const loops = once(findLoops);
/** Keys whose last attempts failed. */
export const stuck = once(findStuck);
/** The reconciles among entries. */
export const reconcilesOf = once((entries) => entries.filter((it) => it.type === "reconcile"));

/** @param {Entry[]} entries */
function findLoops(entries) {
  /** @type {Map<string, Entry[]>} */
  const byKey = new Map();
  for (const it of entries) if (it.type === "reconcile") {
    const key = `${it.controller}\u0000${keyOf(it)}`;
    const list = byKey.get(key);
    if (list) list.push(it); else byKey.set(key, [it]);
  }
  const found = [];
  for (const all of byKey.values()) {
    /** @type {{it: Entry, sent: Sent}[]} */
    const rounds = [];
    for (let at = all.length - 2; at >= 0; at--) {
      const [before, after] = [all[at], all[at + 1]];
      const sent = after.at - before.at <= ROUND_MAX && before.requests?.find((sent) => wakes(sent, after));
      if (!sent) break;
      rounds.push({ it: before, sent });
    }
    if (rounds.length < ROUNDS_MIN) continue;
    const [{ it, sent }] = rounds;
    const fields = (sent.changes ?? []).map((it) => it.path).filter((path) => rounds.every((round) => round.sent.changes?.some((it) => it.path === path)));
    const within = it.at + (it.took ?? 0) - rounds[rounds.length - 1].it.at;
    found.push({ it, rounds: rounds.length, within, write: summary(sent), fields });
  }
  return found.sort((a, b) => b.rounds - a.rounds);
}

/** @param {Sent} sent @param {Entry} after */
function wakes(sent, after) {
  const wrote = isWrite(sent) && sent.code > 0 && sent.code < 400 && ((sent.revision ?? 0) > 0 || (sent.changes ?? []).length > 0);
  return wrote && (after.causes ?? []).some((it) => isPluralOf(sent.resource, it.kind) && it.name === sent.name);
}

/** @param {Entry[]} entries */
function findStuck(entries) {
  /** @type {Map<string, Entry>} */
  const last = new Map();
  for (const it of entries) if (it.type === "reconcile") last.set(`${it.controller}\u0000${keyOf(it)}`, it);
  return [...last.values()].filter((it) => isFailure(it) && (it.outcome === "failedForGood" || (it.attempt ?? 0) >= 2))
    .sort((a, b) => (b.attempt ?? 0) - (a.attempt ?? 0));
}

/** @param {number[]} all @param {number} percent */
export function percentile(all, percent) {
  if (!all.length) return NaN;
  const sorted = [...all].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil((sorted.length * percent) / 100) - 1)];
}

/** The first entry at or after a time, by bisection. @param {Entry[]} entries @param {number} at */
export function indexAt(entries, at) {
  let low = 0, high = entries.length;
  while (low < high) { const mid = (low + high) >> 1; if (entries[mid].at < at) low = mid + 1; else high = mid; }
  return low;
}
