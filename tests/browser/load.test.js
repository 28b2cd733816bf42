// The load of a link is what its ports have counted, in the API, in the table and on the map.
import assert from "node:assert/strict";
import {after, before, test} from "node:test";

import {Lab, until, visit} from "./harness.js";

/** @type {Lab} */
let lab;
let network;

before(async () => {
  lab = await Lab.begin();
  network = await lab.emulated("linear:3,rate=100mbit");
  await until("all links", async () => (await lab.ask("GET", "/v1/map")).links.length === 2);
  await network.command("h1 ping h2", /h1 ping h2: answered/);
});
after(() => lab.end());

/** The map with the rates of the same counters: those that the ports had before it and after it. */
function mapAndPorts() {
  return until("a map between two equal readings of the ports", async () => {
    const ports = async () => (await lab.ask("GET", "/v1/ports")).rows;
    const rates = (rows) => JSON.stringify(rows.map((row) => [row.tx_bits_per_second, row.rx_bits_per_second]));
    const before = await ports();
    const {links} = await lab.ask("GET", "/v1/map");
    return rates(before) === rates(await ports()) && {links, ports: before};
  });
}

/** The rate of a text, in bits a second. */
function bits(text) {
  const [, number, unit] = /^([\d.]+) ([kMG]?)bit\/s$/.exec(text) ?? assert.fail(`no rate: ${text}`);
  return Number(number) * {"": 1, k: 1e3, M: 1e6, G: 1e9}[unit];
}

test("a link's load is that of its ports, in the direction that carries more", async () => {
  network.process.stdin.write("h1 iperf h2 600s 20mbit\n");
  const isBusy = ({links}) => links.some((link) => link.bits_per_second > 1e7);
  const {links, ports} = await until("traffic", async () => {
    const found = await mapAndPorts();
    return isBusy(found) && found;
  });
  const at = ({switch: id, port}) => ports.find((row) => row.switch === id && row.port === port);
  for (const link of links) {
    const ends = [at(link.from), at(link.to)];
    assert.equal(link.bits_per_second, Math.max(...ends.flatMap((end) => [end.tx_bits_per_second, end.rx_bits_per_second])));
    assert.equal(link.speed, Math.min(...ends.map((end) => end.speed)));
  }
  const [first, second] = ["0000000000000002", "0000000000000003"].map((id) => links.find((link) => link.to.switch === id || link.from.switch === id && link.to.switch > id));
  assert.ok(first.bits_per_second > 1e7 && second.bits_per_second < 1e6, "the way of the traffic, and no other link, is busy");
});

test("the table and the map show this load", async () => {
  const page = await lab.page();
  let shown = null;
  page.on("response", async (response) => {
    if (response.status() === 200 && response.url().endsWith("/v1/map")) {
      shown = await response.json().catch(() => shown);
    }
  });
  const busiest = () => shown?.links.reduce((a, b) => ((a.bits_per_second ?? 0) > (b.bits_per_second ?? 0) ? a : b));
  await visit(page, "#/network/links?sort=-rate");
  const cells = page.getByRole("region", {name: "Links"}).locator("tr[data-row]").first().locator("td");
  const texts = await until("the rate of the newest map", async () => {
    const [link, texts] = [busiest(), await cells.allTextContents()];
    return link?.bits_per_second > 1e7 && texts[3] !== "" && Math.abs(bits(texts[3]) / link.bits_per_second - 1) < 0.006 && texts;
  });
  assert.ok(Math.abs(parseFloat(texts[5]) - (100 * bits(texts[3])) / bits(texts[4])) < 1, texts.join(", "));
  await visit(page, "#/network/map?at=s1");
  const side = page.getByRole("complementary", {name: "The chosen switch"}).locator("tbody tr").first();
  await until("the rate beside the map", async () => {
    const [link, text] = [busiest(), await side.locator("td").last().textContent()];
    return text !== "" && link?.bits_per_second > 1e7 && Math.abs(bits(text) / link.bits_per_second - 1) < 0.006;
  });
});
