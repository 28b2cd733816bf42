//! What happens in the network, for listeners: programs beside a policy that watch, or speak with hosts, and leave the rules
//! alone.
//!
//! # What
//!
//! [`listen`] makes the two ends: [`Listening`] for [`crate::ControllerOptions`], and [`Listener`] for whoever hears. Packets
//! that fit one of the conditions come here each, as if f had asked for that: the policy still says where they go.
//! [`crate::Handle::send_frame`] speaks.
//!
//! # Bounds
//!
//! Nobody waits for a listener. At most [`MOST_WAITING`] events wait for it; packets may take half of that, so that a host
//! that floods does not hide that a switch went. Others are lost, counted, and people are told.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};
use maple_core::Location;
use maple_core::engine::{Event, ListenerPacket};
use maple_core::trace::Cond;
use maple_wire::msg::PortReason;
use maple_wire::{Dpid, PortNo};

use crate::printable::printable;

/// How many events wait for a listener.
pub const MOST_WAITING: usize = 8192;
/// The most conditions: packets have a bit for each.
pub const MOST_CONDITIONS: usize = 64;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Happening {
    /// A packet entered the network that fits one of the listener's conditions.
    Packet(ListenerPacket),
    /// A port came, went or changed.
    Port {
        /// The port.
        at: Location,
        /// Its name.
        name: String,
        /// Whether packets can pass.
        is_up: bool,
        /// What became of it.
        reason: PortReason,
    },
    /// A switch finished its handshake.
    SwitchUp(Dpid),
    /// A switch's connection ended.
    SwitchDown(Dpid),
}

/// More conditions than packets have bits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("listeners can ask for {MOST_CONDITIONS} kinds of packets, not {0}")]
pub struct TooManyConditions(usize);

/// The controller's end.
#[derive(Clone, Debug)]
pub struct Listening {
    heard: Arc<[Cond]>,
    sender: Sender<Happening>,
    lost: Arc<AtomicU64>,
}

/// The end of whoever hears.
#[derive(Debug)]
pub struct Listener {
    receiver: Receiver<Happening>,
    lost: Arc<AtomicU64>,
}

/// Both ends of a listener that hears of packets that fit one of these conditions, and of all ports and switches.
///
/// # Errors
/// [`TooManyConditions`].
pub fn listen(heard: Vec<Cond>) -> Result<(Listening, Listener), TooManyConditions> {
    if heard.len() > MOST_CONDITIONS {
        return Err(TooManyConditions(heard.len()));
    }
    let (sender, receiver) = bounded(MOST_WAITING);
    let lost = Arc::<AtomicU64>::default();
    Ok((Listening { heard: heard.into(), sender, lost: Arc::clone(&lost) }, Listener { receiver, lost }))
}

impl Listening {
    /// Tells the listener of a packet. `Some` if it is lost: how many are by now.
    fn packet(&self, heard: ListenerPacket) -> Option<u64> {
        if self.sender.len() >= MOST_WAITING / 2 {
            return Some(self.lose());
        }
        self.say(Happening::Packet(heard))
    }

    /// Tells the listener of what the engine is about to hear. `Some` if it is lost: how many are by now.
    fn event(&self, event: &Event) -> Option<u64> {
        self.say(match event {
            Event::PortStatus { dpid, status } => Happening::Port {
                at: Location::new(*dpid, status.port.number),
                name: printable(&status.port.name()),
                is_up: status.port.is_up() && status.reason != PortReason::Delete,
                reason: status.reason,
            },
            Event::SwitchUp { dpid, .. } => Happening::SwitchUp(*dpid),
            Event::SwitchDown { dpid } => Happening::SwitchDown(*dpid),
            _ => return None,
        })
    }

    fn say(&self, happening: Happening) -> Option<u64> {
        match self.sender.try_send(happening) {
            // Nobody listens any more: nothing is lost to anybody.
            Ok(()) | Err(TrySendError::Disconnected(_)) => None,
            Err(TrySendError::Full(_)) => Some(self.lose()),
        }
    }

    fn lose(&self) -> u64 {
        self.lost.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// All listeners of a controller, as its shards tell them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Audience {
    /// Each with the place of its first condition among all.
    all: Arc<[(u32, Listening)]>,
    heard: Arc<[Cond]>,
}

impl Audience {
    /// These together.
    pub fn new(all: Vec<Listening>) -> Result<Audience, TooManyConditions> {
        let heard: Arc<[Cond]> = all.iter().flat_map(|listening| listening.heard.iter().cloned()).collect();
        if heard.len() > MOST_CONDITIONS {
            return Err(TooManyConditions(heard.len()));
        }
        let mut first = 0;
        let place = |listening: Listening| {
            let place = (first, listening);
            first += place.1.heard.len() as u32;
            place
        };
        Ok(Audience { all: all.into_iter().map(place).collect(), heard })
    }

