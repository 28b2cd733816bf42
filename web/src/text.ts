// Numbers, times and source lines as people read them.

/** The steps of prefixes of units. */
const PREFIXES = ["", "k", "M", "G", "T", "P"];

/** A number with at most three digits and a prefix: `12.3 Mbit/s`. */
export function scaled(value: number, unit: string): string {
  let step = 0;
  while (Math.abs(value) >= 999.5 && step < PREFIXES.length - 1) {
    value /= 1000;
    step += 1;
  }
  const digits = Math.abs(value) >= 99.5 || (step === 0 && Number.isInteger(value)) ? 0 : Math.abs(value) >= 9.95 ? 1 : 2;
  const tail = `${PREFIXES[step] ?? ""}${unit}`;
  return tail === "" ? value.toFixed(digits) : `${value.toFixed(digits)} ${tail}`;
}

/** A rate; nothing where it is not known. */
export function bits(value: number | null | undefined): string {
  return value == null ? "" : scaled(value, "bit/s");
}

/** A whole number with its thousands apart. */
export function whole(value: number | null | undefined): string {
  return value == null ? "" : value.toLocaleString("en");
}

/** A length of time in its largest unit: `12 s`, `3 h`. */
export function span(seconds: number): string {
  for (const [size, unit] of [[86_400, "d"], [3600, "h"], [60, "min"]] as const) {
    if (seconds >= 2 * size) {
      return `${Math.floor(seconds / size)} ${unit}`;
    }
  }
  return seconds >= 1 || seconds === 0 ? `${Math.floor(seconds)} s` : fraction(seconds);
}

/** A duration as text, exactly to three digits below 100 s: `12.3 µs`, `1.50 s`. */
export function took(seconds: number): string {
  return seconds >= 99.95 ? span(seconds) : seconds >= 1 ? scaled(seconds, "s") : fraction(seconds);
}

/** A part of a second. */
function fraction(seconds: number): string {
  return seconds >= 0.0009995 ? scaled(seconds * 1e3, "ms") : scaled(seconds * 1e6, "µs");
}

/** A moment, in milliseconds since 1970, by the clock of the reader: with its day unless that is today. */
export function moment(time: number, now = Date.now()): string {
  const when = new Date(time);
  const clock = when.toLocaleTimeString("en-GB");
  const today = new Date(now).toDateString() === when.toDateString();
  return today ? clock : `${when.getFullYear()}-${two(when.getMonth() + 1)}-${two(when.getDate())} ${clock}`;
}

function two(number: number): string {
  return String(number).padStart(2, "0");
}

/** A text by which its numbers are ordered as numbers: `s2` before `s10`. */
export function natural(text: string): string {
  return text.toLowerCase().replace(/\d+/g, (digits) => digits.padStart(20, "0"));
}

/** A line of a source file, with what a text says before it. */
export interface NamedLine {
  readonly before: string;
  readonly file: string;
  readonly line: number;
}

/** A part of a text: words, or a line of a source file. */
export type Part = string | {readonly text: string; readonly file: string; readonly line: number};

/** A line of a text. Its path has no spaces, else nobody could tell where it begins. */
const REFERENCE = /File "([^"\n]+)", line (\d+)|([\p{L}\p{M}\p{N}_./~+@%-]*[\p{L}\p{M}\p{N}_]\.[A-Za-z]\w*):(\d+)/gu;

/** A field that is one line, after the tier of a composition if that is told. */
const FIELD = /^((?:[^/]*?: )?)(.+):(\d+)$/s;

/** The endings of a policy's files. A name with another end is a source file if it has a folder; else it may be a host: `c1.example.org:6653`. */
const SOURCE = /\/|\.(?:py|rs|acl|txt|ya?ml|json|toml|csv|conf|cfg|list|rules)$/;

/** The line that a field is, whose path may have any letters; `null` if it is none. */
export function lineOf(field: string): NamedLine | null {
  const [, before = "", file = "", line] = FIELD.exec(field) ?? [];
  return SOURCE.test(file) ? {before, file, line: Number(line)} : null;
}

/** Finds the source lines that a text names: `acl.py:12`, or the frame of a traceback. Addresses and hosts with ports are none. */
export function parts(text: string): Part[] {
  const found: Part[] = [];
  let end = 0;
  for (const match of text.matchAll(REFERENCE)) {
    const [whole, framed, framedLine, plain = "", plainLine] = match;
    const [file, line] = framed === undefined ? [plain, plainLine] : [framed, framedLine];
    if (!SOURCE.test(file)) {
      continue;
    }
    if (match.index > end) {
      found.push(text.slice(end, match.index));
    }
    found.push({text: whole, file, line: Number(line)});
    end = match.index + whole.length;
  }
  if (end < text.length) {
    found.push(text.slice(end));
  }
  return found;
}

/** Finds the file that a name stands for: the same, or the one whose path ends with it. */
export function fileOf<T extends {readonly file: string}>(files: readonly T[], name: string): T | undefined {
  return files.find(({file}) => file === name) ?? files.find(({file}) => file.endsWith(`/${name}`) || name.endsWith(`/${file}`));
}

/** The last part of a path. */
export function base(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

/** The source lines that a text names, each once, as `/etc/maple/acl.py:12`. */
export function linesIn(text: string): string[] {
  const named = parts(text).flatMap((part) => (typeof part === "string" ? [] : [`${part.file}:${part.line}`]));
  return [...new Set(named)];
}

/** A text in which source lines are written as `acl.py:12`, also those of a traceback, so that a search finds them. */
export function withLines(text: string): string {
  return parts(text).map((part) => (typeof part === "string" ? part : `${base(part.file)}:${part.line}`)).join("");
}
