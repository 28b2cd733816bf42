//! The order of a replay: which engine may go on.
//!
//! # How
//!
//! Each engine has a thread, and so have the changes of the store from outside: these are the *parties*. A party
//! announces its next use of the store by the number of moves after which it is due, and waits until the store has
//! moved that often. A use that moves the store also waits until the next use of each other party is due after it. So
//! every use sees what it saw then, and uses between two moves run at once. A party that waits for a message of another
//! shard has announced before when its next use is due at the earliest.
//!
//! # Why it ends
//!
//! The recorded run was one order in which all these conditions hold. The first thing of that order that is not done
//! can be done. So if all parties wait for something that is not there, what they wait for is not in the recording: it
//! was cut off, or the replay ends before it, or an engine did otherwise than recorded. Then all are released: nothing
//! waits any more, and what happens afterwards does not count.

use std::collections::BTreeMap;

use maple_core::engine::{Conductor, Due, Mail};
use maple_core::ids::ShardId;
use parking_lot::{Condvar, Mutex, MutexGuard};

/// The condition that a party waits for.
#[derive(Clone, Copy, Debug)]
enum Wait {
    Due(Due),
    Mail(ShardId, u64),
}

/// Lets parties wait for each other.
pub(super) struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

struct GateState {
    /// The number of times that the store has moved.
    now: u64,
    parties: Vec<Party>,
    /// Messages of shards that no shard has taken yet.
    mails: BTreeMap<(ShardId, u64), Mail>,
    /// Whether all parties are released.
    is_released: bool,
}

#[derive(Clone, Copy, Debug)]
struct Party {
    /// Its next use is due when the store has moved this often, or later.
    next: u64,
    wait: Option<Wait>,
    is_done: bool,
}

impl GateState {
    fn is_fulfilled(&self, party: usize, wait: Wait) -> bool {
        match wait {
            Wait::Mail(from, number) => self.mails.contains_key(&(from, number)),
            Wait::Due(due) => {
                let is_later = |(other, one): (usize, &Party)| other == party || one.is_done || one.next > due.at;
                self.now == due.at && (!due.moves || self.parties.iter().enumerate().all(is_later))
            }
        }
    }

    /// Releases all parties if none can go on.
    fn check(&mut self) {
        let is_stuck = |(number, party): (usize, &Party)| {
            party.is_done || party.wait.is_some_and(|wait| !self.is_fulfilled(number, wait))
        };
        if self.parties.iter().enumerate().all(is_stuck) {
            self.is_released = true;
        }
    }
}

impl Gate {
    /// Creates a gate for this many parties, of which the last one makes the changes from outside. `from` is the number
    /// of times that the store has moved.
    pub fn new(parties: usize, from: u64) -> Gate {
        let party = Party { next: from, wait: None, is_done: false };
        let state = GateState { now: from, parties: vec![party; parties], mails: BTreeMap::new(), is_released: false };
        Gate { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock()
    }

    /// Announces that the party's next use is due when the store has moved `at` times.
    pub fn announce(&self, party: usize, at: u64) {
        self.lock().parties[party].next = at;
        self.changed.notify_all();
    }

    /// Waits for a condition. Returns `false` if all were released before it held.
    fn wait(&self, party: usize, wait: Wait) -> bool {
        let mut state = self.lock();
        if let Wait::Due(due) = wait
            && state.parties[party].next != due.at
        {
            state.parties[party].next = due.at;
            self.changed.notify_all();
        }
        while !state.is_released && !state.is_fulfilled(party, wait) {
            state.parties[party].wait = Some(wait);
            state.check();
            if state.is_released {
                self.changed.notify_all();
                break;
            }
            self.changed.wait(&mut state);
        }
        state.parties[party].wait = None;
        !state.is_released
    }

    /// Waits for a use of a party. Returns `false` if it is not due in this replay.
    pub fn await_use(&self, party: usize, due: Due) -> bool {
        self.wait(party, Wait::Due(due))
    }

    /// Notes that a use is done.
    pub fn end_use(&self, party: usize, due: Due) {
        if due.moves {
            let mut state = self.lock();
            state.now = due.at + 1;
            state.parties[party].next = due.at + 1;
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Waits for a message of a shard. `None` if it does not come in this replay.
    pub fn await_mail(&self, party: usize, from: ShardId, number: u64) -> Option<Mail> {
        let is_there = self.wait(party, Wait::Mail(from, number));
        if is_there { self.lock().mails.remove(&(from, number)) } else { None }
    }

    /// Delivers a message that a shard has sent.
    pub fn deliver(&self, mail: Mail) {
        self.lock().mails.insert(mail.name(), mail);
        self.changed.notify_all();
    }

    /// Notes that the party does nothing more.
    pub fn finish(&self, party: usize) {
        let mut state = self.lock();
        state.parties[party].is_done = true;
        state.check();
        drop(state);
        self.changed.notify_all();
    }

    /// Releases all parties. Nothing counts afterwards.
    pub fn release(&self) {
        self.lock().is_released = true;
        self.changed.notify_all();
    }

    /// Reports whether all parties are released, so that nothing counts.
    pub fn is_released(&self) -> bool {
        self.lock().is_released
    }
}

impl Conductor for Gate {
    fn await_due(&self, shard: ShardId, due: Due) {
        // Afterwards the driver asks whether the turn counts.
        let _ = self.await_use(usize::from(shard.0), due);
    }

    fn done(&self, shard: ShardId, due: Due) {
        self.end_use(usize::from(shard.0), due);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn uses_of_all_parties_come_in_their_order() {
        let (gate, log) = (Gate::new(2, 5), Mutex::new(Vec::new()));
        let run = |party: usize, uses: &[(u64, bool)]| {
            for (at, moves) in uses.iter().copied() {
                let due = Due { at, moves };
                assert!(gate.await_use(party, due));
                log.lock().push((at, moves, party));
                gate.end_use(party, due);
            }
            gate.finish(party);
        };
        std::thread::scope(|scope| {
            scope.spawn(|| run(0, &[(5, false), (5, true), (8, false), (8, true)]));
            scope.spawn(|| run(1, &[(5, false), (6, true), (7, true), (9, false)]));
        });
        let log = log.into_inner();
        let moves: Vec<_> = log.iter().filter(|(_, moves, _)| *moves).copied().collect();
        assert_eq!(moves, [(5, true, 0), (6, true, 1), (7, true, 1), (8, true, 0)]);
        assert!(log.is_sorted_by_key(|(at, moves, _)| (*at, *moves)), "{log:?}");
    }

    #[test]
    fn parties_that_wait_for_what_does_not_come_are_released() {
        let (gate, released) = (Gate::new(2, 0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                released.fetch_add(usize::from(gate.await_mail(0, ShardId(1), 3).is_none()), Ordering::Relaxed);
            });
            scope.spawn(|| {
                let is_due = gate.await_use(1, Due { at: 4, moves: true });
                released.fetch_add(usize::from(!is_due), Ordering::Relaxed);
            });
        });
        assert!(gate.is_released());
        assert_eq!(released.load(Ordering::Relaxed), 2);
    }
}
