//! Stops the program on SIGINT (Ctrl-C) and SIGTERM, and loads the policy again on SIGHUP.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGTERM};
use signal_hook::flag;

/// Whether Ctrl-C interrupts a console's command, instead of stopping the program.
static IS_CONSOLE: AtomicBool = AtomicBool::new(false);
/// Whether a console's command must be interrupted.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Makes Ctrl-C interrupt a console's command, as long as it lives.
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

/// Reports whether the user has interrupted a console's command since the last call.
pub fn take_interrupt() -> bool {
    INTERRUPTED.swap(false, Ordering::SeqCst)
}

/// The exit status after a second request to stop: 128 and the number of SIGINT, as shells report it.
const AT_ONCE: i32 = 130;

/// Returns a flag that becomes true on SIGHUP. Closing the terminal sends it too, which changes nothing: the same
/// policy is loaded again, and the network keeps running.
///
/// # Errors
/// If the signal handler can't be installed.
pub fn hangup_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let hangup = Arc::<AtomicBool>::default();
    flag::register(SIGHUP, Arc::clone(&hangup))?;
    Ok(hangup)
}

/// Returns a flag that becomes true when the program is asked to stop. A second request ends the program immediately.
/// Closing the terminal is not a request: the network keeps running.
///
/// # Errors
/// If the signal handler can't be installed.
pub fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    if let Some(flag) = FLAG.get() {
        flag.store(false, Ordering::SeqCst);
        return Ok(flag.clone());
    }
    let stop = FLAG.get_or_init(Arc::default).clone();
    let asked = stop.clone();
    // This must come first, because it replaces existing handlers: signal-hook would call them too, and Python's would
    // raise an exception at the end.
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
