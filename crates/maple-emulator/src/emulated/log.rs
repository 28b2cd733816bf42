//! The log of every frame: the place where it entered, where it left and with which headers, and where it was lost.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;

use maple_switch::time::Nanoseconds;
use maple_switch::{Lost, PassedTable};
use maple_wire::{Dpid, PortNo};

/// Identifies a frame that entered the network; all its copies share the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(pub u64);

/// A switch that a frame passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The switch.
    pub dpid: Dpid,
    /// The ingress port; [`PortNo::CONTROLLER`] if a packet-out put the frame there.
    pub in_port: PortNo,
    /// The rules that it met.
    pub steps: Vec<PassedTable>,
    /// The port that this copy left by; `None` if it did not leave.
    pub out_port: Option<PortNo>,
}

/// The origin of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A host, or a test at a host's port: the switch and port where the frame enters.
    Port(Dpid, PortNo),
    /// A packet-out to this switch whose bytes no earlier packet-in had (LLDP, say).
    Controller(Dpid),
}

/// A frame that entered the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnteredFrame {
    /// Its id.
    pub id: FrameId,
    /// The place where it entered.
    pub origin: Origin,
    /// The time when it entered.
    pub at: Nanoseconds,
    /// Its bytes.
    pub frame: Vec<u8>,
}

/// The fate of one copy of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The frame's id.
    pub id: FrameId,
    /// The time of the event.
    pub at: Nanoseconds,
    /// The event.
    pub outcome: Outcome,
    /// The bytes of this copy, as rules have changed them.
    pub frame: Vec<u8>,
    /// The switches that it passed, including packet-outs.
    pub path: Vec<Hop>,
}

/// The fate of one copy of a frame.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The frame left the network by this port of this switch, to this host if there is one.
    Egress {
        /// The switch.
        dpid: Dpid,
        /// The port.
        port: PortNo,
        /// The host's name.
        host: Option<String>,
    },
    /// A switch sent it to its controller.
    Controller(Dpid),
    /// The frame was dropped.
    Dropped(Dpid, Drop),
}

/// The reason why a copy of a frame was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Drop {
    /// The switch lost it.
    Switch(Lost),
    /// The link was down.
    LinkDown,
    /// The link lost it at random.
    Loss,
    /// The queue of its port was full.
    QueueFull,
    /// The frame passed more switches than the limit: a loop.
    Loop,
    /// The frame had more copies than the limit: a broadcast storm.
    Storm,
}

impl fmt::Display for Drop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Drop::Switch(lost) => write!(f, "{lost}"),
            Drop::LinkDown => f.write_str("the link was down"),
            Drop::Loss => f.write_str("lost on the link"),
            Drop::QueueFull => f.write_str("the queue was full"),
            Drop::Loop => f.write_str("it went round in a loop"),
            Drop::Storm => f.write_str("there were too many copies"),
        }
    }
}

/// The last frames that entered, with their deliveries. When full, the oldest are removed.
#[derive(Clone, Debug)]
pub struct DeliveryLog {
    entries: VecDeque<EnteredFrame>,
    deliveries: VecDeque<Delivery>,
    limit: usize,
    /// The number of entries and deliveries that were removed.
    pub forgotten: u64,
    /// Whether the log was full since it was last cleared, so that the oldest entries and deliveries are missing.
    pub is_incomplete: bool,
}

impl DeliveryLog {
    /// Creates a log of at most `limit` entries and `limit` deliveries.
    pub fn new(limit: usize) -> DeliveryLog {
        DeliveryLog { entries: VecDeque::new(), deliveries: VecDeque::new(), limit, forgotten: 0, is_incomplete: false }
    }

    /// Returns the frames that entered, in order.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &EnteredFrame> {
        self.entries.iter()
    }

    /// Returns the deliveries, in order.
    pub fn deliveries(&self) -> impl DoubleEndedIterator<Item = &Delivery> {
        self.deliveries.iter()
    }

    /// Returns the frame with this id, unless the log has forgotten it.
    pub fn entry(&self, id: FrameId) -> Option<&EnteredFrame> {
        // Ids ascend with the entries.
        let at = self.entries.binary_search_by_key(&id, |entry| entry.id).ok()?;
        self.entries.get(at)
    }

    /// Returns the deliveries of a frame, in order. Deliveries before its entry are skipped.
    pub fn of_frame(&self, id: FrameId) -> impl Iterator<Item = &Delivery> {
        let since = self.entry(id).map_or(0, |entry| entry.at);
        let first = self.deliveries.partition_point(|delivery| delivery.at < since);
        self.deliveries.range(first..).filter(move |d| d.id == id)
    }

    /// Returns switch, port and bytes of each copy of a frame that left the network. Compare this with a policy's
    /// answer.
    pub fn egress(&self, id: FrameId) -> BTreeSet<(Dpid, PortNo, Vec<u8>)> {
        self.of_frame(id)
            .filter_map(|d| match &d.outcome {
                Outcome::Egress { dpid, port, .. } => Some((*dpid, *port, d.frame.clone())),
                _ => None,
            })
            .collect()
    }

    /// Returns the number of copies of a frame that left the network. Two at one port count twice.
    pub fn copies(&self, id: FrameId) -> usize {
        self.of_frame(id).filter(|d| matches!(d.outcome, Outcome::Egress { .. })).count()
    }

    /// Returns the ids of the frames with these bytes that entered by this port, in order.
    pub fn entered(&self, dpid: Dpid, port: PortNo, frame: &[u8]) -> Vec<FrameId> {
        let fits = |e: &&EnteredFrame| e.origin == Origin::Port(dpid, port) && e.frame == frame;
        self.entries.iter().filter(fits).map(|e| e.id).collect()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.forgotten += (self.entries.len() + self.deliveries.len()) as u64;
        self.is_incomplete = false;
        self.entries.clear();
        self.deliveries.clear();
    }

    pub(super) fn enter(&mut self, entry: EnteredFrame) {
        if self.entries.len() >= self.limit && self.entries.pop_front().is_some() {
            self.is_incomplete = true;
            self.forgotten += 1;
        }
        if self.limit > 0 {
            self.entries.push_back(entry);
        }
    }

    pub(super) fn deliver(&mut self, delivery: Delivery) {
        if self.deliveries.len() >= self.limit && self.deliveries.pop_front().is_some() {
            self.is_incomplete = true;
            self.forgotten += 1;
        }
        if self.limit > 0 {
            self.deliveries.push_back(delivery);
        }
    }
}
