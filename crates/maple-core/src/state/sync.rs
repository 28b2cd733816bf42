//! The locks of the store: their order, and a seam where tests choose which thread runs next.
//!
//! A thread that holds one of the store's locks takes only locks that stand after it in [`LockRank`]. So threads cannot
//! wait for each other in a circle. Debug builds check it at each lock.
//!
//! A thread may be interrupted at any [`step`]. In a program a step does nothing. In tests under `shuttle`, whose
//! threads are coroutines on one system thread, a step asks the scheduler. So locks are tried there, not waited for,
//! and the code that is explored is the code that ships.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

#[cfg(test)]
thread_local! {
    static SCHEDULER: std::cell::Cell<Option<fn()>> = const { std::cell::Cell::new(None) };
}

/// Calls `scheduler` at each step of this thread; `None` stops that.
#[cfg(test)]
pub fn simulate(scheduler: Option<fn()>) {
    SCHEDULER.set(scheduler);
}

/// Reports whether a test chooses which thread runs next.
pub fn is_simulated() -> bool {
    #[cfg(test)]
    return SCHEDULER.get().is_some();
    #[cfg(not(test))]
    false
}

/// Marks a moment at which other threads may run.
pub fn step() {
    #[cfg(test)]
    if let Some(scheduler) = SCHEDULER.get() {
        scheduler();
    }
}

/// The locks of a store, in the order in which a thread may take them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockRank {
    /// The versions of tables.
    Versions,
    /// The turnstile, which commits pass and exclusive commits hold.
    Turnstile,
    /// The state.
    State,
    /// The abilities of switches.
    Models,
    /// The label ids.
    Labels,
    /// The switches that are restored.
    Restoring,
    /// The meanings of look-ups.
    LookUps,
}

/// A held lock, with its place in the order.
pub struct HeldLock<G> {
    guard: G,
    rank: LockRank,
}

#[cfg(debug_assertions)]
thread_local! {
    static HELD: std::cell::RefCell<Vec<LockRank>> = const { std::cell::RefCell::new(Vec::new()) };
}

impl<G> HeldLock<G> {
    /// Takes a lock that has this place.
    fn new(rank: LockRank, take: impl FnOnce() -> G) -> HeldLock<G> {
        #[cfg(debug_assertions)]
        if !is_simulated() {
            // Simulated threads share the thread-local values of one system thread.
            HELD.with_borrow_mut(|held| {
                let before = held.iter().max();
                debug_assert!(
                    before.is_none_or(|before| *before < rank),
                    "{rank:?} is locked while {before:?} is held"
                );
                held.push(rank);
            });
        }
        HeldLock { guard: take(), rank }
    }
}

impl<G> Drop for HeldLock<G> {
    fn drop(&mut self) {
        #[cfg(debug_assertions)]
        if !is_simulated() {
            HELD.with_borrow_mut(|held| held.retain(|rank| *rank != self.rank));
        }
        #[cfg(not(debug_assertions))]
        let _ = self.rank;
    }
}

impl<G: Deref> Deref for HeldLock<G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for HeldLock<G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

/// Locks a mutex of a store.
pub fn lock_in_order<T>(rank: LockRank, mutex: &Mutex<T>) -> HeldLock<MutexGuard<'_, T>> {
    HeldLock::new(rank, || lock(mutex))
}

/// Locks the mutex, even if a thread panicked with it: what it guards is consistent at every statement that can panic.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    acquire(|| mutex.try_lock(), || mutex.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Locks for reading, together with other readers.
pub fn read<T>(rank: LockRank, lock: &RwLock<T>) -> HeldLock<RwLockReadGuard<'_, T>> {
    HeldLock::new(rank, || acquire(|| lock.try_read(), || lock.read().unwrap_or_else(PoisonError::into_inner)))
}

/// Locks for writing, alone.
pub fn write<T>(rank: LockRank, lock: &RwLock<T>) -> HeldLock<RwLockWriteGuard<'_, T>> {
    HeldLock::new(rank, || acquire(|| lock.try_write(), || lock.write().unwrap_or_else(PoisonError::into_inner)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_taken_in_their_order_and_in_no_other() {
        let (state, labels) = (Mutex::new(()), Mutex::new(()));
        {
            let _state = lock_in_order(LockRank::State, &state);
            let _labels = lock_in_order(LockRank::Labels, &labels);
        }
        let wrong = std::panic::catch_unwind(|| {
            let _labels = lock_in_order(LockRank::Labels, &labels);
            let _state = lock_in_order(LockRank::State, &state);
        });
        assert_eq!(wrong.is_err(), cfg!(debug_assertions));
        let again = lock_in_order(LockRank::State, &state);
        drop(again);
    }
}
