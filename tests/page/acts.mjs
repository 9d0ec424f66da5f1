// Everything that the page can do, and that its effect comes back.
import { api, check, picture, text, until } from "./kit.mjs";

const k8s = async (page, path) => JSON.parse((await api(page, `/k8s${path}`)).text);
const toast = (page, words) => page.waitForFunction((words) => new RegExp(words).test(document.querySelector("#toast")?.textContent ?? ""), words);
const confirm = (page, act) => page.locator("dialog").getByRole("button", { name: act, exact: true }).click();

export async function acts(page, base) {
  await edit(page, base);
  await scale(page, base);
  await reconcile(page, base);
  await kill(page, base);
  await remove(page, base);
  await drain(page, base);
  await disturb(page, base);
  await twoPages(page, base);
}

/** An edit in the page reaches the operator, and its effect comes back. */
async function edit(page, base) {
  const deployment = async () => (await api(page, "/k8s/apis/apps/v1/namespaces/default/deployments/web")).text;
  await page.goto(base + "#/object/example.com/myresources/default/web");
  await page.waitForSelector("textarea.yaml");
  const yaml = await page.locator("textarea.yaml").inputValue();
  await page.waitForFunction(() => /reconciled it/.test(document.querySelector(".why")?.textContent ?? ""));
  await picture(page, "dashboard-object");
  check(/memory: /.test(yaml) && !(await deployment()).includes("128Mi"), "the YAML of an object is shown");
  await page.locator("textarea.yaml").fill(yaml.replace(/memory: .*/, "memory: {much: true}"));
  await page.waitForSelector(".problems li:not(.good)");
  check((await page.locator("textarea.yaml").getAttribute("aria-invalid")) === "true", "what the server refuses is shown in place");
  await page.locator("textarea.yaml").fill(yaml.replace(/memory: .*/, "memory: 128Mi"));
  await page.waitForSelector(".problems li.good");
  check(!(await deployment()).includes("128Mi"), "what the server would accept is said, and not written");
  await page.getByRole("button", { name: "Apply" }).click();
  await until("an edit in the page reaches the operator, and its effect comes back", deployment, (it) => it.includes("128Mi"));
  await page.getByRole("tab", { name: "History" }).click();
  await page.waitForSelector(".diff .plus");
  check((await page.locator(".history li").count()) >= 2, "the history shows revisions with diffs");
  await picture(page, "dashboard-history");
  await page.getByRole("tab", { name: "Managers" }).click();
  await page.waitForFunction(() => document.querySelector("[role=tabpanel] table")?.textContent?.includes("evenkeel-dashboard"));
  check(true, "who manages which field is shown");
}

async function scale(page, base) {
  const replicas = async () => (await k8s(page, "/apis/apps/v1/namespaces/default/deployments/guestbook-backend")).spec.replicas;
  const before = await replicas();
  await page.goto(base + "#/object/apps/deployments/default/guestbook-backend");
  await page.getByRole("button", { name: "Scale" }).click();
  await page.locator("dialog input").fill("5");
  await page.locator("dialog").getByRole("button", { name: "Cancel" }).click();
  check((await replicas()) === before, "a dialog can be cancelled");
  await page.getByRole("button", { name: "Scale" }).click();
  await page.locator("dialog input").fill("5");
  await page.locator("dialog input").press("Enter");
  await toast(page, "Scaled guestbook-backend to 5");
  check(true, "a Deployment can be scaled");
  await until("its operator sets it back", replicas, (it) => it === before);
}

async function reconcile(page, base) {
  await page.goto(base + "#/object/example.com/myresources/default/web?tab=timeline");
  const count = async () => Number(/(\d+) reconciles/.exec((await page.locator(".note").innerText()).replace(",", ""))?.[1] ?? 0);
  await until("the timeline of an object is shown", count, (it) => it > 0);
  const before = await count();
  await page.getByRole("button", { name: "Reconcile" }).click();
  await until("a reconcile can be asked for, and is shown", count, (it) => it > before);
  await page.locator("canvas.timeline").focus();
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => /Because of/.test(document.querySelector("[role=tabpanel]")?.textContent ?? ""));
  check((await text(page, "[role=tabpanel] h2")).includes("reconciled"), "a reconcile can be picked by keyboard, and says its cause");
}

