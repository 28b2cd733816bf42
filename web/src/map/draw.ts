// Draws the map on a canvas: links by their load, switches by their state, and as many names as have room.
import type {MapAnswer, MapLink, MapSwitch} from "../api/types";
import {bits, scaled} from "../text";
import {load, pair, type Point, type View} from "./graph";

/** Colours of the style sheet, and the height of names in pixels, which is larger on large screens. */
export interface Colours {
  readonly height: number;
  readonly ground: string;
  readonly text: string;
  readonly soft: string;
  readonly line: string;
  readonly some: string;
  readonly much: string;
  readonly wrong: string;
  readonly chosen: string;
}

/** The parts that are emphasised. */
export interface Emphasis {
  readonly chosen: string | null;
  /** Pairs of switches between which a packet goes. */
  readonly way: ReadonlySet<string>;
}

/** The radius of a switch, in pixels, by the scale. */
export function radius(scale: number): number {
  return Math.max(2.5, Math.min(7, scale * 1.2));
}

/** The colours as they are now. */
export function colours(of: Element): Colours {
  const style = getComputedStyle(of);
  const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
  return {
    height: parseFloat(style.fontSize) - 1,
    ground: colour("ground"),
    text: colour("text"),
    soft: colour("soft"),
    line: colour("edge"),
    some: colour("some"),
    much: colour("much"),
    wrong: colour("wrong"),
    chosen: colour("accent"),
  };
}

/** A kind of line, of which all are drawn at once. */
interface Stroke {
  readonly colour: string;
  readonly width: number;
  readonly dash: readonly number[];
}

function strokeOf(link: MapLink, emphasis: Emphasis, colour: Colours): Stroke {
  if (emphasis.way.has(pair(link.from.switch, link.to.switch))) {
    return {colour: colour.chosen, width: 4, dash: []};
  }
  if (!link.up) {
    return {colour: colour.wrong, width: 1.5, dash: [4, 3]};
  }
  const share = load(link) ?? 0;
  return share > 0.8 ? {colour: colour.much, width: 4, dash: []}
    : share > 0.3 ? {colour: colour.some, width: 3, dash: []}
    : share > 0.02 ? {colour: colour.line, width: 2, dash: []}
    : {colour: colour.line, width: 1, dash: []};
}

/** Draws everything that is seen. */
export function draw(
  canvas: CanvasRenderingContext2D,
  size: {readonly width: number; readonly height: number; readonly ratio: number},
  {switches, links}: MapAnswer,
  view: View,
  emphasis: Emphasis,
  colour: Colours,
): void {
  const {width, height, ratio} = size;
  canvas.setTransform(ratio, 0, 0, ratio, 0, 0);
  canvas.clearRect(0, 0, width, height);
  const at = new Map<string, Point>();
  for (const one of switches) {
    at.set(one.switch, {x: (one.x - view.x) * view.scale + width / 2, y: (one.y - view.y) * view.scale + height / 2});
  }
  drawLinks(canvas, width, height, links, at, emphasis, colour);
  drawSwitches(canvas, width, height, switches, at, radius(view.scale), emphasis, colour);
  drawNames(canvas, width, height, switches, links, at, view, emphasis, colour);
}

function isSeen({x, y}: Point, width: number, height: number, room: number): boolean {
  return x > -room && y > -room && x < width + room && y < height + room;
}

function drawLinks(
  canvas: CanvasRenderingContext2D, width: number, height: number, links: readonly MapLink[],
  at: ReadonlyMap<string, Point>, emphasis: Emphasis, colour: Colours,
): void {
  const strokes = new Map<string, {readonly stroke: Stroke; readonly lines: number[]}>();
  for (const link of links) {
    const [a, b] = [at.get(link.from.switch), at.get(link.to.switch)];
    const isOutside = a === undefined || b === undefined || (a.x < 0 && b.x < 0) || (a.y < 0 && b.y < 0)
      || (a.x > width && b.x > width) || (a.y > height && b.y > height);
    if (isOutside) {
      continue;
    }
    const stroke = strokeOf(link, emphasis, colour);
    const key = `${stroke.width}${stroke.colour}`;
    let batch = strokes.get(key);
    if (batch === undefined) {
      batch = {stroke, lines: []};
      strokes.set(key, batch);
    }
    batch.lines.push(a.x, a.y, b.x, b.y);
  }
  for (const {stroke, lines} of [...strokes.values()].sort((a, b) => a.stroke.width - b.stroke.width)) {
    canvas.strokeStyle = stroke.colour;
    canvas.lineWidth = stroke.width;
    canvas.setLineDash([...stroke.dash]);
    canvas.beginPath();
    for (let i = 0; i < lines.length; i += 4) {
      canvas.moveTo(lines[i] ?? 0, lines[i + 1] ?? 0);
      canvas.lineTo(lines[i + 2] ?? 0, lines[i + 3] ?? 0);
    }
    canvas.stroke();
  }
  canvas.setLineDash([]);
}

