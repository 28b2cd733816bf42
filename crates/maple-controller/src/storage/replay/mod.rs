//! Replays: a recording run again, without a network.
//!
//! Each engine of the recorded run has a thread. It gets the events of its turns at their times, and the gate
//! (`gate.rs`) lets it use the store in the recorded order. The checksums of its messages are compared with the
//! recorded ones. A replay begins with the run and goes on to its end, to a time, or to the first difference.
//!
//! Only the policy runs in a replay: no thread of its file, no timer, no listener. The recording has what these wrote.

mod gate;
mod recorded;
mod shard_replay;

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use maple_core::engine::{Conductor, Due, Engine, Options, Time};
use maple_core::ids::ShardId;
use maple_core::policy::Policy;
use maple_core::state::{Store, Write};
use maple_wire::Dpid;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::storage::format::read_all;
use crate::storage::record::segment::kind;
use crate::storage::record::{OutsideChange, RecordingError};
use gate::Gate;
pub use recorded::Recorded;
use shard_replay::ShardReplay;

/// The time between two reports of progress. Chosen: a bar on a terminal moves smoothly enough.
const TELL: Duration = Duration::from_millis(200);

/// The options of a replay.
pub struct ReplayOptions<'a> {
    /// The policies of the recording, by the numbers of [`Recorded::sources`].
    pub policies: BTreeMap<u64, Arc<dyn Policy>>,
    /// The time after which no turn is run.
    pub until: Option<Time>,
    /// Receives the counts so far, several times a second.
    pub progress: &'a dyn Fn(&Counts),
}

impl fmt::Debug for ReplayOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayOptions")
            .field("policies", &self.policies.keys())
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}

/// The counts of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The time of the last turn.
    pub at: Time,
    /// The turns of engines.
    pub turns: u64,
    /// The events of these turns.
    pub events: u64,
    /// The messages to switches, including the flow-mods.
    pub messages: u64,
    /// The flow-mods.
    pub flow_mods: u64,
}

/// The first difference from the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstDifference {
    /// The time of the turn.
    pub at: Time,
    /// The shard.
    pub shard: ShardId,
    /// The switch that the message is for, if it is about one.
    pub switch: Option<Dpid>,
    /// The difference, with the message that the replay sent.
    pub what: String,
}

/// The outcome of a replay.
pub struct Replayed {
    /// The engines at the end, in the order of their shards. They can be asked, but get no further events.
    pub engines: Vec<Engine>,
    /// The state at the end.
    pub store: Arc<Store>,
    /// The counts of the replay.
    pub counts: Counts,
    /// The first difference from the recording. `None`: every message was the same.
    pub difference: Option<FirstDifference>,
    /// Whether the recording lacks the end of the run. It is `false` if the replay was to end at a time.
    pub is_cut: bool,
}

impl fmt::Debug for Replayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replayed")
            .field("engines", &self.engines)
            .field("counts", &self.counts)
            .field("difference", &self.difference)
            .field("is_cut", &self.is_cut)
            .finish_non_exhaustive()
    }
}

/// The data that the threads of a replay share.
struct ReplayCommons {
    gate: Arc<Gate>,
    policies: BTreeMap<u64, Arc<dyn Policy>>,
    candidates: BTreeMap<u64, u64>,
    until: Option<Time>,
    outcome: Mutex<ReplayOutcome>,
    ended: Condvar,
    at: AtomicU64,
    turns: AtomicU64,
    events: AtomicU64,
    messages: AtomicU64,
    flow_mods: AtomicU64,
}

#[derive(Default)]
struct ReplayOutcome {
    engines: BTreeMap<ShardId, Engine>,
    /// The number of threads that have ended.
    threads: usize,
    difference: Option<FirstDifference>,
    /// The first turn that could not be run, because it waits for something that does not come.
    stuck: Option<FirstDifference>,
    error: Option<RecordingError>,
}

impl ReplayCommons {
    fn new(recorded: &Recorded, policies: BTreeMap<u64, Arc<dyn Policy>>, until: Option<Time>) -> ReplayCommons {
        let [at, turns, events, messages, flow_mods] = std::array::from_fn(|_| AtomicU64::new(0));
        ReplayCommons {
            gate: Arc::new(Gate::new(recorded.shards() + 1, recorded.start.from)),
            policies,
            candidates: recorded.candidates.clone(),
            until,
            outcome: Mutex::default(),
            ended: Condvar::new(),
            at,
            turns,
            events,
            messages,
            flow_mods,
        }
    }

    /// Returns the outcome, after all threads have ended.
    fn replayed(self, recorded: &Recorded, store: Arc<Store>) -> Result<Replayed, RecordingError> {
        let (counts, until) = (self.counts(), self.until);
        let outcome = self.outcome.into_inner();
        if let Some(error) = outcome.error {
            return Err(error);
        }
        let is_cut = until.is_none() && (recorded.end().is_none() || recorded.is_torn());
        let engines = outcome.engines.into_values().collect();
        // All turns of a whole recording must be run.
        let is_stuck = until.is_none() && !is_cut;
        let difference = outcome.difference.or(outcome.stuck.filter(|_| is_stuck));
        Ok(Replayed { engines, store, counts, difference, is_cut })
    }

