// What the tests of the page share: the binary, logins, checks.
import { spawn } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

export const [binary, brokenBinary, pictures] = process.argv.slice(2);
export const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
/** The processes that still run. */
const children = [];
let passed = 0;

export const check = (holds, what) => {
  if (!holds) throw new Error(`not so: ${what}`);
  passed += 1;
  console.log(`ok   ${what}`);
};
export const report = () => console.log(`page: ${passed} checks passed`);
export const end = () => { for (const child of children) if (child.exitCode === null) child.kill("SIGKILL"); };

/** Starts a program, and waits for the link of its dashboard. */
export function run(program, args) {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"] });
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
  return { child, link, lines, args };
}

export const folder = () => mkdtempSync(join(tmpdir(), "evenkeel-page-"));

/** Starts the binary with a kubeconfig of its own. */
export const start = (...args) => run(binary, [...args, ...(args[0] === "open" ? [] : ["--kubeconfig", join(folder(), "kubeconfig")])]);
export const kubeconfigOf = ({ args }) => args[args.indexOf("--kubeconfig") + 1];

export async function stop(child) {
  const ended = new Promise((done) => child.on("exit", done));
  child.removeAllListeners("exit");
  child.on("exit", () => {});
  child.kill("SIGTERM");
  await Promise.race([ended, new Promise((done) => setTimeout(done, 5000))]);
}

export async function login(browser, link, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1360, height: 860 }, ...options });
  // A slow machine is no failure.
  context.setDefaultTimeout(120_000);
  const page = await context.newPage();
  page.on("pageerror", (error) => { console.error(`an error in the page: ${error.stack}`); process.exitCode = 1; });
  await page.goto(link);
  await page.waitForSelector("nav a");
  return page;
}

export const text = (page, selector) => page.locator(selector).first().innerText();
export const picture = async (page, name) => { if (pictures) await page.screenshot({ path: join(pictures, `${name}.png`) }); };
export const api = (page, path, options = {}) => page.evaluate(async ([path, options]) => {
  const answer = await fetch(path, { ...options, headers: { "x-evenkeel-page": "1", ...(options.headers ?? {}) } });
  return { code: answer.status, text: await answer.text(), headers: Object.fromEntries(answer.headers) };
}, [path, options]);
export const create = (page, path, object) => api(page, `/k8s${path}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(object) });

/** Waits until something holds, and fails with what was seen last. */
export async function until(what, look, holds, tries = 1200) {
  let seen;
  for (let at = 0; at < tries; at++) {
    seen = await look();
    if (holds(seen)) { check(true, what); return seen; }
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error(`not so in time: ${what}; seen: ${typeof seen === "string" ? seen.slice(0, 1500) : JSON.stringify(seen)?.slice(0, 1500)}`);
}

/** Counts the time from each input to the next paint, by the browser's own measure. */
export const measure = (page) => page.evaluate(() => {
  window.inputs = [];
  new PerformanceObserver((list) => { for (const it of list.getEntries()) if (it.interactionId) window.inputs.push({ name: it.name, duration: it.duration }); }).observe({ type: "event", durationThreshold: 16, buffered: false });
});
export async function slowest(page, what) {
  await page.waitForTimeout(300);
  const all = await page.evaluate(() => window.inputs.map((it) => it.duration));
  const most = Math.max(0, ...all);
  console.log(`     input to paint ${what}, the slowest: ${most} ms (goal 100 ms${most > 100 ? ", missed" : ""})`);
  return most;
}
