// Changing the policy: what a change would do, doing it, and going back.
import {useState} from "preact/hooks";

import {format} from "../address";
import {Problem, send} from "../api/ask";
import {refresh, SOON, useAnswer} from "../api/resource";
import {may} from "../api/session";
import type {ControllerAnswer, Plan, PlanDecision, PlanRule, Reloaded} from "../api/types";
import {type Names, useNames} from "../names";
import {Lined, Section, title, Trouble} from "../parts";
import {base, moment, whole} from "../text";
import {History} from "./history";

/** The maximum number of packets and rules of a plan that are listed. */
const LISTED = 200;

/** The meaning of each kind of difference. */
const KINDS: Readonly<Record<string, string>> = {
  loses: "leave by fewer edge ports, mostly none",
  gains: "leave by more edge ports",
  goes_elsewhere: "leave by other edge ports",
  moves: "leave where they left, and go another way",
  treated_otherwise: "go the same way, with other rewrites, queues or limits",
  waits: "wait until something changes",
  fails: "fail: the policy raises an error",
};

/** The step that is being done, or was done last. */
type Doing = {readonly what: string; readonly problem?: Problem; readonly done?: Reloaded};

/** Shows the policy that runs, and plans and applies others. */
export function ChangeView() {
  title("Change");
  const {data} = useAnswer<ControllerAnswer>("/v1/controller", {live: true, every: SOON});
  const names = useNames();
  const [name, setName] = useState("");
  const [canary, setCanary] = useState("");
  const [plan, setPlan] = useState<Plan | null>(null);
  const [doing, setDoing] = useState<Doing | null>(null);
  const isBusy = doing !== null && doing.problem === undefined && doing.done === undefined;
  const attempt = async (what: string, work: () => Promise<Reloaded | undefined>) => {
    setDoing({what});
    try {
      const done = await work();
      setDoing(done === undefined ? null : {what, done});
      if (done !== undefined) {
        setPlan(null);
        refresh("/v1/");
      }
    } catch (error) {
      setDoing({what, problem: error instanceof Problem ? error : new Problem(1, String(error))});
    }
  };
  const makePlan = () => attempt("plan", async () => {
    setPlan(null);
    setPlan(await send<Plan>("POST", "/v1/plan", {name: name.trim() === "" ? null : name.trim()}));
    return undefined;
  });
  const apply = (one: Plan) => attempt("apply", () => send<Reloaded>("POST", "/v1/apply", {
    name: one.policy, sources: one.sources, changes: one.changes, decided: one.decided,
    ...(canary.trim() === "" ? {} : {canary: canaryOf(canary, names)}),
  }));
  const policy = data?.policy;
  return (
    <div class="view scroll">
      <h1 class="unseen">Change</h1>
      <Section title="The policy that runs">
        {policy == null ? <p class="none">{data === undefined ? "reading …" : "This run keeps its policy: an emulated network, or a program of your own, is started again with another one."}</p> : (
          <dl class="facts wide">
            <div><dt>policy</dt><dd><a href={format(["policy"])} title={policy.name}>{base(policy.name)}</a></dd></div>
            <div><dt>since</dt><dd>{moment(policy.since * 1000)}, by {policy.by}</dd></div>
            {policy.configured.name !== policy.name && <div><dt>configured</dt><dd>{policy.configured.name}</dd></div>}
            {policy.canary !== null && <div><dt>canary</dt><dd>{policy.canary} decides at some switches</dd></div>}
            {policy.on_trial && <div><dt>trial</dt><dd>it runs for less than a minute</dd></div>}
          </dl>
        )}
      </Section>
      {policy === null ? null : may("admin") ? (
        <>
          <form class="bar" onSubmit={(event) => {
            event.preventDefault();
            void makePlan();
          }}>
            <label class="wide">policy <input size={44} value={name} onInput={(event) => setName(event.currentTarget.value)} data-search
              placeholder={policy == null ? "a file, or builtin:NAME" : `${base(policy.name)}, as its file is now`} /></label>
            <button type="submit" class="main" disabled={isBusy}>Plan</button>
            <button type="button" disabled={isBusy} onClick={() => void attempt("reload", () => send<Reloaded>("POST", "/v1/reload", {name: name.trim() === "" ? null : name.trim(), tolerate: {count: 0}}))}>Reload without a plan</button>
            <button type="button" disabled={isBusy} onClick={() => void attempt("roll back", () => send<Reloaded>("POST", "/v1/rollback"))}>Roll back</button>
            {policy?.canary != null && <button type="button" disabled={isBusy} onClick={() => void attempt("run everywhere", () => send<Reloaded>("POST", "/v1/promote"))}>Run the canary everywhere</button>}
          </form>
          {isBusy && <p role="status">{doing.what} …</p>}
          {doing?.problem !== undefined && <Trouble problem={new Problem(doing.problem.status || 1, `not done (${doing.what}): ${doing.problem.message}`)} />}
          {doing?.done !== undefined && <Done what={doing.what} done={doing.done} />}
          {plan !== null && (
            <>
              <PlanText plan={plan} names={names} />
              <div class="bar">
                <label>first only at <input size={18} value={canary} onInput={(event) => setCanary(event.currentTarget.value)} placeholder="s1 s2, or 10%" /></label>
                <button type="button" class="main" disabled={isBusy} onClick={() => void apply(plan)}>Apply this plan</button>
                <button type="button" disabled={isBusy} onClick={() => setPlan(null)}>Forget it</button>
              </div>
            </>
          )}
        </>
      ) : <p class="none">Changes need a token with the role admin. Where Maple was started without <code>--http-tokens</code>, this page only reads.</p>}
      <History title="History" />
    </div>
  );
}

