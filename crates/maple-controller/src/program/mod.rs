//! The hook for programs that serve switches in place of a policy. The shards know nothing else of such programs.
//!
//! ```text
//!  bytes of one read ─► Program::read ──┐
//!  switch up, other messages, timer ────┼─► the ProgramConnection: messages to send, answers that are expected
//!  connection ended ────────────────────┘
//! ```
//!
//! A [`ProgramFactory`] makes one [`Program`] for each connection. It sees the bytes of the connection where the kernel
//! wrote them, and appends its messages where the kernel reads them. The [`Session`] makes the handshake, answers
//! echoes, and watches over deadlines. Engine and discovery do not know such switches.

mod program_errors;

pub use program_errors::{ErrorReporter, ProgramErrors};

use std::time::Duration;

use maple_core::engine::{ShardId, Time};
use maple_wire::Message;

use crate::counters::Counters;
use crate::framing::Framer;
use crate::session::{Output, Session, SwitchInfo};

/// A connection, as its program sees it during a call.
#[derive(Debug)]
pub struct ProgramConnection<'a> {
    /// The current time.
    pub now: Time,
    /// The session. A program announces to it which answers it expects.
    pub session: &'a mut Session,
    /// The tasks that the session has for the shard.
    pub outputs: &'a mut Vec<Output>,
    /// The encoded messages that wait to be written to the socket. A program appends to them.
    pub waiting: &'a mut Vec<u8>,
    /// The shard's counters.
    pub counters: &'a mut Counters,
}

/// The next act of the shard after a call of [`Program::read`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All bytes are handled.
    Done,
    /// The session has tasks, which come before the rest of the bytes.
    Act,
    /// The session has tasks, as with [`Progress::Act`], and what waits is written before the rest of the bytes.
    Write,
}

/// Serves one connection. It may move to another thread between two calls.
pub trait Program: Send {
    /// Handles messages from the front of `rest`, the bytes of one read: splits them with `framer`, and passes what the
    /// program does not handle to the session. Returns at the latest when the session has outputs.
    fn read(&mut self, rest: &mut &[u8], framer: &mut Framer, line: ProgramConnection<'_>) -> Progress;

    /// Handles the end of the handshake.
    fn switch_up(&mut self, switch: &SwitchInfo, line: ProgramConnection<'_>);

    /// Handles a message that the session delivers after the handshake.
    fn message(&mut self, xid: u32, message: Message, line: ProgramConnection<'_>);

    /// Returns the time at which [`Program::timer`] is due.
    fn wake(&self) -> Option<Time>;

    /// Handles the timer, which is due and does not ring again.
    fn timer(&mut self, line: ProgramConnection<'_>);

    /// Handles the end of the connection. This is the last call.
    fn end(&mut self);
}

/// A connection that another shard may take over, with its work since the last call, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct MigrationCandidate {
    /// The connection's slot at its shard.
    pub slot: usize,
    /// The number of bytes that came from the switch.
    pub work: u64,
    /// The time for which the connection has been at this shard; `None` if it was never at another one.
    pub stayed: Option<Duration>,
}

/// Decides which connections of one shard move to another shard.
pub trait Balancer: Send {
    /// Counts a turn that took from `began` to `now`. Returns whether the balancer wants to see the candidates.
    fn end_turn(&mut self, began: Time, now: Time) -> bool;

    /// Returns the slot of a connection that should move, and the shard to move it to.
    fn choose(&mut self, candidates: &[MigrationCandidate]) -> Option<(usize, ShardId)>;
}

/// Makes the programs of a controller.
pub trait ProgramFactory: Send + Sync {
    /// Makes the program of a new connection, in the thread that runs it. With `write_each`, each answer is written
    /// separately: [`Progress::Write`].
    fn program(&self, errors: &ProgramErrors, write_each: bool) -> Box<dyn Program>;

    /// Makes a balancer for each of these shards. They compare the loads of the shards once in a period; with a period
    /// of zero, never.
    fn balancers(&self, shards: usize, period: Duration) -> Vec<Box<dyn Balancer>>;

    /// Runs `worker`, the whole work of a shard's thread.
    fn on_thread(&self, worker: &mut (dyn FnMut() + Send)) {
        worker();
    }
}
