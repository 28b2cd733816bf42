//! The reasons why state cannot be persistent.

use std::path::{Path, PathBuf};

use maple_core::state::{Cell, Mismatch};

use crate::storage::remember::STATE_FORMAT;

/// The reason why state cannot be persistent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PersistenceError {
    /// The file can't be used.
    #[error("the state file {path}: {error}")]
    File {
        /// Its path.
        path: PathBuf,
        /// The error.
        error: Box<redb::Error>,
    },
    /// The file can't be created.
    #[error("the state file {path}: {error}")]
    Create {
        /// Its path.
        path: PathBuf,
        /// The error.
        error: std::io::Error,
    },
    /// The file can't be read.
    #[error("can't read the state file {path}: {error}")]
    Read {
        /// Its path.
        path: PathBuf,
        /// The error.
        error: std::io::Error,
    },
    /// The file exists and is not Maple's.
    #[error("{0} is not a state file of Maple; it was not changed")]
    NotOurs(PathBuf),
    /// Another version of Maple has written the file.
    #[error(
        "the state file {path} has format {format}, and this version of Maple reads format {STATE_FORMAT}; it was not changed"
    )]
    Format {
        /// Its path.
        path: PathBuf,
        /// Its format.
        format: String,
    },
    /// The file is damaged.
    #[error(
        "the state file {path} is damaged ({what}); it was not changed: replace it by a copy, or delete it to start without state"
    )]
    Damaged {
        /// Its path.
        path: PathBuf,
        /// The sign of the damage.
        what: String,
    },
    /// Another process uses the file.
    #[error("another process uses the state file {0}")]
    InUse(PathBuf),
    /// A row of the file is invalid.
    #[error("the state file {path}: {row} is not a row of persistent state")]
    Row {
        /// The file's path.
        path: PathBuf,
        /// The row's key.
        row: String,
    },
    /// A value in the file does not have the declared type of its table or variable.
    #[error("the state file {path}: {mismatch}; it was not changed")]
    Type {
        /// The file's path.
        path: PathBuf,
        /// The value and the types.
        mismatch: Mismatch,
    },
    /// Two keys in the file are the same key under the declared type of their table.
    #[error("the state file {path}: {place:?} occurs in two spellings; it was not changed")]
    DuplicateKey {
        /// The file's path.
        path: PathBuf,
        /// The table and the key.
        place: Cell,
    },
    /// The thread can't be started.
    #[error("can't start the thread that writes the state file: {0}")]
    Thread(#[from] std::io::Error),
    /// A table or variable is persistent, but there is no file.
    #[error("{0} must survive a restart; name a file for it with --state FILE")]
    NoFile(String),
}

impl PersistenceError {
    /// Returns the reason, for messages that name the file already.
    pub(super) fn reason(&self) -> String {
        match self {
            PersistenceError::File { error, .. } => error.to_string(),
            PersistenceError::Create { error, .. } | PersistenceError::Read { error, .. } => error.to_string(),
            PersistenceError::InUse(_) => "another process uses it".to_owned(),
            error => error.to_string(),
        }
    }

    /// Reports whether the file could not be written or made, and can perhaps be read.
    pub(super) fn is_of_writing(&self) -> bool {
        use std::io::ErrorKind as K;
        let error = match self {
            PersistenceError::File { error, .. } => match &**error {
                redb::Error::Io(error) => error,
                _ => return false,
            },
            PersistenceError::Create { error, .. } => error,
            _ => return false,
        };
        matches!(error.kind(), K::StorageFull | K::QuotaExceeded | K::ReadOnlyFilesystem)
    }

    /// Returns this error with another path.
    pub(super) fn about(mut self, of: &Path) -> PersistenceError {
        match &mut self {
            PersistenceError::File { path, .. }
            | PersistenceError::Create { path, .. }
            | PersistenceError::Read { path, .. }
            | PersistenceError::NotOurs(path)
            | PersistenceError::Format { path, .. }
            | PersistenceError::Damaged { path, .. }
            | PersistenceError::InUse(path)
            | PersistenceError::Row { path, .. }
            | PersistenceError::Type { path, .. }
            | PersistenceError::DuplicateKey { path, .. } => *path = of.to_owned(),
            PersistenceError::Thread(_) | PersistenceError::NoFile(_) => {}
        }
        self
    }
}
