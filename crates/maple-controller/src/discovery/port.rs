//! What discovery knows of one port.

use maple_core::engine::Time;
use maple_core::network::{Location, PortKind};

use super::{Found, Odd, Probe, Timing};
use crate::time::after;

/// How many probes of a port can be under way at once.
const UNDER_WAY: usize = 4;

/// What discovery knows of one port that is up.
#[derive(Debug)]
pub(super) struct PortState {
    pub(super) hw_addr: [u8; 6],
    up_since: Time,
    /// What was concluded last.
    pub(super) kind: PortKind,
    /// Probes sent since the port came up or lost its link.
    pub(super) probes: u32,
    /// When the next probe is due.
    pub(super) next: Time,
    /// Before this time silence does not make it an edge port.
    chance_until: Time,
    /// Whose probe came in here, when it came, and when it was sent.
    heard: Option<(Location, Time, Time)>,
    /// Where our probe came in, when we were told, and when it was sent.
    reached: Option<(Location, Time, Time)>,
    /// How many probes have left since.
    unanswered: u32,
    /// Since when one direction has been known without the other.
    one_way_since: Option<Time>,
    /// The times of the latest probes that nobody has reported yet.
    under_way: [Option<Time>; UNDER_WAY],
    /// When the latest probe was sent, or was to be sent.
    pub(super) latest: Time,
    /// One bit for each kind of odd thing that was noted.
    odd: u8,
}

impl PortState {
    pub(super) fn new(hw_addr: [u8; 6], up_since: Time, chance_until: Time) -> PortState {
        PortState {
            hw_addr,
            up_since,
            kind: PortKind::New,
            probes: 0,
            next: Time(0),
            chance_until,
            heard: None,
            reached: None,
            unanswered: 0,
            one_way_since: None,
            under_way: [None; UNDER_WAY],
            latest: Time(0),
            odd: 0,
        }
    }

    /// The time that names the next probe: now, or a little more where two probes go out at once.
    pub(super) fn stamp(&mut self, now: Time) -> Time {
        let sent = Time(now.0.max(self.latest.0 + 1));
        self.latest = sent;
        self.under_way.rotate_right(1);
        self.under_way[0] = Some(sent);
        self.unanswered = self.unanswered.saturating_add(1);
        sent
    }

    /// Whether the probe sent at this time is under way; it is not any more.
    pub(super) fn accepts(&mut self, sent: Time) -> bool {
        self.under_way.iter_mut().any(|probe| probe.take_if(|at| *at == sent).is_some())
    }

    /// Whether a probe sent at this time left before the port came up again, and so tells nothing about it now.
    pub(super) fn is_from_before(&self, sent: Time) -> bool {
        sent < self.up_since
    }

    /// Whether this probe, or a later one of the same port, came in here before.
    pub(super) fn heard_before(&self, probe: Probe) -> bool {
        self.heard.is_some_and(|(from, _, sent)| from == probe.from && probe.sent <= sent)
    }

    /// Takes a probe that came in; `false` if the port has a live link with somebody else.
    pub(super) fn hears(&mut self, now: Time, probe: Probe, timing: &Timing) -> bool {
        let known = self.fresh_heard(now, timing);
        if known.is_some_and(|peer| peer != probe.from) && self.is_link() {
            return false;
        }
        self.heard = Some((probe.from, now, probe.sent));
        true
    }

    /// Whether a later probe of this peer than the one sent at `sent` came in here.
    pub(super) fn heard_after(&self, peer: Location, sent: Time) -> bool {
        self.heard.is_some_and(|(from, _, latest)| from == peer && latest > sent)
    }

    /// The peer of a link that has reported too few probes for too long, and when the last one that it did was sent.
    pub(super) fn is_unanswered(&self, now: Time, timing: &Timing) -> Option<(Location, Time)> {
        let (by, when, sent) = self.reached?;
        let silent = self.unanswered >= timing.missed && after(when, timing.hold()) < now;
        (silent && self.is_link()).then_some((by, sent))
    }

