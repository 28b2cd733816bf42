//! The time limit of policy runs: a watchdog thread that raises an exception in a thread whose run takes too long.
//!
//! Each thread that runs policies has a slot with the deadline of its run. The watchdog sleeps until the earliest
//! deadline, and without limit while there is none. Both raising the exception and ending a run happen under the
//! interpreter's lock. So an exception cannot hit a later run: a pending one is cleared when its run ends.
//!
//! Python delivers such an exception between two bytecodes. A policy that catches it is interrupted again and again;
//! one that blocks inside a single call of foreign code (`time.sleep`, a socket) is interrupted when that returns.

use std::ffi::c_long;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pyo3::create_exception;
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;

create_exception!(maple, PolicyTimeout, PyBaseException, "Raised in a policy whose run takes longer than it may.");

/// The time after which a run that continues after the exception gets another one. Chosen: a handler or `finally` of f
/// has time to clean up, and a run that swallows exceptions holds up its shard only a little longer.
const AGAIN: Duration = Duration::from_millis(20);

/// The time without a run after which the next run must wake the watchdog. Chosen: under load no run has to wake it,
/// and an idle process wakes up at most once more.
const LINGER: Duration = Duration::from_millis(100);

static WATCHDOG: LazyLock<Watchdog> = LazyLock::new(Watchdog::start);

thread_local! {
    static SLOT: Arc<Slot> = WATCHDOG.join();
}

struct Watchdog {
    began: Instant,
    slots: Arc<Mutex<Vec<Arc<Slot>>>>,
    asleep: Arc<AtomicBool>,
    thread: Thread,
}

/// One thread that runs policies.
struct Slot {
    /// The thread's identity in Python.
    ident: AtomicU64,
    /// The end of the run, in nanoseconds after the watchdog's start. 0 while there is no run.
    deadline: AtomicU64,
    /// Whether an exception was raised in this run.
    fired: AtomicBool,
}

/// A guard: while it lives, the thread's run is watched. It is made and dropped while attached to the interpreter.
pub struct Watched<'py> {
    py: Python<'py>,
    slot: Arc<Slot>,
}

impl<'py> Watched<'py> {
    /// Starts to watch this thread's run, which may take `limit`.
    ///
    /// # Errors
    /// The error of Python if it does not know this thread.
    pub fn new(py: Python<'py>, limit: Duration) -> PyResult<Watched<'py>> {
        let slot = SLOT.with(Arc::clone);
        if slot.ident.load(Ordering::Relaxed) == 0 {
            let ident: u64 = py.import("threading")?.call_method0("get_ident")?.extract()?;
            slot.ident.store(ident, Ordering::Relaxed);
        }
        let deadline = (WATCHDOG.began.elapsed() + limit).as_nanos() as u64;
        slot.deadline.store(deadline, Ordering::SeqCst);
        if WATCHDOG.asleep.swap(false, Ordering::SeqCst) {
            WATCHDOG.thread.unpark();
        }
        Ok(Watched { py, slot })
    }
}

impl<'py> Watched<'py> {
    /// Starts to watch this thread's run, unless it is watched already. Then the result is `None`.
    ///
    /// # Errors
    /// The errors of [`Watched::new`].
    pub fn unless_it_is(py: Python<'py>, limit: Duration) -> PyResult<Option<Watched<'py>>> {
        let is_watched = SLOT.with(|slot| slot.deadline.load(Ordering::SeqCst) != 0);
        if is_watched { Ok(None) } else { Watched::new(py, limit).map(Some) }
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.slot.deadline.store(0, Ordering::SeqCst);
        if self.slot.fired.swap(false, Ordering::SeqCst) {
            raise_in(self.py, &self.slot, None);
        }
    }
}

impl Watchdog {
    fn start() -> Watchdog {
        let began = Instant::now();
        let slots = Arc::new(Mutex::new(Vec::<Arc<Slot>>::new()));
        let asleep = Arc::new(AtomicBool::new(false));
        let thread = {
            let (slots, asleep) = (slots.clone(), asleep.clone());
            thread::Builder::new()
                .name("policy-watchdog".into())
                .spawn(move || watch(began, &slots, &asleep))
                .expect("the watchdog thread starts")
                .thread()
                .clone()
        };
        Watchdog { began, slots, asleep, thread }
    }

    fn join(&self) -> Arc<Slot> {
        let slot =
            Arc::new(Slot { ident: AtomicU64::new(0), deadline: AtomicU64::new(0), fired: AtomicBool::new(false) });
        let mut slots = self.slots.lock();
        // Slots of threads that ended have no other owner.
        slots.retain(|slot| Arc::strong_count(slot) > 1);
        slots.push(slot.clone());
        slot
    }
}

fn watch(began: Instant, slots: &Mutex<Vec<Arc<Slot>>>, asleep: &AtomicBool) {
    let mut idle = false;
    loop {
        // Set before the check, so that a run that begins after the check wakes the watchdog.
        asleep.store(idle, Ordering::SeqCst);
        let running: Vec<Arc<Slot>> = {
            let slots = slots.lock();
            slots.iter().filter(|slot| slot.deadline.load(Ordering::SeqCst) != 0).cloned().collect()
        };
        let now = began.elapsed().as_nanos() as u64;
        let mut wait = None::<Duration>;
        for slot in running {
            let left = match slot.deadline.load(Ordering::SeqCst) {
                0 => continue,
                deadline if deadline <= now => {
                    interrupt(&slot, deadline);
                    AGAIN
                }
                deadline => Duration::from_nanos(deadline - now),
            };
            wait = Some(wait.map_or(left, |wait| wait.min(left)));
        }
        match wait {
            None if idle => thread::park(),
            _ => {
                asleep.store(false, Ordering::SeqCst);
                thread::sleep(wait.unwrap_or(LINGER));
            }
        }
        idle = wait.is_none();
    }
}

/// Raises the exception in the slot's run, if that still has this deadline.
fn interrupt(slot: &Slot, deadline: u64) {
    // While the interpreter shuts down there is nothing to interrupt.
    let _ = Python::try_attach(|py| {
        if slot.deadline.load(Ordering::SeqCst) == deadline {
            slot.fired.store(true, Ordering::SeqCst);
            raise_in(py, slot, Some(py.get_type::<PolicyTimeout>().as_any()));
        }
    });
}

/// Makes `exception` pending in the slot's thread. `None` clears a pending one.
#[allow(unsafe_code, reason = "there is no other way to stop an endless loop")]
fn raise_in(_attached: Python<'_>, slot: &Slot, exception: Option<&Bound<'_, PyAny>>) {
    let ident = slot.ident.load(Ordering::Relaxed) as c_long;
    let exception = exception.map_or(std::ptr::null_mut(), |e| e.as_ptr());
    // SAFETY: this thread is attached to the interpreter, as the token shows; `exception` is null or a type to which
    // the caller holds a reference, and the call takes one of its own. An unknown thread id is ignored.
    unsafe { pyo3::ffi::PyThreadState_SetAsyncExc(ident, exception) };
}
