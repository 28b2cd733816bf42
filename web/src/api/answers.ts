// The answers of the API, made of the schema of answers by tests/python/answer_types.py.

export type Json = null | boolean | number | string | readonly Json[] | {readonly [name: string]: Json};

export type SwitchRowPorts = {
  readonly port: number | string;
  readonly name: string;
  readonly up: boolean;
  readonly kind: "new" | "edge" | "link" | "shared" | "middlebox" | null;
};

export type SwitchRow = {
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
  readonly ports: readonly SwitchRowPorts[];
};

export type PortRow = {
  readonly switch: string;
  readonly port: number | string;
  readonly name: string;
  readonly up: boolean;
  readonly kind: "new" | "edge" | "link" | "shared" | "middlebox" | null;
  readonly speed: number | null;
  readonly rx_packets?: number;
  readonly rx_bytes?: number;
  readonly rx_dropped?: number;
  readonly rx_errors?: number;
  readonly tx_packets?: number;
  readonly tx_bytes?: number;
  readonly tx_dropped?: number;
  readonly tx_errors?: number;
  readonly rx_bits_per_second?: number;
  readonly rx_packets_per_second?: number;
  readonly tx_bits_per_second?: number;
  readonly tx_packets_per_second?: number;
  readonly counted_seconds_ago?: number;
};

export type Place = {
  readonly switch: string;
  readonly port: number | string;
};

export type HostRow = {
  readonly mac: string;
  readonly at: Place;
  readonly ipv4: readonly string[];
  readonly ipv6: readonly string[];
};

export type GroupRow = {
  readonly group: string;
  readonly at: readonly Place[];
};

export type LeaseRow = {
  readonly mac: string;
  readonly ip: string;
  readonly at: Place;
  readonly ends: number | null;
};

export type MapAnswerSwitches = {
  readonly switch: string;
  readonly name: string | null;
  readonly x: number;
  readonly y: number;
  readonly connected: boolean;
  readonly hosts: number;
};

export type MapAnswerLinks = {
  readonly from: Place;
  readonly to: Place;
  readonly bits_per_second: number | null;
  readonly speed: number | null;
  readonly up: boolean;
};

export type MapAnswer = {
  readonly switches: readonly MapAnswerSwitches[];
  readonly links: readonly MapAnswerLinks[];
};

export type NamesAnswerSwitches = {
  readonly switch: string;
  readonly name: string;
};

export type NamesAnswerHosts = {
  readonly mac: string;
  readonly name: string;
};

export type NamesAnswer = {
  readonly switches: readonly NamesAnswerSwitches[];
  readonly hosts: readonly NamesAnswerHosts[];
};

export type Gap = {
  readonly from: number;
  readonly to: number;
  readonly why: "stopped" | "held" | "clock" | "disk" | "room" | "damaged" | "late";
  readonly text: string;
};

export type TimeAnswerRates = {
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
};

export type TimeAnswer = {
  readonly from: number | null;
  readonly to: number | null;
  readonly gaps: readonly Gap[];
  readonly in_files: boolean;
  readonly bytes: number;
  readonly most_bytes: number;
  readonly rates: readonly TimeAnswerRates[];
  readonly recording: string | null;
  readonly trouble: string | null;
};

export type TimeAtSwitches = {
  readonly switch: string;
  readonly name: string | null;
  readonly x: number | null;
  readonly y: number | null;
  readonly connected: boolean;
  readonly hosts: number;
};

export type TimeAtLinks = {
  readonly from: Place;
  readonly to: Place;
};

export type TimeAt = {
  readonly time: number;
  readonly version: number;
  readonly pending: number;
  readonly not_kept: number;
  readonly unseen: number;
  readonly late: boolean;
  readonly replay: string | null;
  readonly switches: readonly TimeAtSwitches[];
  readonly links: readonly TimeAtLinks[];
  readonly hosts: readonly HostRow[];
};

export type TimeChangesSwitches = {
  readonly switch: string;
  readonly how: "added" | "gone" | "connected" | "unreachable";
};

export type PortThen = {
  readonly up: boolean;
  readonly kind: "new" | "edge" | "link" | "shared" | "middlebox";
};

export type TimeChangesPorts = {
  readonly switch: string;
  readonly port: number | string;
  readonly how: "added" | "gone" | "up" | "down" | "changed";
  readonly before: PortThen | null;
  readonly after: PortThen | null;
};

export type TimeChangesLinks = {
  readonly from: Place;
  readonly to: Place;
  readonly how: "added" | "gone";
};

export type TimeChangesHosts = {
  readonly mac: string;
  readonly how: "added" | "gone" | "moved" | "changed";
  readonly before: HostRow | null;
  readonly after: HostRow | null;
};

