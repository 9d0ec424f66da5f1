// Keyboard, screen readers, colours, sizes.
import { check, picture, text } from "./kit.mjs";

const VIEWS = ["road", "tree", "timeline", "controllers", "watches", "nodes", "search?q=web", "object/example.com/myresources/default/web", "object/example.com/myresources/default/web?tab=managers", "object/example.com/myresources/default/web?tab=history", "object/example.com/myresources/default/web?tab=events"];

export async function keyboard(page, base) {
  await page.goto(base + "#/road");
  await page.locator("main").focus();
  for (const [key, heading] of [["c", "Controllers"], ["w", "Watches and caches"], ["o", "Owners"], ["l", "Timeline"], ["n", "Nodes and pods"], ["r", "The road"], ["/", "Search"]]) {
    await page.locator("main").focus();
    await page.keyboard.press(key);
    await page.waitForFunction((heading) => document.querySelector("main h1")?.textContent === heading, heading);
    check(true, `the key ${key} opens ${heading}`);
  }
  check((await page.evaluate(() => document.activeElement?.getAttribute("type"))) === "search", "the search has the focus");
  await page.goto(base + "#/tree");
  await page.waitForSelector(".tree a");
  await page.locator(".tree a").first().focus();
  const focused = () => page.evaluate(() => document.activeElement?.getAttribute("href"));
  const first = await focused();
  await page.keyboard.press("ArrowDown");
  check((await focused()) !== first && Boolean(await focused()), "the arrows walk the tree");
  await page.keyboard.press("ArrowUp");
  const rows = await page.locator('[role="treeitem"]').count();
  await page.keyboard.press("ArrowLeft");
  await page.waitForFunction((rows) => document.querySelectorAll('[role="treeitem"]').length < rows, rows);
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction((rows) => document.querySelectorAll('[role="treeitem"]').length === rows, rows);
  check((await focused()) === first, "the arrows close and open a branch, and keep their place");
  await page.goto(base + "#/timeline");
  await page.waitForFunction(() => /reconciles/.test(document.querySelector(".note")?.textContent ?? ""));
  await page.locator("canvas.timeline").focus();
  const before = await text(page, ".note");
  await page.keyboard.press("+");
  await page.waitForFunction((before) => document.querySelector(".note")?.textContent !== before, before);
  await page.keyboard.press("Home");
  await page.waitForFunction(() => document.querySelector(".note")?.textContent?.includes("following"));
  check(true, "the timeline zooms and follows by keyboard");
  await page.goto(base + "#/object/example.com/myresources/default/web");
  await page.getByRole("tab", { name: "YAML" }).focus();
  await page.keyboard.press("ArrowRight");
  check((await page.getByRole("tab", { name: "Managers" }).getAttribute("aria-selected")) === "true", "the arrows walk the tabs");
  await page.goto(base + "#/road");
  await page.locator("main").focus();
  await page.keyboard.press("?");
  check((await text(page, "#toast")).includes("c Controllers"), "a key tells the keys");
}

/** What a screen reader is told. */
export async function access(page, base) {
  const told = async (view, selector = "body") => { await page.goto(`${base}#/${view}`); await page.waitForSelector("main h1"); await page.waitForTimeout(600); return page.locator(selector).first().ariaSnapshot(); };
  const road = await told("road");
  for (const role of ["navigation \"Views\"", "main", "status", "heading \"The road\" [level=1]", "list \"The road of a change\"", "list \"What is wrong\"", "link \"Skip to the content\""]) check(road.includes(role), `a screen reader is told of ${role}`);
  check(/link "Road"/.test(road), "a link has its name");
  check((await told("tree")).includes("tree \"Owners\""), "a screen reader is told of the tree");
  check(/columnheader "Controller"/.test(await told("controllers")), "a screen reader is told of columns");
  const object = await told("object/example.com/myresources/default/web");
  for (const role of ["tablist", "tab \"YAML\" [selected]", "tabpanel \"YAML\"", "textbox \"YAML\""]) check(object.includes(role), `a screen reader is told of ${role}`);
  await page.getByRole("button", { name: "Delete" }).click();
  check((await page.locator("dialog").ariaSnapshot()).includes('dialog "Delete MyResource web?"'), "a dialog has its name");
  await page.keyboard.press("Escape");
  const unnamed = await page.evaluate(() => [...document.querySelectorAll("button, a, input, textarea, canvas")].filter((it) => !(it.textContent?.trim() || it.getAttribute("aria-label") || it.getAttribute("title") || document.querySelector(`label[for="${it.id}"]`))).length);
  check(unnamed === 0, "everything that can be used has a name");
}

/** The texts whose contrast with what is behind them is too low to read, as WCAG 2.1 AA counts it. */
const faint = () => {
  const channel = (value) => { const part = value / 255; return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4; };
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const colour = (text) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const behind = (element) => { for (let it = element; it; it = it.parentElement) { const found = colour(getComputedStyle(it).backgroundColor); if (found[3] > 200) return found; } return [255, 255, 255]; };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((it) => it.nodeType === 3 && it.textContent.trim());
    const style = getComputedStyle(element);
    if (!own || style.visibility === "hidden" || style.opacity === "0" || !element.getClientRects().length || element.closest("kbd, #toast, .skip, [aria-hidden]")) continue;
    const [a, b] = [light(colour(style.color)), light(behind(element))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05), size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) found.push(`${element.tagName}.${element.className} "${element.textContent.trim().slice(0, 30)}" ${ratio.toFixed(2)}`);
  }
  return [...new Set(found)];
};

/** Dark and light, and 360 px. */
export async function looks(page, base) {
  for (const scheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: scheme });
    const all = [];
    for (const view of VIEWS) {
      await page.goto(`${base}#/${view}`);
      await page.waitForSelector("main h1");
      await page.waitForTimeout(250);
      all.push(...(await page.evaluate(faint)).map((it) => `${view}: ${it}`));
    }
    check(all.length === 0, `all texts can be read, ${scheme} ${all.slice(0, 5).join("; ")}`);
  }
  await page.getByRole("button", { name: "Theme" }).click();
  check((await page.evaluate(() => document.documentElement.dataset.theme)) === "light", "the theme can be turned");
  await page.reload();
  await page.waitForSelector("nav a");
  check((await page.evaluate(() => document.documentElement.dataset.theme)) === "light", "the theme is remembered");
  await page.evaluate(() => localStorage.clear());
  await page.reload();
  await page.setViewportSize({ width: 360, height: 740 });
  for (const view of VIEWS) {
    await page.goto(`${base}#/${view}`);
    await page.waitForSelector("main h1");
    await page.waitForTimeout(250);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    check(wide <= 360, `${view} fits into 360 px (${wide})`);
  }
  await page.goto(`${base}#/road`);
  await page.waitForTimeout(400);
  await picture(page, "dashboard-narrow-dark");
  await page.emulateMedia({ colorScheme: null });
  await page.setViewportSize({ width: 1360, height: 860 });
}
