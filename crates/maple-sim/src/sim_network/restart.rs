//! Restarts of the controller: messages under way to it are lost, and a new one begins with what the old one
//! remembered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use maple_core::engine::{Engine, Event, Options, ReportedRule, ShardId};
use maple_core::ids::LeafId;
use maple_core::memory::{Surroundings, Witness};
use maple_core::policy::Policy;
use maple_core::state::Write;
use maple_wire::Dpid;

use super::{Channel, Happening, SimNetwork, SimSwitch, new_store};

/// The memory of the old controller for its next run.
#[derive(Debug, Default)]
pub(super) struct Memory {
    witnesses: BTreeMap<LeafId, Witness>,
    /// The surroundings at some earlier time; `None` for those at the end of the run.
    surroundings: Option<Arc<Surroundings>>,
    /// The state of the restoration after a restart, until the rules of all switches were read.
    restoring: Option<Restoring>,
    /// The switches whose rules were requested and not reported yet, if reports are held back.
    unread: Option<BTreeSet<Dpid>>,
    /// Whether another controller reports the rules of switches to the new one; with `None`, it does for some switches,
    /// and may miss some rules.
    reports_rules: Option<bool>,
}

#[derive(Debug)]
struct Restoring {
    witnesses: BTreeMap<Dpid, Vec<Witness>>,
    earlier: Arc<Surroundings>,
    /// The rules of switches; `None` if they are not read yet.
    rules: BTreeMap<Dpid, Option<Vec<ReportedRule>>>,
    /// The switches that are up.
    up: BTreeSet<Dpid>,
    /// Whether to wait for all rules before anything is presumed, as for switches that come late.
    waits_for_rules: bool,
    /// The shard that has presumed the surroundings of the switches.
    presumed_by: Option<ShardId>,
}

impl Memory {
    /// Records leaves that came, changed or went.
    pub fn note(&mut self, leaves: Vec<(LeafId, Option<Witness>)>) {
        for (id, witness) in leaves {
            match witness {
                Some(witness) => drop(self.witnesses.insert(id, witness)),
                None => drop(self.witnesses.remove(&id)),
            }
        }
    }
}

impl SimNetwork {
    /// Remembers the present surroundings for the next run: locations and the meanings of labels.
    pub fn remember_surroundings(&mut self) {
        self.controller.memory.surroundings = Some(Arc::new(Surroundings::from_store(&self.store)));
    }

    /// Stops the reports of switches about their rules, until [`SimNetwork::report_rules`].
    pub fn hold_rules_back(&mut self) {
        self.controller.memory.unread = Some(BTreeSet::new());
    }

    /// Lets switches report their rules.
    pub fn report_rules(&mut self) {
        for dpid in self.controller.memory.unread.take().unwrap_or_default() {
            let rules = self.wiring.switches.get(&dpid).map(SimSwitch::flows).unwrap_or_default();
            self.rules_read(dpid, rules);
        }
    }

    /// Sets whether another controller reports the rules of switches to the new one at a restart.
    pub fn restart_with_rules(&mut self, are_reported: bool) {
        self.controller.memory.reports_rules = Some(are_reported);
    }

    /// Forgets the witness packets of some leaves.
    pub fn forget_witnesses(&mut self, mut forgotten: impl FnMut(LeafId) -> bool) {
        self.controller.memory.witnesses.retain(|id, _| !forgotten(*id));
    }

    /// Returns the number of leaves that the next run will know.
    pub fn remembered(&self) -> usize {
        self.controller.memory.witnesses.len()
    }

    /// Lets the next run of the controller begin with this policy, whatever ran before.
    pub fn succeed_by(&mut self, policy: Arc<dyn Policy>) {
        self.controller.adopted = self.controller.policies.len();
        self.controller.policies.push(policy);
    }

    /// Kills the controller and starts another one with this many shards. Returns the number of reloads that led to the
    /// policy that it runs.
    pub fn restart_controller(&mut self, shards: u8) -> usize {
        let old = self.store.snapshot();
        let earlier = self
            .controller
            .memory
            .surroundings
            .take()
            .unwrap_or_else(|| Arc::new(Surroundings::from_store(&self.store)));
        let mut witnesses: BTreeMap<Dpid, Vec<Witness>> = BTreeMap::new();
        for witness in std::mem::take(&mut self.controller.memory.witnesses).into_values() {
            witnesses.entry(witness.at.switch).or_default().push(witness);
        }
        (self.store, self.controller.trail) = new_store();
        let persistent = |write: &Write| !matches!(write, Write::Types { .. } | Write::Kind { .. });
        self.store.update(|_| old.of_users().into_iter().filter(persistent).collect());
        self.controller.options =
            Options { epoch: self.controller.options.epoch + 1, ..self.controller.options.clone() };
        // Reloads that were not over count as if they had never begun.
        self.controller.policies.truncate(self.controller.adopted + 1);
        let (store, policy, options) =
            (&self.store, &self.controller.policies[self.controller.adopted], &self.controller.options);
        let engine = |shard| Engine::new(ShardId(shard), store.clone(), policy.clone(), options.clone());
        self.controller.engines = (0..shards.max(1)).map(engine).collect();
        // Messages that the old controller has sent arrive. The answers of switches are lost with the connection.
        for (time, happening) in std::mem::take(&mut self.schedule.queue) {
            match happening {
                Happening::Message(dpid, xid, message) => self.at_switch(dpid, xid, *message),
                Happening::Frame(..) => drop(self.schedule.queue.insert(time, happening)),
                Happening::Event(..) | Happening::ReadRules(_) => {}
            }
        }
        self.schedule.queue.retain(|_, happening| matches!(happening, Happening::Frame(..)));
        self.schedule.last.retain(|channel, _| matches!(channel, Channel::Link(_)));
        self.wiring.unheard.clear();
        self.wiring.away.clear();
        self.controller.waits.clear();
        self.controller.candidate = None;
        let dpids: Vec<Dpid> = self.wiring.switches.keys().copied().collect();
        let rules = dpids.iter().map(|dpid| (*dpid, None)).collect();
        let waits_for_rules = self.schedule.random.below(2) == 0 && self.controller.memory.unread.is_none();
        let up = BTreeSet::new();
        self.controller.memory.restoring =
            Some(Restoring { witnesses, earlier, rules, up, waits_for_rules, presumed_by: None });
        for dpid in dpids {
            self.wiring.shards.insert(dpid, ShardId((dpid.0 % self.controller.engines.len() as u64) as u8));
            self.announce(dpid);
        }
        self.controller.adopted
    }

