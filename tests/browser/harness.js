// Controllers with emulated networks, and pages in Chromium that show them. Everything ends with the test that began it.
import assert from "node:assert/strict";
import {spawn} from "node:child_process";
import {rmSync} from "node:fs";
import {chmod, mkdtemp, readFile, rm, writeFile} from "node:fs/promises";
import {createServer} from "node:net";
import {createRequire} from "node:module";
import {tmpdir} from "node:os";
import path from "node:path";
import {fileURLToPath} from "node:url";

import {chromium} from "playwright-core";

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const MAPLE = process.env.MAPLE ?? path.join(ROOT, ".venv/bin/maple");
/** How long a fact may take to come true, in milliseconds: far longer than it ever does. */
export const LONG = 180_000;

/** Tokens of the three roles, as the file has them. */
export const TOKENS = {read: "the-token-of-readers", state: "the-token-of-writers", admin: "the-token-of-admins"};

/** A policy in which guests are blocked by hand, ssh is for one host, and a line fails. */
export const POLICY = `"""Hosts that are blocked send nothing; ssh is for the host of the administrator."""

from maple import Mac, Table, Var, drop, flood, policy

blocked = Table("blocked", key=Mac, value=bool)
mode = Var("mode", "day", value=str)
ADMIN = "10.0.0.1"


@policy
def acl(pkt, net):
    if pkt.eth_dst.is_multicast:
        return flood()
    if blocked.get(pkt.eth_src):
        return drop()
    if pkt.tcp_dst == 22 and pkt.ipv4_src != ADMIN:
        return drop()
    if pkt.udp_dst == 53:
        raise ValueError("no names here")
    dst = net.locate(pkt.eth_dst)
    if dst is None:
        return flood()
    return net.shortest_path(net.locate(pkt.eth_src), dst)
`;

/** The number of the line of POLICY that has this text. */
export function lineOf(text, policy = POLICY) {
  const at = policy.split("\n").findIndex((line) => line.includes(text));
  assert.notEqual(at, -1, text);
  return at + 1;
}

