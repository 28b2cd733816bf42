//! Records how an engine uses the store, and replays it.
//!
//! # What
//!
//! [`EngineStore`] is the store as one engine sees it: each use of the store in
//! [`Engine::handle`](crate::engine::Engine::handle) passes here, and there is no other way to it. While a recording is
//! made, it notes when each use happened ([`UseMoment`]). In a replay it lets each use wait until the store has moved
//! as often as then. Apart from this order, engines are deterministic. So the same events and times then have the same
//! effects.
//!
//! # The notes
//!
//! Mostly no other shard moves the store between two uses. Such a use is only counted. A note for any other use has
//! these numbers, each in 7 bits a byte, lowest first:
//!
//! * four times the number of uses since the last note, plus 2 if other shards moved the store since, plus 1 if this
//!   use moved it;
//! * how often others moved it, if they did.
//!
//! At the end is the number of uses since the last note, and nothing else.
//!
//! # Cost
//!
//! Without a recording, a branch for each use. With one, two loads for a read, and no further lock.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use maple_wire::Dpid;

use crate::capabilities::SwitchModel;
use crate::ids::{DependentId, ShardId, Time};
use crate::labels::LabelIds;
use crate::memory::Surroundings;
use crate::network::Gauge;
use crate::state::{
    AddressKinds, Author, Cell, Commit, Conflict, ExclusiveCommit, Memorable, Snapshot, Store, Txn, UseMoment, Write,
    Written,
};

/// The time at which a use of the store is due in a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// The number of times that the store must have moved before.
    pub at: u64,
    /// Whether this use moves the store. Then all earlier uses of other engines must be done.
    pub moves: bool,
}

/// Puts the uses of all engines of a replay into their order. Each engine is in a thread of its own.
pub trait Conductor: Send + Sync {
    /// Returns when the use is due, or if it will never be.
    fn await_due(&self, shard: ShardId, due: Due);

    /// Notes that the use is done.
    fn done(&self, shard: ShardId, due: Due);
}

/// The error for notes of uses that make no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the notes of how the store was used are damaged")]
pub struct BadUses;

/// The store as one engine uses it.
pub(in crate::engine) struct EngineStore {
    store: Arc<Store>,
    mode: UseMode,
}

enum UseMode {
    Plain,
    Recorded(RefCell<UseNotes>),
    Replayed(RefCell<NotesCursor>, ShardId, Arc<dyn Conductor>),
}

/// The notes of one call of `handle`.
#[derive(Debug, Default)]
struct UseNotes {
    is_on: bool,
    bytes: Vec<u8>,
    /// The store's move count when this engine saw it last.
    last: u64,
    /// The number of uses since the last note.
    quiet: u64,
}

/// The position in the notes of a call that is replayed.
#[derive(Debug, Default)]
struct NotesCursor {
    is_on: bool,
    last: u64,
    /// The noted uses: the number of other uses before each, and when it is due.
    noted: std::collections::VecDeque<(u64, Due)>,
    /// The number of uses so far before the next noted one, or before the end.
    quiet: u64,
    /// Whether a use was not as noted.
    is_lost: bool,
}

impl UseNotes {
    fn note(&mut self, seen: UseMoment) {
        let others = seen.at.wrapping_sub(self.last);
        if others == 0 && !seen.moved {
            self.quiet += 1;
            return;
        }
        put(&mut self.bytes, self.quiet << 2 | u64::from(others > 0) << 1 | u64::from(seen.moved));
        if others > 0 {
            put(&mut self.bytes, others);
        }
        self.quiet = 0;
        self.last = seen.at + u64::from(seen.moved);
    }
}

