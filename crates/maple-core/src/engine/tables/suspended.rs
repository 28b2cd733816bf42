//! The tables of a switch without a connection: what it has stands, and what it is to have is recorded.

use super::{Installed, Phase, Tables, Unconfirmed, Waiter};

impl Tables {
    /// Whether the switch is to have other rules than it has.
    pub(super) fn has_changes(&self) -> bool {
        let none = Installed::default();
        self.pending.iter().any(|(table, pending)| pending.differs(self.installed.get(table).unwrap_or(&none)))
    }

    /// The connection to the switch has ended, and its rules stand. Until [`Tables::resume`] changes are recorded, and
    /// none is sent.
    pub fn suspend(&mut self) {
        self.suspended = true;
        self.audit = None;
        // What the switch has done of them is not known.
        self.ready &= self.unconfirmed.iter().all(|(_, sent)| matches!(sent, Unconfirmed::Barrier(_)));
        let mut waiters: Vec<Waiter> =
            self.unconfirmed.drain(..).flat_map(|(_, sent)| sent.waiters().to_vec()).collect();
        if let Phase::First(_, step) | Phase::Second(step) = std::mem::take(&mut self.phase) {
            waiters.extend(step.waiters);
        }
        // How long a rule took says nothing any more.
        waiters.retain(|waiter| !matches!(waiter, Waiter::RuleAdded(..)));
        self.waiting.splice(0..0, waiters);
    }

    /// The switch has a connection again. Nothing is sent before its rules are read.
    pub fn resume(&mut self) {
        (self.suspended, self.ready) = (false, false);
    }

    /// The tables as if the switch had a connection, and had the rules that it had at the end of the last one.
    pub fn presumed_reachable(&self) -> Tables {
        Tables { suspended: false, ..self.clone() }
    }

    /// How many wait for a barrier of the next update.
    pub fn count_waiting(&self) -> usize {
        self.waiting.len()
    }
}
