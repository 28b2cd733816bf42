// Takes the pictures of docs/images: the page on an emulated campus with a blocked host, a link that is down, and traffic.
import path from "node:path";
import {fileURLToPath} from "node:url";

import {Lab, lineOf, POLICY, until, visit} from "./harness.js";

const IMAGES = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../../docs/images");
const EDGE = [7, 8, 11, 12, 15, 16, 19, 20];
const HOSTS = ["laptop-ann", "printer", "camera", "laptop-ben", "phone-ann", "phone-ben", "display", "server-1", "server-2", "server-3", "backup", "door", "sensor-1", "sensor-2", "guest-1", "guest-2"];

/** The names of a fat tree's switches and hosts. */
function names() {
  const role = (id) => (id <= 4 ? `core-${id}` : `pod-${Math.floor((id - 1) / 4)}-${EDGE.includes(id) ? "edge" : "dist"}-${id % 2 === 1 ? 1 : 2}`);
  const switches = Array.from({length: 20}, (_, at) => `[switches.${role(at + 1)}]\ndpid = "${(at + 1).toString(16)}"\n`);
  const hosts = HOSTS.map((name, at) => `[hosts.${name}]\nmac = "00:00:00:00:00:${(at + 1).toString(16).padStart(2, "0")}"\n`);
  return [...switches, ...hosts].join("\n");
}

const lab = await Lab.begin();
try {
  await lab.write("maple.toml", names());
  await lab.controller("--config", "maple.toml");
  const network = lab.network("fattree:4,rate=100mbit");
  await lab.has(32, "links");
  await network.command("pingall", /240 of 240 answered/);
  await until("all links on the map", async () => (await lab.ask("GET", "/v1/map")).links.length === 32);
  await network.command("link s4 s14 down\nh1 ping h2", /h1 ping h2/);
  const page = await lab.page({viewport: {width: 1160, height: 640}});
  await lab.ask("PUT", "/v1/state/tables/blocked/00:00:00:00:00:03", {value: true, settled: true});
  await network.command("h3 ping h5", /h3 ping h5: no answer/);
  // It goes on while the pictures are taken.
  network.process.stdin.write("h1 iperf h16 300s 55mbit\n");
  await page.getByText("20 switches").waitFor();
  await until("traffic", async () => {
    await lab.ask("GET", "/v1/ports?limit=1");
    return (await lab.ask("GET", "/v1/map")).links.some((link) => link.bits_per_second > 3e7);
  });
  const shoot = async (name, hash, seen) => {
    await visit(page, hash);
    await seen();
    await page.waitForTimeout(500);
    await page.screenshot({path: path.join(IMAGES, `page-${name}.png`)});
  };
  await shoot("map", "#/network/map?at=core-4", () => page.getByRole("complementary").getByText("down").waitFor());
  await shoot("links", "#/network/links", () => page.getByRole("cell", {name: "down"}).waitFor());
  await shoot("why", "#/why?from=camera&to=phone-ann&fields=tcp_dst%3D80", () => page.getByText("blocked[camera] were absent").waitFor());
  const line = lineOf("return drop()");
  await shoot("policy", `#/policy?line=${line}`, () => page.getByRole("complementary").getByText("Drops in 15 minutes").waitFor());
  await lab.write("policy.py", POLICY.replace("blocked.get(pkt.eth_src)", "blocked.get(pkt.eth_src) or pkt.eth_src == \"00:00:00:00:00:04\""));
  await visit(page, "#/change");
  await page.getByRole("button", {name: "Plan", exact: true}).click();
  await shoot("change", "#/change", () => page.getByText(/go otherwise; rules:/).waitFor());
  await lab.ask("PUT", "/v1/state/tables/blocked/00:00:00:00:00:0f", {value: true});
  await shoot("state", "#/state/table/blocked", () => page.getByText("2 keys").waitFor());
  await shoot("time", "#/time", () => page.locator(".plot path").first().waitFor());
  await page.emulateMedia({colorScheme: "dark"});
  await shoot("health", "#/health", () => page.waitForFunction(() => document.querySelector("polyline")?.getAttribute("points").split(" ").length > 6));
} finally {
  await lab.end();
}
