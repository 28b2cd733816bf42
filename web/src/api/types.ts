// The answers of the API, as far as the page shows them; /v1/openapi.json describes them whole.

export interface List<T> {
  readonly rows: readonly T[];
  readonly total: number;
}

export type PortNo = number | string;

export interface Place {
  readonly switch: string;
  readonly port: PortNo;
}

export interface SwitchRow {
  readonly switch: string;
  readonly peer: string | null;
  readonly unreachable: number | null;
  readonly silent: boolean;
  readonly version: string;
  readonly description: string;
  readonly tables: number;
  readonly bundles: boolean;
  readonly shard: number;
  readonly waiting_bytes: number;
  readonly ports: readonly {readonly port: PortNo; readonly name: string; readonly up: boolean; readonly kind: PortKind}[];
}

export type PortKind = "new" | "edge" | "link" | "shared" | "middlebox" | null;

export interface PortRow extends Place {
  readonly name: string;
  readonly up: boolean;
  readonly kind: PortKind;
  readonly speed: number | null;
  readonly rx_dropped?: number;
  readonly rx_errors?: number;
  readonly tx_dropped?: number;
  readonly tx_errors?: number;
  readonly rx_bits_per_second?: number;
  readonly tx_bits_per_second?: number;
  readonly rx_packets_per_second?: number;
  readonly tx_packets_per_second?: number;
  readonly counted_seconds_ago?: number;
}

export interface HostRow {
  readonly mac: string;
  readonly at: Place;
  readonly ipv4: readonly string[];
  readonly ipv6: readonly string[];
}

export interface NamesAnswer {
  readonly switches: readonly {readonly switch: string; readonly name: string}[];
  readonly hosts: readonly {readonly mac: string; readonly name: string}[];
}

export interface RuleRow {
  readonly switch: string;
  readonly table: number;
  readonly priority: number;
  readonly match: string;
  readonly actions: string;
  readonly cookie: string;
  readonly n_packets: number | null;
  readonly n_bytes: number | null;
  readonly leaf: number | null;
  /** The line that decided it. */
  readonly line: string | null;
  readonly why: string | null;
}

export interface FlowRow {
  readonly switch: string;
  readonly from: string | null;
  readonly from_at: Place | null;
  readonly to: string | null;
  readonly to_at: Place | null;
  readonly packets: number;
  readonly bytes: number;
  readonly bits_per_second: number | null;
  readonly packets_per_second: number | null;
  /** The lines of the policy that decided it. */
  readonly lines: readonly string[];
}

export interface DropRow {
  readonly packets: number;
  readonly latest: number;
  readonly switch: string;
  readonly at: Place | null;
  readonly host: string | null;
  readonly host_at: Place | null;
  readonly line: string | null;
  readonly text: string | null;
  readonly constraint: string | null;
  readonly why: string;
  readonly example: string | null;
}

export interface ErrorRow {
  readonly time: number;
  readonly text: string;
  readonly packets?: number;
}

export interface MapAnswer {
  readonly switches: readonly MapSwitch[];
  readonly links: readonly MapLink[];
}

export interface MapSwitch {
  readonly switch: string;
  readonly name: string | null;
  readonly x: number;
  readonly y: number;
  readonly connected: boolean;
  readonly hosts: number;
}

export interface MapLink {
  readonly from: Place;
  readonly to: Place;
  readonly bits_per_second: number | null;
  readonly speed: number | null;
  readonly up: boolean;
}

export interface PolicyAnswer {
  readonly policy: string | null;
  /** When it was loaded, in milliseconds since 1970. */
  readonly version: number;
  readonly files: readonly PolicyFile[];
  /** Whether these are all files and lines. */
  readonly complete: boolean;
}

export interface PolicyFile {
  readonly file: string;
  readonly text: string | null;
  readonly changed_since: boolean;
  readonly lines: readonly LineHeat[];
}

export interface LineHeat {
  readonly line: number;
  readonly packets: number;
  readonly rules: number;
  readonly leaves: number;
  readonly drops: number;
  readonly errors: number;
  readonly misses: number;
  readonly runs: number;
  readonly seconds: number;
}

export interface SourceLine {
  readonly file: string;
  readonly line: number;
  readonly tier?: string;
  readonly text?: string;
}

export interface Written {
  readonly by: string;
  readonly at: number;
  readonly pid?: number;
  readonly user?: number;
}

