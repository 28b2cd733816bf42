//! The edge ports with members of multicast groups, from the reports of hosts.
//!
//! A port belongs to a group for [`LIFETIME`] after the last report. When a host leaves, other hosts at the port have
//! [`LEAVE_TIMEOUT`] to report that they stay. Source filters are ignored: a host that wants only some senders of a
//! group belongs to the group.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use maple_core::engine::Time;
use maple_core::snooped::{self, group_key, group_mac};
use maple_core::state::{Stored, Write};
use maple_core::{Location, Mac};
use maple_wire::Dpid;

use super::{Effect, Ignored};
use crate::time::after;

/// How long a report is valid: two query intervals and the response time (RFC 2236 §8.4, RFC 3810 §9.4).
pub const LIFETIME: Duration = Duration::from_secs(260);
/// How long other hosts have to report when one leaves: two group-specific queries (RFC 2236 §8.8, RFC 3810 §9.8).
pub const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// The most groups with members.
pub const MAX_GROUPS: usize = 4096;
/// The most ports of a group.
pub const MAX_MEMBERS: usize = 4096;
/// The most groups of a port.
pub const MAX_PER_PORT: usize = 256;

/// The members of groups.
#[derive(Debug, Default)]
pub struct Groups {
    /// When each membership ends.
    members: BTreeMap<IpAddr, BTreeMap<Location, Time>>,
    /// The same memberships, ordered by end.
    ends: BTreeSet<(Time, IpAddr, Location)>,
    of_port: BTreeMap<Location, BTreeSet<IpAddr>>,
    /// For each MAC address and port, the number of groups with that address that the port belongs to.
    by_mac: BTreeMap<Mac, BTreeMap<Location, usize>>,
    /// Groups that are not written yet.
    changed: BTreeSet<IpAddr>,
}

impl Groups {
    /// A host at this port reported that it belongs to a group.
    pub fn join(&mut self, now: Time, group: IpAddr, at: Location) -> Result<(), Ignored> {
        if !is_routed(group) {
            return Ok(());
        }
        if !self.has(group, at) {
            self.check_capacity(group, at)?;
            self.of_port.entry(at).or_default().insert(group);
            *self.by_mac.entry(group_mac(group)).or_default().entry(at).or_default() += 1;
            self.changed.insert(group);
        }
        self.set_end(group, at, after(now, LIFETIME));
        Ok(())
    }

    /// A host at this port left a group. `true` if the other hosts there should be queried.
    pub fn leave(&mut self, now: Time, group: IpAddr, at: Location) -> bool {
        let end = after(now, LEAVE_TIMEOUT);
        let until = self.members.get(&group).and_then(|members| members.get(&at)).copied();
        let must_query = until.is_some_and(|until| end < until);
        if must_query {
            self.set_end(group, at, end);
        }
        must_query
    }

    /// Whether the port belongs to the group.
    pub fn has(&self, group: IpAddr, at: Location) -> bool {
        self.members.get(&group).is_some_and(|members| members.contains_key(&at))
    }

    /// Forgets the members at a port.
    pub fn forget_port(&mut self, at: Location) {
        for group in self.of_port.get(&at).cloned().unwrap_or_default() {
            self.remove(group, at);
        }
    }

    /// Forgets the members at a switch.
    pub fn forget_switch(&mut self, dpid: Dpid) {
        let ports: Vec<Location> = self.ports().filter(|at| at.switch == dpid).collect();
        ports.into_iter().for_each(|at| self.forget_port(at));
    }

    /// The ports that belong to any group.
    pub fn ports(&self) -> impl Iterator<Item = Location> {
        self.of_port.keys().copied()
    }

    /// Removes memberships that have ended.
    pub fn expire(&mut self, now: Time) {
        while let Some((_, group, at)) = self.ends.first().filter(|(end, ..)| *end <= now).copied() {
            self.remove(group, at);
        }
    }

