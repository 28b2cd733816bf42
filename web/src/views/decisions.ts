// The decisions in the tree of a switch.

/** The decision that a line of a tree ends with, and what is in front of it; `null` for other lines. */
export function decisionOf(line: string): {readonly before: string; readonly number: number} | null {
  const found = /^(\s*|.*: )L (\d+)$/.exec(line);
  return found === null ? null : {before: found[1] ?? "", number: Number(found[2])};
}
