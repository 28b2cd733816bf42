//! What the controller tells people, and how it keeps from telling them the same thing over and over.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use maple_core::Location;
use maple_core::engine::Time;
use maple_core::report::Report;
use maple_wire::{Dpid, Version};
use rustc_hash::FxHashMap;

use crate::discovery::Odd;
use crate::session::{CloseReason, Note};
use crate::snoop::Ignored;
use crate::time::after;

/// How many notices wait for a reader before further ones only go to the log.
const CAPACITY: usize = 16 * 1024;
/// How much trouble is remembered.
const RECENT: usize = 256;
/// For how long the same refusal of the same address is only counted.
const QUIET: Duration = Duration::from_secs(60);
/// How many refusals are remembered, and how many errors of handlers.
const REMEMBERED: usize = 1024;

/// Something worth a line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// From the engine.
    Engine(Report),
    /// A switch finished its handshake.
    Connected {
        /// The switch.
        dpid: Dpid,
        /// Where from.
        peer: SocketAddr,
        /// The version spoken.
        version: Version,
        /// What it says it is.
        description: String,
    },
    /// A switch's connection ended.
    Disconnected {
        /// The switch.
        dpid: Dpid,
        /// Where from.
        peer: SocketAddr,
        /// Why.
        reason: CloseReason,
    },
    /// A connection ended before it was a switch's.
    Refused {
        /// Where from.
        peer: SocketAddr,
        /// Why.
        reason: CloseReason,
    },
    /// A peer did something odd for the first time.
    Odd {
        /// Where from.
        peer: SocketAddr,
        /// What.
        note: Note,
    },
    /// A switch's handler failed in this way, and serves the switch on.
    HandlerFailed {
        /// The switch.
        dpid: Dpid,
        /// Why, with the place in the handler.
        error: Arc<str>,
        /// How often handlers failed so by now.
        times: u64,
    },
    /// A listener beside the policy failed in this way, and hears on.
    ListenerFailed {
        /// Why, with the place in the listener.
        error: Arc<str>,
        /// How often it failed so by now.
        times: u64,
    },
    /// Listeners don't keep up with what happens: so many events were lost by now.
    ListenerBehind {
        /// How many.
        events: u64,
    },
    /// Snooping ignored something for this reason.
    Ignored {
        /// Why.
        reason: Ignored,
        /// How often by now.
        times: u64,
    },
    /// Discovery saw something odd at a port for the first time since it came up.
    Discovery {
        /// The port.
        at: Location,
        /// What.
        what: Odd,
    },
}

impl Notice {
    /// Whether it says that something is not as it should be.
    pub fn is_trouble(&self) -> bool {
        match self {
            Notice::Engine(report) => match report {
                Report::HostFound { .. }
                | Report::HostMoved { .. }
                | Report::HostLost { .. }
                | Report::SwitchUp(_)
                | Report::SwitchDown(_)
                | Report::LinkUp(..)
                | Report::LinkDown(..) => false,
                // Policies that fail, hosts that lie, switches that refuse.
                _ => true,
            },
            Notice::Connected { .. } => false,
            Notice::Disconnected { reason, .. } => !matches!(reason, CloseReason::ByPeer),
            Notice::Refused { .. } | Notice::Odd { .. } | Notice::Discovery { .. } => true,
            Notice::HandlerFailed { .. }
            | Notice::ListenerFailed { .. }
            | Notice::ListenerBehind { .. }
            | Notice::Ignored { .. } => true,
        }
    }
}

impl std::fmt::Display for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Notice::Engine(report) => report.fmt(f),
            Notice::Connected { dpid, peer, version, description } => {
                write!(f, "switch {dpid} connected from {peer}, OpenFlow {version}, {description}")
            }
            Notice::Disconnected { dpid, peer, reason } => write!(f, "switch {dpid} at {peer} disconnected: {reason}"),
            Notice::Refused { peer, reason } => write!(f, "connection from {peer} ended: {reason}"),
            Notice::Odd { peer, note } => write!(f, "{peer} {note}"),
            Notice::HandlerFailed { dpid, error, times: 1 } => {
                write!(f, "the handler of switch {dpid} failed: {error}")
            }
            Notice::HandlerFailed { dpid, error, times } => {
                write!(f, "the handler of switch {dpid} failed, {times} times so far: {error}")
            }
            Notice::ListenerFailed { error, times: 1 } => write!(f, "a function that listens failed: {error}"),
            Notice::ListenerFailed { error, times } => {
                write!(f, "a function that listens failed, {times} times so far: {error}")
            }
            Notice::ListenerBehind { events } => {
                write!(
                    f,
                    "functions that listen are too slow: {events} of the events that they wanted were lost so far"
                )
            }
            Notice::Ignored { reason, times: 1 } => write!(f, "snooping: {reason}"),
            Notice::Ignored { reason, times } => write!(f, "snooping: {reason} ({times} times so far)"),
            Notice::Discovery { at, what } => write!(f, "port {at}: {what}"),
        }
    }
}

