//! Asks hosts which groups they belong to, where no router does: without questions hosts say so once, when they join.
//!
//! Whoever asks with an address of its own goes first (RFC 2236 §3, RFC 3810 §7.6.2: the lowest address wins; this one has
//! none in IPv4, and in IPv6 one like no router's). While another one is heard, nothing is asked here.

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use maple_core::Location;
use maple_core::engine::Time;
use maple_core::network::OwnFrame;
use maple_wire::packet::{igmp, mld};

use super::Effect;
use super::groups::Groups;
use crate::time::after;

/// How often all hosts are asked (RFC 2236 §8.2).
pub const INTERVAL: Duration = Duration::from_secs(125);
/// How long another one that asks is believed in: two of its questions and half the time to answer (RFC 2236 §8.5).
pub const OTHER: Duration = Duration::from_secs(255);
/// How soon who is asked about one group answers, and how long until it is asked again (RFC 2236 §8.8).
pub const LAST_MEMBER: Duration = Duration::from_secs(1);
/// Questions that are asked a second time, at most; what hosts leave beyond is asked once.
const MOST_AGAIN: usize = 4096;
/// Time to answer a question to all, in tenths of a second; that to a port that came up brings what was lost with it.
const RESPONSE: u8 = 100;
const FIRST_RESPONSE: u8 = 10;

/// The hardware address that questions come from: one of those that nobody assigns.
pub const MAC: [u8; 6] = [0x02, b'M', b'A', b'P', b'L', b'E'];

/// Who asks in each of the two protocols.
#[derive(Debug)]
pub struct Querier {
    protocols: Vec<Protocol>,
    /// The ports that were asked since they came up.
    asked: BTreeSet<Location>,
    /// The last questions about members that leave: one was lost perhaps.
    again: VecDeque<(Time, IpAddr, Location)>,
}

#[derive(Debug)]
struct Protocol {
    is_v6: bool,
    /// Until when another one is believed in.
    other: Time,
    next: Time,
}

impl Querier {
    /// One that asks by IGMP, MLD, or both.
    pub fn new(igmp: bool, mld: bool) -> Querier {
        let protocol = |is_v6| Protocol { is_v6, other: Time(0), next: Time(0) };
        let protocols = [(igmp, false), (mld, true)].into_iter().filter(|(on, _)| *on);
        Querier {
            protocols: protocols.map(|(_, is_v6)| protocol(is_v6)).collect(),
            asked: BTreeSet::new(),
            again: VecDeque::new(),
        }
    }

    /// Somebody else asks.
    pub fn heard(&mut self, now: Time, from: IpAddr) {
        let is_other = match from {
            IpAddr::V4(ip) => !ip.is_unspecified(),
            IpAddr::V6(ip) => ip != own_address(),
        };
        let same = |protocol: &&mut Protocol| protocol.is_v6 == from.is_ipv6();
        if is_other && let Some(protocol) = self.protocols.iter_mut().find(same) {
            protocol.other = after(now, OTHER);
            // When that one falls silent, all are asked.
            protocol.next = protocol.other;
        }
    }

    /// Asks who stays in a group that somebody behind this port has left.
    pub fn last_call(&mut self, now: Time, group: IpAddr, at: Location, out: &mut Vec<Effect>) {
        if self.is_ours(now, group.is_ipv6()) {
            out.push(ask(at, group.is_ipv6(), Some(group), FIRST_RESPONSE));
            if self.again.len() < MOST_AGAIN {
                self.again.push_back((after(now, LAST_MEMBER), group, at));
            }
        }
    }

    /// Asks all of these edge ports, where that is due, and those that came up.
    pub fn ask_all(&mut self, now: Time, ports: BTreeSet<Location>, out: &mut Vec<Effect>) {
        for protocol in &mut self.protocols {
            let all = protocol.next <= now;
            if all {
                protocol.next = after(now, INTERVAL);
            }
            let is_ours = protocol.other <= now;
            for at in ports.iter().filter(|at| is_ours && (all || !self.asked.contains(at))) {
                let response = if self.asked.contains(at) { RESPONSE } else { FIRST_RESPONSE };
                out.push(ask(*at, protocol.is_v6, None, response));
            }
        }
        self.asked = ports;
    }

    /// Asks again what is due, where there are members that may stay.
    pub fn ask_again(&mut self, now: Time, groups: &Groups, out: &mut Vec<Effect>) {
        while let Some((_, group, at)) = self.again.front().filter(|(when, ..)| *when <= now).copied() {
            self.again.pop_front();
            if groups.has(group, at) && self.is_ours(now, group.is_ipv6()) {
                out.push(ask(at, group.is_ipv6(), Some(group), FIRST_RESPONSE));
            }
        }
    }

    /// When something is to be asked again.
    pub fn next(&self) -> Option<Time> {
        self.again.front().map(|(when, ..)| *when)
    }

