// From rules, flows, drops and errors to the line of the policy that they are from, and back, in two clicks at most; and
// what is counted by line.
import assert from "node:assert/strict";
import {mkdir} from "node:fs/promises";
import path from "node:path";
import {after, before, test} from "node:test";

import {Lab, lineOf, POLICY, until, visit} from "./harness.js";

const OWN = POLICY.replace("if pkt.udp_dst == 53:", 'if pkt.ipv4_src == "10.0.0.2" and pkt.ipv4_dst == "10.0.0.3":');
const BLOCKED = lineOf("return drop()", OWN);
const FAILS = lineOf("raise ValueError", OWN);
const PATH = lineOf("return net.shortest_path", OWN);

/** @type {Lab} */
let lab;
let page;
let clicks;

before(async () => {
  lab = await Lab.begin();
  await lab.write("policy.py", OWN);
  const network = await lab.emulated("linear:4");
  await until("all links", async () => (await lab.ask("GET", "/v1/map")).links.length === 3);
  for (const [from, to] of [["h1", "h2"], ["h2", "h1"], ["h4", "h1"]]) {
    await network.command(`${from} ping ${to}`, /answered in/);
  }
  await lab.ask("PUT", "/v1/state/tables/blocked/00:00:00:00:00:04", {value: true, settled: true});
  await network.command("h4 ping h1", /h4 ping h1: no answer/);
  await network.command("h2 ping h3", /h2 ping h3: no answer/);
  page = await lab.page();
});
after(() => lab.end());

function table(label) {
  return page.getByRole("region", {name: label, exact: true});
}

function aside(line) {
  return page.getByRole("complementary", {name: `Line ${line}`});
}

/** Begins at a place, from which clicks are counted. */
async function begin(hash) {
  clicks = 0;
  await visit(page, hash);
}

async function click(locator) {
  clicks += 1;
  assert.ok(clicks <= 2, "two clicks are enough");
  await locator.click();
}

/** Waits until the source shows that line as the chosen one. */
async function showsLine(line) {
  const text = OWN.split("\n")[line - 1].trim();
  await until(`line ${line}`, async () => (await table("Source policy.py").locator("tr.chosen").textContent({timeout: 1000}).catch(() => "")).includes(text));
}

/** What the API has of a line. */
async function counted(line) {
  const {files} = await lab.ask("GET", "/v1/policy");
  return files.find(({file}) => file.endsWith("policy.py")).lines.find((one) => one.line === line);
}

test("a rule leads to its line, and the line to the rule", async () => {
  await begin("#/switch/0000000000000004/rules?q=actions%3Ddrop");
  const rule = table("Rules of the switch").locator("tr[data-row]", {hasText: `policy.py:${BLOCKED}`}).first();
  const cookie = new URL(await rule.getByRole("link").first().evaluate((link) => link.href.replace("#/", ""))).searchParams.get("rule");
  await click(rule.getByRole("link", {name: `policy.py:${BLOCKED}`}));
  await showsLine(BLOCKED);

  await begin(`#/policy?line=${BLOCKED}`);
  await aside(BLOCKED).getByText(/Rules that it decided: [1-9]/).waitFor();
  await click(aside(BLOCKED).locator(`a[href*="${cookie}"]`));
  await page.getByText("Rule of s4:").waitFor();
  await click(page.locator(".verdict").getByRole("link", {name: `policy.py:${BLOCKED}`}));
  await showsLine(BLOCKED);
});

test("a flow leads to its line, and the line to the flow", async () => {
  await begin("#/network/flows?q=from%3Dh1+to%3Dh2+enters%3Ds1");
  await click(table("Flows").locator("tr[data-row]").getByRole("link", {name: `policy.py:${PATH}`}));
  await showsLine(PATH);

  await begin(`#/policy?line=${PATH}`);
  await click(aside(PATH).getByRole("link", {name: "h1 → h2", exact: true}).first());
  await page.getByRole("heading", {name: "h1 (s1:1) → h2 (s2:1)"}).waitFor();
  await begin(`#/policy?line=${PATH}`);
  await click(aside(PATH).getByRole("link", {name: "in the table of flows"}));
  const rows = table("Flows").locator("tr[data-row]");
  await rows.filter({hasText: "h1"}).filter({hasText: "h2"}).first().waitFor();
  for (const text of await rows.allTextContents()) {
    assert.match(text, new RegExp(`policy\\.py:${PATH}`));
  }
});

test("a drop leads to its line, and the line to the drop", async () => {
  await begin("#/network/drops");
  await click(table("Drops").getByRole("link", {name: `policy.py:${BLOCKED}`}).first());
  await showsLine(BLOCKED);
  await aside(BLOCKED).getByText("icmp 10.0.0.4 > 10.0.0.1 echo request").waitFor();
  await click(aside(BLOCKED).getByRole("link", {name: "in the table of drops"}));
  const row = table("Drops").locator("tr[data-row]").first();
  await row.getByText("h4", {exact: true}).waitFor();
  assert.match(await row.textContent(), new RegExp(`policy\\.py:${BLOCKED}`));
});

