// Tests of how values read, and of what is sent when one is changed.
import {expect, test} from "vitest";

import {change, shown} from "./value";

test("values have their short forms", () => {
  expect([{mac: "00:01"}, {ip: "10.0.0.1"}, {location: ["1", 3]}, "day", true, null, [1, "a"], {map: [[1, 2]]}, {int: "99999999999999999999"}].map(shown))
    .toEqual(["00:01", "10.0.0.1", "1:3", "day", "true", "null", "[1,\"a\"]", "{\"map\":[[1,2]]}", "99999999999999999999"]);
});

test("a change says what it expects to be there", () => {
  const place = {key: ["blocked", {mac: "00:01"}]};
  expect(change(place, true, "false")).toEqual({rows: [[place, {word: "false"}]], expect: [[place, true]]});
  expect(change(place, undefined, "1")).toEqual({rows: [[place, {word: "1"}]], expect: [[place, null]]});
  expect(change(place, true, null)).toEqual({rows: [], delete: [place], expect: [[place, true]]});
});
