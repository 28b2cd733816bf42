// Tests of the decisions in a tree, and their rules.
import {expect, test} from "vitest";

import type {RuleRow} from "../api/types";
import {decisionOf, decisions} from "./decisions";

function rule(leaf: number | null, packets: number | null, line: string | null): RuleRow {
  return {switch: "a", table: 0, priority: 1, match: "", actions: "", cookie: "0x1", n_packets: packets, n_bytes: null, leaf, line, why: null};
}

test("a decision has its rules, what they counted, and its line", () => {
  const all = decisions([rule(7, 3, "acl.py:2"), rule(null, 9, null), rule(7, null, "acl.py:2"), rule(8, 1, null)]);
  expect([...all]).toEqual([[7, {count: 2, packets: 3, line: "acl.py:2"}], [8, {count: 1, packets: 1, line: null}]]);
});

test("a line of a tree may end with a decision", () => {
  expect(decisionOf("L 3")).toEqual({before: "", number: 3});
  expect(decisionOf("    yes: L 4294967453")).toEqual({before: "    yes: ", number: 4294967453});
  expect(decisionOf("  s8:1: L 12")).toEqual({before: "  s8:1: ", number: 12});
  for (const other of ["T tcp_dst=22", "  no: V L 3 x", "  yes: Ω", "  no: V mode: L"]) {
    expect(decisionOf(other)).toBeNull();
  }
});
