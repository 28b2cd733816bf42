//! Traces: what one run of a policy observed of its packet, in order (paper §3.2.1, §4.2).
//!
//! A trace is a list of [`Item`]s. An item is a *read* of a field's value, whole or under a mask, or a *test* of a
//! condition with its outcome. Any packet that passes all items of a trace makes the same policy take the same path, so
//! the policy's answer can be given without running it. [`Recorder`] writes traces, and leaves out what earlier items
//! already say. [`Trace::lower`] rewrites a trace for a switch that can't match all of it.

use std::fmt;
use std::sync::Arc;

use maple_wire::field::{VLAN_PRESENT, ValueKind};
use maple_wire::packet::text::field_value_to_string;
use maple_wire::{Constraint, Field, Packet};
use serde::{Deserialize, Serialize};

mod condition_index;
mod knowledge;
mod list;
mod lower;
mod overlap;
mod prerequisites;
mod recorder;
mod region;
mod source;

pub(crate) use condition_index::ConditionIndex;
pub(crate) use knowledge::{ChainPrefix, FailedChain, Knowledge, KnownAnswer};
pub(crate) use list::CaptureChecked;
pub use list::{CondList, ListAnswer};
pub(crate) use lower::LoweredTrace;
pub use overlap::{Example, example_of_both};
pub use recorder::Recorder;
pub use region::Region;
pub use source::Source;
pub(crate) use source::caller;

/// A source of a packet's field values.
///
/// A packet has a field exactly if the field's prerequisites hold ([`Field::prerequisites`]). Implementations must keep
/// to this rule: the recorder proves absence by the prerequisites alone.
pub trait Fields {
    /// Returns the field's value as a switch sees it (0 if its bytes are missing or malformed); `None` if the packet
    /// has no such field.
    fn value(&self, field: Field) -> Option<u128>;

    /// Reports whether [`Fields::value`] is what a switch sees, and not a stand-in for bytes that the controller was
    /// not sent.
    fn is_captured(&self, field: Field) -> bool;
}

impl Fields for Packet<'_> {
    fn value(&self, field: Field) -> Option<u128> {
        // A field with a value has its prerequisites, so the more expensive look-up is made only if there is no value.
        self.get(field).or_else(|| self.switch_value(field))
    }

    fn is_captured(&self, field: Field) -> bool {
        // If nothing was cut off, a header that breaks off does so at the switch too, which sees 0 there.
        self.is_whole() || self.get(field).is_some()
    }
}

impl<P: Fields + ?Sized> Fields for &P {
    fn value(&self, field: Field) -> Option<u128> {
        (**self).value(field)
    }

    fn is_captured(&self, field: Field) -> bool {
        (**self).is_captured(field)
    }
}

/// A condition that a field lies between two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Range {
    /// The field.
    pub field: Field,
    /// The lowest value that fits.
    pub lo: u128,
    /// The highest value that fits; not below `lo`.
    pub hi: u128,
}

impl Range {
    /// Reports whether a packet whose field has `value` fits.
    #[must_use]
    pub const fn holds(&self, value: u128) -> bool {
        self.lo <= value && value <= self.hi
    }
}

/// A conjunction: all constraints and all ranges hold. A packet that lacks one of their fields does not fit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Cond {
    /// The constraints, at most one for each field, in OXM order.
    pub constraints: Vec<Constraint>,
    /// The ranges, at most one for each field, in OXM order, on fields that `constraints` does not name.
    pub ranges: Vec<Range>,
}

impl Cond {
    /// Reports whether a packet fits.
    pub fn holds<P: Fields + ?Sized>(&self, packet: &P) -> bool {
        self.constraints.iter().all(|c| packet.value(c.field).is_some_and(|value| c.holds(value)))
            && self.ranges.iter().all(|r| packet.value(r.field).is_some_and(|value| r.holds(value)))
    }

