// What the view of time shows: points of the plot, rows of differences, a map of then. Without a screen, so that it can be tested.
import type {Gap, HostRow, MapAnswer, Place, TimeAnswer, TimeAt, TimeChanges, TimeRates} from "../api/types";
import type {Names} from "../names";
import {moment, whole} from "../text";

/** The time that a point of the plot is about which has this moment; the last one for what comes after it. */
export function ratesAt(points: readonly TimeRates[], time: number): TimeRates | undefined {
  return points.find((point) => point.time >= time) ?? points[points.length - 1];
}

/** The end of the next span in which the network changed, or of the one before; `null` if there is none. */
export function nextChange(points: readonly TimeRates[], time: number, forward: boolean): number | null {
  const changed = points.filter((point) => point.changes > 0 && (forward ? point.time > time : point.time < time));
  return (forward ? changed[0] : changed[changed.length - 1])?.time ?? null;
}

/** Where a moment lies between the first and the last one, from 0 to 1. */
export function share({from, to}: TimeAnswer, time: number): number {
  return from === null || to === null || to <= from ? 1 : Math.max(0, Math.min(1, (time - from) / (to - from)));
}

/** The highest rate of packet-ins. */
export function highest(points: readonly TimeRates[]): number {
  return Math.max(0, ...points.map((point) => point.packet_ins_per_second ?? 0));
}

/** The line of a rate in a picture of this size. It has a gap where nothing was kept, or the rate is not known. */
export function path(all: TimeAnswer, of: (point: TimeRates) => number | null, width: number, height: number): string {
  const most = Math.max(1, ...all.rates.map((point) => of(point) ?? 0));
  let [text, isDrawn, before] = ["", false, 0];
  for (const point of all.rates) {
    const value = of(point);
    isDrawn &&= !all.gaps.some((gap) => before <= gap.from && gap.to <= point.time);
    before = point.time;
    if (value === null) {
      isDrawn = false;
      continue;
    }
    text += `${isDrawn ? "L" : "M"}${(width * share(all, point.time)).toFixed(1)} ${(height * (1 - value / most)).toFixed(1)}`;
    isDrawn = true;
  }
  return text;
}

/** The distance of switches without a place from others, in the units of the map. */
const BESIDE = 6;

/** The map of a moment: switches where they are now. One that has no place any more stands beside its neighbours of then, or below all. */
export function mapThen(then: TimeAt, gone: TimeChanges["links"]): MapAnswer {
  const links = [
    ...then.links.map(({from, to}) => ({from, to, bits_per_second: null, speed: null, up: true})),
    ...gone.filter(({how}) => how === "gone").map(({from, to}) => ({from, to, bits_per_second: null, speed: null, up: false})),
  ];
  const placed = new Map(then.switches.flatMap(({switch: id, x, y}) => (x === null || y === null ? [] : [[id, {x, y}] as const])));
  const low = Math.max(0, ...[...placed.values()].map(({y}) => y)) + 2 * BESIDE;
  let lost = 0;
  const switches = then.switches.map((one) => {
    const own = placed.get(one.switch);
    if (own !== undefined) {
      return {...one, ...own};
    }
    lost += 1;
    const near = then.links.flatMap(({from, to}) => (from.switch === one.switch ? [to] : to.switch === one.switch ? [from] : []))
      .map((end) => placed.get(end.switch)).filter((point) => point !== undefined);
    const mean = (of: (point: {x: number; y: number}) => number) => near.reduce((sum, point) => sum + of(point), 0) / near.length;
    return near.length === 0 ? {...one, x: lost * BESIDE, y: low}
      : {...one, x: mean(({x}) => x) + BESIDE * Math.cos(lost), y: mean(({y}) => y) + BESIDE * Math.sin(lost)};
  });
  return {switches, links};
}

/** A part of the network that has changed. */
export interface ChangeRow {
  readonly what: "switch" | "port" | "link" | "host";
  readonly which: string;
  readonly how: string;
  readonly before: string;
  readonly after: string;
}

/** The differences of two moments as rows of one table. */
export function changeRows({switches, ports, links, hosts}: TimeChanges, names: Names): ChangeRow[] {
  const port = (one: {readonly up: boolean; readonly kind: string} | null) => (one === null ? "" : `${one.up ? "up" : "down"}, ${one.kind}`);
  const host = (one: HostRow | null, how: string) => (
    one === null ? "" : how === "changed" ? [...one.ipv4, ...one.ipv6].join(" ") : names.place(one.at));
  const ends = (from: Place, to: Place) => `${names.place(from)} – ${names.place(to)}`;
  return [
    ...switches.map(({switch: id, how}) => ({what: "switch" as const, which: names.switch(id), how, before: "", after: ""})),
    ...links.map(({from, to, how}) => ({what: "link" as const, which: ends(from, to), how, before: "", after: ""})),
    ...ports.map(({how, before, after, ...at}) => ({what: "port" as const, which: names.place(at), how, before: port(before), after: port(after)})),
    ...hosts.map(({mac, how, before, after}) => ({what: "host" as const, which: names.host(mac), how, before: host(before, how), after: host(after, how)})),
  ];
}

/** Says of which time not everything is kept, and why. */
export function gapText({from, to, why, text}: Gap): string {
  const reason = text.charAt(0).toUpperCase() + text.slice(1);
  return why === "clock" ? `${reason}, at ${moment(to)}.` : `${reason} from ${moment(from)} to ${moment(to)}.`;
}

/** Counts parts of the network, with the verb. */
function parts(count: number): string {
  return count === 1 ? "1 part of the network is" : `${whole(count)} parts of the network are`;
}

/** Says in what a moment may not be as it is shown. */
export function doubts({pending, not_kept: beyond, unseen, late}: TimeAt): string[] {
  return [
    pending > 0 ? `${parts(pending)} not shown as ${pending === 1 ? "it was" : "they were"}: too much had changed to keep all of it.` : "",
    beyond > 0 ? `${parts(beyond)} not kept besides: there were more than are followed.` : "",
    unseen > 0 ? `${parts(unseen)} shown as before a restart: the controller had not seen ${unseen === 1 ? "it" : "them"} yet.` : "",
    late ? "A worker did not answer in time, so what is shown of its switches may be older." : "",
  ].filter((text) => text !== "");
}

/** Reports whether less is there than before. */
export function isLoss({how}: ChangeRow): boolean {
  return how === "gone" || how === "down" || how === "unreachable";
}
