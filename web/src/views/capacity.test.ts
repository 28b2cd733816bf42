// Tests of which tables are nearly full.
import {expect, test} from "vitest";

import {fullest} from "./capacity";

test("the fullest tables come first, and those without a known size not at all", () => {
  const table = (number: number, rules: number | null, most: number | null) => ({table: number, rules, most});
  const rows = [
    {switch: "a", tables: [table(0, 10, 100), table(1, 99, 100), table(2, 5, null)], look_ups: null},
    {switch: "b", tables: null, look_ups: null},
    {switch: "c", tables: [table(0, 1, 2), table(1, null, 10), table(2, 0, 0)], look_ups: null},
  ];
  expect(fullest(rows, 2).map((one) => [one.switch, one.table, one.share])).toEqual([["a", 1, 0.99], ["c", 0, 0.5]]);
  expect(fullest(rows, 9).length).toBe(3);
  expect(fullest([], 9)).toEqual([]);
});