    /// When the next membership ends.
    pub fn deadline(&self) -> Option<Time> {
        self.ends.first().map(|(end, ..)| *end)
    }

    /// Writes the changes since the last call.
    pub fn write(&mut self, out: &mut Vec<Effect>) {
        let changed = std::mem::take(&mut self.changed);
        let macs: BTreeSet<Mac> = changed.iter().map(|group| group_mac(*group)).collect();
        for group in changed {
            let members = self.members.get(&group).map(|members| members.keys().copied().collect());
            out.push(table_write(snooped::MEMBERS, group_key(group), members));
        }
        for mac in macs {
            let members = self.by_mac.get(&mac).map(|members| members.keys().copied().collect());
            out.push(table_write(snooped::MEMBERS_BY_MAC, mac.into(), members));
        }
    }

    fn check_capacity(&self, group: IpAddr, at: Location) -> Result<(), Ignored> {
        let has_too_many = |count: Option<usize>, most| count.is_some_and(|count| count >= most);
        if has_too_many(self.of_port.get(&at).map(BTreeSet::len), MAX_PER_PORT) {
            return Err(Ignored::GroupsOfPort(at));
        }
        match self.members.get(&group) {
            None if self.members.len() >= MAX_GROUPS => Err(Ignored::Groups),
            Some(members) if members.len() >= MAX_MEMBERS => Err(Ignored::Members),
            _ => Ok(()),
        }
    }

    fn set_end(&mut self, group: IpAddr, at: Location, end: Time) {
        let before = self.members.entry(group).or_default().insert(at, end);
        if let Some(before) = before {
            self.ends.remove(&(before, group, at));
        }
        self.ends.insert((end, group, at));
    }

    fn remove(&mut self, group: IpAddr, at: Location) {
        let Some(end) = take(&mut self.members, &group, &at) else { return };
        self.ends.remove(&(end, group, at));
        if let Some(groups) = self.of_port.get_mut(&at) {
            groups.remove(&group);
            if groups.is_empty() {
                self.of_port.remove(&at);
            }
        }
        let mac = group_mac(group);
        if let Some(count) = self.by_mac.get_mut(&mac).and_then(|ports| ports.get_mut(&at)) {
            *count -= 1;
            if *count == 0 {
                take(&mut self.by_mac, &mac, &at);
            }
        }
        self.changed.insert(group);
    }
}

/// Removes the value at two keys, and the inner map if it becomes empty.
fn take<A: Ord, B: Ord, T>(map: &mut BTreeMap<A, BTreeMap<B, T>>, a: &A, b: &B) -> Option<T> {
    let inner = map.get_mut(a)?;
    let taken = inner.remove(b);
    if inner.is_empty() {
        map.remove(a);
    }
    taken
}

fn table_write(table: &str, key: maple_core::Value, members: Option<Vec<Location>>) -> Effect {
    Effect::Write(Write::Table { table: table.into(), key, value: members.map(|members| members.to_value()) })
}

