//! What discovery knows of one port.

use std::collections::{BTreeMap, BTreeSet};

use maple_core::engine::Time;
use maple_core::network::Location;

use super::{Cast, Found, Odd, Probe, Timing};
use crate::time::after;

/// How many probes of a port can be under way at once.
const UNDER_WAY: usize = 8;

/// How many ports of switches a port keeps in mind that may be at the other end, or on the same segment.
pub(super) const MOST_PEERS: usize = 64;

/// Every so many probes one goes out as a broadcast too, for bridges that have come between without a word.
const BROADCAST_EVERY: u32 = 4;

/// The first probes of a port go out as broadcasts too.
const QUICK_BROADCASTS: u32 = 4;

/// What is behind a port, as far as discovery knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Behind {
    /// Not known yet.
    New,
    /// Hosts.
    Edge,
    /// One port of a switch: a wire, or a bridge that joins these two.
    Link(Location),
    /// Several ports of switches: a bridge or hub joins all of them.
    Segment(BTreeSet<Location>),
}

impl Behind {
    /// The ports of switches that are there.
    pub fn peers(&self) -> BTreeSet<Location> {
        match self {
            Behind::New | Behind::Edge => BTreeSet::new(),
            Behind::Link(peer) => [*peer].into(),
            Behind::Segment(peers) => peers.clone(),
        }
    }

    fn has(&self, peer: Location) -> bool {
        match self {
            Behind::New | Behind::Edge => false,
            Behind::Link(one) => *one == peer,
            Behind::Segment(peers) => peers.contains(&peer),
        }
    }
}

/// What discovery knows of one port that is up.
#[derive(Debug)]
pub(super) struct PortState {
    pub(super) hw_addr: [u8; 6],
    up_since: Time,
    /// What was concluded last.
    pub(super) kind: Behind,
    /// Probes sent since the port came up or lost a link.
    pub(super) probes: u32,
    /// When the next probe is due.
    pub(super) next: Time,
    /// Before this time silence does not make it an edge port.
    chance_until: Time,
    /// Whose probes came in here, and where ours did.
    peers: BTreeMap<Location, Peer>,
    /// Since when one direction has been known without the other.
    one_way_since: Option<Time>,
    /// The times of the latest probes.
    under_way: [Option<Time>; UNDER_WAY],
    /// When the latest probe was sent, or was to be sent.
    pub(super) latest: Time,
    /// One bit for each kind of odd thing that was noted.
    odd: u8,
}

/// What a port knows of another.
#[derive(Debug, Default)]
struct Peer {
    /// When its last probe came in here, and when that or a later one was sent.
    heard: Option<(Time, Time)>,
    /// When the last that came in here was sent, of each form ([`Cast`]): the network may turn the two round.
    forms: [Option<Time>; 2],
    /// When we were told last that our probe came in there, and when that was sent.
    reached: Option<(Time, Time)>,
    /// How many probes have left since.
    unanswered: u32,
}

impl Peer {
    /// Whether LLDP of it ever came, and not broadcasts only.
    fn passes_lldp(&self) -> bool {
        self.forms[Cast::Lldp as usize].is_some()
    }
}

impl PortState {
    pub(super) fn new(hw_addr: [u8; 6], up_since: Time, chance_until: Time) -> PortState {
        PortState {
            hw_addr,
            up_since,
            kind: Behind::New,
            probes: 0,
            next: Time(0),
            chance_until,
            peers: BTreeMap::new(),
            one_way_since: None,
            under_way: [None; UNDER_WAY],
            latest: Time(0),
            odd: 0,
        }
    }

    /// The time that names the next probe, now or a little more, and the forms in which it goes out.
    pub(super) fn stamp(&mut self, now: Time) -> (Time, Vec<Cast>) {
        let sent = Time(now.0.max(self.latest.0 + 1));
        self.latest = sent;
        self.under_way.rotate_right(1);
        self.under_way[0] = Some(sent);
        let forms = if self.wants_broadcast() { vec![Cast::Lldp, Cast::Broadcast] } else { vec![Cast::Lldp] };
        for peer in self.peers.values_mut() {
            peer.unanswered = peer.unanswered.saturating_add(1);
        }
        (sent, forms)
    }

