//! Notices for people: the log, a queue for programs, and the most recent errors. Repeated notices are suppressed.

mod advice;
mod client_news;
mod cluster_news;
mod subject;

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use crossbeam_channel::{Receiver, Sender, bounded};
use maple_core::Location;
use maple_core::engine::{Time, ViolationKey};
use maple_core::report::Report;
use maple_core::route::Absence;
use maple_wire::{Dpid, PortNo, Version, counted};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::discovery::Anomaly;
use crate::kept_files::{Condition, FileNews};
use crate::log::{Level, Log, LogLine};
use crate::names::Names;
use crate::session::{CloseReason, ProtocolWarning, RoleNews};
use crate::snoop::IgnoreReason;
use crate::time::after;
use advice::advice;
pub use client_news::ClientNews;
pub use cluster_news::ClusterNews;
use subject::{about, policy_error};

/// The maximum number of notices in the queue. Further ones only go to the log. Chosen: a network that starts at once
/// fits, and memory is bounded if nobody reads.
const CAPACITY: usize = 16 * 1024;
/// The number of recent errors that are kept. Chosen: more than a person reads after the fact.
const RECENT: usize = 256;
/// The time for which a repeated refusal of an address is not published. Chosen: a device that connects again each
/// second makes one notice a minute.
const SUPPRESSED: Duration = Duration::from_secs(60);
/// The maximum number of reasons for refusals of an address that are published in that time. Chosen: a peer that makes
/// up new faults makes at most eight notices a minute.
const MAX_REASONS: usize = 8;
/// The maximum number of addresses with refusals, and of distinct errors of handlers, that are remembered. Chosen: a
/// bound on memory that only a scan of the port reaches.
const REMEMBERED: usize = 1024;

/// Something that people should know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A report of the engine.
    Engine(Report),
    /// A switch finished its handshake.
    Connected {
        /// The switch.
        dpid: Dpid,
        /// The address of the peer.
        peer: SocketAddr,
        /// The OpenFlow version of the connection.
        version: Version,
        /// The switch's description of itself.
        description: String,
    },
    /// A switch's connection ended.
    Disconnected {
        /// The switch.
        dpid: Dpid,
        /// The address of the peer.
        peer: SocketAddr,
        /// The reason.
        reason: CloseReason,
    },
    /// The role of this controller, which is one of several, at a switch.
    Role {
        /// The switch.
        dpid: Dpid,
        /// The address of the peer.
        peer: SocketAddr,
        /// The change of its role.
        news: RoleNews,
    },
    /// News of the cluster that this controller has joined.
    Cluster(ClusterNews),
    /// A connection ended before its handshake was done.
    Refused {
        /// The address of the peer.
        peer: SocketAddr,
        /// The reason.
        reason: CloseReason,
    },
    /// A peer violated the protocol in this way for the first time.
    Protocol {
        /// The address of the peer.
        peer: SocketAddr,
        /// The violation.
        warning: ProtocolWarning,
    },
    /// A switch's handler failed. It continues to serve the switch.
    HandlerFailed {
        /// The switch.
        dpid: Dpid,
        /// The error, with its place in the handler.
        error: Arc<str>,
        /// The number of times that handlers have failed with this error.
        times: u64,
    },
    /// A listener failed. It continues to receive events.
    ListenerFailed {
        /// The error, with its place in the listener.
        error: Arc<str>,
        /// The number of times that listeners have failed with this error.
        times: u64,
    },
    /// A listener is too slow and loses events.
    ListenerSlow {
        /// The number of lost events so far.
        events: u64,
    },
    /// The policy takes long to decide, and nothing else is decided meanwhile.
    PolicySlow {
        /// The time that it took for a packet.
        each: Duration,
        /// The number of packets so far that took this long, at this shard.
        times: u64,
    },
    /// Snooping ignored a message.
    Ignored {
        /// The reason.
        reason: IgnoreReason,
        /// The number of times so far.
        times: u64,
    },
    /// A kept file fails, is given up, or is in order again.
    File(FileNews),
    /// A client of the HTTP API did something.
    Client(ClientNews),
    /// Discovery saw this anomaly at a port for the first time since the port came up.
    Discovery {
        /// The port.
        at: Location,
        /// The anomaly.
        anomaly: Anomaly,
    },
}

