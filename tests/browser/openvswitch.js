// The page on Open vSwitch bridges: tests/system/test_page.py starts those and the controller, and runs this beside them.
import assert from "node:assert/strict";
import {execFileSync} from "node:child_process";
import {after, before, test} from "node:test";

import {allAreListed, allViews, kindOf, links, shows} from "./every_view.js";
import {accessible, Lab, lineOf, until, visit} from "./harness.js";

/** Where the page is, its policy, the file of another one that lets h4 send nothing, and the processes whose network namespaces are those of hosts. */
const {url, policy, other, hosts} = JSON.parse(process.env.MAPLE_NETWORK);
/** @type {Lab} */
let lab;
let page;
/** Moments: all is well, a link is down. */
let well;
let down;

const BLOCKED = lineOf("return drop()", policy);
const PATH = lineOf("return net.shortest_path", policy);
const NAMES = ["north", "east", "south", "west"];
const IDS = [1, 2, 3, 4].map((id) => id.toString(16).padStart(16, "0"));

before(async () => {
  lab = await Lab.begin();
  lab.url = url;
  await until("all links", async () => (await lab.ask("GET", "/v1/map")).links.length === 4);
  page = await lab.page();
});
after(() => lab.end());

/** The texts of the cells of a table's rows that are drawn. */
function rows(label) {
  return page.getByRole("region", {name: label}).locator("tbody tr[data-row]").evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));
}

/** Pings from a host to another. Returns how many answers came. */
function ping(from, to, count) {
  const command = ["--target", String(hosts[from]), "--net", "ping", "-n", "-c", String(count), "-i", "0.1", "-W", "1", `10.0.0.${to.slice(1)}`];
  try {
    return Number(/(\d+) received/.exec(execFileSync("nsenter", command, {encoding: "utf8"}))[1]);
  } catch (error) {
    // Without an answer ping fails.
    return Number(/(\d+) received/.exec(error.stdout)?.[1] ?? assert.fail(error));
  }
}

/** The rules of a bridge without what they count. */
function flows(bridge) {
  const text = execFileSync("ovs-ofctl", ["-O", "OpenFlow13", "--no-stats", "dump-flows", bridge], {encoding: "utf8"});
  return text.split("\n").sort().join("\n");
}

/** Waits until the newest moment that is kept has so many links, and returns it. */
function kept(count) {
  return until("a moment is kept", async () => {
    const {time, links} = await lab.ask("GET", "/v1/time/at");
    return links.length === count && time;
  });
}

/** The rules of a bridge with what they have counted, by Open vSwitch's own account: "table priority packets". */
function counted(bridge) {
  const text = execFileSync("ovs-ofctl", ["-O", "OpenFlow13", "dump-flows", bridge], {encoding: "utf8"});
  const rules = text.split("\n").filter((line) => line.includes("actions="));
  return new Set(rules.map((line) => ["table", "priority", "n_packets"].map((name) => new RegExp(`${name}=(\\d+)`).exec(line)?.[1] ?? "32768").join(" ")));
}

test("the switches, their ports and links are those that Open vSwitch has", async () => {
  await until("the switches", async () => (await rows("Switches")).length === 4);
  const switches = await rows("Switches");
  assert.deepEqual(switches.map(([name, state]) => [name, state]).sort(), NAMES.map((name) => [name, "connected"]).sort());
  assert.ok(switches.every((cells) => cells.some((text) => /Open vSwitch|s\d/.test(text))), `${switches}`);
  await visit(page, "#/network/ports?q=s1-eth");
  await until("the ports", async () => (await rows("Ports")).length === 3);
  assert.deepEqual((await rows("Ports")).map(([port, name, state]) => `${port} ${name} ${state}`).sort(),
    [1, 2, 3].map((number) => `north:${number} s1-eth${number} up`));
  await visit(page, "#/network/links");
  await until("the links", async () => (await rows("Links")).map((cells) => cells[2]).join() === "up,up,up,up");
  await visit(page, "#/network/map");
  await page.getByRole("img", {name: /^Map: 4 switches, 0 of them without a connection, and 4 links, 0 of them down/}).waitFor();
});

test("rules have the packets that Open vSwitch has counted, and lead to the line that made them", async () => {
  assert.equal(await until("the first answer", () => ping("h1", "h3", 1)), 1);
  assert.equal(ping("h1", "h3", 23), 23);
  await visit(page, `#/switch/${IDS[0]}/rules?q=policy.py`);
  await until("the counters of the bridge", async () => {
    const own = (await rows("Rules of the switch")).map(([table, priority, , , packets]) => `${table} ${priority} ${packets}`);
    const theirs = counted("s1");
    return own.length > 0 && own.some((rule) => Number(rule.split(" ")[2]) >= 23) && own.every((rule) => theirs.has(rule));
  });
  await page.getByRole("region", {name: "Rules of the switch"}).getByRole("link", {name: `policy.py:${PATH}`}).first().click();
  await page.getByRole("region", {name: "Source policy.py"}).locator("tr.chosen").getByText("return net.shortest_path").waitFor();
  await visit(page, "#/network/hosts");
  await until("both hosts", async () => (await rows("Hosts")).map(([name, at]) => `${name} ${at}`).join() === "h1 north:1,h3 south:1");
  await visit(page, "#/network/flows");
  await until("the flow with its packets", async () => (await rows("Flows")).some(([from, to, enters, , packets, , lines]) => (
    `${from} ${to} ${enters}` === "h1 h3 north" && Number(packets) >= 23 && lines.includes(`policy.py:${PATH}`))));
});