    /// Whether the next probe goes out as a broadcast too: while nothing is known, now and then, and where somebody can be
    /// reached only so.
    fn wants_broadcast(&self) -> bool {
        self.probes <= QUICK_BROADCASTS
            || self.probes.is_multiple_of(BROADCAST_EVERY)
            || self.peers.values().any(|peer| !peer.passes_lldp())
    }

    /// Whether this peer has reported this very probe already: both forms of it came in there.
    pub(super) fn is_reported(&self, by: Location, sent: Time) -> bool {
        self.peers.get(&by).and_then(|peer| peer.reached).is_some_and(|(_, last)| last == sent)
    }

    /// Whether the probe sent at this time is under way, and this peer has not reported it or a later one.
    pub(super) fn accepts(&self, by: Location, sent: Time) -> bool {
        let reported = self.peers.get(&by).and_then(|peer| peer.reached);
        self.under_way.contains(&Some(sent)) && reported.is_none_or(|(_, last)| last < sent)
    }

    /// Whether a probe sent at this time left before the port came up again, and so tells nothing about it now.
    pub(super) fn is_from_before(&self, sent: Time) -> bool {
        sent < self.up_since
    }

    /// Whether this probe, or a later one of the same port, came in here before in the same form.
    pub(super) fn heard_before(&self, probe: Probe, cast: Cast) -> bool {
        self.peers.get(&probe.from).and_then(|peer| peer.forms[cast as usize]).is_some_and(|sent| probe.sent <= sent)
    }

    /// Takes a probe that came in; `false` if there is no room for one more peer.
    pub(super) fn hears(&mut self, now: Time, probe: Probe, cast: Cast, timing: &Timing) -> bool {
        let Some(peer) = self.peer(now, probe.from, timing) else { return false };
        let before = peer.heard.map_or(probe.sent, |(_, sent)| sent);
        peer.heard = Some((now, before.max(probe.sent)));
        peer.forms[cast as usize] = Some(probe.sent);
        true
    }

    /// Whether a later probe of this peer than the one sent at `sent` came in here.
    pub(super) fn heard_after(&self, peer: Location, sent: Time) -> bool {
        self.peers.get(&peer).and_then(|peer| peer.heard).is_some_and(|(_, latest)| latest > sent)
    }

    /// The peers of a link or segment that have reported too few probes for too long, and when the last one that each did
    /// was sent.
    pub(super) fn unanswered(&self, now: Time, timing: &Timing) -> Vec<(Location, Time)> {
        let silent = |(by, peer): (&Location, &Peer)| {
            let (when, sent) = peer.reached?;
            let is_silent = peer.unanswered >= timing.missed && after(when, timing.hold()) < now;
            (is_silent && self.kind.has(*by)).then_some((*by, sent))
        };
        self.peers.iter().filter_map(silent).collect()
    }

    /// Takes the news that the probe sent at `sent` came in at `by`; `false` if there is no room for one more peer.
    pub(super) fn reaches(&mut self, now: Time, by: Location, sent: Time, timing: &Timing) -> bool {
        let Some(peer) = self.peer(now, by, timing) else { return false };
        peer.reached = Some((now, sent));
        peer.unanswered = 0;
        true
    }

    /// What is known of a peer, which may be a new one if there is room.
    fn peer(&mut self, now: Time, at: Location, timing: &Timing) -> Option<&mut Peer> {
        if !self.peers.contains_key(&at) && self.peers.len() >= MOST_PEERS {
            let kind = &self.kind;
            self.peers.retain(|at, peer| {
                let fresh =
                    |known: Option<(Time, Time)>| known.is_some_and(|(when, _)| now <= after(when, timing.hold()));
                kind.has(*at) || fresh(peer.heard) || fresh(peer.reached)
            });
        }
        let has_room = self.peers.contains_key(&at) || self.peers.len() < MOST_PEERS;
        has_room.then(|| self.peers.entry(at).or_default())
    }