    fn is_ours(&self, now: Time, is_v6: bool) -> bool {
        self.protocols.iter().any(|protocol| protocol.is_v6 == is_v6 && protocol.other <= now)
    }
}

fn own_address() -> Ipv6Addr {
    mld::link_local(MAC)
}

fn ask(at: Location, is_v6: bool, group: Option<IpAddr>, tenths: u8) -> Effect {
    let bytes = match group {
        Some(IpAddr::V4(group)) => igmp::query(MAC, Some(group), tenths),
        Some(IpAddr::V6(group)) => mld::query(MAC, Some(group), u16::from(tenths) * 100),
        None if is_v6 => mld::query(MAC, None, u16::from(tenths) * 100),
        None => igmp::query(MAC, None, tenths),
    };
    Effect::Send(OwnFrame { at, bytes: bytes.into() })
}

#[cfg(test)]
mod tests {
    use maple_wire::packet::membership::Membership;
    use maple_wire::{Dpid, Packet, PortNo};

    use super::*;

    fn at(seconds: u64) -> Time {
        Time(seconds * 1_000_000_000)
    }

    fn port(n: u32) -> Location {
        Location::new(Dpid(1), PortNo(n))
    }

    /// What is asked where at this time.
    fn tick(querier: &mut Querier, now: u64, ports: &[u32], groups: &Groups) -> Vec<(u32, bool, Option<IpAddr>)> {
        let mut out = Vec::new();
        querier.ask_all(at(now), ports.iter().map(|n| port(*n)).collect(), &mut out);
        querier.ask_again(at(now), groups, &mut out);
        out.iter().map(question).collect()
    }

    fn question(effect: &Effect) -> (u32, bool, Option<IpAddr>) {
        let Effect::Send(frame) = effect else { panic!("{effect:?}") };
        let packet = Packet::new(&frame.bytes, 1);
        let (is_v6, asked) = match igmp::read(&packet) {
            Some(asked) => (false, asked),
            None => (true, mld::read(&packet).unwrap()),
        };
        let Membership::Query(group) = asked else { panic!("{asked:?}") };
        (frame.at.port.0, is_v6, group)
    }

    #[test]
    fn all_ports_are_asked_at_intervals_and_new_ones_at_once() {
        let (mut querier, none) = (Querier::new(true, true), Groups::default());
        let both = |n| [(n, false, None), (n, true, None)];
        assert_eq!(tick(&mut querier, 0, &[1], &none), both(1));
        assert_eq!(tick(&mut querier, 1, &[1, 2], &none), both(2));
        assert_eq!(tick(&mut querier, 2, &[2], &none), []);
        assert_eq!(tick(&mut querier, 3, &[1, 2], &none), both(1), "it was down");
        assert_eq!(tick(&mut querier, 124, &[1, 2], &none), []);
        assert_eq!(tick(&mut querier, 125, &[1, 2], &none).len(), 4);
    }

    #[test]
    fn who_has_an_address_goes_first_until_it_falls_silent() {
        let (mut querier, none) = (Querier::new(true, true), Groups::default());
        tick(&mut querier, 0, &[1], &none);
        querier.heard(at(10), [0, 0, 0, 0].into());
        querier.heard(at(10), own_address().into());
        assert_eq!(tick(&mut querier, 125, &[1], &none).len(), 2, "those are like this one");
        querier.heard(at(130), [10, 0, 0, 9].into());
        assert_eq!(tick(&mut querier, 250, &[1, 2], &none), [(1, true, None), (2, true, None)]);
        let mut out = Vec::new();
        querier.last_call(at(260), [239, 1, 1, 1].into(), port(1), &mut out);
        assert!(out.is_empty());
        assert_eq!(tick(&mut querier, 384, &[1, 2], &none).iter().filter(|(_, is_v6, _)| !is_v6).count(), 0);
        assert_eq!(tick(&mut querier, 385, &[1, 2], &none).iter().filter(|(_, is_v6, _)| !is_v6).count(), 2);
    }

    #[test]
    fn about_a_group_that_somebody_leaves_it_asks_twice() {
        let (mut querier, mut groups) = (Querier::new(true, false), Groups::default());
        tick(&mut querier, 0, &[1], &groups);
        let group = IpAddr::from([239, 1, 1, 1]);
        groups.join(at(1), group, port(1)).unwrap();
        groups.leave(at(2), group, port(1));
        let mut out = Vec::new();
        querier.last_call(at(2), group, port(1), &mut out);
        assert_eq!(out.iter().map(question).collect::<Vec<_>>(), [(1, false, Some(group))]);
        assert_eq!(querier.next(), Some(at(3)));
        assert_eq!(tick(&mut querier, 3, &[1], &groups), [(1, false, Some(group))]);
        assert_eq!(tick(&mut querier, 4, &[1], &groups), []);
    }
}
