// Who changed what, and when: policies, tables and variables.
import {format} from "../address";
import {TRACKED, useAnswer} from "../api/resource";
import type {Json, List, PastChange, PastValue} from "../api/types";
import {useNames} from "../names";
import {Lined, Section, Trouble} from "../parts";
import {base, moment, whole} from "../text";
import {filters, named, past} from "./value";

/** The number of changes that are listed. */
const LISTED = 100;

/** The place of which the changes are listed; all changes without one. */
export interface PlaceOfChange {
  readonly table?: string;
  readonly key?: Json;
  readonly var?: string;
}

/** Lists changes, the newest first. */
export function History({title, of}: {readonly title: string; readonly of?: PlaceOfChange}) {
  const names = useNames();
  const query = new URLSearchParams({limit: String(LISTED)});
  if (of?.table !== undefined) {
    query.set("table", of.table);
  }
  if (of?.var !== undefined) {
    query.set("var", of.var);
  }
  if (of?.key !== undefined) {
    filters("key", of.key).forEach(([column, text]) => query.set(column, text));
  }
  const {data, problem} = useAnswer<List<PastChange>>(`/v1/history?${query.toString()}`, of === undefined ? {live: true} : TRACKED);
  const text = (value: PastValue) => past(value, (one) => named(one, names));
  const rows = data?.rows ?? [];
  return (
    <Section title={title}>
      <Trouble problem={problem} />
      {data !== undefined && rows.length === 0 && <p class="none">Nothing was changed, as far as is known.</p>}
      {rows.length > 0 && (
        <table class="plain history">
          <caption class="unseen">{title}</caption>
          <thead><tr><th scope="col">when</th><th scope="col">who</th>{of === undefined && <th scope="col">what</th>}<th scope="col">before</th><th scope="col">after</th></tr></thead>
          <tbody>{rows.map((row) => (
            <tr key={row.number}>
              <td><time title={new Date(row.time).toISOString()}>{moment(row.time)}</time></td>
              <td><Who row={row} /></td>
              {of === undefined && <td>{row.policy === null ? <PlaceText row={row} text={text} /> : <>{row.what} of <span title={row.policy}>{base(row.policy)}</span></>}</td>}
              <td>{row.policy === null ? row.old === null ? "nothing" : text(row.old) : ""}</td>
              <td>{row.policy !== null ? <code title="the fingerprint of its files">{row.hash?.slice(0, 12)}</code> : row.what === "delete" ? "deleted" : text(row.new)}</td>
            </tr>
          ))}</tbody>
        </table>
      )}
      {data !== undefined && data.total > rows.length && <p class="soft">These are the newest {whole(rows.length)} of {whole(data.total)}.</p>}
    </Section>
  );
}

function Who({row}: {readonly row: PastChange}) {
  return row.who === null || row.by.startsWith(row.who) ? <Lined text={row.by} /> : <><strong>{row.who}</strong> <span class="soft"><Lined text={row.by} /></span></>;
}

function PlaceText({row, text}: {readonly row: PastChange; readonly text: (value: PastValue) => string}) {
  const name = row.table ?? row.var ?? "";
  const link = <a href={format(["state", row.table === null ? "variable" : "table", name])}>{name}</a>;
  if (row.table === null) {
    return link;
  }
  const isLong = row.key !== null && typeof row.key === "object" && "long" in row.key;
  return <>{link} {isLong ? text(row.key) : <a href={format(["state", "table", name], {key: JSON.stringify(row.key)})}>{text(row.key)}</a>}</>;
}
