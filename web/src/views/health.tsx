// The controller's own health: rates, times, what is wrong, the log.
import {useEffect, useMemo, useState} from "preact/hooks";

import {address, format} from "../address";
import type {LogLine} from "../api/live";
import {SOON, useAnswer} from "../api/resource";
import type {ControllerAnswer, DoctorAnswer, ErrorRow, Finding, List, StatsAnswer, TablesRow} from "../api/types";
import {type Names, useNames} from "../names";
import {Lined, Lines, Section, Tabs, title, Trouble} from "../parts";
import {LISTS} from "../table/rows";
import {type Column, SearchBar, Table} from "../table/table";
import {linesIn, moment, scaled, span, whole, withLines} from "../text";
import {fullest} from "./capacity";
import {atMost, histogram, mean, quantile, rates, samples} from "./histogram";

const TABS = ["overview", "doctor", "errors", "log", "counters"] as const;
/** The time between two measurements of rates, in milliseconds. */
const EVERY = 2000;
/** The maximum number of moments of a rate that are kept, to show how it went. */
const KEPT = 150;
/** The number of tables of switches that are listed. */
const FULLEST = 10;

/** The rates that are shown first, by the names of counts. */
const RATES: readonly (readonly [name: string, title: string])[] = [
  ["of_packet_ins", "packet-ins"], ["hits", "packets with a decision"], ["misses", "decisions by the policy"], ["of_flow_mods", "flow-mods"],
  ["policy_errors", "failures of the policy"], ["conflicts", "repeated runs"], ["of_shed", "packets shed"],
];

/** Shows one part of the controller's account of itself. */
export function HealthView() {
  const tab = TABS.find((name) => name === address.value.path[1]) ?? "overview";
  title("Health");
  return (
    <div class="view">
      <h1 class="unseen">Health</h1>
      <Tabs label="Health" at={tab} tabs={TABS.map((name) => [name, name, format(["health", name])])} />
      {tab === "errors" ? <Errors /> : tab === "doctor" ? <Doctor /> : tab === "log" ? <Log /> : tab === "counters" ? <Counters /> : <Overview />}
    </div>
  );
}

/** Counts of two moments, and the rates at all moments since the view is open. */
interface Measured {
  readonly time: number;
  readonly counts: Readonly<Record<string, number>>;
  readonly rates: readonly ReadonlyMap<string, number>[];
}

/** The growth of all counts between readings. */
function useRates(stats: StatsAnswer | undefined): Measured | null {
  const [measured, setMeasured] = useState<Measured | null>(null);
  useEffect(() => {
    if (stats === undefined) {
      return;
    }
    const [time, counts] = [performance.now(), {...stats.controller, ...stats.engine}];
    setMeasured((before) => {
      if (before === null) {
        return {time, counts, rates: []};
      }
      const now = rates(before.counts, counts, (time - before.time) / 1000);
      return {time, counts, rates: [...before.rates, now].slice(-KEPT)};
    });
  }, [stats]);
  return measured;
}

function Overview() {
  const {data: stats, problem} = useAnswer<StatsAnswer>("/v1/stats", {every: EVERY, always: true});
  const {data: metrics} = useAnswer<string>("/metrics", {every: SOON, text: true});
  const {data: controller} = useAnswer<ControllerAnswer>("/v1/controller", {live: true, every: SOON});
  const measured = useRates(stats);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Overview">
      <Trouble problem={problem} />
      <div class="columns">
        <Section title="Rates">
          <table class="plain">
            <caption class="unseen">Rates</caption>
            <thead><tr><th scope="col">what</th><th scope="col" class="number">a second</th><th scope="col" class="spare">since this view is open</th><th scope="col" class="number">in all</th></tr></thead>
            <tbody>{RATES.map(([name, text]) => {
              const own = measured?.rates.flatMap((one) => one.get(name) ?? []) ?? [];
              const [latest, total] = [own[own.length - 1], measured?.counts[name]];
              return (
                <tr key={name}>
                  <td>{text}</td><td class="number">{latest === undefined ? "–" : scaled(latest, "")}</td>
                  <td class="spare"><Sparkline values={own} /></td><td class="number">{total === undefined ? "–" : whole(total)}</td>
                </tr>
              );
            })}</tbody>
          </table>
        </Section>
        {metrics !== undefined && <Times metrics={metrics} />}
        {controller !== undefined && stats !== undefined && <Facts controller={controller} stats={stats} />}
        {metrics !== undefined && <Shards metrics={metrics} />}
        <Capacity />
      </div>
    </div>
  );
}

