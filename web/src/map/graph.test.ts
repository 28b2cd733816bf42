// Tests of what the map shows and where.
import {expect, test} from "vitest";

import type {MapLink} from "../api/types";
import {fit, load, only, pair, within, zoomed} from "./graph";

function link(a: string, b: string, up = true): MapLink {
  return {from: {switch: a, port: 1}, to: {switch: b, port: 2}, bits_per_second: 5e8, speed: 1e9, up};
}

const LINE = [link("a", "b"), link("b", "c"), link("c", "d"), link("d", "a", false)];

test("hops go over links that are up, in both directions", () => {
  expect([...within(LINE, "b", 1)].sort()).toEqual(["a", "b", "c"]);
  expect([...within(LINE, "a", 2)].sort()).toEqual(["a", "b", "c"]);
  expect([...within(LINE, "d", 9)].sort()).toEqual(["a", "b", "c", "d"]);
  expect([...within(LINE, "elsewhere", 9)]).toEqual(["elsewhere"]);
});

test("a part of the network has the links inside it", () => {
  const place = {name: null, x: 0, y: 0, connected: true, hosts: 0};
  const all = {switches: ["a", "b", "c", "d"].map((id) => ({switch: id, ...place})), links: LINE};
  const part = only(all, new Set(["a", "b", "d"]));
  expect(part.switches.map((one) => one.switch)).toEqual(["a", "b", "d"]);
  expect(part.links).toEqual([LINE[0], LINE[3]]);
});

test("all points are on the screen, with room around them", () => {
  const points = [{x: -5, y: 2}, {x: 100, y: 30}, {x: 7, y: -3}];
  const view = fit(points, 800, 600);
  for (const {x, y} of points) {
    expect(Math.abs((x - view.x) * view.scale)).toBeLessThanOrEqual(400 - 40);
    expect(Math.abs((y - view.y) * view.scale)).toBeLessThanOrEqual(300 - 40);
  }
  expect(fit([{x: 3, y: 4}], 800, 600)).toMatchObject({x: 3, y: 4});
  expect(fit([], 800, 600).scale).toBeGreaterThan(0);
});

test("what is under the pointer stays there when the scale changes", () => {
  const [before, at] = [{x: 3, y: 4, scale: 10}, {x: 100, y: 500}];
  const after = zoomed(before, 1.7, at, 800, 600);
  const under = (view: {x: number; y: number; scale: number}) => [view.x + (at.x - 400) / view.scale, view.y + (at.y - 300) / view.scale];
  expect(under(after)[0]).toBeCloseTo(under(before)[0] ?? NaN);
  expect(under(after)[1]).toBeCloseTo(under(before)[1] ?? NaN);
});

test("a load is a share, where both numbers are known", () => {
  expect(load(link("a", "b"))).toBe(0.5);
  expect(load({...link("a", "b"), bits_per_second: null})).toBeNull();
  expect(load({...link("a", "b"), speed: null})).toBeNull();
  expect(load({...link("a", "b"), bits_per_second: 9e9})).toBe(1);
  expect(pair("b", "a")).toBe(pair("a", "b"));
});