/** Waits until something is true. */
export async function until(what, test) {
  const end = Date.now() + LONG;
  for (;;) {
    const found = await test();
    if (found) {
      return found;
    }
    assert.ok(Date.now() < end, `in vain: ${what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

/** A port of the loopback interface that nobody uses, and that the system gives to no connection of others meanwhile. */
export async function freePort() {
  for (;;) {
    const port = 20_000 + Math.floor(12_000 * Math.random());
    const server = createServer();
    const isFree = await new Promise((done) => {
      server.once("error", () => done(false));
      server.listen(port, "127.0.0.1", () => server.close(() => done(true)));
    });
    if (isFree) {
      return port;
    }
  }
}

// Nothing outlives the tests, also when they are interrupted. Each program has a listener.
process.setMaxListeners(100);
for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, () => process.exit(1));
}

/** A program that runs until the end of the test. */
class Program {
  constructor(args, cwd) {
    this.output = "";
    this.process = spawn(MAPLE, args, {cwd, stdio: ["pipe", "pipe", "pipe"]});
    this.process.stdout.on("data", (data) => (this.output += data));
    this.process.stderr.on("data", (data) => (this.output += data));
    this.ended = new Promise((done) => this.process.on("close", done));
    this.process.on("error", (error) => (this.output += error));
    process.once("exit", () => this.process.kill("SIGKILL"));
  }

  /** Waits until it has printed this, after what it had printed at a moment. */
  async printed(pattern, since = 0) {
    try {
      return await until(`${pattern}`, () => {
        const found = pattern.exec(this.output.slice(since));
        assert.ok(found !== null || this.process.exitCode === null, "it ended");
        return found;
      });
    } catch (error) {
      throw new Error(`${error.message}: ${this.output.slice(-2000)}`);
    }
  }

  /** Gives its console a command, and waits for what it prints of that. */
  command(text, printed) {
    const since = this.output.length;
    this.process.stdin.write(`${text}\n`);
    return this.printed(printed, since);
  }

  async stop(signal = "SIGTERM") {
    if (this.process.exitCode === null && this.process.signalCode === null) {
      this.process.kill(signal);
    }
    await this.ended;
  }
}

/** A folder, programs in it, and a browser; `end` ends all of them. */
export class Lab {
  static async begin() {
    const lab = new Lab();
    lab.folder = await mkdtemp(path.join(tmpdir(), "maple-page-"));
    process.once("exit", () => rmSync(lab.folder, {recursive: true, force: true}));
    lab.policy = "policy.py";
    lab.programs = [];
    lab.problems = [];
    await lab.write("tokens", Object.entries(TOKENS).map(([role, token]) => `${role} ${role}-person ${token}\n`).join(""));
    await chmod(path.join(lab.folder, "tokens"), 0o600);
    await lab.write("policy.py", POLICY);
    lab.browser = await chromium.launch({executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"]});
    return lab;
  }

  /** Ends everything, and fails if a page has met an error meanwhile. */
  async end() {
    await this.browser?.close();
    for (const program of this.programs.reverse()) {
      await program.stop("SIGKILL");
    }
    await rm(this.folder, {recursive: true});
    assert.deepEqual(this.problems, [], "errors in pages");
  }

  write(name, text) {
    return writeFile(path.join(this.folder, name), text);
  }

  read(name) {
    return readFile(path.join(this.folder, name), "utf8");
  }

  start(args) {
    const program = new Program(args, this.folder);
    this.programs.push(program);
    return program;
  }

  /** Runs a controller in the process of an emulated network, with its console. */
  async emulated(topology, ...args) {
    const own = ["--emulate", topology, "--console", "--http", "127.0.0.1:0", "--http-tokens", "tokens"];
    const program = this.start(["run", this.policy, ...own, ...args]);
    [, this.url] = await program.printed(/HTTP API at (http:\S+)\/v1/);
    return program;
  }

  /** Runs a controller that waits for switches. */
  async controller(...args) {
    this.listen ??= `127.0.0.1:${await freePort()}`;
    this.http ??= `127.0.0.1:${await freePort()}`;
    const own = ["--listen", this.listen, "--http", this.http, "--http-tokens", "tokens", "--control", "control"];
    const program = this.start(["run", this.policy, ...own, ...args]);
    [, this.url] = await program.printed(/HTTP API at (http:\S+)\/v1/);
    return program;
  }

  /** Runs a network of its own for the controller, with its console. */
  network(topology) {
    return this.start(["emulate", topology, "--controller", this.listen, "--console"]);
  }

  /** Waits until the controller has so many rows of something. */
  async has(count, what) {
    await until(`${count} ${what}`, async () => (await this.ask("GET", `/v1/${what}?limit=1`)).total === count);
  }

  /** Asks the API as an administrator. */
  async ask(method, target, body) {
    const headers = {Authorization: `Bearer ${TOKENS.admin}`, ...(body === undefined ? {} : {"Content-Type": "application/json"})};
    const response = await fetch(`${this.url}${target}`, {method, headers, ...(body === undefined ? {} : {body: JSON.stringify(body)})});
    assert.ok(response.ok, `${method} ${target}: ${response.status} ${response.ok ? "" : await response.clone().text()}`);
    return response.json();
  }

  /** Opens the page, signed in. What it reports as an error fails the test, apart from refusals that the test expects. */
  async page({token = TOKENS.admin, at = "#/network", expected = [], ...options} = {}) {
    const context = await this.browser.newContext({viewport: {width: 1280, height: 800}, ...options});
    const page = await context.newPage();
    page.setDefaultTimeout(LONG);
    page.on("pageerror", (error) => this.problems.push(`${error}`));
    page.on("dialog", (dialog) => {
      this.problems.push(`a dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on("console", (message) => {
      // The browser itself reports each request that is refused or has no answer.
      const isRefusal = /Failed to load resource|ERR_/.test(message.text());
      if (message.type() === "error" && !isRefusal && !expected.some((pattern) => pattern.test(message.text()))) {
        this.problems.push(message.text());
      }
    });
    await page.goto(`${this.url}/${at}`);
    if (token !== null) {
      await page.getByLabel("Token").fill(token);
      await page.getByRole("button", {name: "Sign in"}).click();
      await page.getByText("live", {exact: true}).waitFor();
    }
    return page;
  }
}

const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

/** Fails if axe finds a violation in what a page shows. */
export async function accessible(page, where) {
  if (!(await page.evaluate(() => "axe" in window))) {
    // By the debugger, because the page's own policy lets no other script in.
    await page.evaluate(await readFile(AXE, "utf8"));
  }
  const violations = await page.evaluate(async () => (await window.axe.run(document)).violations.map(
    ({id, nodes}) => `${id}: ${nodes.slice(0, 3).map((node) => `${node.html.slice(0, 200)} ${node.any.map((one) => one.message).join("; ")}`).join(" | ")}`));
  assert.deepEqual(violations, [], where);
}

/** Goes to a view by the address bar. */
export async function visit(page, hash) {
  await page.evaluate((to) => (location.hash = to), hash);
}
