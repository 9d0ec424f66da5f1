// @ts-check
// The timeline: reconciles on a zoomable axis, one lane for each controller or key, drawn on a canvas.

import { duration, h, replace } from "./dom.js";
import { causesText, indexAt, isFailure, keyOf, summary } from "./questions.js";

/** @typedef {import("./api.js").Entry} Entry */

const LANE = 26;
const HEAD = 28;
const LABEL = 150;
const LANES_MAX = 40;

/**
 * @param {() => Entry[]} entriesOf what to draw
 * @param {(it: Entry) => string} laneOf
 * @param {(it: Entry) => void} onPick
 */
export function timeline(entriesOf, laneOf, onPick) {
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas.timeline", { tabindex: "0", role: "img", "aria-label": "Timeline of reconciles. Plus and minus zoom, arrows move, End follows what is new." }));
  const note = h("p.dim.note", { "aria-live": "polite" });
  const view = { from: 0, to: 1, follows: true };
  /** @type {string[]} */ let lanes = [];
  /** @type {{x: number, y: number, w: number, it: Entry}[]} */ let drawn = [];
  let asked = false;
  /** @type {number | null} */ let drag = null;

  const css = (/** @type {string} */ name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const width = () => canvas.clientWidth || 600;
  const plot = () => width() - (width() > 520 ? LABEL : 0);
  const left = () => width() - plot();

  function fit() {
    const all = entriesOf();
    const end = all.length ? all[all.length - 1].at + (all[all.length - 1].took ?? 0) : 1;
    const start = all.length ? all[0].at : 0;
    if (view.follows) {
      const span = view.to - view.from > 1 ? view.to - view.from : Math.max(1000, end - start);
      view.to = end + span * 0.02;
      view.from = view.to - span;
    }
  }

  function draw() {
    asked = false;
    const all = entriesOf();
    fit();
    const names = new Map();
    for (const it of all) names.set(laneOf(it), (names.get(laneOf(it)) ?? 0) + 1);
    lanes = [...names].sort((a, b) => b[1] - a[1]).slice(0, LANES_MAX).map(([name]) => name).sort();
    const scale = devicePixelRatio || 1;
    const height = HEAD + Math.max(1, lanes.length) * LANE + 6;
    canvas.width = width() * scale;
    canvas.height = height * scale;
    canvas.style.height = `${height}px`;
    const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    pen.scale(scale, scale);
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    const [ink, dim, line, good, bad, busy] = ["--ink", "--dim", "--line", "--good", "--bad", "--warn"].map(css);
    const x = (/** @type {number} */ at) => left() + ((at - view.from) / (view.to - view.from)) * plot();
    axis(pen, dim, line, x, height);
    lanes.forEach((name, at) => {
      const y = HEAD + at * LANE + LANE / 2;
      pen.fillStyle = line;
      pen.fillRect(left(), y + LANE / 2 - 1, plot(), 1);
      pen.fillStyle = dim;
      const text = name.length > 22 ? name.slice(0, 21) + "…" : name;
      if (left()) pen.fillText(text, 4, y);
    });
    drawn = [];
    const laneAt = new Map(lanes.map((name, at) => [name, at]));
    // One bar for each pixel of a lane is enough to see.
    const last = new Float64Array(lanes.length).fill(-1e9);
    for (let at = indexAt(all, view.from - 60e6); at < all.length && all[at].at <= view.to; at++) {
      const it = all[at], lane = laneAt.get(laneOf(it));
      if (lane === undefined || it.at + (it.took ?? 0) < view.from) continue;
      const begin = x(it.at), w = Math.max(3, x(it.at + (it.took ?? 0)) - begin);
      if (begin - last[lane] < 1 && !isFailure(it)) continue;
      last[lane] = begin;
      const y = HEAD + lane * LANE + 6, clipped = Math.max(left(), begin);
      if (it.wait && it.wait > 0) {
        pen.fillStyle = line;
        const ready = Math.max(left(), x(it.at - it.wait));
        pen.fillRect(ready, y + 5, Math.max(0, clipped - ready), 4);
      }
      pen.fillStyle = isFailure(it) ? bad : it.requests?.some((sent) => sent.revision) ? busy : good;
      pen.beginPath();
      pen.roundRect(clipped, y, Math.max(2, w - (clipped - begin)), LANE - 12, 2);
      pen.fill();
      drawn.push({ x: clipped, y, w: Math.max(4, w), it });
    }
    if (!all.length) { pen.fillStyle = ink; pen.fillText("Nothing is recorded yet.", left() + 12, HEAD + 14); }
    note.textContent = `${all.length} reconciles, ${duration(view.to - view.from)} shown${view.follows ? ", following" : ""}`;
  }

  /** @param {CanvasRenderingContext2D} pen @param {string} dim @param {string} line @param {(at: number) => number} x @param {number} height */
  function axis(pen, dim, line, x, height) {
    const span = view.to - view.from;
    const rough = span / Math.max(2, Math.floor(plot() / 110));
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((it) => it * power).find((it) => it >= rough) ?? rough;
    for (let at = Math.ceil(view.from / step) * step; at < view.to; at += step) {
      const px = x(at);
      if (px < left()) continue;
      pen.fillStyle = line;
      pen.fillRect(px, HEAD - 6, 1, height);
      pen.fillStyle = dim;
      pen.fillText(duration(Math.max(0, at)), px + 4, 12);
    }
  }

  function redraw() {
    if (!asked) { asked = true; requestAnimationFrame(draw); }
  }

  /** @param {number} factor @param {number} [around] */
  function zoom(factor, around = 0.5) {
    const span = view.to - view.from, at = view.from + span * around;
    const next = Math.min(Math.max(span * factor, 100), 1e13);
    view.from = at - next * around;
    view.to = view.from + next;
    if (around !== 1) view.follows = false;
    redraw();
  }
  /** @param {number} part */
  function move(part) {
    const by = (view.to - view.from) * part;
    view.from += by; view.to += by; view.follows = false;
    redraw();
  }

  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) move(event.deltaX / plot());
    else zoom(event.deltaY > 0 ? 1.25 : 0.8, (event.offsetX - left()) / plot());
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => { drag = event.offsetX; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", (event) => {
    if (drag === null || !event.buttons) return;
    if (Math.abs(event.offsetX - drag) < 2) return;
    move((drag - event.offsetX) / plot());
    drag = event.offsetX;
  });
  canvas.addEventListener("pointerup", () => { drag = null; });
  canvas.addEventListener("click", (event) => {
    const hit = drawn.findLast((it) => event.offsetX >= it.x - 2 && event.offsetX <= it.x + it.w + 2 && event.offsetY >= it.y - 4 && event.offsetY <= it.y + LANE - 8);
    if (hit) onPick(hit.it);
  });
  canvas.addEventListener("keydown", (event) => {
    const act = { "+": () => zoom(0.7), "=": () => zoom(0.7), "-": () => zoom(1.4), ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), End: () => { view.follows = true; redraw(); }, Home: () => { view.follows = true; view.to = view.from = 0; redraw(); } }[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  const resized = new ResizeObserver(redraw);
  resized.observe(canvas);
  const buttons = h("div.row", null,
    h("button.quiet", { onclick: () => zoom(0.6), "aria-label": "Zoom in" }, "+"),
    h("button.quiet", { onclick: () => zoom(1.7), "aria-label": "Zoom out" }, "−"),
    h("button.quiet", { onclick: () => { view.follows = true; view.from = view.to = 0; redraw(); } }, "All"),
    h("button.quiet", { onclick: () => { view.follows = true; redraw(); } }, "Follow"), note);
  redraw();
  return { element: h("div.card.wide", null, buttons, canvas), redraw, end: () => resized.disconnect() };
}

/** One reconcile in full. @param {HTMLElement} box @param {Entry} it */
export function detail(box, it) {
  const change = (/** @type {any} */ c) => c.path + (c.from !== undefined || c.to !== undefined ? ` ${c.from ?? "none"} → ${c.to ?? "none"}` : "");
  replace(box,
    h("h2", null, `${it.controller} reconciled ${keyOf(it)}`),
    h("p", null, h("b", null, "Because of "), causesText(it) || "no cause"),
    h("p.dim", null, `at ${duration(it.at)}, waited ${duration(it.wait ?? 0)}, took ${duration(it.took ?? 0)}${it.attempt ? `, attempt ${it.attempt + 1}` : ""}${it.again !== undefined ? `, again in ${duration(it.again)}` : ""}${it.id ? `, id ${it.id}` : ""}${it.trace ? `, trace ${it.trace}` : ""}`),
    it.error ? h("p.wrong", { role: "alert" }, it.error) : null,
    (it.reads ?? []).length ? h("p", null, h("b", null, "Read "), it.reads?.map((r) => `${r.kind} ${r.name} at ${r.revision}`).join(", ")) : null,
    h("ul.requests", null, (it.requests ?? []).map((sent) => h(`li${sent.code >= 400 || !sent.code ? ".wrong" : ""}`, null,
      h("code", null, summary(sent)), ` → ${sent.code || "no answer"}${sent.revision ? `, revision ${sent.revision}` : ""}, ${duration(sent.took)}`,
      (sent.changes ?? []).length ? h("div.dim", null, "changed " + sent.changes?.map(change).join(", ")) : null,
      sent.error ? h("div", null, sent.error) : null))));
}
