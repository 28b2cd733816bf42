//! The knowledge of discovery about one port, and the conclusion from it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use maple_core::engine::Time;
use maple_core::network::Location;

use super::{Anomaly, DiscoveryOutput, Probe, ProbeForm, Timing};
use crate::time::after;

/// The maximum number of probes of a port that can be in flight at once. Chosen: more than are sent while a probe may
/// be under way (`Timing::flight`), also at first, when they follow each other quickly.
const MAX_IN_FLIGHT: usize = 8;

/// The mark in place of the time when a probe was sent: the link was presumed, and no probe has confirmed it.
const PRESUMED: Time = Time(0);

/// The maximum number of peers that a port remembers: ports of switches that may be on the same link or segment.
/// Chosen: more than a segment has, and a bound on what forged probes cost.
pub(super) const MAX_PEERS: usize = 64;

/// The number of probes of which one is also a broadcast, in case a bridge was inserted. Chosen: each broadcast reaches
/// every host of a segment, and a bridge is found within four periods.
const BROADCAST_EVERY: u32 = 4;

/// The number of first probes of a port that are also broadcasts. It must exceed [`BROADCASTS_WITHOUT_LLDP`], so that a
/// bridge is found with a port's first probes.
const QUICK_BROADCASTS: u32 = 4;

/// The number of broadcasts of a peer, without an LLDP frame, after which a bridge is reported as filtering LLDP. It
/// must exceed 2. With the first one an LLDP frame may be lost: a switch that has just connected may get its rules
/// between the two frames of a probe. The second one may overtake its LLDP frame.
const BROADCASTS_WITHOUT_LLDP: u32 = 3;

/// The time within which broadcasts count as one: several go out when switches connect one after the other. It must be
/// less than the period of probes.
const BROADCAST_DISTANCE: Duration = Duration::from_millis(50);

/// The attachment of a port, as far as discovery knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// A port of which it is not known yet what is attached.
    New,
    /// Hosts.
    Edge,
    /// One port of a switch: a wire, or a bridge between the two.
    Link(Location),
    /// Several ports of switches: a bridge or hub connects them.
    Segment(BTreeSet<Location>),
}

impl Attachment {
    /// Returns the attached ports of switches.
    pub fn peers(&self) -> BTreeSet<Location> {
        match self {
            Attachment::New | Attachment::Edge => BTreeSet::new(),
            Attachment::Link(peer) => [*peer].into(),
            Attachment::Segment(peers) => peers.clone(),
        }
    }

    fn has(&self, peer: Location) -> bool {
        match self {
            Attachment::New | Attachment::Edge => false,
            Attachment::Link(one) => *one == peer,
            Attachment::Segment(peers) => peers.contains(&peer),
        }
    }
}

/// The knowledge of discovery about one port that is up.
#[derive(Debug)]
pub(super) struct PortState {
    pub(super) hw_addr: [u8; 6],
    up_since: Time,
    /// The last conclusion.
    pub(super) attachment: Attachment,
    /// The number of probes sent since the port came up or lost a link.
    pub(super) probes: u32,
    /// The time when the next probe is due.
    pub(super) next: Time,
    /// The time until which a peer's unanswered probes mean nothing, because this switch could not report probes
    /// before.
    deaf_until: Time,
    /// The end of the grace period: before it, silence does not make this an edge port.
    grace_until: Time,
    /// The ports whose probes arrived here, or where this port's probes arrived.
    peers: BTreeMap<Location, PortPeer>,
    /// The time since which only one direction is known.
    one_way_since: Option<Time>,
    /// The times when the latest probes were sent.
    in_flight: [Option<Time>; MAX_IN_FLIGHT],
    /// The time when the latest probe was sent or scheduled.
    pub(super) latest: Time,
    /// One bit for each kind of anomaly that was reported.
    reported: u8,
}

/// The knowledge of a port about a peer.
#[derive(Debug, Default)]
struct PortPeer {
    /// The time when its last probe arrived here, and the latest time at which one of its probes was sent.
    received: Option<(Time, Time)>,
    /// The time when the last probe that arrived of each [`ProbeForm`] was sent. The network may reorder the two forms.
    received_forms: [Option<Time>; 2],
    /// The number of its broadcasts that count.
    broadcasts: u32,
    /// The time when the last one that counts was sent.
    counted: Option<Time>,
    /// The time when it last reported a probe of this port, and the time when that probe was sent.
    reported: Option<(Time, Time)>,
    /// The number of probes sent since that report.
    unanswered: u32,
}

