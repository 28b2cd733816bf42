//! Rehearsal: finds what the adoption of a candidate would change, without changing it.
//!
//! # What
//!
//! A rehearsal has a copy of each engine of a controller and of their store. There the candidate is tried and adopted,
//! as in `reload.rs`. Switches answer every request at once, and simulated time jumps from timer to timer. When nothing
//! is under way and no label rests any more, the rules that the engines assume their switches to have are compared with
//! the earlier ones. Time begins with the last batch of an engine, which may be long ago: labels rest from there.
//!
//! # Why it is exact
//!
//! Engines are deterministic, and adoption runs the same code. The copies cannot know what happens meanwhile: packets
//! that come, and state that changes. The ids that the copies gave to new labels are kept for them
//! ([`Rehearsed::reserve`]), because otherwise the order of messages between shards would decide.
//!
//! # Cost
//!
//! The memory of the engines once more, and the time to copy it while a shard does nothing else. The candidate runs in
//! the thread of the rehearsal, not in a shard.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use maple_wire::msg::Message;
use maple_wire::{Dpid, Port, Version};

use crate::access::AccessList;
use crate::engine::context::options::Options;
use crate::engine::context::uses::EngineStore;
use crate::engine::decisions::rule_view::TableRule;
use crate::engine::dispatch::Engine;
use crate::engine::dispatch::copy::EngineCopy;
use crate::engine::messages::event::{Effect, Event, ReportedRule};
use crate::engine::messages::trial::{Candidate, DecidedPacket, Trial};
use crate::engine::one_switch::Switch;
use crate::ids::{DependentId, ShardId, Time};
use crate::labels::RehearsedLabel;
use crate::memory::{Surroundings, SwitchModel, Witness};
use crate::policy::Policy;
use crate::state::{KeptLabel, Store};
use crate::update::entry_key;

/// The maximum simulated time of one [`Rehearsal::run`] of remembered packets. It is longer than a reroute may take,
/// and shorter than what is presumed of links and hosts lasts without being confirmed.
const SPAN: Duration = Duration::from_secs(5);
/// The maximum number of further runs until all remembered packets are decided. Chosen: with [`SPAN`] for each they
/// bound a rehearsal to a minute of simulated time.
const MAX_ROUNDS: usize = 12;
/// The model that is assumed for a switch whose model is not known.
const UNKNOWN: SwitchModel =
    SwitchModel { version: Version::Of13, tables: 254, is_open_vswitch: true, has_bundles: true };
/// The maximum number of batches of one [`Rehearsal::run`]. Chosen: it ends a run whose timers would fire without end,
/// and no network gets near it within [`SPAN`].
const MAX_BATCHES: usize = 1_000_000;

/// Copies of all engines of a controller, at rest.
pub struct Rehearsal {
    engines: Vec<Engine>,
    store: Arc<Store>,
    now: Time,
    /// The maximum simulated time of a run: until nothing is under way, and in the copies of a network no label of a
    /// switch rests that was forgotten.
    span: Duration,
    /// The rules of all switches before the candidate is adopted.
    before: BTreeMap<Dpid, Vec<TableRule>>,
}

/// The outcome of a rehearsal.
#[derive(Debug)]
pub struct Rehearsed {
    /// The outcome of the trial, summed over all shards.
    pub trial: Trial,
    /// The differences between the rules of each switch before and after, by table and descending priority. Switches
    /// without differences are left out.
    pub rules: BTreeMap<Dpid, Vec<RuleDifference>>,
    /// The new labels of the copies, by switch.
    labels: BTreeMap<Dpid, Vec<RehearsedLabel>>,
}

/// A difference in one entry of a switch's tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleDifference {
    /// A rule is added.
    Add(TableRule),
    /// A rule with this table, priority and match does something else, or has another cookie.
    Change {
        /// The rule before.
        before: TableRule,
        /// The rule after.
        after: TableRule,
    },
    /// A rule is deleted.
    Delete(TableRule),
}

impl Rehearsal {
    /// Returns the access lists of the policy that decides.
    pub fn access_lists(&self) -> Vec<Arc<AccessList>> {
        self.engines.first().map(|engine| engine.decisions.policy.access_lists()).unwrap_or_default()
    }

