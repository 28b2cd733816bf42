//! Questions of people and tests to an engine. Nothing here changes the engine.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use maple_wire::Dpid;

use super::Engine;
use crate::access::AccessList;
use crate::engine::beforehand::explore;
use crate::engine::context::stats::Stats;
use crate::engine::decisions::line_view::LineUse;
use crate::engine::decisions::rule_view::TableRule;
use crate::engine::messages::event::ReportedRule;
use crate::engine::one_switch::counters::drops::Dropped;
use crate::engine::one_switch::ingress::exploration::Exploration;
use crate::engine::one_switch::look_up_tables::LookUpStatus;
use crate::engine::one_switch::switch_counts::SwitchCounts;
use crate::engine::tools::histogram::Histogram;
use crate::engine::{PortCount, Traffic, Unsettled, ViolationKey};
use crate::explain::{Admission, EnteringPacket, LeafView, Passage, RunConditions};
use crate::ids::{LeafId, Time};
use crate::labels::LabelView;
use crate::network::Location;
use crate::report::CounterKind;

/// An engine as it is: what it knows, has decided and counted. [`Engine::view`] makes it.
#[derive(Clone, Copy, Debug)]
pub struct EngineView<'a>(pub(super) &'a Engine);

impl<'a> EngineView<'a> {
    /// Returns the conditions under which policies run.
    pub fn conditions(self) -> RunConditions {
        let listener_filters = Arc::clone(&self.0.fabric.ctx.options.listener_filters);
        RunConditions { track_hosts: self.0.fabric.ctx.options.track_hosts, listener_filters }
    }

    /// Returns the admission of a packet that enters: the writes that it causes before the policy decides about it, or
    /// the reason why it does not.
    pub fn admit(self, packet: &EnteringPacket) -> Admission {
        self.0.topology.admit(&self.0.fabric, packet)
    }

    /// Returns the leaf that answers a packet, if there is one. `is_learned`: the packet teaches first that its source
    /// is where it comes in.
    pub fn leaf_view(self, packet: &EnteringPacket, is_learned: bool) -> Option<LeafView> {
        self.0.decisions.leaf_view(&self.0.fabric, packet, is_learned)
    }

    /// Returns what exploration has found at a switch. `None` if the switch is not explored, or not yet.
    pub fn exploration(self, dpid: Dpid) -> Option<Exploration> {
        explore::found(&self.0.decisions, &self.0.fabric.ctx.options, self.0.fabric.switches.get(&dpid)?)
    }

    /// Passes a frame that comes in by a port through the rules that the switch has. `None` if this shard does not
    /// serve the switch.
    pub fn passage(self, at: Location, frame: &[u8]) -> Option<Passage> {
        self.0.decisions.passage(&self.0.fabric, at, frame)
    }

    /// Returns the witness packet of a leaf: the policy ran on it.
    pub fn witness(self, leaf: LeafId) -> Option<EnteringPacket> {
        self.0.decisions.witness(leaf)
    }

    /// Returns the counters of this shard so far.
    pub fn stats(self) -> Stats {
        let switches = || self.0.fabric.switches.values();
        Stats {
            leaves: self.0.decisions.leaves.len() as u64,
            rules: switches().map(|switch| switch.tables.count(None) as u64).sum(),
            labels: switches().map(|switch| switch.paths.labels.len() as u64).sum(),
            routes: self.0.fabric.routes.len() as u64,
            open_questions: switches().map(|switch| explore::count_open(&self.0.fabric.ctx.options, switch)).sum(),
            ..self.0.fabric.ctx.stats
        }
    }

    /// Returns the times from the decision of leaves, or their change to another route, to the confirmation of their
    /// rules.
    pub fn install_times(self) -> Histogram {
        self.0.fabric.ctx.install_times()
    }

    /// Returns the number of packets that the policy has decided, or failed on.
    pub fn decided(self) -> u64 {
        self.0.fabric.ctx.stats.misses
    }

    /// Returns the number of packets that wait until something that the policy read changes.
    pub fn parked(self) -> usize {
        self.0.decisions.undecided.parked()
    }

    /// Returns the number of watches.
    pub fn watches(self) -> usize {
        self.0.live.watches()
    }

    /// Returns what the open waits for removals still wait for.
    pub fn unsettled(self) -> Vec<Unsettled> {
        self.0.decisions.unsettled(&self.0.fabric)
    }

    /// Returns the reported errors of the policy, each with the number of packets that were dropped because of it.
    pub fn failures(self) -> Vec<(Arc<str>, u64)> {
        self.0.fabric.ctx.reports().failures().map(|(error, count)| (Arc::clone(error), count)).collect()
    }

    /// Returns the routes that constraints refused, by constraint and line, each with the number of times.
    pub fn violations(self) -> Vec<(ViolationKey, u64)> {
        self.0.fabric.ctx.reports().violations().map(|(key, count)| (key.clone(), count)).collect()
    }

