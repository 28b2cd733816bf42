//! Ctrl-C, and what `kill` sends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGTERM};
use signal_hook::flag;

/// The exit status of a program that was told twice.
const AT_ONCE: i32 = 130;

/// Becomes true when the program is asked to stop. A second request ends it at once. That its terminal closes is no request:
/// the network goes on.
pub fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    if let Some(flag) = FLAG.get() {
        flag.store(false, Ordering::SeqCst);
        return Ok(flag.clone());
    }
    let stop = FLAG.get_or_init(Arc::default).clone();
    let asked = stop.clone();
    // In place of whatever hears it now: signal-hook would go on to that, and Python's would raise when we are done.
    ctrlc::set_handler(move || {
        if asked.swap(true, Ordering::SeqCst) {
            std::process::exit(AT_ONCE);
        }
    })?;
    // In this order: the first request finds the flag not set.
    flag::register_conditional_shutdown(SIGTERM, AT_ONCE, Arc::clone(&stop))?;
    flag::register(SIGTERM, Arc::clone(&stop))?;
    flag::register(SIGHUP, Arc::default())?;
    Ok(stop)
}
