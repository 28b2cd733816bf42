//! Every state that a controller had, and the time in which packets can have met it.
//!
//! Entering packets stop meeting a state when a newer one has been published *and* no switch has a rule that the change
//! made wrong. The store reports the first, [`Handle::wait_until_settled`] the second. A thread asks for it repeatedly,
//! so the load of the machine does not matter.
//!
//! That question also shows up to which time the controller has handled the messages of switches. It can be busy with a
//! long queue for longer than any packet should take.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use maple_controller::Handle;
use maple_core::state::Snapshot;
use parking_lot::{Mutex, MutexGuard};

/// The time between two questions whether switches have followed. Chosen: states follow each other within milliseconds,
/// and each is to be dated well.
const FOLLOW_POLL: Duration = Duration::from_millis(2);
/// The maximum time for a switch to follow; a slower switch is faulty. It must exceed the time that an update takes on
/// a loaded machine.
const MAX_FOLLOW_TIME: Duration = Duration::from_secs(2);
/// The maximum number of states that are kept. Older ones are forgotten. Chosen: it bounds memory, and snapshots share
/// what is equal.
const MAX_STATES: usize = 100_000;

/// The recent states of a controller.
pub struct History {
    states: Arc<Mutex<States>>,
    is_over: Arc<AtomicBool>,
    /// Whether somebody waits for [`History::answered`].
    is_awaited: Arc<AtomicBool>,
    replay: Option<JoinHandle<()>>,
}

struct States {
    /// The states, oldest first.
    all: VecDeque<HistoryState>,
    /// The time before which packets can have met forgotten states.
    known_since: Option<Instant>,
    /// The time up to which the controller has handled everything that entered.
    answered: Instant,
}

struct HistoryState {
    /// The time when it was published.
    since: Instant,
    /// The time when entering packets stopped meeting it.
    until: Option<Instant>,
    snapshot: Arc<Snapshot>,
}

impl History {
    /// Starts to record the controller's states.
    ///
    /// # Errors
    /// The system's error, if it refuses a thread.
    pub fn follow(controller: &Handle) -> std::io::Result<History> {
        let store = controller.store();
        let states = Arc::new(Mutex::new(States::new()));
        let observed = Arc::clone(&states);
        store.observe(move |snapshot| lock(&observed).push(snapshot));
        // The first state is read after the observer is registered, so that no state is missing.
        let first = HistoryState { since: Instant::now(), until: None, snapshot: store.snapshot() };
        lock(&states).all.push_front(first);
        let (is_over, is_awaited) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let replay = {
            let (states, controller) = (Arc::clone(&states), controller.clone());
            let (is_over, is_awaited) = (Arc::clone(&is_over), Arc::clone(&is_awaited));
            let run = move || {
                let mut done = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let (version, asked) = (controller.store().snapshot().version(), Instant::now());
                    let is_asked = is_awaited.swap(false, Ordering::Relaxed) || version > done;
                    if is_asked && is_answered(&controller) {
                        lock(&states).answered_until(asked, version);
                        done = version;
                    }
                    std::thread::sleep(FOLLOW_POLL);
                }
            };
            std::thread::Builder::new().name("history".into()).spawn(run)?
        };
        Ok(History { states, is_over, is_awaited, replay: Some(replay) })
    }

    /// Returns the time up to which the controller has handled the messages of switches, and asks it again.
    pub fn answered(&self) -> Instant {
        self.is_awaited.store(true, Ordering::Relaxed);
        lock(&self.states).answered
    }

    /// Returns the states that a packet can have met that entered at `from` and was in flight until `to`. `None` if
    /// that is too long ago.
    pub fn between(&self, from: Instant, to: Instant) -> Option<Vec<Arc<Snapshot>>> {
        lock(&self.states).between(from, to)
    }

    /// Forgets states that only packets met that entered before `then`.
    pub fn forget_before(&self, then: Instant) {
        lock(&self.states).forget_before(then);
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(replay) = self.replay.take()
            && replay.join().is_err()
        {
            tracing::error!("the thread that follows states panicked");
        }
    }
}

