// When the certificates of a controller expire, by a server that has its answers ready: a real one would need other clocks.
import assert from "node:assert/strict";
import {readFile} from "node:fs/promises";
import {createServer} from "node:http";
import path from "node:path";
import {after, before, test} from "node:test";
import {fileURLToPath} from "node:url";

import {Lab} from "./harness.js";

const DIST = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../../crates/maple-controller/page/dist");
const DAY = 86_400;
const now = Math.floor(Date.now() / 1000);
/** What the controller says of itself. */
const about = {version: "0", pid: 1, shards: 1, listening: [], policy: null, state_file: null, started: now, clock_stepped: 0, files: []};
const ANSWERS = {
  "/v1/session": {name: null, role: "read", csrf: null},
  "/v1/names": {switches: [], hosts: []},
  "/v1/tables": {rows: [], total: 0, next: null},
  "/v1/stats": {connections: 0, shards: 1, controller: {}, engine: {}},
  "/metrics": "",
};
/** @type {Lab} */
let lab;
let server;
let expire = {};

before(async () => {
  lab = await Lab.begin();
  server = createServer(async (request, response) => {
    const name = request.url.split("?")[0];
    const answer = name === "/v1/controller" ? {...about, ...expire} : ANSWERS[name];
    if (name === "/v1/events") {
      response.writeHead(200, {"Content-Type": "text/event-stream"}).write("event: begin\ndata: {}\n\n");
    } else if (answer !== undefined) {
      response.writeHead(200, {"Content-Type": "application/json"}).end(typeof answer === "string" ? answer : JSON.stringify(answer));
    } else if (name.startsWith("/v1/")) {
      response.writeHead(404, {"Content-Type": "application/problem+json"}).end(JSON.stringify({status: 404, detail: `no ${name} here`}));
    } else {
      const kind = {".js": "text/javascript", ".css": "text/css"}[path.extname(name)] ?? "text/html";
      response.writeHead(200, {"Content-Type": kind}).end(await readFile(path.join(DIST, name === "/" ? "index.html" : name)));
    }
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  lab.url = `http://127.0.0.1:${server.address().port}`;
});
after(async () => {
  await lab.end();
  server.closeAllConnections();
  server.close();
});

/** The certificates in the view, with whether they are marked. */
async function certificates() {
  const page = await lab.page({at: "#/health", token: null});
  await page.getByText("state file", {exact: true}).waitFor();
  const rows = await page.locator("dl.facts div").evaluateAll((all) => all.map((row) => [row.querySelector("dt").textContent, row.querySelector("dd").className]));
  await page.context().close();
  return rows.filter(([name]) => name.startsWith("certificate"));
}

test("health says when each certificate expires, and marks it in its last month", async () => {
  expire = {certificate_expires: null, http_certificate_expires: null};
  assert.deepEqual(await certificates(), []);
  expire = {certificate_expires: null, http_certificate_expires: now + 20 * DAY};
  assert.deepEqual(await certificates(), [["certificate of this page", "wrong"]]);
  expire = {certificate_expires: now + 20 * DAY, http_certificate_expires: now + 40 * DAY};
  assert.deepEqual(await certificates(), [["certificate", "wrong"], ["certificate of this page", ""]]);
});
