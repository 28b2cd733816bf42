// Tests of what is shown of moments, and of the map of then.
import {expect, test} from "vitest";

import type {TimeAnswer, TimeChanges, TimeRates} from "../api/types";
import {Names} from "../names";
import {changeRows, doubts, gapText, highest, isLoss, mapThen, nextChange, path, ratesAt, share} from "./moments";

function point(time: number, changes: number, rate: number | null): TimeRates {
  return {
    time, seconds: 10, switches: 2, links: 1, hosts: 1, changes, pending: 0, left_out: 0,
    packet_ins_per_second: rate, decisions_per_second: rate, flow_mods_per_second: rate, failures_per_second: rate,
  };
}

const ALL: TimeAnswer = {
  from: 0, to: 100, gaps: [{from: 40, to: 55, why: "stopped", text: "the controller did not run"}], in_files: false, bytes: 0, most_bytes: 1, recording: null, trouble: null,
  rates: [point(20, 3, 10), point(40, 0, 20), point(60, 0, null), point(80, 1, 0), point(100, 0, 5)],
};

test("a moment has the rates of its span, and changes are stepped through", () => {
  expect([ratesAt(ALL.rates, 20)?.time, ratesAt(ALL.rates, 21)?.time, ratesAt(ALL.rates, 999)?.time]).toEqual([20, 40, 100]);
  expect(ratesAt([], 1)).toBeUndefined();
  expect([nextChange(ALL.rates, 0, true), nextChange(ALL.rates, 20, true), nextChange(ALL.rates, 80, true)]).toEqual([20, 80, null]);
  expect([nextChange(ALL.rates, 100, false), nextChange(ALL.rates, 80, false), nextChange(ALL.rates, 20, false)]).toEqual([80, 20, null]);
});

test("the plot goes from the first moment to the last, with gaps where nothing is known", () => {
  expect([highest(ALL.rates), highest([point(20, 0, null)]), highest([])]).toEqual([20, 0, 0]);
  expect([share(ALL, -5), share(ALL, 25), share(ALL, 500), share({...ALL, to: 0}, 0)]).toEqual([0, 0.25, 1, 1]);
  expect(path(ALL, (one) => one.packet_ins_per_second, 100, 10)).toBe("M20.0 5.0L40.0 0.0M80.0 10.0L100.0 7.5");
  expect(path({...ALL, rates: [point(20, 0, 1), point(40, 0, 1), point(60, 0, 1)]}, (one) => one.hosts, 100, 10)).toBe("M20.0 0.0L40.0 0.0M60.0 0.0");
});

const at = (id: string, port: number) => ({switch: id, port});

test("switches of then stand where they are now, and one without a place beside its neighbours", () => {
  const one = (id: string, place: number | null) => ({switch: id, name: null, connected: true, hosts: 0, x: place, y: place});
  const then = {
    time: 1, version: 1, pending: 0, not_kept: 0, unseen: 0, late: false, replay: null, hosts: [], switches: [one("1", 10), one("2", null), one("3", null)],
    links: [{from: at("1", 1), to: at("2", 1)}],
  };
  const map = mapThen(then, [{from: at("1", 2), to: at("3", 1), how: "gone"}, {from: at("1", 1), to: at("2", 1), how: "added"}]);
  expect(map.switches[0]).toMatchObject({x: 10, y: 10});
  const [, beside, below] = map.switches;
  expect(Math.hypot((beside?.x ?? 0) - 10, (beside?.y ?? 0) - 10)).toBeCloseTo(6);
  expect(below?.y).toBeGreaterThan(10);
  expect(map.links.map(({up}) => up)).toEqual([true, false]);
});

test("gaps and doubts say why", () => {
  const [from, to] = [new Date(2026, 0, 2, 3, 4, 5).getTime(), new Date(2026, 0, 2, 3, 4, 6).getTime()];
  expect(gapText({from, to, why: "stopped", text: "the controller did not run"})).toBe("The controller did not run from 2026-01-02 03:04:05 to 2026-01-02 03:04:06.");
  expect(gapText({from, to, why: "clock", text: "the clock was set back by 60 s"})).toBe("The clock was set back by 60 s, at 2026-01-02 03:04:06.");
  const then = {time: 1, version: 1, replay: null, hosts: [], switches: [], links: []};
  expect(doubts({...then, pending: 0, not_kept: 0, unseen: 0, late: false})).toEqual([]);
  expect(doubts({...then, pending: 1, not_kept: 2000, unseen: 3, late: true}).map((text) => text.slice(0, 13))).toEqual([
    "1 part of the", "2,000 parts o", "3 parts of th", "A worker did ",
  ]);
});

test("differences are rows with names", () => {
  const names = new Names({switches: [{switch: "0000000000000001", name: "s1"}], hosts: [{mac: "02:00:00:00:00:01", name: "h1"}]});
  const host = (port: number, ipv4: string[]) => ({mac: "02:00:00:00:00:01", at: at("0000000000000001", port), ipv4, ipv6: []});
  const changes: TimeChanges = {
    from: 1, to: 2, gaps: [], drops: [], other_drops: 0, lines: [], left_out: 0,
    switches: [{switch: "0000000000000001", how: "unreachable"}],
    ports: [{switch: "0000000000000001", port: 3, how: "down", before: {up: true, kind: "edge"}, after: {up: false, kind: "edge"}}],
    links: [{from: at("0000000000000001", 1), to: at("0000000000000002", 1), how: "added"}],
    hosts: [
      {mac: "02:00:00:00:00:01", how: "moved", before: host(1, []), after: host(2, [])},
      {mac: "02:00:00:00:00:02", how: "changed", before: host(1, []), after: host(1, ["10.0.0.1"])},
      {mac: "02:00:00:00:00:03", how: "gone", before: host(1, []), after: null},
    ],
  };
  const rows = changeRows(changes, names);
  expect(rows.map(({what, which, how, before, after}) => [what, which, how, before, after])).toEqual([
    ["switch", "s1", "unreachable", "", ""],
    ["link", "s1:1 – 2:1", "added", "", ""],
    ["port", "s1:3", "down", "up, edge", "down, edge"],
    ["host", "h1", "moved", "s1:1", "s1:2"],
    ["host", "02:00:00:00:00:02", "changed", "", "10.0.0.1"],
    ["host", "02:00:00:00:00:03", "gone", "s1:1", ""],
  ]);
  expect(rows.filter(isLoss).map(({what}) => what)).toEqual(["switch", "port", "host"]);
});
