// The last 24 hours: what the network was at a moment, and what differs from an earlier one.
import {useMemo, useState} from "preact/hooks";

import {address, choose, format} from "../address";
import {SOON, useAnswer} from "../api/resource";
import type {HostRow, LogRow, TimeAnswer, TimeAt, TimeChanges, TimeSwitch} from "../api/types";
import {pair} from "../map/graph";
import {NetworkMap} from "../map/map";
import {type Names, useNames} from "../names";
import {chosen, Line, Lined, Tabs, title, Trouble} from "../parts";
import {type Column, SearchBar, Table} from "../table/table";
import {moment, scaled, span, whole} from "../text";
import {type ChangeRow, changeRows, doubts, gapText, isLoss, mapThen, nextChange, highest, path, ratesAt, share} from "./moments";

const TABS = ["changes", "events", "drops", "switches", "links", "hosts", "map"] as const;
/** The size of the plot, in its own units. */
const [WIDTH, HEIGHT] = [1000, 60];
/** The number of gaps that are told, the latest ones. */
const MAX_GAPS = 5;
/** The steps of a slider: as many as a screen has pixels, and none shorter than a second. */
const STEPS = 1000;

/** A moment of the address bar, in milliseconds since 1970; `null` where there is none. */
function momentOf(name: string): number | null {
  const text = chosen(name);
  return /^\d+$/.test(text) ? Number(text) : null;
}

/** Shows a moment, and how it differs from an earlier one. */
export function TimeView() {
  const tab = TABS.find((name) => name === address.value.path[1]) ?? "changes";
  title("Time");
  const {data: all, problem} = useAnswer<TimeAnswer>("/v1/time", {every: SOON});
  const [at, from] = [momentOf("at"), momentOf("from")];
  const query = {at: at === null ? undefined : String(at), from: from === null ? undefined : String(from)};
  return (
    <div class={at === null ? "view" : "view past"}>
      <h1 class="unseen">Time</h1>
      <Then at={at} />
      <Trouble problem={problem} />
      {all === undefined ? <p class="none">reading …</p> : all.from === null || all.to === null ? <p class="none">Nothing is kept yet{all.trouble === null ? "" : `: ${all.trouble}`}.</p>
        : <Moments all={all} first={all.from} last={all.to} at={at} from={from} />}
      <Tabs label="Time" at={tab} tabs={TABS.map((name) => [name, name, format(["time", name], query)])} />
      <Shown tab={tab} at={at} from={from} />
    </div>
  );
}

/** Says that what is shown is past, with the way back. */
function Then({at}: {readonly at: number | null}) {
  return at === null ? null : (
    <p class="then" role="status">
      <strong>Then</strong>: {moment(at)}, {span(Math.max(0, Math.floor((Date.now() - at) / 1000)))} ago. <button type="button" class="main" onClick={() => choose({at: undefined})}>Back to now</button>
    </p>
  );
}

interface MomentsProps {
  readonly all: TimeAnswer;
  readonly first: number;
  readonly last: number;
  readonly at: number | null;
  readonly from: number | null;
}

