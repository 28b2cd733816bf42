// Why a packet goes where it goes: what the policy asked, beside its source, and the rules that take the packet.
import {useEffect, useMemo, useState} from "preact/hooks";

import {address, format, go} from "../address";
import {Problem, send} from "../api/ask";
import {refresh, useAnswer} from "../api/resource";
import type {Explanation, HostRow, List, MapAnswer, PolicyAnswer, SourceLine} from "../api/types";
import {pair} from "../map/graph";
import {NetworkMap} from "../map/map";
import {type Names, useNames} from "../names";
import {chosen, Lined, Listed, lineHref, Section, title, Trouble, Writer} from "../parts";
import {base, fileOf, whole} from "../text";
import {Code} from "./code";
import {sourceOf} from "./source";
import {question} from "./question";

/** The maximum number of hosts that are offered to choose from. */
const OFFERED = 300;

/** Asks about the packet that the address names, and shows the answer. */
export function WhyView() {
  title("Why");
  const {query} = address.value;
  const key = JSON.stringify(query);
  const [asked, setAsked] = useState<{readonly key: string; readonly answer?: Explanation; readonly problem?: Problem}>();
  const [round, setRound] = useState(0);
  useEffect(() => {
    const what = question(query);
    if (what instanceof Error || what === null) {
      setAsked(what === null ? undefined : {key, problem: new Problem(400, what.message)});
      return;
    }
    let isCurrent = true;
    send<Explanation>("POST", "/v1/explain", what).then(
      (answer) => isCurrent && setAsked({key, answer}),
      (problem: unknown) => isCurrent && setAsked({key, problem: problem instanceof Problem ? problem : new Problem(0, String(problem))}),
    );
    return () => {
      isCurrent = false;
    };
  }, [key, round]);
  const names = useNames();
  return (
    <div class="view">
      <h1 class="unseen">Why</h1>
      <Question key={key} names={names} again={() => setRound(round + 1)} />
      <div class="scroll" aria-busy={asked?.key !== key}>
        {asked?.problem !== undefined && <Trouble problem={asked.problem.status === 0 ? new Problem(1, asked.problem.message) : asked.problem} />}
        {asked?.answer !== undefined && <Answer answer={asked.answer} names={names} />}
        {asked === undefined && key === "{}" && (
          <p class="none">Name the sender and the receiver of a packet: a host, an address, or a port such as s1:3. Fields are those of policies: tcp_dst=80.</p>
        )}
      </div>
    </div>
  );
}

function Question({names, again}: {readonly names: Names; readonly again: () => void}) {
  const [from, setFrom] = useState(chosen("from"));
  const [to, setTo] = useState(chosen("to"));
  const [at, setAt] = useState(chosen("at"));
  const [fields, setFields] = useState(chosen("fields"));
  const rule = chosen("rule");
  const {data: hosts} = useAnswer<List<HostRow>>("/v1/hosts", {live: true});
  const offered = useMemo(() => hosts?.rows.slice(0, OFFERED).map((host) => names.host(host.mac)) ?? [], [hosts, names]);
  const ask = (event: Event) => {
    event.preventDefault();
    const query = {from: from.trim(), to: to.trim(), at: at.trim(), fields: fields.trim()};
    if (format(["why"], query) === location.hash) {
      again();
    } else {
      go(["why"], query);
    }
  };
  return (
    <form class="bar question" onSubmit={ask}>
      <label>from <input list="offered" size={14} value={from} onInput={(event) => setFrom(event.currentTarget.value)} placeholder="host or address" data-search /></label>
      <label>to <input list="offered" size={14} value={to} onInput={(event) => setTo(event.currentTarget.value)} placeholder="host or address" /></label>
      <label>enters at <input size={8} value={at} onInput={(event) => setAt(event.currentTarget.value)} placeholder="s1:3" /></label>
      <label class="wide">fields <input size={24} value={fields} onInput={(event) => setFields(event.currentTarget.value)} placeholder="tcp_dst=80 vlan_vid=5" /></label>
      <button type="submit" class="main">Why?</button>
      {rule !== "" && <span class="soft">the packet of rule <code>{rule}</code></span>}
      <datalist id="offered">{offered.map((name) => <option key={name} value={name} />)}</datalist>
    </form>
  );
}

