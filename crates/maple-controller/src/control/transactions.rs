//! Changes tracked state from outside the policy, and waits until the network has followed.
//!
//! A write is *committed* at one moment for all shards. When a call of this module returns, it is *acknowledged*. Then
//! every shard has finished the turn that it was in at that moment and has sent its messages, so no later packet is
//! handled by the old value. State that survives restarts is on the disk, and in a cluster all of it is in etcd.
//! [`Handle::wait_until_settled`] also waits for the switches: every rule that depended on the old value is gone.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Sender, bounded};
use maple_core::Source;
use maple_core::engine::{BARRIER_ROUNDS, Event};
use maple_core::network::Facts;
use maple_core::state::{Commit, Mismatch, Patience, Snapshot, Stop, Stopped, Tx, Write, Writer, Written};

use super::{Handle, Operations};
use crate::shard::mailbox::ShardMessage;
use crate::storage::cluster_writes::Outcome;

/// The reason why a change of tracked state failed, or is not known to have taken effect.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The transaction was abandoned and had no effect.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// A value does not have the declared type of its table or variable. Nothing was written.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// The change was committed, but a shard did not answer in time, or the controller has stopped.
    #[error("the state is changed, but the controller did not confirm that all shards use it")]
    Unconfirmed,
    /// The change was committed, but is not in the state file. Either the file is slow or fails, and the write is tried
    /// again as long as the controller runs; or the controller has stopped.
    #[error(
        "the state is changed, but is not in the state file yet: until then a restart may lose it (it is written as soon \
         as the disk takes it; if the disk refuses it, `maple show errors` says why)"
    )]
    NotKept,
    /// The change was committed, but etcd does not have it: it does not answer, or not in time.
    #[error(
        "the state is changed at this controller, but etcd has not confirmed it: no other controller knows of it until then, \
         and it is undone if this one ends or another one becomes master before (`maple show cluster` says how etcd is)"
    )]
    NotShared,
    /// The change was committed, and undone: another mastership had begun before etcd had it.
    #[error("the change was undone: this controller was not master any more before etcd had it; try again")]
    Undone,
}

/// The reason why [`Handle::wait_until_settled`] fails: what it still waited for, in a text for each switch. There may
/// be none, where the last confirmation came as the time was over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotSettled(pub Vec<String>);

impl fmt::Display for NotSettled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not all switches have confirmed that their old rules are gone")?;
        self.0.iter().try_for_each(|waiting| write!(f, "; {waiting}"))
    }
}

impl std::error::Error for NotSettled {}

/// Lets an operating-system thread wait until a cell that its transaction read changes.
#[derive(Debug)]
pub struct ThreadWaiter {
    thread: Arc<ParkedThread>,
    deadline: Option<Instant>,
}

#[derive(Debug)]
struct ParkedThread {
    thread: Thread,
    woken: AtomicBool,
}

impl ThreadWaiter {
    /// Creates a waiter for the current thread. It waits at most `timeout`, or without limit if that is `None`.
    pub fn new(timeout: Option<Duration>) -> ThreadWaiter {
        let thread = Arc::new(ParkedThread { thread: std::thread::current(), woken: AtomicBool::new(false) });
        ThreadWaiter { thread, deadline: timeout.map(|timeout| Instant::now() + timeout) }
    }
}

impl Patience for ThreadWaiter {
    /// Yields at first, then sleeps from about 10 microseconds, doubling to about a millisecond. The spread keeps
    /// threads from colliding again.
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
            match self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                None => std::thread::park(),
                Some(Duration::ZERO) => return false,
                Some(left) => std::thread::park_timeout(left),
            }
        }
        true
    }
}

