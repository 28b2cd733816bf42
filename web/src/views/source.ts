// Which lines of a source are shown around those that matter.

/** A line of a source, or a gap between lines. */
export type Excerpt = {readonly line: number; readonly text: string} | null;

/** The lines that matter with some lines around each, and `null` for what is left out. */
export function excerpts(text: string, lines: readonly number[], around: number): Excerpt[] {
  const all = text.split("\n");
  const wanted = new Set<number>();
  for (const line of lines) {
    for (let near = Math.max(1, line - around); near <= Math.min(all.length, line + around); near += 1) {
      wanted.add(near);
    }
  }
  const shown: Excerpt[] = [];
  let before = 0;
  for (const line of [...wanted].sort((a, b) => a - b)) {
    if (line !== before + 1) {
      shown.push(null);
    }
    shown.push({line, text: all[line - 1] ?? ""});
    before = line;
  }
  return shown;
}

/**
 * The lines that an answer names, and those around them if the source has what the answer says of them: a source that was read at
 * another time may be of another policy. Else these lines alone, as the answer has them.
 */
export function sourceOf(text: string | null | undefined, named: ReadonlyMap<number, string | undefined>, around: number): Excerpt[] {
  const lines = [...named.keys()].sort((a, b) => a - b);
  const all = text?.split("\n");
  const isSame = (line: number) => {
    const said = named.get(line);
    return all?.[line - 1] !== undefined && (said === undefined || all[line - 1]?.trim() === said.trim());
  };
  return text != null && lines.every(isSame) ? excerpts(text, lines, around) : lines.map((line) => ({line, text: named.get(line) ?? ""}));
}

/** A word of a source with what it is. */
export interface Token {
  readonly kind: "comment" | "text" | "keyword" | "other";
  readonly text: string;
}

const KEYWORDS = new Set(("and as assert async await break class continue def del elif else except False finally for from global if import "
  + "in is lambda None nonlocal not or pass raise return True try while with yield match case").split(" "));
const TOKEN = /(#.*)|("(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?)|([A-Za-z_]\w*)|([^#"'A-Za-z_]+)/g;

/** Divides a line of Python or YAML into words. A text over several lines is not recognised as one. */
export function tokens(line: string): Token[] {
  const found: Token[] = [];
  for (const [text, comment, quoted, word] of line.matchAll(TOKEN)) {
    const kind = comment !== undefined ? "comment" : quoted !== undefined ? "text" : word !== undefined && KEYWORDS.has(word) ? "keyword" : "other";
    found.push({kind, text});
  }
  return found;
}

/** The heat of a line, from 0 to 4, by the logarithm of its count beside the largest one. */
export function heat(count: number | null, most: number): number {
  if (count === null || count <= 0 || most <= 0) {
    return 0;
  }
  return 1 + Math.min(3, Math.floor((4 * Math.log1p(count)) / Math.log1p(most) * 0.9999));
}
