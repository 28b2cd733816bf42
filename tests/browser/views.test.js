// Each view on a fat tree with faults: what it says, by keyboard and pointer, for eyes and screen readers.
import assert from "node:assert/strict";
import {after, before, test} from "node:test";

import {allAreListed, allViews, everyViewFits} from "./every_view.js";
import {Lab, lineOf, until, visit} from "./harness.js";

/** @type {Lab} */
let lab;
let page;
/** The moment at which all is well, as it is kept. */
let well;

const BLOCKED = lineOf("return drop()");

before(async () => {
  lab = await Lab.begin();
  // h3 is blocked, and a link is down that the map has seen.
  const network = await lab.emulated("fattree:4");
  await network.command("pingall", /240 of 240 answered/);
  await until("all links", async () => (await lab.ask("GET", "/v1/map")).links.length === 32);
  well = await until("a moment is kept", async () => {
    const {time, links} = await lab.ask("GET", "/v1/time/at");
    return links.length === 32 && time;
  });
  await network.command("link s1 s5 down", /link s1:1 - s5:1 down/);
  await lab.ask("PUT", "/v1/state/tables/blocked/00:00:00:00:00:03", {value: true, settled: true});
  await network.command("h3 ping h5", /h3 ping h5: no answer/);
  await network.command("h1 ping h16", /h1 ping h16: answered/);
  page = await lab.page();
});
after(() => lab.end());

/** The texts of the cells of a table's rows that are drawn. */
function rows(label) {
  return page.getByRole("region", {name: label}).locator("tbody tr[data-row]").evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));
}

test("the switches are a table that is searched and sorted in the address bar, and back leads back", async () => {
  await visit(page, "#/network/switches");
  await page.getByText("20 switches").waitFor();
  assert.deepEqual((await rows("Switches")).map(([name]) => name), Array.from({length: 20}, (_, at) => `s${at + 1}`));
  await page.getByRole("columnheader", {name: "switch"}).getByRole("button").click();
  await page.getByRole("columnheader", {name: "switch"}).getByRole("button").click();
  await until("the last one first", async () => (await rows("Switches"))[0]?.[0] === "s20");
  assert.equal(await page.getByRole("columnheader", {name: "switch"}).getAttribute("aria-sort"), "descending");
  await page.getByLabel("Search switches").fill("switch=s7");
  await until("one row", async () => (await rows("Switches")).length === 1);
  assert.match(page.url(), /q=switch%3Ds7/);
  await page.getByRole("link", {name: "s7"}).click();
  await page.getByRole("heading", {name: "s7"}).waitFor();
  await page.getByText("s7-eth1").waitFor();
  await page.goBack();
  await until("the search as it was", async () => (await rows("Switches")).map(([name]) => name).join() === "s7");
  assert.equal(await page.getByLabel("Search switches").inputValue(), "switch=s7");
});

test("hosts, ports, links, flows and drops have their tables, with names", async () => {
  await visit(page, "#/network/hosts?sort=host");
  await until("the hosts", async () => (await rows("Hosts")).length === 16);
  assert.deepEqual((await rows("Hosts"))[2].slice(0, 3), ["h3", "s8:1", "10.0.0.3"]);
  await visit(page, "#/network/ports");
  await until("the ends of the link that is down come first", async () => (await rows("Ports")).slice(0, 2).map(([port, , state]) => `${port} ${state}`).join() === "s1:1 down,s5:1 down");
  await page.getByLabel("only problems (2)").check();
  await until("they are the only problems", async () => (await rows("Ports")).length === 2);
  await visit(page, "#/switch/0000000000000005/ports");
  await until("it comes first at its switch", async () => (await rows("Ports of the switch"))[0]?.[0] === "s5:1");
  await visit(page, "#/network/links");
  await until("the links", async () => (await rows("Links")).length === 32);
  assert.equal((await rows("Links"))[0][2], "down", "what is wrong comes first");
  await visit(page, "#/network/flows");
  await until("the flows", async () => (await rows("Flows")).length > 10);
  await visit(page, "#/network/drops");
  await until("the drop", async () => (await rows("Drops")).some(([line]) => line === `policy.py:${BLOCKED}`));
});

