//! Finds out which ports have hosts behind them and which have switches, by sending probes out of every port.
//!
//! A state machine without I/O, one a shard, for the ports of the shard's own switches. A port that comes up is *new*: it
//! is probed at once and a few times more in quick succession, then every few seconds. If nothing says until then that a
//! switch is behind it, it is an *edge port*. A probe that comes in at a port says who is behind *it*; the discovery that
//! owns the sender is told ([`Tell::Heard`]), so it knows whom *its* port reaches. When both directions agree the port is
//! a *link port*. A port that knows one direction only is neither: nothing is learned from it, nothing sent by it.
//!
//! Both ends of a link come to these conclusions by themselves. A link goes at once when either end's port or switch goes
//! down ([`Tell::Gone`]). Who is known in one direction only changes nothing about a link that is alive.
//!
//! *Bridges.* Compliant bridges keep LLDP to themselves, so probes also go out as broadcasts ([`Cast`]): the first ones of
//! a port, one in a few after that, and each where another switch hears nothing else. A port that has a link with one
//! other port may have a bridge in between, and one with several certainly has ([`Behind::Segment`]). What a segment is
//! good for is for the engine to say (`maple_core`, `engine/segments.rs`).
//!
//! A link also goes when several probes in turn did not come in at its other end, but never because this controller was
//! late. The sender counts probes that have left, not time, so a shard that a slow policy holds up misses nothing. And
//! then it asks the other end ([`Tell::Unanswered`]), whose shard hands the question on only when it has read all that
//! the switch had sent. Letters between two shards stay in order, so an answer that was on its way comes first.
//!
//! What hosts can do: a probe carries an authentication code and its time of sending (`frame.rs`). One that was changed or
//! made up is counted and ignored, whatever port it comes in by; so is one that was older than [`Timing::flight`] when it
//! came in, and each form of a probe counts once at each port. A host that is attached twice and passes everything on in both directions at once is a wire, and
//! looks like one.
//!
//! Cost: a heap of one entry a port, O(log ports) a probe sent or heard.

mod frame;
mod port;

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use maple_core::engine::Time;
use maple_core::network::Location;
use maple_wire::msg::{PortReason, PortStatus};
use maple_wire::{Dpid, Port};

pub use frame::{Cast, Key, Probe, Reading, is_probe};
pub use port::Behind;
use port::PortState;

use crate::time::after;

/// How often probes go out, and how long findings hold.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Between the probes of a port that has just come up.
    pub fast: Duration,
    /// How many such probes there are. After one more such pause a port that reached nobody is an edge port.
    pub fast_probes: u32,
    /// Between probes afterwards; each time up to a tenth longer or shorter, so that they spread.
    pub interval: Duration,
    /// How many probes in turn may stay unanswered before the other end is asked whether the link is to be given up.
    pub missed: u32,
    /// How long a probe can be under way.
    pub flight: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            fast: Duration::from_millis(100),
            fast_probes: 3,
            interval: Duration::from_secs(5),
            missed: 3,
            flight: Duration::from_secs(2),
        }
    }
}

impl Timing {
    /// How long a finding holds.
    fn hold(&self) -> Duration {
        self.interval * self.missed + self.interval / 2
    }

    /// How long a new port waits for its chance.
    fn chance(&self) -> Duration {
        self.fast * self.fast_probes
    }
}

/// One thing that the owner of a discovery has to do. In order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Send a probe out of this port: `Discovery` makes it when it leaves.
    Send {
        /// The port.
        at: Location,
    },
    /// Pass this on to the discovery that owns the switch `to.switch`.
    Tell {
        /// The port that it is about.
        to: Location,
        /// What.
        tell: Tell,
    },
    /// What is behind this port is known anew.
    Kind {
        /// The port.
        at: Location,
        /// What is behind it.
        kind: Behind,
        /// What was behind it before.
        before: Behind,
    },
    /// Something odd. The owner counts it; `first` is true the first time of its kind at this port since it came up.
    Odd {
        /// The port that it came in by.
        at: Location,
        /// What.
        what: Odd,
        /// Whether it is the first of its kind, and so deserves a report.
        first: bool,
    },
}