impl NotesCursor {
    /// Takes the notes of the next call. Returns when its first use is due, as a move count of the store.
    fn expect(&mut self, mut bytes: &[u8]) -> Result<u64, BadUses> {
        let mut last = self.last;
        self.noted.clear();
        let first = loop {
            let number = take(&mut bytes).ok_or(BadUses)?;
            if bytes.is_empty() {
                self.noted.push_back((number, Due { at: u64::MAX, moves: false }));
                break self.noted.front().filter(|(quiet, _)| *quiet == 0).map_or(self.last, |(_, due)| due.at);
            }
            let others = if number & 2 == 0 { 0 } else { take(&mut bytes).ok_or(BadUses)? };
            let (at, moves) = (last.checked_add(others).ok_or(BadUses)?, number & 1 == 1);
            self.noted.push_back((number >> 2, Due { at, moves }));
            last = at + u64::from(moves);
        };
        self.quiet = 0;
        Ok(first.min(last))
    }

    fn next(&mut self) -> Due {
        match self.noted.front() {
            Some((quiet, _)) if self.quiet < *quiet => {
                self.quiet += 1;
                Due { at: self.last, moves: false }
            }
            Some((_, due)) if due.at < u64::MAX => {
                let due = *due;
                self.noted.pop_front();
                self.quiet = 0;
                self.last = due.at + u64::from(due.moves);
                due
            }
            _ => {
                self.is_lost = true;
                Due { at: self.last, moves: false }
            }
        }
    }

    /// Reports whether every use was as noted, and there was no other.
    fn is_done(&self) -> bool {
        !self.is_lost && self.noted.len() == 1 && self.noted.front().is_some_and(|(quiet, _)| *quiet == self.quiet)
    }
}

/// Appends a number, 7 bits a byte.
fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

impl EngineStore {
    /// Creates the uses of a store that are neither recorded nor replayed.
    pub fn new(store: Arc<Store>) -> EngineStore {
        EngineStore { store, mode: UseMode::Plain }
    }

    /// Starts noting uses. `from`: the store's move count when the recording began.
    pub fn record(&mut self, from: u64) {
        self.mode = UseMode::Recorded(RefCell::new(UseNotes { last: from, ..UseNotes::default() }));
    }

    /// Starts a replay, in which each use waits until it is due. `from`: the store's move count when the recording
    /// began.
    pub fn replay(&mut self, shard: ShardId, from: u64, conductor: Arc<dyn Conductor>) {
        let cursor = NotesCursor { last: from, ..NotesCursor::default() };
        self.mode = UseMode::Replayed(RefCell::new(cursor), shard, conductor);
    }

    /// Stops noting uses, and waiting until they are due.
    pub fn detach(&mut self) {
        self.mode = UseMode::Plain;
    }

    /// Begins a call of `handle`. Uses outside of calls leave nothing behind, so they are not noted.
    pub fn begin(&self) {
        match &self.mode {
            UseMode::Plain => return,
            UseMode::Recorded(notes) => notes.borrow_mut().is_on = true,
            UseMode::Replayed(cursor, ..) => cursor.borrow_mut().is_on = true,
        }
        // The first note says when the call began.
        self.read(|_| ());
    }

    /// Ends a call of `handle`.
    pub fn end(&self) {
        match &self.mode {
            UseMode::Plain => {}
            UseMode::Recorded(notes) => notes.borrow_mut().is_on = false,
            UseMode::Replayed(cursor, ..) => cursor.borrow_mut().is_on = false,
        }
    }

    /// Appends the notes since the last time to `out`, with their length in bytes before them.
    pub fn take_notes(&self, out: &mut Vec<u8>) {
        let UseMode::Recorded(notes) = &self.mode else { return };
        let UseNotes { bytes, quiet, .. } = &mut *notes.borrow_mut();
        put(bytes, std::mem::take(quiet));
        put(out, bytes.len() as u64);
        out.append(bytes);
    }

    /// Takes the notes of the next call. Returns when its first use is due, as a move count of the store.
    ///
    /// # Errors
    /// [`BadUses`] if the notes are damaged, or if this engine is not being replayed.
    pub fn expect(&self, notes: &[u8]) -> Result<u64, BadUses> {
        match &self.mode {
            UseMode::Replayed(cursor, ..) => cursor.borrow_mut().expect(notes),
            _ => Err(BadUses),
        }
    }

    /// Reports whether the last call used the store as its notes say.
    pub fn is_as_noted(&self) -> bool {
        match &self.mode {
            UseMode::Replayed(cursor, ..) => cursor.borrow().is_done(),
            _ => true,
        }
    }

