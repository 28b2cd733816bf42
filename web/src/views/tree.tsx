// What the policy has decided at a switch, as a tree, and what is unexplored.
import {useEffect, useRef} from "preact/hooks";

import {address, format} from "../address";
import {useAnswer} from "../api/resource";
import type {List, RuleRow, TreeRow} from "../api/types";
import {type Names, useNames} from "../names";
import {chosen, Line, Lined, Section, Trouble} from "../parts";
import {whole} from "../text";
import {decisionOf} from "./decisions";
import {RuleList} from "./rules";

/** The longest tree that is shown, in lines. */
const MOST = 2000;
/** The maximum number of rules of a decision that are listed. */
const LISTED = 50;
/** The time between two readings of what is shown, in milliseconds. */
const EVERY = 10_000;

/** Shows the tree of a switch. */
export function Tree({id}: {readonly id: string}) {
  const {data, problem} = useAnswer<List<TreeRow>>(`/v1/switches/${encodeURIComponent(id)}/tree`, {every: EVERY});
  const names = useNames();
  const decision = Number(chosen("decision")) || null;
  const row = data?.rows[0];
  const lines = row?.tree.trimEnd().split("\n") ?? [];
  const drawn = lines.slice(0, MOST);
  const open = row?.exploration?.open ?? [];
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Decisions of the switch">
      <Trouble problem={problem} />
      {row !== undefined && (
        <>
          <p>
            {row.exploration === null ? "This switch is not explored: decisions are made when packets come."
              : row.exploration.complete ? "Complete: no packet of a known host comes to the controller, unless something changes."
              : row.exploration.stopped === null ? open.length === 1 ? "1 question is open." : `${whole(open.length)} questions are open.`
              : `Exploration ended at a bound: ${row.exploration.stopped}`}
          </p>
          {open.length > 0 && (
            <Section title="Unexplored">
              <table class="plain">
                <caption class="unseen">Open questions</caption>
                <thead><tr><th scope="col">line</th><th scope="col">question</th><th scope="col" class="number">places</th></tr></thead>
                <tbody>{open.map((one, at) => (
                  <tr key={at}><td>{one.line !== null && <Line of={one.line} />}</td><td><Lined text={one.what} /></td><td class="number">{whole(one.count)}</td></tr>
                ))}</tbody>
              </table>
            </Section>
          )}
          <Section title="Decisions">
            <p class="soft">T is a test of the packet, V a value that the policy reads or looks up, Ω what it has not been asked yet. A decision opens: it has rules, and a line that made it.</p>
            {decision !== null && !drawn.some((line) => decisionOf(line)?.number === decision) && <p class="warning">Decision {decision} is gone, or below what is shown.</p>}
            <div class="tree">{drawn.map((line, at) => <Node key={at} id={id} line={line} open={decision} names={names} />)}</div>
            {lines.length > MOST && <p>The other {whole(lines.length - MOST)} lines: <code>maple show tree {id}</code></p>}
          </Section>
        </>
      )}
    </div>
  );
}

/** A line of the tree. A decision opens, and closes again. */
function Node({id, line, open, names}: {readonly id: string; readonly line: string; readonly open: number | null; readonly names: Names}) {
  const decision = decisionOf(line);
  if (decision === null) {
    return <div class="node"><Lined text={line} /></div>;
  }
  const {before, number} = decision;
  const isOpen = number === open;
  const {path, query} = address.value;
  return (
    <>
      <div class="node">
        {names.inText(before)}
        <a href={format(path, {...query, decision: isOpen ? undefined : String(number)})} aria-expanded={isOpen}>decision {number}</a>
      </div>
      {isOpen && <Decision id={id} number={number} names={names} depth={before.search(/\S|$/)} />}
    </>
  );
}

/** The rules of a decision, and the line that made it. They are asked for while it is open, because the switch has to be. */
function Decision({id, number, names, depth}: {readonly id: string; readonly number: number; readonly names: Names; readonly depth: number}) {
  const query = new URLSearchParams({leaf: String(number), limit: String(LISTED), sort: "-n_packets"});
  const {data: rules, problem} = useAnswer<List<RuleRow>>(`/v1/switches/${encodeURIComponent(id)}/rules?${query}`, {every: EVERY});
  const line = rules?.rows[0]?.line;
  const own = useRef<HTMLElement>(null);
  useEffect(() => own.current?.scrollIntoView({block: "nearest"}), [rules === undefined]);
  return (
    <section class="opened" ref={own} aria-label={`Decision ${number}`} style={{marginLeft: `min(${depth + 2}ch, 40%)`}}>
      <Trouble problem={problem} />
      {rules === undefined ? <p class="soft">reading …</p> : rules.total === 0 ? <p class="soft">No rule is of this decision alone.</p> : (
        <>
          <p>{whole(rules.total)} {rules.total === 1 ? "rule" : "rules"}{line != null && <>, made at <Line of={line} /></>} · <a href={format(["switch", id, "rules"], {q: `decision=${number}`})}>in the table of rules</a></p>
          <RuleList rules={rules} text={() => "why"} names={names} />
        </>
      )}
    </section>
  );
}
