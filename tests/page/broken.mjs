// Operators with one mistake each: the command line and the page say the reason in one line.
import { execFile, execFileSync } from "node:child_process";
import { readFileSync, symlinkSync } from "node:fs";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { binary, brokenBinary, check, folder, login, picture, run, start, stop, text, until } from "./kit.mjs";

/** Whether a line has these parts in this order. */
const has = (line, parts) => { let at = 0; return parts.every((part) => { const found = line.toLowerCase().indexOf(part.toLowerCase(), at); at = found + part.length; return found >= 0; }); };

export async function broken(browser) {
  const home = folder(), kubeconfig = join(home, "kubeconfig");
  const cluster = run(brokenBinary, [kubeconfig]);
  const link = await cluster.link, base = link.split("#")[0];
  const expected = cluster.lines.filter((line) => line.startsWith("{")).map((line) => JSON.parse(line));
  const evenkeel = (...args) => promisify(execFile)(binary, [...args, "--kubeconfig", kubeconfig], { encoding: "utf8" }).then(({ stdout }) => stdout.trim());
  const page = await login(browser, link);
  for (const { name, namespace, parts } of expected) {
    await until(`\`evenkeel why site/${name}\` says the reason in one line`, async () => (await evenkeel("why", `site/${name}`, "-n", namespace)).split("\n")[0], (line) => has(line, parts));
    await page.goto(`${base}#/of/Site/${namespace}/${name}`);
    await until(`the page says why ${name} is broken`, () => text(page, ".why"), (line) => has(line, parts));
    if (name === "looping") await picture(page, "dashboard-why");
  }
  await page.goto(base + "#/road");
  await until("the road names loops, failures and failing watches", () => page.locator(".troubles").innerText(), (it) => /looping triggers itself/.test(it) && /undo each other/.test(it));
  await picture(page, "dashboard-loop");
  const loops = await evenkeel("loops");
  check(/looping/.test(loops) && /status\.checked/.test(loops) && /undo each other/.test(loops), "`evenkeel loops` names the loops");
  const top = await evenkeel("top");
  check(/CONTROLLER/.test(top) && /stuck: permission/.test(top), "`evenkeel top` names what is busy and what is stuck");
  const file = join(home, "record.json");
  await evenkeel("record", "--save", file);
  const saved = await promisify(execFile)(binary, ["why", "site/permission", "--record", file, "--kubeconfig", join(home, "none")], { encoding: "utf8" });
  check(saved.stdout.includes("may not create configmaps"), "a saved record explains without a cluster");
  check(!/maps are allowed|"data"/.test(readFileSync(file, "utf8")), "a saved record has no values of objects");
  const opened = start("open", file);
  const other = await login(browser, await opened.link);
  await other.waitForFunction(() => document.querySelector("#live")?.textContent === "saved record");
  await other.waitForFunction(() => document.querySelector(".troubles")?.textContent?.includes("looping triggers itself"));
  await other.locator(".troubles a", { hasText: "looping" }).first().click();
  await until("a saved record can be opened, and explains its objects", () => other.locator(".why").innerText(), (it) => /looping triggers itself/i.test(it));
  await other.context().close();
  await stop(opened.child);
  const live = run(binary, ["open", "--kubeconfig", kubeconfig]);
  const following = await login(browser, await live.link);
  await following.waitForFunction(() => document.querySelector("#live")?.textContent === "live");
  const count = () => following.evaluate(() => Number(document.querySelectorAll(".station .count")[6]?.textContent?.replace(",", "")));
  await until("an operator that runs elsewhere is followed", count, (it) => it > 0);
  await following.goto(`${(await live.link).split("#")[0]}#/of/Site/default/finalizer`);
  await until("and its objects are explained", () => text(following, ".why"), (it) => it.includes("did not remove its finalizer"));
  await following.context().close();
  await stop(live.child);
  try { execFileSync("kubectl", ["version", "--client"], { stdio: "ignore" }); } catch { console.log("     kubectl is not installed: its plugin is not checked"); await stop(cluster.child); return; }
  symlinkSync(binary, join(home, "kubectl-evenkeel"));
  const env = { ...process.env, PATH: `${home}${delimiter}${process.env.PATH}`, KUBECONFIG: kubeconfig };
  const plugin = execFileSync("kubectl", ["evenkeel", "why", "site/panic"], { encoding: "utf8", env });
  check(plugin.includes("the reconcile panicked: no such site"), "the same works as a plugin of kubectl");
  await stop(cluster.child);
}
