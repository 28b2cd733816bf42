//! Synchronisation points between threads, for tests that control the schedule.
//!
//! Code calls [`step`] between two operations that other threads can observe: mailbox operations, wake-ups, locks of
//! the registry, polls. In a program it does nothing. In tests under `shuttle`, it calls the scheduler. There all
//! threads are coroutines on one system thread, so none may block in the kernel: an idle shard polls again whenever it
//! is scheduled. So the tests explore the code that ships.

use std::io;
use std::time::Duration;

use mio::{Events, Poll};

/// The time after which a full mailbox is tried again. Its owner does not signal that it has emptied it. It must be far
/// less than the shortest deadline of a switch, a second.
pub(super) const CONGESTION_RETRY: Duration = Duration::from_millis(1);

/// A bug that a test injects, to check that the schedules find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A shard is woken before its messages are in the mailbox.
    WakesFirst,
    /// A migrated switch keeps its old connection id in the registry.
    KeepsOwner,
}

// A test sets these for its thread.
#[cfg(test)]
thread_local! {
    static SCHEDULER: std::cell::Cell<Option<fn()>> = const { std::cell::Cell::new(None) };
    static INJECTED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// Calls `scheduler` at each step of this thread, and injects a fault.
#[cfg(test)]
pub fn simulate(scheduler: Option<fn()>, fault: Option<Fault>) {
    SCHEDULER.set(scheduler);
    INJECTED.set(fault);
}

/// Reports whether a test has injected this fault.
pub fn is_injected(fault: Fault) -> bool {
    #[cfg(test)]
    return INJECTED.get() == Some(fault);
    #[cfg(not(test))]
    {
        let _ = fault;
        false
    }
}

/// Lets other threads run here, under a test's scheduler.
pub fn step() {
    #[cfg(test)]
    if let Some(scheduler) = SCHEDULER.get() {
        scheduler();
    }
}

/// Polls for at most `timeout`. Under a test's scheduler, only a very short timeout ends the wait without an event.
pub fn wait(poll: &mut Poll, ready: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
    #[cfg(test)]
    if let Some(scheduler) = SCHEDULER.get() {
        loop {
            scheduler();
            poll.poll(ready, Some(Duration::ZERO))?;
            if !ready.is_empty() || timeout.is_some_and(|timeout| timeout <= CONGESTION_RETRY) {
                return Ok(());
            }
        }
    }
    poll.poll(ready, timeout)
}
