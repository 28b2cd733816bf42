//! Locks of the store, with a seam where tests choose which thread runs next.
//!
//! A thread may be interrupted at any [`step`]. In a program a step does nothing. In tests under `shuttle`, whose
//! threads are coroutines on one system thread, a step asks the scheduler. So locks are tried there, not waited for,
//! and the code that is explored is the code that ships.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

#[cfg(test)]
thread_local! {
    static SCHEDULER: std::cell::Cell<Option<fn()>> = const { std::cell::Cell::new(None) };
}

/// Calls `scheduler` at each step of this thread; with `None`, nothing.
#[cfg(test)]
pub fn simulate(scheduler: Option<fn()>) {
    SCHEDULER.set(scheduler);
}

/// Whether a test chooses which thread runs next.
pub fn is_simulated() -> bool {
    #[cfg(test)]
    return SCHEDULER.get().is_some();
    #[cfg(not(test))]
    false
}

/// A moment at which other threads may run.
pub fn step() {
    #[cfg(test)]
    if let Some(scheduler) = SCHEDULER.get() {
        scheduler();
    }
}

/// Locks the mutex, even if a thread panicked with it: what it guards is consistent at every statement that can panic.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    acquire(|| mutex.try_lock(), || mutex.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Locks for reading, together with other readers.
pub fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    acquire(|| lock.try_read(), || lock.read().unwrap_or_else(PoisonError::into_inner))
}

/// Locks for writing, alone.
pub fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    acquire(|| lock.try_write(), || lock.write().unwrap_or_else(PoisonError::into_inner))
}

fn acquire<G>(mut attempt: impl FnMut() -> Result<G, TryLockError<G>>, wait: impl FnOnce() -> G) -> G {
    if !is_simulated() {
        return wait();
    }
    loop {
        step();
        match attempt() {
            Ok(guard) => {
                step();
                return guard;
            }
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {}
        }
    }
}
