//! Changes of the store that engines do not make: writes of other threads, and label ids that are kept.

use std::sync::Arc;

use maple_core::state::{KeptLabel, Store, StoreRecorder, Write};

use serde::{Deserialize, Serialize};

use super::SharedRecording;

/// A change of the store from outside of the engines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum OutsideChange {
    /// Another thread published writes.
    Wrote { writes: Vec<Write> },
    /// Label ids were kept as a rehearsal gave them.
    Rehearsed { labels: Vec<KeptLabel> },
}

impl OutsideChange {
    /// Makes the change again.
    pub fn repeat(self, store: &Store) {
        match self {
            OutsideChange::Wrote { writes } => drop(store.update(|_| writes)),
            OutsideChange::Rehearsed { labels } => store.rehearse_labels(&labels),
        }
    }
}

/// Records these changes, each with the number of times that the store had moved before.
pub(crate) struct OutsideRecorder(pub Arc<SharedRecording>);

impl OutsideRecorder {
    fn note(&self, at: u64, what: &OutsideChange) {
        self.0.append_outside(&(at, what));
    }
}

impl StoreRecorder for OutsideRecorder {
    fn wrote(&self, at: u64, writes: &[Write]) {
        if self.0.is_on() {
            self.note(at, &OutsideChange::Wrote { writes: writes.to_vec() });
        }
    }

    fn rehearsed(&self, at: u64, labels: &[KeptLabel]) {
        if self.0.is_on() {
            self.note(at, &OutsideChange::Rehearsed { labels: labels.to_vec() });
        }
    }

    fn watched(&self, _: u64) {
        self.0.fail(
            "a thread of the policy waits for something that is measured, or for an address, which no packet has asked \
             for; a replay can't repeat that",
        );
    }
}