impl PortPeer {
    /// Reports whether the LLDP probes of the peer arrive, not only its broadcasts.
    fn passes_lldp(&self) -> bool {
        self.received_forms[ProbeForm::Lldp as usize].is_some()
    }
}

impl PortState {
    /// Creates the state of a port that came up, whose attachment is not known before `grace_until`.
    pub(super) fn new(hw_addr: [u8; 6], up_since: Time, grace_until: Time) -> PortState {
        PortState {
            hw_addr,
            up_since,
            attachment: Attachment::New,
            probes: 0,
            next: Time(0),
            deaf_until: Time(0),
            grace_until,
            peers: BTreeMap::new(),
            one_way_since: None,
            in_flight: [None; MAX_IN_FLIGHT],
            latest: Time(0),
            reported: 0,
        }
    }

    /// Presumes what was found before this switch disconnected. A link has to be confirmed sooner than one that was
    /// found.
    pub(super) fn presume(&mut self, now: Time, attachment: Attachment) {
        if attachment == Attachment::New {
            return;
        }
        if let Attachment::Link(peer) = attachment {
            let found = Some((now, PRESUMED));
            self.peers.insert(peer, PortPeer { received: found, reported: found, ..PortPeer::default() });
        }
        self.attachment = attachment;
        self.grace_until = now;
    }

    /// Starts all waits again, because the switch has a connection again.
    pub(super) fn begin_anew(&mut self, now: Time, deaf_until: Time) {
        self.deaf_until = deaf_until;
        self.one_way_since = None;
        for peer in self.peers.values_mut() {
            peer.unanswered = 0;
            for (when, _) in peer.received.iter_mut().chain(&mut peer.reported) {
                *when = now;
            }
        }
    }

    /// Reports whether a peer's unanswered probes still mean nothing.
    pub(super) fn is_deaf(&self, now: Time) -> bool {
        now < self.deaf_until
    }

    /// Starts a probe. Returns the time that identifies it, now or slightly later, and the forms to send.
    pub(super) fn stamp(&mut self, now: Time) -> (Time, Vec<ProbeForm>) {
        let sent = Time(now.0.max(self.latest.0 + 1));
        self.latest = sent;
        self.in_flight.rotate_right(1);
        self.in_flight[0] = Some(sent);
        let forms =
            if self.wants_broadcast() { vec![ProbeForm::Lldp, ProbeForm::Broadcast] } else { vec![ProbeForm::Lldp] };
        for peer in self.peers.values_mut() {
            peer.unanswered = peer.unanswered.saturating_add(1);
        }
        (sent, forms)
    }

    /// Reports whether the next probe is also a broadcast: at first, once in a while, and if a peer receives only
    /// broadcasts.
    fn wants_broadcast(&self) -> bool {
        self.probes <= QUICK_BROADCASTS
            || self.probes.is_multiple_of(BROADCAST_EVERY)
            || self.peers.values().any(|peer| !peer.passes_lldp())
    }

    /// Reports whether this peer has reported this probe already, because both forms arrived there.
    pub(super) fn is_reported(&self, by: Location, sent: Time) -> bool {
        self.peers.get(&by).and_then(|peer| peer.reported).is_some_and(|(_, last)| last == sent)
    }

    /// Reports whether the probe sent at this time is in flight, and this peer has not reported it or a later one.
    pub(super) fn accepts(&self, by: Location, sent: Time) -> bool {
        let last_report = self.peers.get(&by).and_then(|peer| peer.reported);
        self.in_flight.contains(&Some(sent)) && last_report.is_none_or(|(_, last)| last < sent)
    }

    /// Reports whether a probe sent at this time left before the port came up, so that it says nothing about the port.
    pub(super) fn is_from_before(&self, sent: Time) -> bool {
        sent < self.up_since
    }

    /// Reports whether this probe, or a later one of the same port, has already arrived here in the same form.
    pub(super) fn was_received(&self, probe: Probe, form: ProbeForm) -> bool {
        self.peers
            .get(&probe.from)
            .and_then(|peer| peer.received_forms[form as usize])
            .is_some_and(|sent| probe.sent <= sent)
    }

