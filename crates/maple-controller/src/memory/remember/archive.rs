//! A copy of the remembered leaves and surroundings, for a process that takes over.

use std::sync::Arc;

use super::file::raw_leaves;
use super::journal::{COPY, LeafJournal};
use super::rows::SurroundingsRow;
use crate::memory::late::LateDatabase;
use crate::memory::restart::Restart;

/// The sources of leaves and surroundings for a process that takes over.
pub(crate) struct Archive {
    pub journal: Arc<LeafJournal>,
    pub restart: Arc<Restart>,
    pub database: Arc<LateDatabase>,
}

/// A copy of all rows of leaves as they are in the file, and of the surroundings.
pub(crate) struct Copied {
    /// The epoch of the run.
    pub epoch: u16,
    pub leaves: Vec<(u64, String)>,
    pub surroundings: SurroundingsRow,
}

impl Archive {
    /// Copies the leaves and surroundings. Changes from then on are noted until [`LeafJournal::end_copy`].
    ///
    /// # Errors
    /// A text if the file is not open, is slow, or can't be read.
    pub fn copy(&self) -> Result<Copied, String> {
        let opened = self.database.wait_for(COPY).ok_or_else(|| {
            let why = self.database.failure().map(|why| format!(": {why}")).unwrap_or_default();
            format!("its state file is not open{why}")
        })?;
        if !self.journal.begin_copy() {
            return Err("its state file is slow".into());
        }
        let leaves = opened.work(raw_leaves).map_err(|why| format!("its state file: {why}"))?;
        Ok(Copied { epoch: self.journal.epoch(), leaves, surroundings: self.surroundings() })
    }

    /// Returns where things are.
    pub fn surroundings(&self) -> SurroundingsRow {
        SurroundingsRow::of(self.restart.surroundings())
    }
}
