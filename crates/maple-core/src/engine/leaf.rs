//! Leaves: f's answer for one kind of packet, with all that is needed to install, withdraw and explain it.

use std::sync::Arc;

use maple_wire::{Constraint, Dpid, Field, Packet, PortNo};

use super::Time;
use super::routes::RouteId;
use crate::ids::LeafId;
use crate::labels::LabelTable;
use crate::network::Location;
use crate::route::Goal;
use crate::trace::{Fields, Item, Trace};

/// A packet at hand.
#[derive(Clone, Debug)]
pub(super) struct ReceivedPacket {
    /// The bytes that were captured.
    pub frame: Arc<[u8]>,
    /// How many there were on the wire.
    pub total_len: usize,
    /// Where the switch keeps it, or [`maple_wire::msg::NO_BUFFER`].
    pub buffer_id: u32,
    /// Where it came in.
    pub at: Location,
}

/// f's answer for the packets that pass a trace. Lives at the shard of the ingress switch.
#[derive(Debug)]
pub(super) struct Leaf {
    /// What f observed.
    pub trace: Trace,
    /// What its packets have in common besides: other packets that f would observe the same of have leaves of their own.
    pub specialisation: Box<[Constraint]>,
    /// What f answered.
    pub route: Goal,
    /// The route that the leaf has joined; `None` before that, and where the ingress switch does all by itself.
    pub via: Option<RouteId>,
    /// The packet that f ran on.
    pub witness: ReceivedPacket,
    pub state: LeafState,
    /// Packets that wait for the installation, if there are some.
    pub held: Option<Box<HeldPackets>>,
}

/// Packets that wait, and how long they may.
#[derive(Debug)]
pub(super) struct HeldPackets {
    pub packets: Vec<ReceivedPacket>,
    pub until: Time,
}

/// How far a leaf has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LeafState {
    /// The route's labels are not ready. Packets wait, or go or go through the controller.
    Waiting { by_controller: bool },
    /// The ingress switch has the rule, or gets it with the next flush.
    Active,
    /// The ingress switch has the rule of the route as it was. The new one's labels are not ready; they have to be `until`
    /// then.
    Rerouting(Box<Reroute>),
    /// There is no room for its rules; a packet that comes from then on asks again.
    NoCapacity { from: Time },
    /// The packets go through the controller.
    ByController,
}

/// A leaf's way to another route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reroute {
    pub to: Goal,
    pub via: RouteId,
    pub until: Time,
}

/// The byte that our cookies begin with.
const TAG: u64 = 0x4d;

/// What stands in place of a leaf in cookies of the engine's own rules.
const NO_LEAF: u64 = 0xff_ffff_ffff;

/// What stands there in cookies of rules that copy packets to the controller.
const COPY: u64 = 0xff_ffff_fffe;

/// The cookie of rules that copy packets to the controller and treat them as others do.
pub(super) fn copy_cookie(epoch: u16) -> u64 {
    cookie(epoch, Some(LeafId(COPY)))
}

/// A cookie: 8 bits tag, 16 bits epoch, 40 bits leaf, or what stands in its place.
pub(super) fn cookie(epoch: u16, leaf: Option<LeafId>) -> u64 {
    TAG << 56 | u64::from(epoch) << 40 | leaf.map_or(NO_LEAF, |leaf| leaf.0 & NO_LEAF)
}

/// The cookies of all rules of Maple's: the value, and the bits of it that count.
pub const OWN_COOKIES: (u64, u64) = (TAG << 56, 0xff << 56);

/// Whether a rule with this cookie is ours, from this run of the controller or an earlier one.
pub(super) fn is_ours(cookie: u64) -> bool {
    cookie & OWN_COOKIES.1 == OWN_COOKIES.0
}

/// What a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Subject {
    /// A leaf.
    Leaf(LeafId),
    /// A label, by its serial number.
    Label(u64),
}

/// What a cookie of this epoch leads to.
pub(super) fn subject_of(epoch: u16, cookie: u64) -> Option<Subject> {
    let leaf = cookie & NO_LEAF;
    let is_ours = cookie >> 40 == TAG << 16 | u64::from(epoch) && leaf < COPY;
    let subject = || LabelTable::of_cookie(leaf).map_or(Subject::Leaf(LeafId(leaf)), Subject::Label);
    is_ours.then(subject)
}

impl Leaf {
    /// The switch where the leaf's packets enter.
    pub fn ingress(&self) -> Dpid {
        self.witness.at.switch
    }

    /// How many packets wait.
    pub fn count_held(&self) -> usize {
        self.held.as_ref().map_or(0, |held| held.packets.len())
    }