impl Notice {
    /// Reports whether something is wrong.
    pub fn is_error(&self) -> bool {
        match self {
            Notice::Engine(report) => match report {
                Report::HostFound { .. }
                | Report::HostMoved { .. }
                | Report::HostLost { .. }
                | Report::SwitchUp(_)
                | Report::SwitchDown(_)
                | Report::SwitchUnreachable(_)
                | Report::SwitchReachable(_)
                | Report::LinkUp(..)
                | Report::LinkDown(..)
                | Report::ListsInstalling { .. }
                | Report::ListsInstalled { .. }
                | Report::AccessLogged { .. } => false,
                // For example policies that fail, hosts that spoof, switches that refuse rules.
                _ => true,
            },
            Notice::Connected { .. } | Notice::Client(ClientNews::Asked { .. }) => false,
            Notice::Client(ClientNews::LockedOut { .. }) => true,
            Notice::File(news) => !matches!(news.condition, Condition::Mended(..)),
            Notice::Disconnected { reason, .. } => !matches!(reason, CloseReason::ByPeer),
            Notice::Role { news, .. } => matches!(news, RoleNews::Overtaken(_) | RoleNews::Unsupported),
            Notice::Cluster(news) => matches!(news, ClusterNews::NameTaken | ClusterNews::EtcdFailed(_)),
            Notice::Refused { .. } | Notice::Protocol { .. } | Notice::Discovery { .. } => true,
            Notice::HandlerFailed { .. }
            | Notice::ListenerFailed { .. }
            | Notice::ListenerSlow { .. }
            | Notice::PolicySlow { .. }
            | Notice::Ignored { .. } => true,
        }
    }
}

impl std::fmt::Display for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Notice::Engine(report) => write!(f, "{report}{}", advice(report)),
            Notice::Connected { dpid, peer, version, description } => {
                write!(f, "switch {dpid} connected from {peer}, OpenFlow {version}, {description}")
            }
            Notice::Disconnected { dpid, peer, reason } => write!(f, "switch {dpid} at {peer} disconnected: {reason}"),
            Notice::Role { dpid, peer, news } => match news {
                RoleNews::Standby => write!(f, "switch {dpid} at {peer}: standby"),
                RoleNews::Lost => write!(f, "switch {dpid} at {peer}: this controller is not its master any more"),
                RoleNews::Overtaken(generation) => write!(
                    f,
                    "switch {dpid} at {peer} refuses this controller as master: it has seen generation {generation}, which is \
                     later; nothing is decided for it here"
                ),
                RoleNews::Unsupported => write!(
                    f,
                    "switch {dpid} at {peer} refuses requests for a role, so it can't have several controllers; nothing is \
                     decided for it"
                ),
            },
            Notice::Cluster(news) => news.fmt(f),
            Notice::Refused { peer, reason } => write!(f, "connection from {peer} ended: {reason}"),
            Notice::Protocol { peer, warning } => write!(f, "{peer} {warning}"),
            Notice::HandlerFailed { dpid, error, times: 1 } => {
                write!(f, "the handler of switch {dpid} failed: {error}")
            }
            Notice::HandlerFailed { dpid, error, times } => {
                write!(f, "the handler of switch {dpid} failed, {} so far: {error}", counted(times, "time"))
            }
            Notice::ListenerFailed { error, times: 1 } => write!(f, "a listener failed: {error}"),
            Notice::ListenerFailed { error, times } => {
                write!(f, "a listener failed, {} so far: {error}", counted(times, "time"))
            }
            Notice::ListenerSlow { events } => {
                write!(f, "a listener is too slow and has lost {} so far", counted(events, "event"))
            }
            Notice::PolicySlow { each, times } => write!(
                f,
                "the policy takes {} ms for a packet ({times} so far), and nothing else is decided meanwhile: ask and compute \
                 in a thread, and leave the answer in a Table",
                each.as_millis()
            ),
            Notice::Ignored { reason, times: 1 } => write!(f, "snooping: {reason}"),
            Notice::Ignored { reason, times } => write!(f, "snooping: {reason} ({} so far)", counted(times, "time")),
            Notice::File(news) => news.fmt(f),
            Notice::Client(news) => news.fmt(f),
            Notice::Discovery { at, anomaly } => write!(f, "port {at}: {anomaly}"),
        }
    }
}

