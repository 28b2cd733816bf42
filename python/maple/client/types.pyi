"""The types of answers, made of the schema of answers by tests/python/answer_types.py.

Only for checkers of types: `if TYPE_CHECKING: from maple.client.types import SwitchRow`.
"""

from typing import Any, Literal, TypeAlias

from typing_extensions import NotRequired, TypedDict

class SwitchRowPorts(TypedDict):
    port: int | str
    name: str
    up: bool
    kind: Literal["new", "edge", "link", "shared", "middlebox", None]

class SwitchRow(TypedDict):
    switch: str
    peer: str | None
    unreachable: float | None
    silent: bool
    version: str
    description: str
    tables: int
    bundles: bool
    shard: int
    waiting_bytes: int
    ports: list[SwitchRowPorts]

class PortRow(TypedDict):
    switch: str
    port: int | str
    name: str
    up: bool
    kind: Literal["new", "edge", "link", "shared", "middlebox", None]
    speed: int | None
    rx_packets: NotRequired[int]
    rx_bytes: NotRequired[int]
    rx_dropped: NotRequired[int]
    rx_errors: NotRequired[int]
    tx_packets: NotRequired[int]
    tx_bytes: NotRequired[int]
    tx_dropped: NotRequired[int]
    tx_errors: NotRequired[int]
    rx_bits_per_second: NotRequired[float]
    rx_packets_per_second: NotRequired[float]
    tx_bits_per_second: NotRequired[float]
    tx_packets_per_second: NotRequired[float]
    counted_seconds_ago: NotRequired[float]

class Place(TypedDict):
    switch: str
    port: int | str

class HostRow(TypedDict):
    mac: str
    at: Place
    ipv4: list[str]
    ipv6: list[str]

class GroupRow(TypedDict):
    group: str
    at: list[Place]

class LeaseRow(TypedDict):
    mac: str
    ip: str
    at: Place
    ends: int | None

class MapAnswerSwitches(TypedDict):
    switch: str
    name: str | None
    x: float
    y: float
    connected: bool
    hosts: int

MapAnswerLinks = TypedDict(
    "MapAnswerLinks",
    {
        "from": Place,
        "to": Place,
        "bits_per_second": float | None,
        "speed": int | None,
        "up": bool,
    },
)

class MapAnswer(TypedDict):
    switches: list[MapAnswerSwitches]
    links: list[MapAnswerLinks]

class NamesAnswerSwitches(TypedDict):
    switch: str
    name: str

class NamesAnswerHosts(TypedDict):
    mac: str
    name: str

class NamesAnswer(TypedDict):
    switches: list[NamesAnswerSwitches]
    hosts: list[NamesAnswerHosts]

Gap = TypedDict(
    "Gap",
    {
        "from": int,
        "to": int,
        "why": Literal["stopped", "held", "clock", "disk", "room", "damaged", "late"],
        "text": str,
    },
)

class TimeAnswerRates(TypedDict):
    time: int
    seconds: float
    switches: int
    links: int
    hosts: int
    changes: int
    pending: int
    left_out: int
    packet_ins_per_second: float | None
    decisions_per_second: float | None
    flow_mods_per_second: float | None
    failures_per_second: float | None

TimeAnswer = TypedDict(
    "TimeAnswer",
    {
        "from": int | None,
        "to": int | None,
        "gaps": list[Gap],
        "in_files": bool,
        "bytes": int,
        "most_bytes": int,
        "rates": list[TimeAnswerRates],
        "recording": str | None,
        "trouble": str | None,
    },
)

class TimeAtSwitches(TypedDict):
    switch: str
    name: str | None
    x: float | None
    y: float | None
    connected: bool
    hosts: int

TimeAtLinks = TypedDict(
    "TimeAtLinks",
    {
        "from": Place,
        "to": Place,
    },
)

class TimeAt(TypedDict):
    time: int
    version: int
    pending: int
    not_kept: int
    unseen: int
    late: bool
    replay: str | None
    switches: list[TimeAtSwitches]
    links: list[TimeAtLinks]
    hosts: list[HostRow]

class TimeChangesSwitches(TypedDict):
    switch: str
    how: Literal["added", "gone", "connected", "unreachable"]

class PortThen(TypedDict):
    up: bool
    kind: Literal["new", "edge", "link", "shared", "middlebox"]