/// What one end of a link tells the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tell {
    /// Your probe, sent at this time, came in at this port.
    Heard {
        /// Where it came in.
        by: Location,
        /// Which probe.
        sent: Time,
    },
    /// This port is gone, or its link is given up.
    Gone {
        /// The port.
        peer: Location,
        /// When. What was heard from it since is about its next life.
        when: Time,
    },
    /// No probe sent after this one was reported: unless you heard one, our link is given up. To be passed on once
    /// everything that came in from the switch until now was read.
    Unanswered {
        /// The port that asks.
        peer: Location,
        /// When its last probe that was reported left.
        sent: Time,
    },
}

/// What became of an LLDP frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handled {
    /// It was ours, or claimed to be.
    Ours,
    /// Another device made it: a packet like any other.
    Foreign,
}

/// Something odd about a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Odd {
    /// Not made by us: somebody forges links, or another Maple's switch is behind the port.
    Forged,
    /// Ours, but too old, or heard before: somebody replays it.
    Replayed,
    /// It came back to the port that it left by.
    Reflected,
    /// More ports of switches are on the port's segment than it keeps in mind.
    TooManyPeers,
    /// Probes pass in one direction only.
    OneWay,
    /// A bridge is between the port and another switch, and keeps LLDP to itself: the probes that pass are broadcasts.
    Bridged,
}

impl Odd {
    fn bit(self) -> u8 {
        1 << self as u8
    }

    /// Whether it goes on, rather than happens.
    fn is_state(self) -> bool {
        matches!(self, Odd::OneWay | Odd::Bridged)
    }
}

impl std::fmt::Display for Odd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Odd::Forged => "LLDP with our entry but a wrong code: forged, or another Maple's",
            Odd::Replayed => {
                "LLDP of ours that is too old or came twice: replayed, or the network or this controller was slow"
            }
            Odd::Reflected => "LLDP of ours came back to the port it left by",
            Odd::TooManyPeers => "more than 64 ports of switches are on one segment: the others are left out",
            Odd::OneWay => "probes pass in one direction only",
            Odd::Bridged => {
                "a plain bridge that filters LLDP is between this port and another switch: it has to pass frames with the \
                 VLAN tags that labels are, and must not be full of addresses (docs/networks.md)"
            }
        })
    }
}

/// Discovery for the switches of one shard.
#[derive(Debug)]
pub struct Discovery {
    key: Key,
    timing: Timing,
    ports: BTreeMap<Location, PortState>,
    /// Ports that are never probed: what is behind them would pass probes on.
    unprobed: BTreeSet<Location>,
    /// When to look at which port again. An entry counts only if the port still has this time.
    agenda: BinaryHeap<Reverse<(Time, Location)>>,
    /// State of the generator that spreads the probes.
    spread: u64,
}

impl Discovery {
    /// Discovery without switches. `seed` spreads its probes.
    pub fn new(key: Key, timing: Timing, seed: u64) -> Discovery {
        let unprobed = BTreeSet::new();
        Discovery { key, timing, ports: BTreeMap::new(), unprobed, agenda: BinaryHeap::new(), spread: seed }
    }

    /// The same, but it sends no probes by these ports and heeds none there: they are edge ports as soon as they are up.
    pub fn without(self, unprobed: BTreeSet<Location>) -> Discovery {
        Discovery { unprobed, ..self }
    }

    /// A switch is there with these ports.
    pub fn switch_up(&mut self, now: Time, dpid: Dpid, ports: &[Port], out: &mut Vec<Found>) {
        self.switch_down(now, dpid, out);
        for port in ports {
            self.port_up(now, dpid, port, out);
        }
    }

    /// A switch is gone.
    pub fn switch_down(&mut self, now: Time, dpid: Dpid, out: &mut Vec<Found>) {
        let all = self.ports.range(Location::new(dpid, maple_wire::PortNo(0))..);
        let gone: Vec<Location> = all.map(|(at, _)| *at).take_while(|at| at.switch == dpid).collect();
        for at in gone {
            self.port_down(now, at, out);
        }
    }

    /// A port came, went or changed.
    pub fn port_status(&mut self, now: Time, dpid: Dpid, status: &PortStatus, out: &mut Vec<Found>) {
        let at = Location::new(dpid, status.port.number);
        if status.reason == PortReason::Delete || !status.port.is_up() {
            self.port_down(now, at, out);
        } else if status.reason == PortReason::Add || !self.ports.contains_key(&at) {
            self.port_down(now, at, out);
            self.port_up(now, dpid, &status.port, out);
        }
    }

