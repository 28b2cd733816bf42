//! The `maple` command in this process: it runs the policies and handlers of Python files.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use maple_cli::{Loaded, PolicyLoader, Suspicion, print_plain};
use maple_controller::listener::{Listener, Subscription, subscribe};
use maple_controller::log::Level;
use maple_controller::{ControllerOptions, Handle};
use maple_core::state::Store;
use maple_core::trace::Cond;
use maple_handlers::Handlers;
use parking_lot::Mutex;
use pyo3::exceptions::PySystemExit;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use crate::assertion::condition;
use crate::handler::PythonHandlers;
use crate::host;
use crate::listen::PyListener;
use crate::policy::PythonPolicy;
use crate::query;
use crate::snoop::snooping_of;

/// Runs the `maple` command. Returns the exit status.
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
            py.import("maple._on").and_then(|on| on.call_method0("forget")).map_err(|e| anyhow::anyhow!("{e}"))?;
            let loaded = loaded(py, "maple._policy", "load", file, name, time_limit)?;
            Ok(match loaded {
                Loaded::Policy(mut options) => {
                    options.subscriptions.extend(listening(py)?);
                    Loaded::Policy(options)
                }
                handlers => handlers,
            })
        })
    }

    fn load_again(&self, file: &Path, name: Option<&str>, time_limit: Duration) -> anyhow::Result<Loaded> {
        Python::attach(|py| loaded(py, "maple._reload", "load_again", file, name, time_limit))
    }

    fn load_for_replay(&self, file: &Path, name: Option<&str>, time_limit: Duration) -> anyhow::Result<Loaded> {
        query::limit(time_limit);
        Python::attach(|py| loaded(py, "maple._reload", "load_for_replay", file, name, time_limit))
    }

    fn write_to(&self, store: Option<Arc<Store>>) {
        host::write_to(store);
    }

    fn adopted(&self) {
        report_reload("adopted");
    }

    fn rolled_back(&self) {
        report_reload("rolled_back");
    }

    fn refused(&self) {
        report_reload("refused");
    }

    fn inspect(&self, file: &Path, name: Option<&str>) -> anyhow::Result<Vec<Suspicion>> {
        Python::attach(|py| {
            let inspect = || -> PyResult<Vec<(String, u32, String, bool)>> {
                py.import("maple._check")?.call_method1("inspect_policy", (&*file.to_string_lossy(), name))?.extract()
            };
            let found = inspect().map_err(|error| anyhow::anyhow!("can't look through {}: {error}", file.display()))?;
            let suspicion = |(file, line, text, is_untracked)| Suspicion { file, line, text, is_untracked };
            Ok(found.into_iter().map(suspicion).collect())
        })
    }

    fn import_lists(&self, arguments: &[OsString]) -> anyhow::Result<u8> {
        let found =
            |py: Python<'_>| py.import("importlib.util")?.call_method1("find_spec", ("maple.importers",))?.is_truthy();
        match Python::attach(found) {
            Ok(true) => program("maple.importers.__main__", arguments),
            Ok(false) => Err(anyhow::anyhow!("the importers are not installed: pip install 'maple-sdn[importers]'")),
            Err(error) => Err(anyhow::anyhow!("{error}")),
        }
    }

    fn run_tests(&self, arguments: &[OsString]) -> anyhow::Result<u8> {
        program("maple.testing._command", arguments)
    }

    fn print_aside(&self) -> anyhow::Result<()> {
        let aside = |py: Python<'_>| {
            let sys = py.import("sys")?;
            sys.setattr("stdout", sys.getattr("stderr")?)
        };
        Python::attach(aside).map_err(|error: PyErr| anyhow::anyhow!("can't move sys.stdout: {error}"))
    }

    fn starting(&self) {
        host::starting();
    }

    fn started(&self, controller: Handle) {
        host::started(controller);
        start_listening();
    }

    fn ended(&self) {
        host::ended();
    }
}

