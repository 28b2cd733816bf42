//! Every state that a controller had, and the time in which packets can have met it.
//!
//! Packets that enter no longer meet a state when a newer one has been published *and* no switch has a rule that the
//! change made wrong. The store reports the first, [`Handle::settled`] the second. A thread asks for it again and
//! again. So the load of the machine does not matter.
//!
//! The same question tells until when the controller has dealt with what switches sent it. It can be busy with a long
//! list for longer than any packet should take.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use maple_controller::Handle;
use maple_core::state::Snapshot;

/// The interval of asking switches whether they have followed.
const PAUSE: Duration = Duration::from_millis(2);
/// A switch that takes longer to follow is faulty.
const LONGEST: Duration = Duration::from_secs(2);
/// Maximum number of states that are kept. Older ones are forgotten.
const MOST: usize = 100_000;

/// The recent states of a controller.
pub struct History {
    states: Arc<Mutex<States>>,
    is_over: Arc<AtomicBool>,
    /// Somebody waits for [`History::answered`].
    is_awaited: Arc<AtomicBool>,
    replay: Option<JoinHandle<()>>,
}

struct States {
    /// Oldest first.
    all: VecDeque<State>,
    /// Packets that entered before this can have met forgotten states.
    known_since: Option<Instant>,
    /// What entered before this, the controller has dealt with.
    answered: Instant,
}

struct State {
    /// When it was published.
    since: Instant,
    /// When entering packets no longer met it.
    until: Option<Instant>,
    snapshot: Arc<Snapshot>,
}

impl History {
    /// The history from now on.
    ///
    /// # Errors
    /// Those of starting a thread.
    pub fn follow(controller: &Handle) -> std::io::Result<History> {
        let store = controller.store();
        let states = Arc::new(Mutex::new(States::new()));
        let observed = Arc::clone(&states);
        store.observe(move |snapshot| lock(&observed).push(snapshot));
        // After the observer is in place, so that no state is missing.
        let first = State { since: Instant::now(), until: None, snapshot: store.snapshot() };
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
                    std::thread::sleep(PAUSE);
                }
            };
            std::thread::Builder::new().name("history".into()).spawn(run)?
        };
        Ok(History { states, is_over, is_awaited, replay: Some(replay) })
    }

    /// The time until which the controller has dealt with what switches sent it. Asks it again.
    pub fn answered(&self) -> Instant {
        self.is_awaited.store(true, Ordering::Relaxed);
        lock(&self.states).answered
    }

    /// The states that a packet can have met that entered at `from` and was under way until `to`. `None` if that is too
    /// long ago.
    pub fn between(&self, from: Instant, to: Instant) -> Option<Vec<Arc<Snapshot>>> {
        lock(&self.states).between(from, to)
    }

    /// Forgets states that no packet met that entered since then.
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
        if self.all.len() >= MOST
            && let Some(oldest) = self.all.pop_front()
        {
            self.known_since = Some(oldest.until.unwrap_or_else(Instant::now));
        }
        self.all.push_back(State { since: Instant::now(), until: None, snapshot: Arc::clone(snapshot) });
    }

    /// The controller has dealt with what was sent before `asked`, and all switches have followed the states up to this
    /// version.
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

/// Whether the controller has dealt with what was there when it was asked. Packets find rules that stay much longer.
fn is_answered(controller: &Handle) -> bool {
    // Otherwise it waits for a switch, or it is busy and says nothing.
    controller.settled(LONGEST) || !controller.unsettled().is_empty()
}

fn lock(states: &Mutex<States>) -> MutexGuard<'_, States> {
    states.lock().unwrap_or_else(PoisonError::into_inner)
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
            store.update(|_| vec![Write::Weight("cost".into())]);
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
        assert_eq!(versions(&states, two, two), Some(vec![2]), "nobody asks for what was told to be forgotten");
    }

    #[test]
    fn more_states_than_are_kept_are_not_known() {
        let store = Store::new();
        let mut states = States::new();
        let before = Instant::now();
        (0..MOST).for_each(|_| states.push(&store.snapshot()));
        assert_eq!(versions(&states, before, before), Some(vec![]));
        states.push(&store.snapshot());
        assert_eq!(versions(&states, before, before), None);
        assert!(versions(&states, Instant::now(), Instant::now()).is_some());
    }
}
