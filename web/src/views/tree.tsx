// What the policy has decided at a switch, as a tree, and what is unexplored.
import {useAnswer} from "../api/resource";
import type {List, TreeRow} from "../api/types";
import {useNames} from "../names";
import {Lined, Section, Trouble} from "../parts";
import {whole} from "../text";

/** The longest tree that is shown, in lines. */
const MOST = 2000;

/** Shows the tree of a switch. */
export function Tree({id}: {readonly id: string}) {
  const {data, problem} = useAnswer<List<TreeRow>>(`/v1/switches/${encodeURIComponent(id)}/tree`, {every: 10_000});
  const names = useNames();
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
                  <tr key={at}><td><Lined text={one.line} /></td><td>{one.what}</td><td class="number">{whole(one.count)}</td></tr>
                ))}</tbody>
              </table>
            </Section>
          )}
          <Section title="Decisions">
            <pre class="tree">{lines.slice(0, MOST).map((line, at) => <div key={at}><Lined text={line} names={names} /></div>)}</pre>
            {lines.length > MOST && <p>The other {whole(lines.length - MOST)} lines: <code>maple show tree {id}</code></p>}
          </Section>
        </>
      )}
    </div>
  );
}
