// A thousand switches, ten thousand hosts, and thousands of rows: what is drawn stays small, and everything can be found.
import assert from "node:assert/strict";
import {after, before, test} from "node:test";

import {FakeSwitch} from "./fake_switch.js";
import {Lab, lineOf, until, visit} from "./harness.js";

/** @type {Lab} */
let lab;
let crowded;
const [SWITCHES, LINKED, HOSTS, PER_PORT] = [1000, 111, 10_000, 1000];

before(async () => {
  lab = await Lab.begin();
  // The first ones are a tree: each has ten below it. The others have no links, which would be found slowly.
  const switches = Array.from({length: SWITCHES}, (_, at) => ({name: `s${at + 1}`}));
  const links = switches.slice(1, LINKED).map(({name}, at) => ({a: `s${Math.floor(at / 10) + 1}`, b: name}));
  await lab.write("many.json", JSON.stringify({switches, hosts: [], links}));
  // Their hosts are those of one switch, whose ports have as many as ports may.
  await lab.write("policy.py", "from maple import drop, policy\n\n\n@policy\ndef nothing(pkt, net):\n    return drop()\n");
  await lab.controller();
  lab.network("many.json");
  crowded = await FakeSwitch.connect(lab.listen, {dpid: 0xffffn, description: "crowded", port: "p", ports: HOSTS / PER_PORT});
  await lab.has(SWITCHES + 1, "switches");
  await lab.has(LINKED - 1, "links");
  await until("edge ports", async () => (await lab.ask("GET", "/v1/switches/000000000000ffff/ports?kind=edge&limit=1")).total === HOSTS / PER_PORT);
  for (let port = 0; port < HOSTS / PER_PORT; port += 1) {
    // A port that sends much at once loses some of it, so its hosts speak until they are known.
    await until("the hosts of a port", async () => {
      for (let host = 0; host < PER_PORT; host += 1) {
        crowded.hear(1 + port, 0x020000000000 + port * PER_PORT + host);
      }
      return (await lab.ask("GET", "/v1/hosts?limit=1")).total === (port + 1) * PER_PORT;
    });
  }
});
after(async () => {
  crowded?.end();
  await lab.end();
});

test("a thousand switches are a table of a few dozen rows, and a map", async () => {
  const page = await lab.page({at: "#/network/switches?sort=switch"});
  await page.getByText("1,001 switches").waitFor();
  const table = page.getByRole("region", {name: "Switches"});
  assert.equal(await table.getByRole("table").getAttribute("aria-rowcount"), String(SWITCHES + 2));
  const drawn = await table.locator("tr[data-row]").count();
  assert.ok(drawn > 10 && drawn < 100, `${drawn} rows are drawn`);
  await table.evaluate((element) => (element.scrollTop = element.scrollHeight));
  await table.getByRole("link", {name: "ffff", exact: true}).waitFor();
  await page.getByLabel("Search switches").fill("switch=309");
  await table.getByRole("link", {name: "309", exact: true}).waitFor();
  assert.equal(await table.locator("tr[data-row]").count(), 1);
  await table.getByRole("link", {name: "309", exact: true}).focus();

  await visit(page, "#/network/map");
  await until("all links", async () => (await page.getByText(`1,001 switches, ${LINKED - 1} links`).count()) === 1);
  await page.getByRole("img", {name: /^Map: 1001 switches/}).waitFor();
  await page.getByRole("combobox", {name: "Switch"}).fill("2");
  await page.getByLabel("within").selectOption("1");
  await page.getByText("12 switches, 11 links").waitFor();
});

test("ten thousand hosts are a table of a few dozen rows, and collapse at their switch on the map", async () => {
  const page = await lab.page({at: "#/network/hosts?sort=host"});
  await page.getByText("10,000 hosts").waitFor();
  const table = page.getByRole("region", {name: "Hosts"});
  const drawn = await table.locator("tr[data-row]").count();
  assert.ok(drawn > 10 && drawn < 100, `${drawn} rows are drawn`);
  await table.evaluate((element) => (element.scrollTop = element.scrollHeight));
  await table.getByRole("link", {name: "02:00:00:00:27:0f", exact: true}).waitFor();
  await page.getByLabel("Search hosts").fill("at=ffff:7");
  await until("the hosts of a port", async () => (await table.getByRole("table").getAttribute("aria-rowcount")) === String(PER_PORT + 1));
  await visit(page, "#/network/map?at=ffff");
  await page.getByRole("complementary", {name: "The chosen switch"}).getByRole("link", {name: "10,000 hosts", exact: true}).click();
  await until("all of them", async () => (await table.getByRole("table").getAttribute("aria-rowcount")) === String(HOSTS + 1));
});

test("of the rules and flows of a line the 200 with most packets are read, and how many others there are is said", async () => {
  const own = await Lab.begin();
  try {
    // Without look-ups each pair of hosts has rules of its own.
    const network = await own.emulated("linear:2,8", "--look-ups", "0");
    await network.command("pingall", /240 of 240 answered/);
    const line = lineOf("return net.shortest_path");
    const page = await own.page({at: "#/network"});
    const asked = [];
    page.on("request", (request) => {
      const {pathname, searchParams} = new URL(request.url());
      if (pathname === "/v1/rules" || pathname === "/v1/flows") {
        asked.push(`${pathname} ${searchParams.get("limit")}`);
      }
    });
    await visit(page, `#/policy?line=${line}`);
    const about = page.getByRole("complementary", {name: `Line ${line}`});
    for (const [what, column] of [["rules", "line"], ["flows", "lines"]]) {
      const section = about.locator("section", {has: page.getByRole("heading", {name: new RegExp(`^${what} that it decided: `, "i")})});
      await until(`the number of the other ${what}`, async () => {
        const {files} = await own.ask("GET", "/v1/policy");
        const {total} = await own.ask("GET", `/v1/${what}?${new URLSearchParams({[column]: `${files[0].file}:${line}`, limit: "1"})}`);
        return total > 210 && (await section.locator("p.soft").allTextContents()).includes(`and ${(total - 200).toLocaleString("en")} others`);
      });
      assert.equal(await section.getByRole("listitem").count(), 200);
    }
    assert.deepEqual([...new Set(asked)].sort(), ["/v1/flows 200", "/v1/rules 200"]);
  } finally {
    await own.end();
  }
});