    /// Takes the news that the probe sent at `sent` came in at `by`; `false` if the port has a live link elsewhere.
    pub(super) fn reaches(&mut self, now: Time, by: Location, sent: Time, timing: &Timing) -> bool {
        let known = self.fresh_reached(now, timing);
        if known.is_some_and(|peer| peer != by) && self.is_link() {
            return false;
        }
        self.reached = Some((by, now, sent));
        self.unanswered = 0;
        true
    }

    /// Forgets what is known of this peer, which went at `when`; whether there was anything.
    pub(super) fn forget(&mut self, peer: Location, when: Time) -> bool {
        let heard = self.heard.take_if(|(from, _, sent)| *from == peer && *sent <= when).is_some();
        let reached = self.reached.take_if(|(by, ..)| *by == peer).is_some();
        heard || reached
    }

    /// The other ends that may believe in a link with this port.
    pub(super) fn peers(&self) -> Vec<Location> {
        let heard = self.heard.map(|(from, ..)| from);
        let reached = self.reached.map(|(by, ..)| by).filter(|by| Some(*by) != heard);
        heard.into_iter().chain(reached).collect()
    }

    /// Silence does not make this an edge port before `time`.
    pub(super) fn wait_until(&mut self, time: Time) {
        self.chance_until = self.chance_until.max(time);
    }

    /// When the last of a new port's quick probes will have had its chance, if that is not yet, but soon.
    pub(super) fn chance_soon(&self, now: Time, timing: &Timing) -> Option<Time> {
        let soon = now < self.chance_until && self.chance_until <= after(now, timing.fast);
        (soon && self.kind == PortKind::New && self.probes >= timing.fast_probes).then_some(self.chance_until)
    }

    /// What is behind the port, from what is known now.
    pub(super) fn conclusion(&mut self, now: Time, timing: &Timing) -> PortKind {
        match (self.fresh_heard(now, timing), self.fresh_reached(now, timing)) {
            (Some(heard), Some(reached)) if heard == reached => {
                self.one_way_since = None;
                PortKind::Link(heard)
            }
            (None, None) => {
                self.one_way_since = None;
                if self.is_link() {
                    PortKind::New
                } else if self.chance_until <= now {
                    PortKind::Edge
                } else {
                    self.kind
                }
            }
            _ => {
                self.one_way_since.get_or_insert(now);
                PortKind::New
            }
        }
    }

    /// Whether probes have passed in one direction only for as long as a finding holds.
    pub(super) fn is_one_way(&self, now: Time, timing: &Timing) -> bool {
        self.one_way_since.is_some_and(|since| after(since, timing.hold()) <= now)
    }

    /// Whether the peer that was just heard does not know yet that this port reaches it.
    pub(super) fn wants_answer(&self, now: Time, timing: &Timing) -> bool {
        self.fresh_reached(now, timing).is_none() && after(self.latest, timing.fast) <= now
    }

    /// Notes something odd.
    pub(super) fn odd(&mut self, at: Location, what: Odd, out: &mut Vec<Found>) {
        let first = self.odd & what.bit() == 0;
        self.odd |= what.bit();
        // Unlike the others this is no event but a state: said once.
        if first || what != Odd::OneWay {
            out.push(Found::Odd { at, what, first });
        }
    }

    fn is_link(&self) -> bool {
        matches!(self.kind, PortKind::Link(_))
    }

    fn fresh_heard(&self, now: Time, timing: &Timing) -> Option<Location> {
        self.heard.filter(|(_, when, _)| self.holds(now, *when, timing)).map(|(from, ..)| from)
    }

    fn fresh_reached(&self, now: Time, timing: &Timing) -> Option<Location> {
        self.reached.filter(|(_, when, _)| self.holds(now, *when, timing)).map(|(by, ..)| by)
    }

    /// Whether a finding of this time still holds. Those of a link do until its other end is gone or says otherwise.
    fn holds(&self, now: Time, when: Time, timing: &Timing) -> bool {
        self.is_link() || now <= after(when, timing.hold())
    }
}
