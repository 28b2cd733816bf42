//! Bounds on what is answered at a time, so that slow requests do not keep quick ones waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::problem::Problem;

/// The resource that a request waits for. Each lane has permits of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// The newest snapshot: nothing.
    Memory,
    /// Shards.
    Shards,
    /// Switches, which may take seconds.
    Switches,
    /// The loading or the trial of a policy.
    Policy,
}

/// The number of requests at a time that wait for nothing. Chosen: enough for all cores, since each is work of the
/// processor.
const MEMORY: usize = 16;
/// The number of requests at a time that wait for shards. Chosen: as many as for memory, since a shard answers in its
/// next turn.
const SHARDS: usize = 16;
/// The number of requests at a time that wait for switches. Chosen: few, since each puts load on the switches, and may
/// take seconds.
const SWITCHES: usize = 4;
/// The number of requests at a time that load or try a policy. Chosen: one that runs and one that is prepared; each
/// takes a core for seconds.
const POLICY: usize = 2;
/// The number of answers that are made for watches at a time. Chosen: few, since they are made again and again;
/// requests come first.
const WATCHES: usize = 4;
/// The time that a request waits for a permit. Chosen: clients ask a few questions at once, and each takes less in a
/// network that answers.
const QUEUE: Duration = Duration::from_secs(1);
/// The number of threads that answer: one for each permit.
pub(super) const THREADS: usize = MEMORY + SHARDS + SWITCHES + POLICY + WATCHES;
/// The maximum number of bytes of all answers that are not sent yet. Chosen: some hundred large answers, and a bound on
/// the memory that slow clients can take.
const UNSENT: usize = 256 << 20;
/// The maximum number of bytes of all events of watches that are not sent yet. It must be less than [`UNSENT`], so that
/// slow readers of watches do not refuse the requests of others.
const UNSENT_OF_WATCHES: usize = 64 << 20;

/// The permits of all lanes, and the bytes that wait for clients.
#[derive(Debug)]
pub(super) struct Lanes {
    memory: Arc<Semaphore>,
    shards: Arc<Semaphore>,
    switches: Arc<Semaphore>,
    policy: Arc<Semaphore>,
    watches: Arc<Semaphore>,
    unsent: Arc<AtomicUsize>,
    unsent_of_watches: Arc<AtomicUsize>,
}

impl Lanes {
    /// Creates lanes in which nothing is.
    pub fn new() -> Lanes {
        let [memory, shards, switches, policy, watches] =
            [MEMORY, SHARDS, SWITCHES, POLICY, WATCHES].map(|permits| Arc::new(Semaphore::new(permits)));
        let (unsent, unsent_of_watches) = Default::default();
        Lanes { memory, shards, switches, policy, watches, unsent, unsent_of_watches }
    }

    /// Takes a permit, and waits a moment for one that is given back.
    ///
    /// # Errors
    /// [`Problem`] if all are taken, or if clients do not read their answers.
    pub async fn enter(&self, lane: Lane) -> Result<OwnedSemaphorePermit, Problem> {
        if self.unsent.load(Ordering::Relaxed) > UNSENT {
            return Err(Problem::busy("too many answers wait for clients that do not read them"));
        }
        let permits = match lane {
            Lane::Memory => &self.memory,
            Lane::Shards => &self.shards,
            Lane::Switches => &self.switches,
            Lane::Policy => &self.policy,
        };
        let busy = || Problem::busy("the controller is answering as many such requests as it does at a time");
        let free = tokio::time::timeout(QUEUE, Arc::clone(permits).acquire_owned()).await;
        free.map_err(|_| busy())?.map_err(|_| busy())
    }

