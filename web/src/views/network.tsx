// The network: tables of what is in it, and the map.
import {useCallback, useMemo} from "preact/hooks";

import {address, format} from "../address";
import {SOON, useAnswer} from "../api/resource";
import type {DropRow, FlowRow, HostRow, List, MapAnswer, MapLink, Place, PortRow, SwitchRow} from "../api/types";
import {load} from "../map/graph";
import {type Names, useNames} from "../names";
import {Lined, lineHref, Lines, Tabs, title, Trouble} from "../parts";
import {LISTS} from "../table/rows";
import {SearchBar, type Column, Table} from "../table/table";
import {base, bits, lineOf, span, whole} from "../text";
import {flowHref, hostsAt, party, switchHref} from "./links";
import {COUNTED, MapView} from "./map";

const TABS = ["switches", "ports", "links", "hosts", "flows", "drops", "map"] as const;

/** Shows the part of the network that the address names. */
export function NetworkView() {
  const tab = address.value.path[1] ?? "switches";
  const shown = TABS.find((name) => name === tab) ?? "switches";
  title(shown[0]?.toUpperCase() + shown.slice(1));
  return (
    <div class="view">
      <h1 class="unseen">Network</h1>
      <Tabs label="Network" at={shown} tabs={TABS.map((name) => [name, name, format(["network", name])])} />
      {shown === "switches" && <Switches />}
      {shown === "ports" && <Ports />}
      {shown === "links" && <Links />}
      {shown === "hosts" && <Hosts />}
      {shown === "flows" && <Flows />}
      {shown === "drops" && <Drops />}
      {shown === "map" && <MapView />}
    </div>
  );
}

/** The trouble of a switch. */
export function switchTrouble(row: SwitchRow): string | null {
  if (row.peer === null) {
    return row.unreachable === null ? "not connected" : `not connected for ${span(row.unreachable)}`;
  }
  return row.silent ? "connected, but nothing comes from it" : row.waiting_bytes > 0 ? `does not read: ${whole(row.waiting_bytes)} bytes wait` : null;
}

function Switches() {
  const {data, problem} = useAnswer<List<SwitchRow>>("/v1/switches", {live: true, every: SOON});
  const names = useNames();
  const rows = data?.rows ?? [];
  const columns = useMemo<Column<SwitchRow>[]>(() => [
    {name: "switch", title: "switch", of: (row) => names.switch(row.switch), width: 14},
    {name: "state", title: "state", of: (row) => switchTrouble(row) ?? "connected", width: 24},
    {name: "address", title: "address", of: (row) => row.peer, width: 20},
    {name: "version", title: "OpenFlow", of: (row) => row.version, width: 11},
    {name: "ports", title: "ports up", of: (row) => up(row), show: (row) => `${up(row)} of ${own(row).length}`, width: 9, numbers: true},
    {name: "tables", title: "tables", of: (row) => row.tables, width: 8, numbers: true},
    {name: "shard", title: "shard", of: (row) => row.shard, width: 7, numbers: true},
    {name: "description", title: "description", of: (row) => row.description, width: 30},
    {name: "id", title: "datapath id", of: (row) => row.switch, width: 18},
  ], [names]);
  return (
    <>
      <SearchBar label="switches" one="switch" count={data?.total} problems={rows.filter((row) => switchTrouble(row) !== null).length} />
      <Trouble problem={problem} />
      <Table label="Switches" rows={rows} columns={columns} keyOf={(row) => row.switch} wrong={switchTrouble}
        href={(row) => switchHref(row.switch)} none="No switch has connected yet." />
    </>
  );
}

function own({ports}: SwitchRow) {
  return ports.filter(({kind}) => kind !== null);
}

function up(row: SwitchRow): number {
  return own(row).filter((port) => port.up).length;
}

/** The ports of links that are down: a port does not say where it has led. */
export function useBroken(): ReadonlySet<string> {
  const {data} = useAnswer<MapAnswer>("/v1/map", {live: true, every: SOON});
  return useMemo(() => new Set(data?.links.flatMap(({up, from, to}) => (up ? [] : [from, to])).map(portKey)), [data]);
}

function portKey({switch: id, port}: Place): string {
  return `${id} ${port}`;
}

/** The trouble of a port. */
export function portTrouble(row: PortRow, broken: ReadonlySet<string>): string | null {
  if (broken.has(portKey(row))) {
    return "its link is down";
  }
  const lost = (row.rx_errors ?? 0) + (row.tx_errors ?? 0);
  return lost > 0 ? `${whole(lost)} errors` : null;
}