impl Wake for ParkedThread {
    fn wake(self: Arc<ParkedThread>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Describes a write that the current thread makes at this moment.
fn this_thread(line: Option<Source>) -> Written {
    let name = std::thread::current().name().unwrap_or("without a name").into();
    Written { by: Writer::Thread { name, line }, at: SystemTime::now() }
}

impl Handle {
    /// Runs `f` as one transaction, repeatedly until it commits. On [`Stop::Retry`] this thread sleeps until a cell
    /// that `f` read has changed. Returns when the commit is acknowledged.
    ///
    /// Must not be called on a shard's thread (in a policy or a handler), which would wait for itself. Those use
    /// [`maple_core::state::Store::attempt`].
    ///
    /// # Errors
    /// [`ChangeError`] if `f` cancels or waits longer than `timeout`, or if the change is not confirmed.
    pub fn atomically<T>(
        &self,
        timeout: Option<Duration>,
        mut f: impl FnMut(&Tx) -> Result<T, Stop>,
    ) -> Result<T, ChangeError> {
        let signed = |tx: &Tx| {
            tx.sign(this_thread(None));
            f(tx)
        };
        let (value, commit) = self.store().atomically(&ThreadWaiter::new(timeout), signed)?;
        self.operations().acknowledge(commit)?;
        Ok(value)
    }

    /// Writes, and returns when the write is acknowledged. Values are converted to the declared types.
    ///
    /// # Errors
    /// [`ChangeError`], but not [`ChangeError::Stopped`].
    #[track_caller]
    pub fn change(&self, writes: Vec<Write>) -> Result<(), ChangeError> {
        self.operations().change_as(writes, this_thread(Some(Source::here())))
    }

    /// Waits until no switch has a rule that depends on a value replaced before this call. The switches confirm that by
    /// barrier replies.
    ///
    /// # Errors
    /// [`NotSettled`] if it takes longer than `timeout`.
    pub fn wait_until_settled(&self, timeout: Duration) -> Result<(), NotSettled> {
        let deadline = Instant::now() + timeout;
        let mut rounds = 0..BARRIER_ROUNDS;
        let are_confirmed =
            rounds.all(|_| self.wait_for_all(ShardMessage::Settle, deadline.saturating_duration_since(Instant::now())));
        if are_confirmed { Ok(()) } else { Err(NotSettled(self.unsettled())) }
    }

    /// Lists, for people, what [`Handle::wait_until_settled`] waits for: each switch that has not confirmed something,
    /// and what.
    pub(crate) fn unsettled(&self) -> Vec<String> {
        let names = self.names();
        let of_shard = |shard: usize| match self.inspect_shard(shard, |engine| engine.view().unsettled()) {
            Ok(all) => all.iter().map(|one| names.in_text(&format!("switch {}: {}", one.switch, one.what))).collect(),
            Err(late) => vec![late.to_string()],
        };
        (0..self.shared.mailboxes.len()).flat_map(of_shard).collect()
    }

    /// Sends each shard its part of a commit, before anything that is sent later. Returns `false` if a shard has ended.
    pub(super) fn distribute(&self, commit: Commit) -> bool {
        let parts = commit.by_shard(&self.snapshot());
        parts.into_iter().all(|(shard, commit)| {
            let mailbox = self.shared.mailboxes.get(usize::from(shard.0));
            mailbox.is_some_and(|mailbox| mailbox.send(ShardMessage::Event(Box::new(Event::Committed(commit)))))
        })
    }

    /// Sends all shards a message, and waits for their answers. Returns `false` if one is late.
    pub(super) fn wait_for_all(&self, message: fn(Sender<()>) -> ShardMessage, timeout: Duration) -> bool {
        let count = self.shared.mailboxes.len();
        let (sender, receiver) = bounded(count);
        if !self.shared.mailboxes.iter().all(|mailbox| mailbox.send(message(sender.clone()))) {
            return false;
        }
        let deadline = Instant::now() + timeout;
        (0..count).all(|_| receiver.recv_deadline(deadline).is_ok())
    }
}

impl Operations<'_> {
    /// Writes in the name of `written`, which [`maple_core::Store::last_write`] then reports. Returns when the write is
    /// acknowledged.
    ///
    /// # Errors
    /// The errors of [`Handle::change`].
    pub fn change_as(&self, writes: Vec<Write>, written: Written) -> Result<(), ChangeError> {
        self.acknowledge(self.handle.store().change_as(writes, written)?)
    }

    /// Writes as [`Operations::change_as`] does, if `holds` says so of the newest state; no other commit can come
    /// between. Returns whether it wrote.
    ///
    /// # Errors
    /// The errors of [`Handle::change`].
    pub fn change_if(
        &self,
        writes: Vec<Write>,
        written: Written,
        holds: impl FnOnce(&Snapshot) -> bool,
    ) -> Result<bool, ChangeError> {
        let mut normal = Ok(None);
        let commit = self.handle.store().update_as(written, |state| {
            if !holds(state) {
                return Vec::new();
            }
            let one = |write: Write| Ok(state.normalise(&write)?.unwrap_or(write));
            match writes.into_iter().map(one).collect::<Result<Vec<Write>, Mismatch>>() {
                Ok(writes) => {
                    if let Err(mismatch) = state.check_commit(&writes) {
                        normal = Err(mismatch);
                        return Vec::new();
                    }
                    normal = Ok(Some(()));
                    writes
                }
                Err(mismatch) => {
                    normal = Err(mismatch);
                    Vec::new()
                }
            }
        });
        let has_written = normal?.is_some();
        if has_written {
            self.acknowledge(commit)?;
        }
        Ok(has_written)
    }

    /// Sends the shards a commit to [`Handle::store`], and returns when it is acknowledged.
    ///
    /// # Errors
    /// [`ChangeError::Unconfirmed`] if a shard is late, [`ChangeError::NotKept`] if the state file is,
    /// [`ChangeError::NotShared`] or [`ChangeError::Undone`] in a cluster.
    pub fn acknowledge(&self, commit: Commit) -> Result<(), ChangeError> {
        let persistent = commit.kept;
        // A shard may have sent packets of its turn to switches of another shard, so that one has a second turn.
        let rounds = if self.handle.shared.mailboxes.len() > 1 { 2 } else { 1 };
        let timeout = self.handle.shared.deadlines.query;
        let is_confirmed = self.handle.distribute(commit)
            && (0..rounds).all(|_| self.handle.wait_for_all(ShardMessage::AwaitTurnEnd, timeout));
        if let (Some(writes), Some(version)) = (&self.handle.shared.succession.writes, persistent) {
            match writes.wait(version, timeout) {
                Outcome::Confirmed => {}
                Outcome::Lost => return Err(ChangeError::Undone),
                Outcome::Unknown => return Err(ChangeError::NotShared),
            }
        }
        match (&self.handle.shared.kept.pending_writes, persistent) {
            (Some(pending), Some(version)) if !pending.wait(version, timeout) => Err(ChangeError::NotKept),
            _ if !is_confirmed => Err(ChangeError::Unconfirmed),
            _ => Ok(()),
        }
    }

    /// Replaces what is declared of ports and hosts, and returns when every shard goes by it.
    ///
    /// # Errors
    /// [`ChangeError::Unconfirmed`] if a shard is late or the controller has stopped.
    pub fn declare(&self, facts: Arc<Facts>) -> Result<(), ChangeError> {
        let number = self.handle.store().number_declaration();
        let message = || ShardMessage::Declare { number, facts: Arc::clone(&facts) };
        let is_sent = self.handle.shared.mailboxes.iter().all(|mailbox| mailbox.send(message()));
        // Messages about ports and hosts that follow from it reach other shards with the first turn.
        let timeout = self.handle.shared.deadlines.query;
        let is_confirmed = is_sent && (0..2).all(|_| self.handle.wait_for_all(ShardMessage::AwaitTurnEnd, timeout));
        if is_confirmed { Ok(()) } else { Err(ChangeError::Unconfirmed) }
    }
}
