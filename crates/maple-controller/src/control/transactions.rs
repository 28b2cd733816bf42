//! Changing tracked state from outside of f, and knowing that the network has followed.
//!
//! A write is *committed* at one moment for all shards. When a call of this module returns it is *acknowledged*: every
//! shard has ended the turn that it was in at that moment, and sent what came of it, so no packet is answered from the
//! old value any more; and what is to survive a restart is on the disk. [`Handle::settled`] waits for the switches: every
//! rule that depended on the old value is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, bounded};
use maple_core::engine::{BARRIER_ROUNDS, Event};
use maple_core::state::{Commit, Mismatch, Patience, Stop, Stopped, Tx, Write};

use super::{Handle, PATIENCE};
use crate::shard::post::Letter;

/// Why a change from outside can't be relied on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ChangeError {
    /// It was given up, and had no effect.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// A value is not of the type that its table or variable was declared with; nothing happened.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// It was committed, but a shard did not answer in time or the controller has stopped.
    #[error("the state is changed, but the controller did not confirm that it has followed")]
    Unconfirmed,
    /// It was committed, but is not on the disk as it should be: the file can't be written, or the controller has stopped.
    #[error("the state is changed, but it could not be written to the state file: a restart may lose it")]
    NotKept,
}

/// How a thread of the system waits for a change of what its transaction read.
pub struct Waiting {
    thread: Arc<Sleeper>,
    until: Option<Instant>,
}

struct Sleeper {
    thread: Thread,
    woken: AtomicBool,
}

impl Waiting {
    /// This thread's waiting, with an end unless `within` is `None`.
    pub fn here(within: Option<Duration>) -> Waiting {
        let thread = Arc::new(Sleeper { thread: std::thread::current(), woken: AtomicBool::new(false) });
        Waiting { thread, until: within.map(|within| Instant::now() + within) }
    }
}

impl Patience for Waiting {
    /// Doubles from about a microsecond to one millisecond, some threads sooner than others.
    fn back_off(&self, lost: u32) {
        if lost < 3 {
            return std::thread::yield_now();
        }
        let spread = Arc::as_ptr(&self.thread) as usize as u64 / 64 % 512;
        std::thread::sleep(Duration::from_nanos((1000 + spread) << lost.min(10)));
    }

    fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.thread))
    }

    fn wait(&self) -> bool {
        while !self.thread.woken.swap(false, Ordering::Acquire) {
            match self.until.map(|until| until.saturating_duration_since(Instant::now())) {
                None => std::thread::park(),
                Some(Duration::ZERO) => return false,
                Some(left) => std::thread::park_timeout(left),
            }
        }
        true
    }
}

impl Wake for Sleeper {
    fn wake(self: Arc<Sleeper>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

impl Handle {
    /// Runs `f` as one transaction, again and again until it takes effect; where it says [`Stop::Retry`] this thread
    /// sleeps until something that it read has changed. Returns when that is acknowledged.
    ///
    /// Not from a shard's thread (a policy, a handler), which would wait for itself; those have
    /// [`maple_core::state::Store::attempt`].
    ///
    /// # Errors
    /// [`ChangeError`] if `f` cancels, waits longer than `within`, or nobody confirms.
    pub fn atomically<T>(
        &self,
        within: Option<Duration>,
        f: impl FnMut(&Tx) -> Result<T, Stop>,
    ) -> Result<T, ChangeError> {
        let (value, commit) = self.store().atomically(&Waiting::here(within), f)?;
        self.acknowledge(commit)?;
        Ok(value)
    }

    /// Writes, and returns when that is acknowledged. Values are brought to the types that were declared.
    ///
    /// # Errors
    /// [`ChangeError::Mismatch`], [`ChangeError::Unconfirmed`] or [`ChangeError::NotKept`].
    pub fn change(&self, writes: Vec<Write>) -> Result<(), ChangeError> {
        self.acknowledge(self.store().change(writes)?)
    }

    /// Follows up a commit on [`Handle::store`], and returns when it is acknowledged.
    ///
    /// # Errors
    /// [`ChangeError::Unconfirmed`] or [`ChangeError::NotKept`].
    pub fn acknowledge(&self, commit: Commit) -> Result<(), ChangeError> {
        let kept = commit.kept;
        // A shard may have sent packets of that turn to the switches of another.
        let rounds = if self.shared.boxes.len() > 1 { 2 } else { 1 };
        let is_confirmed = self.follow(commit) && (0..rounds).all(|_| self.ask_round(Letter::Fence, PATIENCE));
        match (&self.shared.kept, kept) {
            (Some(notes), Some(version)) if !notes.wait(version, PATIENCE) => Err(ChangeError::NotKept),
            _ if !is_confirmed => Err(ChangeError::Unconfirmed),
            _ => Ok(()),
        }
    }

    /// Waits until no switch has a rule any more that a change before this call has made wrong, by the barrier replies of
    /// all of them. `false` if that takes longer than `within`.
    pub fn settled(&self, within: Duration) -> bool {
        let until = Instant::now() + within;
        (0..BARRIER_ROUNDS).all(|_| self.ask_round(Letter::Settle, until.saturating_duration_since(Instant::now())))
    }

    /// Gives each shard what concerns it of a commit, in front of all that is asked later.
    pub(super) fn follow(&self, commit: Commit) -> bool {
        let parts = commit.by_shard(&self.snapshot());
        parts.into_iter().all(|(shard, commit)| {
            let mailbox = self.shared.boxes.get(usize::from(shard.0));
            mailbox.is_some_and(|mailbox| mailbox.post(Letter::Event(Box::new(Event::Committed(commit)))))
        })
    }

    /// Asks all shards; whether all have answered in time.
    fn ask_round(&self, question: fn(Sender<()>) -> Letter, within: Duration) -> bool {
        let count = self.shared.boxes.len();
        let (sender, receiver) = bounded(count);
        if !self.shared.boxes.iter().all(|mailbox| mailbox.post(question(sender.clone()))) {
            return false;
        }
        let until = Instant::now() + within;
        (0..count).all(|_| receiver.recv_deadline(until).is_ok())
    }
}