/** The plot, and below it the two moments that are chosen. */
function Moments({all, first, last, at, from}: MomentsProps) {
  const [later, earlier] = [at ?? last, from ?? first];
  const own = ratesAt(all.rates, later);
  const line = useMemo(() => path(all, (point) => point.packet_ins_per_second, WIDTH, HEIGHT), [all]);
  const changed = (forward: boolean) => nextChange(all.rates, later, forward);
  const step = (forward: boolean) => (
    <button type="button" disabled={changed(forward) === null} onClick={() => choose({at: String(changed(forward))})}>
      {forward ? "next change ›" : "‹ change before"}
    </button>
  );
  const x = (time: number) => WIDTH * share(all, time);
  return (
    <div class="moments">
      <p class="soft axis">packet-ins a second, at most {scaled(highest(all.rates), "")}; below them, marks where the network changed</p>
      <svg class="plot" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
        {all.gaps.map((gap) => <rect key={`${gap.from} ${gap.why}`} class="gap" x={x(gap.from)} width={Math.max(1, x(gap.to) - x(gap.from))} y="0" height={HEIGHT} />)}
        <rect class="between" x={x(earlier)} width={Math.max(0, x(later) - x(earlier))} y="0" height={HEIGHT} />
        {all.rates.filter((point) => point.changes > 0).map((point) => <line key={point.time} class="change" x1={x(point.time)} x2={x(point.time)} y1={HEIGHT - 8} y2={HEIGHT} />)}
        <path d={line} />
        {[earlier, later].map((time, number) => <line key={number} class="moment" x1={x(time)} x2={x(time)} y1="0" y2={HEIGHT} />)}
      </svg>
      <Slider label="Moment" value={later} first={first} last={last} text={at === null ? "now" : moment(later)}
        onChoose={(time) => choose({at: time >= last ? undefined : String(time)})} />
      <Slider label="Compared with" value={earlier} first={first} last={last} text={moment(earlier)}
        onChoose={(time) => choose({from: time <= first ? undefined : String(time)})} />
      <div class="bar">
        {step(false)} {step(true)}
        {own !== undefined && (
          <span class="soft">
            {whole(own.switches)} switches, {whole(own.links)} links, {whole(own.hosts)} hosts
            {own.packet_ins_per_second !== null && `; ${scaled(own.packet_ins_per_second, "")} packet-ins/s`}
            {own.decisions_per_second !== null && `, ${scaled(own.decisions_per_second, "")} decisions/s`}
            {own.failures_per_second !== null && own.failures_per_second > 0 && `, ${scaled(own.failures_per_second, "")} failures/s`}
          </span>
        )}
        <span class="count">
          kept since {moment(first)}, {all.in_files ? "also over restarts" : "in memory"}
          {all.recording !== null && <>; <code>maple replay {all.recording}</code> has this run exactly</>}
        </span>
      </div>
    </div>
  );
}

interface SliderProps {
  readonly label: string;
  readonly value: number;
  readonly first: number;
  readonly last: number;
  readonly text: string;
  readonly onChoose: (time: number) => void;
}

/** Chooses a moment. What it shows is read when the slider rests. */
function Slider({label, value, first, last, text, onChoose}: SliderProps) {
  const [moved, setMoved] = useState<number | null>(null);
  const step = Math.max(1000, Math.round((last - first) / STEPS));
  const shown = moved ?? value;
  // A slider has no place between its steps, but its ends are moments too.
  const steps = Math.max(1, Math.ceil((last - first) / step));
  const time = (place: number) => (place >= steps ? last : first + place * step);
  return (
    <label class="slider">
      <span>{label}</span>
      <input type="range" min={0} max={steps} step={1} value={shown >= last ? steps : Math.round((shown - first) / step)} aria-valuetext={moved === null ? text : moment(shown)}
        onInput={(event) => setMoved(time(Number(event.currentTarget.value)))}
        onChange={(event) => {
          setMoved(null);
          onChoose(time(Number(event.currentTarget.value)));
        }} />
      <output>{moved === null ? text : moment(shown)}</output>
    </label>
  );
}