    /// Forgets what is known of this peer, which went at `when`; whether there was anything.
    pub(super) fn forget(&mut self, at: Location, when: Time) -> bool {
        let Some(peer) = self.peers.get_mut(&at) else { return false };
        let heard = peer.heard.take_if(|(_, sent)| *sent <= when).is_some();
        let reached = peer.reached.take().is_some();
        if peer.heard.is_none() {
            self.peers.remove(&at);
        }
        heard || reached
    }

    /// The other ends that may believe in a link with this port.
    pub(super) fn peers(&self) -> Vec<Location> {
        self.peers.keys().copied().collect()
    }

    /// Silence does not make this an edge port before `time`.
    pub(super) fn wait_until(&mut self, time: Time) {
        self.chance_until = self.chance_until.max(time);
    }

    /// When the last of a new port's quick probes will have had its chance, if that is not yet, but soon.
    pub(super) fn chance_soon(&self, now: Time, timing: &Timing) -> Option<Time> {
        let soon = now < self.chance_until && self.chance_until <= after(now, timing.fast);
        (soon && self.kind == Behind::New && self.probes >= timing.fast_probes).then_some(self.chance_until)
    }

    /// What is behind the port, from what is known now. Who is known in one direction only does not count beside those that
    /// are known in both; alone it keeps the port from being an edge port.
    pub(super) fn conclusion(&mut self, now: Time, timing: &Timing) -> Behind {
        let known = |at: &Location, peer: &Peer| {
            [peer.heard, peer.reached]
                .map(|finding| finding.is_some_and(|(when, _)| self.holds(now, *at, when, timing)))
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
            return Behind::New;
        }
        self.one_way_since = None;
        match (both.len(), both.first()) {
            (0, _) | (_, None) if self.is_link() => Behind::New,
            (0, _) | (_, None) if self.chance_until <= now => Behind::Edge,
            (0, _) | (_, None) => self.kind.clone(),
            (1, Some(peer)) => Behind::Link(*peer),
            _ => Behind::Segment(both),
        }
    }

    /// Whether a peer of the link or segment was never heard but by broadcasts: something in between keeps LLDP to itself.
    pub(super) fn is_behind_a_filter(&self) -> bool {
        self.peers.iter().any(|(at, peer)| self.kind.has(*at) && peer.heard.is_some() && !peer.passes_lldp())
    }

    /// Whether probes have passed in one direction only for as long as a finding holds.
    pub(super) fn is_one_way(&self, now: Time, timing: &Timing) -> bool {
        self.one_way_since.is_some_and(|since| after(since, timing.hold()) <= now)
    }

    /// Whether the peer that was just heard does not know yet that this port reaches it.
    pub(super) fn wants_answer(&self, now: Time, at: Location, timing: &Timing) -> bool {
        let reached = self.peers.get(&at).and_then(|peer| peer.reached);
        !reached.is_some_and(|(when, _)| self.holds(now, at, when, timing)) && after(self.latest, timing.fast) <= now
    }

    /// Notes something odd.
    pub(super) fn odd(&mut self, at: Location, what: Odd, out: &mut Vec<Found>) {
        let first = self.odd & what.bit() == 0;
        self.odd |= what.bit();
        // Unlike the others these are no events but states: said once.
        if first || !what.is_state() {
            out.push(Found::Odd { at, what, first });
        }
    }

    fn is_link(&self) -> bool {
        matches!(self.kind, Behind::Link(_) | Behind::Segment(_))
    }

    /// Whether a finding of this time about a peer still holds. Those of a link do until its other end is gone or says
    /// otherwise.
    fn holds(&self, now: Time, peer: Location, when: Time, timing: &Timing) -> bool {
        self.kind.has(peer) || now <= after(when, timing.hold())
    }
}
