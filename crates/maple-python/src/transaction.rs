//! Transactions in Python: `atomically`, `retry`, `or_else`, `settled`.
//!
//! In a run of the policy the run is the transaction, and `atomically` marks a part of it that is done whole or not at
//! all. Elsewhere a thread's transaction is kept here while its function runs, so that tables need no handle. The
//! interpreter's lock is never held while waiting for the store or for other threads.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use maple_controller::control::transactions::ThreadWaiter;
use maple_core::state::{Access, Store};
use maple_core::state::{Cell, CellValue, Commit, Patience, Txn, Write};
use pyo3::create_exception;
use pyo3::exceptions::{PyBaseException, PyRuntimeError, PyTimeoutError};
use pyo3::prelude::*;

use crate::{current, host, source, thread};

create_exception!(
    maple,
    Retry,
    PyBaseException,
    "Raised by retry(): the transaction is to be run again when something that it read has changed."
);

/// The interval in which a waiting thread checks for signals. Chosen: Ctrl-C seems to act at once, and ten checks a
/// second cost next to nothing.
const SLICE: Duration = Duration::from_millis(100);

thread_local! {
    static TXN: RefCell<Option<Txn>> = const { RefCell::new(None) };
}

/// Reads in this thread's transaction. Returns `None` if there is none.
pub fn read(cell: &Cell) -> Option<CellValue> {
    TXN.with_borrow_mut(|txn| txn.as_mut().map(|txn| txn.read(cell.clone())))
}

/// Returns the result of `look` in this thread's transaction, or `None` if there is none.
pub fn looked_up<T>(look: impl FnOnce(&Txn) -> T) -> Option<T> {
    TXN.with_borrow(|txn| txn.as_ref().map(look))
}

/// Writes in this thread's transaction. Returns the writes if there is none.
pub fn write(py: Python<'_>, writes: Vec<Write>) -> Option<Vec<Write>> {
    TXN.with_borrow_mut(|txn| match txn {
        Some(txn) => {
            let line = source::here(py);
            for write in writes {
                txn.write_at(write, line.clone());
            }
            None
        }
        None => Some(writes),
    })
}

/// The result of one run of a transaction's function.
enum Ended {
    Done(Py<PyAny>, Commit),
    Lost,
    Waits(Txn),
}

/// Calls `function` as one transaction: its reads see one state, and its writes take effect together, or
/// not at all if it raises. It may be called several times, so it should do nothing else.
#[pyfunction]
#[pyo3(signature = (function, *, timeout = None))]
pub fn atomically(py: Python<'_>, function: Py<PyAny>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
    if is_within() {
        return part(py, &function);
    }
    let until = timeout.map(Duration::try_from_secs_f64).transpose();
    let until = until.map_err(|error| PyRuntimeError::new_err(format!("atomically(timeout=…): {error}")))?;
    let until = until.map(|within| Instant::now() + within);
    let store = host::store();
    let mut lost = 0;
    loop {
        let ended = if lost < Store::PATIENT { run(py, &store, &function)? } else { run_alone(py, &store, &function)? };
        match ended {
            Ended::Done(value, commit) => {
                py.detach(|| host::acknowledge(commit))?;
                return Ok(value);
            }
            Ended::Lost => {
                lost += 1;
                py.detach(|| ThreadWaiter::new(None).back_off(lost));
            }
            Ended::Waits(txn) => {
                lost = 0;
                wait(py, &store, &txn, until)?;
            }
        }
    }
}

/// Ends this run of the transaction: it runs again when something that it read has changed. In the policy itself the
/// packet waits.
#[pyfunction]
pub fn retry() -> PyResult<()> {
    Err(Retry::new_err(()))
}

/// Runs `first`. If that calls retry(), `second` instead, without any effect of `first`.
#[pyfunction]
pub fn or_else(py: Python<'_>, first: Py<PyAny>, second: Py<PyAny>) -> PyResult<Py<PyAny>> {
    if !is_within() {
        return Err(PyRuntimeError::new_err("or_else() belongs into a policy or a function that atomically() calls"));
    }
    match part(py, &first) {
        Err(error) if error.is_instance_of::<Retry>(py) => second.call0(py),
        done => done,
    }
}

