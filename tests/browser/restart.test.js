// The controller goes away and comes back, and so does the network: the page says so, and shows what is there then.
import assert from "node:assert/strict";
import {after, before, test} from "node:test";

import {freePort, Lab, until} from "./harness.js";

/** @type {Lab} */
let lab;

before(async () => {
  lab = await Lab.begin();
});
after(() => lab.end());

test("the page says that the controller is gone, comes back by itself, and shows what is there then", async () => {
  const first = await lab.controller();
  let network = lab.network("linear:3");
  const page = await lab.page({at: "#/network/switches"});
  await page.getByText("3 switches").waitFor();

  await network.stop();
  await until("all are gone", async () => (await page.locator("tr.wrong").count()) === 3);
  await page.getByText("only problems (3)").waitFor();
  network = lab.network("linear:5");
  await page.getByText("5 switches").waitFor();
  await until("all are back", async () => (await page.locator("tr.wrong").count()) === 0);

  await first.stop("SIGKILL");
  await page.getByRole("alert").getByText(/No connection to the controller for/).waitFor();
  assert.equal(await page.getByText("5 switches").count(), 1, "what was there is still shown");
  await network.stop();
  await lab.controller();
  lab.network("linear:4");
  // Sessions end with the controller that began them.
  await page.getByLabel("Token").fill("the-token-of-readers");
  await page.getByRole("button", {name: "Sign in"}).click();
  await page.getByText("4 switches").waitFor();
  assert.equal(await page.getByRole("alert").count(), 0);
});

test("without tokens nobody signs in, and the page comes back by itself after a restart", async () => {
  const own = ["run", "policy.py", "--listen", `127.0.0.1:${await freePort()}`, "--http", `127.0.0.1:${await freePort()}`, "--control", "control-2"];
  const begun = async () => {
    const controller = lab.start(own);
    [, lab.url] = await controller.printed(/HTTP API at (http:\S+)\/v1/);
    return controller;
  };
  const first = await begun();
  const network = lab.start(["emulate", "linear:3", "--controller", own[3], "--console"]);
  const page = await lab.page({at: "#/network/switches", token: null});
  await page.getByText("3 switches").waitFor();
  await first.stop("SIGKILL");
  await page.getByRole("alert").getByText(/No connection to the controller for/).waitFor();
  assert.equal(await page.getByText("3 switches").count(), 1, "what was there is still shown");
  await network.stop();
  await begun();
  lab.start(["emulate", "linear:5", "--controller", own[3], "--console"]);
  await page.getByText("5 switches").waitFor();
  await until("it is live again", async () => (await page.getByRole("alert").count()) === 0);
  await page.getByText("live", {exact: true}).waitFor();
  assert.equal(await page.getByLabel("Token").count(), 0);
});
