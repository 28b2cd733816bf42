// The policy: its source with what each line does in the network, and what it has decided at a switch.
import {useEffect, useMemo, useRef} from "preact/hooks";

import {address, choose, format} from "../address";
import {useAnswer} from "../api/resource";
import type {DropRow, ErrorRow, FlowRow, HostRow, LineHeat, List, PolicyAnswer, PolicyFile, RuleRow, SwitchRow} from "../api/types";
import {type Names, useNames} from "../names";
import {chosen, Lined, Section, Tabs, title, Trouble} from "../parts";
import {base, bits, fileOf, lineOf, linesIn, moment, took, whole} from "../text";
import {useSeen} from "../table/seen";
import {exactly, windowOf} from "../table/rows";
import {Code} from "./code";
import {heat} from "./source";
import {flowHref, hostsAt, party, switchHref} from "./links";
import {Others, packets, RuleList} from "./rules";
import {Tree} from "./tree";

/** The time between two readings of counts: the controller asks the switches for them. */
const EVERY = 10_000;
/** The height of a line, in pixels: as in the style sheet. */
const LINE = 20;
/** The maximum number of rules of a line that are listed. */
const LISTED = 200;

/** A count of a line. */
const MEASURES = ["packets", "misses", "seconds", "errors", "drops", "rules", "leaves"] as const;
type Measure = (typeof MEASURES)[number];
/** The names of the counts, and what they mean. */
const TITLES: Readonly<Record<Measure, readonly [title: string, means: string]>> = {
  packets: ["packets", "what the rules of decisions that rest on the line have counted"],
  misses: ["misses", "packets that came to the controller and were decided by a run that ended here"],
  seconds: ["time", "how long all runs that ended here took together"],
  errors: ["errors", "packets that were dropped because the policy failed here"],
  drops: ["drops", "packets that the line dropped in the last 15 minutes"],
  rules: ["rules", "the rules of decisions that rest on the line"],
  leaves: ["decisions", "the decisions in whose run the line asked something, or made the route"],
};

/** Shows the source, or the decisions of a switch. */
export function PolicyView() {
  const tab = address.value.path[1] === "decisions" ? "decisions" : "source";
  title("Policy");
  return (
    <div class="view">
      <h1 class="unseen">Policy</h1>
      <Tabs label="Policy" at={tab} tabs={[["source", "source", format(["policy"])], ["decisions", "decisions of a switch", format(["policy", "decisions"])]]} />
      {tab === "source" ? <Source /> : <Decisions />}
    </div>
  );
}

function Source() {
  const {data, problem} = useAnswer<PolicyAnswer>("/v1/policy", {every: EVERY});
  const files = data?.files ?? [];
  const wished = chosen("file");
  const file = wished === "" ? files[0] : fileOf(files, wished);
  const line = Number(chosen("line")) || null;
  const measures = MEASURES.filter((measure) => file?.lines.some((one) => (one[measure] ?? 0) > 0));
  const measure = measures.find((name) => name === chosen("heat")) ?? measures[0] ?? "packets";
  return (
    <>
      <div class="bar">
        {files.length > 1 && (
          <label>file <select value={file?.file} onChange={(event) => choose({file: event.currentTarget.value, line: undefined})}>
            {files.map((one) => <option key={one.file} value={one.file}>{base(one.file)}</option>)}
          </select></label>
        )}
        <label>colour by <select value={measure} onChange={(event) => choose({heat: event.currentTarget.value})}>
          {(measures.length > 0 ? measures : ["packets" as const]).map((name) => <option key={name} value={name}>{TITLES[name][0]}</option>)}
        </select></label>
        <span class="count">{data === undefined ? "reading …" : file?.file ?? data.policy ?? ""}</span>
      </div>
      <Trouble problem={problem} />
      {data?.complete === false && <p class="warning">There are more files or lines than are shown.</p>}
      {data !== undefined && file === undefined && (
        <p class="none">{wished === "" ? `${data.policy ?? "The policy"} has no source that is known: it is not in Python, or has not run yet.` : `${wished} is not a file of the policy that runs.`}</p>
      )}
      {file !== undefined && file.changed_since && <p class="warning" role="status">{base(file.file)} was written after the policy was loaded. <a href={format(["change"])}>See what would change</a></p>}
      {file !== undefined && (file.text === null ? <p class="none">Its text is not known any more.</p> : (
        <div class="map-and-side">
          <Text file={file} text={file.text} measure={measure} measures={measures} line={line} />
          {line !== null && <AboutLine file={file} line={line} />}
        </div>
      ))}
    </>
  );
}