    /// Whether it is on its way to another route.
    pub fn is_rerouting(&self) -> bool {
        matches!(self.state, LeafState::Rerouting(_))
    }

    /// The route that the leaf has, or is about to have.
    pub fn goal(&self) -> &Goal {
        if let LeafState::Rerouting(reroute) = &self.state { &reroute.to } else { &self.route }
    }
}

impl ReceivedPacket {
    /// The packet's fields.
    pub fn packet(&self) -> Packet<'_> {
        Packet::with_wire_len(&self.frame, self.at.port.0, self.total_len)
    }

    /// Whether the packet certainly has no VLAN tag.
    pub fn is_untagged(&self) -> bool {
        let packet = self.packet();
        let known = self.is_whole() || packet.is_captured(Field::VlanVid);
        known && packet.switch_value(Field::VlanVid) == Some(0)
    }

    /// Whether all bytes are here.
    pub fn is_whole(&self) -> bool {
        self.frame.len() >= self.total_len
    }
}

/// Fields of a packet of which perhaps only the beginning was captured; remembers if anything else was looked at.
pub(super) struct CapturedFields<'a> {
    packet: Packet<'a>,
    whole: bool,
    pub needs_more: std::cell::Cell<bool>,
}

impl<'a> CapturedFields<'a> {
    pub fn new(received: &'a ReceivedPacket) -> CapturedFields<'a> {
        CapturedFields {
            packet: received.packet(),
            whole: received.is_whole(),
            needs_more: std::cell::Cell::new(false),
        }
    }
}

impl Fields for CapturedFields<'_> {
    fn value(&self, field: Field) -> Option<u128> {
        if !self.whole && !self.packet.is_captured(field) {
            self.needs_more.set(true);
        }
        self.packet.value(field)
    }

    fn is_captured(&self, field: Field) -> bool {
        self.packet.is_captured(field)
    }
}

/// Whether a packet certainly can't pass both traces.
///
/// Looks at single items: two reads or tests that contradict each other, or a test that one trace's reads answer
/// otherwise. So `false` may be wrong, `true` is not.
pub(super) fn are_disjoint(a: &[Item], b: &[Item]) -> bool {
    let (known_a, known_b) = (known(a), known(b));
    let contradict =
        |x: &Constraint| known_b.iter().any(|y| x.field == y.field && (x.value ^ y.value) & x.mask & y.mask != 0);
    known_a.iter().any(contradict) || denies(a, b, &known_b) || denies(b, a, &known_a)
}

/// What a trace says of fields for sure.
fn known(items: &[Item]) -> Vec<Constraint> {
    let mut all = Vec::new();
    for item in items {
        match item {
            Item::Read(constraint) => all.push(*constraint),
            Item::Test { cond, outcome: true } => all.extend(cond.all.iter().copied()),
            Item::Test { .. } => {}
        }
    }
    all
}

/// Whether an item of `a` is answered otherwise by what `b` knows.
fn denies(a: &[Item], b: &[Item], known_b: &[Constraint]) -> bool {
    a.iter().any(|item| {
        let Item::Test { cond, outcome } = item else { return false };
        let opposite = |other: &Item| matches!(other, Item::Test { cond: c, outcome: o } if c == cond && o != outcome);
        if b.iter().any(opposite) {
            return true;
        }
        let bits = |field| {
            known_b
                .iter()
                .filter(|c| c.field == field)
                .fold((0, 0), |(value, mask), c| (value | c.value, mask | c.mask))
        };
        let implied = cond.all.iter().all(|c| {
            let (value, mask) = bits(c.field);
            c.mask & !mask == 0 && value & c.mask == c.value
        });
        // Whether each range's value is known, and if so whether it lies within.
        let mut ranges = cond.ranges.iter().map(|range| {
            let (value, mask) = bits(range.field);
            (mask == range.field.full_mask()).then(|| range.holds(value))
        });
        if *outcome { ranges.any(|within| within == Some(false)) } else { implied && ranges.all(|w| w == Some(true)) }
    })
}

/// A human's view of what decided: the source lines of a trace, each once, in order.
pub(super) fn source_lines(trace: &Trace) -> String {
    let mut lines: Vec<String> = Vec::new();
    for source in trace.sources.iter().flatten() {
        let line = source.to_string();
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.join(", ")
}

/// The constraint that says that a packet comes in by `port`.
pub(super) fn from_port(port: PortNo) -> Constraint {
    Constraint::exact(Field::InPort, u128::from(port.0))
}
