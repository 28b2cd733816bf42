//! The process that Python policies live in: its `maple` command, its store, and the way to the running controller.

use std::cell::Cell;
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use maple_cli::{Loaded, PolicyLoader, Suspicion};
use maple_controller::control::transactions::ChangeError;
use maple_controller::listen::{Listener, Subscription, listen};
use maple_controller::{ControllerOptions, Handle};
use maple_core::state::{Commit, Store, Write};
use maple_core::trace::Cond;
use maple_laboratory::Laboratory;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use crate::assertion::condition;
use crate::filters::PythonFilters;
use crate::handler::PythonHandlers;
use crate::listen::PyListener;
use crate::policy::PythonPolicy;
use crate::query;
use crate::snoop::snooping_of;
use crate::start::Gate;

/// Runs the `maple` command; the exit status.
#[pyfunction]
pub fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| maple_cli::main_with(arguments, Some(&Loader)))
}

/// Loads policies and handlers from Python files.
struct Loader;

impl PolicyLoader for Loader {
    fn load(&self, file: &Path, name: Option<&str>, time_limit: Duration) -> anyhow::Result<Loaded> {
        query::limit(time_limit);
        Python::attach(|py| {
            let module = py.import("maple._policy").map_err(|e| anyhow::anyhow!("{e}"))?;
            py.import("maple._on").and_then(|on| on.call_method0("forget")).map_err(|e| anyhow::anyhow!("{e}"))?;
            let path = file.to_string_lossy();
            let loaded = module.call_method1("load", (&*path, name)).map_err(|error| {
                let told = module.call_method1("explain", (error.value(py), error.traceback(py), &*path));
                let told = told.map_or_else(|_| error.to_string(), |text| text.to_string());
                anyhow::anyhow!("can't load {path}:\n{told}")
            })?;
            if loaded.is_instance_of::<PyType>() {
                let factory = Arc::new(PythonHandlers::new(&loaded, time_limit));
                return Ok(Loaded::Handlers(ControllerOptions {
                    store: store(),
                    ..ControllerOptions::for_handlers(factory)
                }));
            }
            let track_hosts = loaded.getattr("track_hosts").and_then(|wish| wish.extract()).unwrap_or(true);
            let mut options = ControllerOptions::new(Arc::new(PythonPolicy::new(&loaded, time_limit)));
            options.store = store();
            options.engine.track_hosts = track_hosts;
            options.subscriptions.extend(listening(py)?);
            options.snooping = snooping_of(&loaded).map_err(|error| anyhow::anyhow!("@policy: {error}"))?;
            Ok(Loaded::Policy(options))
        })
    }

    fn filters(&self) -> Option<&dyn maple_bench::OtherLanguage> {
        Some(&PythonFilters)
    }

    fn inspect(&self, file: &Path, name: Option<&str>) -> anyhow::Result<Vec<Suspicion>> {
        Python::attach(|py| {
            let inspect = || -> PyResult<Vec<(String, u32, String)>> {
                py.import("maple._check")?.call_method1("inspect_policy", (&*file.to_string_lossy(), name))?.extract()
            };
            let found = inspect().map_err(|error| anyhow::anyhow!("can't look through {}: {error}", file.display()))?;
            Ok(found.into_iter().map(|(file, line, text)| Suspicion { file, line, text }).collect())
        })
    }

    fn print_aside(&self) -> anyhow::Result<()> {
        let aside = |py: Python<'_>| {
            let sys = py.import("sys")?;
            sys.setattr("stdout", sys.getattr("stderr")?)
        };
        Python::attach(aside).map_err(|error: PyErr| anyhow::anyhow!("can't move sys.stdout: {error}"))
    }

    fn starting(&self) {
        GATE.close();
    }

    fn started(&self, controller: Handle) {
        let mut host = HOST.write().unwrap_or_else(PoisonError::into_inner);
        // A controller that has stopped already answers nothing from anything.
        for commit in host.early.drain(..) {
            controller.committed(commit);
        }
        host.controller = Some(controller);
        drop(host);
        GATE.open();
        start_listening();
    }

    fn ended(&self) {
        GATE.open();
    }
}