function Text({file, text, measure, measures, line}: {
  readonly file: PolicyFile;
  readonly text: string;
  readonly measure: Measure;
  readonly measures: readonly Measure[];
  readonly line: number | null;
}) {
  const scroller = useRef<HTMLDivElement>(null);
  const seen = useSeen(scroller);
  const lines = useMemo(() => text.replace(/\n$/, "").split("\n"), [text]);
  const counts = useMemo(() => new Map(file.lines.map((one) => [one.line, one])), [file]);
  const most = useMemo(() => Math.max(0, ...file.lines.map((one) => one[measure] ?? 0)), [file, measure]);
  const draw = windowOf(lines.length, seen.top, seen.height, LINE, 20);
  useEffect(() => {
    const own = scroller.current;
    if (own !== null && line !== null && (line * LINE < own.scrollTop + LINE || line * LINE > own.scrollTop + own.clientHeight - 2 * LINE)) {
      own.scrollTop = (line - 0.5) * LINE - own.clientHeight / 2;
    }
  }, [file.file, line]);
  return (
    <div class="scroll code" ref={scroller} tabIndex={0} role="region" aria-label={`Source ${base(file.file)}`}>
      <table class="source" aria-rowcount={lines.length + 1}>
        <thead><tr aria-rowindex={1}>
          {measures.map((name) => <th key={name} scope="col" class={`number${name === measure ? "" : " other"}`} title={TITLES[name][1]}>{TITLES[name][0]}</th>)}
          <th scope="col" class="number">line</th><th scope="col">source</th>
        </tr></thead>
        <tbody>
          {draw.first > 0 && <tr aria-hidden="true"><td style={{height: `${draw.first * LINE}px`}} /></tr>}
          {lines.slice(draw.first, draw.end).map((source, offset) => {
            const number = draw.first + offset + 1;
            const own = counts.get(number);
            return (
              <tr key={number} aria-rowindex={number + 1} class={`heat${heat(own?.[measure] ?? null, most)}${number === line ? " chosen" : ""}`}>
                {measures.map((name) => <td key={name} class={`number${name === measure ? "" : " other"}${bad(name) && (own?.[name] ?? 0) > 0 ? " wrong" : ""}`}>{count(own, name)}</td>)}
                <td class="number"><a href={format(["policy"], {file: file.file, line: String(number), heat: chosen("heat")})}
                  aria-current={number === line ? "true" : undefined}>{number}</a></td>
                <td><Code text={source} /></td>
              </tr>
            );
          })}
          {draw.end < lines.length && <tr aria-hidden="true"><td style={{height: `${(lines.length - draw.end) * LINE}px`}} /></tr>}
        </tbody>
      </table>
    </div>
  );
}

function bad(measure: Measure): boolean {
  return measure === "drops" || measure === "errors";
}

function count(own: LineHeat | undefined, measure: Measure): string {
  const value = own?.[measure];
  return value === undefined || value === 0 ? "" : measure === "seconds" ? took(value) : whole(value);
}

/** Reports whether a line that a text names, as `acl.py:12`, is this one of a file. */
function isLine(text: string, file: PolicyFile, line: number): boolean {
  const named = lineOf(text);
  return named?.line === line && fileOf([file], named.file) !== undefined;
}