export interface Explanation {
  readonly of_rule?: {readonly switch: string; readonly flow: string; readonly why: string};
  readonly packet?: {
    readonly at: Place;
    readonly from: string | null;
    readonly to: string | null;
    readonly to_at: Place | null;
    readonly summary: string;
    readonly frame: string;
  };
  readonly verdict?: "forwarded" | "dropped" | "waits" | "failed" | "refused";
  readonly why?: string;
  readonly line?: SourceLine | null;
  readonly route?: string;
  readonly steps?: readonly {
    readonly line: SourceLine | null;
    readonly asked: string;
    readonly answer: string;
    readonly evidence?: string;
    readonly written?: Written | null;
  }[];
  readonly exits?: readonly Exit[];
  readonly violations?: readonly {readonly constraint: string; readonly why: string; readonly line: SourceLine | null}[];
  readonly lasts?: boolean;
  readonly instead?: readonly {
    readonly if: string;
    readonly asked_at: SourceLine | null;
    readonly verdict: string;
    readonly line: SourceLine | null;
  }[];
  readonly leaf?: {readonly id: number; readonly under_way: string | null; readonly specialised_to: readonly string[]; readonly made_up: boolean} | null;
  readonly hops?: readonly {
    readonly at: Place;
    readonly rules: readonly (Omit<RuleRow, "switch" | "line" | "why"> & {readonly why: string; readonly foreign: boolean})[];
    readonly missed_in_table: number | null;
    readonly meters: readonly number[];
    readonly outcomes: readonly {
      readonly port?: PortNo;
      readonly controller?: boolean;
      readonly expired?: boolean;
      readonly elsewhere?: string;
    }[];
  }[];
  readonly arrives?: readonly Exit[];
  readonly lost?: readonly {readonly at: Place; readonly why: string}[];
  readonly has_loop?: boolean;
  readonly asks_controller?: boolean;
  readonly agrees?: boolean | null;
  readonly assumed?: readonly string[];
  readonly changed_files?: readonly string[];
}

export interface Exit {
  readonly at: Place;
  readonly hosts: readonly string[];
  readonly rewrites?: readonly string[];
}

export interface TreeRow {
  readonly switch: string;
  readonly tree: string;
  readonly exploration: {
    readonly complete: boolean;
    readonly current: boolean;
    readonly stopped: string | null;
    readonly open: readonly {readonly line: string | null; readonly what: string; readonly count: number}[];
  } | null;
}

export interface TablesRow {
  readonly switch: string;
  readonly tables: readonly {readonly table: number; readonly rules: number | null; readonly most: number | null}[] | null;
  readonly look_ups: readonly {readonly look_up: string; readonly table: number | null; readonly lowered: string | null}[] | null;
}

export interface ControllerAnswer {
  readonly version: string;
  readonly pid: number;
  readonly shards: number;
  readonly listening: readonly {readonly address: string; readonly tls: boolean}[];
  readonly policy: {
    readonly name: string;
    readonly hash: string;
    readonly since: number;
    readonly by: string;
    readonly configured: {readonly name: string; readonly hash: string};
    readonly canary: string | null;
    readonly on_trial: boolean;
  } | null;
  readonly state_file: string | null;
  readonly certificate_expires: number | null;
  readonly http_certificate_expires: number | null;
  readonly started: number;
  readonly files: readonly {readonly file: string; readonly path: string; readonly fails: string | null; readonly since: number | null}[];
}

export interface DoctorAnswer {
  readonly findings: readonly Finding[];
  readonly looked_at: readonly string[];
  readonly not_looked_at: readonly {readonly what: string; readonly why: string}[];
}

export interface Finding {
  readonly id: string;
  readonly level: "error" | "warning" | "note";
  readonly what: string;
  readonly where: string;
  readonly consequence: string;
  readonly mend: string;
  readonly page: string;
}

export interface StatsAnswer {
  readonly connections: number;
  readonly shards: number;
  readonly controller: Readonly<Record<string, number>>;
  readonly engine: Readonly<Record<string, number>>;
  readonly heap_bytes?: number;
}

export type Json = null | boolean | number | string | readonly Json[] | {readonly [name: string]: Json};

export interface StateRow {
  readonly table?: string;
  readonly var?: string;
  readonly key?: string | null;
  readonly value: string | null;
  readonly keys?: number;
  readonly kept: boolean;
  readonly written: Written | null;
}

export interface ValueRow {
  readonly key?: Json;
  readonly value: Json;
  readonly written: Written | null;
}

/** A value of a change, or that it is too long to be kept. */
export type PastValue = Json | {readonly long: true};

