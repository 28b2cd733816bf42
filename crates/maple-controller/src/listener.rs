//! Events of the network for listeners: programs besides a policy that watch the network or talk to hosts, but do not
//! affect rules.
//!
//! # Use
//!
//! [`subscribe`] makes the two ends: a [`Subscription`] for [`crate::ControllerOptions`], and a [`Listener`] that
//! receives. Every packet that matches one of the conditions comes to the controller, as if the policy had asked for
//! it. The policy still decides where it goes. [`crate::Handle::send_frame`] sends frames to hosts.
//!
//! # Bounds
//!
//! Nothing waits for a listener. Its queue holds at most [`QUEUE_CAPACITY`] events. Packets may take half of the queue,
//! so that a host that floods does not hide a switch's end. Further events are dropped, counted and reported.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};
use maple_core::Location;
use maple_core::engine::{Event, ListenerPacket};
use maple_core::report::Report;
use maple_core::trace::Cond;
use maple_wire::msg::PortReason;
use maple_wire::{Dpid, PortNo};

use crate::printable::printable;

/// The maximum number of events in a listener's queue. Chosen: a burst of thousands of packets waits for a slow
/// listener; beyond it packets are lost, and counted, so that memory is bounded.
pub const QUEUE_CAPACITY: usize = 8192;
/// The maximum number of conditions of all listeners together: a packet has one bit for each, in a word of 64.
pub const MAX_CONDITIONS: usize = 64;

/// An event of the network.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NetworkEvent {
    /// A packet that matches one of the listener's conditions entered the network.
    Packet(ListenerPacket),
    /// A port was added, deleted or changed.
    Port {
        /// The port.
        at: Location,
        /// Its name.
        name: String,
        /// Whether packets can pass.
        is_up: bool,
        /// The change.
        reason: PortReason,
    },
    /// A switch finished its handshake.
    SwitchUp(Dpid),
    /// A switch is gone.
    SwitchDown(Dpid),
    /// A switch's connection ended. It is assumed to go on forwarding.
    SwitchUnreachable(Dpid),
    /// A switch has a connection again.
    SwitchReachable(Dpid),
    /// A constraint refused a route: the first time for this constraint and line.
    Violation {
        /// The constraint, with its line, if known.
        constraint: Arc<str>,
        /// The fault of the route.
        why: Arc<str>,
        /// The line that made the route, if known.
        place: Arc<str>,
        /// The port where the packet entered.
        at: Location,
    },
}

/// The listeners have more conditions than [`MAX_CONDITIONS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("listeners can have at most {MAX_CONDITIONS} conditions together, not {0}")]
pub struct TooManyConditions(usize);

/// The controller's end of a listener.
#[derive(Clone, Debug)]
pub struct Subscription {
    conditions: Arc<[Cond]>,
    sender: Sender<NetworkEvent>,
    lost: Arc<AtomicU64>,
}

/// The receiving end of a listener.
#[derive(Debug)]
pub struct Listener {
    receiver: Receiver<NetworkEvent>,
    lost: Arc<AtomicU64>,
}

/// Creates a listener for packets that match one of these conditions, and for all ports and switches.
///
/// # Errors
/// [`TooManyConditions`] if there are more than [`MAX_CONDITIONS`].
pub fn subscribe(conditions: Vec<Cond>) -> Result<(Subscription, Listener), TooManyConditions> {
    if conditions.len() > MAX_CONDITIONS {
        return Err(TooManyConditions(conditions.len()));
    }
    let (sender, receiver) = bounded(QUEUE_CAPACITY);
    let lost = Arc::<AtomicU64>::default();
    Ok((Subscription { conditions: conditions.into(), sender, lost: Arc::clone(&lost) }, Listener { receiver, lost }))
}

impl Subscription {
    /// Publishes a packet. If it is lost, returns the number of lost events so far.
    fn publish_packet(&self, heard: ListenerPacket) -> Option<u64> {
        if self.sender.len() >= QUEUE_CAPACITY / 2 {
            return Some(self.count_lost());
        }
        self.publish(NetworkEvent::Packet(heard))
    }

