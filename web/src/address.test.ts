// Tests of addresses: what is written is read again, whatever it has in it.
import {expect, test} from "vitest";

import {format, parse} from "./address";

test("an address is read as it was written", () => {
  for (const [path, query] of [
    [[], {}],
    [["network", "hosts"], {q: "10.0.0.1 edge", sort: "-packets"}],
    [["state", "a/b ü#?&=%"], {key: "<script>", q: "a=b&c"}],
  ] as [string[], Record<string, string>][]) {
    expect(parse(format(path, query))).toEqual({path, query});
  }
});

test("what is not chosen is not in the address", () => {
  expect(format(["why"], {from: "h1", to: "", at: undefined})).toBe("#/why?from=h1");
});

test("a broken address is read as far as it goes", () => {
  expect(parse("#/network/%E0%A4%A?q=%zz")).toEqual({path: ["network", "%E0%A4%A"], query: {q: "%zz"}});
  expect(parse("")).toEqual({path: [], query: {}});
});
