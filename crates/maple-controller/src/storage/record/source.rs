//! The source of a policy, so that a replay can load it again.

use std::path::{Component, Path, PathBuf};

use maple_wire::Dpid;
use serde::{Deserialize, Serialize};

/// The maximum number of bytes of all files of a policy. Chosen: far more than people write, and a bound on the memory
/// of a reload.
pub(crate) const MAX_BYTES: u64 = 64 << 20;

/// The source of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicySource {
    /// A policy that the command has, by its name, such as `builtin:flood`.
    Builtin(String),
    /// A policy in a file.
    Files {
        /// The file, and the name of the policy in it if one was given: `acl.py:strict`.
        name: String,
        /// The file and those beside it that may be part of the policy: their names in the folder, and their contents.
        files: Vec<(PathBuf, Vec<u8>)>,
    },
    /// A program with a policy of its own.
    Program,
}

/// The source of a policy, as a recording holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordedSource {
    /// A policy that the command has, by its name.
    Builtin {
        /// Its name.
        name: String,
    },
    /// A policy in a file.
    Files {
        /// The folder in the recording that has the files.
        folder: String,
        /// The file in it, and the name of the policy in the file.
        name: String,
        /// The fingerprint of the files.
        hash: String,
    },
    /// A program with a policy of its own.
    Program,
    /// Two other policies, of which the new one decides what enters at some switches.
    Canary {
        /// The number of the old policy's source.
        old: u64,
        /// The number of the new policy's source.
        new: u64,
        /// The switches.
        switches: Vec<Dpid>,
    },
}

/// A record about policies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SourceRecord {
    /// The policy with this number has this source. Numbers begin at 0, the policy that ran first.
    Source { number: u64, source: RecordedSource },
    /// The policy of this candidate has that number.
    Candidate { candidate: u64, number: u64 },
}

/// Reports whether a path of a recording names something directly in its folder.
pub(crate) fn is_inside(path: &Path) -> bool {
    let mut parts = path.components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None))
}
