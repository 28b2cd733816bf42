//! A copy of the remembered leaves and surroundings, for a process that takes over.

use std::sync::Arc;

use maple_core::memory::{Surroundings, Witness};
use serde::{Deserialize, Serialize};

use super::journal::{COPY, LeafJournal};
use super::remembered_rows::{leaves, once};
use crate::storage::known_switches::Restart;
use crate::storage::late_database::LateDatabase;

/// The knowledge of a run about switches that may come back, and its notes of its leaves for the next run.
#[derive(Clone, Debug)]
pub(crate) struct KnownSwitches {
    pub restart: Arc<Restart>,
    pub journal: Arc<LeafJournal>,
}

/// The sources of leaves and surroundings for a process that takes over.
pub(crate) struct Archive {
    pub journal: Arc<LeafJournal>,
    pub restart: Arc<Restart>,
    pub database: Arc<LateDatabase>,
}

/// A copy of the leaves in the file and of the surroundings.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Archived {
    /// The epoch of the run.
    pub epoch: u16,
    /// Leaves by their rows in the file.
    pub leaves: Vec<(u64, Witness)>,
    pub surroundings: Surroundings,
}

impl Archive {
    /// Copies the leaves and surroundings. Changes from then on are noted until [`LeafJournal::end_copy`].
    ///
    /// # Errors
    /// A text if the file is not open, is slow, or can't be read.
    pub fn copy(&self) -> Result<Archived, String> {
        let opened = self.database.wait_for(COPY).ok_or_else(|| {
            let why = self.database.failure().map(|why| format!(": {why}")).unwrap_or_default();
            format!("its state file is not open{why}")
        })?;
        if !self.journal.begin_copy() {
            return Err("its state file is slow".into());
        }
        let leaves = opened.work(leaves).map_err(|why| format!("its state file: {why}"))?;
        Ok(Archived { epoch: self.journal.epoch(), leaves, surroundings: self.surroundings() })
    }

    /// Returns where things are.
    pub fn surroundings(&self) -> Surroundings {
        once(self.restart.surroundings())
    }
}
