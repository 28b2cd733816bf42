// The page on Open vSwitch bridges: tests/system/test_page.py starts those and the controller, and runs this beside them.
import assert from "node:assert/strict";
import {execFileSync} from "node:child_process";
import {after, before, test} from "node:test";

import {accessible, Lab, lineOf, until, visit} from "./harness.js";

/** Where the page is, its policy, and the processes whose network namespaces are those of hosts. */
const {url, policy, hosts} = JSON.parse(process.env.MAPLE_NETWORK);
/** @type {Lab} */
let lab;
let page;

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
  await until("the flow", async () => (await rows("Flows")).some(([from, to, enters]) => `${from} ${to} ${enters}` === "h1 h3 north" || enters === "north"));
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

test("a link that goes down is down on the page, packets take the other way, and it comes back", async () => {
  await visit(page, "#/network/links");
  await until("the links", async () => (await rows("Links")).every((cells) => cells[2] === "up"));
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
  execFileSync("ip", ["link", "set", "s1-eth2", "up"]);
  await visit(page, "#/network/map");
  await page.getByRole("img", {name: /4 links, 0 of them down/}).waitFor();
});

test("every view has what the bridges have, without a fault that axe finds", async () => {
  for (const [view, seen] of [
    ["network/switches", "north"], ["network/links", "north:2"], ["network/hosts", "h1"], ["network/flows", "h1"],
    [`switch/${IDS[2]}`, "s3-eth1"], [`switch/${IDS[2]}/rules`, "CONTROLLER"], [`switch/${IDS[2]}/decisions`, "blocked["], [`switch/${IDS[2]}/tables`, "room for"],
    ["policy", "return net.shortest_path"], ["policy/decisions", "blocked["], ["change", "policy.py"], ["state", "blocked"], ["time", "south"],
    ["health", "until a rule is confirmed"], ["health/doctor", ""], ["health/errors", ""], ["health/log", "north"], ["health/counters", "flow_mods"],
  ]) {
    await visit(page, `#/${view}`);
    await until(`${view} shows ${seen}`, async () => {
      const text = (await page.locator("main").textContent()) ?? "";
      return text.includes(seen) && !text.includes("reading …");
    });
    await accessible(page, view);
  }
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
