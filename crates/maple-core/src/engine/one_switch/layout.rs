//! The numbers of a switch's tables.

use maple_wire::{Match, Version};

use crate::capabilities::Capabilities;
use crate::engine::context::options::Options;
use crate::look_ups::LookUpNumber;
use crate::rule::{Rule, is_to_controller_only};

/// The number of the classifier, or of the only table of a switch without three tables. Packets enter at table 0 (1.3
/// §5.1).
pub(in crate::engine) const CLASSIFIER: u8 = 0;
/// The table to which the classifier leads packets that enter here: the first table of look-ups, or the ingress table.
/// Packets can only go on to a higher table (1.3 §5.1).
pub(in crate::engine) const ENTRY: u8 = 1;

/// Reports whether a rule is the table-miss rule of the first table. Without it a switch of 1.3 drops the packets that
/// no other rule takes (1.3 §5.4). It is right beside any other rules, so it may come before them.
pub(in crate::engine) fn is_first_table_miss(table: u8, rule: &Rule) -> bool {
    (table, rule.priority, &rule.matching) == (CLASSIFIER, 0, &Match::any())
        && is_to_controller_only(&rule.instructions)
}

/// The number of tables that a switch has besides those of look-ups: classifier, ingress, labels, routes.
const OTHERS: u8 = 4;

/// The numbers of a switch's tables: the classifier, one for each look-up, ingress, labels, routes. A packet only ever
/// goes on to a table with a higher number (OpenFlow 1.3 §5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Layout {
    /// Whether the switch has these tables. If not, it has one, for all rules.
    has_pipeline: bool,
    look_ups: u8,
    /// Whether rules of keys may write the action sets of packets.
    has_action_sets: bool,
}

impl Layout {
    /// Returns the layout of a switch with these capabilities. Tables that the others leave over are for look-ups, as
    /// many as the options allow.
    pub fn new(capabilities: &Capabilities, options: &Options) -> Layout {
        let has_pipeline = capabilities.version == Version::Of13 && capabilities.tables >= 3;
        let look_ups = capabilities.tables.saturating_sub(OTHERS).min(options.look_up_tables);
        let has_action_sets = options.open_routes && capabilities.action_sets && look_ups > 0;
        if has_pipeline {
            Layout { has_action_sets, ..Layout::with_look_ups(look_ups) }
        } else {
            Layout::with_one_table()
        }
    }

    /// Returns the layout with this number of tables for look-ups.
    pub fn with_look_ups(look_ups: u8) -> Layout {
        Layout { has_pipeline: true, look_ups, has_action_sets: false }
    }

    /// Returns the layout of a switch with one table.
    pub fn with_one_table() -> Layout {
        Layout { has_pipeline: false, look_ups: 0, has_action_sets: false }
    }

    /// Reports whether the switch has these tables, and not one for all rules.
    pub fn has_pipeline(self) -> bool {
        self.has_pipeline
    }

    /// Reports whether rules of keys may write the action sets of packets, and rules of leaves let these act.
    pub fn has_action_sets(self) -> bool {
        self.has_action_sets
    }

    /// Returns the tables of look-ups, in order.
    pub fn look_ups(self) -> std::ops::Range<u8> {
        ENTRY..self.ingress()
    }

    /// Returns the table of a look-up.
    pub fn table_of(self, look_up: LookUpNumber) -> u8 {
        self.look_ups().start + look_up.0 as u8
    }

    /// Returns the look-up that has a table, if that is one of look-ups.
    pub fn look_up_of(self, table: u8) -> Option<LookUpNumber> {
        self.look_ups().contains(&table).then(|| LookUpNumber(usize::from(table - self.look_ups().start)))
    }

    /// Returns the table for packets that enter here.
    pub fn ingress(self) -> u8 {
        ENTRY + self.look_ups
    }

    /// Returns the table for labelled packets.
    pub fn labels(self) -> u8 {
        self.ingress() + 1
    }

    /// Returns the table of routes, to which rules of the ingress table lead, if the switch has it.
    pub fn routes(self) -> u8 {
        self.labels() + 1
    }
}