    fn lock(&self) -> MutexGuard<'_, ReplayOutcome> {
        self.outcome.lock()
    }

    fn counts(&self) -> Counts {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            at: Time(get(&self.at)),
            turns: get(&self.turns),
            events: get(&self.events),
            messages: get(&self.messages),
            flow_mods: get(&self.flow_mods),
        }
    }

    /// Notes a difference, and ends the replay. Of several differences, the earliest counts.
    fn differs(&self, difference: FirstDifference) {
        let mut outcome = self.lock();
        if outcome.difference.as_ref().is_none_or(|first| difference.at < first.at) {
            outcome.difference = Some(difference);
        }
        drop(outcome);
        self.gate.release();
    }

    /// Notes that a turn can't be run, because it waits for something that does not come.
    fn waits_in_vain(&self, at: Time, shard: ShardId) {
        let what = "this turn waits for something that other shards, or other threads, did and do not do now".into();
        let stuck = FirstDifference { at, shard, switch: None, what };
        let mut outcome = self.lock();
        if outcome.stuck.as_ref().is_none_or(|first| at < first.at) {
            outcome.stuck = Some(stuck);
        }
    }

    fn fails(&self, error: RecordingError) {
        self.lock().error.get_or_insert(error);
        self.gate.release();
    }

    fn ends(&self, engine: Option<(ShardId, Engine)>) {
        let mut outcome = self.lock();
        outcome.engines.extend(engine);
        outcome.threads += 1;
        drop(outcome);
        self.ended.notify_all();
    }

    /// Reports the progress until this many threads have ended.
    fn watch(&self, threads: usize, progress: &dyn Fn(&Counts)) {
        let mut outcome = self.lock();
        while outcome.threads < threads {
            self.ended.wait_for(&mut outcome, TELL);
            drop(outcome);
            progress(&self.counts());
            outcome = self.lock();
        }
    }
}

/// Replays a recording.
///
/// # Errors
/// [`RecordingError`] if the recording is damaged, or the policy that ran first is missing.
pub fn replay(recorded: &Recorded, options: ReplayOptions<'_>) -> Result<Replayed, RecordingError> {
    let store = Store::new();
    let writes = recorded.start.writes.clone();
    let facts = Arc::clone(&recorded.start.options.facts);
    store.update(|_| writes.into_iter().chain([Write::Facts { number: 0, facts }]).collect());
    let engine_options = recorded.start.options.clone();
    let common = ReplayCommons::new(recorded, options.policies, options.until);
    let first = common.policies.get(&0).cloned();
    let first = first.ok_or_else(|| RecordingError::damaged(recorded.folder(), 0, "it has no policy"))?;
    let shards = recorded.shards();
    std::thread::scope(|scope| {
        for number in 0..shards {
            let (common, store, policy, options) = (&common, &store, &first, engine_options.clone());
            scope.spawn(move || run_shard(recorded, common, ShardId(number as u8), store, policy, options));
        }
        scope.spawn(|| {
            if let Err(error) = repeat_outside(recorded, &common, &store, shards) {
                common.fails(error);
            }
            common.gate.finish(shards);
            common.ends(None);
        });
        common.watch(shards + 1, options.progress);
    });
    common.replayed(recorded, store)
}

/// Does the work of a shard's thread.
fn run_shard(
    recorded: &Recorded,
    common: &ReplayCommons,
    shard: ShardId,
    store: &Arc<Store>,
    policy: &Arc<dyn Policy>,
    options: Options,
) {
    let turns = recorded.blocks(shard.0.into());
    let mut work = Some(|| {
        let mut engine = Engine::new(shard, Arc::clone(store), Arc::clone(policy), options);
        engine.replay(recorded.start.from, Arc::clone(&common.gate) as Arc<dyn Conductor>);
        ShardReplay::new(common, shard, turns, recorded.folder()).run(engine)
    });
    policy.on_thread(&mut || {
        // A policy runs it once.
        if let Some(work) = work.take() {
            let engine = catch_unwind(AssertUnwindSafe(work)).ok();
            common.gate.finish(usize::from(shard.0));
            common.ends(engine.map(|engine| (shard, engine)));
        }
    });
}

/// Makes the changes of the store that engines did not make.
fn repeat_outside(
    recorded: &Recorded,
    common: &ReplayCommons,
    store: &Store,
    party: usize,
) -> Result<(), RecordingError> {
    let mut blocks = recorded.blocks(kind::OUTSIDE);
    while let Some(bytes) = blocks.next()? {
        let all = read_all::<(u64, OutsideChange)>(&bytes)
            .map_err(|why| RecordingError::damaged(recorded.folder(), 0, why))?;
        for (at, what) in all {
            let due = Due { at, moves: true };
            if !common.gate.await_use(party, due) {
                return Ok(());
            }
            what.repeat(store);
            common.gate.end_use(party, due);
        }
    }
    Ok(())
}
