//! The number of open files that connections need.

use crate::error::LoadError;

/// The number of descriptors for other purposes than connections: standard streams, the poll, files; with room to
/// spare.
const OTHERS: u64 = 64;

/// Checks that a process that may have `limit` open files, if there is a limit, can have this many connections.
///
/// # Errors
/// [`LoadError::Descriptors`] if the limit is too low.
pub fn suffice(limit: Option<u64>, connections: u64) -> Result<(), LoadError> {
    let files = connections + OTHERS;
    match limit {
        Some(limit) if limit < files => Err(LoadError::Descriptors { connections, files, limit }),
        _ => Ok(()),
    }
}
