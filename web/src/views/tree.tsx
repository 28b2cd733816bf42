// What the policy has decided at a switch, as a tree, and what is unexplored.
import {useMemo} from "preact/hooks";

import {format} from "../address";
import {useAnswer} from "../api/resource";
import type {List, RuleRow, TreeRow} from "../api/types";
import {type Names, useNames} from "../names";
import {Lined, Section, Trouble} from "../parts";
import {whole} from "../text";
import {decisionOf, decisions, type RulesOf} from "./decisions";

/** The longest tree that is shown, in lines. */
const MOST = 2000;

/** Shows the tree of a switch. */
export function Tree({id}: {readonly id: string}) {
  const {data, problem} = useAnswer<List<TreeRow>>(`/v1/switches/${encodeURIComponent(id)}/tree`, {every: 10_000});
  const {data: rules} = useAnswer<List<RuleRow>>(`/v1/switches/${encodeURIComponent(id)}/rules`, {every: 10_000});
  const names = useNames();
  const known = useMemo(() => decisions(rules?.rows ?? []), [rules]);
  const row = data?.rows[0];
  const lines = row?.tree.trimEnd().split("\n") ?? [];
  const open = row?.exploration?.open ?? [];
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Decisions of the switch">
      <Trouble problem={problem} />
      {row !== undefined && (
        <>
          <p>
            {row.exploration === null ? "This switch is not explored: decisions are made when packets come."
              : row.exploration.complete ? "Complete: no packet of a known host comes to the controller, unless something changes."
              : row.exploration.stopped === null ? `${whole(open.length)} questions are open.`
              : `Exploration ended at a bound: ${row.exploration.stopped}`}
          </p>
          {open.length > 0 && (
            <Section title="Unexplored">
              <table class="plain">
                <caption class="unseen">Open questions</caption>
                <thead><tr><th scope="col">line</th><th scope="col">question</th><th scope="col" class="number">places</th></tr></thead>
                <tbody>{open.map((one, at) => (
                  <tr key={at}><td><Lined text={one.line} /></td><td><Lined text={one.what} /></td><td class="number">{whole(one.count)}</td></tr>
                ))}</tbody>
              </table>
            </Section>
          )}
          <Section title="Decisions">
            <p class="soft">T is a test of the packet, V a value that the policy reads or looks up, Ω what it has not been asked yet.</p>
            <pre class="tree">{lines.slice(0, MOST).map((line, at) => <Node key={at} id={id} line={line} known={known} names={names} />)}</pre>
            {lines.length > MOST && <p>The other {whole(lines.length - MOST)} lines: <code>maple show tree {id}</code></p>}
          </Section>
        </>
      )}
    </div>
  );
}

/** A line of the tree. A decision leads to its rules, and to the line that made it. */
function Node({id, line, known, names}: {readonly id: string; readonly line: string; readonly known: ReadonlyMap<number, RulesOf>; readonly names: Names}) {
  const decision = decisionOf(line);
  if (decision === null) {
    return <div><Lined text={line} /></div>;
  }
  const rules = known.get(decision.number);
  return (
    <div>
      {names.inText(decision.before)}
      <a href={format(["switch", id, "rules"], {q: `decision=${decision.number}`})}>decision {decision.number}</a>
      {rules !== undefined && <span class="soft">: {whole(rules.count)} {rules.count === 1 ? "rule" : "rules"}, {whole(rules.packets)} packets, <Lined text={rules.line} /></span>}
    </div>
  );
}
