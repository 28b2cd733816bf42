// Tests of questions about packets: what is typed, as the API takes it.
import {expect, test} from "vitest";

import {question} from "./question";

test("a packet is asked for by its hosts and fields", () => {
  expect(question({from: "h1", to: "h2", fields: "tcp_dst=80, vlan_vid=5"})).toEqual({packet: {from: "h1", to: "h2", fields: {tcp_dst: "80", vlan_vid: "5"}}});
  expect(question({from: "h1", to: "", at: "s1:3"})).toEqual({packet: {from: "h1", at: "s1:3"}});
});

test("a rule is asked for by its cookie", () => {
  expect(question({rule: "0x4d", switch: "1", from: "h1"})).toEqual({rule: {cookie: "0x4d", switch: "1"}});
});

test("without anything nothing is asked, and half a field is an error", () => {
  expect(question({q: "x"})).toBeNull();
  for (const fields of ["tcp_dst", "=80", "tcp_dst="]) {
    expect(question({from: "h1", fields})).toBeInstanceOf(Error);
  }
});
