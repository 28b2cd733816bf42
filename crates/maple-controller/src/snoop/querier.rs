//! A querier of IGMP and MLD, for networks without a multicast router. Without queries hosts report a group only once.
//!
//! Another querier takes precedence (RFC 2236 §3, RFC 3810 §7.6.2: the lowest address wins; this querier has no IPv4
//! address, and an IPv6 address that no router has). While another one is active, this one sends nothing.

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use maple_core::Location;
use maple_core::engine::Time;
use maple_core::network::OwnFrame;
use maple_wire::packet::{igmp, mld};

use super::SnoopEffect;
use super::groups::Groups;
use crate::time::after;

/// The interval between general queries (RFC 2236 §8.2).
pub const INTERVAL: Duration = Duration::from_secs(125);
/// The time for which another querier counts as active: two query intervals and half the response time (RFC 2236 §8.5).
pub const OTHER_QUERIER_TIMEOUT: Duration = Duration::from_secs(255);
/// The response time of a group-specific query, and the time until it is repeated (RFC 2236 §8.8).
pub const LAST_MEMBER: Duration = Duration::from_secs(1);
/// The maximum number of queries that wait to be repeated, as hosts can leave any number of groups. Further ones are
/// sent once. Chosen: as many as there may be groups.
const MAX_RETRIES: usize = 4096;
/// The response time of a general query, in tenths of a second (RFC 2236 §8.3).
const RESPONSE: u8 = 100;
/// The response time at a port that came up, whose members are unknown, and of a group-specific query, in tenths of a
/// second (RFC 2236 §8.8).
const FAST_RESPONSE: u8 = 10;

/// The source MAC address of queries. It is locally administered: the bit 0x02 of its first byte is set, and the others
/// are the name.
pub const MAC: [u8; 6] = [0x02, b'M', b'A', b'P', b'L', b'E'];

/// The state of the querier for both protocols.
#[derive(Debug)]
pub struct Querier {
    protocols: Vec<ProtocolState>,
    /// The ports that were queried since they came up.
    queried: BTreeSet<Location>,
    /// Group-specific queries to repeat, because one may be lost.
    retries: VecDeque<(Time, IpAddr, Location)>,
}

#[derive(Debug)]
struct ProtocolState {
    is_v6: bool,
    /// The time until which another querier counts as active.
    other_until: Time,
    next: Time,
}

impl Querier {
    /// Creates a querier for IGMP, MLD, or both.
    pub fn new(igmp: bool, mld: bool) -> Querier {
        let protocol = |is_v6| ProtocolState { is_v6, other_until: Time(0), next: Time(0) };
        let protocols = [(igmp, false), (mld, true)].into_iter().filter(|(on, _)| *on);
        Querier {
            protocols: protocols.map(|(_, is_v6)| protocol(is_v6)).collect(),
            queried: BTreeSet::new(),
            retries: VecDeque::new(),
        }
    }

    /// Notes a query that another querier sent.
    pub fn other_querier(&mut self, now: Time, from: IpAddr) {
        let is_other = match from {
            IpAddr::V4(ip) => !ip.is_unspecified(),
            IpAddr::V6(ip) => ip != own_address(),
        };
        let same = |protocol: &&mut ProtocolState| protocol.is_v6 == from.is_ipv6();
        if is_other && let Some(protocol) = self.protocols.iter_mut().find(same) {
            protocol.other_until = after(now, OTHER_QUERIER_TIMEOUT);
            // If the other querier falls silent, a general query follows.
            protocol.next = protocol.other_until;
        }
    }

    /// Queries whether other hosts at the port are members of a group that a host left.
    pub fn query_group(&mut self, now: Time, group: IpAddr, at: Location, out: &mut Vec<SnoopEffect>) {
        if self.is_active(now, group.is_ipv6()) {
            out.push(query(at, group.is_ipv6(), Some(group), FAST_RESPONSE));
            if self.retries.len() < MAX_RETRIES {
                self.retries.push_back((after(now, LAST_MEMBER), group, at));
            }
        }
    }

    /// Sends general queries to edge ports: to all if that is due, else to those that came up.
    pub fn query_all(&mut self, now: Time, ports: BTreeSet<Location>, out: &mut Vec<SnoopEffect>) {
        for protocol in &mut self.protocols {
            let all = protocol.next <= now;
            if all {
                protocol.next = after(now, INTERVAL);
            }
            let is_active = protocol.other_until <= now;
            for at in ports.iter().filter(|at| is_active && (all || !self.queried.contains(at))) {
                let response = if self.queried.contains(at) { RESPONSE } else { FAST_RESPONSE };
                out.push(query(*at, protocol.is_v6, None, response));
            }
        }
        self.queried = ports;
    }