/** The columns of ports; those of one switch need no switch. */
export function portColumns(names: Names): Column<PortRow>[] {
  // A port has both rates or, before it was counted twice, none.
  const use = ({speed, rx_bits_per_second: rx, tx_bits_per_second: tx}: PortRow) => (
    speed === null || speed === 0 || rx === undefined || tx === undefined ? null : Math.max(rx, tx) / speed);
  return [
    {name: "port", title: "port", of: (row) => names.place(row), width: 14},
    {name: "name", title: "name", of: (row) => row.name, width: 14},
    {name: "state", title: "state", of: (row) => (row.up ? "up" : "down"), width: 7},
    {name: "kind", title: "leads to", of: (row) => row.kind, width: 10},
    {name: "speed", title: "speed", of: (row) => row.speed, show: (row) => bits(row.speed), width: 12, numbers: true},
    {name: "in", title: "in", of: (row) => row.rx_bits_per_second ?? null, show: (row) => bits(row.rx_bits_per_second), width: 12, numbers: true},
    {name: "out", title: "out", of: (row) => row.tx_bits_per_second ?? null, show: (row) => bits(row.tx_bits_per_second), width: 12, numbers: true},
    {name: "use", title: "use", of: use, show: (row) => percent(use(row)), width: 7, numbers: true},
    {name: "dropped", title: "dropped", of: (row) => sum(row.rx_dropped, row.tx_dropped), show: (row) => whole(sum(row.rx_dropped, row.tx_dropped)), width: 9, numbers: true},
    {name: "errors", title: "errors", of: (row) => sum(row.rx_errors, row.tx_errors), show: (row) => whole(sum(row.rx_errors, row.tx_errors)), width: 8, numbers: true},
  ];
}

function sum(a: number | undefined, b: number | undefined): number | null {
  return a === undefined || b === undefined ? null : a + b;
}

