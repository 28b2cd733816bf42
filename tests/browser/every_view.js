// All views of the page, in one place: tests on emulated networks and on Open vSwitch go through all of them, and find a
// link to one that is missing here.
import assert from "node:assert/strict";

import {accessible, until, visit} from "./harness.js";

/** How the page is looked at: light and dark, from a telephone to a wall. */
const [SCHEMES, WIDTHS] = [["light", "dark"], [360, 1280, 3840]];
/** The parts of a view that are shown where the address names none. */
const FIRST = {network: "switches", policy: "source", time: "changes", health: "overview"};

/**
 * The addresses of all views, of a network with this switch and its name, a packet from a host to another one, a line of the policy,
 * a decision and a rule of the switch, a key of the table `blocked`, and two moments. The policy has the variable `mode` too.
 */
export function allViews({id, name, from, to, line, decision, rule, key, before, after}) {
  const moments = new URLSearchParams({from: before, at: after});
  return [
    ...["switches", "ports", "links", "hosts", "flows", "drops", "map"].map((tab) => `network/${tab}`),
    `network/map?at=${name}&hops=1`,
    ...["ports", "rules", "decisions", "tables"].map((tab) => `switch/${id}/${tab}`),
    `switch/${id}/decisions?decision=${decision}`,
    "why", `why?from=${from}&to=${to}`, `why?rule=${rule}&switch=${id}`,
    "policy", `policy?line=${line}`, "policy/decisions", `policy/decisions?switch=${id}&decision=${decision}`,
    "change",
    "state", "state/table/blocked", `state/table/blocked?${new URLSearchParams({key: JSON.stringify(key)})}`, "state/variable/mode",
    "time", ...["changes", "events", "drops", "switches", "links", "hosts", "map"].map((tab) => `time/${tab}?${moments}`),
    ...["overview", "doctor", "errors", "log", "counters"].map((tab) => `health/${tab}`),
    "nothing",
  ];
}

/** What an address leads to, whatever it is about: `switch/1/rules?q=x` is `switch/…/rules`. */
export function kindOf(view) {
  const [path, query = ""] = view.split("?");
  const [name, part, ...rest] = path.split("/");
  const asked = new URLSearchParams(query);
  const about = ["rule", "line", "decision", "key"].filter((one) => asked.has(one));
  const kind = name === "switch" ? `switch/…/${rest[0] ?? "ports"}`
    : name === "state" ? (part === undefined ? name : `state/${part}/…`)
    : part === undefined && !(name in FIRST) ? name : `${name}/${part ?? FIRST[name]}`;
  return `${kind}${about.length > 0 ? `?${about}` : ""}`;
}

/** Fails if what a page shows has a fault that axe finds, light or dark, at any width, or is wider than the screen. */
export async function fitsEverywhere(page, where) {
  for (const scheme of SCHEMES) {
    await page.emulateMedia({colorScheme: scheme});
    for (const width of WIDTHS) {
      await page.setViewportSize({width, height: 800});
      await fits(page, `${where}, ${scheme}, ${width}`, width);
    }
  }
}

async function fits(page, where, width) {
  await accessible(page, where);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= width, `${where} is ${wide} wide`);
  const tabs = await page.locator("nav [aria-current]").evaluateAll((all) => all.map((one) => [one.textContent, one.getBoundingClientRect().left, one.getBoundingClientRect().right]));
  assert.deepEqual(tabs.filter(([, left, right]) => left < 0 || right > width), [], `${where}: where one is, is in sight`);
}

/** Goes to a view, and waits until it has been read and shows this. */
export async function shows(page, view, text = "") {
  await visit(page, `#/${view}`);
  await until(`${view} shows ${text}`, async () => {
    const shown = (await page.locator("main").textContent()) ?? "";
    return shown.includes(text) && !shown.includes("reading …");
  });
}

/** Goes through views, light and dark, at each width, and fails as `fitsEverywhere` does. Returns where links lead that were seen. */
export async function everyViewFits(page, views) {
  const linked = new Set();
  for (const scheme of SCHEMES) {
    await page.emulateMedia({colorScheme: scheme});
    for (const width of WIDTHS) {
      await page.setViewportSize({width, height: 800});
      for (const view of views) {
        await shows(page, view);
        await fits(page, `${view}, ${scheme}, ${width}`, width);
        (await links(page)).forEach((link) => linked.add(link));
      }
    }
  }
  return linked;
}

/** Fails if a link leads to a view of a kind that is not among these. */
export function allAreListed(views, linked) {
  const [listed, found] = [new Set(views.map(kindOf)), new Map([...linked].map((link) => [kindOf(link), link]))];
  assert.deepEqual([...found].filter(([kind]) => !listed.has(kind)), [], "views that the tests leave out");
  // Nothing links to what is not there.
  assert.deepEqual([...listed].filter((kind) => !found.has(kind)), ["nothing"], "views to which nothing leads");
}

/** Where links of a page lead. */
export function links(page) {
  return page.locator('a[href^="#/"]').evaluateAll((all) => all.map((one) => one.getAttribute("href").slice(2)));
}