    /// Repeats the group-specific queries that are due, if the group still has members there.
    pub fn retry(&mut self, now: Time, groups: &Groups, out: &mut Vec<SnoopEffect>) {
        while let Some((_, group, at)) = self.retries.front().filter(|(when, ..)| *when <= now).copied() {
            self.retries.pop_front();
            if groups.has(group, at) && self.is_active(now, group.is_ipv6()) {
                out.push(query(at, group.is_ipv6(), Some(group), FAST_RESPONSE));
            }
        }
    }

    /// Returns when the next query is to be repeated.
    pub fn deadline(&self) -> Option<Time> {
        self.retries.front().map(|(when, ..)| *when)
    }

    fn is_active(&self, now: Time, is_v6: bool) -> bool {
        self.protocols.iter().any(|protocol| protocol.is_v6 == is_v6 && protocol.other_until <= now)
    }
}

fn own_address() -> Ipv6Addr {
    mld::link_local(MAC)
}

fn query(at: Location, is_v6: bool, group: Option<IpAddr>, tenths: u8) -> SnoopEffect {
    let bytes = match group {
        Some(IpAddr::V4(group)) => igmp::query(MAC, Some(group), tenths),
        Some(IpAddr::V6(group)) => mld::query(MAC, Some(group), u16::from(tenths) * 100),
        None if is_v6 => mld::query(MAC, None, u16::from(tenths) * 100),
        None => igmp::query(MAC, None, tenths),
    };
    SnoopEffect::Send(OwnFrame { at, bytes: bytes.into() })
}

#[cfg(test)]
mod tests {
    use maple_wire::packet::membership::{Membership, Sources};
    use maple_wire::{Dpid, Packet, PortNo};

    use super::*;

    fn at(seconds: u64) -> Time {
        Time(seconds * 1_000_000_000)
    }

    fn port(n: u32) -> Location {
        Location::new(Dpid(1), PortNo(n))
    }

    /// Returns the queries that are sent at this time.
    fn tick(querier: &mut Querier, now: u64, ports: &[u32], groups: &Groups) -> Vec<(u32, bool, Option<IpAddr>)> {
        let mut out = Vec::new();
        querier.query_all(at(now), ports.iter().map(|n| port(*n)).collect(), &mut out);
        querier.retry(at(now), groups, &mut out);
        out.iter().map(question).collect()
    }

    fn question(effect: &SnoopEffect) -> (u32, bool, Option<IpAddr>) {
        let SnoopEffect::Send(frame) = effect else { panic!("{effect:?}") };
        let packet = Packet::new(&frame.bytes, 1);
        let (is_v6, asked) = match igmp::read(&packet) {
            Some(asked) => (false, asked),
            None => (true, mld::read(&packet).unwrap()),
        };
        let Membership::Query(group) = asked else { panic!("{asked:?}") };
        (frame.at.port.0, is_v6, group)
    }

    #[test]
    fn all_ports_are_queried_at_intervals_and_new_ones_at_once() {
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
    fn another_querier_takes_precedence_until_it_falls_silent() {
        let (mut querier, none) = (Querier::new(true, true), Groups::default());
        tick(&mut querier, 0, &[1], &none);
        querier.other_querier(at(10), [0, 0, 0, 0].into());
        querier.other_querier(at(10), own_address().into());
        assert_eq!(tick(&mut querier, 125, &[1], &none).len(), 2, "those are like this one");
        querier.other_querier(at(130), [10, 0, 0, 9].into());
        assert_eq!(tick(&mut querier, 250, &[1, 2], &none), [(1, true, None), (2, true, None)]);
        let mut out = Vec::new();
        querier.query_group(at(260), [239, 1, 1, 1].into(), port(1), &mut out);
        assert!(out.is_empty());
        assert_eq!(tick(&mut querier, 384, &[1, 2], &none).iter().filter(|(_, is_v6, _)| !is_v6).count(), 0);
        assert_eq!(tick(&mut querier, 385, &[1, 2], &none).iter().filter(|(_, is_v6, _)| !is_v6).count(), 2);
    }

    #[test]
    fn about_a_group_that_somebody_leaves_it_asks_twice() {
        let (mut querier, mut groups) = (Querier::new(true, false), Groups::default());
        tick(&mut querier, 0, &[1], &groups);
        let group = IpAddr::from([239, 1, 1, 1]);
        groups.report(at(1), group, port(1), &Sources::All).unwrap();
        groups.report(at(2), group, port(1), &Sources::Only(Vec::new())).unwrap();
        let mut out = Vec::new();
        querier.query_group(at(2), group, port(1), &mut out);
        assert_eq!(out.iter().map(question).collect::<Vec<_>>(), [(1, false, Some(group))]);
        assert_eq!(querier.deadline(), Some(at(3)));
        assert_eq!(tick(&mut querier, 3, &[1], &groups), [(1, false, Some(group))]);
        assert_eq!(tick(&mut querier, 4, &[1], &groups), []);
    }
}
