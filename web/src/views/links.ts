// Addresses that several views lead to.
import {format} from "../address";
import type {RuleRow} from "../api/types";

export function switchHref(id: string): string {
  return format(["switch", id]);
}

/** Why the packet of a rule goes where it goes. */
export function ruleHref(row: RuleRow): string {
  return format(["why"], {rule: row.cookie, switch: row.switch});
}