    /// Publishes an event of the engine. If it is lost, returns the number of lost events so far.
    fn publish_event(&self, event: &Event) -> Option<u64> {
        self.publish(match event {
            Event::PortStatus { dpid, status } => NetworkEvent::Port {
                at: Location::new(*dpid, status.port.number),
                name: printable(&status.port.name()),
                is_up: status.port.is_up() && status.reason != PortReason::Delete,
                reason: status.reason,
            },
            Event::SwitchUp { dpid, .. } => NetworkEvent::SwitchUp(*dpid),
            Event::SwitchDown { dpid } => NetworkEvent::SwitchDown(*dpid),
            Event::SwitchUnreachable { dpid } => NetworkEvent::SwitchUnreachable(*dpid),
            Event::SwitchReachable { dpid } => NetworkEvent::SwitchReachable(*dpid),
            _ => return None,
        })
    }

    /// Publishes a report of the engine, if it is an event for programs. If it is lost, returns the number of lost
    /// events so far.
    fn publish_report(&self, report: &Report) -> Option<u64> {
        let Report::ConstraintViolated { constraint, why, place, at } = report else { return None };
        let (constraint, why, place) = (Arc::clone(constraint), Arc::clone(why), Arc::clone(place));
        self.publish(NetworkEvent::Violation { constraint, why, place, at: *at })
    }

    fn publish(&self, event: NetworkEvent) -> Option<u64> {
        match self.sender.try_send(event) {
            // Without a listener nothing is lost.
            Ok(()) | Err(TrySendError::Disconnected(_)) => None,
            Err(TrySendError::Full(_)) => Some(self.count_lost()),
        }
    }

    fn count_lost(&self) -> u64 {
        self.lost.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// All subscriptions of a controller, for its shards.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subscriptions {
    /// Each subscription with the index of its first condition among all.
    all: Arc<[(u32, Subscription)]>,
    conditions: Arc<[Cond]>,
}

impl Subscriptions {
    /// Joins these subscriptions.
    ///
    /// # Errors
    /// [`TooManyConditions`] if they have more than [`MAX_CONDITIONS`] together.
    pub fn new(all: Vec<Subscription>) -> Result<Subscriptions, TooManyConditions> {
        let conditions: Arc<[Cond]> = all.iter().flat_map(|one| one.conditions.iter().cloned()).collect();
        if conditions.len() > MAX_CONDITIONS {
            return Err(TooManyConditions(conditions.len()));
        }
        let mut first = 0;
        let indexed = |subscription: Subscription| {
            let index = first;
            first += subscription.conditions.len() as u32;
            (index, subscription)
        };
        Ok(Subscriptions { all: all.into_iter().map(indexed).collect(), conditions })
    }

    /// Returns the conditions of all listeners.
    pub fn conditions(&self) -> &Arc<[Cond]> {
        &self.conditions
    }

    /// Publishes a packet to the listeners whose conditions it matches. Calls `lost` with the number of lost events of
    /// each listener that loses it.
    pub fn publish_packet(&self, heard: &ListenerPacket, lost: impl Fn(u64)) {
        for (first, subscription) in &*self.all {
            let by = heard.by.checked_shr(*first).unwrap_or(0) & mask(subscription.conditions.len());
            if by != 0 {
                subscription.publish_packet(ListenerPacket { by, ..heard.clone() }).into_iter().for_each(&lost);
            }
        }
    }

    /// Publishes a report of the engine to all listeners, if it is an event for programs. Calls `lost` as
    /// [`Subscriptions::publish_packet`] does.
    pub fn publish_report(&self, report: &Report, lost: impl Fn(u64)) {
        self.all.iter().filter_map(|(_, subscription)| subscription.publish_report(report)).for_each(lost);
    }

    /// Publishes an event of the engine to all listeners. Calls `lost` as [`Subscriptions::publish_packet`] does.
    pub fn publish_event(&self, event: &Event, lost: impl Fn(u64)) {
        self.all.iter().filter_map(|(_, subscription)| subscription.publish_event(event)).for_each(lost);
    }
}

/// Returns a number whose lowest `bits` bits are set.
fn mask(bits: usize) -> u64 {
    1u64.checked_shl(bits as u32).map_or(u64::MAX, |bit| bit - 1)
}

/// The reason why a listener received nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenerError {
    /// No event in time.
    #[error("no event in time")]
    Timeout,
    /// The controller has stopped, and all its events were received.
    #[error("the controller has stopped")]
    Ended,
}