    /// Adds a constraint to the condition, in place of one on the same field.
    #[must_use]
    pub fn and(mut self, constraint: Constraint) -> Cond {
        match self.constraints.binary_search_by_key(&constraint.field, |c| c.field) {
            Ok(index) => self.constraints[index] = constraint,
            Err(index) => self.constraints.insert(index, constraint),
        }
        self
    }

    /// Adds a range to the condition, in place of one on the same field.
    #[must_use]
    pub fn within(mut self, range: Range) -> Cond {
        match self.ranges.binary_search_by_key(&range.field, |r| r.field) {
            Ok(index) => self.ranges[index] = range,
            Err(index) => self.ranges.insert(index, range),
        }
        self
    }

    /// Reports whether every packet fits.
    #[must_use]
    pub fn is_always(&self) -> bool {
        self.constraints.is_empty() && self.ranges.is_empty()
    }
}

/// One thing that a policy learned of its packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Item {
    /// The field's value under the mask.
    Read(Constraint),
    /// A test whether the packet fits a condition.
    Test {
        /// The condition, shared with the tree and with other traces that ask the same.
        cond: Arc<Cond>,
        /// Whether it fits.
        outcome: bool,
    },
}

impl Item {
    /// Reports whether a packet gives the same answer.
    pub fn holds<P: Fields + ?Sized>(&self, packet: &P) -> bool {
        match self {
            Item::Read(constraint) => packet.value(constraint.field).is_some_and(|value| constraint.holds(value)),
            Item::Test { cond, outcome } => cond.holds(packet) == *outcome,
        }
    }
}

/// The observations that one run of a policy made of its packet.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Trace {
    /// Reads and tests in the order they were made.
    pub items: Vec<Item>,
    /// The answers of lists, in order: each stands for tests between the items.
    pub lists: Vec<ListAnswer>,
    /// The line that each item comes from; as long as `items`.
    pub sources: Arc<Vec<Option<Source>>>,
    /// Whether the run asked for the switch. In an ingress tree that is constant, so no item says it.
    pub read_switch: bool,
    /// Whether the run asked for a field whose bytes are not in the frame, and saw 0 instead. If the frame was cut
    /// short on its way to the controller, that may not be what the switch has.
    pub reads_missing_bytes: bool,
    /// Whether each packet of this kind must come to the controller: f sends frames of its own for it, or looked at the
    /// whole frame, or listeners receive it.
    pub needs_controller: bool,
}

/// A step of a trace.
#[derive(Clone, Copy, Debug)]
pub enum TraceStep<'a> {
    /// An item, with its source.
    Item(&'a Item, Option<&'a Source>),
    /// The answer of a list.
    List(&'a ListAnswer),
}

impl<'a> TraceStep<'a> {
    /// Returns the line that the step comes from.
    #[must_use]
    pub fn source(&self) -> Option<&'a Source> {
        match self {
            TraceStep::Item(_, source) => *source,
            TraceStep::List(answer) => answer.source.as_ref(),
        }
    }
}

impl PartialEq for TraceStep<'_> {
    /// Reports whether both asked the same and got the same answer, whatever their lines.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (TraceStep::Item(item, _), TraceStep::Item(other, _)) => item == other,
            (TraceStep::List(answer), TraceStep::List(other)) => answer.key() == other.key(),
            _ => false,
        }
    }
}

/// Bits of the metadata that a trace reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadMetadata {
    /// The bits.
    pub value: u64,
    /// Which bits are read.
    pub mask: u64,
}