/// The end of a listener that `@on` functions of the policy's file hear by, until the controller runs.
static LISTENER: Mutex<Option<Listener>> = Mutex::new(None);

/// What the controller is to tell the file's `@on` functions; none if it has no such functions.
fn listening(py: Python<'_>) -> anyhow::Result<Option<Subscription>> {
    let wanted = || -> PyResult<Option<Vec<Cond>>> {
        let wanted: Option<Vec<Bound<'_, PyDict>>> = py.import("maple._on")?.call_method0("wanted")?.extract()?;
        let Some(wanted) = wanted else { return Ok(None) };
        wanted.iter().map(|fields| condition(fields)).collect::<PyResult<Vec<_>>>().map(Some)
    };
    let wanted = wanted().map_err(|error| anyhow::anyhow!("@on: {error}"))?;
    let Some(wanted) = wanted else { return Ok(None) };
    let (listening, listener) = listen(wanted)?;
    *LISTENER.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener);
    Ok(Some(listening))
}

/// Has the `@on` functions called from now on, by a thread of their own.
fn start_listening() {
    let Some(listener) = LISTENER.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
    let start = |py: Python<'_>| py.import("maple._on")?.call_method1("start", (PyListener::new(listener),)).map(drop);
    if let Err(error) = Python::attach(start) {
        eprintln!("maple: can't start the functions that listen: {error}");
    }
}

thread_local! {
    static ON_WORKER: Cell<bool> = const { Cell::new(false) };
}

struct Host {
    store: Arc<Store>,
    controller: Option<Handle>,
    /// The network in simulated time that the store belongs to, as long as somebody has it.
    laboratory: Weak<Laboratory>,
    /// What workers committed before the controller that they belong to was told here.
    early: Vec<Commit>,
}

impl Host {
    fn of(store: Arc<Store>) -> Host {
        Host { store, controller: None, laboratory: Weak::new(), early: Vec::new() }
    }
}

static HOST: LazyLock<RwLock<Host>> = LazyLock::new(|| RwLock::new(Host::of(Store::new())));
static GATE: Gate = Gate::new();

/// The store that tables and variables live in. Waits while a controller starts, but on the thread that starts it and on
/// the controller's workers.
pub fn store() -> Arc<Store> {
    if !is_worker() {
        GATE.pass();
    }
    HOST.read().unwrap_or_else(PoisonError::into_inner).store.clone()
}

/// Lets tables and variables live in `store` from now on.
pub fn use_store(store: Arc<Store>) {
    *HOST.write().unwrap_or_else(PoisonError::into_inner) = Host::of(store);
}

/// Has this laboratory, which has the store, follow what is written to it from now on.
pub fn use_laboratory(laboratory: &Arc<Laboratory>) {
    HOST.write().unwrap_or_else(PoisonError::into_inner).laboratory = Arc::downgrade(laboratory);
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
pub fn publish(writes: Vec<Write>) -> PyResult<()> {
    let commit = store().change(writes).map_err(|mismatch| PyTypeError::new_err(mismatch.to_string()))?;
    acknowledge(commit)
}

/// Runs what a worker of the controller does, in which nobody may wait for the workers.
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
        return Python::attach(|py| crate::laboratory::wait(py, laboratory.committed(commit)));
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

/// Whether all switches have confirmed in time that what was on its way out is gone.
pub fn settled(within: Duration) -> bool {
    controller().is_none_or(|controller| controller.settled(within))
}

fn laboratory() -> Option<Arc<Laboratory>> {
    HOST.read().unwrap_or_else(PoisonError::into_inner).laboratory.upgrade()
}

/// The running controller, if there is one.
pub fn controller() -> Option<Handle> {
    HOST.read().unwrap_or_else(PoisonError::into_inner).controller.clone()
}