    /// Waits for a permit to make the event of a watch. `None` if the controller ends.
    pub async fn enter_watches(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.watches).acquire_owned().await.ok()
    }

    /// Reports whether the maximum number of events waits for readers of watches, so that no more may be made.
    pub fn are_watches_full(&self) -> bool {
        self.unsent_of_watches.load(Ordering::Relaxed) > UNSENT_OF_WATCHES
    }

    /// Makes the body of an answer, which counts until it is sent.
    pub fn body(&self, text: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        Unsent::bytes(text, &self.unsent)
    }

    /// Counts the bytes that an answer holds which is sent in parts, until what this returns is dropped.
    pub fn count(&self, bytes: usize) -> CountedBytes {
        CountedBytes::new(bytes, &self.unsent)
    }

    /// Makes a part of a watch, which counts until it is sent.
    pub fn part_of_watch(&self, text: Vec<u8>) -> Bytes {
        Unsent::bytes(text, &self.unsent_of_watches)
    }
}

/// Bytes that are counted until this is dropped.
#[derive(Debug)]
pub(super) struct CountedBytes {
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl CountedBytes {
    fn new(bytes: usize, all: &Arc<AtomicUsize>) -> CountedBytes {
        all.fetch_add(bytes, Ordering::Relaxed);
        CountedBytes { bytes, all: Arc::clone(all) }
    }

    /// Makes a part of the answer, which counts too until it is sent.
    pub fn part(&self, text: Vec<u8>) -> Bytes {
        Unsent::bytes(text, &self.all)
    }
}

impl Drop for CountedBytes {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The bytes of an answer.
struct Unsent<T: AsRef<[u8]>> {
    text: T,
    _counted: CountedBytes,
}

impl<T: AsRef<[u8]> + Send + 'static> Unsent<T> {
    fn bytes(text: T, all: &Arc<AtomicUsize>) -> Bytes {
        let counted = CountedBytes::new(text.as_ref().len(), all);
        Bytes::from_owner(Unsent { text, _counted: counted })
    }
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for Unsent<T> {
    fn as_ref(&self) -> &[u8] {
        self.text.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until_done<T>(task: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime").block_on(task)
    }

    fn entered(lanes: &Lanes, lane: Lane) -> Result<OwnedSemaphorePermit, Problem> {
        until_done(lanes.enter(lane))
    }

    #[test]
    fn a_request_waits_a_moment_for_a_permit_and_then_is_refused() {
        let lanes = Lanes::new();
        let mut held: Vec<_> = (0..POLICY).map(|_| entered(&lanes, Lane::Policy).expect("it is free")).collect();
        let given_back = async { drop(held.pop()) };
        let (waited, ()) = until_done(futures_util::future::join(lanes.enter(Lane::Policy), given_back));
        let _held = (waited.expect("it was given back"), held);
        assert!(entered(&lanes, Lane::Policy).is_err());
        assert!(entered(&lanes, Lane::Memory).is_ok(), "others are not kept waiting");
    }

    #[test]
    fn watches_that_nobody_reads_keep_no_other_request_waiting() {
        let lanes = Lanes::new();
        let part = lanes.part_of_watch(vec![0; UNSENT_OF_WATCHES + 1]);
        assert!(lanes.are_watches_full() && entered(&lanes, Lane::Memory).is_ok());
        drop(part);
        assert!(!lanes.are_watches_full());
        let body = lanes.body(vec![0; UNSENT + 1]);
        assert!(!lanes.are_watches_full() && entered(&lanes, Lane::Memory).is_err());
        drop(body);
        assert!(entered(&lanes, Lane::Memory).is_ok());
    }

    #[test]
    fn a_part_of_an_answer_counts_until_it_is_sent() {
        let lanes = Lanes::new();
        let held = lanes.count(UNSENT);
        assert!(entered(&lanes, Lane::Memory).is_ok());
        let part = held.part(vec![0; 1]);
        assert!(entered(&lanes, Lane::Memory).is_err());
        drop(held);
        assert!(entered(&lanes, Lane::Memory).is_ok());
        assert_eq!(lanes.unsent.load(Ordering::Relaxed), 1);
        drop(part);
        assert_eq!(lanes.unsent.load(Ordering::Relaxed), 0);
    }
}
