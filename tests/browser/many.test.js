// A thousand switches and thousands of rows: what is drawn stays small, and everything can be found.
import assert from "node:assert/strict";
import {after, before, test} from "node:test";

import {Lab, until, visit} from "./harness.js";

/** @type {Lab} */
let lab;
const [SWITCHES, LINKED] = [1000, 111];

before(async () => {
  lab = await Lab.begin();
  // The first ones are a tree: each has ten below it. The others have no links, which would be found slowly.
  const switches = Array.from({length: SWITCHES}, (_, at) => ({name: `s${at + 1}`}));
  const links = switches.slice(1, LINKED).map(({name}, at) => ({a: `s${Math.floor(at / 10) + 1}`, b: name}));
  await lab.write("many.json", JSON.stringify({switches, hosts: [], links}));
  await lab.emulated("many.json");
  await lab.has(SWITCHES, "switches");
  await lab.has(LINKED - 1, "links");
});
after(() => lab.end());

test("a thousand switches are a table of a few dozen rows, and a map", async () => {
  const page = await lab.page({at: "#/network/switches?sort=switch"});
  await page.getByText("1,000 switches").waitFor();
  const table = page.getByRole("region", {name: "Switches"});
  assert.equal(await table.getByRole("table").getAttribute("aria-rowcount"), "1001");
  const drawn = await table.locator("tr[data-row]").count();
  assert.ok(drawn > 10 && drawn < 100, `${drawn} rows are drawn`);
  await table.evaluate((element) => (element.scrollTop = element.scrollHeight));
  await table.getByRole("link", {name: "s1000", exact: true}).waitFor();
  await page.getByLabel("Search switches").fill("switch=s777");
  await table.getByRole("link", {name: "s777", exact: true}).waitFor();
  assert.equal(await table.locator("tr[data-row]").count(), 1);
  await table.getByRole("link", {name: "s777", exact: true}).focus();

  await visit(page, "#/network/map");
  await until("all links", async () => (await page.getByText(`1,000 switches, ${LINKED - 1} links`).count()) === 1);
  await page.getByRole("img", {name: /^Map: 1000 switches/}).waitFor();
  await page.getByRole("combobox", {name: "Switch"}).fill("s2");
  await page.getByLabel("within").selectOption("1");
  await page.getByText("12 switches, 11 links").waitFor();
});