function percent(share: number | null): string {
  return share === null ? "" : `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
}

function Ports() {
  const {data, problem} = useAnswer<List<PortRow>>("/v1/ports", {every: SOON});
  const names = useNames();
  const broken = useBroken();
  const wrong = useCallback((row: PortRow) => portTrouble(row, broken), [broken]);
  const rows = data?.rows ?? [];
  const columns = useMemo(() => portColumns(names), [names]);
  return (
    <>
      <SearchBar label="ports" one="port" count={data?.total} problems={rows.filter((row) => wrong(row) !== null).length} />
      <Trouble problem={problem} />
      <Table label="Ports" rows={rows} columns={columns} keyOf={portKey} wrong={wrong}
        href={(row) => switchHref(row.switch)} none="No switch has said its ports yet." />
    </>
  );
}

function linkTrouble(row: MapLink): string | null {
  const share = load(row);
  return !row.up ? "down" : share !== null && share > 0.9 ? "nearly full" : null;
}

function Links() {
  const {data, problem} = useAnswer<MapAnswer>("/v1/map", {live: true, every: SOON});
  const names = useNames();
  useAnswer("/v1/ports?limit=1", {every: COUNTED});
  const rows = data?.links ?? [];
  const columns = useMemo<Column<MapLink>[]>(() => [
    {name: "from", title: "from", of: (row) => names.place(row.from), width: 14},
    {name: "to", title: "to", of: (row) => names.place(row.to), width: 14},
    {name: "state", title: "state", of: (row) => linkTrouble(row) ?? "up", width: 12},
    {name: "rate", title: "rate", of: (row) => row.bits_per_second, show: (row) => bits(row.bits_per_second), width: 12, numbers: true},
    {name: "speed", title: "speed", of: (row) => row.speed, show: (row) => bits(row.speed), width: 12, numbers: true},
    {name: "use", title: "use", of: load, show: (row) => percent(load(row)), width: 8, numbers: true},
  ], [names]);
  return (
    <>
      <SearchBar label="links" one="link" count={data?.links.length} problems={rows.filter((row) => linkTrouble(row) !== null).length} />
      <Trouble problem={problem} />
      <Table label="Links" rows={rows} columns={columns} keyOf={({from, to}) => `${from.switch} ${from.port} ${to.switch} ${to.port}`}
        wrong={linkTrouble} href={(row) => format(["network", "map"], {at: row.from.switch, hops: "1"})} none="No links are known." />
    </>
  );
}

function Hosts() {
  const {data, problem} = useAnswer<List<HostRow>>("/v1/hosts", {live: true, every: SOON});
  const {data: map} = useAnswer<MapAnswer>("/v1/map", {live: true, every: SOON});
  const names = useNames();
  const gone = useMemo(() => new Set(map?.switches.filter((one) => !one.connected).map((one) => one.switch)), [map]);
  const wrong = useCallback((row: HostRow) => (gone.has(row.at.switch) ? "its switch is not connected" : null), [gone]);
  const rows = data?.rows ?? [];
  const columns = useMemo<Column<HostRow>[]>(() => [
    {name: "host", title: "host", of: (row) => names.host(row.mac), width: 19},
    {name: "at", title: "at", of: (row) => names.place(row.at), show: (row) => <a href={switchHref(row.at.switch)}>{names.place(row.at)}</a>, width: 14},
    {name: "ipv4", title: "IPv4", of: (row) => row.ipv4.join(" "), width: 18},
    {name: "ipv6", title: "IPv6", of: (row) => row.ipv6.join(" "), width: 28},
    {name: "mac", title: "hardware address", of: (row) => row.mac, width: 19},
    {name: "switch", title: "switch", of: (row) => names.switch(row.at.switch), width: 14},
  ], [names]);
  return (
    <>
      <SearchBar label="hosts" one="host" count={data?.total} problems={rows.filter((row) => wrong(row) !== null).length} />
      <Trouble problem={problem} />
      <Table label="Hosts" rows={rows} columns={columns} keyOf={(row) => row.mac} wrong={wrong}
        href={(row) => format(["why"], {from: names.host(row.mac)})} none="No host has sent anything yet." />
    </>
  );
}

function Flows() {
  const {data, problem} = useAnswer<List<FlowRow>>("/v1/flows", {every: SOON});
  const {data: hosts} = useAnswer<List<HostRow>>("/v1/hosts", {live: true});
  const examples = useMemo(() => hostsAt(hosts?.rows ?? []), [hosts]);
  const names = useNames();
  // Without hosts the links would lead nowhere.
  const rows = hosts === undefined ? [] : data?.rows ?? [];
  const columns = useMemo<Column<FlowRow>[]>(() => {
    const lines = (row: FlowRow) => row.lines.join(LISTS);
    return [
      {name: "from", title: "from", of: (row) => party(row.from, row.from_at, names), width: 20},
      {name: "to", title: "to", of: (row) => party(row.to, row.to_at, names), width: 20},
      {name: "enters", title: "enters at", of: (row) => names.switch(row.switch), width: 12},
      {name: "rate", title: "rate", of: (row) => row.bits_per_second, show: (row) => bits(row.bits_per_second), width: 13, numbers: true, spare: true},
      {name: "packets", title: "packets", of: (row) => row.packets, show: (row) => whole(row.packets), width: 13, numbers: true},
      {name: "bytes", title: "bytes", of: (row) => row.bytes, show: (row) => whole(row.bytes), width: 15, numbers: true, spare: true},
      {name: "line", title: "decided by", of: lines, show: (row) => <Lines of={row.lines} />, width: 24},
    ];
  }, [names]);
  return (
    <>
      <SearchBar label="flows" one="flow" count={data?.total} />
      <Trouble problem={problem} />
      <Table label="Flows" rows={rows} columns={columns} keyOf={flowKey} href={(row) => flowHref(row, names, examples)} none="No switch has counted traffic yet." />
    </>
  );
}

function flowKey({switch: id, from, from_at, to, to_at}: FlowRow): string {
  return JSON.stringify([id, from, from_at, to, to_at]);
}

function Drops() {
  const {data, problem} = useAnswer<List<DropRow>>("/v1/drops?minutes=15", {every: SOON});
  const names = useNames();
  const rows = data?.rows ?? [];
  const columns = useMemo<Column<DropRow>[]>(() => [
    {name: "line", title: "line", of: (row) => row.line ?? "no source line", show: (row) => (row.line === null ? "no source line" : base(row.line)), width: 24},
    {name: "packets", title: "packets", of: (row) => row.packets, show: (row) => whole(row.packets), width: 10, numbers: true},
    {name: "latest", title: "latest", of: (row) => row.latest, show: (row) => whole(row.latest), width: 9, numbers: true, spare: true},
    {name: "host", title: "host", of: (row) => (row.host === null ? "several hosts" : names.host(row.host)), width: 20},
    {name: "at", title: "at", of: (row) => (row.at === null ? names.switch(row.switch) : names.place(row.at)), width: 12},
    {name: "why", title: "why", of: (row) => names.inText(row.text === null ? row.why : `${row.why}: ${row.text}`), show: (row) => <Lined text={row.text === null ? row.why : `${row.why}: ${row.text}`} />, width: 44},
    {name: "example", title: "such as", of: (row) => (row.example === null ? null : names.inText(row.example)), width: 40},
  ], [names]);
  return (
    <>
      <SearchBar label="kinds of drops in 15 minutes" one="kind of drop in 15 minutes" count={data?.total} />
      <Trouble problem={problem} />
      <Table label="Drops" rows={rows} columns={columns} keyOf={(row) => JSON.stringify([row.switch, row.at, row.host, row.line, row.why])}
        href={(row) => dropHref(row, names)} none="Nothing was dropped in the last 15 minutes." />
    </>
  );
}

/** The line that dropped packets; without one, why such packets are dropped. */
function dropHref({line, host, at}: DropRow, names: Names): string {
  const named = line === null ? null : lineOf(line);
  if (named !== null) {
    return lineHref(named.file, named.line);
  }
  return format(["why"], {from: host === null ? "" : names.host(host), at: at === null ? undefined : names.place(at)});
}