async function kill(page, base) {
  const uid = async () => JSON.parse((await api(page, "/k8s/api/v1/namespaces/default/pods/orders-0")).text).metadata?.uid;
  const before = await uid();
  await page.goto(base + "#/object/core/pods/default/orders-0");
  await page.getByRole("button", { name: "Kill" }).click();
  await confirm(page, "Kill");
  await until("a killed pod comes back as another one", uid, (it) => it && it !== before);
}

async function remove(page, base) {
  const uid = async () => JSON.parse((await api(page, "/k8s/api/v1/namespaces/default/services/orders")).text).metadata?.uid;
  const before = await uid();
  await page.goto(base + "#/object/core/services/default/orders");
  await page.getByRole("button", { name: "Delete" }).click();
  await confirm(page, "Delete");
  await toast(page, "Deleted orders");
  await until("what is deleted is made again by its operator", uid, (it) => it && it !== before);
}

async function drain(page, base) {
  await page.goto(base + "#/nodes");
  await page.waitForSelector(".nodecard .pod");
  await picture(page, "dashboard-nodes");
  const name = await text(page, ".nodecard h2");
  await page.locator(".nodecard").first().getByRole("button", { name: "Drain" }).click();
  await confirm(page, "Drain");
  const left = async () => (await k8s(page, `/api/v1/pods?fieldSelector=spec.nodeName%3D${name}`)).items.filter((it) => !it.metadata.ownerReferences || it.metadata.ownerReferences[0].kind !== "DaemonSet").length;
  await until("a node can be drained", left, (it) => it === 0);
  await page.locator(".nodecard", { hasText: name }).getByRole("button", { name: "Uncordon" }).click();
  await toast(page, "takes pods again");
  check(!(await k8s(page, `/api/v1/nodes/${name}`)).spec.unschedulable, "a drained node can be used again");
}

/** Watches, operators and the clock of the embedded cluster. */
async function disturb(page, base) {
  await page.goto(base + "#/watches");
  await page.waitForSelector("table tbody tr");
  const restarts = () => page.locator('td[data-head="Restarts"]').evaluateAll((all) => all.reduce((sum, it) => sum + Number(it.textContent), 0));
  const before = await restarts();
  await page.getByRole("button", { name: "Cut all watches" }).click();
  await toast(page, "closed \\d+ watches");
  await until("watches can be cut, and are opened again", restarts, (it) => it > before);
  await picture(page, "dashboard-watches");
  await page.getByRole("button", { name: "Crash my-resource" }).click();
  await confirm(page, "Crash");
  await toast(page, "my-resource crashed and starts again");
  const told = async () => (await api(page, "/record")).text;
  await until("an operator can be crashed, and the record says so", told, (it) => it.includes("my-resource crashed and starts again"));
  await page.getByRole("button", { name: "Advance the clock" }).click();
  await page.locator("dialog input").fill("30");
  await confirm(page, "Advance");
  await toast(page, "the clock is 1800s ahead");
  const made = await api(page, "/k8s/api/v1/namespaces/default/configmaps", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ metadata: { name: "later" } }) });
  const ahead = (Date.parse(JSON.parse(made.text).metadata.creationTimestamp) - Date.now()) / 60000;
  check(ahead > 28 && ahead < 32, `the clock can be advanced (${ahead.toFixed(1)} minutes)`);
}

/** What one page does, another page shows. */
async function twoPages(page, base) {
  const other = await page.context().newPage();
  await other.goto(base + "#/tree?q=two-pages");
  await other.waitForSelector("main h1");
  const object = { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "two-pages" }, spec: { selector: { matchLabels: { a: "b" } }, template: { metadata: { labels: { a: "b" } }, spec: { containers: [{ name: "a", image: "b" }] } } } };
  await api(page, "/k8s/apis/apps/v1/namespaces/default/deployments", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(object) });
  await until("what one page makes, another page shows with what it owns", () => other.locator(".tree").innerText().catch(() => ""), (it) => /Deployment\s+two-pages/.test(it) && it.includes("Pod"));
  await api(page, "/k8s/apis/apps/v1/namespaces/default/deployments/two-pages", { method: "DELETE" });
  await until("and that it is gone", () => other.locator('[role="treeitem"]').count(), (it) => it === 0);
  await other.close();
}
