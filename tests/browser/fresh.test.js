// What is shown stays true while the network, the policy and tables change under it.
import assert from "node:assert/strict";
import {after, before, test} from "node:test";

import {FakeSwitch} from "./fake_switch.js";
import {Lab, lineOf, POLICY, until, visit} from "./harness.js";

const OWN = POLICY.replace("ADMIN =", 'notes = Table("notes")\nADMIN =').replace("if blocked.get", "if notes.get(pkt.eth_src) or blocked.get");

/** @type {Lab} */
let lab;
let network;
let other;
let page;

before(async () => {
  lab = await Lab.begin();
  await lab.write("policy.py", OWN);
  await lab.controller();
  network = lab.network("linear:2");
  await lab.has(1, "links");
  await network.command("pingall", /2 of 2 answered/);
  // Its host is the last one by name.
  other = await FakeSwitch.connect(lab.listen, {dpid: 0x77n, description: "another one", port: "p"});
  await lab.has(3, "switches");
  await until("an edge port", async () => (await lab.ask("GET", "/v1/switches/0000000000000077/ports?kind=edge&limit=1")).total === 1);
  await until("its host", async () => {
    other.hear(1, 0x02ffffffff01);
    return (await lab.ask("GET", "/v1/hosts?limit=1")).total === 3;
  });
  page = await lab.page();
});
after(async () => {
  other?.end();
  await lab.end();
});

/** The first cells of a table's rows that are drawn. */
function firsts(label) {
  return page.getByRole("region", {name: label}).locator("tbody tr[data-row]").evaluateAll((all) => all.map((row) => row.cells[0].textContent));
}

test("a host whose switch goes comes first, and is the only problem, without having changed itself", async () => {
  await visit(page, "#/network/hosts");
  await until("the hosts", async () => (await firsts("Hosts")).length === 3);
  assert.equal((await firsts("Hosts"))[2], "02:ff:ff:ff:ff:01");
  other.end();
  await page.getByText("only problems (1)").waitFor();
  await until("it comes first", async () => (await firsts("Hosts"))[0] === "02:ff:ff:ff:ff:01");
  await page.getByLabel("only problems (1)").check();
  await until("it alone", async () => (await firsts("Hosts")).join() === "02:ff:ff:ff:ff:01");
});

test("arrows go from key to key, and through rows that lead nowhere", async () => {
  const keys = [1, 2, 3].map((number) => `00:00:00:00:00:0${number}`);
  for (const key of keys) {
    await lab.ask("PUT", `/v1/state/tables/blocked/${key}`, {value: false});
  }
  await visit(page, "#/state/table/blocked?sort=key");
  await page.getByText("3 keys").waitFor();
  const shown = await firsts("Keys of blocked");
  await page.getByRole("link", {name: shown[0], exact: true}).focus();
  for (const key of shown.slice(1)) {
    await page.keyboard.press("ArrowDown");
    await until(key, () => page.evaluate((text) => document.activeElement?.textContent === text, key));
  }
  await visit(page, "#/health/counters?sort=name");
  await until("counters", async () => (await firsts("Counters")).length > 3);
  await page.getByRole("region", {name: "Counters"}).locator("tr[data-row]").nth(0).focus();
  await page.keyboard.press("ArrowDown");
  await until("the second counter", () => page.evaluate(() => document.activeElement?.getAttribute("aria-rowindex") === "3"));
});

test("what is edited in a table without types stays of its kind", async () => {
  const edited = async (row, before, text) => {
    await visit(page, "#/state/table/notes");
    await page.getByRole("link", {name: row, exact: true}).click();
    const field = page.getByRole("textbox", {name: "value"});
    assert.equal(await field.inputValue(), before);
    await field.fill(text);
    await page.getByRole("button", {name: "Write"}).click();
  };
  const rows = [["mac", {mac: "00:00:00:00:00:01"}], ["text", "80"], ["number", 80], ["place", {location: ["0000000000000001", 3]}]];
  await lab.ask("POST", "/v1/state/transactions", {rows: rows.map(([key, value]) => [{key: ["notes", key]}, value])});
  const now = async () => Object.fromEntries((await lab.ask("GET", "/v1/state/tables/notes")).rows.map(({key, value}) => [key, value]));
  for (const [key, before, text, after] of [
    ["mac", "00:00:00:00:00:01", "00:00:00:00:00:02", {mac: "00:00:00:00:00:02"}], ["text", "80", "443", "443"], ["number", "80", "443", 443],
    ["place", "0000000000000001:3", "2:1", {location: ["0000000000000002", 1]}],
  ]) {
    await edited(key, before, text);
    await until(`${key} is written`, async () => JSON.stringify((await now())[key]) !== JSON.stringify(rows.find(([one]) => one === key)[1]));
    assert.deepEqual((await now())[key], after);
  }
  await edited("number", "443", "many");
  await page.getByRole("alert").getByText("this is not of the kind of 443, which is there").waitFor();
  assert.equal((await now()).number, 443);
});

test("what a switch has in its tables is read again", async () => {
  const own = await lab.page({at: "#/switch/0000000000000001/tables"});
  let read = 0;
  own.on("request", (request) => (read += new URL(request.url()).pathname.endsWith("/tables") ? 1 : 0));
  await own.clock.install();
  await own.reload();
  await own.getByRole("table", {name: "Tables, as the switch says"}).locator("tbody tr").first().waitFor();
  await until("three readings", async () => {
    await own.clock.fastForward(10_000);
    return read >= 3;
  });
  await own.context().close();
});

test("why marks the lines of the policy that runs, also if it was loaded since the answer before", async () => {
  const asked = async (fields) => {
    await visit(page, `#/why?${new URLSearchParams({from: "00:00:00:00:00:01", to: "00:00:00:00:00:02", fields})}`);
    await until(`the answer about ${fields}`, async () => (await page.locator(".verdict code").first().textContent({timeout: 1000}).catch(() => "")).includes(fields.replace("udp_dst=", " > 10.0.0.2:")));
  };
  /** The source as it is shown: each line with its number and whether it decides. */
  const source = () => page.locator("table.source tbody tr:not(.gap)").evaluateAll((all) => all.map((row) => [Number(row.cells[1].textContent), row.cells[2].textContent, row.classList.contains("decides")]));
  /** Waits until the lines around what decided are those of a policy, with what stands there. */
  const shows = (policy) => until("the source of the policy", async () => {
    const [rows, lines, decides] = [await source(), policy.split("\n"), lineOf("return net.shortest_path", policy)];
    return rows.some(([line]) => line === decides - 4) && rows.every(([line, text, isMarked]) => text === lines[line - 1] && isMarked === (line === decides));
  });
  await asked("udp_dst=54");
  await shows(OWN);
  await lab.write("policy.py", `#\n#\n#\n${OWN}`);
  await lab.ask("POST", "/v1/reload", {name: null, tolerate: {count: 0}});
  await asked("udp_dst=55");
  await shows(`#\n#\n#\n${OWN}`);
});