/// Waits until no switch has a rule any more that a change before has made wrong. The timeout is in seconds.
#[pyfunction]
#[pyo3(signature = (timeout = 20.0))]
pub fn settled(py: Python<'_>, timeout: f64) -> PyResult<()> {
    not_on_a_worker("settled()")?;
    let within = Duration::try_from_secs_f64(timeout);
    let within = within.map_err(|error| PyRuntimeError::new_err(format!("settled(timeout=…): {error}")))?;
    let Err(waiting) = py.detach(|| host::settled(within)) else { return Ok(()) };
    let mut why = format!("not all switches have confirmed within {timeout} s that old rules are gone");
    if !waiting.is_empty() {
        why = format!("{why}; {}", waiting.join("; "));
    }
    Err(PyTimeoutError::new_err(why))
}

/// Refuses to wait on a worker, which runs policies and handlers: other switches wait for it.
fn not_on_a_worker(what: &str) -> PyResult<()> {
    if host::is_worker() || current::net().is_some() {
        let error = format!("{what} waits, and policies and handlers must not: start a thread for that");
        return Err(PyRuntimeError::new_err(error));
    }
    Ok(())
}

fn is_within() -> bool {
    current::net().is_some() || TXN.with_borrow(Option::is_some)
}

/// Runs a part of the current transaction, which has no effect if it raises.
fn part(py: Python<'_>, function: &Py<PyAny>) -> PyResult<Py<PyAny>> {
    if let Some(net) = current::net() {
        let before = net.savepoint();
        return function.call0(py).inspect_err(|_| net.roll_back(before));
    }
    let before = TXN.with_borrow(|txn| txn.as_ref().map(Txn::savepoint));
    function.call0(py).inspect_err(|_| {
        TXN.with_borrow_mut(|txn| {
            if let (Some(txn), Some(before)) = (txn, before) {
                txn.roll_back(before);
            }
        });
    })
}

fn run(py: Python<'_>, store: &Store, function: &Py<PyAny>) -> PyResult<Ended> {
    let (value, txn) = call(py, store, function);
    match value {
        Ok(value) => {
            let commit = py.detach(|| store.commit(txn, None));
            Ok(commit.map_or(Ended::Lost, |commit| Ended::Done(value, commit)))
        }
        Err(error) if error.is_instance_of::<Retry>(py) => Ok(Ended::Waits(txn)),
        Err(error) => Err(error),
    }
}

/// Runs the function while no other thread can commit.
fn run_alone(py: Python<'_>, store: &Store, function: &Py<PyAny>) -> PyResult<Ended> {
    let (value, txn) = py.detach(|| {
        let turn = store.turn();
        let (value, txn) = Python::attach(|py| call(py, store, function));
        // A commit can ask queries, of this thread or another one, so the interpreter's lock is not held here.
        match value {
            Ok(value) => (Ok((value, turn.commit(txn, None).ok())), None),
            Err(error) => (Err(error), Some(txn)),
        }
    });
    match (value, txn) {
        (Ok((value, commit)), _) => Ok(commit.map_or(Ended::Lost, |commit| Ended::Done(value, commit))),
        (Err(error), Some(txn)) if error.is_instance_of::<Retry>(py) => Ok(Ended::Waits(txn)),
        (Err(error), _) => Err(error),
    }
}

fn call(py: Python<'_>, store: &Store, function: &Py<PyAny>) -> (PyResult<Py<PyAny>>, Txn) {
    let begun = store.begin();
    TXN.set(Some(begun.clone()));
    let value = function.call0(py);
    let mut txn = TXN.take().unwrap_or(begun);
    if txn.wrote() {
        txn.sign(thread::written(py, None));
    }
    (value, txn)
}

/// Sleeps until something that the transaction read has changed.
fn wait(py: Python<'_>, store: &Store, txn: &Txn, until: Option<Instant>) -> PyResult<()> {
    not_on_a_worker("retry()")?;
    loop {
        py.check_signals()?;
        let left = until.map_or(SLICE, |until| until.saturating_duration_since(Instant::now()).min(SLICE));
        if left.is_zero() {
            return Err(PyTimeoutError::new_err("what the transaction waits for did not come in time"));
        }
        let changed = py.detach(|| {
            let waiting = ThreadWaiter::new(Some(left));
            let Some(waiter) = store.watch(txn, waiting.waker()) else { return true };
            let changed = waiting.wait();
            store.unwatch(waiter);
            changed
        });
        if changed {
            return Ok(());
        }
    }
}
