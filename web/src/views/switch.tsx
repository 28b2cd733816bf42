// One switch: its ports, rules, decisions and tables.
import {useCallback, useMemo} from "preact/hooks";

import {address, format} from "../address";
import {SOON, useAnswer} from "../api/resource";
import type {List, PortRow, RuleRow, SwitchRow, TablesRow} from "../api/types";
import {type Names, useNames} from "../names";
import {Line, Lined, Section, Tabs, title, Trouble} from "../parts";
import {exactly} from "../table/rows";
import {type Column, SearchBar, Table} from "../table/table";
import {whole} from "../text";
import {ruleHref} from "./links";
import {COUNTED} from "./map";
import {portColumns, portTrouble, switchTrouble, useBroken} from "./network";
import {Tree} from "./tree";

/** Shows the switch that the address names. */
export function SwitchView() {
  const [, id = "", tab = "ports"] = address.value.path;
  const names = useNames();
  const {data} = useAnswer<List<SwitchRow>>("/v1/switches", {live: true, every: SOON});
  const row = data?.rows.find((one) => one.switch === id);
  const trouble = row === undefined ? null : switchTrouble(row);
  title(names.switch(id));
  return (
    <div class="view">
      <div class="head">
        <h1>{names.switch(id)}</h1>
        {row === undefined
          ? <p>{data === undefined ? "reading …" : "This switch has never connected, or was forgotten."}</p>
          : (
            <p>
              <span class={trouble === null ? "" : "wrong"}>{trouble ?? `connected from ${row.peer ?? ""}`}</span>
              {" · "}OpenFlow {row.version} · {row.description === "" ? "no description" : row.description} · datapath id {row.switch}
              {" · "}<a href={format(["network", "map"], {at: names.switch(id), hops: "1"})}>on the map</a>
              {" · "}<a href={format(["network", "hosts"], {q: exactly("switch", names.switch(id))})}>its hosts</a>
            </p>
          )}
      </div>
      <Tabs label="Switch" at={tab} tabs={["ports", "rules", "decisions", "tables"].map((name) => [name, name, format(["switch", id, name])])} />
      {tab === "rules" ? <Rules id={id} /> : tab === "decisions" ? <Tree id={id} /> : tab === "tables" ? <Tables id={id} /> : <Ports id={id} />}
    </div>
  );
}

function Ports({id}: {readonly id: string}) {
  const {data, problem} = useAnswer<List<PortRow>>(`/v1/switches/${encodeURIComponent(id)}/ports`, {every: SOON});
  const names = useNames();
  const broken = useBroken();
  const wrong = useCallback((row: PortRow) => portTrouble(row, broken), [broken]);
  const columns = useMemo(() => portColumns(names), [names]);
  const rows = data?.rows ?? [];
  return (
    <>
      <SearchBar label="ports" one="port" count={data?.total} problems={rows.filter((row) => wrong(row) !== null).length} />
      <Trouble problem={problem} />
      <Table label="Ports of the switch" rows={rows} columns={columns} keyOf={(row) => String(row.port)} wrong={wrong} none="It has not said its ports." />
    </>
  );
}

/** The columns of rules. */
function ruleColumns(names: Names): Column<RuleRow>[] {
  const match = (row: RuleRow) => (row.match === "" ? "any" : names.inText(row.match));
  return [
    {name: "table", title: "table", of: (row) => row.table, width: 7, numbers: true},
    {name: "priority", title: "priority", of: (row) => row.priority, width: 9, numbers: true},
    {name: "match", title: "match", of: match, width: 36},
    {name: "actions", title: "actions", of: (row) => names.inText(row.actions), width: 28},
    {name: "packets", title: "packets", of: (row) => row.n_packets, show: (row) => whole(row.n_packets), width: 11, numbers: true},
    {name: "line", title: "decided by", of: (row) => row.line, show: (row) => (row.line === null ? "" : <Line of={row.line} />), width: 15},
    {name: "why", title: "made by", of: (row) => (row.why === null ? null : names.inText(row.why)), show: (row) => <Lined text={row.why} />, width: 38},
    {name: "decision", title: "decision", of: (row) => row.leaf, width: 12, numbers: true,
      show: (row) => (row.leaf === null ? "" : <a href={format(["switch", row.switch, "decisions"], {decision: String(row.leaf)})}>{row.leaf}</a>)},
  ];
}

function Rules({id}: {readonly id: string}) {
  const {data, problem} = useAnswer<List<RuleRow>>(`/v1/switches/${encodeURIComponent(id)}/rules`, {every: SOON});
  const names = useNames();
  const columns = useMemo(() => ruleColumns(names), [names]);
  return (
    <>
      <SearchBar label="rules" one="rule" count={data?.total} />
      <Trouble problem={problem} />
      <Table label="Rules of the switch" rows={data?.rows ?? []} columns={columns}
        keyOf={(row) => `${row.table} ${row.priority} ${row.match}`} href={ruleHref} leads="match" none="It has no rules." />
    </>
  );
}

function Tables({id}: {readonly id: string}) {
  const {data, problem} = useAnswer<List<TablesRow>>(`/v1/switches/${encodeURIComponent(id)}/tables`, {every: COUNTED});
  const row = data?.rows[0];
  return (
    <div class="scroll">
      <Trouble problem={problem} />
      <Section title="Tables, as the switch says">
        <table class="plain">
          <caption class="unseen">Tables, as the switch says</caption>
          <thead><tr><th scope="col" class="number">table</th><th scope="col" class="number">rules</th><th scope="col" class="number">room for</th></tr></thead>
          <tbody>
            {row?.tables?.map((one) => (
              <tr key={one.table}><td class="number">{one.table}</td><td class="number">{whole(one.rules)}</td><td class="number">{whole(one.most)}</td></tr>
            ))}
          </tbody>
        </table>
        {row !== undefined && row.tables === null && <p>The switch did not say.</p>}
      </Section>
      {row?.look_ups != null && row.look_ups.length > 0 && (
        <Section title="What the policy looks up here">
          <table class="plain">
            <caption class="unseen">What the policy looks up here</caption>
            <thead><tr><th scope="col">look-up</th><th scope="col" class="number">table</th><th scope="col">read instead, because</th></tr></thead>
            <tbody>{row.look_ups.map((one) => (
              <tr key={one.look_up}><td><code>{one.look_up}</code></td><td class="number">{one.table}</td><td>{one.lowered}</td></tr>
            ))}</tbody>
          </table>
        </Section>
      )}
    </div>
  );
}