test("arrows go from row to row, and Enter opens one", async () => {
  await visit(page, "#/network/switches?sort=switch");
  await page.getByRole("link", {name: "s1", exact: true}).focus();
  for (const key of ["ArrowDown", "ArrowDown", "ArrowUp", "End", "Home", "ArrowDown"]) {
    await page.keyboard.press(key);
  }
  await until("the second row", () => page.evaluate(() => document.activeElement?.textContent === "s2"));
  const search = page.getByLabel("Search switches");
  await search.fill("s2");
  await page.getByText("20 switches").waitFor();
  assert.ok(await search.evaluate((field) => field === document.activeElement), "a search keeps the focus");
  await search.fill("");
  await page.getByRole("link", {name: "s2", exact: true}).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", {name: "s2"}).waitFor();
  await page.keyboard.press("g");
  await page.keyboard.press("p");
  await page.getByRole("region", {name: "Source policy.py"}).waitFor();
});

test("a drop leads to its line in one click, the line to the drop's host, and back leads back", async () => {
  await visit(page, "#/network/drops");
  await page.getByRole("link", {name: `policy.py:${BLOCKED}`}).first().click();
  const about = page.getByRole("complementary", {name: `Line ${BLOCKED}`});
  await about.getByText("Drops in 15 minutes").waitFor();
  const line = page.getByRole("region", {name: "Source policy.py"}).locator("tr.chosen");
  assert.match(await line.textContent(), /return drop\(\)/);
  await page.goBack();
  await until("the drops", async () => (await rows("Drops")).length > 0);
});

test("a rule and a flow lead to their lines in two clicks", async () => {
  await visit(page, "#/switch/0000000000000008/rules?q=policy.py");
  await page.getByRole("region", {name: "Rules of the switch"}).getByRole("link", {name: /^policy\.py:/}).first().click();
  await page.getByRole("region", {name: "Source policy.py"}).waitFor();
  await visit(page, "#/network/flows?q=to%3Dh1");
  await page.getByRole("region", {name: "Flows"}).getByRole("link").first().click();
  await page.getByRole("heading", {name: "What the policy asked"}).waitFor();
  await page.getByRole("link", {name: /^policy\.py:/}).first().click();
  await page.getByRole("region", {name: "Source policy.py"}).waitFor();
});

test("why says what the policy asked, beside its source, and what would have to be different", async () => {
  await visit(page, "#/why");
  await page.getByLabel("from").fill("h3");
  await page.getByLabel("to", {exact: true}).fill("h5");
  await page.getByRole("button", {name: "Why?"}).click();
  await page.getByRole("heading", {name: "h3 (s8:1) → h5 (s11:1)"}).waitFor();
  await page.getByText("dropped", {exact: true}).waitFor();
  await page.getByRole("heading", {name: "It would pass if"}).waitFor();
  await page.getByText("blocked[h3] were absent").waitFor();
  assert.match(page.url(), /from=h3&to=h5/);
  const marked = page.locator("tr.decides");
  assert.match(await marked.textContent(), new RegExp(`${BLOCKED}\\s*return drop`));
  await page.getByLabel("from").fill("h1");
  await page.getByLabel("to", {exact: true}).fill("h16");
  await page.getByLabel("fields").fill("tcp_dst=80");
  await page.keyboard.press("Enter");
  await page.getByText("forwarded", {exact: true}).first().waitFor();
  await page.getByRole("heading", {name: "s20:", exact: false}).first().waitFor();
  const {hops} = await lab.ask("POST", "/v1/explain", {packet: {from: "h1", to: "h16", fields: {tcp_dst: "80"}}});
  assert.ok(hops.length >= 3);
  await page.getByRole("img", {name: new RegExp(`The packet's way is marked: links ${hops.length - 1}\\.`)}).waitFor();
  const counts = page.getByRole("table", {name: "Rules that take the packet at s7"}).locator("tbody td:nth-child(5)");
  await until("the counters of rules", async () => (await counts.allTextContents()).some((text) => /^[1-9]/.test(text)));
  await page.getByLabel("fields").fill("tcp_dst");
  await page.keyboard.press("Enter");
  await page.getByText("tcp_dst is not a field with its value").waitFor();
});

test("what happens is shown without a reload", async () => {
  await visit(page, "#/state/table/blocked");
  await page.getByText("1 key", {exact: true}).waitFor();
  await lab.ask("PUT", "/v1/state/tables/blocked/00:00:00:00:00:09", {value: true});
  await page.getByText("2 keys").waitFor();
  await page.getByText("h9 (00:00:00:00:00:09)").waitFor();
  await lab.ask("DELETE", "/v1/state/tables/blocked/00:00:00:00:00:09");
  await page.getByText("1 key", {exact: true}).waitFor();
});

