//! The room for rules in a switch: how much there is, and what the switch has refused.

pub(in crate::engine) mod capacity;

use std::time::Duration;

use crate::engine::context::options::Options;
use crate::engine::one_switch::tables::Postponed;
use crate::engine::tools::backoff::pause;
use crate::ids::Time;
use crate::rule::Rule;
use crate::update::{EntryKey, key_of};
use capacity::Capacity;

/// The number of updates in a row that a switch may refuse before it is closed. Chosen: refused rules are postponed one
/// by one, so a switch that lacks capacity for these alone takes the updates that follow.
const MAX_REFUSED_UPDATES: u32 = 3;

/// The minimum time for which a switch that refuses several updates in a row gets no new rules. Chosen: a switch that
/// was busy for a moment takes rules again soon.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// The maximum time for which a switch that refuses updates gets no new rules. Chosen: a switch that has recovered is
/// noticed within about a minute.
const MAX_PAUSE: Duration = Duration::from_secs(64);

/// The room for rules in a switch.
#[derive(Clone)]
pub(in crate::engine) struct Room {
    pub capacity: Capacity,
    /// The time until which the switch gets no new rules, because it refuses again and again.
    closed_until: Option<Time>,
    /// The number of updates in a row in which it refused something.
    refused_updates: u32,
    /// The engine's own rules that the switch refused lately.
    refused: Postponed,
}

/// The pauses that follow the refusal of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct RefusalPauses {
    /// The time when the refused rule may be tried again.
    pub rule_until: Time,
    /// The time when the pause of the switch is over, if it has one.
    pub switch_until: Time,
    /// Whether the switch refuses so often that it is closed.
    pub is_closed: bool,
}

impl Room {
    /// Creates the room of a switch that has refused nothing.
    pub fn new(has_pipeline: bool, options: &Options) -> Room {
        Room {
            capacity: Capacity::new(has_pipeline, options),
            closed_until: None,
            refused_updates: 0,
            refused: Postponed::default(),
        }
    }

    /// Reports whether the switch gets no new rules, because it refuses again and again.
    pub fn is_closed(&self) -> bool {
        self.closed_until.is_some()
    }

    /// Reports whether the switch gets no new rules at this time. Its pause may be over before [`Room::reopen`].
    pub fn is_closed_at(&self, now: Time) -> bool {
        self.closed_until.is_some_and(|until| until > now)
    }

    /// Reports whether a rule of the engine's own was refused lately, so that it has to wait.
    pub fn is_postponed(&self, table: u8, rule: &Rule) -> bool {
        self.refused.has(table, &key_of(rule))
    }

    /// Postpones a refused rule of the engine's own. Returns until when.
    pub fn postpone(&mut self, now: Time, table: u8, rule: EntryKey) -> Time {
        self.refused.refuse(now, table, rule)
    }

    /// Postpones a refused rule, and closes the switch if it refuses too often. `begins_update`: the rule is the first
    /// refused one of its update.
    pub fn refuse(&mut self, now: Time, table: u8, rule: EntryKey, begins_update: bool) -> RefusalPauses {
        let rule_until = self.postpone(now, table, rule);
        self.refused_updates += u32::from(begins_update);
        let is_closed = self.refused_updates > MAX_REFUSED_UPDATES;
        let switch_until = now + pause(self.refused_updates.saturating_sub(1), SHORTEST_PAUSE, MAX_PAUSE);
        if is_closed {
            self.closed_until = Some(switch_until);
        }
        RefusalPauses { rule_until, switch_until, is_closed }
    }

    /// Closes the switch until a refused rule is tried again, because nothing else may take the room that it needs.
    pub fn close_for_rule(&mut self, pauses: RefusalPauses) -> RefusalPauses {
        let switch_until = pauses.rule_until.max(pauses.switch_until);
        self.closed_until = Some(switch_until);
        RefusalPauses { switch_until, is_closed: true, ..pauses }
    }

    /// Ends the row of refused updates, because the switch has confirmed a rule.
    pub fn note_confirmed(&mut self) {
        if !self.is_closed() {
            self.refused_updates = 0;
        }
    }

    /// Ends the pauses that are over. Returns whether rules of the engine's own may be tried again.
    pub fn reopen(&mut self, now: Time) -> bool {
        self.closed_until = self.closed_until.filter(|until| *until > now);
        !self.is_closed() && self.refused.end(now)
    }
}