test("an error leads to its line, and the line to the error", async () => {
  await begin("#/health/errors");
  await click(table("Problems").getByRole("link", {name: `policy.py:${FAILS}`}).first());
  await showsLine(FAILS);
  await click(aside(FAILS).getByRole("link", {name: "in the table of errors"}));
  const rows = table("Problems").locator("tr[data-row]");
  await rows.filter({hasText: "no names here"}).first().waitFor();
  assert.ok((await rows.allTextContents()).every((text) => text.includes(`policy.py:${FAILS}`)));
  // A line whose number only begins alike is another one: `policy.py:1` of `policy.py:12`.
  const search = page.getByRole("searchbox");
  const exact = await search.inputValue();
  assert.match(exact, new RegExp(`^line="?.*policy\\.py:${FAILS}"?$`));
  await search.fill(exact.replace(`:${FAILS}`, `:${String(FAILS).slice(0, 1)}`));
  await until("no row", async () => (await rows.count()) === 0);
  assert.ok((await counted(FAILS)).errors >= 1);
  await visit(page, "#/health/doctor");
  await page.getByRole("heading", {name: /^warning: since its start \d+ packets were dropped because the policy failed on them/}).waitFor();
  await page.getByText("in Maple's documentation, doctor.md, under “policy-fails”").waitFor();
});

test("the log stays in order, and shows only its problems to whom it is asked for them", async () => {
  await visit(page, "#/health/log");
  const shown = async () => table("Log").locator("tr[data-row]").evaluateAll((all) => all.map((row) => [...row.cells].slice(1).map((cell) => cell.textContent)));
  const levels = async () => (await lab.ask("GET", "/v1/log")).rows.map(({level}) => level).reverse();
  const isWrong = (level) => level === "error" || level === "warning";
  assert.ok((await levels()).some(isWrong) && !(await levels()).every(isWrong));
  await until("all of them, the newest first", async () => (await shown()).map(([level]) => level).join() === (await levels()).slice(0, (await shown()).length).join() && (await shown()).length > 10);
  await page.getByLabel(/^only problems \(\d+\)$/).check();
  await until("the problems", async () => (await shown()).map(([level]) => level).join() === (await levels()).filter(isWrong).join());
});

test("a line has the packets that were decided there, and the time that took", async () => {
  const {misses, runs, seconds} = await counted(PATH);
  assert.ok(misses >= 2 && runs >= misses && seconds > 0, JSON.stringify({misses, runs, seconds}));
  const all = (await lab.ask("GET", "/v1/policy")).files.flatMap((file) => file.lines);
  const {engine} = await lab.ask("GET", "/v1/stats");
  assert.ok(all.reduce((sum, one) => sum + one.misses, 0) <= engine.misses);
  await visit(page, `#/policy?line=${PATH}&heat=misses`);
  const columns = await table("Source policy.py").locator("thead th").allTextContents();
  const cell = (name) => table("Source policy.py").locator("tr.chosen td").nth(columns.indexOf(name)).textContent();
  assert.equal(await page.getByLabel("colour by").inputValue(), "misses");
  await until("the count on the page", async () => (await cell("misses")) === String((await counted(PATH)).misses));
  assert.match(await cell("time"), /^[\d.]+ (µs|ms|s)$/);
  assert.match(await table("Source policy.py").locator("tr.chosen").getAttribute("class"), /heat[1-4]/);
  await aside(PATH).getByText("a run").waitFor();
});

test("a decision of the tree opens with its rules and its line, closes, and its rules lead back to it", async () => {
  const {rows: rules} = await lab.ask("GET", "/v1/switches/0000000000000004/rules");
  const {leaf} = rules.find((rule) => rule.leaf !== null && rule.line?.endsWith(`policy.py:${BLOCKED}`));
  const own = rules.filter((rule) => rule.leaf === leaf);
  await visit(page, "#/switch/0000000000000004/decisions");
  const tree = table("Decisions of the switch");
  const decision = tree.getByRole("link", {name: `decision ${leaf}`, exact: true});
  const opened = tree.getByRole("region", {name: `Decision ${leaf}`});
  assert.equal(await decision.getAttribute("aria-expanded"), "false");
  await decision.click();
  await until("its rules and no others", async () => (await opened.getByRole("listitem").count()) === own.length);
  assert.equal(await decision.getAttribute("aria-expanded"), "true");
  assert.match(page.url(), new RegExp(`decision=${leaf}`));
  await opened.getByRole("link", {name: "in the table of rules"}).click();
  const rows = table("Rules of the switch").locator("tr[data-row]");
  await until("its rules in the table", async () => (await rows.count()) === own.length);
  await rows.first().getByRole("link", {name: String(leaf), exact: true}).click();
  await opened.getByRole("link", {name: "why"}).first().click();
  await page.getByText("Rule of s4:").waitFor();
  await page.goBack();
  await decision.click();
  await opened.waitFor({state: "detached"});
  await begin("#/switch/0000000000000004/decisions");
  await click(decision);
  await click(opened.getByRole("link", {name: `policy.py:${BLOCKED}`}));
  await showsLine(BLOCKED);
  await visit(page, "#/switch/0000000000000004/decisions?decision=1");
  await tree.getByText("Decision 1 is gone, or below what is shown.").waitFor();
});

