//! The start of `maple run`: until its controller runs, only the thread that loads the policy uses the state.
//!
//! A thread that the policy's file starts runs immediately, long before the controller. Its writes would be
//! acknowledged, and then lost when a state file is loaded. Its reads would miss the kept state, and no controller
//! would follow its commits. So its first use of state waits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ThreadId;
use std::time::Duration;

use maple_cli::print_plain;
use maple_controller::log::Level;
use parking_lot::{Condvar, Mutex, MutexGuard};
use pyo3::prelude::*;

/// The time after which a waiting thread warns: a policy that waits for its own thread while it is loaded never ends.
/// Chosen: most policies are loaded in less time, and somebody at a terminal still waits for the answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A gate that holds back all threads but one.
pub struct Gate {
    /// Atomic, because each use of state outside of runs reads it without a lock.
    is_closed: AtomicBool,
    passes: Mutex<Option<ThreadId>>,
    opened: Condvar,
}

impl Gate {
    /// Creates a gate that is open for all.
    pub const fn new() -> Gate {
        Gate { is_closed: AtomicBool::new(false), passes: Mutex::new(None), opened: Condvar::new() }
    }

    /// Closes the gate for all threads but this one.
    pub fn close(&self) {
        *self.lock() = Some(std::thread::current().id());
        self.is_closed.store(true, Ordering::Release);
    }

    /// Opens the gate for all.
    pub fn open(&self) {
        *self.lock() = None;
        self.is_closed.store(false, Ordering::Release);
        self.opened.notify_all();
    }

    /// Returns when this thread may use the state. It waits without the interpreter's lock.
    pub fn pass(&self) {
        if self.is_closed.load(Ordering::Acquire) {
            Python::attach(|py| py.detach(|| self.wait()));
        }
    }

    fn wait(&self) {
        let me = std::thread::current();
        let is_held = |passes: &mut Option<ThreadId>| passes.is_some_and(|other| other != me.id());
        let mut passes = self.lock();
        if self.opened.wait_while_for(&mut passes, is_held, PATIENCE).timed_out() {
            print_plain(
                Level::Warning,
                "a thread that the policy has started uses state and waits for the controller, which starts \
                 when the policy's file has been loaded; don't wait for the thread there",
            );
            self.opened.wait_while(&mut passes, is_held);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.passes.lock()
    }
}
