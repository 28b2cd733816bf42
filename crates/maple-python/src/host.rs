//! The process that Python policies live in: its store, and the way to the running controller.

use std::cell::{Cell, RefCell};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, LazyLock, PoisonError, RwLock, Weak};
use std::time::Duration;

use maple_controller::Handle;
use maple_controller::control::transactions::ChangeError;
use maple_core::state::{Commit, Store, Write, Written};
use maple_emulator::lab::LabError;
use maple_laboratory::Laboratory;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::start::Gate;

/// How often a call that waits for the laboratory looks whether the user has interrupted.
const LOOK: Duration = Duration::from_millis(100);

thread_local! {
    static ON_WORKER: Cell<bool> = const { Cell::new(false) };
    /// Where this thread writes instead of the host's store, while it loads a policy that does not run yet.
    static ASIDE: RefCell<Option<Arc<Store>>> = const { RefCell::new(None) };
    /// The places that this thread has entered; the last one counts.
    static ENTERED: RefCell<Vec<Arc<Place>>> = const { RefCell::new(Vec::new()) };
}

/// A store, and the network in simulated time that follows what is written to it, while that exists.
pub struct Place {
    store: Arc<Store>,
    laboratory: RwLock<Weak<Laboratory>>,
}

impl Place {
    /// A place for this store, without a network.
    pub fn of(store: Arc<Store>) -> Arc<Place> {
        Arc::new(Place { store, laboratory: RwLock::default() })
    }

    /// Its store.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Has this laboratory, which has the store, follow what is written to it from now on.
    pub fn use_laboratory(&self, laboratory: &Arc<Laboratory>) {
        *self.laboratory.write().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(laboratory);
    }

    fn laboratory(&self) -> Option<Arc<Laboratory>> {
        self.laboratory.read().unwrap_or_else(PoisonError::into_inner).upgrade()
    }
}

struct Host {
    place: Arc<Place>,
    controller: Option<Handle>,
    /// What workers committed before the controller that they belong to was told here.
    early: Vec<Commit>,
}

impl Host {
    fn of(place: Arc<Place>) -> Host {
        Host { place, controller: None, early: Vec::new() }
    }
}

static HOST: LazyLock<RwLock<Host>> = LazyLock::new(|| RwLock::new(Host::of(Place::of(Store::new()))));
static GATE: Gate = Gate::new();

/// A controller is about to start: until it runs, only this thread uses the state.
pub fn starting() {
    GATE.close();
}

/// The controller runs. It follows all commits from now on.
pub fn started(controller: Handle) {
    let mut host = HOST.write().unwrap_or_else(PoisonError::into_inner);
    // A controller that has stopped already answers nothing from anything.
    for commit in host.early.drain(..) {
        controller.committed(commit);
    }
    host.controller = Some(controller);
    drop(host);
    GATE.open();
}

/// No controller runs any more, or none has started.
pub fn ended() {
    GATE.open();
}

/// The store that tables and variables live in. Waits while a controller starts, but on the thread that starts it and
/// on the controller's workers.
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
    Arc::clone(HOST.read().unwrap_or_else(PoisonError::into_inner).place.store())
}

/// Lets tables and variables live in `store` from now on.
pub fn use_store(store: Arc<Store>) {
    use_place(Place::of(store));
}

/// Lets tables and variables live in this place from now on, for all threads that have entered no other.
pub fn use_place(place: Arc<Place>) {
    *HOST.write().unwrap_or_else(PoisonError::into_inner) = Host::of(place);
}

/// The place that threads use that have entered no other.
pub fn current_place() -> Arc<Place> {
    Arc::clone(&HOST.read().unwrap_or_else(PoisonError::into_inner).place)
}

/// Lets this thread's tables and variables live in this place, whatever other threads use, until it leaves.
pub fn enter(place: Arc<Place>) {
    ENTERED.with_borrow_mut(|entered| entered.push(place));
}

/// Ends what the last [`enter`] of this thread began.
pub fn leave() {
    ENTERED.with_borrow_mut(|entered| drop(entered.pop()));
}

