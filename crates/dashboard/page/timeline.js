// @ts-check
// The timeline: reconciles on a zoomable axis, one lane for each controller or key, drawn on a canvas.

import { now } from "./api.js";
import { css, duration, h, replace, setText } from "./dom.js";
import { causesText, hasWritten, indexAt, isFailure, keyOf, summary } from "./questions.js";

/** @typedef {import("./api.js").Entry} Entry */
/** @typedef {import("./model.js").Lane} Lane */

const LANE = 26;
const HEAD = 28;
const LABEL = 190;
const LANES_MAX = 40;

/**
 * @param {() => [string, Lane][]} lanesOf what to draw, by the name of its lane
 * @param {(it: Entry) => void} onPick
 */
export function timeline(lanesOf, onPick) {
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas.timeline", { tabindex: "0", role: "img", "aria-label": "Timeline of reconciles. Plus and minus zoom, arrows move, Enter picks the newest one shown, End follows what is new." }));
  const note = h("p.dim.note");
  const view = { from: 0, to: 1, follows: true, whole: true };
  /** @type {{x: number, y: number, w: number, it: Entry}[]} */ let drawn = [];
  let asked = false;
  /** @type {number | null} */ let drag = null;
  // Measured when it changes: to ask for it makes the browser lay out the page.
  let width = 600, left = 0;
  const plot = () => width - left;

  /** @param {[string, Lane][]} lanes */
  function fit(lanes) {
    const full = lanes.filter(([, lane]) => lane.all.length);
    const start = Math.min(...full.map(([, lane]) => lane.all[0].at));
    const end = Math.max(now(), ...full.map(([, lane]) => lane.all[lane.all.length - 1].at));
    if (!full.length || !view.follows) return;
    const span = view.whole ? Math.max(1000, (end - start) * 1.04) : view.to - view.from;
    view.to = end + span * 0.02;
    view.from = view.to - span;
  }

  function draw() {
    asked = false;
    const every = lanesOf();
    const lanes = every.length > LANES_MAX ? [...every].sort((a, b) => b[1].all.length - a[1].all.length).slice(0, LANES_MAX) : every;
    lanes.sort((a, b) => (a[0] < b[0] ? -1 : 1));
    fit(lanes);
    const scale = devicePixelRatio || 1, height = HEAD + Math.max(1, lanes.length) * LANE + 6;
    if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
    if (canvas.height !== Math.round(height * scale)) { canvas.height = Math.round(height * scale); canvas.style.height = `${height}px`; }
    const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = "12.5px system-ui, sans-serif";
    pen.textBaseline = "middle";
    const colours = { dim: css("--dim"), line: css("--line"), good: css("--good"), bad: css("--bad"), busy: css("--busy") };
    axis(pen, colours, height);
    drawn = [];
    let count = 0;
    lanes.forEach(([name, lane], at) => {
      const y = HEAD + at * LANE;
      pen.fillStyle = colours.line;
      pen.fillRect(left, y + LANE - 1, plot(), 1);
      pen.fillStyle = colours.dim;
      if (left) pen.fillText(shorten(pen, name), 4, y + LANE / 2);
      bars(pen, colours, lane.all, lane.longest, y);
      // Failures are never hidden behind what succeeded.
      bars(pen, colours, lane.failed, lane.longest, y);
      count += lane.all.length;
    });
    if (!count) { pen.fillStyle = colours.dim; pen.fillText("Nothing is recorded yet.", left + 12, HEAD + 14); }
    setText(note, `${count.toLocaleString("en")} reconciles, ${duration(view.to - view.from)} shown${view.follows ? ", following" : ""}${every.length > lanes.length ? `, the ${lanes.length} busiest of ${every.length}` : ""}`);
  }

  /** @param {CanvasRenderingContext2D} pen @param {string} name */
  function shorten(pen, name) {
    let text = name;
    while (text.length > 4 && pen.measureText(text).width > LABEL - 12) text = `${text.slice(0, -2).replace(/…$/, "")}…`;
    return text;
  }

  /**
   * Draws the bars of a lane. At most one for each pixel: the others are skipped by bisection, not looked at.
   * @param {CanvasRenderingContext2D} pen @param {Record<string, string>} colours @param {Entry[]} all @param {number} longest @param {number} top
   */
  function bars(pen, colours, all, longest, top) {
    const before = drawn.length;
    const perMicro = plot() / (view.to - view.from), pixel = 1 / perMicro;
    let at = indexAt(all, view.from - longest);
    while (at < all.length && all[at].at <= view.to) {
      const it = all[at], took = it.took ?? 0;
      if (it.at + took >= view.from) {
        const begin = left + (it.at - view.from) * perMicro, x = Math.max(left, begin);
        const w = Math.max(3, took * perMicro - (x - begin));
        if (it.wait && it.wait * perMicro > 1) {
          pen.fillStyle = colours.line;
          const ready = Math.max(left, begin - it.wait * perMicro);
          pen.fillRect(ready, top + 11, Math.max(0, x - ready), 4);
        }
        drawn.push({ x, y: top + 6, w, it });
        // The next one that can be seen beside this one.
        at = Math.max(at + 1, indexAt(all, it.at + pixel, at));
      } else at++;
    }
    // After the waits, which would cross the bars of others.
    for (let n = before; n < drawn.length; n++) {
      const { x, y, w, it } = drawn[n];
      pen.fillStyle = isFailure(it) ? colours.bad : hasWritten(it) ? colours.busy : colours.good;
      if (w > 6) { pen.beginPath(); pen.roundRect(x, y, w, LANE - 12, 2); pen.fill(); } else pen.fillRect(x, y, w, LANE - 12);
    }
  }

  /** @param {CanvasRenderingContext2D} pen @param {Record<string, string>} colours @param {number} height */
  function axis(pen, colours, height) {
    const span = view.to - view.from;
    const rough = span / Math.max(2, Math.floor(plot() / 110));
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((it) => it * power).find((it) => it >= rough) ?? rough;
    for (let at = Math.max(0, Math.ceil(view.from / step)) * step; at < view.to; at += step) {
      const px = left + ((at - view.from) / span) * plot();
      if (px < left) continue;
      pen.fillStyle = colours.line;
      pen.fillRect(px, HEAD - 6, 1, height);
      pen.fillStyle = colours.dim;
      pen.fillText(duration(at), px + 4, 12);
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
    view.follows = view.whole = false;
    redraw();
  }
  /** @param {number} part */
  function move(part) {
    const by = (view.to - view.from) * part;
    view.from += by; view.to += by; view.follows = view.whole = false;
    redraw();
  }
  function all() { view.follows = view.whole = true; redraw(); }
  function follow() { view.follows = true; redraw(); }

  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) move(event.deltaX / plot());
    else zoom(event.deltaY > 0 ? 1.25 : 0.8, (event.offsetX - left) / plot());
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
  const newest = () => drawn.reduce((best, it) => (!best || it.it.at > best.it.at ? it : best), /** @type {{it: Entry} | null} */ (null));
  canvas.addEventListener("keydown", (event) => {
    const act = { "+": () => zoom(0.7), "=": () => zoom(0.7), "-": () => zoom(1.4), ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), End: follow, Home: all, Enter: () => { const it = newest(); if (it) onPick(it.it); } }[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  const resized = new ResizeObserver(([entry]) => {
    width = Math.max(200, Math.round(entry.contentRect.width));
    left = width > 560 ? LABEL : 0;
    redraw();
  });
  resized.observe(canvas);
  const buttons = h("div.row.tools", null,
    h("button.quiet", { onclick: () => zoom(0.6), "aria-label": "Zoom in" }, "+"),
    h("button.quiet", { onclick: () => zoom(1.7), "aria-label": "Zoom out" }, "−"),
    h("button.quiet", { onclick: all }, "All"),
    h("button.quiet", { onclick: follow }, "Follow"),
    h("span.legend", null, h("i.good"), "read only", h("i.busy"), "wrote", h("i.bad"), "failed", h("i.wait"), "waited"), note);
  redraw();
  return { element: h("div.card.wide", null, buttons, canvas), redraw, end: () => resized.disconnect() };
}

/** One reconcile in full. @param {HTMLElement} box @param {Entry} it */
export function detail(box, it) {
  const change = (/** @type {any} */ c) => c.path + (c.from !== undefined || c.to !== undefined ? ` ${c.from ?? "none"} → ${c.to ?? "none"}` : "");
  const facts = [["at", duration(it.at)], ["waited", duration(it.wait ?? 0)], ["took", duration(it.took ?? 0)], ["attempt", it.attempt ? it.attempt + 1 : ""], ["again in", it.again !== undefined ? duration(it.again) : ""], ["id", it.id], ["trace", it.trace]];
  const name = it.kind ? h("a", { href: linkOf(it.kind, it.namespace, it.name ?? "") }, keyOf(it)) : keyOf(it);
  replace(box,
    h("h2", null, `${it.controller} reconciled `, name),
    h("dl.facts", null, facts.filter(([, value]) => value).map(([key, value]) => h("div", null, h("dt", null, key), h("dd", null, value)))),
    h("p", null, h("b", null, "Because of "), causesText(it) || "no cause"),
    it.error ? h("p.wrong", { role: "alert" }, it.error) : null,
    (it.reads ?? []).length ? h("p", null, h("b", null, "Read "), it.reads?.map((r) => `${r.kind} ${r.name} at ${r.revision}`).join(", ")) : null,
    (it.requests ?? []).length ? h("ul.requests", null, (it.requests ?? []).map((sent) => h(`li${sent.code >= 400 || !sent.code ? ".wrong" : ""}`, null,
      h("code", null, summary(sent)), ` → ${sent.code || "no answer"}${sent.revision ? `, revision ${sent.revision}` : ""}, ${duration(sent.took)}`,
      (sent.changes ?? []).length ? h("div.dim", null, "changed " + sent.changes?.map(change).join(", ")) : null,
      sent.error ? h("div", null, sent.error) : null))) : h("p.dim", null, "It sent no requests."));
}

/** The link to an object by its kind. @param {string} kind @param {string | undefined} namespace @param {string} name */
export function linkOf(kind, namespace, name) {
  return `#/of/${encodeURIComponent(kind)}/${encodeURIComponent(namespace ?? "-")}/${encodeURIComponent(name)}`;
}
