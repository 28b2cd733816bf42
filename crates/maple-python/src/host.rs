//! The process that Python policies run in: its store, and its connection to the running controller.

use std::cell::{Cell, RefCell};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use maple_controller::Handle;
use maple_controller::control::transactions::ChangeError;
use maple_core::state::{Commit, Store, Write, Written};
use maple_emulator::commands::CommandError;
use maple_lab::Laboratory;
use parking_lot::RwLock;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::start::Gate;

/// The interval in which a call that waits for the laboratory checks whether the user has interrupted. Chosen: Ctrl-C
/// seems to act at once, and ten checks a second cost next to nothing.
const INTERRUPT_POLL: Duration = Duration::from_millis(100);

thread_local! {
    static ON_WORKER: Cell<bool> = const { Cell::new(false) };
    /// The store that replaces the host's store in this thread while it loads a policy that does not run yet.
    static ASIDE: RefCell<Option<Arc<Store>>> = const { RefCell::new(None) };
    /// The places that this thread has entered; the last one is in use.
    static ENTERED: RefCell<Vec<Arc<Stage>>> = const { RefCell::new(Vec::new()) };
}

/// A store, and the network in simulated time that follows writes to the store, while that exists.
pub struct Stage {
    store: Arc<Store>,
    laboratory: RwLock<Weak<Laboratory>>,
}

impl Stage {
    /// Creates a place for this store, without a network.
    pub fn from_store(store: Arc<Store>) -> Arc<Stage> {
        Arc::new(Stage { store, laboratory: RwLock::default() })
    }

    /// Returns the place's store.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Makes this laboratory, which uses the same store, follow writes to the store.
    pub fn use_laboratory(&self, laboratory: &Arc<Laboratory>) {
        *self.laboratory.write() = Arc::downgrade(laboratory);
    }

    fn laboratory(&self) -> Option<Arc<Laboratory>> {
        self.laboratory.read().upgrade()
    }
}

struct Host {
    place: Arc<Stage>,
    controller: Option<Handle>,
    /// The commits of workers from before [`started`] reported their controller.
    early: Vec<Commit>,
}

impl Host {
    fn on_stage(place: Arc<Stage>) -> Host {
        Host { place, controller: None, early: Vec::new() }
    }
}

static HOST: LazyLock<RwLock<Host>> = LazyLock::new(|| RwLock::new(Host::on_stage(Stage::from_store(Store::new()))));
static GATE: Gate = Gate::new();

/// Reports that a controller is about to start: until it runs, only this thread uses the state.
pub fn starting() {
    GATE.close();
}

/// Reports that the controller runs, and makes it follow all further commits.
pub fn started(controller: Handle) {
    let mut host = HOST.write();
    // A stopped controller answers no packets, so it needs no commits.
    for commit in host.early.drain(..) {
        drop(controller.operations().committed(commit));
    }
    host.controller = Some(controller);
    drop(host);
    GATE.open();
}

/// Reports that no controller runs: it has ended, or failed to start.
pub fn ended() {
    GATE.open();
}

/// Returns the store that holds tables and variables. Waits while a controller starts, except on the thread that starts
/// it and on the controller's workers.
pub fn store() -> Arc<Store> {
    if let Some(aside) = ASIDE.with_borrow(Clone::clone) {
        return aside;
    }
    if let Some(place) = entered() {
        return Arc::clone(place.store());
    }
    if !is_worker() {
        GATE.pass();
    }
    Arc::clone(HOST.read().place.store())
}

/// Makes `store` hold the tables and variables.
pub fn use_store(store: Arc<Store>) {
    use_place(Stage::from_store(store));
}

/// Makes this place hold the tables and variables of all threads that have not entered another place.
pub fn use_place(place: Arc<Stage>) {
    *HOST.write() = Host::on_stage(place);
}

/// Returns the place of threads that have not entered another place.
pub fn current_place() -> Arc<Stage> {
    Arc::clone(&HOST.read().place)
}

/// Makes this place hold this thread's tables and variables until it leaves, whatever other threads use.
pub fn enter(place: Arc<Stage>) {
    ENTERED.with_borrow_mut(|entered| entered.push(place));
}

/// Leaves the place of this thread's last [`enter`].
pub fn leave() {
    ENTERED.with_borrow_mut(|entered| drop(entered.pop()));
}

fn entered() -> Option<Arc<Stage>> {
    ENTERED.with_borrow(|entered| entered.last().cloned())
}

/// Makes this thread read and write in `store`, which no controller follows. `None` ends this.
pub fn write_to(store: Option<Arc<Store>>) {
    ASIDE.set(store);
}

