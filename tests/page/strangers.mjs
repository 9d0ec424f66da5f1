// Who gets what: hostile objects, other users, no user, other origins.
import { execFileSync } from "node:child_process";
import { createServer } from "node:http";
import { gzipSync } from "node:zlib";
import { api, binary, check, create, picture, text, until } from "./kit.mjs";

export async function hostile(page, base) {
  const nasty = "<script>window.pwned = 1</script>\u202e\u0007<img src=x onerror='window.pwned=1'>";
  const map = { metadata: { name: "hostile", annotations: { nasty, long: "<b>".repeat(80000) } }, data: { nasty, mebibyte: "<i>".repeat(340000) } };
  const made = await create(page, "/api/v1/namespaces/default/configmaps", map);
  check(made.code === 201, `a hostile object is made: ${made.text.slice(0, 100)}`);
  // Names of roles may have almost any sign.
  const name = "<img src=x onerror=window.pwned=1>\u202e";
  check((await create(page, "/apis/rbac.authorization.k8s.io/v1/clusterroles", { metadata: { name }, rules: [] })).code === 201, "a hostile name is stored");
  await page.goto(base + "#/object/core/configmaps/default/hostile");
  await page.waitForSelector("textarea.yaml");
  for (const tab of ["Managers", "History", "Events", "Timeline", "YAML"]) { await page.getByRole("tab", { name: tab }).click(); await page.waitForTimeout(150); }
  check((await page.locator("textarea.yaml").inputValue()).includes("<script>window.pwned"), "hostile values are shown as text");
  await page.goto(base + "#/search?q=onerror");
  await until("a hostile name is found, as text", () => page.locator("table").innerText(), (it) => it.includes("<img src=x") && it.includes("\\u202e"));
  await page.locator("table a").first().click();
  await page.waitForFunction(() => document.querySelector("main h1")?.textContent?.includes("<img"));
  await page.goto(base + "#/object/core/configmaps/default/" + encodeURIComponent("<script>window.pwned=1</script>"));
  await page.waitForSelector("main h1");
  check((await page.evaluate(() => window.pwned)) === undefined, "hostile names and annotations are text");
  const { headers } = await api(page, "/");
  const policy = headers["content-security-policy"];
  check(policy.includes("default-src 'none'") && !policy.includes("unsafe") && headers["x-frame-options"] === "DENY", "the policy admits only the page's own files");
  const ran = await page.evaluate(() => { const script = document.createElement("script"); script.textContent = "window.inline = 1"; document.body.append(script); script.remove(); return window.inline; });
  check(ran === undefined, "inline scripts do not run");
}

