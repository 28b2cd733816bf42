// Tests of what is read of the metrics.
import {expect, test} from "vitest";

import {atMost, histogram, mean, quantile, rates, samples} from "./histogram";

const TEXT = `# HELP maple_decide_seconds Time.
# TYPE maple_decide_seconds histogram
maple_decide_seconds_sum 1.5
maple_decide_seconds_count 10
maple_decide_seconds_bucket{le="0.001"} 4
maple_decide_seconds_bucket{le="0.01"} 9
maple_decide_seconds_bucket{le="+Inf"} 10
maple_switches{shard="0"} 3
maple_switches{shard="1"} 4
dp_status{dp_id="0x1",dp_name="a \\"b\\" {c}, d=\\"e\\""} 1
`;

test("a histogram has its buckets, and quantiles are their ends", () => {
  const found = histogram(TEXT, "maple_decide_seconds");
  expect(found).toEqual({count: 10, sum: 1.5, buckets: [{most: 0.001, count: 4}, {most: 0.01, count: 9}, {most: Infinity, count: 10}]});
  expect(found && [quantile(found, 0.3), quantile(found, 0.5), quantile(found, 0.99)]).toEqual([0.001, 0.01, Infinity]);
  expect(histogram(TEXT, "maple_install_seconds")).toBeNull();
  expect(quantile({count: 0, sum: 0, buckets: []}, 0.5)).toBeNull();
});

test("values have their labels, whatever is in them", () => {
  const found = samples(TEXT, new Set(["maple_switches", "dp_status"]));
  expect(found.get("maple_switches")?.map(({labels, value}) => [labels["shard"], value])).toEqual([["0", 3], ["1", 4]]);
  expect(found.get("dp_status")?.[0]?.labels).toEqual({dp_id: "0x1", dp_name: "a \"b\" {c}, d=\"e\""});
});

test("a rate is the growth in a second, also after a restart", () => {
  expect([...rates({a: 10, b: 100}, {a: 30, b: 20, c: 4}, 2)]).toEqual([["a", 10], ["b", 10], ["c", 2]]);
  expect(rates({a: 1}, {a: 2}, 0).size).toBe(0);
});

test("times of a histogram are told to three digits, also those of some seconds", () => {
  expect([0.001, 0.25, 1, 2.5, Infinity, null].map(atMost)).toEqual(["≤ 1 ms", "≤ 250 ms", "≤ 1 s", "≤ 2.50 s", "longer", ""]);
  expect([{count: 10, sum: 19, buckets: []}, {count: 0, sum: 0, buckets: []}].map(mean)).toEqual(["1.90 s", ""]);
});