    /// A frame of discovery's kinds came in ([`is_probe`]). It may have waited for us, but no longer than since `since`.
    pub fn on_lldp(&mut self, now: Time, since: Time, at: Location, frame: &[u8], out: &mut Vec<Found>) -> Handled {
        let reading = Probe::read(self.key, frame);
        if reading == Reading::Foreign {
            return Handled::Foreign;
        }
        if let Some(port) = self.ports.get_mut(&at) {
            match reading {
                Reading::Ours(probe, cast) => self.heard(now, since, at, (probe, cast), out),
                _ => port.odd(at, Odd::Forged, out),
            }
        }
        Handled::Ours
    }

    /// A probe of ours came in.
    fn heard(&mut self, now: Time, since: Time, at: Location, (probe, cast): (Probe, Cast), out: &mut Vec<Found>) {
        let Some(port) = self.ports.get_mut(&at) else { return };
        if probe.from == at {
            return port.odd(at, Odd::Reflected, out);
        }
        if after(probe.sent, self.timing.flight) < since.min(now) || port.heard_before(probe, cast) {
            return port.odd(at, Odd::Replayed, out);
        }
        if !port.hears(now, probe, cast, &self.timing) {
            return port.odd(at, Odd::TooManyPeers, out);
        }
        out.push(Found::Tell { to: probe.from, tell: Tell::Heard { by: at, sent: probe.sent } });
        self.settle(now, at, out);
        // The other end came up after our last probe: let it know us without waiting for the next round.
        if self.ports.get(&at).is_some_and(|port| port.wants_answer(now, probe.from, &self.timing)) {
            self.probe(now, at, out);
        }
    }

    /// The other end of a link says something about the port `at` of ours.
    pub fn on_tell(&mut self, now: Time, at: Location, tell: Tell, out: &mut Vec<Found>) {
        let Some(port) = self.ports.get_mut(&at) else {
            if let Tell::Unanswered { peer, .. } = tell {
                out.push(Found::Tell { to: peer, tell: Tell::Gone { peer: at, when: now } });
            }
            return;
        };
        match tell {
            Tell::Heard { by, sent } => {
                if port.is_from_before(sent) {
                    return;
                }
                if !port.accepts(by, sent) {
                    // An older one came in in time, but its report or we were late, and it is forgotten.
                    if now <= after(sent, self.timing.flight) && !port.is_reported(by, sent) {
                        port.odd(at, Odd::Replayed, out);
                    }
                    return;
                }
                if !port.reaches(now, by, sent, &self.timing) {
                    return port.odd(at, Odd::TooManyPeers, out);
                }
            }
            Tell::Unanswered { peer, sent } => {
                if port.heard_after(peer, sent) {
                    return;
                }
                // Who leaves a link says so by itself.
                if !port.kind.peers().contains(&peer) {
                    out.push(Found::Tell { to: peer, tell: Tell::Gone { peer: at, when: now } });
                }
                if !port.forget(peer, now) {
                    return;
                }
            }
            Tell::Gone { peer, when } => {
                if !port.forget(peer, when) {
                    return;
                }
                self.restart(now, at, out);
            }
        }
        self.settle(now, at, out);
    }

    /// When [`Discovery::on_timer`] wants to be called, at the latest.
    pub fn deadline(&self) -> Option<Time> {
        self.agenda.peek().map(|Reverse((time, _))| *time)
    }

    /// Does what is due.
    pub fn on_timer(&mut self, now: Time, out: &mut Vec<Found>) {
        while let Some(Reverse((time, at))) = self.agenda.peek().copied() {
            if time > now {
                break;
            }
            self.agenda.pop();
            if self.ports.get(&at).is_some_and(|port| port.next == time) {
                self.settle(now, at, out);
                self.ask(now, at, out);
                self.probe_unless_one_has_its_chance(now, at, out);
            }
        }
    }

    /// Probes a port, unless a new port's last quick probe left late and has not had its chance: what is behind the port
    /// is then concluded when it has, rather than a whole interval later.
    fn probe_unless_one_has_its_chance(&mut self, now: Time, at: Location, out: &mut Vec<Found>) {
        let Some(port) = self.ports.get_mut(&at) else { return };
        match port.chance_soon(now, &self.timing) {
            Some(chance) => {
                port.next = chance;
                self.agenda.push(Reverse((chance, at)));
            }
            None => self.probe(now, at, out),
        }
    }

