//! The room for rules in a switch: how much there is, and what the switch has refused.

use super::capacity::Capacity;
use super::tables::Postponed;
use crate::engine::context::options::Options;
use crate::ids::Time;

/// The room for rules in a switch.
#[derive(Clone)]
pub(in crate::engine) struct Room {
    pub capacity: Capacity,
    /// The time until which the switch gets no new rules, because it refuses again and again.
    pub full_until: Option<Time>,
    /// The number of updates in a row in which it refused something.
    pub full_count: u32,
    /// The engine's own rules that the switch refused lately.
    pub refused: Postponed,
}

impl Room {
    /// Creates the room of a switch that has refused nothing.
    pub fn new(three_tables: bool, options: &Options) -> Room {
        Room {
            capacity: Capacity::new(three_tables, options),
            full_until: None,
            full_count: 0,
            refused: Postponed::default(),
        }
    }
}
