// @ts-check
// The record in memory, with what the views ask of it: kept up to date with each entry, so that no view has to look at
// all of them again.

import { isFailure, isPluralOf, isWrite, keyOf, summary } from "./questions.js";
import { duration } from "./dom.js";

/** @typedef {import("./api.js").Entry} Entry */
/** @typedef {import("./api.js").Sent} Sent */
/** @typedef {import("./api.js").Change} Change */

/** How many entries are kept; beyond it, the oldest tenth is dropped at once. */
export const ENTRIES_MAX = 60000;

/** How many rounds in a row count as a loop, as in `evenkeel-record`. */
const ROUNDS_MIN = 5;
/** The longest time between two rounds of a loop, in microseconds. */
const ROUND_MAX = 60e6;

/**
 * Entries in order of time, with the longest of them.
 * @typedef {{all: Entry[], failed: Entry[], longest: number}} Lane
 * @typedef {{from: Entry, last: Entry, count: number, sent: Sent, fields: string[], undone: Change | null}} Rounds
 * @typedef {{lane: Lane, controller: string, rounds: Rounds | null, fight: Rounds | null}} Key
 */

/** @returns {Lane} */
const lane = () => ({ all: [], failed: [], longest: 0 });

/** Adds an entry in its place: entries arrive when they end, and are sorted by their start. @param {Entry[]} list @param {Entry} it */
function insert(list, it) {
  let at = list.length;
  while (at > 0 && list[at - 1].at > it.at) at--;
  if (at === list.length) list.push(it); else list.splice(at, 0, it);
}

/** @param {Lane} to @param {Entry} it */
function addTo(to, it) {
  insert(to.all, it);
  if (isFailure(it)) insert(to.failed, it);
  to.longest = Math.max(to.longest, it.took ?? 0, it.wait ?? 0);
}

export class Model {
  constructor() { this.clear(); }

  clear() {
    /** @type {Entry[]} */ this.entries = [];
    /** @type {Lane} */ this.reconciles = lane();
    /** @type {Map<string, Lane & {retried: number, sorted: Float64Array | null}>} */ this.controllers = new Map();
    /** @type {Map<string, Key>} */ this.keys = new Map();
    /** @type {Set<Key>} */ this.looping = new Set();
    /** @type {Set<Key>} */ this.stuck = new Set();
  }

  /** @param {Entry[]} news */
  add(news) {
    if (this.entries.length + news.length > ENTRIES_MAX) {
      const kept = [...this.entries, ...news].slice(-Math.floor(ENTRIES_MAX * 0.9));
      this.clear();
      for (const it of kept) this.#add(it);
    } else for (const it of news) this.#add(it);
  }

