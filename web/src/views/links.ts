// Addresses that several views lead to.
import {format} from "../address";
import type {FlowRow, HostRow, RuleRow} from "../api/types";
import type {Names} from "../names";

export function switchHref(id: string): string {
  return format(["switch", id]);
}

/** Why the packet of a rule goes where it goes. */
export function ruleHref(row: RuleRow): string {
  return format(["why"], {rule: row.cookie, switch: row.switch});
}

/** A side of a flow: a host, or where it is if rules do not tell the hosts there apart. */
export function party(mac: string | null, at: FlowRow["from_at"], names: Names): string {
  return mac !== null ? names.host(mac) : at !== null ? `hosts at ${names.place(at)}` : "any";
}

/** The hosts at each switch. */
export function hostsAt(rows: readonly HostRow[]): ReadonlyMap<string, readonly string[]> {
  const all = new Map<string, string[]>();
  for (const {at, mac} of rows) {
    const own = all.get(at.switch) ?? [];
    all.set(at.switch, own);
    own.push(mac);
  }
  return all;
}

/** Why packets of a flow go where they go. Where its rules do not tell hosts apart, one at the switch stands for all. */
export function flowHref({switch: id, from, from_at, to, to_at}: FlowRow, names: Names, examples: ReadonlyMap<string, readonly string[]>): string {
  const side = (mac: string | null | undefined, at: FlowRow["from_at"]) => (mac != null ? names.host(mac) : at !== null ? names.place(at) : "");
  return format(["why"], {from: side(from, from_at) || side(examples.get(id)?.find((mac) => mac !== to), null), to: side(to, to_at)});
}
