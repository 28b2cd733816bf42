// Reads the histograms and gauges of Prometheus's text format.
import {took} from "../text";

/** A histogram: for each bound, the number of durations that were at most as long. */
export interface Histogram {
  readonly count: number;
  readonly sum: number;
  readonly buckets: readonly {readonly most: number; readonly count: number}[];
}

/** A value with its labels. */
export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** The end of a bucket; nothing where it is not known. */
export function atMost(bound: number | null): string {
  return bound === null ? "" : bound === Infinity ? "longer" : `≤ ${took(bound)}`;
}

/** The mean; nothing without any. */
export function mean({count, sum}: Histogram): string {
  return count === 0 ? "" : took(sum / count);
}

const LINE = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

/** The values with these names. */
export function samples(text: string, names: ReadonlySet<string>): ReadonlyMap<string, readonly Sample[]> {
  const found = new Map<string, Sample[]>();
  for (const line of text.split("\n")) {
    const [, name = "", labels = "", value = ""] = LINE.exec(line) ?? [];
    if (!names.has(name)) {
      continue;
    }
    const own = Object.fromEntries([...labels.matchAll(LABEL)].map(([, label, inner]) => [label, inner?.replace(/\\(.)/g, "$1")]));
    const all = found.get(name) ?? [];
    found.set(name, all);
    all.push({labels: own, value: value === "+Inf" ? Infinity : Number(value)});
  }
  return found;
}

/** The histogram with this name; `null` if there is none. */
export function histogram(text: string, name: string): Histogram | null {
  const found = samples(text, new Set([`${name}_bucket`, `${name}_sum`, `${name}_count`]));
  const buckets = (found.get(`${name}_bucket`) ?? []).map(({labels, value}) => ({
    most: labels["le"] === "+Inf" ? Infinity : Number(labels["le"]), count: value,
  }));
  const count = found.get(`${name}_count`)?.[0]?.value;
  return count === undefined ? null : {count, sum: found.get(`${name}_sum`)?.[0]?.value ?? NaN, buckets};
}

/** The bound under which this share lies: the end of its bucket. `null` if there is nothing. */
export function quantile({count, buckets}: Histogram, share: number): number | null {
  return count === 0 ? null : buckets.find((bucket) => bucket.count >= share * count)?.most ?? null;
}

/** The growth of each count in a second between two readings; a count that has shrunk began again. */
export function rates(
  before: Readonly<Record<string, number>>, now: Readonly<Record<string, number>>, seconds: number,
): ReadonlyMap<string, number> {
  return new Map(seconds <= 0 ? [] : Object.entries(now).map(([name, value]) => {
    const grown = value - (before[name] ?? 0);
    return [name, (grown < 0 ? value : grown) / seconds] as const;
  }));
}
