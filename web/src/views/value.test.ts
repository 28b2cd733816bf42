// Tests of how values read, and of what is sent when one is changed.
import {expect, test} from "vitest";

import {change, filters, isTyped, meant, past, shown} from "./value";

test("values have their short forms", () => {
  expect([{mac: "00:01"}, {ip: "10.0.0.1"}, {location: ["1", 3]}, "day", true, null, [1, "a"], {map: [[1, 2]]}, {int: "99999999999999999999"}].map(shown))
    .toEqual(["00:01", "10.0.0.1", "1:3", "day", "true", "null", "[1,\"a\"]", "{\"map\":[[1,2]]}", "99999999999999999999"]);
});

test("a value of a change that is not kept is said to be long", () => {
  expect([past({long: true}, shown), past({mac: "00:01"}, shown), past(null, shown)]).toEqual(["(long)", "00:01", "null"]);
});

test("a value is filtered by its parts", () => {
  expect(filters("key", "7")).toEqual([["key", "7"]]);
  expect(filters("key", 7)).toEqual([["key", "7"]]);
  expect(filters("key", {mac: "00:01"})).toEqual([["key.mac", "00:01"]]);
  expect(filters("key", [{location: ["1", 3]}, true])).toEqual([["key.0.location.0", "1"], ["key.0.location.1", "3"], ["key.1", "true"]]);
});

test("a change says what it expects to be there", () => {
  const place = {key: ["blocked", {mac: "00:01"}]};
  expect(change(place, true, false)).toEqual({rows: [[place, false]], expect: [[place, true]]});
  expect(change(place, undefined, {word: "1"})).toEqual({rows: [[place, {word: "1"}]], expect: [[place, null]]});
  expect(change(place, true, null)).toEqual({rows: [], delete: [place], expect: [[place, true]]});
});

test("a value without a type stays of its kind, and what is shown of it is read as it was", () => {
  const ids = new Map([["h9", "00:00:00:00:00:09"], ["s2", "0000000000000002"]]);
  const of = (text: string, before: Parameters<typeof meant>[1]) => meant(text, before, false, (word) => ids.get(word) ?? word);
  for (const value of [{mac: "00:00:00:00:00:01"}, {ip: "fd00::1"}, {switch: "0000000000000001"}, {location: ["0000000000000001", 3]}, {bytes: "00ff"}, {float: "NaN"},
    {int: "99999999999999999999"}, {map: [["a", 1]]}, "80", "true", " a ", "", 80, -1.5, true, [1, {mac: "00:00:00:00:00:01"}]]) {
    expect(of(shown(value), value)).toEqual(value);
  }
  expect([of("h9", {mac: "00:00:00:00:00:01"}), of("s2:7", {location: ["0000000000000001", 3]}), of("8", "80"), of("false", true), of("80.5", 80), of("9007199254740993", 1)])
    .toEqual([{mac: "00:00:00:00:00:09"}, {location: ["0000000000000002", 7]}, "8", false, 80.5, {int: "9007199254740993"}]);
  for (const [text, before] of [["eighty", 80], ["0x10", 80], ["1", true], ["{}", [1]], ["1:2", {map: []}], ["s2", {location: ["1", 3]}], ["", {mac: "00:00:00:00:00:01"}], ["x", {int: "99999999999999999999"}]] as const) {
    expect(of(text, before)).toBeUndefined();
  }
});

test("a place with a type, and one without a value, take a word", () => {
  const plain = (word: string) => word;
  expect([meant("h9", {mac: "00:01"}, true, plain), meant("80", undefined, false, plain), meant("80", null, false, plain)]).toEqual([{word: "h9"}, {word: "80"}, {word: "80"}]);
  expect(["Mac", "str", "any", "tuple[any, int]", null].map(isTyped)).toEqual([true, true, false, false, false]);
});