    fn used<T>(&self, work: impl FnOnce(&Store) -> (T, UseMoment)) -> T {
        match &self.mode {
            UseMode::Plain => work(&self.store).0,
            UseMode::Recorded(notes) => {
                let (done, seen) = work(&self.store);
                let mut notes = notes.borrow_mut();
                if notes.is_on {
                    notes.note(seen);
                }
                done
            }
            UseMode::Replayed(cursor, shard, conductor) => {
                let due = Some(&mut *cursor.borrow_mut()).filter(|cursor| cursor.is_on).map(|cursor| cursor.next());
                let Some(due) = due else { return work(&self.store).0 };
                conductor.await_due(*shard, due);
                let (done, seen) = work(&self.store);
                conductor.done(*shard, due);
                cursor.borrow_mut().is_lost |= seen.moved != due.moves;
                done
            }
        }
    }

    fn read<T>(&self, read: impl Fn(&Store) -> T) -> T {
        match &self.mode {
            UseMode::Plain => read(&self.store),
            _ => self.used(|store| store.use_unlocked(read)),
        }
    }

    /// Returns the store itself, for copies.
    pub fn shared(&self) -> &Arc<Store> {
        &self.store
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.read(Store::snapshot)
    }

    pub fn begin_txn(&self) -> Txn {
        Txn::new(self.snapshot())
    }

    /// Commits as [`Store::commit`] does.
    ///
    /// # Errors
    /// [`Conflict`] if something that the transaction read has another value by now. Nothing was written then.
    pub fn commit(&self, txn: Txn, dependent: Option<DependentId>) -> Result<Commit, Conflict> {
        self.used(|store| {
            let _pass = store.pass();
            store.commit_past_turnstile(txn, dependent, false)
        })
    }

