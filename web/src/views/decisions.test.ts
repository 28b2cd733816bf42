// Tests of the decisions in a tree.
import {expect, test} from "vitest";

import {decisionOf} from "./decisions";

test("a line of a tree may end with a decision", () => {
  expect(decisionOf("L 3")).toEqual({before: "", number: 3});
  expect(decisionOf("    yes: L 4294967453")).toEqual({before: "    yes: ", number: 4294967453});
  expect(decisionOf("  s8:1: L 12")).toEqual({before: "  s8:1: ", number: 12});
  for (const other of ["T tcp_dst=22", "  no: V L 3 x", "  yes: Ω", "  no: V mode: L"]) {
    expect(decisionOf(other)).toBeNull();
  }
});
