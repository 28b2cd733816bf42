//! How many descriptors this process may open: as many as the system lets it.

use anyhow::bail;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors besides those of connections.
const OTHERS: u64 = 64;

/// Raises the limit as far as it goes; the limit then, `None` if there is none.
pub fn raise() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // What the system does not let us have we do without.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
    getrlimit(Resource::Nofile).current
}

/// Raises the limit as far as it goes.
///
/// # Errors
/// If there can't be so many connections.
pub fn allow(connections: u64) -> anyhow::Result<()> {
    match raise() {
        Some(limit) if limit < connections + OTHERS => bail!(
            "{connections} connections need {} open files, and this process may have {limit}: raise the hard limit \
             (ulimit -Hn)",
            connections + OTHERS
        ),
        _ => Ok(()),
    }
}