test("why names the rules on the way with their counters", async () => {
  await visit(page, "#/why?from=h1&to=h3&fields=eth_type%3D0x800");
  await page.getByText("forwarded", {exact: true}).first().waitFor();
  await page.getByRole("heading", {name: "north:1", exact: true}).waitFor();
  await page.getByRole("heading", {name: /^south:\d$/}).waitFor();
  const taken = page.getByRole("table", {name: "Rules that take the packet at north"});
  await until("its counter", async () => (await taken.locator("tbody tr").allTextContents()).length > 0);
  assert.match(await page.locator("tr.decides").textContent(), new RegExp(`${PATH}\\s*return net\\.shortest_path`));
});

test("a host that is blocked is dropped by the bridge, and the page says by which line", async () => {
  assert.equal(await until("an answer", () => ping("h4", "h1", 1)), 1);
  await visit(page, "#/state/table/blocked");
  await page.getByText("0 keys", {exact: true}).waitFor();
  await lab.ask("PUT", "/v1/state/tables/blocked/00:00:00:00:00:04", {value: true, settled: true});
  await page.getByText("1 key", {exact: true}).waitFor();
  assert.equal(ping("h4", "h1", 5), 0);
  await visit(page, "#/network/drops");
  await until("the drop", async () => (await rows("Drops")).some(([line, packets]) => line.endsWith(`policy.py:${BLOCKED}`) && Number(packets) >= 5));
  await lab.ask("DELETE", "/v1/state/tables/blocked/00:00:00:00:00:04?settled=true");
  assert.equal(await until("an answer again", () => ping("h4", "h1", 1)), 1);
});

test("a change is planned without touching a bridge, applied to all of them, and taken back", async () => {
  assert.equal(await until("an answer", () => ping("h4", "h1", 1)), 1);
  await visit(page, "#/change");
  await page.getByRole("textbox", {name: "policy"}).fill(other);
  const before = ["s1", "s2", "s3", "s4"].map(flows);
  await page.getByRole("button", {name: "Plan", exact: true}).click();
  await page.getByRole("heading", {name: /^Packets that leave by fewer edge ports, mostly none: [1-9]/}).waitFor();
  const lost = page.getByRole("table", {name: "Packets that leave by fewer edge ports, mostly none"}).locator("tbody tr td:nth-child(2)");
  assert.deepEqual([...new Set(await lost.allTextContents())], ["west:1"], "all of them are from h4");
  await accessible(page, "a plan");
  assert.deepEqual(["s1", "s2", "s3", "s4"].map(flows), before, "a plan changes no rule");
  assert.equal(ping("h4", "h1", 1), 1);
  await page.getByRole("button", {name: "Apply this plan"}).click();
  await page.getByText(/^Done \(apply\)/).waitFor();
  await until("the bridges drop what h4 sends", () => ping("h4", "h1", 2) === 0);
  assert.equal(ping("h1", "h3", 2), 2, "and nothing else");
  const history = page.getByRole("table", {name: "History"});
  await history.getByRole("row", {name: /admin-person.*apply of other\.py/}).waitFor();
  await page.getByRole("button", {name: "Roll back"}).click();
  await page.getByText(/^Done \(roll back\)/).waitFor();
  await until("an answer again", () => ping("h4", "h1", 1) === 1);
  await history.getByRole("row", {name: /admin-person.*rollback of policy\.py/}).waitFor();
});