/// Where notices go: into the log, to whoever reads them, and into a short memory of what went wrong.
#[derive(Clone, Debug)]
pub(crate) struct Notices {
    sender: Sender<Notice>,
    recent: Arc<Mutex<VecDeque<Notice>>>,
    /// How often handlers failed, by error.
    failures: Arc<Mutex<FxHashMap<Arc<str>, u64>>>,
}

impl Notices {
    /// A sink, and the end that people read.
    pub fn new() -> (Notices, Receiver<Notice>) {
        let (sender, receiver) = bounded(CAPACITY);
        (Notices { sender, recent: Arc::default(), failures: Arc::default() }, receiver)
    }

    /// Tells people. Never waits: what nobody reads is in the log.
    pub fn tell(&self, notice: Notice) {
        if notice.is_trouble() {
            tracing::warn!("{notice}");
            let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
            if recent.len() == RECENT {
                recent.pop_front();
            }
            recent.push_back(notice.clone());
        } else {
            tracing::info!("{notice}");
        }
        // A full channel has no reader, or one that is far behind.
        let _ = self.sender.try_send(notice);
    }

    /// Tells that a handler failed, if it is the first, tenth, hundredth… time in this way. Ways beyond
    /// [`REMEMBERED`] are counted together with none, and told each time.
    pub fn handler_failed(&self, dpid: Dpid, error: Arc<str>) {
        self.failed(error, |error, times| Notice::HandlerFailed { dpid, error, times });
    }

    /// The same of a listener.
    pub fn listener_failed(&self, error: Arc<str>) {
        self.failed(error, |error, times| Notice::ListenerFailed { error, times });
    }

    fn failed(&self, error: Arc<str>, notice: impl FnOnce(Arc<str>, u64) -> Notice) {
        let times = {
            let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
            match failures.get_mut(&error) {
                Some(times) => {
                    *times += 1;
                    *times
                }
                None => {
                    if failures.len() < REMEMBERED {
                        failures.insert(error.clone(), 1);
                    }
                    1
                }
            }
        };
        if 10u64.pow(times.ilog10()) == times {
            self.tell(notice(error, times));
        }
    }

    /// How often handlers and listeners failed in all.
    pub fn handler_failures(&self) -> u64 {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }

    /// What went wrong lately, oldest first.
    pub fn recent(&self) -> Vec<Notice> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// Which refusals were told lately. The same address failing in the same way is told once a minute.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    told: FxHashMap<(IpAddr, std::mem::Discriminant<CloseReason>), Time>,
}

impl Repeats {
    /// Whether to tell this refusal.
    pub fn is_news(&mut self, now: Time, peer: SocketAddr, reason: &CloseReason) -> bool {
        let key = (peer.ip(), std::mem::discriminant(reason));
        if self.told.get(&key).is_some_and(|told| now < after(*told, QUIET)) {
            return false;
        }
        if self.told.len() >= REMEMBERED {
            self.told.clear();
        }
        self.told.insert(key, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_refusal_is_told_once_a_minute() {
        let mut repeats = Repeats::default();
        let peer = |n: u8, port| SocketAddr::from(([10, 0, 0, n], port));
        let second = |n: u64| Time(n * 1_000_000_000);
        assert!(repeats.is_news(second(0), peer(1, 1), &CloseReason::ByPeer));
        assert!(!repeats.is_news(second(1), peer(1, 2), &CloseReason::ByPeer));
        assert!(repeats.is_news(second(1), peer(2, 1), &CloseReason::ByPeer));
        assert!(repeats.is_news(second(1), peer(1, 1), &CloseReason::WrongVersion(9)));
        assert!(repeats.is_news(second(60), peer(1, 1), &CloseReason::ByPeer));
    }
}