    /// Records a probe that arrived. Returns `false` if the port cannot remember another peer.
    pub(super) fn record_received(&mut self, now: Time, probe: Probe, form: ProbeForm, timing: &Timing) -> bool {
        let Some(peer) = self.peer(now, probe.from, timing) else { return false };
        let before = peer.received.map_or(probe.sent, |(_, sent)| sent);
        peer.received = Some((now, before.max(probe.sent)));
        peer.received_forms[form as usize] = Some(probe.sent);
        let counts = peer.counted.is_none_or(|counted| after(counted, BROADCAST_DISTANCE) <= probe.sent);
        if form == ProbeForm::Broadcast && counts {
            peer.broadcasts = peer.broadcasts.saturating_add(1);
            peer.counted = Some(probe.sent);
        }
        true
    }

    /// Reports whether a probe that this peer sent after `sent` has arrived here.
    pub(super) fn received_after(&self, peer: Location, sent: Time) -> bool {
        self.peers.get(&peer).and_then(|peer| peer.received).is_some_and(|(_, latest)| latest > sent)
    }

    /// Returns the peers of a link or segment that have reported no probe for too long, and the time when the last
    /// reported one was sent.
    pub(super) fn unanswered(&self, now: Time, timing: &Timing) -> Vec<(Location, Time)> {
        let silent = |(by, peer): (&Location, &PortPeer)| {
            let (when, sent) = peer.reported?;
            let patience = if sent == PRESUMED { 2 * timing.grace_period() } else { timing.validity() };
            let is_silent = peer.unanswered >= timing.missed && after(when, patience) < now;
            (is_silent && self.attachment.has(*by)).then_some((*by, sent))
        };
        self.peers.iter().filter_map(silent).collect()
    }

    /// Records that the probe sent at `sent` arrived at `by`. Returns `false` if the port cannot remember another peer.
    pub(super) fn record_reported(&mut self, now: Time, by: Location, sent: Time, timing: &Timing) -> bool {
        let Some(peer) = self.peer(now, by, timing) else { return false };
        peer.reported = Some((now, sent));
        peer.unanswered = 0;
        true
    }

    /// Returns the record of a peer. A new one is added if there is room, after forgetting outdated ones.
    fn peer(&mut self, now: Time, at: Location, timing: &Timing) -> Option<&mut PortPeer> {
        if !self.peers.contains_key(&at) && self.peers.len() >= MAX_PEERS {
            let attachment = &self.attachment;
            self.peers.retain(|at, peer| {
                let fresh =
                    |known: Option<(Time, Time)>| known.is_some_and(|(when, _)| now <= after(when, timing.validity()));
                attachment.has(*at) || fresh(peer.received) || fresh(peer.reported)
            });
        }
        let has_room = self.peers.contains_key(&at) || self.peers.len() < MAX_PEERS;
        has_room.then(|| self.peers.entry(at).or_default())
    }

    /// Forgets this peer, which is gone since `when`. Returns whether anything was known.
    pub(super) fn forget(&mut self, at: Location, when: Time) -> bool {
        let Some(peer) = self.peers.get_mut(&at) else { return false };
        let received = peer.received.take_if(|(_, sent)| *sent <= when).is_some();
        let reported = peer.reported.take().is_some();
        if peer.received.is_none() {
            self.peers.remove(&at);
        }
        received || reported
    }

    /// Returns the peers that may believe that they have a link with this port.
    pub(super) fn peers(&self) -> Vec<Location> {
        self.peers.keys().copied().collect()
    }

    /// Extends the grace period to `time`.
    pub(super) fn wait_until(&mut self, time: Time) {
        self.grace_until = self.grace_until.max(time);
    }

    /// Returns the end of a new port's grace period, if that is soon and all quick probes are sent.
    pub(super) fn grace_ends_soon(&self, now: Time, timing: &Timing) -> Option<Time> {
        let soon = now < self.grace_until && self.grace_until <= after(now, timing.fast);
        (soon && self.attachment == Attachment::New && self.probes >= timing.fast_probes).then_some(self.grace_until)
    }

