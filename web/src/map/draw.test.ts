// Tests of where the map writes names.
import {expect, test} from "vitest";

import type {MapSwitch} from "../api/types";
import {type Colours, draw} from "./draw";

const LOOK: Colours = {height: 12, ground: "", text: "", soft: "", line: "", some: "", much: "", wrong: "", chosen: ""};
const LETTER = 6;

function at(name: string, x: number, y: number, hosts = 2): MapSwitch {
  return {switch: name, name, x, y, connected: true, hosts};
}

/** The texts on a map that has this width and is 100 pixels high, ten for each unit, with the middle at (0, 0). */
function written(switches: readonly MapSwitch[], width: number, look = LOOK): readonly {readonly text: string; readonly x: number}[] {
  const texts: {text: string; x: number}[] = [];
  let font = "";
  const canvas = new Proxy({}, {
    get: (_, name) => name === "fillText" ? (text: string, x: number) => texts.push({text, x})
      : name === "measureText" ? (text: string) => ({width: LETTER * text.length}) : () => undefined,
    set: (_, name, value) => {
      font = name === "font" ? value : font;
      return true;
    },
  }) as CanvasRenderingContext2D;
  draw(canvas, {width, height: 100, ratio: 1}, {switches, links: []}, {x: 0, y: 0, scale: 10}, {chosen: null, way: new Set()}, look);
  expect(font).toMatch(new RegExp(`^${look.height}px `));
  return texts;
}

test("names stand on the right of switches, on the left at the edge, and none leaves the screen", () => {
  const [middle, edge] = [written([at("s1", 0, 0)], 300), written([at("s1", 12, 0)], 300)];
  expect(middle.map(({text}) => text)).toEqual(["s1", " · 2 hosts"]);
  expect(middle[0]?.x).toBeGreaterThan(150);
  expect(edge.map(({text}) => text)).toEqual(["s1", " · 2 hosts"]);
  expect(edge[0]?.x).toBeLessThan(270);
  for (let place = -15; place <= 15; place += 0.5) {
    for (const {text, x} of written([at("a-long-name", place, 0)], 300)) {
      expect(x).toBeGreaterThanOrEqual(0);
      expect(x + LETTER * text.length).toBeLessThanOrEqual(300);
    }
  }
});

test("a name that has no room for its hosts has room for itself", () => {
  const texts = written([at("s1", -8, 0), at("s2", 0, 0), at("s3", 8, 0)], 260).map(({text}) => text);
  expect(texts.at(-1)).toBe("s3");
});

test("names are larger on large screens", () => {
  written([at("s1", 0, 0)], 300, {...LOOK, height: 14});
});