/** Another user sees what RBAC lets them see. */
export async function users(browser, page, base, kubeconfig) {
  const evenkeel = (...args) => execFileSync(binary, [...args, "--kubeconfig", kubeconfig], { encoding: "utf8" }).trim();
  const rbac = "/apis/rbac.authorization.k8s.io/v1";
  await create(page, "/api/v1/namespaces/default/serviceaccounts", { metadata: { name: "viewer" } });
  await create(page, `${rbac}/namespaces/default/roles`, { metadata: { name: "viewer" }, rules: [{ apiGroups: ["apps"], resources: ["deployments"], verbs: ["get", "list", "watch"] }] });
  await create(page, `${rbac}/clusterroles`, { metadata: { name: "deployments" }, rules: [{ apiGroups: ["apps"], resources: ["deployments"], verbs: ["get", "list"] }] });
  await create(page, `${rbac}/clusterrolebindings`, { metadata: { name: "viewer" }, roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "deployments" }, subjects: [{ kind: "ServiceAccount", namespace: "default", name: "viewer" }] });
  const enter = async (token) => {
    const context = await browser.newContext({ viewport: { width: 1360, height: 860 } });
    const one = await context.newPage();
    await one.goto(base);
    await one.locator("#token").fill(token);
    await one.getByRole("button", { name: "Log in" }).click();
    await one.waitForSelector("nav a");
    return one;
  };
  const viewer = await enter(evenkeel("token", "default/viewer"));
  await viewer.waitForFunction(() => document.querySelector("#live")?.textContent?.includes("no permission"));
  check((await text(viewer, "#who")).includes("system:serviceaccount:default:viewer"), "a token of `evenkeel token` logs in as its account");
  check((await api(viewer, "/record")).code === 403 && (await api(viewer, "/record/stream")).code === 403, "who may not read the record does not get it");
  const act = await api(viewer, "/act", { method: "POST", headers: { "content-type": "application/json" }, body: '{"act":"cut-watch"}' });
  check(act.code === 403, "who may not act on the cluster does not");
  await viewer.goto(base + "#/tree");
  await until("another user sees what they may list", () => viewer.locator(".tree").innerText().catch(() => ""), (it) => it.includes("Deployment"));
  const kinds = new Set(await viewer.locator(".node .kind").allInnerTexts());
  check(kinds.size === 1 && kinds.has("Deployment"), `and nothing else (${[...kinds]})`);
  check((await api(viewer, "/k8s/api/v1/secrets")).code === 403, "another user reads no Secrets");
  await viewer.goto(base + "#/object/apps/deployments/default/web");
  const yaml = await viewer.locator("textarea.yaml").inputValue();
  await viewer.locator("textarea.yaml").fill(yaml.replace(/replicas: \d+/, "replicas: 9"));
  await viewer.getByRole("button", { name: "Apply" }).click();
  await until("a write that is forbidden is refused in place", () => viewer.locator(".problems").innerText(), (it) => it.includes("forbidden") && it.includes("viewer"));
  await viewer.goto(base + "#/watches");
  await viewer.waitForSelector("main h1");
  check((await viewer.getByRole("button", { name: /Cut|Crash|Advance/ }).count()) === 0, "acts that are forbidden are not offered");
  const admin = await enter(evenkeel("token"));
  await admin.waitForFunction(() => document.querySelector("#live")?.textContent === "live");
  check(true, "`evenkeel token` alone logs in as an administrator");
  await viewer.getByRole("button", { name: "Log out" }).click();
  await viewer.waitForSelector("#token");
  check((await api(viewer, "/session")).code === 401, "a logout ends the session");
  await viewer.context().close();
  await admin.context().close();
}

/** Without a login there is only the login, and another origin gets nothing. */
export async function strangers(browser, page, link, base) {
  const context = await browser.newContext();
  const stranger = await context.newPage();
  await stranger.goto(base);
  check((await text(stranger, "h1")) === "Evenkeel" && (await stranger.locator("#token").count()) === 1, "without a token there is only the login");
  await picture(stranger, "dashboard-login");
  for (const path of ["/record", "/record/stream", "/session", "/k8s/api/v1/secrets", "/app.js", "/index.html"]) {
    const { code } = await api(stranger, path);
    check(code === 401 || code === 404, `${path} is refused without a login (${code})`);
  }
  const wrong = await api(stranger, "/login", { method: "POST", headers: { "content-type": "application/json" }, body: '{"token":"wrong"}' });
  check(wrong.code === 401, "a wrong token is refused");
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
    const tries = [{}, { mode: "no-cors" }, { headers: { "x-evenkeel-page": "1" } }, { method: "POST", mode: "no-cors", body: "{}" }];
    const all = await Promise.all(tries.flatMap((it) => ["record", "act", "k8s/api/v1/secrets"].map((path) => fetch(base + path, { credentials: "include", ...it }).then((answer) => answer.text(), () => ""))));
    return all.join("");
  }, base);
  check(got === "", "a page of another origin gets nothing");
  await foreign.close();
  await context.close();
  server.close();
  let bytes = 0;
  for (const file of ["index.html", "style.css", "icon.svg", "vendor/uPlot.esm.js", "vendor/uPlot.min.css", ...["app", "api", "dom", "model", "object", "objects", "questions", "timeline", "tree", "views", "yaml"].map((it) => `${it}.js`)]) {
    const { code, text: body } = await api(page, `/${file}`);
    check(code === 200, `the page has ${file}`);
    bytes += gzipSync(body).length;
  }
  check(bytes < 300 << 10, `the page takes ${(bytes / 1024).toFixed(0)} KiB gzipped (at most 300)`);
}