class TimeChangesPorts(TypedDict):
    switch: str
    port: int | str
    how: Literal["added", "gone", "up", "down", "changed"]
    before: PortThen | None
    after: PortThen | None

TimeChangesLinks = TypedDict(
    "TimeChangesLinks",
    {
        "from": Place,
        "to": Place,
        "how": Literal["added", "gone"],
    },
)

class TimeChangesHosts(TypedDict):
    mac: str
    how: Literal["added", "gone", "moved", "changed"]
    before: HostRow | None
    after: HostRow | None

class TimeChangesDrops(TypedDict):
    packets: int
    switch: str
    line: str | None
    why: str

class LogRow(TypedDict):
    number: int
    time: int
    level: Literal["error", "warning", "info", "debug"]
    area: str
    text: str

TimeChanges = TypedDict(
    "TimeChanges",
    {
        "from": int,
        "to": int,
        "gaps": list[Gap],
        "switches": list[TimeChangesSwitches],
        "ports": list[TimeChangesPorts],
        "links": list[TimeChangesLinks],
        "hosts": list[TimeChangesHosts],
        "drops": list[TimeChangesDrops],
        "other_drops": int,
        "lines": list[LogRow],
        "left_out": int,
    },
)

class RuleRow(TypedDict):
    switch: str
    table: int
    priority: int
    match: str
    actions: str
    cookie: str
    n_packets: int | None
    n_bytes: int | None
    leaf: int | None
    line: str | None
    flow: str
    why: str | None

class TablesRowTables(TypedDict):
    table: int
    rules: int | None
    most: int | None

class TablesRowLookUps(TypedDict):
    look_up: str
    table: int | None
    lowered: str | None

class TablesRow(TypedDict):
    switch: str
    tables: list[TablesRowTables] | None
    look_ups: list[TablesRowLookUps] | None
    action_sets: bool | None

class TreeRowExplorationOpen(TypedDict):
    line: str | None
    what: str
    count: int

class TreeRowExploration(TypedDict):
    complete: bool
    current: bool
    stopped: str | None
    open: list[TreeRowExplorationOpen]

class TreeRow(TypedDict):
    switch: str
    tree: str
    exploration: TreeRowExploration | None

class LabelRow(TypedDict):
    switch: str
    id: int
    port: int | str | None
    stage: Literal["waiting", "ready", "quarantined", "leaving", "refused"]
    holders: int
    to: list[Place]
    refused: str | None

FlowRow = TypedDict(
    "FlowRow",
    {
        "switch": str,
        "from": str | None,
        "from_at": Place | None,
        "to": str | None,
        "to_at": Place | None,
        "packets": int,
        "bytes": int,
        "bits_per_second": float | None,
        "packets_per_second": float | None,
        "lines": list[str],
        "counted_seconds_ago": float,
    },
)

class DropRow(TypedDict):
    packets: int
    latest: int
    switch: str
    at: Place | None
    host: str | None
    host_at: Place | None
    line: str | None
    text: str | None
    constraint: str | None
    why: str
    elsewhere: Place | None
    example: str | None

class AccessListRowRules(TypedDict):
    rule: str | None
    action: Literal["allow", "deny", "pass"]
    packets: int
    line: int | None
    text: str | None

class AccessListRow(TypedDict):
    file: str | None
    rules: list[AccessListRowRules]

class PolicyAnswerFilesLines(TypedDict):
    line: int
    packets: int
    rules: int
    leaves: int
    drops: int
    errors: int
    misses: int
    runs: int
    seconds: float

class PolicyAnswerFiles(TypedDict):
    file: str
    text: str | None
    changed_since: bool
    lines: list[PolicyAnswerFilesLines]

class PolicyAnswer(TypedDict):
    policy: str | None
    version: int
    files: list[PolicyAnswerFiles]
    complete: bool

class ExplanationOfRule(TypedDict):
    switch: str
    flow: str
    why: str

ExplanationPacket = TypedDict(
    "ExplanationPacket",
    {
        "at": Place,
        "from": str | None,
        "to": str | None,
        "to_at": Place | None,
        "summary": str,
        "frame": str,
    },
)

class SourceLine(TypedDict):
    file: str
    line: int
    tier: NotRequired[str]
    text: NotRequired[str]