    /// Begins a turn in which no other thread commits. Returns `None` in a replay, where the order is given.
    pub fn turn(store: &Arc<Store>, is_replayed: bool) -> Option<ExclusiveCommit<'_>> {
        (!is_replayed).then(|| store.turn())
    }

    /// Reports whether the uses are those of a recorded run.
    pub fn is_replayed(&self) -> bool {
        matches!(self.mode, UseMode::Replayed(..))
    }

    /// Commits in this turn.
    ///
    /// # Errors
    /// [`Conflict`] if something that the transaction read has another value by now. Nothing was written then.
    pub fn commit_alone(
        &self,
        _turn: &ExclusiveCommit<'_>,
        txn: Txn,
        dependent: Option<DependentId>,
    ) -> Result<Commit, Conflict> {
        self.used(|store| store.commit_past_turnstile(txn, dependent, false))
    }

    pub fn update(&self, decide: impl FnOnce(&Snapshot) -> Vec<Write>) -> Commit {
        self.used(|store| store.update_by(&Author::Unknown, false, decide))
    }

    pub fn update_as(&self, written: Written, decide: impl FnOnce(&Snapshot) -> Vec<Write>) -> Commit {
        let author = Author::Known(Box::new(written), Vec::new());
        self.used(|store| store.update_by(&author, false, decide))
    }

    pub fn is_valid(&self, txn: &Txn) -> bool {
        self.read(|store| store.is_valid(txn))
    }

    pub fn is_current(&self, dependent: impl Into<DependentId>) -> bool {
        let dependent = dependent.into();
        self.used(|store| store.use_locked(|state| state.dependents.has(dependent)))
    }

    /// Returns the number of commits so far that ended subscriptions of dependents of a shard.
    pub fn ended(&self, shard: ShardId) -> u64 {
        self.used(|store| store.use_locked(|state| state.dependents.ended(shard)))
    }

    pub fn forget(&self, dependent: impl Into<DependentId>) {
        let dependent = dependent.into();
        self.used(|store| store.use_locked(|state| state.dependents.forget(dependent)));
    }

    /// Returns the dependents of a cell. In a replay only those of this engine are as recorded.
    pub fn dependents_of(&self, cell: &Cell) -> BTreeSet<DependentId> {
        self.used(|store| store.use_locked(|state| state.dependents.of_cell(cell)))
    }

    /// Returns the dependents of a flood. In a replay only those of this engine are as recorded.
    pub fn dependents_of_floods(&self) -> BTreeSet<DependentId> {
        self.used(|store| store.use_locked(|state| state.dependents.of_floods()))
    }

    pub fn address_kinds(&self) -> AddressKinds {
        self.read(Store::address_kinds)
    }

    pub fn measurings(&self) -> u64 {
        self.read(Store::measurings)
    }

    pub fn wanted_of_ports(&self, dpid: Dpid) -> BTreeSet<Gauge> {
        self.used(|store| store.use_as_move(|state| state.dependents.wanted_of_ports(dpid, &store.snapshot())))
    }

    pub fn wanted_of_rules(&self, dpid: Dpid) -> BTreeSet<Gauge> {
        self.used(|store| store.use_as_move(|state| state.dependents.wanted_of_rules(dpid, &store.snapshot())))
    }

    pub fn wants_use_of_links(&self) -> bool {
        self.used(|store| store.use_as_move(|state| state.dependents.want_use_of_links()))
    }

    /// Runs `work` on the label ids of a switch of this engine.
    pub fn with_label_ids<T>(&self, switch: Dpid, work: impl FnOnce(&mut LabelIds) -> T) -> T {
        self.used(|store| store.use_label_ids(switch, work))
    }

    /// Runs `work` on the label ids of any switch.
    pub fn with_other_label_ids<T>(&self, switch: Dpid, work: impl FnOnce(&mut LabelIds) -> T) -> T {
        self.used(|store| store.use_as_move(|_| store.with_label_ids(switch, work)))
    }

    pub fn restoring<T>(&self, read: impl FnOnce(&crate::state::RestoreProgress) -> T) -> T {
        self.used(|store| store.use_restoring(read))
    }

    pub fn change_restoring<T>(&self, work: impl FnOnce(&mut crate::state::RestoreProgress) -> T) -> T {
        self.used(|store| store.use_as_move(|_| store.change_restoring(work)))
    }

    /// Notes the model of a switch of this engine.
    pub fn note_model(&self, now: Time, dpid: Dpid, model: SwitchModel) {
        self.used(|store| store.note_model(now, dpid, model));
    }

    /// Keeps what look-ups mean at a switch of this engine, so that it is remembered. Nothing here reads it.
    pub fn keep_look_ups(&self, dpid: Dpid, look_ups: Arc<dyn Memorable>) {
        self.shared().keep_look_ups(dpid, look_ups);
    }

    /// Returns the surroundings of a switch of this engine.
    pub fn surroundings_of(&self, dpid: Dpid) -> Surroundings {
        self.read(|store| Surroundings::of_switch(store, dpid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(at: u64, moved: bool) -> UseMoment {
        UseMoment { at, moved }
    }

    #[test]
    fn notes_say_when_each_use_was() {
        let uses = [seen(7, false), seen(7, false), seen(9, true), seen(10, false), seen(10, true), seen(400, false)];
        let mut notes = UseNotes { last: 7, ..UseNotes::default() };
        uses.into_iter().for_each(|use_| notes.note(use_));
        put(&mut notes.bytes, notes.quiet);
        let mut cursor = NotesCursor { last: 7, ..NotesCursor::default() };
        assert_eq!(cursor.expect(&notes.bytes), Ok(7));
        for seen in uses {
            assert_eq!(cursor.next(), Due { at: seen.at, moves: seen.moved });
        }
        assert!(cursor.is_done());
        cursor.next();
        assert!(!cursor.is_done(), "there is one use more than noted");
    }

    #[test]
    fn a_use_that_is_missing_is_found() {
        let mut notes = UseNotes::default();
        (0..3).for_each(|_| notes.note(seen(0, false)));
        put(&mut notes.bytes, notes.quiet);
        let mut cursor = NotesCursor::default();
        cursor.expect(&notes.bytes).expect("the notes are whole");
        cursor.next();
        assert!(!cursor.is_done());
        assert_eq!(cursor.expect(&[0x80]), Err(BadUses));
    }
}