test("the policy's lines have what they do, and its decisions are a tree", async () => {
  await visit(page, "#/policy");
  const source = page.getByRole("region", {name: "Source policy.py"});
  await until("counts", async () => /\d/.test(await source.locator("tr", {hasText: "return net.shortest_path"}).locator("td").first().textContent() ?? ""));
  await visit(page, "#/policy/decisions?switch=0000000000000008");
  const decisions = page.getByRole("region", {name: "Decisions of the switch"});
  await decisions.getByText("blocked[eth_src]", {exact: false}).first().waitFor();
  const open = decisions.getByRole("table", {name: "Open questions"});
  await open.getByRole("row", {name: /no decision about packets with .*udp_dst=53/}).first().getByRole("link", {name: /^policy\.py:/}).waitFor();
});

test("the map shows what the tables have, and is moved and searched by keys", async () => {
  await visit(page, "#/network/map");
  const map = page.getByRole("img", {name: /^Map: 20 switches, 0 of them without a connection, and 32 links, 1 of them down/});
  await map.waitFor();
  const picture = () => map.evaluate((canvas) => canvas.toDataURL());
  const first = await until("a picture", async () => {
    const now = await picture();
    return now.length > 5000 && now;
  });
  await map.focus();
  await page.keyboard.press("ArrowLeft");
  await until("another picture", async () => (await picture()) !== first);
  await page.getByRole("combobox", {name: "Switch"}).fill("s8");
  await page.getByRole("complementary", {name: "The chosen switch"}).getByText("s6:", {exact: false}).waitFor();
  await page.getByLabel("within").selectOption("1");
  await page.getByText("3 switches, 2 links").waitFor();
  assert.match(page.url(), /hops=1/);
});

test("a run that keeps its policy has nothing to change it with", async () => {
  await visit(page, "#/change");
  await page.getByText("This run keeps its policy").waitFor();
  assert.equal(await page.getByRole("button", {name: "Plan", exact: true}).count(), 0);
  await page.getByRole("table", {name: "History"}).getByRole("link", {name: "h3 (00:00:00:00:00:03)"}).click();
  await page.getByRole("table", {name: "Changes of h3 (00:00:00:00:00:03)"}).getByRole("row", {name: /admin-person.*nothing.*true/}).waitFor();
});

test("health has rates, times, shards and the log", async () => {
  await visit(page, "#/health");
  await page.getByText("until a rule is confirmed").first().waitFor();
  await page.getByRole("table", {name: "Shards"}).locator("tbody tr").first().waitFor();
  const decided = page.getByRole("row", {name: /^decisions by the policy/}).locator("td");
  const misses = async () => (await lab.ask("GET", "/v1/stats")).engine.misses.toLocaleString("en");
  await until("all decisions", async () => (await decided.nth(3).textContent()) === await misses());
  await until("their rate", async () => (await decided.nth(1).textContent()) === "0");
  assert.ok(await page.getByRole("table", {name: "to decide", exact: true}).locator(".bar-of").count() > 0, "a histogram");
  const capacity = page.getByRole("table", {name: "Capacity: the fullest tables"}).locator("tbody tr");
  await capacity.first().waitFor();
  const shares = (await capacity.locator("td:nth-child(5)").allTextContents()).map(parseFloat);
  assert.deepEqual(shares, [...shares].sort((a, b) => b - a), "the fullest first");
  await capacity.first().getByRole("link").click();
  await page.getByRole("table", {name: "Tables, as the switch says"}).waitFor();
  await visit(page, "#/health/doctor");
  await page.getByRole("heading", {name: "What was looked at"}).waitFor();
  await visit(page, "#/health/log?q=s8");
  await until("lines of the log", async () => (await rows("Log")).length > 0);
  await visit(page, "#/health/counters?q=flow_mods");
  await until("a counter", async () => (await rows("Counters")).some(([name]) => name === "flow_mods"));
});

test("no view has a fault that axe finds, light or dark, and nothing is wider than the screen", async () => {
  const id = "0000000000000008";
  const {rows: rules} = await lab.ask("GET", `/v1/switches/${id}/rules`);
  const {leaf, cookie} = rules.find((rule) => rule.leaf !== null && rule.line !== null);
  const {rows: [{key}]} = await lab.ask("GET", "/v1/state/tables/blocked");
  const {time: after} = await lab.ask("GET", "/v1/time/at");
  const views = allViews({id, name: "s8", from: "h3", to: "h5", line: BLOCKED, decision: leaf, rule: cookie, key, before: well, after});
  allAreListed(views, await everyViewFits(page, views));
});
