//! Raises the limit of open file descriptors.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::LoadError;

/// The number of descriptors for other purposes than connections.
const OTHERS: u64 = 64;

/// Raises the limit as far as possible, and returns it; `None` if there is no limit.
pub fn raise() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // If raising fails, the old limit stays.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
    getrlimit(Resource::Nofile).current
}

/// Raises the limit as far as possible, and checks that it is enough.
///
/// # Errors
/// [`LoadError::Descriptors`] if the limit is too low for this many connections.
pub fn allow(connections: u64) -> Result<(), LoadError> {
    let files = connections + OTHERS;
    match raise() {
        Some(limit) if limit < files => Err(LoadError::Descriptors { connections, files, limit }),
        _ => Ok(()),
    }
}