    /// Builds a rehearsal from copies of all engines, in the order of their shards.
    ///
    /// # Errors
    /// Returns a switch whose rules are not known yet: its engine is asking for them, or restores what was remembered.
    pub fn new(copies: Vec<EngineCopy>) -> Result<Rehearsal, Dpid> {
        let mut engines: Vec<Engine> = copies.into_iter().map(|EngineCopy(engine)| engine).collect();
        if let Some(dpid) = engines.iter().find_map(|engine| engine.fabric.switches.first_unread()) {
            return Err(dpid);
        }
        let store = engines.first().map_or_else(Store::new, |engine| engine.fabric.ctx.store.shared().copy());
        engines.iter_mut().for_each(|engine| engine.fabric.ctx.store = EngineStore::new(Arc::clone(&store)));
        let now = engines.iter().map(|engine| engine.fabric.ctx.now()).max().unwrap_or_default();
        let rests = engines.first().map(|engine| engine.fabric.ctx.options.lost_quarantine).unwrap_or_default();
        let mut rehearsal = Rehearsal { engines, store, now, span: SPAN + rests, before: BTreeMap::new() };
        let events = rehearsal
            .engines
            .iter()
            .map(|engine| engine.fabric.switches.unanswered().chain([Event::Tick]).collect())
            .collect();
        rehearsal.engines.iter_mut().for_each(catch_up);
        rehearsal.run(events);
        rehearsal.begin();
        Ok(rehearsal)
    }

    /// Builds a rehearsal of the network that an earlier run left. The policy decides the remembered packets again, at
    /// switches that have the rules for its decisions. A switch whose abilities are not known counts as Open vSwitch
    /// with OpenFlow 1.3.
    pub fn of_remembered(
        policy: Arc<dyn Policy>,
        store: Arc<Store>,
        options: Options,
        earlier: Surroundings,
        mut witnesses: BTreeMap<Dpid, Vec<Witness>>,
    ) -> Rehearsal {
        let engine = Engine::new(ShardId(0), Arc::clone(&store), policy, options.quiet());
        let earlier = Arc::new(earlier);
        let mut rehearsal =
            Rehearsal { engines: vec![engine], store, now: Time(1), span: SPAN, before: BTreeMap::new() };
        let switches: BTreeSet<Dpid> = earlier.switches().into_iter().chain(witnesses.keys().copied()).collect();
        for dpid in &switches {
            let known = earlier.models.iter().find(|(of, _)| of == dpid).map(|(_, model)| *model);
            let ports: Vec<Port> =
                earlier.ports_of(*dpid).into_iter().map(|port| Port::new(port, [0; 6], "")).collect();
            let engine = &mut rehearsal.engines[0];
            engine.fabric.ctx.advance(rehearsal.now);
            engine.topology.on_switch_up(
                &mut engine.fabric,
                *dpid,
                known.unwrap_or(UNKNOWN).capabilities(*dpid),
                &ports,
            );
        }
        rehearsal.run(vec![vec![Event::Tick]]);
        let presume = Event::Presume { earlier: Arc::clone(&earlier), switches: switches.clone() };
        let restore = |dpid: &Dpid| {
            let rules = rehearsal.engines[0].view().rules(*dpid).into_iter().map(installed).collect();
            let witnesses = witnesses.remove(dpid).unwrap_or_default();
            let restore = Event::Restore { dpid: *dpid, rules: None, witnesses, earlier: Arc::clone(&earlier) };
            [restore, Event::RulesRead { dpid: *dpid, rules }]
        };
        let events = std::iter::once(presume).chain(switches.iter().flat_map(restore).collect::<Vec<_>>()).collect();
        rehearsal.run(vec![events]);
        // f may be slow.
        for _ in 0..MAX_ROUNDS {
            if rehearsal.engines[0].fabric.switches.first_unread().is_none() {
                break;
            }
            rehearsal.run(vec![Vec::new()]);
        }
        rehearsal.begin();
        rehearsal
    }

    /// Makes the present rules and state what later ones are compared with.
    fn begin(&mut self) {
        self.before = self.rules();
        let state = self.store.snapshot();
        self.engines.iter_mut().for_each(|engine| engine.reload.compared = Some(Arc::clone(&state)));
    }