impl Trace {
    /// Iterates over reads, tests and answers of lists in the order in which they were made.
    pub fn steps(&self) -> impl Iterator<Item = TraceStep<'_>> {
        let (mut items, mut lists) = (self.items.iter().enumerate(), self.lists.iter().peekable());
        let mut passed = 0;
        std::iter::from_fn(move || {
            if let Some(answer) = lists.next_if(|answer| answer.after <= passed) {
                return Some(TraceStep::List(answer));
            }
            let (index, item) = items.next()?;
            passed = index + 1;
            Some(TraceStep::Item(item, self.sources.get(index).and_then(Option::as_ref)))
        })
    }

    /// Reports whether a packet gives the same answers.
    pub fn holds<P: Fields + ?Sized>(&self, packet: &P) -> bool {
        self.items.iter().all(|item| item.holds(packet)) && self.lists.iter().all(|answer| answer.holds(packet))
    }

    /// Returns the bits of the metadata that the trace reads: the classes of what look-ups found.
    pub(crate) fn metadata(&self) -> ReadMetadata {
        self.items.iter().fold(ReadMetadata::default(), |all, item| match item {
            Item::Read(Constraint { field: Field::Metadata, value, mask }) => {
                ReadMetadata { value: all.value | *value as u64, mask: all.mask | *mask as u64 }
            }
            _ => all,
        })
    }

    /// Reports whether another trace has the same reads, tests and answers.
    #[must_use]
    pub fn asks_like(&self, other: &Trace) -> bool {
        self.items == other.items && self.lists == other.lists
    }

    /// Reports whether a rule may do what f did.
    #[must_use]
    pub fn lasts(&self) -> bool {
        !self.reads_missing_bytes && !self.needs_controller
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}..{}", self.field, field_value_text(self.field, self.lo), field_value_text(self.field, self.hi))
    }
}

impl fmt::Display for Cond {
    /// Writes text such as `eth_type=0x800, ip_proto=6, tcp_dst=22`; `any` for the empty condition.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_always() {
            return f.write_str("any");
        }
        for (i, constraint) in self.constraints.iter().enumerate() {
            write!(f, "{}{}", if i > 0 { ", " } else { "" }, constraint_text(constraint))?;
        }
        for (i, range) in self.ranges.iter().enumerate() {
            write!(f, "{}{range}", if i > 0 || !self.constraints.is_empty() { ", " } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::Read(constraint) => write!(f, "read {}", constraint_text(constraint)),
            Item::Test { cond, outcome } => write!(f, "test {cond}: {}", if *outcome { "yes" } else { "no" }),
        }
    }
}

impl fmt::Display for TraceStep<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceStep::Item(item, _) => item.fmt(f),
            TraceStep::List(answer) => answer.fmt(f),
        }
    }
}

/// Returns a constraint as text: `tcp_dst=22`, `ipv4_src=10.0.0.0/8`, `vlan_vid=0x1000/0x1000`.
pub(crate) fn constraint_text(constraint: &Constraint) -> String {
    let Constraint { field, value, mask } = *constraint;
    if constraint.is_exact() {
        return format!("{field}={}", field_value_text(field, value));
    }
    match (field.kind(), field.prefix_length(mask)) {
        (ValueKind::Ipv4 | ValueKind::Ipv6, Some(length)) => {
            format!("{field}={}/{length}", field_value_text(field, value))
        }
        (ValueKind::Mac | ValueKind::Ipv4 | ValueKind::Ipv6, _) => {
            format!("{field}={}/{}", field_value_text(field, value), field_value_text(field, mask))
        }
        _ if field == Field::VlanVid => format!("{field}={value:#x}/{mask:#x}"),
        _ => format!("{field}={}/{mask:#x}", field_value_text(field, value)),
    }
}

/// Returns a field's value as users write it: addresses in their notation, reserved ports by their names, VLAN ids
/// without the bit of the tag, types in hexadecimal, the rest in decimal.
#[must_use]
pub fn field_value_text(field: Field, value: u128) -> String {
    match field {
        Field::VlanVid if value == 0 => "none".to_owned(),
        Field::VlanVid if value & VLAN_PRESENT != 0 => (value & !VLAN_PRESENT).to_string(),
        _ if field.kind() == ValueKind::Bits => format!("{value:#x}"),
        _ => field_value_to_string(field, value),
    }
}
