// The dashboard in a real browser: what it shows, what it can do, and what it refuses. Makes the pictures of the book.
//
// usage: node page.mjs EVENKEEL BROKEN [FOLDER_FOR_PICTURES]; BROKEN is the example `broken` of the crate.
import { chromium } from "playwright-core";
import { acts } from "./acts.mjs";
import { broken } from "./broken.mjs";
import { access, keyboard, looks } from "./access.mjs";
import { FLAGS, api, check, end, kubeconfigOf, login, picture, report, start, stop, text } from "./kit.mjs";
import { large, many } from "./large.mjs";
import { hostile, strangers, users } from "./strangers.mjs";

async function theDemo(browser) {
  const demo = start("demo");
  const link = await demo.link, base = link.split("#")[0];
  const page = await login(browser, link);
  /** @type {string[]} */
  const urls = [];
  page.context().on("request", (request) => urls.push(request.url()));
  check(!page.url().includes("code="), "the code of the link does not stay in the address");
  await page.waitForFunction(() => document.querySelector("#live")?.textContent === "live", null, { timeout: 20000 });
  check(true, "the page is live");
  // All acts of the demo, and the samples applied again.
  for (let at = 0; !demo.lines.some((line) => line.startsWith("try: kubectl")); at++) {
    if (at > 1200) throw new Error(`the demo did not end:\n${demo.lines.join("\n")}`);
    await page.waitForTimeout(100);
  }
  await record(page);
  await views(page, base);
  await acts(page, base);
  await keyboard(page, base);
  await access(page, base);
  await looks(page, base);
  await hostile(page, base);
  await users(browser, page, base, kubeconfigOf(demo));
  await strangers(browser, page, link, base);
  check(urls.length > 50 && !urls.some((url) => /token|code=|eyJ/.test(url)), `no token is in a URL of ${urls.length} requests`);
  await stop(demo.child);
}

/** The record has what the demo did. */
async function record(page) {
  const record = JSON.parse((await api(page, "/record")).text);
  const controllers = new Set(record.entries.filter((it) => it.type === "reconcile").map((it) => it.controller));
  for (const name of ["my-resource", "visitors-app", "database"]) check([...controllers].some((it) => it.includes(name)), `the record has reconciles of ${name}`);
  const requests = record.entries.filter((it) => it.type === "request" && it.by === "client");
  for (const [verb, what] of [["apply", "samples are applied"], ["delete", "samples are deleted"]]) check(requests.some((it) => it.verb === verb), `the acts are recorded: ${what}`);
  check(record.entries.some((it) => it.type === "webhook"), "the acts are recorded: a webhook is asked");
}

/** Each view shows what it is for, and its link opens the same view in a second page. */
async function views(page, base) {
  await page.goto(base + "#/road");
  await page.waitForSelector(".station >> nth=6");
  check((await page.locator(".station").count()) === 7, "the road has seven stations");
  await page.waitForFunction(() => Number(document.querySelectorAll(".station .count")[6]?.textContent?.replace(",", "")) >= 0);
  await picture(page, "dashboard-road");
  await page.goto(base + "#/tree");
  await page.waitForSelector(".tree a");
  await page.waitForFunction(() => document.querySelector(".tree")?.textContent?.includes("Ready"));
  check((await text(page, ".tree")).includes("MyResource"), "the tree shows custom resources");
  check((await page.locator('[role="treeitem"][aria-level="4"]').count()) > 0, "the tree leads from a custom resource to its pods");
  await picture(page, "dashboard-owners");
  await page.goto(base + "#/controllers");
  await page.waitForFunction(() => document.querySelector("table")?.textContent?.includes("my-resource"));
  check(true, "the controllers are listed");
  await page.waitForTimeout(1200);
  await picture(page, "dashboard-controllers");
  await page.goto(base + "#/timeline");
  await page.waitForFunction(() => /reconciles/.test(document.querySelector(".note")?.textContent ?? ""));
  await page.waitForTimeout(300);
  await picture(page, "dashboard-timeline");
  const object = "object/example.com/myresources/default/web";
  const other = await page.context().newPage();
  for (const view of ["road", "tree?q=web", "timeline?controller=my-resource", "controllers", "watches", "nodes", "search?q=web", object, `${object}?tab=history`, `${object}?tab=managers`, "of/MyResource/default/web?tab=timeline"]) {
    await page.goto(`${base}#/${view}`);
    await page.waitForSelector("main h1");
    await page.waitForTimeout(300);
    await other.goto(page.url());
    await other.waitForSelector("main h1");
    const shown = async (one) => [await text(one, "main h1"), await one.locator('[aria-selected="true"]').allInnerTexts(), await one.locator("main input[type=search]").evaluateAll((all) => all.map((it) => it.value))];
    let same = false;
    for (let at = 0; at < 40 && !same; at++) { same = JSON.stringify(await shown(page)) === JSON.stringify(await shown(other)); if (!same) await page.waitForTimeout(50); }
    check(same, `the link #/${view} opens the same view in a second page`);
  }
  await other.close();
}

/** The server restarts, and the page finds it again. */
async function restart(browser) {
  const first = start("up", "--bind", "127.0.0.1:0", "--dashboard", "127.0.0.1:0");
  const link = await first.link;
  const page = await login(browser, link);
  await page.waitForFunction(() => document.querySelector("#live")?.textContent === "live");
  // Requests of clients outside of the server's process are part of the record.
  const { execFileSync } = await import("node:child_process");
  execFileSync(process.argv[2], ["why", "namespace/default", "--kubeconfig", kubeconfigOf(first)]);
  await page.waitForFunction(() => document.querySelector(".feed")?.textContent?.includes("get namespaces/default"));
  check(true, "requests of clients over the network are shown");
  await page.goto(`${link.split("#")[0]}#/controllers`);
  await stop(first.child);
  await page.waitForFunction(() => document.querySelector("#live")?.textContent?.includes("trying again"));
  check(true, "the page says that the connection is lost");
  const again = start("up", "--bind", "127.0.0.1:0", "--dashboard", new URL(link).host);
  const fresh = await again.link;
  await page.waitForSelector("#token", { timeout: 15000 });
  await page.goto("about:blank");
  await page.goto(fresh);
  await page.waitForFunction(() => document.querySelector("#live")?.textContent === "live");
  check(page.url().endsWith("#/controllers"), "after a restart the page asks for a login, and is live again where it was");
  await stop(again.child);
}

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
try {
  for (const [name, part] of Object.entries({ demo: theDemo, broken, large, many, restart })) {
    if (!process.env.PARTS || process.env.PARTS.split(",").includes(name)) await part(browser);
  }
  report();
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  await browser.close();
  end();
}