class Written(TypedDict):
    by: str
    at: int
    pid: NotRequired[int]
    user: NotRequired[int]

class ExplanationSteps(TypedDict):
    line: SourceLine | None
    asked: str
    answer: str
    evidence: NotRequired[str]
    written: NotRequired[Written | None]

class Exit(TypedDict):
    at: Place
    hosts: list[str]
    rewrites: NotRequired[list[str]]

class ExplanationViolations(TypedDict):
    constraint: str
    why: str
    line: SourceLine | None

ExplanationInstead = TypedDict(
    "ExplanationInstead",
    {
        "if": str,
        "asked_at": SourceLine | None,
        "verdict": str,
        "line": SourceLine | None,
    },
)

class ExplanationLeaf(TypedDict):
    id: int
    under_way: str | None
    specialised_to: list[str]
    made_up: bool

class ExplanationHopsRules(TypedDict):
    table: int
    priority: int
    match: str
    actions: str
    cookie: str
    n_packets: int | None
    n_bytes: int | None
    leaf: int | None
    why: str
    foreign: bool

class ExplanationHopsOutcomes(TypedDict):
    port: NotRequired[int | str]
    controller: NotRequired[bool]
    expired: NotRequired[bool]
    elsewhere: NotRequired[str]

class ExplanationHops(TypedDict):
    at: Place
    rules: list[ExplanationHopsRules]
    missed_in_table: int | None
    meters: list[int]
    outcomes: list[ExplanationHopsOutcomes]

class ExplanationLost(TypedDict):
    at: Place
    why: str

class Explanation(TypedDict):
    of_rule: NotRequired[ExplanationOfRule]
    packet: NotRequired[ExplanationPacket]
    verdict: NotRequired[Literal["forwarded", "dropped", "waits", "failed", "refused"]]
    why: NotRequired[str]
    line: NotRequired[SourceLine | None]
    route: NotRequired[str]
    steps: NotRequired[list[ExplanationSteps]]
    exits: NotRequired[list[Exit]]
    violations: NotRequired[list[ExplanationViolations]]
    lasts: NotRequired[bool]
    instead: NotRequired[list[ExplanationInstead]]
    leaf: NotRequired[ExplanationLeaf | None]
    hops: NotRequired[list[ExplanationHops]]
    arrives: NotRequired[list[Exit]]
    lost: NotRequired[list[ExplanationLost]]
    has_loop: NotRequired[bool]
    asks_controller: NotRequired[bool]
    agrees: NotRequired[bool | None]
    assumed: NotRequired[list[str]]
    changed_files: NotRequired[list[str]]

class CopyOfWhatAMasterHasDecided(TypedDict):
    of: str | None
    generation: int | None
    leaves: int | None
    hosts: int | None
    rows: int | None
    left_out: int
    behind: int | None
    age: float | None
    trouble: str | None

class ClusterAnswer(TypedDict):
    cluster: str | None
    name: str | None
    role: Literal["master", "standby"]
    master: str | None
    generation: int | None
    members: list[str]
    lease: bool
    etcd: list[str]
    trouble: str | None
    closed: str | None
    connections: int
    copy: CopyOfWhatAMasterHasDecided | None

class StepDownAnswer(TypedDict):
    master: str

class ControllerAnswerListening(TypedDict):
    address: str
    tls: bool

class ControllerAnswerPolicyConfigured(TypedDict):
    name: str
    hash: str

class ControllerAnswerPolicy(TypedDict):
    name: str
    hash: str
    since: int
    by: Literal["start", "resumption", "reload", "apply", "rollback"]
    configured: ControllerAnswerPolicyConfigured
    canary: str | None
    on_trial: bool

class ControllerAnswerFiles(TypedDict):
    file: Literal["state", "recording", "log", "switches", "certificates", "control-socket", "tokens", "timeline"]
    path: str
    fails: str | None
    since: int | None

class ControllerAnswer(TypedDict):
    version: str
    pid: int
    shards: int
    listening: list[ControllerAnswerListening]
    policy: ControllerAnswerPolicy | None
    state_file: str | None
    certificate_expires: int | None
    http_certificate_expires: int | None
    started: int
    clock_stepped: float
    files: list[ControllerAnswerFiles]
    cluster: ClusterAnswer | None