/** A change of the policy, or of a table or variable. */
export interface PastChange {
  readonly number: number;
  readonly time: number;
  readonly who: string | null;
  readonly kind: string;
  readonly by: string;
  readonly what: string;
  readonly version: number;
  readonly table: string | null;
  readonly var: string | null;
  readonly key: PastValue;
  readonly old: PastValue;
  readonly new: PastValue;
  readonly policy: string | null;
  readonly hash: string | null;
}

export interface Reloaded {
  readonly packets: number;
  readonly same: number;
  readonly failed: number;
  readonly errors: readonly {readonly text: string; readonly packets: number}[];
  readonly seconds: number;
  readonly settled: boolean;
  readonly unconfirmed: string | null;
  readonly warnings: readonly string[];
  readonly restart: readonly string[];
}

export interface PlanDecision {
  readonly route: string;
  readonly exits: readonly Place[];
  readonly lines: string;
}

export interface PlanRule {
  readonly flow: string;
  readonly why: string;
}

export interface Plan {
  readonly policy: string;
  readonly sources: string;
  readonly changes: string;
  readonly decided: readonly string[];
  readonly packets: number;
  readonly same: number;
  readonly failed: number;
  readonly errors: readonly {readonly text: string; readonly packets: number}[];
  readonly counts: Readonly<Record<string, number>>;
  readonly differences: readonly {
    readonly kind: string;
    readonly at: Place;
    readonly from: string;
    readonly to: string;
    readonly packet: string;
    readonly made_up: boolean;
    readonly before: PlanDecision;
    readonly after: PlanDecision;
  }[];
  readonly rules: readonly {
    readonly switch: string;
    readonly add: readonly PlanRule[];
    readonly change: readonly {readonly before: PlanRule; readonly after: PlanRule}[];
    readonly delete: readonly PlanRule[];
  }[];
  readonly lists: readonly {
    readonly file: string;
    readonly complete: boolean;
    readonly differences: readonly {
      readonly packets: string;
      readonly cubes: number;
      readonly old: {readonly action: string; readonly rule: string};
      readonly new: {readonly action: string; readonly rule: string};
    }[];
  }[];
  readonly warnings: readonly string[];
}

/** A time of which not everything is kept, and why: as a name, and in words. */
export interface Gap {
  readonly from: number;
  readonly to: number;
  readonly why: string;
  readonly text: string;
}

export interface TimeAnswer {
  readonly from: number | null;
  readonly to: number | null;
  readonly gaps: readonly Gap[];
  readonly in_files: boolean;
  readonly bytes: number;
  readonly most_bytes: number;
  readonly rates: readonly TimeRates[];
  readonly recording: string | null;
  readonly trouble: string | null;
}

export interface TimeRates {
  readonly time: number;
  readonly seconds: number;
  readonly switches: number;
  readonly links: number;
  readonly hosts: number;
  readonly changes: number;
  readonly pending: number;
  readonly left_out: number;
  readonly packet_ins_per_second: number | null;
  readonly decisions_per_second: number | null;
  readonly flow_mods_per_second: number | null;
  readonly failures_per_second: number | null;
}

export interface TimeAt {
  readonly time: number;
  readonly version: number;
  readonly pending: number;
  readonly not_kept: number;
  readonly unseen: number;
  readonly late: boolean;
  readonly replay: string | null;
  readonly switches: readonly TimeSwitch[];
  readonly links: readonly {readonly from: Place; readonly to: Place}[];
  readonly hosts: readonly HostRow[];
}

export interface TimeSwitch {
  readonly switch: string;
  readonly name: string | null;
  readonly x: number | null;
  readonly y: number | null;
  readonly connected: boolean;
  readonly hosts: number;
}

interface PortThen {
  readonly up: boolean;
  readonly kind: string;
}

export interface TimeChanges {
  readonly from: number;
  readonly to: number;
  readonly gaps: readonly Gap[];
  readonly switches: readonly {readonly switch: string; readonly how: string}[];
  readonly ports: readonly (Place & {readonly how: string; readonly before: PortThen | null; readonly after: PortThen | null})[];
  readonly links: readonly {readonly from: Place; readonly to: Place; readonly how: string}[];
  readonly hosts: readonly {readonly mac: string; readonly how: string; readonly before: HostRow | null; readonly after: HostRow | null}[];
  readonly drops: readonly {readonly packets: number; readonly switch: string; readonly line: string | null; readonly why: string}[];
  readonly other_drops: number;
  readonly lines: readonly LogRow[];
  readonly left_out: number;
}

export interface LogRow {
  readonly number: number;
  readonly time: number;
  readonly level: string;
  readonly area: string;
  readonly text: string;
}
