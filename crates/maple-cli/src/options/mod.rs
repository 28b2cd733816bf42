//! The options of the commands.

mod emulate;
mod load;
mod member;
mod policy;
mod run;
mod show;

use std::path::PathBuf;

use clap::error::ErrorKind;
use maple_controller::control::socket::Reach;

pub use emulate::{EmulateArgs, EmulationArgs};
pub use load::{LoadArgs, LoadMode};
pub use member::ClusterArgs;
pub use policy::{ApplyArgs, CheckArgs, CheckOptions, PlanArgs, ReloadArgs, ReplayArgs, RollbackArgs};
pub use run::{EXPLORED, RunArgs, RunOptions, TlsArgs};
pub use show::{DoctorArgs, ShowArgs, ShowWhat};

use crate::service;

/// Returns where commands look for the control socket: `$MAPLE_CONTROL`, or in the user's own folder, or that of a
/// controller that the system runs.
pub fn default_control() -> PathBuf {
    own_control().unwrap_or_else(maple_controller::control::socket::find)
}

/// Returns the controller that a command asks: at the socket that is given, or this process's own, or one that is
/// found.
pub fn controller_to_ask(given: Option<PathBuf>, own: Option<&dyn Reach>) -> Box<dyn Reach + '_> {
    match (given, own) {
        (Some(path), _) => Box::new(path),
        (None, Some(own)) => Box::new(own),
        (None, None) => Box::new(default_control()),
    }
}

/// Returns where a controller makes its control socket: `$MAPLE_CONTROL`, or in the folder that the service manager
/// gives, or in the user's own folder.
pub fn control_of_controller() -> PathBuf {
    own_control().unwrap_or_else(maple_controller::control::socket::default_path)
}

fn own_control() -> Option<PathBuf> {
    let named = std::env::var_os("MAPLE_CONTROL").map(PathBuf::from);
    named.or_else(|| service::in_folder("RUNTIME_DIRECTORY", "control.sock"))
}

/// Creates the error that an option is missing which another one needs.
fn refused(what: String) -> clap::Error {
    clap::Error::raw(ErrorKind::MissingRequiredArgument, format!("{what}\n"))
}