class StatsAnswer(TypedDict):
    connections: int
    shards: int
    controller: dict[str, int]
    engine: dict[str, int]
    heap_bytes: NotRequired[int]

class VersionAnswer(TypedDict):
    maple: str
    protocol: str
    state: str
    leaves: str
    plan: str

class DoctorAnswerFindings(TypedDict):
    id: str
    level: Literal["error", "warning", "note"]
    what: str
    where: str
    consequence: str
    mend: str
    page: str

class DoctorAnswerNotLookedAt(TypedDict):
    what: str
    why: str

class DoctorAnswer(TypedDict):
    findings: list[DoctorAnswerFindings]
    looked_at: list[str]
    not_looked_at: list[DoctorAnswerNotLookedAt]

class ErrorRow(TypedDict):
    time: int
    text: str
    packets: NotRequired[int]

class PastValue(TypedDict):
    long: Literal[True]

class HistoryRow(TypedDict):
    number: int
    time: int
    who: str | None
    kind: Literal["client", "process", "policy", "thread", "file", "snooping", "signal", "start", "controller"]
    by: str
    pid: int | None
    user: int | None
    what: Literal["set", "delete", "start", "resumption", "reload", "apply", "canary", "promote", "rollback"]
    version: int
    table: str | None
    var: str | None
    key: Any | PastValue
    old: Any | PastValue
    new: Any | PastValue
    policy: str | None
    hash: str | None

class StateRow1(TypedDict):
    table: str
    key: str | None
    value: str | None
    keys: int
    kept: bool
    written: Written | None

class StateRow2(TypedDict):
    var: str
    value: str | None
    kept: bool
    written: Written | None

StateRow: TypeAlias = StateRow1 | StateRow2

class ValueRow(TypedDict):
    key: NotRequired[Any]
    value: Any
    written: Written | None

class WriteAnswer(TypedDict):
    settled: bool
    new: bool

class LoadAnswer(TypedDict):
    settled: bool
    rows: int

class ReloadAnswerErrors(TypedDict):
    text: str
    packets: int

class ReloadAnswer(TypedDict):
    packets: int
    same: int
    failed: int
    errors: list[ReloadAnswerErrors]
    seconds: float
    settled: bool
    unconfirmed: str | None
    warnings: list[str]
    restart: list[str]

class PlanAnswerErrors(TypedDict):
    text: str
    packets: int

class PlanAnswerCounts(TypedDict):
    loses: NotRequired[int]
    gains: NotRequired[int]
    goes_elsewhere: NotRequired[int]
    moves: NotRequired[int]
    treated_otherwise: NotRequired[int]
    waits: NotRequired[int]
    fails: NotRequired[int]

class Decision(TypedDict):
    route: str
    exits: list[Place]
    lines: str

Difference = TypedDict(
    "Difference",
    {
        "kind": Literal["loses", "gains", "goes_elsewhere", "moves", "treated_otherwise", "waits", "fails"],
        "at": Place,
        "from": str,
        "to": str,
        "packet": str,
        "made_up": bool,
        "before": Decision,
        "after": Decision,
    },
)

class RuleOfAPlan(TypedDict):
    flow: str
    why: str

class PlanAnswerRulesChange(TypedDict):
    before: RuleOfAPlan
    after: RuleOfAPlan

class PlanAnswerRules(TypedDict):
    switch: str
    add: list[RuleOfAPlan]
    change: list[PlanAnswerRulesChange]
    delete: list[RuleOfAPlan]

class SideOfAList(TypedDict):
    action: Literal["allow", "deny", "pass"]
    rule: str

class DifferenceOfLists(TypedDict):
    packets: str
    cubes: int
    old: SideOfAList
    new: SideOfAList

class PlanAnswerLists(TypedDict):
    file: str
    differences: list[DifferenceOfLists]
    complete: bool

class PlanAnswer(TypedDict):
    format: Literal[1]
    policy: str
    sources: str
    changes: str
    decided: list[str]
    packets: int
    same: int
    failed: int
    errors: list[PlanAnswerErrors]
    counts: PlanAnswerCounts
    differences: list[Difference]
    rules: list[PlanAnswerRules]
    lists: list[PlanAnswerLists]
    warnings: list[str]