function Shown({tab, at, from}: {readonly tab: (typeof TABS)[number]; readonly at: number | null; readonly from: number | null}) {
  const names = useNames();
  const isDifference = tab === "changes" || tab === "events" || tab === "drops";
  const fresh = at === null ? {live: true, every: SOON} : {};
  const asked = new URLSearchParams({...(from === null ? {} : {from: String(from)}), ...(at === null ? {} : {to: String(at)})}).toString();
  const then = useAnswer<TimeAt>(isDifference ? null : `/v1/time/at${at === null ? "" : `?t=${at}`}`, fresh);
  const changes = useAnswer<TimeChanges>(isDifference || tab === "map" ? `/v1/time/changes${asked === "" ? "" : `?${asked}`}` : null, fresh);
  const problem = then.problem ?? changes.problem;
  // A moment that was read before may not be kept any more.
  if (problem?.status === 404) {
    return <Trouble problem={problem} />;
  }
  const [of, differs] = [then.data, changes.data];
  return (
    <>
      <Trouble problem={problem} />
      {differs !== undefined && differs.gaps.slice(-MAX_GAPS).map((gap) => <p key={`${gap.from} ${gap.why}`} class="warning">{gapText(gap)}</p>)}
      {differs !== undefined && differs.gaps.length > MAX_GAPS && <p class="warning">Of {whole(differs.gaps.length - MAX_GAPS)} earlier times not everything is kept either.</p>}
      {of !== undefined && of.replay !== null && <p class="exactly">This moment exactly, with the number of rules: <code>{of.replay}</code></p>}
      {of !== undefined && doubts(of).map((text) => <p key={text} class="warning">{text}</p>)}
      {tab === "changes" && <Changes data={differs} names={names} />}
      {tab === "events" && <Events data={differs} from={from} names={names} />}
      {tab === "drops" && <Drops data={differs} names={names} />}
      {tab === "switches" && <Switches data={of} names={names} />}
      {tab === "links" && <Links data={of} names={names} />}
      {tab === "hosts" && <Hosts data={of} names={names} />}
      {tab === "map" && of !== undefined && differs !== undefined && <MapThen then={of} changes={differs} isCompared={from !== null} />}
    </>
  );
}

function Changes({data, names}: {readonly data: TimeChanges | undefined; readonly names: Names}) {
  const rows = useMemo(() => (data === undefined ? [] : changeRows(data, names)), [data, names]);
  const columns = useMemo<Column<ChangeRow>[]>(() => [
    {name: "which", title: "which", of: (row) => row.which, width: 26},
    {name: "what", title: "what", of: (row) => row.what, width: 9},
    {name: "how", title: "how", of: (row) => row.how, width: 13},
    {name: "before", title: "before", of: (row) => row.before, width: 22},
    {name: "after", title: "then", of: (row) => row.after, width: 22},
  ], []);
  return (
    <>
      <SearchBar label="changes" one="change" count={data === undefined ? undefined : rows.length} problems={rows.filter(isLoss).length} />
      <Table label="Changes" rows={rows} columns={columns} keyOf={(row) => `${row.what} ${row.which} ${row.how}`} wrong={changeTrouble} none="Nothing has changed since the earlier moment." />
    </>
  );
}

function changeTrouble(row: ChangeRow): string | null {
  return isLoss(row) ? row.how : null;
}

function Events({data, from, names}: {readonly data: TimeChanges | undefined; readonly from: number | null; readonly names: Names}) {
  const before = from === null ? undefined : String(from);
  const columns = useMemo<Column<LogRow>[]>(() => [
    {name: "time", title: "time", of: (row) => -row.time, show: (row) => moment(row.time), width: 20},
    {name: "level", title: "level", of: (row) => row.level, width: 9, spare: true},
    {name: "area", title: "area", of: (row) => row.area, width: 12, spare: true},
    {name: "text", title: "what", of: (row) => names.inText(row.text), show: (row) => <Lined text={row.text} />, width: 90},
  ], [names]);
  return (
    <>
      <SearchBar label="events" one="event" count={data?.lines.length} problems={data?.lines.filter((row) => levelTrouble(row) !== null).length ?? 0} />
      {data !== undefined && data.left_out > 0 && <p class="warning">{whole(data.left_out)} further events are left out.</p>}
      <Table label="Events" rows={data?.lines ?? []} columns={columns} keyOf={(row) => `${row.time} ${row.number}`} wrong={levelTrouble} inOrder
        href={(row) => format(["time", "map"], {at: String(row.time), from: before})} none="Nothing happened between the moments." />
    </>
  );
}

function levelTrouble({level}: LogRow): string | null {
  return level === "error" || level === "warning" ? level : null;
}

