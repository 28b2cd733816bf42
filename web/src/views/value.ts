// Values of tracked state, as people read and write them.
import type {Json, PastValue} from "../api/types";
import type {Names} from "../names";

/** A value as a reader sees it; what has no short form is JSON. */
export function shown(value: Json): string {
  if (typeof value === "string") {
    return value;
  }
  if (value !== null && typeof value === "object" && !Array.isArray(value)) {
    const [[kind, inner] = ["", null]] = Object.entries(value);
    if (kind === "location" && Array.isArray(inner)) {
      return inner.join(":");
    }
    if (["mac", "ip", "switch", "bytes", "float", "int"].includes(kind) && typeof inner === "string") {
      return inner;
    }
  }
  return JSON.stringify(value);
}

/** A value with the name of what it is, where it has one. */
export function named(value: Json, names: Names): string {
  const text = shown(value);
  const name = names.hasHost(text) ? names.host(text) : null;
  return name === null ? text : `${name} (${text})`;
}

/** A value of a change as a reader sees it. */
export function past(value: PastValue, show: (value: Json) => string): string {
  const isLong = value !== null && typeof value === "object" && "long" in value;
  return isLong ? "(long)" : show(value as Json);
}

/** The filters of a list for rows whose column has this value: one for each part, as the API takes them. */
export function filters(column: string, value: Json): readonly (readonly [column: string, text: string])[] {
  if (value === null || typeof value !== "object") {
    return [[column, typeof value === "string" ? value : JSON.stringify(value)]];
  }
  return Object.entries(value).flatMap(([name, part]) => filters(`${column}.${name}`, part as Json));
}

/** Reports whether a place takes one kind of value only, by what the API says of its type. */
export function isTyped(type: string | null): boolean {
  return type !== null && !/\bany\b/.test(type);
}

/**
 * The value that a reader's text stands for. A place with a type, or without a value, takes it as a word. Any other place would take a word
 * of any kind, and policies compare kinds too, so there it is of the kind of the value before; `undefined` if it is none of that.
 */
export function meant(text: string, before: Json | undefined, typed: boolean, id: (word: string) => string): Json | undefined {
  return typed || before == null ? {word: text} : alike(text, before, id);
}

function alike(text: string, before: NonNullable<Json>, id: (word: string) => string): Json | undefined {
  const word = text.trim();
  if (typeof before === "string") {
    return text;
  }
  if (typeof before === "number") {
    return numberOf(word);
  }
  if (typeof before === "boolean" || Array.isArray(before)) {
    const value = jsonOf(word);
    return typeof value === typeof before && Array.isArray(value) === Array.isArray(before) ? value : undefined;
  }
  const [kind = ""] = Object.keys(before);
  if (kind === "int" || kind === "float") {
    return numberOf(word);
  }
  if (kind === "location") {
    const [, at = "", port] = /^(.+):(\d+)$/.exec(word) ?? [];
    return port === undefined ? undefined : {location: [id(at), Number(port)]};
  }
  if (kind === "map") {
    const value = jsonOf(word);
    return value !== null && typeof value === "object" && "map" in value ? value : undefined;
  }
  return word === "" ? undefined : {[kind]: id(word)};
}

/** A number. Those that JavaScript would round are texts for the API. */
function numberOf(word: string): Json | undefined {
  if (/^[+-]?\d+$/.test(word)) {
    return Number.isSafeInteger(Number(word)) ? Number(word) : {int: word};
  }
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(word) ? Number(word) : /^([+-]?inf|NaN)$/.test(word) ? {float: word} : undefined;
}

function jsonOf(word: string): Json | undefined {
  try {
    return JSON.parse(word) as Json;
  } catch {
    return undefined;
  }
}

/** The changes of one place, as the API takes them; `null` deletes it. Nothing happens if somebody else has changed it meanwhile. */
export function change(place: object, before: Json | undefined, after: Json): object {
  const expect = [[place, before ?? null]];
  return after === null ? {rows: [], delete: [place], expect} : {rows: [[place, after]], expect};
}
