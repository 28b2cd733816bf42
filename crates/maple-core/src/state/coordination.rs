//! Facts that shards share besides the tracked state: label ids, restores, and what switches can do. f reads none
//! of it, so no leaf depends on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use maple_wire::Dpid;

use super::store_moves::MAX_DEPARTED;
use super::sync::{HeldLock, LockRank};
use super::{Store, sync};
use crate::capabilities::SwitchModel;
use crate::labels::{AllLabelIds, LabelIds};

/// The switches of all shards that keep the rules of an earlier run for now, and those without a connection.
#[derive(Debug, Default)]
pub(crate) struct RestoreProgress {
    /// Switches whose rules the engine does not know yet.
    pub unread: BTreeSet<Dpid>,
    /// Switches that have not reported their rules themselves.
    pub unconfirmed: BTreeSet<Dpid>,
    /// Switches with leaves that are not decided yet.
    pub undecided: BTreeSet<Dpid>,
    /// Switches whose routes may still ask for labels.
    pub asking: BTreeSet<Dpid>,
    /// Switches without a connection, whose forwarding is assumed to go on.
    pub unreachable: BTreeSet<Dpid>,
}

/// The knowledge about a switch that is remembered from one run to the next, in a form that only its owner reads.
pub(crate) trait Memorable: fmt::Debug + Send + Sync {
    /// Returns what is known now, in the form of its owner.
    fn bytes(&self) -> Vec<u8>;
}

/// The facts that shards share besides the tracked state. Each part has its own lock.
#[derive(Debug, Default)]
pub(super) struct Coordination {
    /// The free label ids of the switches. They outlive sessions: a switch may come back to another shard.
    labels: Mutex<AllLabelIds>,
    restoring: Mutex<RestoreProgress>,
    /// The abilities of the switches, also of those that have disconnected.
    models: Mutex<BTreeMap<Dpid, SwitchModel>>,
    /// The meaning of look-ups at the switches. No shard reads that of another.
    look_ups: Mutex<BTreeMap<Dpid, Arc<dyn Memorable>>>,
}

impl Coordination {
    /// Copies the label ids. A copy of the store restores nothing, and learns what its switches can do.
    pub(super) fn copy(&self) -> Coordination {
        Coordination { labels: Mutex::new(self.labels().clone()), ..Coordination::default() }
    }

    pub(super) fn models(&self) -> HeldLock<MutexGuard<'_, BTreeMap<Dpid, SwitchModel>>> {
        sync::lock_in_order(LockRank::Models, &self.models)
    }

    pub(super) fn labels(&self) -> HeldLock<MutexGuard<'_, AllLabelIds>> {
        sync::lock_in_order(LockRank::Labels, &self.labels)
    }

    fn look_ups(&self) -> HeldLock<MutexGuard<'_, BTreeMap<Dpid, Arc<dyn Memorable>>>> {
        sync::lock_in_order(LockRank::LookUps, &self.look_ups)
    }

    pub(super) fn restoring(&self) -> HeldLock<MutexGuard<'_, RestoreProgress>> {
        sync::lock_in_order(LockRank::Restoring, &self.restoring)
    }
}

impl Store {
    /// Returns the abilities of the switches, also of the latest that have disconnected.
    pub(crate) fn models(&self) -> Vec<(Dpid, SwitchModel)> {
        self.coordination.models().iter().map(|(dpid, model)| (*dpid, *model)).collect()
    }

    /// Returns the abilities of a switch, if they are known.
    pub(crate) fn model(&self, dpid: Dpid) -> Option<SwitchModel> {
        self.coordination.models().get(&dpid).copied()
    }

    /// Keeps what look-ups mean at a switch, so that it is remembered.
    pub(crate) fn keep_look_ups(&self, dpid: Dpid, look_ups: Arc<dyn Memorable>) {
        let state = self.snapshot();
        let mut all = self.coordination.look_ups();
        all.insert(dpid, look_ups);
        if all.len() > MAX_DEPARTED + state.switches().count() {
            all.retain(|of, _| *of == dpid || state.switch(*of).is_some());
        }
    }

    /// Returns what look-ups mean at the switches, in the form of [`Memorable::bytes`].
    pub(crate) fn look_ups(&self) -> Vec<(Dpid, Vec<u8>)> {
        let all: Vec<(Dpid, Arc<dyn Memorable>)> =
            self.coordination.look_ups().iter().map(|(dpid, of)| (*dpid, Arc::clone(of))).collect();
        all.into_iter().map(|(dpid, of)| (dpid, of.bytes())).filter(|(_, bytes)| !bytes.is_empty()).collect()
    }

    /// Returns what look-ups mean at a switch, in the form of [`Memorable::bytes`].
    pub(crate) fn look_ups_of(&self, dpid: Dpid) -> Option<Vec<u8>> {
        let look_ups = self.coordination.look_ups().get(&dpid).cloned();
        look_ups.map(|look_ups| look_ups.bytes()).filter(|bytes| !bytes.is_empty())
    }

    /// Works on the label ids of a switch. Only the shard that serves the switch calls this.
    pub(crate) fn with_label_ids<T>(&self, switch: Dpid, work: impl FnOnce(&mut LabelIds) -> T) -> T {
        work(self.coordination.labels().for_switch(switch))
    }

    /// Calls `work` with the label ids of each switch.
    pub(crate) fn with_all_label_ids(&self, mut work: impl FnMut(Dpid, &LabelIds)) {
        self.coordination.labels().iter().for_each(|(dpid, ids)| work(dpid, ids));
    }

    /// Works on the progress of restores, under its lock.
    pub(crate) fn change_restoring<T>(&self, work: impl FnOnce(&mut RestoreProgress) -> T) -> T {
        work(&mut self.coordination.restoring())
    }

    /// Reports whether all switches that are restored have their remembered leaves decided and their tables built. A
    /// switch whose restore was given up does not count.
    pub fn has_restored_earlier(&self) -> bool {
        let all = self.coordination.restoring();
        all.undecided.is_empty() && all.asking.is_empty()
    }
}
