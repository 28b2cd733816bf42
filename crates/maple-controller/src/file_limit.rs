//! The system's limit of open files of this process, which limits the number of its connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit as far as the system allows, and returns it; `None` if there is no limit.
pub fn raise() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // If raising fails, the old limit stays.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
    getrlimit(Resource::Nofile).current
}
