// Which tables of switches are nearly full.
import type {TablesRow} from "../api/types";

/** A table of a switch, and the share of its room that is used. */
export interface Fullness {
  readonly switch: string;
  readonly table: number;
  readonly rules: number;
  readonly most: number;
  readonly share: number;
}

/** The fullest tables of all switches. Those whose switch does not say how much they have room for are left out. */
export function fullest(rows: readonly TablesRow[], count: number): Fullness[] {
  const all = rows.flatMap((row) => (row.tables ?? []).flatMap(({table, rules, most}) => (
    rules === null || most === null || most === 0 ? [] : [{switch: row.switch, table, rules, most, share: rules / most}])));
  return all.sort((a, b) => b.share - a.share || b.rules - a.rules).slice(0, count);
}
