// Tests of how sources are shown: no letter is lost, and the lines that matter are there.
import {expect, test} from "vitest";

import {excerpts, heat, sourceOf, tokens} from "./source";

test("excerpts have the lines that matter, those around them, and gaps", () => {
  const text = "1\n2\n3\n4\n5\n6\n7\n8\n9";
  const lines = (shown: ReturnType<typeof excerpts>) => shown.map((one) => one?.line ?? null);
  expect(lines(excerpts(text, [2, 8], 1))).toEqual([1, 2, 3, null, 7, 8, 9]);
  expect(lines(excerpts(text, [5], 0))).toEqual([null, 5]);
  expect(lines(excerpts(text, [], 3))).toEqual([]);
  expect(lines(excerpts(text, [99], 1))).toEqual([]);
});

test("a source that is not the one of an answer shows none of its own lines", () => {
  const text = "def f(pkt):\n    if x:\n        return drop()\n    return flood()\n";
  const named = new Map([[3, "return drop()"], [2, undefined]]);
  const lines = (source: string | null | undefined) => sourceOf(source, named, 1).map((one) => (one === null ? null : `${one.line} ${one.text.trim()}`));
  expect(lines(text)).toEqual(["1 def f(pkt):", "2 if x:", "3 return drop()", "4 return flood()"]);
  const alone = ["2 ", "3 return drop()"];
  expect(lines(`# one more\n${text}`)).toEqual(alone);
  expect([lines(null), lines(undefined), lines("def f(pkt):")]).toEqual([alone, alone, alone]);
});

test("words of a line are its letters, all of them", () => {
  for (const line of ["    if pkt.tcp_dst == 22 and x: # 'why'", "s = \"a#b\" + 'it\\'s", "", "\"\"\"A text", "müßte = 5 → {'a': [1]}", "<script>alert(1)</script>"]) {
    expect(tokens(line).map(({text}) => text).join("")).toBe(line);
  }
  expect(tokens("return \"#\"  # return").map(({kind}) => kind)).toEqual(["keyword", "other", "text", "other", "comment"]);
});

test("heat grows with the count, and what is not known or nothing is cold", () => {
  expect([heat(null, 100), heat(0, 100), heat(5, 0)]).toEqual([0, 0, 0]);
  expect(heat(100, 100)).toBe(4);
  expect(heat(1, 1_000_000)).toBe(1);
  const all = [1, 10, 100, 1000, 10_000].map((count) => heat(count, 10_000));
  expect([...all].sort()).toEqual(all);
});
