//! Leaves: f's answer for one kind of packet, with all that is needed to install, withdraw and explain it.

use std::collections::BTreeSet;
use std::sync::Arc;

use maple_wire::{Constraint, Dpid, Field, Packet, PortNo, Version};

use super::Time;
use super::tags::PathTag;
use crate::capabilities::Capabilities;
use crate::network::Location;
use crate::route::Resolved;
use crate::trace::{Fields, Item, Trace};
use crate::tree::LeafId;

/// A packet at hand.
#[derive(Clone, Debug)]
pub(super) struct Arrived {
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
    pub narrowing: Vec<Constraint>,
    /// What f answered.
    pub route: Resolved,
    /// The packet that f ran on.
    pub representative: Arrived,
    pub state: LeafState,
    /// What tells its packets apart from others' on links, if their headers don't.
    pub tag: Option<PathTag>,
    /// How often an installation was begun; answers to earlier ones are stale.
    pub attempt: u32,
    /// How many of them came to nothing.
    pub failures: u32,
    /// Packets that wait for the installation, and how long they may.
    pub held: Vec<Arrived>,
    pub held_until: Option<Time>,
    /// Packets of it that got no further than these switches, and wait for the installation as well.
    pub strays: Vec<(Dpid, Arc<[u8]>)>,
}

/// How far a leaf has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LeafState {
    /// Rules of an earlier leaf are still leaving the ingress switch.
    Blocked,
    /// Waiting for these switches.
    Installing { awaiting: BTreeSet<Dpid>, until: Time },
    /// The ingress switch has the rule, or gets it with the next flush.
    Active,
    /// The ingress switch has the rule of the route as it was. The other switches get their parts of the new one: these are
    /// waited for, and then each of the others alone, from the last on.
    Moving { to: Box<Resolved>, awaiting: BTreeSet<Dpid>, then: Vec<Dpid>, until: Time },
    /// There is no room for its rules; a packet that comes from then on asks again.
    Crowded { from: Time },
    /// The packets go through the controller; perhaps until then.
    Direct { retry: Option<Time> },
}

/// The byte that our cookies begin with.
const TAG: u64 = 0x4d;

/// What stands in place of a leaf in cookies of the engine's own rules.
const NO_LEAF: u64 = 0xff_ffff_ffff;

/// A cookie: 8 bits tag, 16 bits epoch, 40 bits leaf.
pub(super) fn cookie(epoch: u16, leaf: Option<LeafId>) -> u64 {
    TAG << 56 | u64::from(epoch) << 40 | leaf.map_or(NO_LEAF, |leaf| leaf.0 & NO_LEAF)
}

/// Whether a rule with this cookie is ours, from this run of the controller or an earlier one.
pub(super) fn is_ours(cookie: u64) -> bool {
    cookie >> 56 == TAG
}

/// The leaf a cookie of this epoch leads to.
pub(super) fn leaf_of(epoch: u16, cookie: u64) -> Option<LeafId> {
    let leaf = cookie & NO_LEAF;
    (cookie >> 40 == TAG << 16 | u64::from(epoch) && leaf != NO_LEAF).then_some(LeafId(leaf))
}

impl Leaf {
    /// The switch where the leaf's packets enter.
    pub fn ingress(&self) -> Dpid {
        self.representative.at.switch
    }

    /// The other switches that have a part.
    pub fn others(&self) -> impl Iterator<Item = Dpid> + '_ {
        let ingress = self.ingress();
        self.route.parts.keys().copied().filter(move |dpid| *dpid != ingress)
    }

    /// What the other switches have, or are to have, of the leaf: switch, and port that its packets arrive by there.
    pub fn placed(&self) -> Vec<(Dpid, PortNo)> {
        let to = if let LeafState::Moving { to, .. } = &self.state { Some(&**to) } else { None };
        let all: BTreeSet<(Dpid, PortNo)> = [Some(&self.route), to].into_iter().flatten().flat_map(arrivals).collect();
        all.into_iter().collect()
    }

    /// Whether it is on its way to another route.
    pub fn is_moving(&self) -> bool {
        matches!(self.state, LeafState::Moving { .. })
    }

    /// The route that the leaf has, or is about to have.
    pub fn goal(&self) -> &Resolved {
        if let LeafState::Moving { to, .. } = &self.state { to } else { &self.route }
    }

    /// What the leaf's packets have in common where they enter, as far as a switch can match it, without the port.
    pub fn entering(&self, capabilities: &Capabilities) -> Vec<Item> {
        let items = self.trace.lower(&self.representative.packet(), capabilities).items;
        items.into_iter().chain(self.narrowing()).filter(|item| !is_about_in_port(item)).collect()
    }

    /// The trace as other switches see it: without the port where the packets entered; and that port if f asked.
    pub fn transit_trace(&self) -> (Trace, Option<PortNo>) {
        let mut trace = Trace { read_switch: self.trace.read_switch, short: self.trace.short, ..Trace::default() };
        for (item, source) in self.trace.items.iter().zip(&self.trace.sources) {
            if !is_about_in_port(item) {
                trace.items.push(item.clone());
                trace.sources.push(source.clone());
            }
        }
        let asked = trace.items.len() < self.trace.items.len();
        trace.items.extend(self.narrowing());
        trace.sources.resize(trace.items.len(), None);
        (trace, asked.then_some(self.representative.at.port))
    }

    fn narrowing(&self) -> impl Iterator<Item = Item> + '_ {
        self.narrowing.iter().map(|read| Item::Read(*read))
    }
}

/// The switches behind the ingress, and the ports that a route's packets arrive by there.
pub(super) fn arrivals(route: &Resolved) -> impl Iterator<Item = (Dpid, PortNo)> + '_ {
    route.parts.iter().filter_map(|(dpid, part)| Some((*dpid, part.arrives?)))
}

/// Whether an item speaks of the ingress port. It then speaks of nothing else: `in_port` has no prerequisites.
fn is_about_in_port(item: &Item) -> bool {
    match item {
        Item::Read(constraint) => constraint.field == Field::InPort,
        Item::Test { cond, .. } => {
            cond.all.iter().any(|c| c.field == Field::InPort) || cond.ranges.iter().any(|r| r.field == Field::InPort)
        }
    }
}

impl Arrived {
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
pub(super) struct Watched<'a> {
    packet: Packet<'a>,
    whole: bool,
    pub short: std::cell::Cell<bool>,
}

impl<'a> Watched<'a> {
    pub fn new(arrived: &'a Arrived) -> Watched<'a> {
        Watched { packet: arrived.packet(), whole: arrived.is_whole(), short: std::cell::Cell::new(false) }
    }
}

impl Fields for Watched<'_> {
    fn value(&self, field: Field) -> Option<u128> {
        if !self.whole && !self.packet.is_captured(field) {
            self.short.set(true);
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

/// Whether a version has the three tables.
pub(super) fn has_three_tables(version: Version, tables: u8) -> bool {
    version == Version::Of13 && tables >= 3
}