    /// Returns the store of the copies. Writes to it before the candidate is adopted are part of the rehearsal, such as
    /// those of a policy's file while it is loaded.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Returns the witness packets of all leaves.
    pub fn packets(&self) -> BTreeSet<DecidedPacket> {
        let decided_by = |engine: &Engine| -> Vec<DecidedPacket> {
            let leaves = engine.decisions.leaves.keys().filter_map(|id| engine.decisions.leaves.get(id));
            leaves.map(|leaf| DecidedPacket::from_received(&leaf.witness)).collect()
        };
        self.engines.iter().flat_map(decided_by).collect()
    }

    /// Tries and adopts a candidate.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use maple_core::engine::{Candidate, Engine, Options, Rehearsal, ShardId};
    /// use maple_core::{Net, PacketHandle, Route, Store};
    ///
    /// let flood = |_: &PacketHandle, _: &Net| Route::flood();
    /// let drop = |_: &PacketHandle, _: &Net| Route::drop();
    /// let engine = Engine::new(ShardId(0), Store::new(), Arc::new(flood), Options::default());
    /// let rehearsal = Rehearsal::new(vec![engine.copy()]).expect("there is no switch");
    /// let rehearsed = rehearsal.adopt(&Candidate { number: 1, policy: Arc::new(drop) });
    /// assert!(rehearsed.rules.is_empty() && rehearsed.trial.leaves == 0);
    /// ```
    pub fn adopt(mut self, candidate: &Candidate) -> Rehearsed {
        let before = std::mem::take(&mut self.before);
        let newest = self.newest_labels();
        let mut trial = Trial::default();
        self.engines.iter_mut().for_each(catch_up);
        for tried in self.run(self.all(&Event::Try(candidate.clone()))) {
            trial += tried;
        }
        self.run(self.all(&Event::Adopt(candidate.clone())));
        let after = self.rules();
        let dpids = before.keys().chain(after.keys());
        let mut rules: BTreeMap<Dpid, Vec<RuleDifference>> = BTreeMap::new();
        for dpid in dpids {
            let rules_in = |all: &BTreeMap<Dpid, Vec<TableRule>>| all.get(dpid).cloned().unwrap_or_default();
            let differences = differences(rules_in(&before), rules_in(&after));
            if !differences.is_empty() {
                rules.insert(*dpid, differences);
            }
        }
        let new_labels = |dpid: Dpid, switch: &Switch| {
            switch.paths.labels.newer_than(newest.get(&dpid).copied().unwrap_or_default())
        };
        let labels = self.switches().map(|(dpid, switch)| (dpid, new_labels(dpid, switch))).collect();
        Rehearsed { trial, rules, labels }
    }

    fn switches(&self) -> impl Iterator<Item = (Dpid, &Switch)> {
        self.engines.iter().flat_map(|engine| engine.fabric.switches.iter().map(|(dpid, switch)| (*dpid, &**switch)))
    }

    /// Returns the serial number of the newest label of each switch.
    fn newest_labels(&self) -> BTreeMap<Dpid, u64> {
        self.switches().map(|(dpid, _)| (dpid, self.store.with_label_ids(dpid, |ids| ids.newest()))).collect()
    }

    fn rules(&self) -> BTreeMap<Dpid, Vec<TableRule>> {
        self.engines
            .iter()
            .flat_map(|engine| engine.fabric.switches.switches().map(|dpid| (dpid, engine.view().rules(dpid))))
            .collect()
    }

    /// Returns a copy of the event for each engine.
    fn all(&self, event: &Event) -> Vec<Vec<Event>> {
        self.engines.iter().map(|_| vec![event.clone()]).collect()
    }