    /// Concludes what is attached. Peers known in both directions count. If all peers are known in one direction only,
    /// the port is neither a link port nor an edge port.
    pub(super) fn conclusion(&mut self, now: Time, timing: &Timing) -> Attachment {
        let known = |at: &Location, peer: &PortPeer| {
            [peer.received, peer.reported]
                .map(|finding| finding.is_some_and(|(when, _)| self.is_valid(now, *at, when, timing)))
        };
        let (mut both, mut one) = (BTreeSet::new(), false);
        for (at, peer) in &self.peers {
            match known(at, peer) {
                [true, true] => drop(both.insert(*at)),
                [false, false] => {}
                _ => one = true,
            }
        }
        if both.is_empty() && one {
            self.one_way_since.get_or_insert(now);
            return Attachment::New;
        }
        self.one_way_since = None;
        match (both.len(), both.first()) {
            (0, _) | (_, None) if self.is_link() => Attachment::New,
            (0, _) | (_, None) if self.grace_until <= now => Attachment::Edge,
            (0, _) | (_, None) => self.attachment.clone(),
            (1, Some(peer)) => Attachment::Link(*peer),
            _ => Attachment::Segment(both),
        }
    }

    /// Reports whether only broadcasts of a peer of the link or segment arrive: something between filters LLDP.
    pub(super) fn is_lldp_filtered(&self) -> bool {
        let is_filtered = |peer: &PortPeer| !peer.passes_lldp() && peer.broadcasts >= BROADCASTS_WITHOUT_LLDP;
        self.peers.iter().any(|(at, peer)| self.attachment.has(*at) && is_filtered(peer))
    }

    /// Reports whether only one direction has been known for the validity of a finding.
    pub(super) fn is_one_way(&self, now: Time, timing: &Timing) -> bool {
        self.one_way_since.is_some_and(|since| after(since, timing.validity()) <= now)
    }

    /// Reports whether a peer whose probe has just arrived needs a probe from this port, to learn that this port
    /// reaches it.
    pub(super) fn wants_answer(&self, now: Time, at: Location, timing: &Timing) -> bool {
        let reported = self.peers.get(&at).and_then(|peer| peer.reported);
        !reported.is_some_and(|(when, _)| self.is_valid(now, at, when, timing))
            && after(self.latest, timing.fast) <= now
    }

    /// Outputs an anomaly.
    pub(super) fn report(&mut self, at: Location, anomaly: Anomaly, out: &mut Vec<DiscoveryOutput>) {
        let first = self.reported & anomaly.bit() == 0;
        self.reported |= anomaly.bit();
        // A lasting state is output once only.
        if first || !anomaly.is_state() {
            out.push(DiscoveryOutput::Anomaly { at, anomaly, first });
        }
    }

    fn is_link(&self) -> bool {
        matches!(self.attachment, Attachment::Link(_) | Attachment::Segment(_))
    }

    /// Reports whether a finding about a peer, made at `when`, is still valid. For a link or segment it is, until the
    /// other end ends it.
    fn is_valid(&self, now: Time, peer: Location, when: Time, timing: &Timing) -> bool {
        self.attachment.has(peer) || now <= after(when, timing.validity())
    }
}

#[cfg(test)]
mod tests {
    use maple_wire::{Dpid, PortNo};

    use super::*;

    #[test]
    fn broadcasts_sent_at_once_count_as_one_before_a_bridge_is_reported() {
        let peer = Location::new(Dpid(2), PortNo(1));
        let mut port = PortState::new([0; 6], Time(1), Time(1));
        port.attachment = Attachment::Link(peer);
        let timing = Timing::default();
        let mut arrive = |milliseconds: u64, form| {
            let sent = Time(1_000_000_000 + milliseconds * 1_000_000);
            assert!(port.record_received(sent, Probe { from: peer, sent }, form, &timing));
            port.is_lldp_filtered()
        };
        let seen: Vec<bool> = (0..10).map(|at| arrive(at, ProbeForm::Broadcast)).collect();
        assert!(!seen.contains(&true), "only the first counts: {seen:?}");
        assert!(!arrive(60, ProbeForm::Broadcast));
        assert!(!arrive(80, ProbeForm::Broadcast));
        assert!(arrive(120, ProbeForm::Broadcast), "the third");
        assert!(!arrive(130, ProbeForm::Lldp));
    }
}
