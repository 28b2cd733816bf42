// The address bar: which view is shown, and with which filters. Everything that a reader chooses is in it, so that
// "back", a bookmark and a copied link lead to the same picture.
import {signal} from "@preact/signals";

/** The choices that the part of the address after `#` says. */
export interface Address {
  /** The view, and what it is about: `["network", "hosts"]`. */
  readonly path: readonly string[];
  readonly query: Readonly<Record<string, string>>;
}

/** Parts of the query that are set, or removed with `undefined`. */
export type Changes = Readonly<Record<string, string | undefined>>;

/** Reads the part of an address after `#`. */
export function parse(hash: string): Address {
  const text = hash.replace(/^#?\/?/, "");
  const mark = text.indexOf("?");
  const [path, query] = mark < 0 ? [text, ""] : [text.slice(0, mark), text.slice(mark + 1)];
  return {
    path: path.split("/").filter((part) => part !== "").map(decoded),
    query: Object.fromEntries(new URLSearchParams(query)),
  };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Writes an address so that `parse` reads it. Empty parts of the query are left out. */
export function format(path: readonly string[], query: Changes = {}): string {
  const set = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined && entry[1] !== "");
  const tail = set.length > 0 ? `?${new URLSearchParams(set)}` : "";
  return `#/${path.map(encodeURIComponent).join("/")}${tail}`;
}

/** The address that is shown. */
export const address = signal<Address>(parse(globalThis.location?.hash ?? ""));

/** Follows the address bar from now on. */
export function follow(): void {
  addEventListener("hashchange", () => (address.value = parse(location.hash)));
}

/** Goes to another view; "back" leads here again. */
export function go(path: readonly string[], query: Changes = {}): void {
  location.hash = format(path, query);
}

/** Changes parts of the query. What is typed letter by letter leaves no trace in the history. */
export function choose(changes: Changes): void {
  const {path, query} = address.value;
  history.replaceState(null, "", format(path, {...query, ...changes}));
  address.value = parse(location.hash);
}