impl Listener {
    /// Waits for the next event.
    ///
    /// # Errors
    /// [`ListenerError`] if there is none within `timeout`, or if the controller has stopped.
    pub fn next(&self, timeout: Duration) -> Result<NetworkEvent, ListenerError> {
        self.receiver.recv_timeout(timeout).map_err(|error| match error {
            RecvTimeoutError::Timeout => ListenerError::Timeout,
            RecvTimeoutError::Disconnected => ListenerError::Ended,
        })
    }

    /// Returns the number of events lost because the queue was full.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// The reason why a frame cannot be sent out of a port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The switch is not connected.
    #[error("there is no switch {0}")]
    NoSwitch(Dpid),
    /// The port does not exist, or leads to another switch.
    #[error("port {1} of switch {0} is not an edge port: it does not exist, or is a link")]
    NoEdge(Dpid, PortNo),
    /// The frame is too short or too long.
    #[error("a frame has {least} to {most} bytes, not {0}", least = maple_core::route::FRAME_BYTES.start(), most = maple_core::route::FRAME_BYTES.end())]
    Length(usize),
    /// The controller has stopped.
    #[error("the controller has stopped")]
    Stopped,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(n: u64) -> ListenerPacket {
        ListenerPacket { by: n, at: Location::new(Dpid(1), PortNo(1)), frame: [].into(), total_len: 0 }
    }

    #[test]
    fn a_flood_of_packets_does_not_hide_the_end_of_a_switch() {
        let (subscription, listener) = subscribe(Vec::new()).unwrap();
        let lost = (0..QUEUE_CAPACITY as u64).filter_map(|n| subscription.publish_packet(heard(n))).max();
        assert_eq!((lost, listener.lost()), (Some(QUEUE_CAPACITY as u64 / 2), QUEUE_CAPACITY as u64 / 2));
        assert_eq!(subscription.publish_event(&Event::SwitchDown { dpid: Dpid(1) }), None);
        let all: Vec<NetworkEvent> = std::iter::from_fn(|| listener.next(Duration::ZERO).ok()).collect();
        assert_eq!((all.len(), all.last()), (QUEUE_CAPACITY / 2 + 1, Some(&NetworkEvent::SwitchDown(Dpid(1)))));
        drop(subscription);
        assert_eq!(listener.next(Duration::ZERO), Err(ListenerError::Ended));
    }

    #[test]
    fn each_listener_receives_what_it_asked_for() {
        let (first, one) = subscribe(vec![Cond::default()]).unwrap();
        let (second, two) = subscribe(vec![Cond::default(); 2]).unwrap();
        let subscriptions = Subscriptions::new(vec![first.clone(), second]).unwrap();
        assert_eq!(subscriptions.conditions().len(), 3);
        let lost = |events| panic!("{events} lost");
        subscriptions.publish_packet(&heard(0b101), lost);
        subscriptions.publish_packet(&heard(0b010), lost);
        subscriptions.publish_event(&Event::SwitchDown { dpid: Dpid(1) }, lost);
        let all = |listener: &Listener| {
            let by = |event| match event {
                NetworkEvent::Packet(heard) => Some(heard.by),
                _ => None,
            };
            std::iter::from_fn(|| listener.next(Duration::ZERO).ok()).map(by).collect::<Vec<_>>()
        };
        assert_eq!((all(&one), all(&two)), (vec![Some(1), None], vec![Some(0b10), Some(0b01), None]));
        let (many, _) = subscribe(vec![Cond::default(); 64]).unwrap();
        assert_eq!(Subscriptions::new(vec![first, many]).unwrap_err(), TooManyConditions(65));
    }

    #[test]
    fn without_a_listener_nothing_is_kept_or_lost() {
        let (subscription, listener) = subscribe(Vec::new()).unwrap();
        drop(listener);
        assert_eq!(subscription.publish_packet(heard(1)), None);
        assert_eq!(subscribe(vec![Cond::default(); 65]).unwrap_err(), TooManyConditions(65));
    }
}