impl States {
    fn new() -> States {
        States { all: VecDeque::new(), known_since: None, answered: Instant::now() }
    }

    fn between(&self, from: Instant, to: Instant) -> Option<Vec<Arc<Snapshot>>> {
        if self.known_since.is_some_and(|since| from < since) {
            return None;
        }
        let met = self.all.iter().filter(|state| state.since <= to && state.until.is_none_or(|until| from <= until));
        Some(met.map(|state| Arc::clone(&state.snapshot)).collect())
    }

    fn push(&mut self, snapshot: &Arc<Snapshot>) {
        if self.all.len() >= MAX_STATES
            && let Some(oldest) = self.all.pop_front()
        {
            self.known_since = Some(oldest.until.unwrap_or_else(Instant::now));
        }
        self.all.push_back(HistoryState { since: Instant::now(), until: None, snapshot: Arc::clone(snapshot) });
    }

    /// Records that the controller has handled everything sent before `asked`, and that all switches have followed the
    /// states up to this version.
    fn answered_until(&mut self, asked: Instant, version: u64) {
        self.answered = asked;
        let now = Instant::now();
        let older = self.all.iter_mut().take_while(|state| state.snapshot.version() < version);
        older.filter(|state| state.until.is_none()).for_each(|state| state.until = Some(now));
    }

    fn forget_before(&mut self, then: Instant) {
        while self.all.front().and_then(|state| state.until).is_some_and(|until| until < then) {
            self.all.pop_front();
        }
    }
}

/// Reports whether the controller has handled everything that was there when it was asked. Rules that stay much longer
/// are found by packets.
fn is_answered(controller: &Handle) -> bool {
    // Otherwise the controller waits for a switch, or is busy and does not answer.
    controller.wait_until_settled(MAX_FOLLOW_TIME).err().is_none_or(|waiting| !waiting.0.is_empty())
}

fn lock(states: &Mutex<States>) -> MutexGuard<'_, States> {
    states.lock()
}

#[cfg(test)]
mod tests {
    use maple_core::state::{Store, Write};

    use super::*;

    fn versions(states: &States, from: Instant, to: Instant) -> Option<Vec<u64>> {
        let met = states.between(from, to)?;
        Some(met.iter().map(|snapshot| snapshot.version()).collect())
    }

    #[test]
    fn a_state_counts_until_switches_have_followed_the_next_one() {
        let store = Store::new();
        let mut states = States::new();
        let next = || {
            store.update(|_| vec![Write::CostName("cost".into())]);
            store.snapshot()
        };
        let before = Instant::now();
        states.push(&next());
        let one = Instant::now();
        states.push(&next());
        let two = Instant::now();
        assert_eq!(versions(&states, before, before), Some(vec![]));
        assert_eq!(versions(&states, one, one), Some(vec![1]));
        assert_eq!(versions(&states, two, two), Some(vec![1, 2]), "switches may not have followed yet");
        let asked = Instant::now();
        states.answered_until(asked, 2);
        assert_eq!(states.answered, asked);
        let later = Instant::now();
        states.push(&next());
        assert_eq!(versions(&states, two, two), Some(vec![1, 2]));
        assert_eq!(versions(&states, later, later), Some(vec![2]));
        assert_eq!(versions(&states, later, Instant::now()), Some(vec![2, 3]));
        states.forget_before(later);
        assert_eq!(versions(&states, later, later), Some(vec![2]));
        assert_eq!(versions(&states, two, two), Some(vec![2]), "nobody asks for what was ordered to be forgotten");
    }

    #[test]
    fn more_states_than_are_kept_are_not_known() {
        let store = Store::new();
        let mut states = States::new();
        let before = Instant::now();
        (0..MAX_STATES).for_each(|_| states.push(&store.snapshot()));
        assert_eq!(versions(&states, before, before), Some(vec![]));
        states.push(&store.snapshot());
        assert_eq!(versions(&states, before, before), None);
        assert!(versions(&states, Instant::now(), Instant::now()).is_some());
    }
}