/// An absent place: a switch, and its port unless the whole switch is absent.
type AbsentKey = (Dpid, Option<PortNo>);

/// Publishes notices: to the log, to a queue, and, if they are errors, to the list of recent errors.
#[derive(Clone, Debug)]
pub(crate) struct Notices {
    names: Arc<ArcSwap<Names>>,
    log: Arc<Log>,
    sender: Sender<Notice>,
    recent: Arc<Mutex<VecDeque<(SystemTime, Notice)>>>,
    /// The number of failures of handlers and listeners, by error.
    failures: Arc<Mutex<FxHashMap<Arc<str>, u64>>>,
    /// The violations that were published. Each shard bounds the number of those that it reports.
    violations: Arc<Mutex<BTreeSet<ViolationKey>>>,
    /// The absent places that were published. A switch that is absent as a whole stands there without a port.
    absent: Arc<Mutex<BTreeSet<AbsentKey>>>,
}

impl Notices {
    /// Creates the publisher and the receiving end of its queue. Notices call switches and hosts by `names`.
    pub fn new(names: Arc<Names>) -> (Notices, Receiver<Notice>) {
        let (sender, receiver) = bounded(CAPACITY);
        let (log, recent) = (Arc::default(), Arc::default());
        let names = Arc::new(ArcSwap::new(names));
        let (failures, violations, absent) = (Arc::default(), Arc::default(), Arc::default());
        (Notices { names, log, sender, recent, failures, violations, absent }, receiver)
    }

    /// Returns the log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Returns the names of switches and hosts.
    pub fn names(&self) -> Arc<Names> {
        self.names.load_full()
    }

    /// Replaces the names by which notices call switches and hosts.
    pub fn rename(&self, names: Names) {
        self.names.store(Arc::new(names));
    }

    /// Publishes a notice. Never blocks: a notice that does not fit into the queue is only in the log.
    pub fn publish(&self, notice: Notice) {
        let text = self.names.load().in_text(&notice.to_string());
        let (source, area) = about(&notice);
        let level = if notice.is_error() { Level::Warning } else { Level::Info };
        let line = LogLine { source, level, area, text: text.clone(), error: policy_error(&notice) };
        let time = SystemTime::now();
        self.log.add(line, Instant::now(), time);
        if notice.is_error() {
            tracing::warn!("{text}");
        } else {
            tracing::info!("{text}");
        }
        // A file that is in order again ends an earlier error.
        if notice.is_error() || matches!(notice, Notice::File(_)) {
            let mut recent = self.recent.lock();
            if recent.len() == RECENT {
                // Violations are reported only once, so they stay; there are few.
                let is_violation =
                    |notice: &Notice| matches!(notice, Notice::Engine(Report::ConstraintViolated { .. }));
                let oldest = recent.iter().position(|(_, notice)| !is_violation(notice)).unwrap_or(0);
                recent.remove(oldest);
            }
            recent.push_back((time, notice.clone()));
        }
        // A full queue has no reader, or a slow one.
        let _ = self.sender.try_send(notice);
    }

    /// Reports whether a shard has already published what this report says: a violation of a constraint by a route of
    /// the same line, or an absent place. Notes it if not.
    pub fn is_known(&self, report: &Report) -> bool {
        match report {
            Report::ConstraintViolated { constraint, place, .. } => {
                let key = (Arc::clone(constraint), Arc::clone(place));
                !self.violations.lock().insert(key)
            }
            Report::PlaceAbsent { at, why, .. } => {
                let key = (at.switch, Some(at.port).filter(|_| *why != Absence::Switch));
                !self.absent.lock().insert(key)
            }
            _ => false,
        }
    }