/// Whether a group's packets may be limited to its members. Packets to link-local groups go to all hosts, because many
/// members never report (RFC 4541 §2.1.2).
pub fn is_routed(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(ip) => ip.is_multicast() && ip.octets()[..3] != [224, 0, 0],
        // The scopes 0 (reserved), 1 (the host itself) and 2 (its link).
        IpAddr::V6(ip) => ip.is_multicast() && ip.octets()[1] & 0xf > 2,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use maple_wire::PortNo;
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn group(n: u16) -> IpAddr {
        let [a, b] = n.to_be_bytes();
        IpAddr::V4(Ipv4Addr::new(239, 0, a, b))
    }

    fn port(n: u32) -> Location {
        Location::new(Dpid(1 + u64::from(n / 8)), PortNo(1 + n % 8))
    }

    fn at(seconds: u64) -> Time {
        Time(seconds * SECOND)
    }

    /// The members of each group and MAC address, as written so far.
    #[derive(Default)]
    struct Written(BTreeMap<(String, String), Vec<Location>>);

    impl Written {
        fn take(&mut self, groups: &mut Groups) -> usize {
            let mut out = Vec::new();
            groups.write(&mut out);
            for effect in &out {
                let Effect::Write(Write::Table { table, key, value }) = effect else { panic!("{effect:?}") };
                let place = (table.to_string(), key.to_string());
                match value {
                    Some(value) => drop(self.0.insert(place, Vec::from_value(value).unwrap())),
                    None => drop(self.0.remove(&place)),
                }
            }
            out.len()
        }

        fn members(&self, group: IpAddr) -> &[Location] {
            self.0.get(&(snooped::MEMBERS.into(), group_key(group).to_string())).map_or(&[], Vec::as_slice)
        }
    }

    #[test]
    fn memberships_last_260_seconds_and_2_after_a_leave() {
        let (mut groups, mut written) = (Groups::default(), Written::default());
        groups.join(at(0), group(1), port(2)).unwrap();
        groups.join(at(0), group(1), port(1)).unwrap();
        assert_eq!(written.take(&mut groups), 2, "the group and its hardware address");
        assert_eq!(written.members(group(1)), [port(1), port(2)]);
        groups.join(at(100), group(1), port(1)).unwrap();
        assert_eq!(written.take(&mut groups), 0, "no news");
        assert_eq!(groups.deadline(), Some(at(260)));
        groups.expire(at(260));
        written.take(&mut groups);
        assert_eq!(written.members(group(1)), [port(1)]);
        assert!(groups.leave(at(270), group(1), port(1)));
        assert!(!groups.leave(at(271), group(1), port(1)), "they were asked already");
        groups.expire(at(271));
        assert!(groups.has(group(1), port(1)));
        groups.expire(at(272));
        written.take(&mut groups);
        assert!(written.0.is_empty() && groups.by_mac.is_empty() && groups.of_port.is_empty());
        assert!(!groups.leave(at(273), group(1), port(1)), "of those who don't belong nobody is asked");
    }

    #[test]
    fn a_host_stays_when_it_reports_in_time_after_another_left() {
        let mut groups = Groups::default();
        groups.join(at(0), group(1), port(1)).unwrap();
        groups.leave(at(10), group(1), port(1));
        groups.join(at(11), group(1), port(1)).unwrap();
        groups.expire(at(200));
        assert!(groups.has(group(1), port(1)));
    }

    #[test]
    fn groups_with_one_mac_address_are_written_together() {
        let (mut groups, mut written) = (Groups::default(), Written::default());
        let twin = IpAddr::V4(Ipv4Addr::new(238, 128, 0, 1));
        assert_eq!(group_mac(twin), group_mac(group(1)));
        for (group, port) in [(group(1), port(1)), (twin, port(1)), (twin, port(2))] {
            groups.join(at(0), group, port).unwrap();
        }
        written.take(&mut groups);
        let by_mac = (snooped::MEMBERS_BY_MAC.to_owned(), group_mac(twin).to_string());
        assert_eq!(written.0[&by_mac], [port(1), port(2)]);
        groups.forget_port(port(2));
        groups.leave(at(1), twin, port(1));
        groups.expire(at(9));
        written.take(&mut groups);
        assert_eq!(written.0[&by_mac], [port(1)], "for the other group");
    }

    #[test]
    fn limits_hold_and_one_port_cannot_exhaust_them() {
        let mut groups = Groups::default();
        for n in 0..MAX_PER_PORT as u16 {
            groups.join(at(0), group(n), port(0)).unwrap();
        }
        assert_eq!(groups.join(at(0), group(9999), port(0)), Err(Ignored::GroupsOfPort(port(0))));
        groups.join(at(1), group(0), port(0)).unwrap();
        for n in MAX_PER_PORT..MAX_GROUPS {
            groups.join(at(0), group(n as u16), port((n / MAX_PER_PORT) as u32)).unwrap();
        }
        assert_eq!(groups.join(at(0), group(9999), port(99)), Err(Ignored::Groups));
        groups.join(at(0), group(1), port(99)).unwrap();
        groups.forget_switch(port(0).switch);
        groups.join(at(0), group(9999), port(99)).unwrap();
        for n in 1..=MAX_MEMBERS as u32 {
            let joined = groups.join(at(0), group(1), port(100 + n));
            assert_eq!(joined.is_ok(), n < MAX_MEMBERS as u32, "{n}");
        }
    }

    #[test]
    fn link_local_groups_are_not_tracked() {
        for (group, routed) in [
            ("224.0.0.251", false),
            ("224.0.1.1", true),
            ("ff02::1:ff00:1", false),
            ("ff05::2", true),
            ("10.0.0.1", false),
        ] {
            let mut groups = Groups::default();
            groups.join(at(0), group.parse().unwrap(), port(1)).unwrap();
            assert_eq!(groups.has(group.parse().unwrap(), port(1)), routed, "{group}");
        }
    }

    #[derive(Clone, Debug)]
    enum Said {
        Joined(u16, u32),
        Left(u16, u32),
        PortDown(u32),
        SwitchDown(u32),
    }

    fn said() -> impl Strategy<Value = Said> {
        let (group, port) = (0..4u16, 0..12u32);
        prop_oneof![
            6 => (group.clone(), port.clone()).prop_map(|(group, port)| Said::Joined(group, port)),
            4 => (group, port.clone()).prop_map(|(group, port)| Said::Left(group, port)),
            1 => port.clone().prop_map(Said::PortDown),
            1 => port.prop_map(Said::SwitchDown),
        ]
    }

    /// Whether a port belongs to a group, according to a list of all messages: the oracle.
    fn belongs(said: &[(u64, Said)], now: u64, of: u16, behind: u32) -> bool {
        let mut until = 0;
        for (when, what) in said {
            let is_over = until <= *when;
            match what {
                Said::Joined(g, p) if (*g, *p) == (of, behind) => until = when + 260,
                Said::Left(g, p) if (*g, *p) == (of, behind) && !is_over => until = until.min(when + 2),
                Said::PortDown(p) if *p == behind => until = 0,
                Said::SwitchDown(p) if port(*p).switch == port(behind).switch => until = 0,
                _ => {}
            }
        }
        now < until
    }

    proptest! {
        #[test]
        fn members_agree_with_a_list_of_all_reports(
            steps in prop::collection::vec((prop_oneof![Just(0u64), 0..4u64, 0..300u64], said()), 1..60)
        ) {
            let (mut groups, mut written) = (Groups::default(), Written::default());
            let (mut now, mut list) = (1, Vec::new());
            for (pause, what) in steps {
                now += pause;
                groups.expire(at(now));
                match what {
                    Said::Joined(g, p) => groups.join(at(now), group(g), port(p)).unwrap(),
                    Said::Left(g, p) => drop(groups.leave(at(now), group(g), port(p))),
                    Said::PortDown(p) => groups.forget_port(port(p)),
                    Said::SwitchDown(p) => groups.forget_switch(port(p).switch),
                }
                list.push((now, what));
                written.take(&mut groups);
                for g in 0..4 {
                    let wanted: Vec<Location> =
                        (0..12).filter(|p| belongs(&list, now, g, *p)).map(port).collect();
                    prop_assert_eq!(written.members(group(g)), &wanted);
                }
            }
            prop_assert_eq!(groups.ends.len(), groups.members.values().map(BTreeMap::len).sum::<usize>());
            groups.expire(at(now + 260));
            prop_assert!(groups.members.is_empty() && groups.of_port.is_empty() && groups.by_mac.is_empty());
        }
    }
}
