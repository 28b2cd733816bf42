//! Events to come in the network, in the order of time.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use maple_switch::time::Nanoseconds;
use maple_wire::{Dpid, PortNo};

use super::channel::ChannelId;
use super::faults::Fault;
use super::frames::InFlight;

/// The scheduled events.
#[derive(Debug)]
pub(super) enum Event {
    /// A frame reaches a switch's port.
    AtSwitch(Dpid, PortNo, InFlight),
    /// A frame reaches the host that is plugged in there.
    AtHost(Dpid, PortNo, InFlight),
    /// A control message of a connection reaches the switch.
    ControlToSwitch(ChannelId, u64, Vec<u8>),
    /// A control message of a connection reaches the controller.
    ControlToController(ChannelId, u64, Vec<u8>),
    /// A switch wants to connect.
    Connect(ChannelId, u64),
    /// A rule's timeout may be over.
    SwitchTimer(Dpid),
    /// The next frame may leave by a port whose rate is bounded.
    Egress(Dpid, PortNo),
    /// A host's timer is due.
    HostTimer(usize),
    /// A scheduled fault.
    Fault(Fault),
}

/// The events to come.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    queue: BinaryHeap<Reverse<Scheduled>>,
    /// The number of events that were ever added.
    added: u64,
}

#[derive(Debug)]
struct Scheduled {
    at: Nanoseconds,
    order: u64,
    event: Event,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Scheduled) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Scheduled) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    /// Orders by time, and events of one time by the order of their creation, which is unique.
    fn cmp(&self, other: &Scheduled) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl Agenda {
    /// Adds an event, which comes after those of the same time that were added before.
    pub fn add(&mut self, at: Nanoseconds, event: Event) {
        self.added += 1;
        self.queue.push(Reverse(Scheduled { at, order: self.added, event }));
    }

    /// Returns the time of the next event.
    pub fn next_at(&self) -> Option<Nanoseconds> {
        self.queue.peek().map(|Reverse(scheduled)| scheduled.at)
    }

    /// Removes and returns the next event, with its time.
    pub fn pop(&mut self) -> Option<(Nanoseconds, Event)> {
        self.queue.pop().map(|Reverse(scheduled)| (scheduled.at, scheduled.event))
    }

    /// Returns the events to come, in no order.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.queue.iter().map(|Reverse(scheduled)| &scheduled.event)
    }

    /// Returns the events to come, in order.
    pub fn in_order(&self) -> Vec<&Event> {
        let mut all: Vec<&Scheduled> = self.queue.iter().map(|Reverse(scheduled)| scheduled).collect();
        all.sort_unstable();
        all.into_iter().map(|scheduled| &scheduled.event).collect()
    }
}
