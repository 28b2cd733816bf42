//! Tests that count what the whole process has: allocations, bytes, descriptors. They run one after the other.

#[path = "../common/mod.rs"]
mod common;

mod allocations;
mod crowd;
mod leaks;
mod readers;

use std::alloc::System;

use parking_lot::{Mutex, MutexGuard};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static MEMORY: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Waits until no other test runs. None begins until the guard is dropped.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock()
}

/// Returns the number of bytes that all threads have allocated and not freed.
fn held_bytes() -> usize {
    let stats = MEMORY.stats();
    stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)
}