/// Runs `main(arguments)` of a module of this package. Returns the exit status.
fn program(module: &str, arguments: &[OsString]) -> anyhow::Result<u8> {
    let main = |py: Python<'_>| -> PyResult<u8> {
        match py.import(module)?.call_method1("main", (arguments,)) {
            Ok(status) => status.extract(),
            // For `--help` and bad options, argparse ends the program.
            Err(error) if error.is_instance_of::<PySystemExit>(py) => error.value(py).getattr("code")?.extract(),
            Err(error) => Err(error),
        }
    };
    Python::attach(main).map_err(|error| anyhow::anyhow!("{error}"))
}

/// Loads a policy or a handler class by a function of a module of this package.
fn loaded(
    py: Python<'_>,
    module: &str,
    function: &str,
    file: &Path,
    name: Option<&str>,
    time_limit: Duration,
) -> anyhow::Result<Loaded> {
    let module = py.import(module).map_err(|e| anyhow::anyhow!("{e}"))?;
    let path = file.to_string_lossy();
    let loaded = module.call_method1(function, (&*path, name)).map_err(|error| {
        let arguments = (error.value(py), error.traceback(py), &*path);
        let reported = py.import("maple._policy").and_then(|policy| policy.call_method1("explain", arguments));
        let reported = reported.map_or_else(|_| error.to_string(), |text| text.to_string());
        let space = if reported.contains('\n') { "\n" } else { " " };
        anyhow::anyhow!("can't load {path}:{space}{reported}")
    })?;
    if loaded.is_instance_of::<PyType>() {
        let handlers = Handlers::new(PythonHandlers::new(&loaded, time_limit));
        return Ok(Loaded::Handlers(ControllerOptions {
            store: host::store(),
            ..ControllerOptions::for_programs(Arc::new(handlers))
        }));
    }
    let track_hosts = loaded.getattr("track_hosts").and_then(|wish| wish.extract()).unwrap_or(true);
    let mut options = ControllerOptions::new(Arc::new(PythonPolicy::new(&loaded, time_limit)));
    options.store = host::store();
    options.engine.track_hosts = track_hosts;
    options.snooping = snooping_of(&loaded).map_err(|error| anyhow::anyhow!("@policy: {error}"))?;
    Ok(Loaded::Policy(options))
}

/// Calls the function `what` of `maple._reload`, to report how the reload of a file ended.
fn report_reload(what: &str) {
    let notify = |py: Python<'_>| py.import("maple._reload")?.call_method0(what).map(drop);
    if let Err(error) = Python::attach(notify) {
        print_plain(Level::Error, &format!("can't end the reload: {error}"));
    }
}

/// The listener for the `@on` functions of the policy's file, kept here until the controller runs.
static LISTENER: Mutex<Option<Listener>> = Mutex::new(None);

/// Subscribes to the events of the file's `@on` functions. Returns `None` if it has no such functions.
fn listening(py: Python<'_>) -> anyhow::Result<Option<Subscription>> {
    let wanted = || -> PyResult<Option<Vec<Cond>>> {
        let wanted: Option<Vec<Bound<'_, PyDict>>> = py.import("maple._on")?.call_method0("get_ready")?.extract()?;
        let Some(wanted) = wanted else { return Ok(None) };
        wanted.iter().map(|fields| condition(fields)).collect::<PyResult<Vec<_>>>().map(Some)
    };
    let wanted = wanted().map_err(|error| anyhow::anyhow!("@on: {error}"))?;
    let Some(wanted) = wanted else { return Ok(None) };
    let (listening, listener) = subscribe(wanted)?;
    *LISTENER.lock() = Some(listener);
    Ok(Some(listening))
}

/// Starts a thread that calls the `@on` functions.
fn start_listening() {
    let Some(listener) = LISTENER.lock().take() else { return };
    let start = |py: Python<'_>| py.import("maple._on")?.call_method1("start", (PyListener::new(listener),)).map(drop);
    if let Err(error) = Python::attach(start) {
        print_plain(Level::Error, &format!("can't start the functions that listen: {error}"));
    }
}
