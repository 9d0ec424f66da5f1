// The dashboard in a real browser: what it shows, what it can do, and what it refuses. Makes the pictures of the book.
//
// usage: node page.mjs EVENKEEL [FOLDER_FOR_PICTURES]
import { spawn } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const [binary, pictures] = process.argv.slice(2);
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const children = [];
let passed = 0;
const check = (holds, what) => {
  if (!holds) throw new Error(`not so: ${what}`);
  passed += 1;
  console.log(`ok   ${what}`);
};

/** Starts the binary, and waits for the link of its dashboard. */
function start(...args) {
  const folder = mkdtempSync(join(tmpdir(), "evenkeel-page-"));
  const kubeconfig = args[0] === "open" ? [] : ["--kubeconfig", join(folder, "kubeconfig")];
  const child = spawn(binary, [...args, ...kubeconfig], { stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  const lines = [];
  const link = new Promise((done, failed) => {
    createInterface({ input: child.stdout }).on("line", (line) => {
      lines.push(line);
      const found = /dashboard: (http\S+)/.exec(line);
      if (found) done(found[1]);
    });
    child.on("exit", (code) => failed(new Error(`${args.join(" ")} ended with ${code}: ${lines.join("\n")}`)));
  });
  return { child, link, lines };
}

async function stop(child) {
  const ended = new Promise((done) => child.on("exit", done));
  child.removeAllListeners("exit");
  child.on("exit", () => {});
  child.kill("SIGTERM");
  await Promise.race([ended, new Promise((done) => setTimeout(done, 5000))]);
}

async function login(browser, link, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1360, height: 860 }, ...options });
  const page = await context.newPage();
  page.on("pageerror", (error) => { throw error; });
  await page.goto(link);
  await page.waitForSelector("nav a");
  return page;
}

const text = (page, selector) => page.locator(selector).first().innerText();
const picture = async (page, name) => { if (pictures) await page.screenshot({ path: join(pictures, `${name}.png`) }); };
const api = (page, path, options = {}) => page.evaluate(async ([path, options]) => {
  const answer = await fetch(path, { ...options, headers: { "x-evenkeel-page": "1", ...(options.headers ?? {}) } });
  return { code: answer.status, text: await answer.text() };
}, [path, options]);

async function theDemo(browser) {
  const demo = start("demo");
  const link = await demo.link;
  const base = link.split("#")[0];
  const page = await login(browser, link);
  check(!page.url().includes("code="), "the code of the link does not stay in the address");
  await page.waitForFunction(() => document.querySelector("#live")?.textContent === "live", null, { timeout: 20000 });
  check(true, "the page is live");
  // All acts of the demo, and the samples applied again.
  for (let at = 0; !demo.lines.some((line) => line.startsWith("try: kubectl")); at++) {
    if (at > 600) throw new Error(`the demo did not end:\n${demo.lines.join("\n")}`);
    await page.waitForTimeout(100);
  }
  const record = JSON.parse((await api(page, "/record")).text);
  const controllers = new Set(record.entries.filter((it) => it.type === "reconcile").map((it) => it.controller));
  for (const name of ["my-resource", "visitors-app", "database"]) check([...controllers].some((it) => it.includes(name)), `the record has reconciles of ${name}`);
  const requests = record.entries.filter((it) => it.type === "request" && it.by === "client");
  for (const [verb, what] of [["apply", "samples are applied"], ["delete", "samples are deleted"]]) check(requests.some((it) => it.verb === verb), `the acts are recorded: ${what}`);
  check(record.entries.some((it) => it.type === "webhook"), "the acts are recorded: a webhook is asked");

  await page.goto(base + "#/road");
  await page.waitForSelector(".station >> nth=6");
  check((await page.locator(".station").count()) === 7, "the road has seven stations");
  await page.waitForTimeout(700);
  await picture(page, "dashboard-road");

  await page.goto(base + "#/tree");
  await page.waitForSelector(".tree a");
  check((await text(page, ".tree")).includes("MyResource"), "the tree shows custom resources");
  await picture(page, "dashboard-owners");
  const other = await page.context().newPage();
  await other.goto(page.url());
  await other.waitForSelector(".tree a");
  check((await text(other, "h1")) === (await text(page, "h1")), "a link opens the same view in a second page");

  await page.goto(base + "#/controllers");
  await page.waitForSelector("table tbody tr");
  await page.waitForTimeout(1200);
  check((await text(page, "table")).includes("my-resource"), "the controllers are listed");
  await picture(page, "dashboard-controllers");
  await page.goto(base + "#/watches");
  await page.waitForSelector("table tbody tr");
  await page.getByRole("button", { name: "Cut all watches" }).click();
  await page.waitForFunction(() => /closed \d+ watches/.test(document.querySelector("#toast")?.textContent ?? ""));
  check(true, "watches can be cut");
  await picture(page, "dashboard-watches");
  await page.goto(base + "#/nodes");
  await page.waitForSelector(".nodecard");
  await picture(page, "dashboard-nodes");
  await page.goto(base + "#/timeline");
  await page.waitForSelector("canvas.timeline");
  await page.waitForTimeout(700);
  await picture(page, "dashboard-timeline");

  await edit(page, base);
  await hostile(page, base);
  await narrow(browser, page, base);
  await strangers(browser, page, link, base);
  await stop(demo.child);
}