    /// Asks the other end of a link whether it hears this one, after too many probes without an answer.
    fn ask(&self, now: Time, at: Location, out: &mut Vec<Found>) {
        let Some(port) = self.ports.get(&at) else { return };
        for (peer, sent) in port.unanswered(now, &self.timing) {
            out.push(Found::Tell { to: peer, tell: Tell::Unanswered { peer: at, sent } });
        }
    }

    /// The frames of the probe that leaves by this port now, LLDP first; none if the port is gone.
    pub fn frames(&mut self, now: Time, at: Location) -> Vec<Vec<u8>> {
        let Some(port) = self.ports.get_mut(&at) else { return Vec::new() };
        let (sent, forms) = port.stamp(now);
        port.wait_until(after(now, self.timing.fast));
        let (key, hw_addr, hold) = (self.key, port.hw_addr, self.timing.hold());
        forms.into_iter().map(|cast| Probe { from: at, sent }.frame(key, cast, hw_addr, hold)).collect()
    }

    fn port_up(&mut self, now: Time, dpid: Dpid, port: &Port, out: &mut Vec<Found>) {
        if !port.number.is_ordinary_or_local() || !port.is_up() {
            return;
        }
        let at = Location::new(dpid, port.number);
        if self.unprobed.contains(&at) {
            return out.push(Found::Kind { at, kind: Behind::Edge, before: Behind::New });
        }
        self.ports.insert(at, PortState::new(port.hw_addr, now, after(now, self.timing.chance())));
        self.probe(now, at, out);
    }

    fn port_down(&mut self, now: Time, at: Location, out: &mut Vec<Found>) {
        let Some(port) = self.ports.remove(&at) else { return };
        for peer in port.peers() {
            out.push(Found::Tell { to: peer, tell: Tell::Gone { peer: at, when: now } });
        }
    }

    /// Probes in quick succession again.
    fn restart(&mut self, now: Time, at: Location, out: &mut Vec<Found>) {
        if let Some(port) = self.ports.get_mut(&at) {
            port.probes = 0;
            self.probe(now, at, out);
        }
    }

    /// Has a probe sent and puts the next one on the agenda.
    fn probe(&mut self, now: Time, at: Location, out: &mut Vec<Found>) {
        let pause = self.pause();
        let Some(port) = self.ports.get_mut(&at) else { return };
        port.latest = port.latest.max(now);
        port.probes = port.probes.saturating_add(1);
        port.next =
            if port.probes <= self.timing.fast_probes { after(now, self.timing.fast) } else { after(now, pause) };
        self.agenda.push(Reverse((port.next, at)));
        out.push(Found::Send { at });
    }

    /// Draws the conclusion from what the port knows now, and says so if it is new.
    fn settle(&mut self, now: Time, at: Location, out: &mut Vec<Found>) {
        let Some(port) = self.ports.get_mut(&at) else { return };
        let kind = port.conclusion(now, &self.timing);
        let before = std::mem::replace(&mut port.kind, kind.clone());
        if port.is_one_way(now, &self.timing) {
            port.odd(at, Odd::OneWay, out);
        }
        if kind == before {
            return;
        }
        let gone: Vec<Location> = before.peers().difference(&kind.peers()).copied().collect();
        out.push(Found::Kind { at, kind, before });
        if port.is_behind_a_filter() {
            port.odd(at, Odd::Bridged, out);
        }
        if !gone.is_empty() {
            // This port stayed up, so the other end may be a switch that only lost us: it gets a long second chance.
            port.wait_until(after(now, self.timing.hold()));
        }
        out.extend(gone.into_iter().map(|peer| Found::Tell { to: peer, tell: Tell::Gone { peer: at, when: now } }));
    }

    /// The pause to the next probe: the interval, up to a tenth longer or shorter (splitmix64).
    fn pause(&mut self) -> Duration {
        self.spread = self.spread.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.spread;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let part = ((z ^ z >> 31) % 2048) as u32;
        self.timing.interval * 9 / 10 + self.timing.interval / 5 * part / 2048
    }
}
