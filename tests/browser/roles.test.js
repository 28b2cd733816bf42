// What each role may see and do, and that a token is needed.
import assert from "node:assert/strict";
import {after, before, test} from "node:test";

import {fitsEverywhere} from "./every_view.js";
import {Lab, TOKENS, until, visit} from "./harness.js";

/** @type {Lab} */
let lab;

before(async () => {
  lab = await Lab.begin();
  await lab.controller();
  const network = lab.network("linear:2");
  await lab.has(1, "links");
  await network.command("pingall", /2 of 2 answered/);
});
after(() => lab.end());

test("nothing is shown without a token, and a wrong one is refused in words", async () => {
  const page = await lab.page({token: null});
  await page.getByRole("heading", {name: "Sign in"}).waitFor();
  await fitsEverywhere(page, "sign in");
  await page.getByLabel("Token").fill("not-a-token-of-anybody");
  await page.getByRole("button", {name: "Sign in"}).click();
  await page.getByRole("alert").getByText("this token is not known").waitFor();
  assert.equal(await page.getByRole("table").count(), 0);
  await page.context().close();
});

test("a reader reads, and has nothing to change anything with", async () => {
  const page = await lab.page({token: TOKENS.read});
  await page.getByText("read-person (read)").waitFor();
  await page.getByText("2 switches").waitFor();
  await visit(page, "#/state/table/blocked");
  await page.getByText("0 keys").waitFor();
  assert.equal(await page.getByRole("button", {name: "Add a key"}).count(), 0);
  await visit(page, "#/change");
  await page.getByText("Changes need a token with the role admin").waitFor();
  assert.equal(await page.getByRole("button", {name: "Plan", exact: true}).count(), 0);
  await page.getByRole("button", {name: "Sign out"}).click();
  await page.getByRole("heading", {name: "Sign in"}).waitFor();
  await page.reload();
  await page.getByRole("heading", {name: "Sign in"}).waitFor();
  await page.context().close();
});

test("a writer changes state, and is named as who wrote it; what somebody else has changed meanwhile stays", async () => {
  const page = await lab.page({token: TOKENS.state, at: "#/state/table/blocked"});
  await page.getByRole("button", {name: "Add a key"}).click();
  await page.getByRole("textbox", {name: "key"}).fill("00:00:00:00:00:02");
  await page.getByRole("textbox", {name: "value"}).fill("true");
  await page.getByRole("button", {name: "Write"}).click();
  const keys = page.getByRole("region", {name: "Keys of blocked"});
  await keys.getByRole("cell", {name: /state-person/}).waitFor();
  const key = page.getByRole("link", {name: "00:00:00:00:00:02"});
  await key.click();
  assert.equal(new URL(page.url().replace("#/", "")).searchParams.get("key"), JSON.stringify({mac: "00:00:00:00:00:02"}));
  await lab.ask("PUT", "/v1/state/tables/blocked/00:00:00:00:00:02", {value: false});
  await keys.getByRole("cell", {name: /admin-person/}).waitFor();
  const changes = page.getByRole("table", {name: "Changes of 00:00:00:00:00:02"});
  await changes.getByRole("row", {name: /admin-person.*true.*false/}).waitFor();
  await changes.getByRole("row", {name: /state-person.*nothing.*true/}).waitFor();
  await page.getByRole("button", {name: "Delete"}).click();
  await page.getByRole("alert").waitFor();
  assert.equal((await lab.ask("GET", "/v1/state/tables/blocked")).rows.length, 1);
  await page.getByRole("button", {name: "Cancel"}).click();
  await key.click();
  await page.getByRole("button", {name: "Delete"}).click();
  await page.getByText("0 keys").waitFor();
  await visit(page, "#/state/variable/mode");
  await page.getByRole("textbox", {name: "value"}).fill("night");
  await page.getByRole("button", {name: "Write"}).click();
  await until("it is written", async () => (await lab.ask("GET", "/v1/state/variables/mode")).value === "night");
  await page.context().close();
});

test("an administrator plans a change, reads it, applies it, and goes back", async () => {
  const page = await lab.page({at: "#/change"});
  const policy = await lab.read("policy.py");
  await lab.write("other.py", policy.replace("if blocked.get(pkt.eth_src):", "if pkt.eth_src == \"00:00:00:00:00:01\":"));
  await page.getByRole("textbox", {name: "policy"}).fill(`${lab.folder}/other.py`);
  await page.getByRole("button", {name: "Plan", exact: true}).click();
  await page.getByText(/packets that the network has decided about go otherwise; rules:/).waitFor();
  await page.getByRole("heading", {name: /leave by fewer edge ports/}).waitFor();
  await page.locator("summary").first().click();
  await fitsEverywhere(page, "a plan");
  await page.getByRole("button", {name: "Apply this plan"}).click();
  await page.getByText(/^Done \(apply\)/).waitFor();
  assert.match((await lab.ask("GET", "/v1/controller")).policy.name, /other\.py$/);
  const history = page.getByRole("table", {name: "History"});
  await history.getByRole("row", {name: /admin-person.*apply of other\.py/}).waitFor();
  await page.getByRole("button", {name: "Roll back"}).click();
  await page.getByText(/^Done \(roll back\)/).waitFor();
  assert.match((await lab.ask("GET", "/v1/controller")).policy.name, /policy\.py$/);
  await history.getByRole("row", {name: /admin-person.*rollback of policy\.py/}).waitFor();
  await page.getByRole("textbox", {name: "policy"}).fill("/no/such/policy.py");
  await page.getByRole("button", {name: "Plan", exact: true}).click();
  await page.getByRole("alert").getByText("/no/such/policy.py", {exact: false}).waitFor();
  await page.context().close();
});

test("a change runs at some switches first, is called a canary there, and then runs everywhere", async () => {
  const page = await lab.page({at: "#/change"});
  const policy = await lab.read("policy.py");
  await lab.write("canary.py", policy.replace("if blocked.get(pkt.eth_src):", "if pkt.eth_src == \"00:00:00:00:00:01\":"));
  const running = async () => (await lab.ask("GET", "/v1/controller")).policy;
  const before = await running();
  await page.getByRole("textbox", {name: "policy"}).fill(`${lab.folder}/canary.py`);
  await page.getByRole("button", {name: "Plan", exact: true}).click();
  await page.getByLabel("first only at").fill("0000000000000001");
  await page.getByRole("button", {name: "Apply this plan"}).click();
  await page.getByText(/^Done \(apply\)/).waitFor();
  assert.match((await running()).canary, /canary\.py$/);
  await page.getByText("decides at some switches").waitFor();
  await page.getByRole("link", {name: /\(canary\)$/}).waitFor();
  await page.getByRole("button", {name: "Run the canary everywhere"}).click();
  await page.getByText(/^Done \(run everywhere\)/).waitFor();
  const after = await running();
  assert.deepEqual([after.canary, after.name.endsWith("canary.py")], [null, true]);
  await until("the page no longer says canary", async () => (await page.getByText("decides at some switches").count()) === 0);
  await page.getByRole("button", {name: "Roll back"}).click();
  await page.getByText(/^Done \(roll back\)/).waitFor();
  await until("it is the policy of before", async () => (await running()).name === before.name);
  await page.context().close();
});