/** The switches or the share where a plan is applied first. */
function canaryOf(text: string, names: Names): object {
  const percent = /^(\d+)\s*%$/.exec(text.trim());
  return percent !== null ? {percent: Number(percent[1])} : {switches: text.split(/[\s,]+/).filter((word) => word !== "").map((word) => names.id(word))};
}

function Done({what, done}: {readonly what: string; readonly done: Reloaded}) {
  const others = done.packets - done.same - done.failed;
  return (
    <div class="done" role="status">
      <p>Done ({what}) in {done.seconds.toFixed(3)} s: of {whole(done.packets)} packets that the network has decided about, {whole(done.same)} are decided as before, {whole(others)} otherwise, and {whole(done.failed)} fail.
        {!done.settled && " Not all switches have confirmed their rules yet."}</p>
      {done.unconfirmed !== null && <p class="warning">{done.unconfirmed}</p>}
      {done.warnings.map((text) => <p key={text} class="warning"><Lined text={text} /></p>)}
      {done.restart.length > 0 && <p class="warning">Needs a restart: {done.restart.join(", ")}</p>}
      {done.errors.map((one) => <p key={one.text} class="trouble"><Lined text={one.text} /> ({whole(one.packets)} packets)</p>)}
    </div>
  );
}

function PlanText({plan, names}: {readonly plan: Plan; readonly names: Names}) {
  const changed = plan.packets - plan.same;
  const count = (of: "add" | "change" | "delete") => plan.rules.reduce((sum, one) => sum + one[of].length, 0);
  const isEmpty = changed === 0 && plan.rules.length === 0 && plan.lists.every((list) => list.differences.length === 0);
  return (
    <Section title={`Plan of ${plan.policy}`}>
      <p role="status"><strong>{isEmpty ? "Nothing would change." : `${whole(changed)} of ${whole(plan.packets)} packets that the network has decided about go otherwise; rules: ${whole(count("add"))} to add, ${whole(count("change"))} to change, ${whole(count("delete"))} to delete, at ${whole(plan.rules.length)} switches.`}</strong></p>
      {plan.warnings.map((text) => <p key={text} class="warning"><Lined text={text} /></p>)}
      {plan.errors.map((one) => <p key={one.text} class="trouble"><Lined text={one.text} /> ({whole(one.packets)} packets)</p>)}
      {plan.lists.filter((list) => list.differences.length > 0).map((list) => (
        <Section key={list.file} title={`${list.file} treats differently${list.complete ? "" : " (among others)"}`}>
          <table class="plain">
            <caption class="unseen">Differences of the list</caption>
            <thead><tr><th scope="col">packets</th><th scope="col">was</th><th scope="col">now</th></tr></thead>
            <tbody>{list.differences.map((one, at) => (
              <tr key={at}><td>{names.inText(one.packets)}</td><td>{one.old.action}: <Lined text={one.old.rule} /></td><td>{one.new.action}: <Lined text={one.new.rule} /></td></tr>
            ))}</tbody>
          </table>
        </Section>
      ))}
      {Object.entries(KINDS).map(([kind, meaning]) => {
        const own = plan.differences.filter((one) => one.kind === kind);
        return own.length === 0 ? null : (
          <Section key={kind} title={`Packets that ${meaning}: ${whole(plan.counts[kind] ?? own.length)}`}>
            <table class="plain differs">
              <caption class="unseen">Packets that {meaning}</caption>
              <thead><tr><th scope="col">packet</th><th scope="col" class="spare">enters at</th><th scope="col">before</th><th scope="col">after</th></tr></thead>
              <tbody>{own.slice(0, LISTED).map((one, at) => (
                <tr key={at}>
                  <td><code>{names.inText(one.packet)}</code>{one.made_up && ' (made up)'}</td><td class="spare">{names.place(one.at)}</td>
                  <td><DecisionText decision={one.before} names={names} /></td><td><DecisionText decision={one.after} names={names} /></td>
                </tr>
              ))}</tbody>
            </table>
          </Section>
        );
      })}
      {plan.rules.map((one) => (
        <details key={one.switch}>
          <summary>{names.switch(one.switch)}: {one.add.length} to add, {one.change.length} to change, {one.delete.length} to delete</summary>
          <ul class="difference">
            {one.delete.slice(0, LISTED).map((rule, at) => <RuleLine key={`d${at}`} sign="−" rule={rule} names={names} />)}
            {one.change.slice(0, LISTED).flatMap(({before, after}, at) => [<RuleLine key={`b${at}`} sign="~" rule={before} names={names} />, <RuleLine key={`a${at}`} sign="→" rule={after} names={names} />])}
            {one.add.slice(0, LISTED).map((rule, at) => <RuleLine key={`n${at}`} sign="+" rule={rule} names={names} />)}
          </ul>
        </details>
      ))}
    </Section>
  );
}

function DecisionText({decision, names}: {readonly decision: PlanDecision; readonly names: Names}) {
  return <>{names.inRoute(decision.route)} <span class="soft"><Lined text={decision.lines} /></span></>;
}

function RuleLine({sign, rule, names}: {readonly sign: "+" | "−" | "~" | "→"; readonly rule: PlanRule; readonly names: Names}) {
  const kind = {"+": "added", "−": "deleted", "~": "deleted", "→": "added"}[sign];
  return <li class={kind}><span aria-label={kind}>{sign}</span> <code>{names.inText(rule.flow)}</code> <span class="soft"><Lined text={rule.why} /></span></li>;
}