function drawSwitches(
  canvas: CanvasRenderingContext2D, width: number, height: number, switches: readonly MapSwitch[],
  at: ReadonlyMap<string, Point>, size: number, emphasis: Emphasis, colour: Colours,
): void {
  for (const isConnected of [true, false]) {
    canvas.beginPath();
    for (const one of switches) {
      const point = at.get(one.switch);
      if (one.connected === isConnected && point !== undefined && isSeen(point, width, height, size)) {
        canvas.rect(point.x - size, point.y - size, 2 * size, 2 * size);
      }
    }
    canvas.fillStyle = isConnected ? colour.soft : colour.ground;
    canvas.fill();
    if (!isConnected) {
      canvas.strokeStyle = colour.wrong;
      canvas.lineWidth = 2;
      canvas.stroke();
    }
  }
  const chosen = emphasis.chosen === null ? undefined : at.get(emphasis.chosen);
  if (chosen !== undefined) {
    canvas.strokeStyle = colour.chosen;
    canvas.lineWidth = 3;
    canvas.strokeRect(chosen.x - size - 4, chosen.y - size - 4, 2 * size + 8, 2 * size + 8);
  }
}

/** Width in pixels of a cell of the screen, which is as high as a line and has at most one name. */
const CELL = 22;
/** The width of a letter on average, as a part of its height. */
const LETTER = 0.54;

function drawNames(
  canvas: CanvasRenderingContext2D, width: number, height: number, switches: readonly MapSwitch[],
  links: readonly MapLink[], at: ReadonlyMap<string, Point>, view: View, emphasis: Emphasis, colour: Colours,
): void {
  canvas.font = `${colour.height}px system-ui, sans-serif`;
  const letter = LETTER * colour.height;
  canvas.textBaseline = "middle";
  const taken = new Set<number>();
  const room = (x: number, y: number, long: number): boolean => {
    const row = Math.floor(y / (colour.height + 3));
    const cells = [];
    for (let column = Math.floor(x / CELL); column <= Math.floor((x + long) / CELL); column += 1) {
      cells.push(row * 4096 + column);
    }
    if (cells.some((cell) => taken.has(cell))) {
      return false;
    }
    cells.forEach((cell) => taken.add(cell));
    return true;
  };
  const size = radius(view.scale);
  const rank = (one: MapSwitch) => (one.switch === emphasis.chosen ? 0 : one.connected ? 2 : 1);
  const seen = switches.filter((one) => {
    const point = at.get(one.switch);
    return point !== undefined && isSeen(point, width, height, 0);
  }).sort((a, b) => rank(a) - rank(b));
  // Where there are too many for most to have a name, measuring all of them would take longer than drawing the rest.
  for (const one of seen.slice(0, 400)) {
    const point = at.get(one.switch);
    if (point === undefined) {
      continue;
    }
    const name = one.name ?? one.switch.replace(/^0+(?=.)/, "");
    const all = one.hosts > 0 && view.scale > 3 ? ` · ${scaled(one.hosts, "")} ${one.hosts === 1 ? "host" : "hosts"}` : "";
    // On the right if there is room, else on the left, else without its hosts.
    const right = point.x + size + 4;
    const places = [all, ""].flatMap((hosts) => {
      const long = letter * (name.length + hosts.length);
      return [{hosts, long, x: right}, {hosts, long, x: point.x - size - 4 - long}];
    });
    const place = places.find(({x, long}) => x >= 0 && x + long <= width && room(x, point.y, long));
    if (place === undefined) {
      continue;
    }
    const {hosts, x} = place;
    canvas.fillStyle = one.connected ? colour.text : colour.wrong;
    canvas.fillText(name, x, point.y);
    if (hosts !== "") {
      const after = x + canvas.measureText(name).width;
      canvas.fillStyle = colour.soft;
      canvas.fillText(hosts, after, point.y);
    }
  }
  canvas.fillStyle = colour.soft;
  for (const link of view.scale > 5 && links.length <= 400 ? links : []) {
    const [a, b] = [at.get(link.from.switch), at.get(link.to.switch)];
    if (a === undefined || b === undefined || (link.bits_per_second ?? 0) < 1) {
      continue;
    }
    const [x, y, text] = [(a.x + b.x) / 2 + 4, (a.y + b.y) / 2, bits(link.bits_per_second)];
    if (isSeen({x, y}, width, height, 0) && room(x, y, letter * text.length)) {
      canvas.fillText(text, x, y);
    }
  }
}
