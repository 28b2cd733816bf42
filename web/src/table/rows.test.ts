// Tests of search and order, which decide what people find.
import {expect, test} from "vitest";

import {type Cell, exactly, type Field, nextSort, order, search, windowOf} from "./rows";

interface Row {
  readonly name: string;
  readonly rate: number | null;
  readonly up: boolean;
}

const FIELDS: Field<Row>[] = [
  {name: "name", of: (row) => row.name},
  {name: "rate", of: (row) => row.rate},
];

const ROWS: Row[] = [
  {name: "s10", rate: 5, up: true},
  {name: "s2", rate: null, up: true},
  {name: "s9", rate: 50, up: false},
  {name: "s1", rate: 7, up: true},
];

function names(rows: readonly Row[]): string[] {
  return rows.map((row) => row.name);
}

test("without a sort what is wrong comes first, and then the first column", () => {
  expect(names(order(ROWS, FIELDS, "", (row) => !row.up))).toEqual(["s9", "s1", "s2", "s10"]);
});

test("a chosen sort counts alone, and what is not known comes last in both directions", () => {
  expect(names(order(ROWS, FIELDS, "rate", (row) => !row.up))).toEqual(["s10", "s1", "s9", "s2"]);
  expect(names(order(ROWS, FIELDS, "-rate", (row) => !row.up))).toEqual(["s9", "s1", "s10", "s2"]);
});

test("a column that is not there sorts nothing else than the first", () => {
  expect(names(order(ROWS, FIELDS, "-nothing", () => false))).toEqual(["s1", "s2", "s9", "s10"]);
});

test("the order is the same whatever the order before, also of mixed cells", () => {
  const cells: Cell[] = ["b", 2, null, "a", 10, "a1", -1, "A"];
  const fields: Field<Cell>[] = [{name: "cell", of: (cell) => cell}];
  const expected = [-1, 2, 10, "a", "a1", "b", null];
  for (let turn = 0; turn < cells.length; turn += 1) {
    cells.push(cells.shift() ?? null);
    const sorted = order(cells, fields, "cell", () => false).filter((cell) => cell !== "A");
    expect(sorted).toEqual(expected);
  }
});

test("each word of a search has to be found, in its column if it names one", () => {
  expect(names(search(ROWS, FIELDS, "s 5"))).toEqual(["s10", "s9"]);
  expect(names(search(ROWS, FIELDS, "name=s1"))).toEqual(["s1"]);
  expect(names(search(ROWS, FIELDS, "S1"))).toEqual(["s10", "s1"]);
  expect(names(search(ROWS, FIELDS, "other=1"))).toEqual([]);
  expect(search(ROWS, FIELDS, " ")).toBe(ROWS);
});

test("a column that has several parts is found by each of them, and by no part of a part", () => {
  const fields: Field<string>[] = [{name: "lines", of: (row) => row}];
  const rows = ["acl.py:2", "acl.py:12, acl.py:20", "acl.py:20"];
  expect(search(rows, fields, "lines=acl.py:20")).toEqual(rows.slice(1));
  expect(search(rows, fields, "lines=acl.py:2")).toEqual(["acl.py:2"]);
});

test("a column is sorted in one direction, in the other, and not", () => {
  expect([nextSort("", "rate", true), nextSort("-rate", "rate", true), nextSort("rate", "rate", true)]).toEqual(["-rate", "rate", ""]);
  expect([nextSort("-rate", "name", false), nextSort("name", "name", false), nextSort("-name", "name", false)]).toEqual(["name", "-name", ""]);
});

test("only rows that are seen are drawn, and some around them", () => {
  expect(windowOf(10_000, 0, 500, 25)).toEqual({first: 0, end: 30});
  expect(windowOf(10_000, 2500, 500, 25)).toEqual({first: 90, end: 130});
  expect(windowOf(3, 0, 500, 25)).toEqual({first: 0, end: 3});
  expect(windowOf(3, 9999, 500, 25)).toEqual({first: 3, end: 3});
});

test("a word between quotes has spaces, and a quote that does not end goes on to the end", () => {
  const fields: Field<string>[] = [{name: "switch", of: (row) => row}];
  const rows = ["north core", "north edge", "core north"];
  expect(search(rows, fields, exactly("switch", "north core"))).toEqual(["north core"]);
  expect(search(rows, fields, '"north e')).toEqual(["north edge"]);
  expect(search(rows, fields, "north core")).toEqual(["north core", "core north"]);
  expect(search(rows, fields, '""')).toEqual(rows);
});
