// What of the network the map shows, and where on the screen: without a screen, so that it can be tested.
import type {MapAnswer, MapLink} from "../api/types";

/** The part of the network that is seen: the place in its middle, and pixels for each of its units. */
export interface View {
  readonly x: number;
  readonly y: number;
  readonly scale: number;
}

export interface Point {
  readonly x: number;
  readonly y: number;
}

/** The room around a network that fills the screen, in pixels. */
const MARGIN = 48;
/** The largest scale at which a small network fills the screen: a link is ten units long. */
const LARGEST_FIT = 15;

/** The switches from which a switch is at most a number of links away, itself too. */
export function within(links: readonly MapLink[], from: string, hops: number): ReadonlySet<string> {
  const next = new Map<string, string[]>();
  const join = (a: string, b: string) => {
    const known = next.get(a);
    if (known === undefined) {
      next.set(a, [b]);
    } else {
      known.push(b);
    }
  };
  for (const link of links.filter(({up}) => up)) {
    join(link.from.switch, link.to.switch);
    join(link.to.switch, link.from.switch);
  }
  const found = new Set([from]);
  let border = [from];
  for (let hop = 0; hop < hops && border.length > 0; hop += 1) {
    border = border.flatMap((one) => next.get(one) ?? []).filter((one) => !found.has(one) && found.add(one));
  }
  return found;
}

/** The part of the network with these switches and no others. */
export function only({switches, links}: MapAnswer, some: ReadonlySet<string>): MapAnswer {
  return {
    switches: switches.filter((one) => some.has(one.switch)),
    links: links.filter(({from, to}) => some.has(from.switch) && some.has(to.switch)),
  };
}

/** The view in which all of these points fill a screen. */
export function fit(points: readonly Point[], width: number, height: number): View {
  if (points.length === 0) {
    return {x: 0, y: 0, scale: LARGEST_FIT};
  }
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const {x, y} of points) {
    left = Math.min(left, x);
    right = Math.max(right, x);
    top = Math.min(top, y);
    bottom = Math.max(bottom, y);
  }
  const room = (pixels: number) => Math.max(pixels - 2 * MARGIN, 1);
  const scale = Math.min(room(width) / Math.max(right - left, 1e-9), room(height) / Math.max(bottom - top, 1e-9), LARGEST_FIT);
  return {x: (left + right) / 2, y: (top + bottom) / 2, scale};
}

/** The view after a change of scale that leaves one point of the screen where it is. */
export function zoomed(view: View, factor: number, at: Point, width: number, height: number): View {
  const scale = Math.max(0.01, Math.min(view.scale * factor, 200));
  const [dx, dy] = [at.x - width / 2, at.y - height / 2];
  return {x: view.x + dx / view.scale - dx / scale, y: view.y + dy / view.scale - dy / scale, scale};
}

/** The share of a link that is used, from 0 to 1; `null` where that is not known. */
export function load({bits_per_second: rate, speed}: MapLink): number | null {
  return rate === null || speed === null || speed === 0 ? null : Math.min(rate / speed, 1);
}

/** A name for a link between two switches that is the same in both directions. */
export function pair(a: string, b: string): string {
  return a < b ? `${a} ${b}` : `${b} ${a}`;
}
