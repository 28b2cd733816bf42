//! The account of a run: everything that it asked and what it got, in order, for people.
//!
//! A trace leaves out what follows from earlier answers, and it has no lines for state. The account has all of this. A
//! run keeps one only if [`Run::with_account`] asked for it: it is for explanations and tests, not for decisions.

use std::panic::Location as Caller;

use maple_wire::{Dpid, Field};

use super::{Net, PacketHandle, Run, RunState};
use crate::state::{Cell, CellValue, Write};
use crate::trace::{Cond, ListAnswer, Source, caller};

/// The maximum number of steps of an account. Further steps are left out. Chosen: people read accounts, and f may loop.
pub const MAX_STEPS: usize = 4096;

/// A step of a run: a question with its answer, or a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountStep {
    /// The question with its answer, or the write.
    pub what: AccountItem,
    /// The line of the policy that asked, if it is known.
    pub source: Option<Source>,
}

/// A question with its answer, or a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccountItem {
    /// The value of a field under a mask; `None` if the packet lacks the field.
    Field(Field, u128, Option<u128>),
    /// Whether the packet fits a condition.
    Test(Cond, bool),
    /// Whether the packet has a field.
    Present(Field, bool),
    /// The entry of a list that the packet fits first.
    List(ListAnswer),
    /// The switch where the packet entered.
    Switch(Dpid),
    /// The whole frame of the packet.
    Frame,
    /// A cell of the state, and its value.
    Cell(Cell, CellValue),
    /// A path, and whether there is one.
    Path(Cell, bool),
    /// A write of f.
    Wrote(Write),
}

/// The account of a run that keeps one.
#[derive(Debug, Default)]
pub(super) struct Account {
    steps: Vec<AccountStep>,
    /// The line that runs, if the binding knows it better than Rust.
    line: Option<Source>,
}

impl Run {
    /// Lets the run keep an account of all that it observes.
    #[must_use]
    pub fn with_account(self) -> Run {
        self.state().account = Some(Box::default());
        self
    }
}

impl RunState {
    /// Adds a step, if there is an account.
    pub(super) fn note(&mut self, source: Option<&Source>, what: impl FnOnce() -> AccountItem) {
        let Some(account) = self.account.as_mut().filter(|account| account.steps.len() < MAX_STEPS) else { return };
        let source = source.cloned().map(|line| match &self.tier {
            Some(tier) => line.in_tier(tier),
            None => line,
        });
        account.steps.push(AccountStep { what: what(), source });
    }

    /// Adds a step about the state. The line is the binding's, or else that of the Rust code which asked.
    pub(super) fn note_state(&mut self, at: &Caller<'_>, what: impl FnOnce() -> AccountItem) {
        if let Some(account) = &self.account {
            let source = account.line.clone().or_else(|| caller(at));
            self.note(source.as_ref(), what);
        }
    }

    /// Takes the steps of the account.
    pub(super) fn take_account(&mut self) -> Vec<AccountStep> {
        self.account.take().map(|account| account.steps).unwrap_or_default()
    }
}

impl PacketHandle {
    /// Adds a step, if there is an account.
    pub(super) fn note(&self, source: Option<&Source>, what: impl FnOnce() -> AccountItem) {
        self.0.state().note(source, what);
    }
}

impl Net {
    /// Reports whether the run keeps an account, so that a binding should say which line asks ([`Net::at_line`]).
    pub fn keeps_account(&self) -> bool {
        self.0.state().account.is_some()
    }

    /// Records that the questions about the state that follow come from this line, for bindings that know their own
    /// source lines.
    pub fn at_line(&self, source: Option<Source>) {
        if let Some(account) = &mut self.0.state().account {
            account.line = source;
        }
    }
}