    /// The packets that somebody hears of.
    pub fn heard(&self) -> &Arc<[Cond]> {
        &self.heard
    }

    /// Tells those who want to hear of a packet, and `lost` for each to whom it is lost how many are by now.
    pub fn packet(&self, heard: &ListenerPacket, lost: impl Fn(u64)) {
        for (first, listening) in &*self.all {
            let by = heard.by.checked_shr(*first).unwrap_or(0) & mask(listening.heard.len());
            if by != 0 {
                listening.packet(ListenerPacket { by, ..heard.clone() }).into_iter().for_each(&lost);
            }
        }
    }

    /// Tells all of what the engine is about to hear; `lost` likewise.
    pub fn event(&self, event: &Event, lost: impl Fn(u64)) {
        self.all.iter().filter_map(|(_, listening)| listening.event(event)).for_each(lost);
    }
}

/// So many bits.
fn mask(bits: usize) -> u64 {
    1u64.checked_shl(bits as u32).map_or(u64::MAX, |bit| bit - 1)
}

/// Why nothing came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Silence {
    /// Nothing happened in time.
    #[error("nothing happened in time")]
    Timeout,
    /// The controller has stopped, and all that happened was heard.
    #[error("the controller has stopped")]
    Ended,
}

impl Listener {
    /// What happens next.
    ///
    /// # Errors
    /// [`Silence`].
    pub fn next(&self, timeout: Duration) -> Result<Happening, Silence> {
        self.receiver.recv_timeout(timeout).map_err(|error| match error {
            RecvTimeoutError::Timeout => Silence::Timeout,
            RecvTimeoutError::Disconnected => Silence::Ended,
        })
    }

    /// How many events were lost because the listener was behind.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// Whether a frame can go out of a port, as whoever sends it from outside is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The switch is not up.
    #[error("there is no switch {0}")]
    NoSwitch(Dpid),
    /// The port is not there, or leads to another switch.
    #[error("port {1} of switch {0} is no edge port: it is not there, or a link")]
    NoEdge(Dpid, PortNo),
    /// No frame is so short or long.
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
    fn a_flood_of_packets_does_not_hide_that_a_switch_went() {
        let (listening, listener) = listen(Vec::new()).unwrap();
        let lost = (0..MOST_WAITING as u64).filter_map(|n| listening.packet(heard(n))).max();
        assert_eq!((lost, listener.lost()), (Some(MOST_WAITING as u64 / 2), MOST_WAITING as u64 / 2));
        assert_eq!(listening.event(&Event::SwitchDown { dpid: Dpid(1) }), None);
        let all: Vec<Happening> = std::iter::from_fn(|| listener.next(Duration::ZERO).ok()).collect();
        assert_eq!((all.len(), all.last()), (MOST_WAITING / 2 + 1, Some(&Happening::SwitchDown(Dpid(1)))));
        drop(listening);
        assert_eq!(listener.next(Duration::ZERO), Err(Silence::Ended));
    }

    #[test]
    fn each_of_several_listeners_hears_what_it_asked_for() {
        let (first, one) = listen(vec![Cond::default()]).unwrap();
        let (second, two) = listen(vec![Cond::default(); 2]).unwrap();
        let audience = Audience::new(vec![first.clone(), second]).unwrap();
        assert_eq!(audience.heard().len(), 3);
        let lost = |events| panic!("{events} lost");
        audience.packet(&heard(0b101), lost);
        audience.packet(&heard(0b010), lost);
        audience.event(&Event::SwitchDown { dpid: Dpid(1) }, lost);
        let all = |listener: &Listener| {
            let by = |happening| match happening {
                Happening::Packet(heard) => Some(heard.by),
                _ => None,
            };
            std::iter::from_fn(|| listener.next(Duration::ZERO).ok()).map(by).collect::<Vec<_>>()
        };
        assert_eq!((all(&one), all(&two)), (vec![Some(1), None], vec![Some(0b10), Some(0b01), None]));
        let (many, _) = listen(vec![Cond::default(); 64]).unwrap();
        assert_eq!(Audience::new(vec![first, many]).unwrap_err(), TooManyConditions(65));
    }

    #[test]
    fn without_a_listener_nothing_is_kept_and_nothing_lost() {
        let (listening, listener) = listen(Vec::new()).unwrap();
        drop(listener);
        assert_eq!(listening.packet(heard(1)), None);
        assert_eq!(listen(vec![Cond::default(); 65]).unwrap_err(), TooManyConditions(65));
    }
}
