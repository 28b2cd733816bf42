// The decisions in the tree of a switch, and their rules.
import type {RuleRow} from "../api/types";

/** The rules of a decision: how many, what they have counted, and the line that made the decision. */
export interface RulesOf {
  readonly count: number;
  readonly packets: number;
  readonly line: string | null;
}

/** The rules of each decision, by its number. */
export function decisions(rows: readonly RuleRow[]): ReadonlyMap<number, RulesOf> {
  const all = new Map<number, RulesOf>();
  for (const {leaf, line, n_packets: packets} of rows) {
    if (leaf !== null) {
      const {count, packets: before} = all.get(leaf) ?? {count: 0, packets: 0};
      all.set(leaf, {count: count + 1, packets: before + (packets ?? 0), line});
    }
  }
  return all;
}

/** The decision that a line of a tree ends with, and what is in front of it; `null` for other lines. */
export function decisionOf(line: string): {readonly before: string; readonly number: number} | null {
  const found = /^(\s*|.*: )L (\d+)$/.exec(line);
  return found === null ? null : {before: found[1] ?? "", number: Number(found[2])};
}
