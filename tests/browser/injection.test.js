// What a switch, a policy, a writer of state and an address choose is shown as text, and never run.
import assert from "node:assert/strict";
import {after, before, test} from "node:test";

import {allViews, shows} from "./every_view.js";
import {FakeSwitch} from "./fake_switch.js";
import {Lab, lineOf, until, visit} from "./harness.js";

/** @type {Lab} */
let lab;
let fake;
const EVIL = "<img src=x onerror=alert(1)>";
const POLICY = `# ${EVIL}
from maple import Mac, Table, Var, drop, flood, policy

blocked = Table("blocked", key=Mac, value=str)
mode = Var("mode", "${EVIL}", value=str)
notes = Table("notes")


@policy
def f(pkt, net):
    if pkt.eth_type == 0x0806:
        return flood()
    if blocked.get(pkt.eth_src) == "${EVIL}":
        raise ValueError("${EVIL}")
    return drop()
`;
const KEY = {mac: "00:00:00:00:00:02"};

before(async () => {
  lab = await Lab.begin();
  lab.policy = `${EVIL}.py`;
  await lab.write(lab.policy, POLICY);
  await lab.controller();
  const network = lab.network("linear:2");
  await lab.has(1, "links");
  await network.command("h1 ping h2", /h1 ping h2: no answer/);
  await lab.ask("POST", "/v1/state/transactions", {rows: [[{key: ["notes", EVIL]}, EVIL], [{key: ["blocked", KEY]}, EVIL], [{var: "mode"}, `${EVIL} at night`]]});
  fake = await FakeSwitch.connect(lab.listen, {dpid: 0x77n, description: EVIL, port: "<b>p</b>"});
  await network.command("h2 ping h1", /h2 ping h1: no answer/);
  await until("the policy fails", async () => (await lab.ask("GET", "/v1/errors")).rows.some(({text}) => text.includes(`ValueError: ${EVIL}`)));
});
after(async () => {
  fake?.end();
  await lab.end();
});

test("nothing that others choose becomes a part of the page, in any view", async () => {
  const page = await lab.page();
  const seen = async (view, text = "") => {
    await shows(page, view, text);
    assert.equal(await page.locator("main img, main b, main script").count(), 0, view);
  };
  const id = "0000000000000001";
  const {rows: rules} = await lab.ask("GET", `/v1/switches/${id}/rules`);
  const {leaf, cookie} = rules.find((rule) => rule.leaf !== null && rule.line !== null);
  const {time: after} = await until("a moment with what was dropped", () => lab.ask("GET", "/v1/time/at"));
  const {from: before} = await lab.ask("GET", "/v1/time");
  for (const view of allViews({id, name: "1", from: "00:00:00:00:00:01", to: "10.0.0.2", line: lineOf("return drop()", POLICY), decision: leaf, rule: cookie, key: KEY, before, after})) {
    await seen(view);
  }
  const evil = encodeURIComponent(EVIL);
  for (const [view, text] of [
    ["network/switches"], ["switch/0000000000000077", "<b>p</b>"], ["network/ports", "<b>p</b>"], ["network/drops"], ["policy"], ["state/table/notes"],
    ["state/table/blocked"], ["state/variable/mode"], [`state/table/notes?key=${encodeURIComponent(JSON.stringify(EVIL))}`], ["change"], ["health/errors"], ["health/log"],
    ["time/events"], [`why?from=${evil}&to=10.0.0.2`], [`policy?file=${evil}`], [`why?from=00:00:00:00:00:02&to=00:00:00:00:00:01`],
  ]) {
    await seen(view, text ?? EVIL);
  }
  await visit(page, `#/state/table/${evil}`);
  await page.getByRole("alert").getByText(EVIL, {exact: false}).waitFor();
  assert.equal(await page.locator("main img, main b, main script").count(), 0, "a table that is not there");
  await seen(`network/switches?q=${evil}`);
  assert.equal(await page.getByRole("searchbox").inputValue(), EVIL);
  await lab.write("other.py", POLICY.replace("return drop()", `raise KeyError("${EVIL}")`));
  await seen("change", "Plan");
  await page.getByRole("textbox", {name: "policy"}).fill(`${lab.folder}/other.py`);
  await page.getByRole("button", {name: "Plan", exact: true}).click();
  await page.locator("main").getByText("KeyError", {exact: false}).first().waitFor();
  assert.equal(await page.locator("main img, main b, main script").count(), 0, "a plan");
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
