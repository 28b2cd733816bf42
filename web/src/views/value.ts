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

/** The changes of one place, as the API takes them: nothing happens if somebody else has changed it meanwhile. */
export function change(place: object, before: Json | undefined, after: string | null): object {
  const expect = [[place, before ?? null]];
  return after === null ? {rows: [], delete: [place], expect} : {rows: [[place, {word: after}]], expect};
}
