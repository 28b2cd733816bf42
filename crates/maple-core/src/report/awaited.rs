//! Reasons that keep a wait for removed rules from ending.

use std::fmt;
use std::sync::Arc;

use maple_wire::{Version, print};

use crate::rule::Rule;
use crate::update::Change;

/// Something that a switch has yet to confirm, or packets at it have yet to get.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Awaited {
    /// The switch is gone.
    Departure,
    /// The switch has no connection.
    Connection,
    /// The rules that an earlier run left are being compared.
    Comparison,
    /// The switch's rules are being read.
    Reading,
    /// A change of a rule was sent.
    Change {
        /// The OpenFlow version of the switch.
        version: Version,
        /// The table of the rule.
        table: u8,
        /// The change.
        change: Change,
    },
    /// A barrier request was sent.
    BarrierReply,
    /// The packets of a leaf or route change to another path.
    Path {
        /// A description of one of these packets, if there is a leaf.
        packet: Option<Arc<str>>,
    },
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Awaited::Departure => f.write_str("it is gone"),
            Awaited::Connection => f.write_str("it has no control connection, and its rules change when it is back"),
            Awaited::Comparison => f.write_str("its rules of an earlier run are being compared"),
            Awaited::Reading => f.write_str("its rules are being read"),
            Awaited::Change { version, table, change } => {
                let verb = match change {
                    Change::Add(_) => "add",
                    Change::Modify(_) => "modify",
                    Change::Delete(_) => "delete",
                };
                write!(f, "it has not confirmed: {verb} {}", rule_line(*version, *table, change.rule()))
            }
            Awaited::BarrierReply => f.write_str("it has not answered a barrier request"),
            Awaited::Path { packet: None } => f.write_str("packets wait for the rules of their new path"),
            Awaited::Path { packet: Some(packet) } => {
                write!(f, "packets like {packet} wait for the rules of their new path")
            }
        }
    }
}

/// Writes a rule as one line, in the notation of Open vSwitch.
pub(crate) fn rule_line(version: Version, table: u8, rule: &Rule) -> String {
    let Rule { priority, matching, instructions, cookie } = rule;
    print::flow_line(version, table, *priority, *cookie, matching, instructions).trim_start().to_owned()
}

#[cfg(test)]
mod tests {
    use maple_wire::Match;

    use super::*;

    #[test]
    fn awaited_changes_are_described_in_words() {
        let rule = Rule { priority: 7, matching: Match::any(), instructions: Default::default(), cookie: 0 };
        let change = Awaited::Change { version: Version::Of13, table: 1, change: Change::Delete(rule) };
        let text = change.to_string();
        assert!(text.starts_with("it has not confirmed: delete ") && text.contains("priority=7"), "{text}");
        let path = Awaited::Path { packet: Some("an echo".into()) };
        assert_eq!(path.to_string(), "packets like an echo wait for the rules of their new path");
    }
}