    /// Gives the engines their events, and runs them until nothing is under way. Returns the trials that ended.
    fn run(&mut self, mut events: Vec<Vec<Event>>) -> Vec<Trial> {
        let end = self.now + self.span;
        let mut trials = Vec::new();
        for _ in 0..MAX_BATCHES {
            let is_due = |engine: &Engine| engine.next_deadline().is_some_and(|deadline| deadline <= self.now);
            let next =
                (0..self.engines.len()).find(|shard| !events[*shard].is_empty() || is_due(&self.engines[*shard]));
            let Some(shard) = next else {
                let next = self.engines.iter().filter_map(Engine::next_deadline).min().filter(|next| *next <= end);
                let Some(next) = next else { break };
                self.now = next;
                continue;
            };
            let mut effects = Vec::new();
            self.engines[shard].handle(self.now, &mut events[shard], &mut effects);
            for effect in effects {
                match effect {
                    Effect::Send { dpid, xid, message: Message::BarrierRequest } => {
                        events[shard].push(Event::BarrierReply { dpid, xid });
                    }
                    Effect::Poll { dpid, xid, .. } => events[shard].push(Event::Unsent { dpid, xid }),
                    Effect::ReadRules { dpid } => {
                        let rules = self.engines[shard].view().rules(dpid).into_iter().map(installed).collect();
                        events[shard].push(Event::RulesRead { dpid, rules });
                    }
                    Effect::Mail { to: ShardId(to), mail } => {
                        events.get_mut(usize::from(to)).into_iter().for_each(|to| to.push(Event::Mail(mail.clone())));
                    }
                    Effect::Tried { trial, .. } => trials.push(trial),
                    Effect::Send { .. }
                    | Effect::Reconnect { .. }
                    | Effect::AskPorts { .. }
                    | Effect::ListenerPacket(_)
                    | Effect::Live { .. }
                    | Effect::BarriersDone(_)
                    | Effect::RuleCounted { .. }
                    | Effect::Adopted { .. }
                    | Effect::Remember(_)
                    | Effect::Departed { .. }
                    | Effect::Report(_) => {}
                }
            }
        }
        trials
    }
}

impl Rehearsed {
    /// Reports whether nothing would change, neither decisions nor rules.
    pub fn is_same(&self) -> bool {
        self.trial.counts.is_empty() && self.rules.is_empty()
    }

    /// Reserves the ids of the copies' new labels in the store of the controller that is about to adopt the candidate.
    pub fn reserve(&self, store: &Store) {
        let named = |(switch, label): (Dpid, &RehearsedLabel)| {
            let RehearsedLabel { key, meaning, serial } = *label;
            KeptLabel { switch, port: key.port, id: key.id, meaning, serial }
        };
        let all = self.labels.iter().flat_map(|(dpid, labels)| labels.iter().map(|label| (*dpid, label)));
        store.rehearse_labels(&all.map(named).collect::<Vec<_>>());
    }
}

impl RuleDifference {
    /// Returns the rules before and after.
    pub fn sides(&self) -> (Option<&TableRule>, Option<&TableRule>) {
        match self {
            RuleDifference::Add(rule) => (None, Some(rule)),
            RuleDifference::Change { before, after } => (Some(before), Some(after)),
            RuleDifference::Delete(rule) => (Some(rule), None),
        }
    }
}

/// Returns the differences between two sets of rules of a switch.
fn differences(before: Vec<TableRule>, after: Vec<TableRule>) -> Vec<RuleDifference> {
    let key = |rule: &TableRule| (rule.table_id, entry_key(rule.rule.priority, &rule.rule.matching));
    let mut old: BTreeMap<_, TableRule> = before.into_iter().map(|rule| (key(&rule), rule)).collect();
    let new: BTreeMap<_, TableRule> = after.into_iter().map(|rule| (key(&rule), rule)).collect();
    let mut all = BTreeMap::new();
    for (key, after) in new {
        match old.remove(&key) {
            None => drop(all.insert(key, RuleDifference::Add(after))),
            Some(before) if before.rule != after.rule => {
                all.insert(key, RuleDifference::Change { before, after });
            }
            Some(_) => {}
        }
    }
    all.extend(old.into_iter().map(|(key, before)| (key, RuleDifference::Delete(before))));
    all.into_values().collect()
}

fn installed(rule: TableRule) -> ReportedRule {
    let TableRule { table_id, rule, .. } = rule;
    let instructions = rule.instructions.to_vec();
    ReportedRule { table_id, priority: rule.priority, cookie: rule.cookie, matching: rule.matching, instructions }
}

impl fmt::Debug for Rehearsal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rehearsal").field("shards", &self.engines.len()).field("now", &self.now).finish_non_exhaustive()
    }
}

/// Marks as stale all leaves and routes that the store does not know as current, so that they are decided again.
fn catch_up(engine: &mut Engine) {
    let leaves = engine.decisions.leaves.keys().map(|leaf| DependentId::from(*leaf));
    let dependents = leaves.chain(engine.fabric.routes.subscriptions());
    let stale: Vec<DependentId> =
        dependents.filter(|dependent| !engine.fabric.ctx.store.is_current(*dependent)).collect();
    engine.fabric.ctx.catch_up(stale);
}