function Answer({answer, names}: {readonly answer: Explanation; readonly names: Names}) {
  const {data: policy} = useAnswer<PolicyAnswer>("/v1/policy");
  // Another policy may have been loaded since the answer before.
  useEffect(() => refresh("/v1/policy"), [answer]);
  const {packet, verdict = "", line, hops = []} = answer;
  const refusal = answer.verdict === "refused" || answer.verdict === "failed" ? answer.why : undefined;
  return (
    <>
      {answer.of_rule !== undefined && (
        <p>Rule of {names.switch(answer.of_rule.switch)}: <code>{answer.of_rule.flow}</code> <Lined text={answer.of_rule.why} /></p>
      )}
      {packet === undefined ? <p>This rule was not made for a packet.</p> : (
        <>
          <div class="verdict">
            <h2>
              {packet.from === null ? "?" : names.host(packet.from)} ({names.place(packet.at)}) → {packet.to === null ? "?" : names.host(packet.to)}
              {packet.to_at !== null && ` (${names.place(packet.to_at)})`}
            </h2>
            <p>
              <code>{names.inText(packet.summary)}</code> is <strong class={verdict === "forwarded" ? "good" : "wrong"}>{verdict}</strong>
              {line != null && <> by <Where line={line} /></>}
              {refusal !== undefined && <>: <Lined text={refusal} /></>}
              {answer.route !== undefined && <> · route {names.inRoute(answer.route)}</>}
            </p>
            {answer.agrees === false && <p class="wrong">The switches do something else than the policy decides.</p>}
            {answer.has_loop === true && <p class="wrong">The rules make a loop.</p>}
            {answer.asks_controller === true && <p class="soft">There is no rule yet: the next such packet goes to the controller.</p>}
            {answer.leaf?.under_way != null && <p class="soft">{answer.leaf.under_way}</p>}
            {answer.leaf?.made_up === true && <p class="soft">This was decided before such a packet came.</p>}
            {answer.lasts === false && <p class="soft">No rule can do what the policy does, so each such packet goes to the controller.</p>}
            {answer.assumed?.map((text) => <p key={text} class="soft">assumed: {text}</p>)}
            {answer.changed_files?.map((file) => <p key={file} class="soft">{file} was written after the policy was loaded, so its lines are not shown.</p>)}
          </div>
          <div class="pair">
            <Steps answer={answer} names={names} />
            <Marked answer={answer} policy={policy} />
          </div>
          {answer.violations?.map((one, at) => (
            <p key={at} class="wrong">The constraint {one.constraint} refuses the route: {one.why} {one.line !== null && <Where line={one.line} />}</p>
          ))}
          <div class="pair uneven">
            <Hops hops={hops} answer={answer} names={names} />
            <Way answer={answer} />
          </div>
        </>
      )}
    </>
  );
}

/** A source line that leads to the policy. */
function Where({line}: {readonly line: SourceLine}) {
  return <a href={lineHref(line.file, line.line)} title={line.text}>{base(line.file)}:{line.line}</a>;
}

function Steps({answer, names}: {readonly answer: Explanation; readonly names: Names}) {
  return (
    <Section title="What the policy asked">
      {answer.steps === undefined || answer.steps.length === 0 ? <p class="none">Nothing.</p> : (
        <ol class="steps">
          {answer.steps.map((step, at) => (
            <li key={at}>
              <span class="step"><code>{names.inText(step.asked)}</code>: <strong>{names.inText(step.answer)}</strong></span>
              {step.evidence !== undefined && <span class="soft"> ({names.inText(step.evidence)})</span>}
              {step.line !== null && <span class="where"><Where line={step.line} />{step.line.tier !== undefined && ` in ${step.line.tier}`}</span>}
              {step.written != null && <div class="soft">written by <Writer written={step.written} /></div>}
            </li>
          ))}
        </ol>
      )}
      {answer.instead !== undefined && answer.instead.length > 0 && (
        <>
          <h3>{answer.verdict === "forwarded" ? "It would be otherwise if" : "It would pass if"}</h3>
          <ul>
            {answer.instead.map((one, at) => (
              <li key={at}>{names.inText(one.if)} <span class="soft">→ {one.verdict}</span> {one.line !== null && <Where line={one.line} />}</li>
            ))}
          </ul>
        </>
      )}
    </Section>
  );
}

