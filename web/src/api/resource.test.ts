// Tests of how fresh an answer is that several parts of the page show.
import {expect, test} from "vitest";

import {freshest} from "./resource";

test("an answer is as fresh as the one who wants it freshest, whoever comes first", () => {
  const [seldom, live, often] = [{every: 30_000}, {live: true}, {every: 5000, always: true}];
  for (const all of [[seldom, live, often], [often, live, seldom], [live, often, seldom]]) {
    expect(freshest(all)).toEqual({live: true, always: true, text: false, every: 5000});
  }
  expect(freshest([live])).toEqual({live: true, always: false, text: false});
  expect(freshest([])).toEqual({live: false, always: false, text: false});
});
