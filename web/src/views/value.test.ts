// Tests of how values read, and of what is sent when one is changed.
import {expect, test} from "vitest";

import {change, filters, past, shown} from "./value";

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
  expect(change(place, true, "false")).toEqual({rows: [[place, {word: "false"}]], expect: [[place, true]]});
  expect(change(place, undefined, "1")).toEqual({rows: [[place, {word: "1"}]], expect: [[place, null]]});
  expect(change(place, true, null)).toEqual({rows: [], delete: [place], expect: [[place, true]]});
});