/** The source of the policy around the lines that decided. */
function Marked({answer, policy}: {readonly answer: Explanation; readonly policy: PolicyAnswer | undefined}) {
  const marks = useMemo(() => {
    const found = new Map<string, Map<number, {steps: number[]; text: string | undefined; decides: boolean}>>();
    const mark = (line: SourceLine | null | undefined, step: number | null) => {
      if (line == null) {
        return;
      }
      const lines = found.get(line.file) ?? new Map();
      found.set(line.file, lines);
      const one = lines.get(line.line) ?? {steps: [], text: line.text, decides: false};
      lines.set(line.line, one);
      if (step === null) {
        one.decides = true;
      } else {
        one.steps.push(step);
      }
    };
    answer.steps?.forEach((step, at) => mark(step.line, at + 1));
    mark(answer.line, null);
    return found;
  }, [answer]);
  return (
    <Section title="Source">
      {[...marks].map(([file, lines]) => {
        const named = new Map([...lines].map(([line, {text}]) => [line, text]));
        const shown = sourceOf(fileOf(policy?.files ?? [], file)?.text, named, 4);
        return (
          <table key={file} class="source">
            <caption><a href={format(["policy"], {file})}>{file}</a></caption>
            <tbody>
              {shown.map((one, at) => {
                if (one === null) {
                  return at === 0 ? null : <tr key={`gap${at}`} class="gap"><td /><td /><td>⋯</td></tr>;
                }
                const mark = lines.get(one.line);
                return (
                  <tr key={one.line} class={mark === undefined ? "" : mark.decides ? "marked decides" : "marked"}>
                    <td class="number soft">{mark?.steps.join(", ")}</td>
                    <td class="number"><a href={lineHref(file, one.line)}>{one.line}</a></td>
                    <td><Code text={one.text} /></td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        );
      })}
      {marks.size === 0 && <p class="none">No source line is known: the policy is not in Python, or it was not asked.</p>}
    </Section>
  );
}

function Hops({hops, answer, names}: {readonly hops: NonNullable<Explanation["hops"]>; readonly answer: Explanation; readonly names: Names}) {
  return (
    <Section title="Rules on its way">
      {hops.length === 0 && <p class="none">No switch has a rule for it.</p>}
      <ol class="hops">
        {hops.map((hop, at) => (
          <li key={at}>
            <h3><a href={format(["switch", hop.at.switch, "rules"])}>{names.place(hop.at)}</a></h3>
            <table class="plain">
              <caption class="unseen">Rules that take the packet at {names.switch(hop.at.switch)}</caption>
              <thead><tr><th scope="col" class="number">table</th><th scope="col" class="number">priority</th><th scope="col">match</th><th scope="col">actions</th><th scope="col" class="number">packets</th><th scope="col">made by</th></tr></thead>
              <tbody>
                {hop.rules.map((rule, number) => (
                  <tr key={number} class={rule.foreign ? "wrong" : ""}>
                    <td class="number">{rule.table}</td><td class="number">{rule.priority}</td>
                    <td><Listed text={rule.match === "" ? "any" : names.inText(rule.match)} /></td><td><Listed text={names.inText(rule.actions)} /></td>
                    <td class="number">{whole(rule.n_packets)}</td>
                    <td>{rule.foreign ? "a rule of others" : <Lined text={rule.why} />}</td>
                  </tr>
                ))}
              </tbody>
            </table>
            {hop.missed_in_table !== null && <p class="soft">No rule of table {hop.missed_in_table} takes it.</p>}
            {hop.outcomes.map((outcome, number) => (
              <p key={number}>→ {outcome.port !== undefined ? names.place({switch: hop.at.switch, port: outcome.port})
                : outcome.controller === true ? "the controller" : outcome.expired === true ? "dropped: its time to live has run out" : outcome.elsewhere}</p>
            ))}
          </li>
        ))}
      </ol>
      {answer.arrives?.map((exit, at) => (
        <p key={at}>leaves by {names.place(exit.at)}{exit.hosts.length > 0 && ` to ${exit.hosts.map((mac) => names.host(mac)).join(", ")}`}
          {exit.rewrites !== undefined && exit.rewrites.length > 0 && `, with ${exit.rewrites.join(", ")}`}</p>
      ))}
      {answer.lost?.map((one, at) => <p key={at} class="wrong">lost at {names.place(one.at)}: {one.why}</p>)}
    </Section>
  );
}

/** The way of the packet on the map. */
function Way({answer}: {readonly answer: Explanation}) {
  const {data: map} = useAnswer<MapAnswer>("/v1/map", {live: true});
  const {way, part} = useMemo(() => {
    const seen = new Set(answer.hops?.map((hop) => hop.at.switch) ?? []);
    const pairs = new Set<string>();
    for (const link of map?.links ?? []) {
      const leaves = (from: string, port: unknown) => answer.hops?.some((hop) => hop.at.switch === from && hop.outcomes.some((one) => one.port === port)) === true;
      if ((leaves(link.from.switch, link.from.port) && seen.has(link.to.switch)) || (leaves(link.to.switch, link.to.port) && seen.has(link.from.switch))) {
        pairs.add(pair(link.from.switch, link.to.switch));
      }
    }
    // The load of links would look like the way.
    const links = map?.links.map((link) => ({...link, bits_per_second: null})) ?? [];
    return {way: pairs, part: {switches: map?.switches ?? [], links}};
  }, [answer, map]);
  return (
    <Section title="On the map">
      <div class="map-small">
        <NetworkMap network={part} chosen={answer.packet?.at.switch ?? null} way={way} fitted="all" />
      </div>
    </Section>
  );
}