test("a link that goes down is down on the page, packets take the other way, it comes back, and time has all of that", async () => {
  await visit(page, "#/network/links");
  await until("the links", async () => (await rows("Links")).every((cells) => cells[2] === "up"));
  well = await kept(4);
  execFileSync("ip", ["link", "set", "s1-eth2", "down"]);
  await until("the link is down and comes first", async () => {
    const [first] = await rows("Links");
    return first?.[2] === "down" && `${first[0]} ${first[1]}` === "north:2 east:2";
  });
  await visit(page, "#/network/map?at=north");
  await page.getByRole("img", {name: /4 links, 1 of them down/}).waitFor();
  await page.getByRole("complementary", {name: "The chosen switch"}).getByRole("row", {name: /east:2.*down/}).waitFor();
  await until("the other way", () => ping("h1", "h2", 1) === 1);
  await visit(page, "#/why?from=h1&to=h2&fields=eth_type%3D0x800");
  for (const name of NAMES) {
    await page.getByRole("heading", {name: new RegExp(`^${name}:\\d$`)}).waitFor();
  }
  down = await kept(3);
  execFileSync("ip", ["link", "set", "s1-eth2", "up"]);
  await visit(page, "#/network/map");
  await page.getByRole("img", {name: /4 links, 0 of them down/}).waitFor();
  await kept(4);

  await visit(page, `#/time/links?at=${well}`);
  await page.getByText("4 links", {exact: true}).waitFor();
  await page.getByRole("status").filter({hasText: /^Then:/}).waitFor();
  await visit(page, `#/time/links?at=${down}`);
  await page.getByText("3 links", {exact: true}).waitFor();
  assert.ok(!(await rows("Links")).flat().some((place) => place === "north:2" || place === "east:2"));
  await visit(page, `#/time/changes?from=${well}&at=${down}`);
  await until("the link that went", async () => (await rows("Changes")).some(([which, what, how]) => (
    what === "link" && how === "gone" && ["north:2 – east:2", "east:2 – north:2"].includes(which))));
  await visit(page, `#/time/map?from=${well}&at=${down}`);
  await page.getByRole("img", {name: /^Map: 4 switches, 0 of them without a connection, and 4 links, 1 of them down/}).waitFor();
  await visit(page, `#/time/changes?from=${down}`);
  await until("the link that came back", async () => (await rows("Changes")).some(([which, what, how]) => (
    what === "link" && how === "added" && ["north:2 – east:2", "east:2 – north:2"].includes(which))));
});

test("every view has what the bridges have, without a fault that axe finds", async () => {
  const id = IDS[2];
  // It may send, but the table has a key.
  await lab.ask("PUT", "/v1/state/tables/blocked/00:00:00:00:00:02", {value: false, settled: true});
  const {rows: [{key}]} = await lab.ask("GET", "/v1/state/tables/blocked");
  const decided = async () => (await lab.ask("GET", `/v1/switches/${id}/rules`)).rows.find((rule) => rule.leaf !== null && rule.line !== null);
  // Decisions of before the link came back may be made again.
  const {leaf, cookie} = await until("a decision that stays", async () => {
    const first = await decided();
    await page.waitForTimeout(1000);
    return (await decided())?.leaf === first?.leaf && first;
  });
  const views = allViews({id, name: "south", from: "h4", to: "h1", line: BLOCKED, decision: leaf, rule: cookie, key, before: well, after: down});
  const seen = {
    "network/switches": "north", "network/ports": "s1-eth1", "network/links": "north:2", "network/hosts": "h1", "network/flows": "h1", "network/drops": `policy.py:${BLOCKED}`,
    "network/map": "links", "switch/…/ports": "s3-eth1", "switch/…/rules": "CONTROLLER", "switch/…/decisions": "blocked[", "switch/…/tables": "room for",
    "switch/…/decisions?decision": "made at", why: "Name the sender", "why?from=h4&to=h1": "forwarded", "why?rule": "Rule of south", "policy/source": "return net.shortest_path",
    "policy/source?line": "return drop()", "policy/decisions": "blocked[", "policy/decisions?decision": "made at", change: "rollback", state: "blocked",
    "state/table/…": "1 key", "state/table/…?key": "Changes of h2", "state/variable/…": "day", time: "Compared with", "time/changes": "gone", "time/events": "down", "time/drops": "kind", "time/switches": "south",
    "time/links": "3 links", "time/hosts": "h1", "time/map": "Moment", "health/overview": "until a rule is confirmed", "health/doctor": "What was looked at",
    "health/errors": "", "health/log": "north", "health/counters": "flow_mods", nothing: "There is no such view",
  };
  const linked = new Set();
  for (const view of views) {
    await shows(page, view, seen[view] ?? seen[kindOf(view)] ?? assert.fail(`nothing is expected of ${view}`));
    await accessible(page, view);
    (await links(page)).forEach((link) => linked.add(link));
  }
  allAreListed(views, linked);
});

test("a switch that leaves is named first, and is back without a reload", async () => {
  await visit(page, "#/network/switches");
  const target = execFileSync("ovs-vsctl", ["--timeout=20", "get-controller", "s3"], {encoding: "utf8"}).trim();
  execFileSync("ovs-vsctl", ["--timeout=20", "del-controller", "s3"]);
  await until("it is not connected", async () => {
    const [first] = await rows("Switches");
    return first?.[0] === "south" && /^not connected/.test(first[1]);
  });
  execFileSync("ovs-vsctl", ["--timeout=20", "set-controller", "s3", target]);
  await until("all are connected", async () => (await rows("Switches")).every(([, state]) => state === "connected"));
});