  /** @param {Entry} it */
  #add(it) {
    insert(this.entries, it);
    if (it.type !== "reconcile") return;
    addTo(this.reconciles, it);
    const name = it.controller ?? "";
    let mine = this.controllers.get(name);
    if (!mine) this.controllers.set(name, (mine = { ...lane(), retried: 0, sorted: null }));
    addTo(mine, it);
    mine.sorted = null;
    if (it.attempt) mine.retried += 1;
    const id = `${name}\u0000${keyOf(it)}`;
    let key = this.keys.get(id);
    if (!key) this.keys.set(id, (key = { lane: lane(), controller: name, rounds: null, fight: null }));
    const before = key.lane.all[key.lane.all.length - 1];
    addTo(key.lane, it);
    key.rounds = before ? this.#round(key.rounds, before, it) : null;
    key.fight = this.#blow(key.fight, it);
    if ((key.rounds?.count ?? 0) >= ROUNDS_MIN || (key.fight?.count ?? 0) >= ROUNDS_MIN) this.looping.add(key); else this.looping.delete(key);
    if (isFailure(it) && (it.outcome === "failedForGood" || (it.attempt ?? 0) >= 2)) this.stuck.add(key); else this.stuck.delete(key);
  }

  /** The rounds of a key after another reconcile. @param {Rounds | null} rounds @param {Entry} before @param {Entry} after @returns {Rounds | null} */
  #round(rounds, before, after) {
    const sent = after.at - before.at <= ROUND_MAX ? before.requests?.find((it) => wakes(it, after)) : undefined;
    if (!sent) return null;
    const paths = (sent.changes ?? []).map((it) => it.path);
    if (!rounds) return { from: before, last: before, count: 1, sent, fields: paths, undone: undoable(sent) };
    // A write that creates a whole part of the object names only that part.
    const covers = (/** @type {string} */ path) => paths.some((it) => path === it || path.startsWith(`${it}.`));
    const common = rounds.fields.filter(covers), finer = paths.filter((path) => rounds.fields.some((it) => path.startsWith(`${it}.`)));
    const fields = [...new Set([...common.filter((path) => !finer.some((it) => it.startsWith(`${path}.`))), ...finer])];
    const { undone } = rounds;
    const still = undone && sent.changes?.some((it) => it.path === undone.path && it.from === undone.from && it.to === undone.to);
    return { from: rounds.from, last: before, count: rounds.count + 1, sent, fields, undone: still ? undone : null };
  }

  /** The writes of a key that make the same change again and again, after another reconcile. @param {Rounds | null} fight @param {Entry} it @returns {Rounds | null} */
  #blow(fight, it) {
    const sent = it.requests?.findLast((one) => one.code > 0 && one.code < 400 && undoable(one));
    const change = sent && undoable(sent);
    if (!sent || !change) return fight;
    // A phase that goes to and fro within one operator is no fight.
    if (it.requests?.some((one) => one.changes?.some((other) => other.path === change.path && other.from === change.to && other.to === change.from))) return null;
    const same = fight?.undone && it.at - fight.last.at <= ROUND_MAX && fight.undone.path === change.path && fight.undone.from === change.from && fight.undone.to === change.to;
    if (fight && same) return { ...fight, last: it, count: fight.count + 1, sent };
    return { from: it, last: it, count: 1, sent, fields: [change.path], undone: change };
  }

  /** The p50, p90 and p99 of how long a controller's reconciles take. @param {string} name @returns {number[]} */
  percentiles(name) {
    const mine = this.controllers.get(name);
    if (!mine) return [NaN, NaN, NaN];
    mine.sorted ??= Float64Array.from(mine.all, (it) => it.took ?? 0).sort();
    const sorted = mine.sorted;
    return [50, 90, 99].map((percent) => sorted[Math.max(0, Math.ceil((sorted.length * percent) / 100) - 1)]);
  }

  /** The loops, the longest first. @returns {{it: Entry, text: string, rounds: number}[]} */
  loops() {
    const end = this.entries.length ? this.entries[this.entries.length - 1].at : 0;
    const found = [...this.looping].flatMap((key) => {
      const rounds = (key.rounds?.count ?? 0) >= ROUNDS_MIN ? key.rounds : key.fight;
      // A fight that has ended is not told by a reconcile.
      if (!rounds || (rounds === key.fight && end - rounds.last.at > ROUND_MAX)) return [];
      return [{ it: rounds.last, rounds: rounds.count, text: this.#tell(key, rounds) }];
    });
    return found.sort((a, b) => b.rounds - a.rounds);
  }

  /** @param {Key} key @param {Rounds} rounds */
  #tell(key, rounds) {
    const { from, last, count, sent, fields, undone } = rounds;
    const took = duration(last.at + (last.took ?? 0) - from.at), write = summary(sent);
    if (undone) {
      const rival = this.#rival(key, rounds) || "another client";
      return `${key.controller} and ${rival} undo each other's changes for ${keyOf(last)}: ${count} rounds in ${took}, ${write} changes ${undone.path} ${undone.from} → ${undone.to}, and ${rival} changes it back every time`;
    }
    return `${key.controller} triggers itself for ${keyOf(last)}: ${count} rounds in ${took}, each by ${write}${fields.length ? `, which changes ${fields.join(", ")} every time` : ""}`;
  }

  /** Who else wrote the object of a loop meanwhile. @param {Key} key @param {Rounds} rounds */
  #rival(key, rounds) {
    const { from, last, sent } = rounds;
    const same = (/** @type {Sent} */ it) => (it.revision ?? 0) > 0 && it.resource === sent.resource && it.name === sent.name && it.namespace === sent.namespace;
    for (let at = this.entries.length - 1; at >= 0 && this.entries[at].at >= from.at; at--) {
      const it = this.entries[at];
      if (it.at > last.at + (last.took ?? 0)) continue;
      if (it.type === "reconcile" && it.controller !== key.controller && it.requests?.some(same)) return it.controller;
      if (it.type === "request" && same(/** @type {any} */ (it))) return it.by;
    }
    return "";
  }

  /** The last reconciles of the keys that keep failing, those with the most failures first. @returns {Entry[]} */
  failing() {
    const last = [...this.stuck].map((key) => key.lane.all[key.lane.all.length - 1]);
    return last.sort((a, b) => (b.attempt ?? 0) - (a.attempt ?? 0));
  }
}

/** Whether a write caused this reconcile. @param {Sent} sent @param {Entry} after */
function wakes(sent, after) {
  const wrote = isWrite(sent) && sent.code > 0 && sent.code < 400 && ((sent.revision ?? 0) > 0 || (sent.changes ?? []).length > 0);
  return wrote && (after.causes ?? []).some((it) => isPluralOf(sent.resource, it.kind) && it.name === sent.name);
}

/** The first change of a write whose values are known, so that it can be seen to be undone. @param {Sent} sent @returns {Change | null} */
function undoable(sent) {
  return sent.changes?.find((it) => it.from !== undefined && it.to !== undefined && it.from !== it.to) ?? null;
}
