//! Where threads meet, with a seam for tests that choose who runs next.
//!
//! Between two things that a thread does to what others see, [`step`] stands: each operation on a mailbox, each wake-up,
//! each lock of the registry, each look at the poll. In a program it is nothing. In tests under `shuttle`, whose threads
//! are routines on one thread of the system, its scheduler is asked there; so nobody may wait in the kernel, and a shard
//! that has nothing to do looks at its poll again whenever it is its turn. What is explored is the code that ships.

use std::io;
use std::time::Duration;

use mio::{Events, Poll};

/// A mistake that a test plants, to see that the schedules would find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A shard is woken before its letters are there.
    WakesFirst,
    /// A switch that has moved is still known under its old connection.
    KeepsName,
}

// What a test has set for its thread.
#[cfg(test)]
thread_local! {
    static SCHEDULER: std::cell::Cell<Option<fn()>> = const { std::cell::Cell::new(None) };
    static PLANTED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// Calls `scheduler` at each step of this thread, or nobody, and plants a fault.
#[cfg(test)]
pub fn simulate(scheduler: Option<fn()>, fault: Option<Fault>) {
    SCHEDULER.set(scheduler);
    PLANTED.set(fault);
}

/// Whether a test has planted this.
pub fn has(fault: Fault) -> bool {
    #[cfg(test)]
    return PLANTED.get() == Some(fault);
    #[cfg(not(test))]
    {
        let _ = fault;
        false
    }
}

/// A moment at which other threads may run.
pub fn step() {
    #[cfg(test)]
    if let Some(scheduler) = SCHEDULER.get() {
        scheduler();
    }
}

/// Waits for the poll, no longer than `timeout`. Where a test chooses who runs next only a timeout that is zero ends it.
pub fn wait(poll: &mut Poll, ready: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
    #[cfg(test)]
    if let Some(scheduler) = SCHEDULER.get() {
        loop {
            scheduler();
            poll.poll(ready, Some(Duration::ZERO))?;
            if !ready.is_empty() || timeout.is_some_and(|timeout| timeout <= super::CONGESTION_RETRY) {
                return Ok(());
            }
        }
    }
    poll.poll(ready, timeout)
}
