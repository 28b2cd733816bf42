// Measures the page: how soon it shows 1,000 switches, 3,000 links and 10,000 hosts, frames a second while the map is moved, and how
// long an event takes to the screen. Nothing here is a test: `make bench-page` prints figures. The large network is a server
// that has its answers ready, so that only the page is measured; the events are those of a controller, which is at rest at first
// and then has 1,000,000 packet-ins a second to answer.
import {readFile} from "node:fs/promises";
import {createServer} from "node:http";
import path from "node:path";
import {fileURLToPath} from "node:url";

import {Lab, until} from "./harness.js";

const DIST = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../../crates/maple-controller/page/dist");
const [SWITCHES, LINKS, HOSTS] = [1000, 3000, 10_000];
const [LOADS, ROUNDS, MOVED, RATE] = [5, 100, 4000, 1_000_000];

const id = (at) => (at + 1).toString(16).padStart(16, "0");
const mac = (at) => (at + 1).toString(16).padStart(12, "0").replace(/(..)(?=.)/g, "$1:");

/** The answers of a controller with a large network. */
function answers() {
  const switches = Array.from({length: SWITCHES}, (_, at) => ({switch: id(at), name: `s${at + 1}`, x: 7 * (at % 40) + (at % 3), y: 7 * Math.floor(at / 40) + (at % 5), connected: at % 100 !== 99, hosts: HOSTS / SWITCHES}));
  const links = Array.from({length: LINKS}, (_, at) => {
    const [a, step] = [at % SWITCHES, [1, 40, 41][Math.floor(at / SWITCHES)]];
    const port = 1 + Math.floor(at / SWITCHES);
    return {from: {switch: id(a), port}, to: {switch: id((a + step) % SWITCHES), port: 10 + port}, bits_per_second: (at * 7e5) % 1e9, speed: 1e9, up: at % 200 !== 0};
  });
  const list = (rows) => ({rows, total: rows.length, next: null});
  return {
    "/v1/session": {name: null, role: "read", csrf: null},
    "/v1/map": {switches, links},
    "/v1/names": {switches: switches.map(({switch: one, name}) => ({switch: one, name})), hosts: Array.from({length: HOSTS}, (_, at) => ({mac: mac(at), name: `h${at + 1}`}))},
    "/v1/hosts": list(Array.from({length: HOSTS}, (_, at) => ({mac: mac(at), at: {switch: id(at % SWITCHES), port: 20 + Math.floor(at / SWITCHES)}, ipv4: [`10.0.${at >> 8}.${at & 255}`], ipv6: []}))),
    "/v1/ports": list([]),
    "/v1/controller": {version: "", pid: 0, shards: 2, listening: [], policy: null, state_file: null, certificate_expires: null, http_certificate_expires: null, started: 0, files: []},
  };
}

/** Serves the page with these answers. */
async function serve() {
  const texts = new Map(Object.entries(answers()).map(([name, one]) => [name, JSON.stringify(one)]));
  const server = createServer(async (request, response) => {
    const name = request.url.split("?")[0];
    const text = texts.get(name);
    if (name === "/v1/events") {
      response.writeHead(200, {"Content-Type": "text/event-stream"}).write("event: begin\ndata: {}\n\n");
    } else if (text !== undefined) {
      response.writeHead(200, {"Content-Type": "application/json"}).end(text);
    } else {
      const kind = {".js": "text/javascript", ".css": "text/css"}[path.extname(name)] ?? "text/html";
      response.writeHead(200, {"Content-Type": kind}).end(await readFile(path.join(DIST, name === "/" ? "index.html" : name)));
    }
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return server;
}

function quantile(values, share) {
  return [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(share * values.length))];
}

/** The times from the address to the picture. */
async function firstPictures(page, url, seen) {
  const times = [];
  for (let round = 0; round < LOADS; round += 1) {
    await page.goto("about:blank");
    const began = performance.now();
    await page.goto(url, {waitUntil: "commit"});
    await page.waitForFunction(seen, undefined, {polling: "raf"});
    times.push(performance.now() - began);
  }
  return times.map((time) => `${time.toFixed(0)} ms`).join(", ");
}

/** The lengths of frames, in milliseconds, while the map is moved. */
async function moved(page) {
  let isOver = false;
  const frames = page.evaluate((length) => new Promise((done) => {
    const times = [];
    const frame = (time) => {
      times.push(time);
      if (time - times[0] < length) {
        requestAnimationFrame(frame);
      } else {
        done(times);
      }
    };
    requestAnimationFrame(frame);
  }), MOVED).finally(() => (isOver = true));
  await page.mouse.move(600, 400);
  await page.mouse.down();
  for (let at = 0; !isOver; at += 1) {
    await page.mouse.move(600 + 200 * Math.sin(at / 20), 400 + 150 * Math.cos(at / 30));
  }
  await page.mouse.up();
  const times = await frames;
  return times.slice(1).map((time, at) => time - times[at]);
}

/** How long it takes from a request that writes a variable until the page shows it. */
async function delays(page) {
  const late = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const text = `round-${round}-${performance.now()}`;
    const seen = page.waitForFunction((value) => document.querySelector("dd")?.textContent === value, text, {polling: "raf"});
    const began = performance.now();
    await lab.ask("PUT", "/v1/state/variables/mode", {value: text});
    await seen;
    late.push(performance.now() - began);
    await page.waitForTimeout(300);
  }
  return `half ${quantile(late, 0.5).toFixed(0)} ms, 99 % ${quantile(late, 0.99).toFixed(0)} ms, worst ${Math.max(...late).toFixed(0)} ms`;
}

async function packetIns() {
  return (await lab.ask("GET", "/v1/stats")).controller.of_packet_ins;
}

const lab = await Lab.begin();
const server = await serve();
try {
  const url = `http://127.0.0.1:${server.address().port}`;
  const page = await (await lab.browser.newContext({viewport: {width: 1280, height: 800}})).newPage();
  console.log(`first picture of the map: ${await firstPictures(page, `${url}/#/network/map`, () => document.querySelector("canvas")?.getAttribute("aria-label")?.startsWith("Map: 1000 switches") === true)}`);
  console.log(`first picture of the hosts: ${await firstPictures(page, `${url}/#/network/hosts`, () => document.querySelectorAll("[data-row]").length > 20)}`);
  await page.goto(`${url}/#/network/map`);
  await page.waitForTimeout(1000);
  const gaps = await moved(page);
  console.log(`frames a second while the map is moved: ${(1000 / (gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length)).toFixed(1)}; 99 % of frames take at most ${quantile(gaps, 0.99).toFixed(1)} ms`);
  await page.context().close();

  await lab.controller();
  const own = await lab.page({at: "#/state/variable/mode"});
  await own.getByText("day", {exact: true}).waitFor();
  console.log(`from a request that writes to the screen: ${await delays(own)}`);
  const load = lab.start(["load", "--connect", lab.listen, "--mode", "rate", "--rate", `${RATE}`, "--macs", "100", "--duration", "3600s"]);
  await until("packets", async () => (await packetIns()) > RATE);
  const [before, began] = [await packetIns(), performance.now()];
  const late = await delays(own);
  const rate = (await packetIns() - before) / (performance.now() - began) * 1000;
  await load.stop();
  console.log(`the same beside ${Math.round(rate).toLocaleString("en")} packet-ins a second: ${late}`);
} finally {
  server.closeAllConnections();
  server.close();
  await lab.end();
}
