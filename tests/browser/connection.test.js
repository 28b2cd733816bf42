// The connection to the controller: many pages of a browser share six, and a controller that hangs closes none.
import assert from "node:assert/strict";
import {after, before, test} from "node:test";

import {Lab, LONG, until} from "./harness.js";

/** More than the connections that a browser has to a server. */
const PAGES = 7;

/** @type {Lab} */
let lab;
let controller;

before(async () => {
  lab = await Lab.begin();
  controller = await lab.controller();
  lab.network("linear:2");
  await lab.has(1, "links");
});
after(() => lab.end());

/** Hides the tab of a page, or shows it. The driver of the browser lets all pages believe that they are seen. */
async function hide(page, hidden) {
  await page.evaluate((now) => {
    Object.defineProperty(document, "hidden", {value: now, configurable: true});
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
}

test("seven tabs of a browser are all live when they are seen, and show what is there then", async () => {
  const first = await lab.page({at: "#/state/table/blocked"});
  const pages = [first];
  while (pages.length < PAGES) {
    await hide(pages.at(-1), true);
    const page = await first.context().newPage();
    page.setDefaultTimeout(LONG);
    pages.push(page);
    await page.goto(`${lab.url}/#/state/table/blocked`);
    await page.getByText("live", {exact: true}).waitFor();
    await page.getByText("0 keys").waitFor();
  }
  await lab.ask("PUT", "/v1/state/tables/blocked/00:00:00:00:00:01", {value: true});
  await pages.at(-1).getByText("1 key", {exact: true}).waitFor();
  for (const [number, page] of pages.entries()) {
    assert.equal(await page.getByText("1 key", {exact: true}).count(), number === PAGES - 1 ? 1 : 0, "hidden tabs ask nothing");
  }
  await hide(pages.at(-1), true);
  for (const page of pages) {
    assert.equal(await page.getByRole("alert").count(), 0, "nobody misses the connection of a hidden tab");
    await hide(page, false);
    await page.getByText("live", {exact: true}).waitFor();
    await page.getByText("1 key", {exact: true}).waitFor();
    assert.equal(await page.getByRole("alert").count(), 0);
    await hide(page, true);
  }
  await first.context().close();
});

test("a controller that hangs is no live one, and the page goes on by itself when it does", async () => {
  const page = await lab.page({at: "#/state/table/blocked"});
  await page.clock.install();
  await page.reload();
  await page.getByText("live", {exact: true}).waitFor();
  await page.getByText("1 key", {exact: true}).waitFor();
  controller.process.kill("SIGSTOP");
  try {
    await until("the page says so", async () => {
      await page.clock.fastForward(10_000);
      return (await page.getByRole("alert").getByText(/^No connection to the controller for/).count()) === 1;
    });
    await page.getByText("not live", {exact: true}).waitFor();
    assert.equal(await page.getByText("1 key", {exact: true}).count(), 1, "what was there is still shown");
  } finally {
    controller.process.kill("SIGCONT");
  }
  await lab.ask("PUT", "/v1/state/tables/blocked/00:00:00:00:00:02", {value: true});
  await until("it is live again", async () => {
    await page.clock.fastForward(1000);
    return (await page.getByText("live", {exact: true}).count()) === 1;
  });
  await page.getByText("2 keys").waitFor();
  assert.equal(await page.getByRole("alert").count(), 0);
  await page.context().close();
});
