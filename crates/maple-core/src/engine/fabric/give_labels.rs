//! Labels of this shard's switches: given out, kept, taken back.

use maple_wire::{Constraint, Dpid};

use super::Fabric;
use crate::engine::context::timers::Timer;
use crate::engine::one_switch::Stale;
use crate::engine::one_switch::ports::is_virtual;
use crate::engine::one_switch::restoring::RESTORE_POLL;
use crate::forwarding::has_vlan;
use crate::ids::Time;
use crate::labels::{Acquire, Holder, LabelEffect, LabelIds, LabelTable, News, Refusal};
use crate::network::{Location, PortKind};

impl Fabric {
    /// Gives a holder a label of a switch of this shard, or refuses it. The request waits until all rules of an earlier
    /// run are known.
    pub fn acquire_label(&mut self, asked: Acquire) {
        if self.ctx.store.restoring(|all| !all.unread.is_empty()) {
            self.ctx.wake_at(self.ctx.now() + RESTORE_POLL, Timer::EarlyRequests);
            return self.early_requests.push(asked);
        }
        if let Some(why) = self.label_refusal(&asked) {
            return self.notify_holder(asked.at.switch, asked.holder, News::Refused(why));
        }
        let range = self.ctx.options.labels;
        let Location { switch, port } = asked.at;
        // Packets that arrive by the port must not match rules for hosts that were there before.
        let is_expected = self.switches.get(&switch).is_some_and(|switch| switch.paths.labels.expects(port));
        self.with_labels(switch, |labels, ids, now, out| labels.acquire(now, asked, ids, range, out));
        if !is_expected {
            self.mark_stale(switch, Stale::CLASSIFIER);
        }
    }

    /// Handles the requests that waited until all rules of an earlier run were known.
    pub fn acquire_early_labels(&mut self) {
        std::mem::take(&mut self.early_requests).into_iter().for_each(|asked| self.acquire_label(asked));
    }

    /// Returns the reason why a label cannot be given out; `None` if it can.
    fn label_refusal(&mut self, asked: &Acquire) -> Option<Refusal> {
        let dpid = asked.at.switch;
        let state = self.ctx.store.snapshot();
        if is_virtual(asked.at.port) {
            return Some(Refusal::Segment(dpid));
        }
        let is_link = state.port(asked.at).is_some_and(|port| matches!(port.kind, PortKind::Link(_)));
        let Some(switch) = self.switches.get(&dpid).filter(|_| is_link) else { return Some(Refusal::Gone(dpid)) };
        if switch.is_unreachable() && !(switch.paths.labels.has(asked) && switch.paths.labels.expects(asked.at.port)) {
            return Some(Refusal::Unreachable(dpid));
        }
        if switch.paths.labels.has(asked) {
            return None;
        }
        let needs = asked.suffix.exit.iter().flat_map(|exit| &exit.needs).copied();
        let mut all: Vec<Constraint> =
            needs.chain([has_vlan(self.ctx.options.labels.ids().min().unwrap_or(1))]).collect();
        all.sort_unstable();
        if !switch.capabilities().can_match_all(&all) {
            return Some(Refusal::Unmatchable(dpid));
        }
        let is_full = switch.room.is_closed_at(self.ctx.now());
        (is_full || !self.make_room_for_rule(dpid)).then_some(Refusal::Full(dpid))
    }

    /// Takes a label of a switch of this shard back from its holder.
    pub fn release_label(&mut self, at: Dpid, holder: Holder, confirmed: bool) {
        self.early_requests.retain(|asked| asked.holder != holder);
        self.with_labels(at, |labels, _, now, out| labels.release(now, holder, confirmed, out));
    }

    /// Records that a switch has carried out what its labels asked for.
    pub fn on_labels_confirmed(&mut self, dpid: Dpid, serials: &[u64]) {
        self.with_labels(dpid, |labels, ids, now, out| labels.confirm(now, serials, ids, out));
    }

    /// Refuses a label, because its switch has no capacity for the rule, or refused something else that was to be sent
    /// with it. A label whose rule is confirmed stays.
    pub fn refuse_label_for_capacity(&mut self, dpid: Dpid, serial: u64, why: Refusal) {
        self.with_labels(dpid, |labels, _, _, out| labels.refuse_unless_confirmed(serial, why, out));
    }

    /// Refuses a label, because its switch has refused the rule.
    pub fn deny_label(&mut self, dpid: Dpid, serial: u64, why: Refusal) {
        self.with_labels(dpid, |labels, _, _, out| labels.on_rule_refused(serial, why, out));
    }

    /// Removes a label of a switch as soon as nothing sends packets under it.
    pub fn revoke_label(&mut self, dpid: Dpid, serial: u64, why: Refusal) {
        self.with_labels(dpid, |labels, _, _, out| labels.refuse_keeping_rule(serial, why, out));
    }

    /// Lets the labels of a switch wait for its classifier, which is made again because its ports have changed.
    pub fn forget_arrivals(&mut self, dpid: Dpid) {
        self.with_labels(dpid, |labels, _, _, _| labels.forget_arrivals());
    }

    /// Closes the labels for a port that is no longer a link port.
    pub fn close_labels(&mut self, at: Location) {
        self.with_labels(at.switch, |labels, _, _, out| labels.close_port(at.port, out));
    }

    /// Advances the quarantine of labels. It stands still while a switch has no connection: nothing can be deleted or
    /// added there, so the labels that the switch has may be used again.
    pub fn expire_labels(&mut self, dpid: Dpid) {
        if self.switches.is_unreachable(dpid) {
            return;
        }
        self.with_labels(dpid, |labels, ids, now, out| labels.expire(now, ids, out));
    }

    /// Closes the labels of a switch that has disconnected.
    pub fn close_all_labels(&mut self, mut labels: LabelTable, dpid: Dpid) {
        let now = self.ctx.now();
        let mut effects = Vec::new();
        self.ctx.store.with_label_ids(dpid, |ids| labels.shut(now, ids, &mut effects));
        self.apply_label_effects(effects, Timer::Labels(dpid));
    }

    /// Changes the labels of a switch of this shard, and then carries out what they ask for.
    pub fn with_labels(
        &mut self,
        dpid: Dpid,
        work: impl FnOnce(&mut LabelTable, &mut LabelIds, Time, &mut Vec<LabelEffect>),
    ) {
        // Holders in other shards learn later than we that the switch has gone.
        let Some(switch) = self.switches.get_mut(&dpid) else { return self.ctx.count_late_message() };
        let now = self.ctx.now();
        let mut effects = Vec::new();
        self.ctx.store.with_label_ids(dpid, |ids| work(&mut switch.paths.labels, ids, now, &mut effects));
        if switch.paths.labels.is_touched() {
            self.mark_stale(dpid, Stale::LABELS);
        }
        self.apply_label_effects(effects, Timer::Labels(dpid));
    }
}
