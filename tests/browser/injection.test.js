// What a switch, a policy, a writer of state and an address choose is shown as text, and never run.
import assert from "node:assert/strict";
import {after, before, test} from "node:test";

import {Lab, until, visit} from "./harness.js";
import {FakeSwitch} from "./fake_switch.js";

/** @type {Lab} */
let lab;
let fake;
const EVIL = "<img src=x onerror=alert(1)>";

before(async () => {
  lab = await Lab.begin();
  await lab.write("policy.py", `# ${EVIL}\nfrom maple import Table, drop, policy\n\nnotes = Table("notes")\n\n\n@policy\ndef f(pkt, net):\n    if notes.get(pkt.eth_src) == "${EVIL}":\n        raise ValueError("${EVIL}")\n    return drop()\n`);
  await lab.controller();
  const network = lab.network("linear:2");
  await lab.has(1, "links");
  await network.command("h1 ping h2", /h1 ping h2: no answer/);
  await lab.has(1, "hosts");
  fake = await FakeSwitch.connect(lab.listen, {dpid: 0x77n, description: EVIL, port: "<b>p</b>"});
});
after(async () => {
  fake?.end();
  await lab.end();
});

test("nothing that others choose becomes a part of the page", async () => {
  const page = await lab.page();
  await lab.ask("POST", "/v1/state/transactions", {rows: [[{key: ["notes", EVIL]}, EVIL]]});
  const seen = async (hash, text = EVIL) => {
    await visit(page, hash);
    await page.getByText(text, {exact: false}).first().waitFor();
    assert.equal(await page.locator("main img, main b, main script").count(), 0, hash);
  };
  await seen("#/network/switches");
  await seen("#/switch/0000000000000077", "<b>p</b>");
  await seen("#/network/ports", "<b>p</b>");
  await seen("#/policy");
  await seen("#/state/table/notes");
  await seen(`#/state/table/${encodeURIComponent(EVIL)}`);
  await seen(`#/why?from=${encodeURIComponent(EVIL)}&to=10.0.0.2`);
  await seen(`#/network/switches?q=${encodeURIComponent(EVIL)}`);
  await seen(`#/policy?file=${encodeURIComponent(EVIL)}`);
  await until("no picture was asked for", async () => (await page.evaluate(() => performance.getEntriesByType("resource").filter((one) => one.name.endsWith("/x")).length)) === 0);
});

test("a name that has more than letters, digits and a few signs names nothing", async () => {
  const other = await Lab.begin();
  try {
    const switches = [{name: `${EVIL} 1`}, {name: "s2"}];
    const hosts = [{name: EVIL, switch: `${EVIL} 1`}, {name: "h2", switch: "s2"}];
    await other.write("evil.json", JSON.stringify({switches, hosts, links: [{a: `${EVIL} 1`, b: "s2"}]}));
    const network = await other.emulated("evil.json");
    await until("the link", async () => (await other.ask("GET", "/v1/map")).links.length === 1);
    await network.command("h2 ping 10.0.0.1", /ping .*: answered/);
    assert.ok(!JSON.stringify(await other.ask("GET", "/v1/names")).includes("img"));
    const page = await other.page();
    await visit(page, "#/network/hosts");
    await page.getByRole("region", {name: "Hosts"}).getByRole("link", {name: "00:00:00:00:00:01", exact: true}).click();
    await page.getByLabel("to", {exact: true}).fill("h2");
    await page.getByRole("button", {name: "Why?"}).click();
    await page.getByRole("heading", {name: /^00:00:00:00:00:01 .* → h2 /}).waitFor();
    await visit(page, "#/network/map?at=1");
    await page.getByRole("complementary", {name: "The chosen switch"}).getByRole("link", {name: "1 host", exact: true}).click();
    await until("its host, and not the one of switch s2:1", async () => (await page.getByRole("region", {name: "Hosts"}).locator("tr[data-row]").count()) === 1);
    assert.equal(await page.locator("main img, main script").count(), 0);
  } finally {
    await other.end();
  }
});