    /// Returns the access lists of the policy, each with the packets that its rules have decided here, in the order of
    /// [`AccessList::rules`].
    pub fn access_hits(self) -> Vec<(Arc<AccessList>, Vec<u64>)> {
        self.0.decisions.access_hits()
    }

    /// Reports whether the policy wants something measured and the engine has not noticed, because nothing happens at
    /// its switches. The engine then needs an [`Event::Tick`](crate::Event::Tick).
    pub fn is_behind_demand(self) -> bool {
        self.0.fabric.switches.is_behind_demand(&self.0.fabric.ctx)
    }

    /// Returns the switches that this shard serves, in order.
    pub fn switches(self) -> impl Iterator<Item = Dpid> + 'a {
        self.0.fabric.switches.keys().copied()
    }

    /// Reports whether this shard has the switch, and the switch has no connection.
    pub fn is_unreachable(self, dpid: Dpid) -> bool {
        self.0.fabric.switches.is_unreachable(dpid)
    }

    /// Reports whether the configuration names this switch.
    pub fn is_declared(self, dpid: Dpid) -> bool {
        self.0.fabric.ctx.store.shared().snapshot().facts().names(dpid)
    }

    /// Returns the numbers of rules, labels and leaves of a switch. `None` if this shard does not serve it.
    pub fn switch_counts(self, dpid: Dpid) -> Option<SwitchCounts> {
        self.0.fabric.switches.get(&dpid).map(|switch| switch.counts())
    }

    /// Returns the rules that a switch has, as it would report them.
    pub fn installed(self, dpid: Dpid) -> Vec<ReportedRule> {
        self.0.fabric.switches.get(&dpid).map(|switch| switch.installed()).unwrap_or_default()
    }

    /// Returns the rules of a switch, by table and descending priority, with the cookies that it reports; empty if this
    /// shard does not serve it.
    pub fn rules(self, dpid: Dpid) -> Vec<TableRule> {
        self.0.decisions.rules(&self.0.fabric, dpid)
    }

    /// Returns what rests on each line of the policy's source in this shard, by file and line.
    pub fn by_line(self) -> BTreeMap<(Arc<str>, u32), LineUse> {
        self.0.decisions.by_line(&self.0.fabric)
    }

    /// Returns the look-ups that runs have asked for at a switch; `None` if this shard does not serve it.
    pub fn look_ups(self, dpid: Dpid) -> Option<Vec<LookUpStatus>> {
        let switch = self.0.fabric.switches.get(&dpid)?;
        Some(switch.ingress.look_ups.status(switch.layout()))
    }

    /// Reports whether one decision may be for all places that a look-up finds at a switch, which takes action sets.
    /// `None` if the switch has no tables for look-ups, or the options don't allow it anywhere.
    pub fn action_sets(self, dpid: Dpid) -> Option<bool> {
        let switch = self.0.fabric.switches.get(&dpid).filter(|_| self.0.fabric.ctx.options.open_routes)?;
        (!switch.layout().look_ups().is_empty()).then(|| switch.layout().has_action_sets())
    }

    /// Returns the labels by which packets arrive at a switch; `None` if this shard does not serve it.
    pub fn labels(self, dpid: Dpid) -> Option<Vec<LabelView>> {
        self.0.fabric.switches.get(&dpid).map(|switch| switch.paths.labels.views())
    }

    /// Returns the trace tree of a switch as text; empty if this shard does not serve the switch.
    pub fn tree(self, dpid: Dpid) -> String {
        self.0.fabric.switches.get(&dpid).map(|switch| switch.tree_text()).unwrap_or_default()
    }

    /// Returns the counters of a switch's ports; empty before it was asked.
    pub fn port_counts(self, dpid: Dpid) -> Vec<PortCount> {
        self.0.fabric.switches.port_counts(dpid)
    }

    /// Returns the counters of a switch's ingress rules, by pair of hosts; empty before it was asked.
    pub fn traffic(self, dpid: Dpid) -> Vec<Traffic> {
        let line_of = |leaf| self.0.decisions.leaves.get(&leaf)?.origin.line.as_ref();
        self.0.fabric.switches.traffic(&self.0.fabric.ctx, dpid, line_of)
    }

    /// Returns when a switch last answered with these counters.
    pub fn counted_at(self, dpid: Dpid, what: CounterKind) -> Option<Time> {
        self.0.fabric.switches.counted_at(dpid, what)
    }

    /// Returns the drops at a switch in the last `minutes` minutes, the current one included; empty if this shard does
    /// not serve the switch.
    pub fn drops(self, dpid: Dpid, minutes: u64) -> Vec<Dropped> {
        self.0.fabric.switches.drops(&self.0.fabric.ctx, dpid, minutes)
    }

    /// Returns the drops at a switch in these minutes since time 0, as far as they are kept; empty if this shard does
    /// not serve the switch.
    pub fn drops_of_minutes(self, dpid: Dpid, minutes: Range<u64>) -> Vec<Dropped> {
        self.0.fabric.switches.drops_of_minutes(dpid, minutes)
    }
}