/** An edit in the page reaches the operator, and its effect comes back. */
async function edit(page, base) {
  const deployment = async () => (await api(page, "/k8s/apis/apps/v1/namespaces/default/deployments/web")).text;
  await page.goto(base + "#/object/example.com/myresources/default/web");
  await page.waitForSelector("textarea.yaml");
  const yaml = await page.locator("textarea.yaml").inputValue();
  await picture(page, "dashboard-object");
  check(/memory: /.test(yaml) && !(await deployment()).includes("128Mi"), "the YAML of an object is shown");
  await page.locator("textarea.yaml").fill(yaml.replace(/memory: .*/, "memory: {much: true}"));
  await page.waitForSelector(".problems li:not(.good)");
  check(true, "what the server refuses is shown in place");
  await page.locator("textarea.yaml").fill(yaml.replace(/memory: .*/, "memory: 128Mi"));
  await page.getByRole("button", { name: "Apply" }).click();
  for (let at = 0; !(await deployment()).includes("128Mi"); at++) {
    if (at === 100) throw new Error(`the Deployment did not change: ${await text(page, ".problems")}`);
    await page.waitForTimeout(50);
  }
  check(true, "an edit in the page reaches the operator, and its effect comes back");
  await page.getByRole("tab", { name: "History" }).click();
  await page.waitForSelector(".diff .plus");
  check((await page.locator(".history li").count()) >= 2, "the history shows revisions with diffs");
  await picture(page, "dashboard-history");
}

async function hostile(page, base) {
  const nasty = "<script>window.pwned = 1</script>\u202e\u0007<img src=x onerror='window.pwned=1'>";
  const long = "<b>".repeat(80000);
  const map = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "hostile", annotations: { nasty, long } }, data: { nasty } };
  const made = await api(page, "/k8s/api/v1/namespaces/default/configmaps", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(map) });
  check(made.code === 201, `a hostile object is made: ${made.text.slice(0, 200)}`);
  await page.goto(base + "#/object/core/configmaps/default/hostile");
  await page.waitForSelector("textarea.yaml");
  for (const tab of ["Managers", "History", "Timeline", "YAML"]) await page.getByRole("tab", { name: tab }).click();
  await page.goto(base + "#/object/core/configmaps/default/" + encodeURIComponent("<script>window.pwned=1</script>"));
  await page.waitForSelector("h1");
  check((await page.evaluate(() => window.pwned)) === undefined, "hostile names and annotations are text");
}

async function narrow(browser, page, base) {
  await page.setViewportSize({ width: 360, height: 740 });
  for (const view of ["road", "tree", "timeline", "controllers", "watches", "nodes", "search"]) {
    await page.goto(`${base}#/${view}`);
    await page.waitForSelector("h1");
    await page.waitForTimeout(250);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    check(wide <= 360, `${view} fits into 360 px (${wide})`);
  }
  await page.goto(`${base}#/road`);
  await page.emulateMedia({ colorScheme: "dark" });
  await page.waitForTimeout(400);
  await picture(page, "dashboard-narrow-dark");
  await page.setViewportSize({ width: 1360, height: 860 });
}

/** Without a login there is only the login, and another origin gets nothing. */
async function strangers(browser, page, link, base) {
  const context = await browser.newContext();
  const stranger = await context.newPage();
  await stranger.goto(base);
  check((await text(stranger, "h1")) === "Evenkeel" && (await stranger.locator("#token").count()) === 1, "without a token there is only the login");
  await picture(stranger, "dashboard-login");
  for (const path of ["/record", "/session", "/k8s/api/v1/secrets", "/app.js", "/index.html"]) {
    const { code } = await api(stranger, path);
    check(code === 401 || code === 404, `${path} is refused without a login (${code})`);
  }
  // From a page of the same address, a new fragment alone would not load anything.
  await stranger.goto("about:blank");
  await stranger.goto(link);
  await stranger.waitForFunction(() => document.querySelector("#wrong")?.textContent !== "");
  check(true, "a one-time link works once");
  const server = createServer((_, answer) => answer.setHeader("content-type", "text/html").end("<h1>another origin</h1>"));
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const foreign = await page.context().newPage();
  await foreign.goto(`http://127.0.0.1:${server.address().port}/`);
  const got = await foreign.evaluate(async (base) => {
    const tries = [{}, { mode: "no-cors" }, { headers: { "x-evenkeel-page": "1" } }];
    const all = await Promise.all(tries.map((it) => fetch(base + "record", { credentials: "include", ...it }).then((answer) => answer.text(), () => "")));
    return all.join("");
  }, base);
  check(got === "", "a page of another origin gets nothing");
  await foreign.close();
  server.close();
}

