//! Stops the program on SIGINT (Ctrl-C) and SIGTERM, and loads the policy again on SIGHUP.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGTERM};
use signal_hook::flag;

/// Whether Ctrl-C interrupts what a console does, and is no request to stop.
static IS_CONSOLE: AtomicBool = AtomicBool::new(false);
/// Whether what a console does is to be interrupted.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// While it lives, Ctrl-C interrupts what a console does.
pub struct Interrupts(());

impl Interrupts {
    pub fn new() -> Interrupts {
        take_interrupt();
        IS_CONSOLE.store(true, Ordering::SeqCst);
        Interrupts(())
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        IS_CONSOLE.store(false, Ordering::SeqCst);
    }
}

/// Whether the user has interrupted what a console does since this was asked last.
pub fn take_interrupt() -> bool {
    INTERRUPTED.swap(false, Ordering::SeqCst)
}

/// The exit status after a second request to stop.
const AT_ONCE: i32 = 130;

/// A flag that becomes true on SIGHUP. Closing the terminal sends it too, which changes nothing: the same policy is
/// loaded again, and the network keeps running.
pub fn hangup_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let hangup = Arc::<AtomicBool>::default();
    flag::register(SIGHUP, Arc::clone(&hangup))?;
    Ok(hangup)
}

/// A flag that becomes true when the program is asked to stop. A second request ends it immediately. Closing the
/// terminal is no request: the network keeps running.
pub fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    if let Some(flag) = FLAG.get() {
        flag.store(false, Ordering::SeqCst);
        return Ok(flag.clone());
    }
    let stop = FLAG.get_or_init(Arc::default).clone();
    let asked = stop.clone();
    // Replace existing handlers first: signal-hook would call them too, and Python's would raise an exception at the
    // end.
    ctrlc::set_handler(move || {
        if IS_CONSOLE.load(Ordering::SeqCst) {
            INTERRUPTED.store(true, Ordering::SeqCst);
        } else if asked.swap(true, Ordering::SeqCst) {
            std::process::exit(AT_ONCE);
        }
    })?;
    // The order matters: at the first request the flag is not set yet.
    flag::register_conditional_shutdown(SIGTERM, AT_ONCE, Arc::clone(&stop))?;
    flag::register(SIGTERM, Arc::clone(&stop))?;
    flag::register(SIGHUP, Arc::default())?;
    Ok(stop)
}