export type TimeChangesDrops = {
  readonly packets: number;
  readonly switch: string;
  readonly line: string | null;
  readonly why: string;
};

export type LogRow = {
  readonly number: number;
  readonly time: number;
  readonly level: "error" | "warning" | "info" | "debug";
  readonly area: string;
  readonly text: string;
};

export type TimeChanges = {
  readonly from: number;
  readonly to: number;
  readonly gaps: readonly Gap[];
  readonly switches: readonly TimeChangesSwitches[];
  readonly ports: readonly TimeChangesPorts[];
  readonly links: readonly TimeChangesLinks[];
  readonly hosts: readonly TimeChangesHosts[];
  readonly drops: readonly TimeChangesDrops[];
  readonly other_drops: number;
  readonly lines: readonly LogRow[];
  readonly left_out: number;
};

export type RuleRow = {
  readonly switch: string;
  readonly table: number;
  readonly priority: number;
  readonly match: string;
  readonly actions: string;
  readonly cookie: string;
  readonly n_packets: number | null;
  readonly n_bytes: number | null;
  readonly leaf: number | null;
  readonly line: string | null;
  readonly flow: string;
  readonly why: string | null;
};

export type TablesRowTables = {
  readonly table: number;
  readonly rules: number | null;
  readonly most: number | null;
};

export type TablesRowLookUps = {
  readonly look_up: string;
  readonly table: number | null;
  readonly lowered: string | null;
};

export type TablesRow = {
  readonly switch: string;
  readonly tables: readonly TablesRowTables[] | null;
  readonly look_ups: readonly TablesRowLookUps[] | null;
  readonly action_sets: boolean | null;
};

export type TreeRowExplorationOpen = {
  readonly line: string | null;
  readonly what: string;
  readonly count: number;
};

export type TreeRowExploration = {
  readonly complete: boolean;
  readonly current: boolean;
  readonly stopped: string | null;
  readonly open: readonly TreeRowExplorationOpen[];
};

export type TreeRow = {
  readonly switch: string;
  readonly tree: string;
  readonly exploration: TreeRowExploration | null;
};

export type LabelRow = {
  readonly switch: string;
  readonly id: number;
  readonly port: number | string | null;
  readonly stage: "waiting" | "ready" | "quarantined" | "leaving" | "refused";
  readonly holders: number;
  readonly to: readonly Place[];
  readonly refused: string | null;
};

export type FlowRow = {
  readonly switch: string;
  readonly from: string | null;
  readonly from_at: Place | null;
  readonly to: string | null;
  readonly to_at: Place | null;
  readonly packets: number;
  readonly bytes: number;
  readonly bits_per_second: number | null;
  readonly packets_per_second: number | null;
  readonly lines: readonly string[];
  readonly counted_seconds_ago: number;
};

export type DropRow = {
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
  readonly elsewhere: Place | null;
  readonly example: string | null;
};

export type AccessListRowRules = {
  readonly rule: string | null;
  readonly action: "allow" | "deny" | "pass";
  readonly packets: number;
  readonly line: number | null;
  readonly text: string | null;
};

export type AccessListRow = {
  readonly file: string | null;
  readonly rules: readonly AccessListRowRules[];
};

export type PolicyAnswerFilesLines = {
  readonly line: number;
  readonly packets: number;
  readonly rules: number;
  readonly leaves: number;
  readonly drops: number;
  readonly errors: number;
  readonly misses: number;
  readonly runs: number;
  readonly seconds: number;
};

export type PolicyAnswerFiles = {
  readonly file: string;
  readonly text: string | null;
  readonly changed_since: boolean;
  readonly lines: readonly PolicyAnswerFilesLines[];
};

export type PolicyAnswer = {
  readonly policy: string | null;
  readonly version: number;
  readonly files: readonly PolicyAnswerFiles[];
  readonly complete: boolean;
};

export type ExplanationOfRule = {
  readonly switch: string;
  readonly flow: string;
  readonly why: string;
};

export type ExplanationPacket = {
  readonly at: Place;
  readonly from: string | null;
  readonly to: string | null;
  readonly to_at: Place | null;
  readonly summary: string;
  readonly frame: string;
};

export type SourceLine = {
  readonly file: string;
  readonly line: number;
  readonly tier?: string;
  readonly text?: string;
};

export type Written = {
  readonly by: string;
  readonly at: number;
  readonly pid?: number;
  readonly user?: number;
};

export type ExplanationSteps = {
  readonly line: SourceLine | null;
  readonly asked: string;
  readonly answer: string;
  readonly evidence?: string;
  readonly written?: Written | null;
};

export type Exit = {
  readonly at: Place;
  readonly hosts: readonly string[];
  readonly rewrites?: readonly string[];
};