function Drops({data, names}: {readonly data: TimeChanges | undefined; readonly names: Names}) {
  const columns = useMemo<Column<TimeChanges["drops"][number]>[]>(() => [
    {name: "line", title: "line", of: (row) => row.line ?? "no source line", show: (row) => <Line of={row.line ?? "no source line"} />, width: 26},
    {name: "packets", title: "packets", of: (row) => row.packets, show: (row) => whole(row.packets), width: 12, numbers: true},
    {name: "switch", title: "switch", of: (row) => names.switch(row.switch), width: 14},
    {name: "why", title: "why", of: (row) => row.why, show: (row) => <Lined text={row.why} />, width: 60},
  ], [names]);
  return (
    <>
      <SearchBar label="kinds of drops" one="kind of drop" count={data?.drops.length} />
      {data !== undefined && data.other_drops > 0 && <p class="warning">{whole(data.other_drops)} packets were dropped for further reasons.</p>}
      <Table label="Drops" rows={data?.drops ?? []} columns={columns} keyOf={(row) => `${row.line} ${row.why} ${row.switch}`} none="Nothing was dropped between the moments, as far as switches have said." />
    </>
  );
}

function Switches({data, names}: {readonly data: TimeAt | undefined; readonly names: Names}) {
  const rows = data?.switches ?? [];
  const columns = useMemo<Column<TimeSwitch>[]>(() => [
    {name: "switch", title: "switch", of: (row) => names.switch(row.switch), width: 16},
    {name: "state", title: "state", of: (row) => switchTrouble(row) ?? "connected", width: 16},
    {name: "hosts", title: "hosts", of: (row) => row.hosts, width: 8, numbers: true},
    {name: "id", title: "datapath id", of: (row) => row.switch, width: 18},
  ], [names]);
  return (
    <>
      <SearchBar label="switches" one="switch" count={data?.switches.length} problems={rows.filter((row) => !row.connected).length} />
      <Table label="Switches" rows={rows} columns={columns} keyOf={(row) => row.switch} wrong={switchTrouble} none="There was no switch." />
    </>
  );
}

function switchTrouble({connected}: TimeSwitch): string | null {
  return connected ? null : "not connected";
}

function Links({data, names}: {readonly data: TimeAt | undefined; readonly names: Names}) {
  const columns = useMemo<Column<TimeAt["links"][number]>[]>(() => [
    {name: "from", title: "from", of: (row) => names.place(row.from), width: 20},
    {name: "to", title: "to", of: (row) => names.place(row.to), width: 20},
  ], [names]);
  return (
    <>
      <SearchBar label="links" one="link" count={data?.links.length} />
      <Table label="Links" rows={data?.links ?? []} columns={columns} keyOf={({from, to}) => `${from.switch} ${from.port} ${to.switch} ${to.port}`} none="There was no link." />
    </>
  );
}

function Hosts({data, names}: {readonly data: TimeAt | undefined; readonly names: Names}) {
  const columns = useMemo<Column<HostRow>[]>(() => [
    {name: "host", title: "host", of: (row) => names.host(row.mac), width: 19},
    {name: "at", title: "at", of: (row) => names.place(row.at), width: 14},
    {name: "ipv4", title: "IPv4", of: (row) => row.ipv4.join(" "), width: 18},
    {name: "ipv6", title: "IPv6", of: (row) => row.ipv6.join(" "), width: 28},
    {name: "mac", title: "hardware address", of: (row) => row.mac, width: 19},
  ], [names]);
  return (
    <>
      <SearchBar label="hosts" one="host" count={data?.hosts.length} />
      <Table label="Hosts" rows={data?.hosts ?? []} columns={columns} keyOf={(row) => row.mac} none="There was no host." />
    </>
  );
}

/** The network of then. Links that were there at the earlier moment are dashed, and those that are new since a chosen one are emphasised. */
function MapThen({then, changes, isCompared}: {readonly then: TimeAt; readonly changes: TimeChanges; readonly isCompared: boolean}) {
  const network = useMemo(() => mapThen(then, changes.links), [then, changes]);
  const added = useMemo(() => {
    const links = isCompared ? changes.links.filter(({how}) => how === "added") : [];
    return new Set(links.map(({from, to}) => pair(from.switch, to.switch)));
  }, [changes, isCompared]);
  return (
    <div class="map-and-side">
      <NetworkMap network={network} chosen={null} way={added} fitted="" />
    </div>
  );
}
