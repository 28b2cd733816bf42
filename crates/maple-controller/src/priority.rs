//! The priority of this process's threads against other programs on the same cores.
//!
//! Work that nobody waits for, before a take-over and after it, must not delay the switches on this machine. A thread
//! has a priority of its own, which threads that it starts inherit.

use std::sync::OnceLock;

use rustix::process::{Pid, getpriority_process, nice, setpriority_process};

/// The number that is added to the niceness of a thread. Chosen: a share of about a tenth beside threads of the shards
/// (nice(2), sched(7)).
const NICER: i32 = 10;

/// The priority before it was lowered.
static USUAL: OnceLock<i32> = OnceLock::new();

/// Lowers the priority of the calling thread, and of threads that it starts later, until [`usual`]. Does nothing if
/// that could not be undone, which needs a right that root has.
pub fn lower() {
    let Ok(before) = getpriority_process(None) else { return };
    // A thread that then ends tries it.
    let can_undo = std::thread::spawn(move || nice(1).is_ok() && setpriority_process(None, before).is_ok());
    if can_undo.join().unwrap_or(false) {
        USUAL.get_or_init(|| before);
        lower_for_good();
    }
}

/// Gives all threads of this process the priority that they had before [`lower`].
pub fn usual() {
    if let Some(value) = USUAL.get() {
        set_for_all(*value);
    }
}

/// Lowers the priority of all threads of this process until it ends.
pub(crate) fn lower_for_end() {
    if let Ok(before) = getpriority_process(None) {
        set_for_all(before.saturating_add(NICER));
    }
}

/// Lowers the priority of the calling thread for the rest of its life.
pub(crate) fn lower_for_good() {
    if let Err(error) = nice(NICER) {
        tracing::debug!("can't lower the priority of a thread: {error}");
    }
}

fn set_for_all(value: i32) {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let numbers = threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok());
    for thread in numbers.filter_map(Pid::from_raw) {
        // It may have ended.
        if let Err(error) = setpriority_process(Some(thread), value) {
            tracing::debug!("can't change the priority of a thread: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_priority_is_of_one_thread_and_ends() {
        let before = getpriority_process(None).expect("it has one");
        let low = std::thread::spawn(|| {
            lower();
            let low = getpriority_process(None);
            usual();
            (low, getpriority_process(None))
        });
        let (low, after) = low.join().expect("it does not panic");
        let low = low.expect("it has one");
        assert!(low == before || low == (before + NICER).min(19), "{before}, then {low}");
        assert_eq!((after.expect("it has one"), getpriority_process(None).expect("it has one")), (before, before));
    }
}