/** Fifty thousand entries stay responsive, by the browser's own measure. */
async function large(browser) {
  const entries = Array.from({ length: 50000 }, (_, at) => ({
    type: "reconcile", at: at * 1000, controller: `controller-${at % 12}`, kind: "Site", namespace: "default", name: `site-${at % 10000}`,
    causes: [{ what: "updated", kind: "Site", namespace: "default", name: `site-${at % 10000}` }], wait: 100, took: 400 + (at % 7) * 100, outcome: at % 97 ? "done" : "failed", error: at % 97 ? undefined : "no disk",
  }));
  for (let at = 0; at < 8; at++) {
    entries.push({ type: "reconcile", at: 50e6 + at * 1000, controller: "broken", kind: "Site", namespace: "default", name: "web", causes: [{ what: "updated", kind: "Site", namespace: "default", name: "web" }], wait: 1, took: 400, outcome: "done",
      requests: [{ at: 50e6 + at * 1000, verb: "patch", resource: "sites", subresource: "status", namespace: "default", name: "web", code: 200, took: 100, revision: at + 1, changes: [{ path: "status.checked" }] }] });
  }
  const names = [...new Set(entries.map((it) => it.controller))];
  const file = join(mkdtempSync(join(tmpdir(), "evenkeel-page-")), "record.json");
  const controllers = names.map((name) => ({ name, kind: "Site", workers: 1, ready: 0, delayed: 0, inFlight: 0 }));
  writeFileSync(file, JSON.stringify({ version: "evenkeel.dev/record/v1", name: "large", origin: "operator", started: "2026-01-01T00:00:00Z", taken: 51e6, bytes: 1, bytesMax: 8388608, dropped: 0, controllers, watches: [], entries }));
  const opened = start("open", file);
  const link = await opened.link;
  const page = await login(browser, link);
  const base = link.split("#")[0];
  await page.waitForFunction(() => document.querySelector("#live")?.textContent === "saved record");
  await page.waitForFunction(() => document.querySelector(".troubles")?.textContent?.includes("triggers itself"));
  check((await text(page, ".troubles")).includes("broken triggers itself for default/web: 7 rounds") && (await text(page, ".troubles")).includes("status.checked"), "a loop is named with its field");
  await picture(page, "dashboard-loop");
  await page.evaluate(() => {
    window.slowest = 0;
    new PerformanceObserver((list) => { for (const it of list.getEntries()) if (it.interactionId) window.slowest = Math.max(window.slowest, it.duration); }).observe({ type: "event", durationThreshold: 16, buffered: false });
  });
  for (const label of ["Timeline", "Controllers", "Timeline", "Watches", "Road", "Timeline"]) {
    await page.getByRole("link", { name: label, exact: true }).click();
    await page.waitForTimeout(250);
  }
  for (const button of ["Zoom in", "Zoom in", "Zoom in", "Zoom out", "All"]) {
    await page.getByRole("button", { name: button }).click();
    await page.waitForTimeout(120);
  }
  await picture(page, "dashboard-large");
  const slowest = await page.evaluate(() => window.slowest);
  console.log(`input to paint with 50,000 entries, the slowest: ${slowest} ms (goal 100 ms)`);
  check(slowest < 1000, "fifty thousand entries stay usable");
  void base;
  await stop(opened.child);
}

/** The server restarts, and the page finds it again. */
async function restart(browser) {
  const first = start("up", "--bind", "127.0.0.1:0", "--dashboard", "127.0.0.1:0");
  const link = await first.link;
  const page = await login(browser, link);
  await page.waitForFunction(() => document.querySelector("#live")?.textContent === "live");
  await stop(first.child);
  await page.waitForFunction(() => document.querySelector("#live")?.textContent?.includes("trying again"));
  check(true, "the page says that the connection is lost");
  const again = start("up", "--bind", "127.0.0.1:0", "--dashboard", new URL(link).host);
  const fresh = await again.link;
  await page.waitForSelector("#token", { timeout: 15000 });
  await page.goto("about:blank");
  await page.goto(fresh);
  await page.waitForFunction(() => document.querySelector("#live")?.textContent === "live");
  check(true, "after a restart the page asks for a login, and is live again");
  await stop(again.child);
}

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
try {
  await theDemo(browser);
  await large(browser);
  await restart(browser);
  console.log(`page: ${passed} checks passed`);
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  await browser.close();
  for (const child of children) if (child.exitCode === null) child.kill("SIGKILL");
}
