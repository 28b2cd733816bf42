// Rules in short lists: beside a line of the policy, and below a decision.
import type {List, RuleRow} from "../api/types";
import type {Names} from "../names";
import {Listed} from "../parts";
import {whole} from "../text";
import {ruleHref} from "./links";

/** Lists rules, each with a link of this text to the packet that it was made for. */
export function RuleList({rules, text, names}: {readonly rules: List<RuleRow> | undefined; readonly text: (row: RuleRow) => string; readonly names: Names}) {
  return (
    <>
      <ul class="plain-list">
        {rules?.rows.map((row) => (
          <li key={`${row.switch} ${row.table} ${row.priority} ${row.match}`}>
            <a href={ruleHref(row)}>{text(row)}</a> <Listed text={row.match === "" ? "any" : names.inText(row.match)} /> → <Listed text={names.inText(row.actions)} />
            {row.n_packets !== null && <span class="soft"> {packets(row.n_packets)}</span>}
          </li>
        ))}
      </ul>
      <Others of={rules} />
    </>
  );
}

/** A number of packets, with the noun. */
export function packets(count: number): string {
  return `${whole(count)} ${count === 1 ? "packet" : "packets"}`;
}

/** The number of rows of a list that were not asked for. */
export function Others({of}: {readonly of: List<unknown> | undefined}) {
  return of !== undefined && of.total > of.rows.length ? <p class="soft">and {whole(of.total - of.rows.length)} others</p> : null;
}
