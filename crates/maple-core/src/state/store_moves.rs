//! The order in which the store is used, for recordings.
//!
//! # What
//!
//! The store *moves* when something changes that another shard can see: a commit publishes writes, or a subscription is
//! the first of its kind. What else an engine does with the store concerns its own leaves, labels and waits. So a use
//! is determined by the engine's own uses before it, and by the number of moves before it. [`UseMoment`] holds that
//! number, and whether the use itself moved the store. Uses of different engines between two moves can change places.
//!
//! # How
//!
//! Each move happens under the lock of the state. The counter is odd while a move becomes visible. A reader without the
//! lock reads again if the counter has changed meanwhile. So a read is placed exactly, and costs two loads more, only
//! where someone asks for its place.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use maple_wire::{Dpid, PortNo};
use serde::{Deserialize, Serialize};

use super::coordination::RestoreProgress;
use super::store::StoreState;
use super::{Snapshot, Store, Write, sync};
use crate::capabilities::SwitchModel;
use crate::ids::Time;
use crate::labels::{LabelIds, LabelKey, RehearsedLabel};

/// The maximum number of disconnected switches whose abilities and label ids are remembered. Whoever reaches the
/// controller's port can claim datapath ids, unless TLS asks for certificates. Chosen: more than a network has
/// switches.
pub(super) const MAX_DEPARTED: usize = 4096;

/// The place of a use of the store among its moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UseMoment {
    /// The number of moves before it.
    pub at: u64,
    /// Whether this use moved it.
    pub moved: bool,
}

/// A label of a rehearsal, whose id is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptLabel {
    /// The switch that it arrives at.
    pub switch: Dpid,
    /// The port that its packets arrive by; `None`: any link port.
    pub port: Option<PortNo>,
    /// The VLAN id.
    pub id: u16,
    /// A number that stands for what is done with its packets.
    pub meaning: u64,
    /// Its serial number.
    pub serial: u64,
}

/// A recorder of what happens to a store besides what engines do, in the order in which it happens.
pub trait StoreRecorder: Send + Sync {
    /// Receives writes that are about to be published. `at`: the number of moves before. The store is locked meanwhile.
    fn wrote(&self, at: u64, writes: &[Write]);

    /// Receives the labels whose ids were kept as a rehearsal gave them, each with its serial number. `at`: the number
    /// of moves before.
    fn rehearsed(&self, at: u64, labels: &[KeptLabel]);

    /// Notes that someone waits for what no one had asked for, so engines may measure or copy more because of that.
    /// `at`: the number of moves before.
    fn watched(&self, at: u64);
}

impl Store {
    /// Starts to report to `recorder` what happens besides what engines do. Returns the state in which that begins, and
    /// the number of moves before it.
    pub fn record_to(&self, recorder: Arc<dyn StoreRecorder>) -> (Arc<Snapshot>, u64) {
        let mut inner = self.lock();
        inner.recorder = Some(recorder);
        (self.snapshot(), self.moves.load(SeqCst) / 2)
    }

    /// Stops reporting to a recorder.
    pub fn stop_recording(&self) {
        self.lock().recorder = None;
    }

    /// Does something under the lock of the state. Returns also its place among the moves.
    pub(crate) fn use_locked<T>(&self, work: impl FnOnce(&mut StoreState) -> T) -> (T, UseMoment) {
        let mut inner = self.lock();
        let at = self.moves.load(SeqCst);
        let done = work(&mut inner);
        (done, UseMoment { at: at / 2, moved: self.moves.load(SeqCst) != at })
    }

    /// Does something that depends on what other engines do between two moves, or that they can see. It is a move.
    pub(crate) fn use_as_move<T>(&self, work: impl FnOnce(&mut StoreState) -> T) -> (T, UseMoment) {
        self.use_locked(|inner| self.make_move(inner, work))
    }

    /// Moves the store: `make_visible` makes visible what readers without the lock see.
    pub(super) fn make_move<T>(&self, locked: &mut StoreState, make_visible: impl FnOnce(&mut StoreState) -> T) -> T {
        self.moves.fetch_add(1, SeqCst);
        let shown = make_visible(locked);
        self.moves.fetch_add(1, SeqCst);
        shown
    }

    /// Returns the counter of moves, which is twice their number, once no move is under way.
    fn settled_moves(&self) -> u64 {
        loop {
            let moves = self.moves.load(SeqCst);
            if moves.is_multiple_of(2) {
                return moves;
            }
            sync::step();
            std::hint::spin_loop();
        }
    }

    /// Reads something without the lock, again and again until the store does not move meanwhile.
    pub(crate) fn use_unlocked<T>(&self, read: impl Fn(&Store) -> T) -> (T, UseMoment) {
        loop {
            let at = self.settled_moves();
            let value = read(self);
            if self.moves.load(SeqCst) == at {
                return (value, UseMoment { at: at / 2, moved: false });
            }
        }
    }

    /// Notes the abilities of a switch that has connected. Forgets disconnected switches if there are more than
    /// [`MAX_DEPARTED`].
    pub(crate) fn note_model(&self, now: Time, dpid: Dpid, model: SwitchModel) -> ((), UseMoment) {
        self.use_as_move(|_| {
            let state = self.snapshot();
            let is_here = |of: Dpid| of == dpid || state.switch(of).is_some();
            let mut models = self.coordination.models();
            models.insert(dpid, model);
            if models.len() > MAX_DEPARTED + state.switches().count() {
                models.retain(|of, _| is_here(*of));
            }
            let mut labels = self.coordination.labels();
            if labels.len() > MAX_DEPARTED + state.switches().count() {
                labels.forget_unused(now, is_here);
            }
        })
    }

    /// Works on the label ids of a switch of the caller's shard.
    pub(crate) fn use_label_ids<T>(&self, switch: Dpid, work: impl FnOnce(&mut LabelIds) -> T) -> (T, UseMoment) {
        loop {
            let at = self.settled_moves();
            let mut labels = self.coordination.labels();
            // A thread that moves the store by changing label ids waits for this lock.
            if self.moves.load(SeqCst) == at {
                return (work(labels.for_switch(switch)), UseMoment { at: at / 2, moved: false });
            }
        }
    }

    /// Keeps the ids of labels as a rehearsal gave them, each with its serial number.
    pub fn rehearse_labels(&self, labels: &[KeptLabel]) {
        let mut by_switch: BTreeMap<Dpid, Vec<RehearsedLabel>> = BTreeMap::new();
        for KeptLabel { switch, port, id, meaning, serial } in labels.iter().copied() {
            let rehearsed = RehearsedLabel { key: LabelKey { port, id }, meaning, serial };
            by_switch.entry(switch).or_default().push(rehearsed);
        }
        let mut inner = self.lock();
        let at = self.moves.load(SeqCst) / 2;
        self.make_move(&mut inner, |_| self.coordination.labels().rehearse(&by_switch));
        inner.recorder.iter().for_each(|recorder| recorder.rehearsed(at, labels));
    }

    /// Reads the lists of switches that are restored.
    pub(crate) fn use_restoring<T>(&self, read: impl FnOnce(&RestoreProgress) -> T) -> (T, UseMoment) {
        loop {
            let at = self.settled_moves();
            let restoring = self.coordination.restoring();
            if self.moves.load(SeqCst) == at {
                return (read(&restoring), UseMoment { at: at / 2, moved: false });
            }
        }
    }
}