test("a tree asks for the rules of the decision that is open, and of no other", async () => {
  const own = await lab.page({at: "#/switch/0000000000000004/decisions"});
  const asked = {tree: 0, rules: []};
  own.on("request", (request) => {
    const {pathname, searchParams} = new URL(request.url());
    asked.tree += /\/tree$/.test(pathname) ? 1 : 0;
    if (/\/rules$/.test(pathname)) {
      asked.rules.push([searchParams.get("leaf"), searchParams.get("limit")].join());
    }
  });
  await own.clock.install();
  await own.reload();
  /** Lets time pass until the tree has been read again. */
  const again = async () => {
    const before = asked.tree;
    await until("the tree again", async () => {
      await own.clock.fastForward(10_000);
      return asked.tree > before;
    });
  };
  const decision = own.getByRole("link", {name: /^decision /}).first();
  await decision.waitFor();
  for (let round = 0; round < 5; round += 1) {
    await again();
  }
  assert.deepEqual(asked.rules, []);
  await decision.click();
  const leaf = /\d+/.exec(await decision.textContent())[0];
  await until("its rules, again and again", async () => {
    await own.clock.fastForward(10_000);
    return asked.rules.length > 2;
  });
  assert.deepEqual([...new Set(asked.rules)], [`${leaf},50`]);
  await decision.click();
  await own.getByRole("region", {name: `Decision ${leaf}`}).waitFor({state: "detached"});
  const before = asked.rules.length;
  for (let round = 0; round < 5; round += 1) {
    await again();
  }
  assert.equal(asked.rules.length, before);
  await own.context().close();
});

test("what was shown by why first is read again and again where a link leads", async () => {
  const own = await lab.page({at: "#/why?from=h1&to=h2"});
  const read = {policy: 0, flows: 0};
  own.on("request", (request) => {
    const name = new URL(request.url()).pathname.replace("/v1/", "");
    if (name in read) {
      read[name] += 1;
    }
  });
  await own.clock.install();
  await own.reload();
  await own.getByRole("heading", {name: "What the policy asked"}).waitFor();
  await own.getByRole("link", {name: `policy.py:${PATH}`}).first().click();
  await own.getByRole("complementary", {name: `Line ${PATH}`}).waitFor();
  const before = {...read};
  assert.ok(before.policy > 0, "why has shown the policy");
  await until("all of it three times more", async () => {
    await own.clock.fastForward(10_000);
    return Object.keys(read).every((name) => read[name] >= before[name] + 3);
  });
  await own.context().close();
});

test("lines of a policy lead to it whatever its folder is called", async () => {
  const own = await Lab.begin();
  try {
    const folder = "net policies (jürgen@site, ü: 1)";
    await mkdir(path.join(own.folder, folder));
    await own.write(`${folder}/acl.py`, OWN);
    own.policy = path.join(own.folder, folder, "acl.py");
    const network = await own.emulated("linear:4");
    await until("all links", async () => (await own.ask("GET", "/v1/map")).links.length === 3);
    await network.command("h1 ping h2", /answered in/);
    await own.ask("PUT", "/v1/state/tables/blocked/00:00:00:00:00:04", {value: true, settled: true});
    await network.command("h4 ping h1", /h4 ping h1: no answer/);
    await network.command("h2 ping h3", /h2 ping h3: no answer/);
    const shown = await own.page();
    for (const [view, region, line] of [
      ["network/drops", "Drops", BLOCKED], ["network/flows", "Flows", PATH], ["health/errors", "Problems", FAILS],
      ["switch/0000000000000004/rules", "Rules of the switch", BLOCKED],
    ]) {
      await visit(shown, `#/${view}`);
      await shown.getByRole("region", {name: region, exact: true}).getByRole("link", {name: `acl.py:${line}`}).first().click();
      const text = OWN.split("\n")[line - 1].trim();
      await until(`${view} leads to line ${line}`, async () => (await shown.locator("tr.chosen").textContent({timeout: 1000}).catch(() => "")).includes(text));
    }
    for (const [line, text] of [[BLOCKED, "in the table of drops"], [FAILS, "in the table of errors"], [PATH, "in the table of flows"]]) {
      await visit(shown, `#/policy?line=${line}`);
      await shown.getByRole("complementary", {name: `Line ${line}`}).getByRole("link", {name: text}).click();
      await shown.locator("tr[data-row]").first().waitFor();
    }
  } finally {
    await own.end();
  }
});