    /// Counts a failure of a handler, and publishes the first, tenth, hundredth… one with this error. After
    /// [`REMEMBERED`] distinct errors, each failure with a further one is published.
    pub fn handler_failed(&self, dpid: Dpid, error: Arc<str>) {
        self.failed(error, |error, times| Notice::HandlerFailed { dpid, error, times });
    }

    /// Counts a failure of a listener, and publishes it as often as [`Notices::handler_failed`] does.
    pub fn listener_failed(&self, error: Arc<str>) {
        self.failed(error, |error, times| Notice::ListenerFailed { error, times });
    }

    fn failed(&self, error: Arc<str>, notice: impl FnOnce(Arc<str>, u64) -> Notice) {
        let times = {
            let mut failures = self.failures.lock();
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
            self.publish(notice(error, times));
        }
    }

    /// Returns the number of failures of handlers and listeners.
    pub fn handler_failures(&self) -> u64 {
        self.failures.lock().values().sum()
    }

    /// Returns the most recent errors, oldest first, with their times.
    pub fn recent(&self) -> Vec<(SystemTime, Notice)> {
        self.recent.lock().iter().cloned().collect()
    }
}

/// Suppresses repeated notices of refused connections: the same address and reason is published once a minute. Another
/// reason is news, also if it is of the same kind (another part of a message is malformed, another certificate is
/// refused); but a peer has few reasons a minute, whatever it sends.
#[derive(Debug, Default)]
pub(crate) struct RefusalFilter {
    published: FxHashMap<IpAddr, Vec<(String, Time)>>,
}

impl RefusalFilter {
    /// Reports whether to publish this refusal.
    pub fn is_new(&mut self, now: Time, peer: SocketAddr, reason: &CloseReason) -> bool {
        if self.published.len() >= REMEMBERED && !self.published.contains_key(&peer.ip()) {
            self.published.clear();
        }
        let reasons = self.published.entry(peer.ip()).or_default();
        reasons.retain(|(_, published)| now < after(*published, SUPPRESSED));
        let reason = reason.to_string();
        let is_new = reasons.len() < MAX_REASONS && reasons.iter().all(|(known, _)| *known != reason);
        if is_new {
            reasons.push((reason, now));
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_refusal_is_published_once_a_minute() {
        let mut filter = RefusalFilter::default();
        let peer = |n: u8, port| SocketAddr::from(([10, 0, 0, n], port));
        let second = |n: u64| Time(n * 1_000_000_000);
        assert!(filter.is_new(second(0), peer(1, 1), &CloseReason::ByPeer));
        assert!(!filter.is_new(second(1), peer(1, 2), &CloseReason::ByPeer));
        assert!(filter.is_new(second(1), peer(2, 1), &CloseReason::ByPeer));
        assert!(filter.is_new(second(1), peer(1, 1), &CloseReason::WrongVersion(9)));
        assert!(filter.is_new(second(60), peer(1, 1), &CloseReason::ByPeer));
    }

    #[test]
    fn another_reason_of_the_same_kind_is_published_up_to_a_number() {
        let mut filter = RefusalFilter::default();
        let peer = SocketAddr::from(([10, 0, 0, 1], 1));
        let mut is_new = |second: u64, reason| filter.is_new(Time(second * 1_000_000_000), peer, &reason);
        let not_hello = |version| CloseReason::NotHello { version, kind: 0 };
        assert!(is_new(0, not_hello(0x16)) && is_new(1, not_hello(0x47)) && !is_new(2, not_hello(0x16)));
        assert!(is_new(3, CloseReason::Tls("expired".into())) && is_new(4, CloseReason::Tls("revoked".into())));
        let published = (0..=255).filter(|version| is_new(5, CloseReason::WrongVersion(*version))).count();
        assert_eq!(published, MAX_REASONS - 4);
        assert!(is_new(60, not_hello(0x16)), "a minute later");
    }
}