export type ExplanationViolations = {
  readonly constraint: string;
  readonly why: string;
  readonly line: SourceLine | null;
};

export type ExplanationInstead = {
  readonly if: string;
  readonly asked_at: SourceLine | null;
  readonly verdict: string;
  readonly line: SourceLine | null;
};

export type ExplanationLeaf = {
  readonly id: number;
  readonly under_way: string | null;
  readonly specialised_to: readonly string[];
  readonly made_up: boolean;
};

export type ExplanationHopsRules = {
  readonly table: number;
  readonly priority: number;
  readonly match: string;
  readonly actions: string;
  readonly cookie: string;
  readonly n_packets: number | null;
  readonly n_bytes: number | null;
  readonly leaf: number | null;
  readonly why: string;
  readonly foreign: boolean;
};

export type ExplanationHopsOutcomes = {
  readonly port?: number | string;
  readonly controller?: boolean;
  readonly expired?: boolean;
  readonly elsewhere?: string;
};

export type ExplanationHops = {
  readonly at: Place;
  readonly rules: readonly ExplanationHopsRules[];
  readonly missed_in_table: number | null;
  readonly meters: readonly number[];
  readonly outcomes: readonly ExplanationHopsOutcomes[];
};

export type ExplanationLost = {
  readonly at: Place;
  readonly why: string;
};

export type Explanation = {
  readonly of_rule?: ExplanationOfRule;
  readonly packet?: ExplanationPacket;
  readonly verdict?: "forwarded" | "dropped" | "waits" | "failed" | "refused";
  readonly why?: string;
  readonly line?: SourceLine | null;
  readonly route?: string;
  readonly steps?: readonly ExplanationSteps[];
  readonly exits?: readonly Exit[];
  readonly violations?: readonly ExplanationViolations[];
  readonly lasts?: boolean;
  readonly instead?: readonly ExplanationInstead[];
  readonly leaf?: ExplanationLeaf | null;
  readonly hops?: readonly ExplanationHops[];
  readonly arrives?: readonly Exit[];
  readonly lost?: readonly ExplanationLost[];
  readonly has_loop?: boolean;
  readonly asks_controller?: boolean;
  readonly agrees?: boolean | null;
  readonly assumed?: readonly string[];
  readonly changed_files?: readonly string[];
};

export type CopyOfWhatAMasterHasDecided = {
  readonly of: string | null;
  readonly generation: number | null;
  readonly leaves: number | null;
  readonly hosts: number | null;
  readonly rows: number | null;
  readonly left_out: number;
  readonly behind: number | null;
  readonly age: number | null;
  readonly trouble: string | null;
};

export type ClusterAnswer = {
  readonly cluster: string | null;
  readonly name: string | null;
  readonly role: "master" | "standby";
  readonly master: string | null;
  readonly generation: number | null;
  readonly members: readonly string[];
  readonly lease: boolean;
  readonly etcd: readonly string[];
  readonly trouble: string | null;
  readonly closed: string | null;
  readonly connections: number;
  readonly copy: CopyOfWhatAMasterHasDecided | null;
};

export type StepDownAnswer = {
  readonly master: string;
};

export type ControllerAnswerListening = {
  readonly address: string;
  readonly tls: boolean;
};

export type ControllerAnswerPolicyConfigured = {
  readonly name: string;
  readonly hash: string;
};

export type ControllerAnswerPolicy = {
  readonly name: string;
  readonly hash: string;
  readonly since: number;
  readonly by: "start" | "resumption" | "reload" | "apply" | "rollback";
  readonly configured: ControllerAnswerPolicyConfigured;
  readonly canary: string | null;
  readonly on_trial: boolean;
};

export type ControllerAnswerFiles = {
  readonly file: "state" | "recording" | "log" | "switches" | "certificates" | "control-socket" | "tokens" | "timeline";
  readonly path: string;
  readonly fails: string | null;
  readonly since: number | null;
};

export type ControllerAnswer = {
  readonly version: string;
  readonly pid: number;
  readonly shards: number;
  readonly listening: readonly ControllerAnswerListening[];
  readonly policy: ControllerAnswerPolicy | null;
  readonly state_file: string | null;
  readonly certificate_expires: number | null;
  readonly http_certificate_expires: number | null;
  readonly started: number;
  readonly clock_stepped: number;
  readonly files: readonly ControllerAnswerFiles[];
  readonly cluster: ClusterAnswer | null;
};

export type StatsAnswer = {
  readonly connections: number;
  readonly shards: number;
  readonly controller: Readonly<Record<string, number>>;
  readonly engine: Readonly<Record<string, number>>;
  readonly heap_bytes?: number;
};

export type VersionAnswer = {
  readonly maple: string;
  readonly protocol: string;
  readonly state: string;
  readonly leaves: string;
  readonly plan: string;
};

