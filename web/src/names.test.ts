// Tests of names in the place of ids.
import {expect, test} from "vitest";

import {Names, short} from "./names";

const NAMES = new Names({
  switches: [{switch: "0000000000000001", name: "s1"}],
  hosts: [{mac: "00:00:00:00:00:0a", name: "h10"}],
});

test("names stand where there are some, and else ids without zeros", () => {
  expect([NAMES.switch("0000000000000001"), NAMES.switch("00000000000000ff"), short("0000000000000000")]).toEqual(["s1", "ff", "0"]);
  expect([NAMES.host("00:00:00:00:00:0a"), NAMES.host("00:00:00:00:00:0b")]).toEqual(["h10", "00:00:00:00:00:0b"]);
  expect([NAMES.place({switch: "0000000000000001", port: 3}), NAMES.id("s1"), NAMES.id("h10"), NAMES.id("x")])
    .toEqual(["s1:3", "0000000000000001", "00:00:00:00:00:0a", "x"]);
});

test("ids in a text become names or short, and parts of longer ids do not", () => {
  expect(NAMES.inText("from 0000000000000001 to 00000000000000ff:2, metadata=0x00000000000000ff")).toBe("from s1 to ff:2, metadata=0x00000000000000ff");
  expect(NAMES.inText("dl_src=00:00:00:00:00:0a, to 0000000000000001:1; 00000000000000011, 00:00:00:00:00:0b"))
    .toBe("dl_src=h10, to s1:1; 00000000000000011, 00:00:00:00:00:0b");
});

test("routes have names where there are some, and addresses stay what they are", () => {
  const names = new Names({switches: [{switch: "0000000000000011", name: "north"}, {switch: "0000000000000001", name: "s1"}], hosts: []});
  expect(names.inRoute("by 1:4, 11:2, 5:1")).toBe("by s1:4, north:2, 5:1");
  expect(names.inRoute("drop")).toBe("drop");
  expect(names.inRoute("to fd00::1:4, 10.0.0.1:4, 00:00:00:00:00:01, 0000000000000011:2")).toBe("to fd00::1:4, 10.0.0.1:4, 00:00:00:00:00:01, north:2");
});
