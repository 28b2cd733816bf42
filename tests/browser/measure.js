// Measures the page on 1,000 switches, 3,000 links and 10,000 hosts: how soon there is a picture, frames a second while the map
// is moved, and how long an event takes to the screen. Nothing here is a test: `make bench-page` prints figures.
import {Lab, visit} from "./harness.js";

const [SWITCHES, LINKS, HOSTS] = [1000, 3000, 10_000];
const ROUNDS = 30;

/** Numbers that look random and are the same each time. */
function* numbers(seed) {
  for (let state = seed; ; state = (state * 1_103_515_245 + 12_345) % 2 ** 31) {
    yield state / 2 ** 31;
  }
}

function network() {
  const random = numbers(1);
  const below = (most) => Math.floor(random.next().value * most);
  const pairs = new Map();
  for (let at = 1; at < SWITCHES; at += 1) {
    const to = at - 1 - below(Math.min(at, 40));
    pairs.set(`${to} ${at}`, [to, at]);
  }
  while (pairs.size < LINKS) {
    const from = below(SWITCHES - 1);
    const to = Math.min(SWITCHES - 1, from + 1 + below(30));
    pairs.set(`${from} ${to}`, [from, to]);
  }
  return {
    switches: Array.from({length: SWITCHES}, (_, at) => ({name: `s${at + 1}`})),
    hosts: Array.from({length: HOSTS}, (_, at) => ({name: `h${at + 1}`, switch: `s${Math.floor(at / (HOSTS / SWITCHES)) + 1}`})),
    links: [...pairs.values()].map(([a, b]) => ({a: `s${a + 1}`, b: `s${b + 1}`})),
  };
}

function quantile(values, share) {
  return [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(share * values.length))];
}

const lab = await Lab.begin();
try {
  await lab.write("many.json", JSON.stringify(network()));
  // Hosts are known once they have sent something: each pings its neighbour at the same switch.
  const emulated = await lab.emulated("many.json");
  await lab.has(LINKS, "links");
  for (let at = 1; at < HOSTS; at += 2) {
    await emulated.command(`h${at} ping h${at + 1}`, /ping/);
  }
  await lab.has(HOSTS, "hosts");

  const page = await lab.page({at: "#/network/map"});
  const drawn = () => page.waitForFunction((name) => document.querySelector("canvas")?.getAttribute("aria-label")?.startsWith(name) === true, `Map: ${SWITCHES} switches`, {polling: "raf"});
  await drawn();
  const times = [];
  for (const [name, hash, seen] of [["map", "#/network/map", drawn], ["hosts", "#/network/hosts", () => page.waitForFunction(() => document.querySelectorAll("[data-row]").length > 20, undefined, {polling: "raf"})]]) {
    for (let round = 0; round < 5; round += 1) {
      await page.goto("about:blank");
      const began = performance.now();
      await page.goto(`${lab.url}/${hash}`, {waitUntil: "commit"});
      await seen();
      times.push(performance.now() - began);
    }
    console.log(`first picture, ${name}: ${times.splice(0).map((time) => `${time.toFixed(0)} ms`).join(", ")}`);
  }

  await visit(page, "#/network/map");
  await drawn();
  await page.waitForTimeout(2000);
  const frames = page.evaluate(() => new Promise((done) => {
    const times = [];
    const frame = (time) => {
      times.push(time);
      if (time - times[0] < 4000) {
        requestAnimationFrame(frame);
      } else {
        done(times);
      }
    };
    requestAnimationFrame(frame);
  }));
  await page.mouse.move(600, 400);
  await page.mouse.down();
  let isOver = false;
  void frames.then(() => (isOver = true));
  for (let at = 0; !isOver; at += 1) {
    await page.mouse.move(600 + 200 * Math.sin(at / 20), 400 + 150 * Math.cos(at / 30));
  }
  await page.mouse.up();
  const moments = await frames;
  const gaps = moments.slice(1).map((time, at) => time - moments[at]);
  console.log(`frames a second while the map is moved: ${((1000 * gaps.length) / (moments.at(-1) - moments[0])).toFixed(1)}; the longest but one in a hundred: ${quantile(gaps, 0.99).toFixed(1)} ms`);

  await visit(page, "#/state/variable/mode");
  await page.getByText("day", {exact: true}).waitFor();
  const late = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const text = `round-${round}`;
    const seen = page.waitForFunction((value) => document.querySelector("dd")?.textContent === value, text, {polling: "raf"});
    const began = performance.now();
    await lab.ask("PUT", "/v1/state/variables/mode", {value: text});
    const acknowledged = performance.now() - began;
    await seen;
    late.push(performance.now() - began - acknowledged);
    await page.waitForTimeout(300);
  }
  console.log(`event to screen after its acknowledgement: half ${quantile(late, 0.5).toFixed(0)} ms, worst ${Math.max(...late).toFixed(0)} ms`);
} finally {
  await lab.end();
}