fn entered() -> Option<Arc<Place>> {
    ENTERED.with_borrow(|entered| entered.last().cloned())
}

/// From now on, what this thread reads and writes is in `store`, and no controller follows that. `None` ends this.
pub fn write_to(store: Option<Arc<Store>>) {
    ASIDE.set(store);
}

fn is_aside() -> bool {
    ASIDE.with_borrow(Option::is_some)
}

/// Has the table and the variable of this name survive restarts. `false` if a controller runs that keeps no state.
pub fn keep(name: &str) -> bool {
    let keeps = controller().is_none_or(|controller| controller.keeps_state());
    if keeps {
        store().keep(name);
    }
    keeps
}

/// Writes in a transaction of its own; returns when no packet is answered from the old values any more.
pub fn publish(writes: Vec<Write>, written: Written) -> PyResult<()> {
    let commit = store().change_as(writes, written).map_err(|mismatch| PyTypeError::new_err(mismatch.to_string()))?;
    acknowledge(commit)
}

/// Runs the work of a controller's worker, in which nothing may wait for the workers.
pub fn on_worker(py: Python<'_>, work: &mut (dyn FnMut() + Send)) {
    py.detach(|| {
        ON_WORKER.set(true);
        work();
        ON_WORKER.set(false);
    });
}

/// Whether this thread is a worker: a handler runs here.
pub fn is_worker() -> bool {
    ON_WORKER.get()
}

/// Has the running controller, if there is one, follow a commit; returns when no packet is answered from the old values
/// any more. A handler does not wait for that, as its own worker would have to answer.
pub fn acknowledge(commit: Commit) -> PyResult<()> {
    if is_worker() {
        follow(commit);
        return Ok(());
    }
    if let Some(laboratory) = laboratory() {
        return Python::attach(|py| wait(py, laboratory.committed(commit)));
    }
    let Some(controller) = controller() else { return Ok(()) };
    match controller.acknowledge(commit) {
        // A controller that has stopped takes no writes, and answers nothing from anything; but it does not keep them.
        Err(error) if matches!(error, ChangeError::NotKept) || controller.write(Vec::new()) => {
            Err(PyRuntimeError::new_err(error.to_string()))
        }
        _ => Ok(()),
    }
}

/// Has the controller follow a commit of one of its workers, now or when it is told here.
fn follow(commit: Commit) {
    if let Some(laboratory) = laboratory() {
        // A worker can't wait: it is the laboratory's own thread.
        drop(laboratory.committed(commit));
        return;
    }
    let controller = controller().or_else(|| {
        let mut host = HOST.write().unwrap_or_else(PoisonError::into_inner);
        if host.controller.is_none() {
            host.early.push(commit.clone());
        }
        host.controller.clone()
    });
    if let Some(controller) = controller {
        controller.committed(commit);
    }
}

/// Waits until all switches have confirmed that rules that were being removed are gone. If they do not in time, says what
/// is waited for.
pub fn settled(within: Duration) -> Result<(), Vec<String>> {
    match controller().filter(|controller| !controller.settled(within)) {
        Some(controller) => Err(controller.unsettled()),
        None => Ok(()),
    }
}

/// Waits for an answer of the laboratory's thread, which can need the interpreter before that.
pub fn wait<R: Send>(py: Python<'_>, answer: Receiver<Result<R, LabError>>) -> PyResult<R> {
    let mut answer = answer;
    loop {
        let (back, came) = py.detach(move || {
            let came = answer.recv_timeout(LOOK);
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

/// The laboratory's error, as Python knows it.
pub fn laboratory_error(error: LabError) -> PyErr {
    match error {
        LabError::Wrong(_) | LabError::Network(_) => PyValueError::new_err(error.to_string()),
        LabError::Failed(_) | LabError::Emulation(_) | LabError::Interrupted | LabError::Stopped => {
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

/// The running controller, if there is one.
pub fn controller() -> Option<Handle> {
    if is_aside() || entered().is_some() {
        return None;
    }
    HOST.read().unwrap_or_else(PoisonError::into_inner).controller.clone()
}
