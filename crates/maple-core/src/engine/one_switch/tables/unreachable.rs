//! The tables of a switch without a connection: its rules stand, and changes of them are recorded.

use super::removals::Removals;
use super::{InstalledRules, Tables, Unconfirmed, UpdatePhase, Waiter};

impl Tables {
    /// Reports whether the switch is to have other rules than it has.
    pub(super) fn has_changes(&self) -> bool {
        let none = InstalledRules::default();
        self.pending.iter().any(|(table, pending)| pending.differs(self.installed.get(table).unwrap_or(&none)))
    }

    /// Suspends the tables of a switch whose connection has ended; its rules stand. Until [`Tables::resume`], changes
    /// are recorded and not sent.
    pub fn suspend(&mut self) {
        self.reading.is_unreachable = true;
        self.reading.audit = None;
        // It is not known which changes the switch has made.
        self.reading.is_known &= self.sent.unconfirmed.iter().all(|(_, sent)| matches!(sent, Unconfirmed::Barrier(_)));
        let mut waiters: Vec<Waiter> =
            self.sent.unconfirmed.drain(..).flat_map(|(_, sent)| sent.waiters().to_vec()).collect();
        if let UpdatePhase::First(_, step) | UpdatePhase::Second(step) = std::mem::take(&mut self.sent.phase) {
            waiters.extend(step.waiters);
        }
        // The time that a rule took would say nothing.
        waiters.retain(|waiter| !matches!(waiter, Waiter::RuleAdded(..)));
        self.sent.waiters.splice(0..0, waiters);
    }

    /// Resumes the tables of a switch that has a connection again. Nothing is sent before its rules are read.
    pub fn resume(&mut self) {
        // What the switch had to report on the last connection is lost.
        self.deletions.lately = Removals::default();
        (self.reading.is_unreachable, self.reading.is_known) = (false, false);
    }

    /// Copies the tables as if the switch had a connection, and the rules that it had at the end of the last one.
    pub fn presumed_reachable(&self) -> Tables {
        let mut copy = self.clone();
        copy.reading.is_unreachable = false;
        copy
    }

    /// Returns the number of waiters for the barrier of the next update.
    pub fn count_waiters(&self) -> usize {
        self.sent.waiters.len()
    }
}