/** The effect of one line in the network. */
function AboutLine({file, line}: {readonly file: PolicyFile; readonly line: number}) {
  const names = useNames();
  const here = `${file.file}:${line}`;
  const of = (column: string) => new URLSearchParams({[column]: here, limit: String(LISTED), sort: column === "line" ? "-n_packets" : "-packets"}).toString();
  const {data: rules, problem} = useAnswer<List<RuleRow>>(`/v1/rules?${of("line")}`, {every: EVERY});
  const {data: flows} = useAnswer<List<FlowRow>>(`/v1/flows?${of("lines")}`, {every: EVERY});
  const {data: drops} = useAnswer<List<DropRow>>("/v1/drops?minutes=15", {every: EVERY});
  const {data: errors} = useAnswer<List<ErrorRow>>("/v1/errors", {every: EVERY});
  /** This line as a text spells it, if it names it. */
  const spelled = (text: string) => linesIn(text).find((named) => isLine(named, file, line));
  const dropped = drops?.rows.filter((row) => row.line !== null && isLine(row.line, file, line)) ?? [];
  const failed = errors?.rows.filter((row) => spelled(row.text) !== undefined) ?? [];
  const own = file.lines.find((one) => one.line === line);
  return (
    <aside class="side" aria-label={`Line ${line}`}>
      <h2>Line {line} <a class="close" href={format(["policy"], {file: file.file, heat: chosen("heat")})} aria-label="Close">✕</a></h2>
      {own === undefined ? <p class="soft">No run has asked or decided anything here.</p> : (
        <dl class="facts">
          {MEASURES.map((name) => <div key={name} title={TITLES[name][1]}><dt>{TITLES[name][0]}</dt><dd>{count(own, name) || "0"}</dd></div>)}
          {own.runs > 0 && <div title="of all runs that ended here"><dt>a run</dt><dd>{took(own.seconds / own.runs)}</dd></div>}
        </dl>
      )}
      <Trouble problem={problem} />
      {dropped.length > 0 && (
        <Section title="Drops in 15 minutes">
          <ul class="plain-list">{dropped.slice(0, LISTED).map((row, at) => (
            <li key={at}>{whole(row.packets)} of {row.host === null ? "several hosts" : <a href={format(["why"], {from: names.host(row.host)})}>{names.host(row.host)}</a>} at <a href={switchHref(row.switch)}>{row.at === null ? names.switch(row.switch) : names.place(row.at)}</a>
              <div class="soft">{row.example !== null && names.inText(row.example)}</div></li>
          ))}</ul>
          <p><a href={format(["network", "drops"], {q: exactly("line", dropped[0]?.line ?? "")})}>in the table of drops</a></p>
        </Section>
      )}
      {failed.length > 0 && (
        <Section title="Errors">
          <ul class="plain-list">{failed.slice(0, LISTED).map((row, at) => <li key={at}>{moment(row.time)} <Lined text={row.text} /></li>)}</ul>
          <p><a href={format(["health", "errors"], {q: exactly("line", spelled(failed[0]?.text ?? "") ?? here)})}>in the table of errors</a></p>
        </Section>
      )}
      {flows !== undefined && flows.total > 0 && <DecidedFlows flows={flows} here={here} names={names} />}
      <DecidedRules rules={rules} resting={own?.rules ?? 0} names={names} />
    </aside>
  );
}

/** The rules of the decisions that a line made, those that took most first. */
function DecidedRules({rules, resting, names}: {readonly rules: List<RuleRow> | undefined; readonly resting: number; readonly names: Names}) {
  const others = resting - (rules?.total ?? resting);
  return (
    <Section title={rules === undefined ? "Rules that it decided: reading …" : `Rules that it decided: ${whole(rules.total)}`}>
      <RuleList rules={rules} text={(row) => names.switch(row.switch)} names={names} />
      {others > 0 && <p class="soft">{whole(others)} rules more are of decisions that asked here and were made at other lines.</p>}
    </Section>
  );
}

/** The flows that a line decided, those with most packets first. */
function DecidedFlows({flows, here, names}: {readonly flows: List<FlowRow>; readonly here: string; readonly names: Names}) {
  const {data: hosts} = useAnswer<List<HostRow>>("/v1/hosts", {live: true});
  const examples = useMemo(() => hostsAt(hosts?.rows ?? []), [hosts]);
  return (
    <Section title={`Flows that it decided: ${whole(flows.total)}`}>
      <ul class="plain-list">
        {flows.rows.map((row) => (
          <li key={JSON.stringify([row.switch, row.from, row.from_at, row.to, row.to_at])}>
            <a href={flowHref(row, names, examples)}>{party(row.from, row.from_at, names)} → {party(row.to, row.to_at, names)}</a> at <a href={switchHref(row.switch)}>{names.switch(row.switch)}</a>
            <span class="soft"> {packets(row.packets)}{(row.bits_per_second ?? 0) > 0 && `, ${bits(row.bits_per_second)}`}{row.lines.length > 1 && ", with those of other lines"}</span>
          </li>
        ))}
      </ul>
      <Others of={flows} />
      <p><a href={format(["network", "flows"], {q: exactly("line", here)})}>in the table of flows</a></p>
    </Section>
  );
}

function Decisions() {
  const names = useNames();
  const {data} = useAnswer<List<SwitchRow>>("/v1/switches", {live: true});
  const wished = chosen("switch");
  const id = data?.rows.find((row) => row.switch === wished)?.switch ?? data?.rows[0]?.switch;
  return (
    <>
      <div class="bar">
        <label>switch <select value={id} onChange={(event) => choose({switch: event.currentTarget.value, decision: undefined})}>
          {data?.rows.map((row) => <option key={row.switch} value={row.switch}>{names.switch(row.switch)}</option>)}
        </select></label>
      </div>
      {id === undefined ? <p class="none">{data === undefined ? "reading …" : "No switch has connected yet."}</p> : <Tree key={id} id={id} />}
    </>
  );
}