/** A rate over time, without numbers: those are beside it. */
function Sparkline({values}: {readonly values: readonly number[]}) {
  const most = Math.max(1, ...values);
  const points = values.map((value, at) => `${(at * 160) / KEPT},${(19 - (18 * value) / most).toFixed(1)}`).join(" ");
  return <svg class="spark" viewBox="0 0 160 20" width="160" height="20" aria-hidden="true"><polyline points={points} /></svg>;
}

function Times({metrics}: {readonly metrics: string}) {
  const shown = useMemo(() => ([["maple_decide_seconds", "to decide"], ["maple_install_seconds", "until a rule is confirmed"]] as const)
    .map(([name, text]) => ({text, own: histogram(metrics, name)})), [metrics]);
  return (
    <Section title="Times">
      <table class="plain">
        <caption class="unseen">Times</caption>
        <thead><tr><th scope="col">time</th><th scope="col" class="number">half</th><th scope="col" class="number">90 %</th><th scope="col" class="number">99 %</th><th scope="col" class="number">mean</th><th scope="col" class="number">in all</th></tr></thead>
        <tbody>{shown.map(({text, own}) => own !== null && (
          <tr key={text}>
            <td>{text}</td>
            {[0.5, 0.9, 0.99].map((share) => <td key={share} class="number">{atMost(quantile(own, share))}</td>)}
            <td class="number">{mean(own)}</td><td class="number">{whole(own.count)}</td>
          </tr>
        ))}</tbody>
      </table>
      {shown.map(({text, own}) => own !== null && own.count > 0 && <Bars key={text} text={text} own={own} />)}
    </Section>
  );
}

/** The count of each bucket, as bars. */
function Bars({text, own}: {readonly text: string; readonly own: NonNullable<ReturnType<typeof histogram>>}) {
  const counts = own.buckets.map((bucket, at) => ({most: bucket.most, count: bucket.count - (own.buckets[at - 1]?.count ?? 0)}));
  const [first, last] = [counts.findIndex((one) => one.count > 0), counts.findLastIndex((one) => one.count > 0)];
  const most = Math.max(...counts.map((one) => one.count));
  return (
    <table class="bars">
      <caption>{text}</caption>
      <tbody>{counts.slice(Math.max(0, first - 1), last + 2).map((one) => (
        <tr key={one.most}>
          <th scope="row">{atMost(one.most)}</th>
          <td class="bar-cell">{one.count > 0 && <div class="bar-of" style={{width: `${(100 * one.count) / most}%`}} />}</td><td class="number">{whole(one.count)}</td>
        </tr>
      ))}</tbody>
    </table>
  );
}