export type DoctorAnswerFindings = {
  readonly id: string;
  readonly level: "error" | "warning" | "note";
  readonly what: string;
  readonly where: string;
  readonly consequence: string;
  readonly mend: string;
  readonly page: string;
};

export type DoctorAnswerNotLookedAt = {
  readonly what: string;
  readonly why: string;
};

export type DoctorAnswer = {
  readonly findings: readonly DoctorAnswerFindings[];
  readonly looked_at: readonly string[];
  readonly not_looked_at: readonly DoctorAnswerNotLookedAt[];
};

export type ErrorRow = {
  readonly time: number;
  readonly text: string;
  readonly packets?: number;
};

export type PastValue = {
  readonly long: true;
};

export type HistoryRow = {
  readonly number: number;
  readonly time: number;
  readonly who: string | null;
  readonly kind: "client" | "process" | "policy" | "thread" | "file" | "snooping" | "signal" | "start" | "controller";
  readonly by: string;
  readonly pid: number | null;
  readonly user: number | null;
  readonly what: "set" | "delete" | "start" | "resumption" | "reload" | "apply" | "canary" | "promote" | "rollback";
  readonly version: number;
  readonly table: string | null;
  readonly var: string | null;
  readonly key: Json | PastValue;
  readonly old: Json | PastValue;
  readonly new: Json | PastValue;
  readonly policy: string | null;
  readonly hash: string | null;
};

export type StateRow1 = {
  readonly table: string;
  readonly key: string | null;
  readonly value: string | null;
  readonly keys: number;
  readonly kept: boolean;
  readonly written: Written | null;
};

export type StateRow2 = {
  readonly var: string;
  readonly value: string | null;
  readonly kept: boolean;
  readonly written: Written | null;
};

export type StateRow = StateRow1 | StateRow2;

export type ValueRow = {
  readonly key?: Json;
  readonly value: Json;
  readonly written: Written | null;
};

export type WriteAnswer = {
  readonly settled: boolean;
  readonly new: boolean;
};

export type LoadAnswer = {
  readonly settled: boolean;
  readonly rows: number;
};

export type ReloadAnswerErrors = {
  readonly text: string;
  readonly packets: number;
};

export type ReloadAnswer = {
  readonly packets: number;
  readonly same: number;
  readonly failed: number;
  readonly errors: readonly ReloadAnswerErrors[];
  readonly seconds: number;
  readonly settled: boolean;
  readonly unconfirmed: string | null;
  readonly warnings: readonly string[];
  readonly restart: readonly string[];
};

export type PlanAnswerErrors = {
  readonly text: string;
  readonly packets: number;
};

export type PlanAnswerCounts = {
  readonly loses?: number;
  readonly gains?: number;
  readonly goes_elsewhere?: number;
  readonly moves?: number;
  readonly treated_otherwise?: number;
  readonly waits?: number;
  readonly fails?: number;
};

export type Decision = {
  readonly route: string;
  readonly exits: readonly Place[];
  readonly lines: string;
};

export type Difference = {
  readonly kind: "loses" | "gains" | "goes_elsewhere" | "moves" | "treated_otherwise" | "waits" | "fails";
  readonly at: Place;
  readonly from: string;
  readonly to: string;
  readonly packet: string;
  readonly made_up: boolean;
  readonly before: Decision;
  readonly after: Decision;
};

export type RuleOfAPlan = {
  readonly flow: string;
  readonly why: string;
};

export type PlanAnswerRulesChange = {
  readonly before: RuleOfAPlan;
  readonly after: RuleOfAPlan;
};

export type PlanAnswerRules = {
  readonly switch: string;
  readonly add: readonly RuleOfAPlan[];
  readonly change: readonly PlanAnswerRulesChange[];
  readonly delete: readonly RuleOfAPlan[];
};

export type SideOfAList = {
  readonly action: "allow" | "deny" | "pass";
  readonly rule: string;
};

export type DifferenceOfLists = {
  readonly packets: string;
  readonly cubes: number;
  readonly old: SideOfAList;
  readonly new: SideOfAList;
};

export type PlanAnswerLists = {
  readonly file: string;
  readonly differences: readonly DifferenceOfLists[];
  readonly complete: boolean;
};

export type PlanAnswer = {
  readonly format: 1;
  readonly policy: string;
  readonly sources: string;
  readonly changes: string;
  readonly decided: readonly string[];
  readonly packets: number;
  readonly same: number;
  readonly failed: number;
  readonly errors: readonly PlanAnswerErrors[];
  readonly counts: PlanAnswerCounts;
  readonly differences: readonly Difference[];
  readonly rules: readonly PlanAnswerRules[];
  readonly lists: readonly PlanAnswerLists[];
  readonly warnings: readonly string[];
};
