// The last 24 hours: what was at a moment, what differs at a later one, and both over a restart of the controller.
import assert from "node:assert/strict";
import {after, before, test} from "node:test";

import {everyViewFits} from "./every_view.js";
import {Lab, until, visit} from "./harness.js";

/** @type {Lab} */
let lab;
let controller;
let network;
let page;
/** Moments: all is well, a link is down, a host has moved as well. */
const moments = {};

before(async () => {
  lab = await Lab.begin();
  await lab.write("maple.toml", [1, 2, 3, 4].map((id) => `[switches.s${id}]\ndpid = "${id}"\n[hosts.h${id}]\nmac = "00:00:00:00:00:0${id}"\n`).join(""));
  controller = await lab.controller("--config", "maple.toml", "--state", "kept", "--record", "recordings");
  network = lab.network("ring:4");
  await until("all links", async () => (await lab.ask("GET", "/v1/map")).links.length === 4);
  await network.command("h1 ping h2", /h1 ping h2: answered/);
  moments.well = await kept(({links, hosts}) => links.length === 4 && hosts.length === 2);
  network.process.stdin.write("link s1 s2 down\n");
  moments.down = await kept(({links}) => links.length === 3);
  network.process.stdin.write("h1 move s3\nh1 ping h2\n");
  moments.moved = await kept(({hosts}) => hosts.some(({mac, at}) => mac === "00:00:00:00:00:01" && at.switch === "0000000000000003"));
  page = await lab.page({at: "#/time"});
});
after(() => lab.end());

/** Waits until the newest moment that is kept is so, and returns it. */
function kept(isSo) {
  return until("a moment is kept", async () => {
    const now = await lab.ask("GET", "/v1/time/at");
    return isSo(now) ? now.time : 0;
  });
}

/** The texts of the cells of a table's rows that are drawn. */
function rows(label) {
  return page.getByRole("region", {name: label}).locator("tbody tr[data-row]").evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));
}

function at(tab, from, to) {
  return visit(page, `#/time/${tab}?${new URLSearchParams({...(from ? {from} : {}), ...(to ? {at: to} : {})})}`);
}

/** What changed from the first moment to the last one is told. */
async function differs() {
  await at("changes", moments.well, moments.moved);
  await until("the changes", async () => {
    const all = (await rows("Changes")).map(([which, what, how]) => `${what} ${which} ${how}`);
    return all.some((one) => /^link s1:\d – s2:\d gone$/.test(one)) && all.includes("host h1 moved");
  });
}

test("two moments differ by the link that is gone and the host that has moved, and events say when", async () => {
  await differs();
  const [, , how, was, is] = (await rows("Changes")).find(([which]) => which === "h1");
  assert.deepEqual([how, was.split(":")[0], is.split(":")[0]], ["moved", "s1", "s3"]);
  await page.getByRole("link", {name: "events"}).click();
  await until("the link's event", async () => (await rows("Events")).some((cells) => /link s1:\d - s2:\d.*down/.test(cells.join(" "))));
  await at("changes", moments.well, moments.down);
  await until("only the link", async () => !(await rows("Changes")).some(([which]) => which === "h1") && (await rows("Changes")).length > 0);
});

test("a moment is shown as it was, and is called then, with a way back to now", async () => {
  await at("hosts", null, moments.well);
  await until("the host where it was", async () => (await rows("Hosts")).some(([name, place]) => name === "h1" && place.startsWith("s1:")));
  await page.getByRole("status").filter({hasText: /^Then:/}).waitFor();
  await page.getByText(/^This moment exactly, with the number of rules: maple replay \/.*recordings.* --until \S+Z --network$/).waitFor();
  await at("map", moments.well, moments.down);
  await page.getByRole("img", {name: /^Map: 4 switches, 0 of them without a connection, and 4 links, 1 of them down/}).waitFor();
  assert.match(page.url(), new RegExp(`from=${moments.well}&at=${moments.down}`));
  await page.getByRole("button", {name: "Back to now"}).click();
  await page.getByRole("status").filter({hasText: /^Then:/}).waitFor({state: "detached"});
  assert.ok(!page.url().includes("&at="), page.url());
  await page.getByRole("link", {name: "links"}).click();
  await until("the links of now", async () => (await rows("Links")).length === 3);
  network.process.stdin.write("link s1 s2 up\n");
  await until("what happens is shown", async () => (await rows("Links")).length === 4);
});

test("moments are chosen by keys, from change to change, and back leads back", async () => {
  await visit(page, "#/network/switches");
  await page.keyboard.press("g");
  await page.keyboard.press("t");
  const slider = page.getByRole("slider", {name: "Moment"});
  await slider.focus();
  assert.equal(await slider.getAttribute("aria-valuetext"), "now");
  await page.keyboard.press("Home");
  await page.getByRole("button", {name: "Back to now"}).waitFor();
  const first = /at=(\d+)/.exec(page.url())?.[1];
  assert.equal(Number(first), (await lab.ask("GET", "/v1/time")).from);
  await page.keyboard.press("ArrowRight");
  await until("a later moment", () => Number(/at=(\d+)/.exec(page.url())?.[1]) > Number(first));
  await page.getByRole("button", {name: "next change"}).click();
  await until("the next change", () => Number(/at=(\d+)/.exec(page.url())?.[1]) > Number(first) + 1000);
  await slider.press("Home");
  await until("the first moment", () => page.url().includes(`at=${first}`));
  await page.getByRole("slider", {name: "Compared with"}).press("End");
  await until("the moment of now", () => /from=\d+/.test(page.url()));
  await page.getByText("must not be before from").waitFor();
  await page.getByRole("link", {name: "hosts"}).click();
  await page.getByText(/\d hosts?$/).first().waitFor();
  await page.goBack();
  await page.getByRole("region", {name: "Changes"}).waitFor();
});

test("what was before a restart of the controller is still there, and when none ran is said", async () => {
  await network.stop();
  await controller.stop("SIGKILL");
  await page.getByRole("alert").getByText(/No connection to the controller/).waitFor();
  controller = await lab.controller("--config", "maple.toml", "--state", "kept", "--record", "recordings");
  network = lab.network("ring:4");
  await page.getByLabel("Token").fill("the-token-of-readers");
  await page.getByRole("button", {name: "Sign in"}).click();
  await page.getByText("live", {exact: true}).waitFor();
  await differs();
  await at("hosts", null, moments.well);
  await until("the host where it was", async () => (await rows("Hosts")).some(([name, place]) => name === "h1" && place.startsWith("s1:")));
  await until("it was before the recording of this run", async () => (await page.getByText(/This moment exactly/).count()) === 0);
  await at("changes", moments.well);
  await page.getByText(/The controller did not run from .* to /).waitFor();
  const [gap] = (await lab.ask("GET", "/v1/time")).gaps;
  await at("links", null, Math.floor((gap.from + gap.to) / 2));
  await page.getByRole("alert").getByText(/this moment is not kept: the controller did not run from/).waitFor();
});

test("no tab has a fault that axe finds, light or dark, wide or narrow, and nothing is wider than the screen", async () => {
  const asked = new URLSearchParams({from: moments.well, at: moments.moved});
  await everyViewFits(page, ["changes", "events", "drops", "switches", "links", "hosts", "map"].map((tab) => `time/${tab}?${asked}`));
});