function Facts({controller, stats}: {readonly controller: ControllerAnswer; readonly stats: StatsAnswer}) {
  const failing = controller.files.filter((file) => file.fails !== null);
  return (
    <Section title="Controller">
      <dl class="facts wide">
        <div><dt>version</dt><dd>{controller.version}, process {controller.pid}</dd></div>
        <div><dt>started</dt><dd>{moment(controller.started * 1000)}, {span(Date.now() / 1000 - controller.started)} ago</dd></div>
        <div><dt>switches</dt><dd>{whole(stats.connections)} connections at {controller.listening.map(({address: at, tls}) => `${at}${tls ? " (TLS)" : ""}`).join(", ") || "no address"}</dd></div>
        <div><dt>rules</dt><dd>{whole(stats.engine["rules"])}, of {whole(stats.engine["leaves"])} decisions</dd></div>
        {([["certificate", controller.certificate_expires], ["certificate of this page", controller.http_certificate_expires]] as const).map(([name, at]) => at !== null && (
          <div key={name}><dt>{name}</dt><dd class={at * 1000 - Date.now() < 30 * 86_400_000 ? "wrong" : ""}>expires {moment(at * 1000)}</dd></div>
        ))}
        <div><dt>state file</dt><dd>{controller.state_file ?? "none: state does not survive a restart"}</dd></div>
        {stats.heap_bytes !== undefined && <div><dt>heap</dt><dd>{scaled(stats.heap_bytes, "B")}</dd></div>}
        {failing.map((file) => <div key={file.path}><dt>{file.file}</dt><dd class="wrong">{file.path} can't be kept: {file.fails}</dd></div>)}
      </dl>
    </Section>
  );
}

function Shards({metrics}: {readonly metrics: string}) {
  const rows = useMemo(() => {
    const found = samples(metrics, new Set(["maple_switches", "maple_unreachable_switches", "maple_queue_depth"]));
    const of = (name: string, shard: string, queue?: string) => found.get(name)?.find(({labels}) => labels["shard"] === shard && (queue === undefined || labels["queue"] === queue))?.value;
    return (found.get("maple_switches") ?? []).map(({labels: {shard = ""}, value}) => ({
      shard, switches: value, unreachable: of("maple_unreachable_switches", shard), backlog: of("maple_queue_depth", shard, "backlog"), mailbox: of("maple_queue_depth", shard, "mailbox"),
    }));
  }, [metrics]);
  return (
    <Section title="Shards">
      <table class="plain">
        <caption class="unseen">Shards</caption>
        <thead><tr><th scope="col" class="number">shard</th><th scope="col" class="number">switches</th><th scope="col" class="number">unreachable</th><th scope="col" class="number">packets that wait</th><th scope="col" class="number">messages that wait</th></tr></thead>
        <tbody>{rows.map((row) => (
          <tr key={row.shard}><td class="number">{row.shard}</td><td class="number">{whole(row.switches)}</td><td class="number">{whole(row.unreachable)}</td><td class="number">{whole(row.backlog)}</td><td class="number">{whole(row.mailbox)}</td></tr>
        ))}</tbody>
      </table>
    </Section>
  );
}

/** The tables that have least room, as the switches say. */
function Capacity() {
  const {data, problem} = useAnswer<List<TablesRow>>("/v1/tables", {every: 30_000});
  const names = useNames();
  const rows = useMemo(() => fullest(data?.rows ?? [], FULLEST), [data]);
  return (
    <Section title="Capacity">
      <Trouble problem={problem} />
      {data !== undefined && rows.length === 0 && <p class="soft">No switch says how many rules its tables have room for.</p>}
      {rows.length > 0 && (
        <table class="plain">
          <caption class="unseen">Capacity: the fullest tables</caption>
          <thead><tr><th scope="col">switch</th><th scope="col" class="number">table</th><th scope="col" class="number">rules</th><th scope="col" class="number">room for</th><th scope="col" class="number">full</th></tr></thead>
          <tbody>{rows.map((row) => (
            <tr key={`${row.switch} ${row.table}`} class={row.share > 0.9 ? "wrong" : ""}>
              <td><a href={format(["switch", row.switch, "tables"])}>{names.switch(row.switch)}</a></td><td class="number">{row.table}</td>
              <td class="number">{whole(row.rules)}</td><td class="number">{whole(row.most)}</td><td class="number">{(100 * row.share).toFixed(row.share < 0.1 ? 2 : 0)} %</td>
            </tr>
          ))}</tbody>
        </table>
      )}
    </Section>
  );
}

/** The findings of `maple doctor` about the controller. */
function Doctor() {
  const {data, problem} = useAnswer<DoctorAnswer>("/v1/doctor", {every: 30_000});
  const names = useNames();
  const rows = data?.findings ?? [];
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Findings">
      <Trouble problem={problem} />
      {data === undefined ? <p class="none">reading …</p> : rows.length === 0 ? <p class="good">Nothing is wrong, of what the controller can see itself.</p> : null}
      {rows.map((one, at) => <FindingText key={at} one={one} names={names} />)}
      {data !== undefined && (
        <Section title="What was looked at">
          <p class="soft">{data.looked_at.join(", ")}</p>
          {data.not_looked_at.map((one) => <p key={one.what} class="warning">not {one.what}: {one.why}</p>)}
          <p class="soft"><code>maple doctor</code> on the controller's machine also looks at Open vSwitch and the machine.</p>
        </Section>
      )}
    </div>
  );
}

function FindingText({one, names}: {readonly one: Finding; readonly names: Names}) {
  return (
    <Section title={`${one.level}: ${names.inText(one.what)}`}>
      <dl class="facts wide">
        {one.where !== "" && <div><dt>where</dt><dd><Lined text={one.where} /></dd></div>}
        {one.consequence !== "" && <div><dt>so</dt><dd>{names.inText(one.consequence)}</dd></div>}
        {one.mend !== "" && <div><dt>mend</dt><dd><code>{one.mend}</code></dd></div>}
        <div><dt>more</dt><dd>in Maple's documentation, {one.page.replace(/^docs\//, "").replace(/#(.*)$/, ", under “$1”")}</dd></div>
      </dl>
    </Section>
  );
}

function Errors() {
  const {data, problem} = useAnswer<List<ErrorRow>>("/v1/errors?sort=-time", {live: true, every: SOON});
  const names = useNames();
  const columns = useMemo<Column<ErrorRow>[]>(() => [
    {name: "time", title: "time", of: (row) => -row.time, show: (row) => moment(row.time), width: 20},
    {name: "packets", title: "packets", of: (row) => row.packets ?? null, show: (row) => whole(row.packets), width: 10, numbers: true, spare: true},
    {name: "line", title: "line", of: (row) => linesIn(row.text).join(LISTS), show: (row) => <Lines of={linesIn(row.text)} />, width: 24, spare: true},
    {name: "text", title: "what", of: (row) => names.inText(withLines(row.text)), show: (row) => <Lined text={row.text} />, width: 100},
  ], [names]);
  return (
    <>
      <SearchBar label="problems" one="problem" count={data?.total} />
      <Trouble problem={problem} />
      <Table label="Problems" rows={data?.rows ?? []} columns={columns} keyOf={(row) => `${row.time} ${row.text}`} none="There was no problem." />
    </>
  );
}

function Log() {
  const {data, problem} = useAnswer<List<LogLine>>("/v1/log", {live: true});
  const names = useNames();
  const columns = useMemo<Column<LogLine>[]>(() => [
    {name: "time", title: "time", of: (row) => -row.number, show: (row) => moment(row.time), width: 20},
    {name: "level", title: "level", of: (row) => row.level, width: 9, spare: true},
    {name: "area", title: "area", of: (row) => row.area, width: 12, spare: true},
    {name: "text", title: "what", of: (row) => names.inText(withLines(row.text)), show: (row) => <Lined text={row.text} />, width: 110},
  ], [names]);
  return (
    <>
      <SearchBar label="lines of the log" one="line of the log" count={data?.total} problems={data?.rows.filter((row) => levelTrouble(row) !== null).length ?? 0} />
      <Trouble problem={problem} />
      <Table label="Log" rows={data?.rows ?? []} columns={columns} keyOf={(row) => String(row.number)} wrong={levelTrouble} inOrder none="The log is empty." />
    </>
  );
}

function levelTrouble(row: LogLine): string | null {
  return row.level === "error" || row.level === "warning" ? row.level : null;
}

interface CountRow {
  readonly name: string;
  readonly count: number;
  readonly rate: number | null;
}

function Counters() {
  const {data, problem} = useAnswer<StatsAnswer>("/v1/stats", {every: EVERY, always: true});
  const measured = useRates(data);
  const rows = useMemo<CountRow[]>(() => {
    const now = measured?.rates[measured.rates.length - 1];
    return Object.entries(measured?.counts ?? {}).map(([name, count]) => ({name, count, rate: now?.get(name) ?? null}));
  }, [measured]);
  const columns = useMemo<Column<CountRow>[]>(() => [
    {name: "name", title: "name", of: (row) => row.name, width: 24},
    {name: "count", title: "count", of: (row) => row.count, show: (row) => whole(row.count), width: 11, numbers: true},
    {name: "rate", title: "a second", of: (row) => row.rate, show: (row) => (row.rate === null ? "" : scaled(row.rate, "")), width: 9, numbers: true},
  ], []);
  return (
    <>
      <SearchBar label="counters" one="counter" count={rows.length} />
      <Trouble problem={problem} />
      <Table label="Counters" rows={rows} columns={columns} keyOf={(row) => row.name} />
    </>
  );
}
