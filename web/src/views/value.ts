// Values of tracked state, as people read and write them.
import type {Json} from "../api/types";

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

/** The changes of one place, as the API takes them: nothing happens if somebody else has changed it meanwhile. */
export function change(place: object, before: Json | undefined, after: string | null): object {
  const expect = [[place, before ?? null]];
  return after === null ? {rows: [], delete: [place], expect} : {rows: [[place, {word: after}]], expect};
}