fn is_aside() -> bool {
    ASIDE.with_borrow(Option::is_some)
}

/// Makes the table and the variable of this name survive restarts. Returns `false` if a controller runs that keeps no
/// state.
pub fn keep(name: &str) -> bool {
    let keeps = controller().is_none_or(|controller| controller.operations().keeps_state());
    if keeps {
        store().keep(name);
    }
    keeps
}

/// Writes in a transaction of its own, and returns once no packet is answered from the old values.
///
/// # Errors
/// `TypeError` for a value of a wrong type, and the errors of [`acknowledge`].
pub fn publish(writes: Vec<Write>, written: Written) -> PyResult<()> {
    let commit = store().change_as(writes, written).map_err(|mismatch| PyTypeError::new_err(mismatch.to_string()))?;
    acknowledge(commit)
}

/// Runs the work of a controller's worker. Nothing in it may wait for the workers.
pub fn on_worker(py: Python<'_>, work: &mut (dyn FnMut() + Send)) {
    py.detach(|| {
        ON_WORKER.set(true);
        work();
        ON_WORKER.set(false);
    });
}

/// Reports whether this thread is a worker, which runs handlers.
pub fn is_worker() -> bool {
    ON_WORKER.get()
}

/// Makes the running controller, if there is one, follow a commit, and returns once no packet is answered from the old
/// values. A handler does not wait, because its own worker would have to confirm.
///
/// # Errors
/// `RuntimeError` if the running controller could not keep the commit or confirm it.
pub fn acknowledge(commit: Commit) -> PyResult<()> {
    if is_worker() {
        follow(commit);
        return Ok(());
    }
    if let Some(laboratory) = laboratory() {
        return Python::attach(|py| wait(py, laboratory.committed(commit)));
    }
    let Some(controller) = controller() else { return Ok(()) };
    match controller.operations().acknowledge(commit) {
        // A stopped controller takes no writes and answers no packets, so its refusal is ignored; but `NotKept` is an
        // error.
        Err(error) if matches!(error, ChangeError::NotKept) || controller.operations().is_running() => {
            Err(PyRuntimeError::new_err(error.to_string()))
        }
        _ => Ok(()),
    }
}

/// Makes the controller follow a commit of one of its workers, at once or when [`started`] reports the controller.
fn follow(commit: Commit) {
    if let Some(laboratory) = laboratory() {
        // A worker can't wait for the laboratory, because it is the laboratory's own thread.
        drop(laboratory.committed(commit));
        return;
    }
    let controller = controller().or_else(|| {
        let mut host = HOST.write();
        if host.controller.is_none() {
            host.early.push(commit.clone());
        }
        host.controller.clone()
    });
    if let Some(controller) = controller {
        // A controller that has stopped answers no packets.
        drop(controller.operations().committed(commit));
    }
}

/// Waits until all switches have confirmed the removal of outdated rules.
///
/// # Errors
/// What is still unconfirmed after `within`, one text for each.
pub fn settled(within: Duration) -> Result<(), Vec<String>> {
    controller().map_or(Ok(()), |controller| controller.wait_until_settled(within)).map_err(|waiting| waiting.0)
}

/// Waits for an answer of the laboratory's thread, which can need the interpreter first.
///
/// # Errors
/// The error of the laboratory, or the user's interrupt.
pub fn wait<R: Send>(py: Python<'_>, answer: Receiver<Result<R, CommandError>>) -> PyResult<R> {
    let mut answer = answer;
    loop {
        let (back, came) = py.detach(move || {
            let came = answer.recv_timeout(INTERRUPT_POLL);
            (answer, came)
        });
        answer = back;
        match came {
            Ok(result) => return result.map_err(laboratory_error),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => return Err(PyRuntimeError::new_err("the laboratory has ended")),
        }
    }
}

/// Converts the laboratory's error to one of Python.
pub fn laboratory_error(error: CommandError) -> PyErr {
    match error {
        CommandError::Wrong(_) | CommandError::Network(_) => PyValueError::new_err(error.to_string()),
        CommandError::Failed(_) | CommandError::Emulation(_) | CommandError::Interrupted | CommandError::Stopped => {
            PyRuntimeError::new_err(error.to_string())
        }
    }
}

fn laboratory() -> Option<Arc<Laboratory>> {
    if is_aside() {
        return None;
    }
    entered().unwrap_or_else(current_place).laboratory()
}

/// Returns the running controller, if there is one.
pub fn controller() -> Option<Handle> {
    if is_aside() || entered().is_some() {
        return None;
    }
    HOST.read().controller.clone()
}