    /// Forgets the earlier run after [`SimNetwork::restart_controller`], as without a state file. The state of users
    /// stays.
    pub fn forget_earlier_run(&mut self) {
        self.controller.memory.restoring = None;
    }

    /// Records that the engine knows that a switch is up, because it asks for the switch's rules.
    pub(super) fn note_up(&mut self, dpid: Dpid) {
        if let Some(restoring) = &mut self.controller.memory.restoring {
            restoring.up.insert(dpid);
        }
    }

    /// Reports the rules of a switch that was asked for them. The engine gets those of an earlier run after what is
    /// remembered.
    pub(super) fn rules_read(&mut self, dpid: Dpid, rules: Vec<ReportedRule>) {
        if let Some(unread) = &mut self.controller.memory.unread {
            unread.insert(dpid);
            return;
        }
        let Some(restoring) =
            self.controller.memory.restoring.as_mut().filter(|restoring| restoring.rules.contains_key(&dpid))
        else {
            return self.notify(dpid, Event::RulesRead { dpid, rules });
        };
        restoring.rules.insert(dpid, Some(rules));
        self.continue_restoring();
    }

    /// Presumes the surroundings of the switches as soon as all are up or their rules are read, and restores them.
    pub(super) fn continue_restoring(&mut self) {
        let Some(restoring) = &mut self.controller.memory.restoring else { return };
        let are_all_there = if restoring.waits_for_rules {
            restoring.rules.values().all(Option::is_some)
        } else {
            restoring.rules.keys().all(|dpid| restoring.up.contains(dpid))
        };
        if restoring.presumed_by.is_none() && are_all_there {
            let first = ShardId(self.schedule.random.below(self.controller.engines.len()) as u8);
            restoring.presumed_by = Some(first);
            let (earlier, mut witnesses) = (Arc::clone(&restoring.earlier), std::mem::take(&mut restoring.witnesses));
            let switches: BTreeSet<Dpid> = restoring.rules.keys().copied().collect();
            self.wake(first, vec![Event::Presume { earlier: Arc::clone(&earlier), switches: switches.clone() }]);
            for dpid in switches {
                let (witnesses, earlier) = (witnesses.remove(&dpid).unwrap_or_default(), Arc::clone(&earlier));
                let rules = self.reported_rules(dpid);
                self.after_presuming(first, dpid, Event::Restore { dpid, rules, witnesses, earlier });
            }
        }
        let Some(restoring) = &mut self.controller.memory.restoring else { return };
        let Some(first) = restoring.presumed_by else { return };
        let read: Vec<Dpid> =
            restoring.rules.iter().filter(|(_, rules)| rules.is_some()).map(|(dpid, _)| *dpid).collect();
        let rules_of = |dpid| Some((dpid, restoring.rules.remove(&dpid)??));
        let read: Vec<(Dpid, Vec<ReportedRule>)> = read.into_iter().filter_map(rules_of).collect();
        if restoring.rules.is_empty() {
            self.controller.memory.restoring = None;
        }
        for (dpid, rules) in read {
            self.after_presuming(first, dpid, Event::RulesRead { dpid, rules });
        }
    }

    /// Returns the rules of a switch as another controller reports them at a take-over. Some of them may be missing.
    fn reported_rules(&mut self, dpid: Dpid) -> Option<Vec<ReportedRule>> {
        let mut rules = self.wiring.switches.get(&dpid)?.flows();
        if let Some(are_reported) = self.controller.memory.reports_rules {
            return are_reported.then_some(rules);
        }
        match self.schedule.random.below(4) {
            0 => rules.retain(|_| self.schedule.random.below(20) > 0),
            1 => {}
            _ => return None,
        }
        Some(rules)
    }

    /// Sends an event to a shard after the mail of the shard that presumed.
    fn after_presuming(&mut self, first: ShardId, dpid: Dpid, event: Event) {
        let shard = self.wiring.shards[&dpid];
        self.schedule(Channel::Mail(first, shard), Happening::Event(shard, Box::new(event)));
    }
}
