//! The edge ports with members of multicast groups, from the reports of hosts.
//!
//! A port belongs to a group for [`LIFETIME`] after the last report. When a host leaves, other hosts at the port have
//! [`LEAVE_TIMEOUT`] to report that they stay. A host that wants only some senders of a group belongs to the group.
//! Which ones it wants is kept to know when it blocks the last one, which ends the membership like a leave (RFC 3376
//! §6.4.2); packets are not filtered by it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use maple_core::engine::Time;
use maple_core::snooping::{self, group_key, group_mac};
use maple_core::state::{Stored, Write};
use maple_core::{Location, Mac};
use maple_wire::Dpid;
use maple_wire::packet::membership::Sources;

use super::{IgnoreReason, SnoopEffect};
use crate::time::after;

/// The time for which a report is valid: two query intervals and the response time (RFC 2236 §8.4, RFC 3810 §9.4).
pub const LIFETIME: Duration = Duration::from_secs(260);
/// The time that other hosts have to report when one leaves: two group-specific queries (RFC 2236 §8.8, RFC 3810 §9.8).
pub const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// The maximum number of groups with members: hosts can report any number of groups. Chosen: the groups of sixteen
/// ports that each have as many as they may.
pub const MAX_GROUPS: usize = 4096;
/// The maximum number of ports of a group. Chosen: more edge ports than most networks have, and a bound on a row of the
/// table.
pub const MAX_MEMBERS: usize = 4096;
/// The maximum number of groups of a port, so that one port cannot take the places of all others. Chosen: more channels
/// than a household or a rack watches.
pub const MAX_PER_PORT: usize = 256;

/// The maximum number of senders of a group that are distinguished at a port. A port that wants more counts as one that
/// wants all. Chosen: groups with one known sender each (RFC 4607) need one.
pub const MAX_SOURCES: usize = 32;

/// The senders of a group that a port wants, and until when.
#[derive(Debug, Default)]
struct WantedSenders {
    /// The time until which the port wants all senders, or more than are distinguished.
    all: Option<Time>,
    /// The time until which the port wants each of these senders.
    sources: BTreeMap<IpAddr, Time>,
    /// The end under which the membership is listed in [`Groups::ends`].
    end: Option<Time>,
}

impl WantedSenders {
    /// Returns when the port stops wanting anything; `None` if it wants nothing.
    fn last(&self) -> Option<Time> {
        self.sources.values().copied().chain(self.all).max()
    }

    /// Adds what is wanted until `end`.
    fn add(&mut self, now: Time, end: Time, sources: Option<&[IpAddr]>) {
        let Some(sources) = sources else {
            self.all = Some(end);
            return;
        };
        self.sources.retain(|_, until| now < *until);
        for source in sources {
            if self.sources.len() < MAX_SOURCES || self.sources.contains_key(source) {
                self.sources.insert(*source, end);
            } else {
                self.all = Some(end);
            }
        }
    }

    /// Brings the end of what fits forward to `end`, if it would last longer.
    fn end_by(&mut self, end: Time, all: bool, ends: impl Fn(&IpAddr) -> bool) {
        if all {
            self.all = self.all.map(|until| until.min(end));
        }
        let wanted = self.sources.iter_mut().filter(|(source, _)| ends(source));
        wanted.for_each(|(_, until)| *until = (*until).min(end));
    }
}

/// The ports that belong to multicast groups.
#[derive(Debug, Default)]
pub struct Groups {
    members: BTreeMap<IpAddr, BTreeMap<Location, WantedSenders>>,
    /// All memberships, ordered by end.
    ends: BTreeSet<(Time, IpAddr, Location)>,
    of_port: BTreeMap<Location, BTreeSet<IpAddr>>,
    /// The number of groups with each MAC address that each port belongs to.
    by_mac: BTreeMap<Mac, BTreeMap<Location, usize>>,
    /// Groups whose changes are not written yet.
    changed: BTreeSet<IpAddr>,
}

impl Groups {
    /// Notes which senders of a group a host at this port wants. Returns `true` if the other hosts there should be
    /// queried.
    ///
    /// # Errors
    /// [`IgnoreReason`] if a bound of groups or members is reached.
    pub fn report(&mut self, now: Time, group: IpAddr, at: Location, wants: &Sources) -> Result<bool, IgnoreReason> {
        match wants {
            Sources::All => self.join(now, group, at, None).map(|()| false),
            Sources::Also(sources) if sources.is_empty() => Ok(false),
            Sources::Also(sources) => self.join(now, group, at, Some(sources)).map(|()| false),
            Sources::Only(sources) => {
                let must_query = self.end_by(now, group, at, true, |source| !sources.contains(source));
                if !sources.is_empty() {
                    self.join(now, group, at, Some(sources))?;
                }
                Ok(must_query)
            }
            Sources::Not(sources) => Ok(self.end_by(now, group, at, false, |source| sources.contains(source))),
        }
    }

    /// Adds a port to a group, for these senders or, if `None`, for all.
    fn join(&mut self, now: Time, group: IpAddr, at: Location, sources: Option<&[IpAddr]>) -> Result<(), IgnoreReason> {
        if !is_routed(group) {
            return Ok(());
        }
        if !self.has(group, at) {
            self.check_capacity(group, at)?;
            self.of_port.entry(at).or_default().insert(group);
            *self.by_mac.entry(group_mac(group)).or_default().entry(at).or_default() += 1;
            self.changed.insert(group);
        }
        let wanted = self.members.entry(group).or_default().entry(at).or_default();
        wanted.add(now, after(now, LIFETIME), sources);
        self.note_end(group, at);
        Ok(())
    }

    /// Ends a port's wish for the senders that fit, and if `all` its wish for all senders, after [`LEAVE_TIMEOUT`].
    /// Returns `true` if other hosts there may still want them, so that they should be queried.
    fn end_by(&mut self, now: Time, group: IpAddr, at: Location, all: bool, ends: impl Fn(&IpAddr) -> bool) -> bool {
        let end = after(now, LEAVE_TIMEOUT);
        let Some(wanted) = self.members.get_mut(&group).and_then(|members| members.get_mut(&at)) else { return false };
        let is_later = |until: &Time| end < *until;
        let must_query = all && wanted.all.as_ref().is_some_and(is_later)
            || wanted.sources.iter().any(|(source, until)| is_later(until) && ends(source));
        wanted.end_by(end, all, ends);
        self.note_end(group, at);
        must_query
    }

    /// Reports whether the port belongs to the group.
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

    /// Returns the ports that belong to any group.
    pub fn ports(&self) -> impl Iterator<Item = Location> {
        self.of_port.keys().copied()
    }

    /// Removes memberships that have ended.
    pub fn expire(&mut self, now: Time) {
        while let Some((_, group, at)) = self.ends.first().filter(|(end, ..)| *end <= now).copied() {
            self.remove(group, at);
        }
    }

    /// Returns when the next membership ends.
    pub fn deadline(&self) -> Option<Time> {
        self.ends.first().map(|(end, ..)| *end)
    }

    /// Writes the changes since the last call.
    pub fn write(&mut self, out: &mut Vec<SnoopEffect>) {
        let changed = std::mem::take(&mut self.changed);
        let macs: BTreeSet<Mac> = changed.iter().map(|group| group_mac(*group)).collect();
        for group in changed {
            let members = self.members.get(&group).map(|members| members.keys().copied().collect());
            out.push(table_write(snooping::MEMBERS, group_key(group), members));
        }
        for mac in macs {
            let members = self.by_mac.get(&mac).map(|members| members.keys().copied().collect());
            out.push(table_write(snooping::MEMBERS_BY_MAC, mac.into(), members));
        }
    }

    fn check_capacity(&self, group: IpAddr, at: Location) -> Result<(), IgnoreReason> {
        let has_too_many = |count: Option<usize>, most| count.is_some_and(|count| count >= most);
        if has_too_many(self.of_port.get(&at).map(BTreeSet::len), MAX_PER_PORT) {
            return Err(IgnoreReason::GroupsOfPort(at));
        }
        match self.members.get(&group) {
            None if self.members.len() >= MAX_GROUPS => Err(IgnoreReason::Groups),
            Some(members) if members.len() >= MAX_MEMBERS => Err(IgnoreReason::Members),
            _ => Ok(()),
        }
    }

    /// Lists a membership under the time at which it ends.
    fn note_end(&mut self, group: IpAddr, at: Location) {
        let Some(wanted) = self.members.get_mut(&group).and_then(|members| members.get_mut(&at)) else { return };
        let last = wanted.last();
        let before = std::mem::replace(&mut wanted.end, last);
        if let Some(end) = before {
            self.ends.remove(&(end, group, at));
        }
        self.ends.extend(wanted.end.map(|end| (end, group, at)));
    }

    fn remove(&mut self, group: IpAddr, at: Location) {
        let Some(wanted) = take(&mut self.members, &group, &at) else { return };
        if let Some(end) = wanted.end {
            self.ends.remove(&(end, group, at));
        }
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

fn table_write(table: &str, key: maple_core::Value, members: Option<Vec<Location>>) -> SnoopEffect {
    SnoopEffect::Write(Write::Table { table: table.into(), key, value: members.map(|members| members.to_value()) })
}

/// Reports whether a group's packets may be limited to its members. Packets to link-local groups go to all hosts,
/// because many members never report (RFC 4541 §2.1.2).
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
    const ALL: Sources = Sources::All;
    const NONE: Sources = Sources::Only(Vec::new());

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
                let SnoopEffect::Write(Write::Table { table, key, value }) = effect else { panic!("{effect:?}") };
                let place = (table.to_string(), key.to_string());
                match value {
                    Some(value) => drop(self.0.insert(place, Vec::from_value(value).unwrap())),
                    None => drop(self.0.remove(&place)),
                }
            }
            out.len()
        }

        fn members(&self, group: IpAddr) -> &[Location] {
            self.0.get(&(snooping::MEMBERS.into(), group_key(group).to_string())).map_or(&[], Vec::as_slice)
        }
    }

    #[test]
    fn memberships_last_260_seconds_and_2_after_a_leave() {
        let (mut groups, mut written) = (Groups::default(), Written::default());
        groups.report(at(0), group(1), port(2), &ALL).unwrap();
        groups.report(at(0), group(1), port(1), &ALL).unwrap();
        assert_eq!(written.take(&mut groups), 2, "the group and its hardware address");
        assert_eq!(written.members(group(1)), [port(1), port(2)]);
        groups.report(at(100), group(1), port(1), &ALL).unwrap();
        assert_eq!(written.take(&mut groups), 0, "no news");
        assert_eq!(groups.deadline(), Some(at(260)));
        groups.expire(at(260));
        written.take(&mut groups);
        assert_eq!(written.members(group(1)), [port(1)]);
        assert!(groups.report(at(270), group(1), port(1), &NONE).unwrap());
        assert!(!groups.report(at(271), group(1), port(1), &NONE).unwrap(), "they were asked already");
        groups.expire(at(271));
        assert!(groups.has(group(1), port(1)));
        groups.expire(at(272));
        written.take(&mut groups);
        assert!(written.0.is_empty() && groups.by_mac.is_empty() && groups.of_port.is_empty());
        assert!(
            !groups.report(at(273), group(1), port(1), &NONE).unwrap(),
            "of those who don't belong nobody is asked"
        );
    }

    #[test]
    fn a_host_stays_when_it_reports_in_time_after_another_left() {
        let mut groups = Groups::default();
        groups.report(at(0), group(1), port(1), &ALL).unwrap();
        groups.report(at(10), group(1), port(1), &NONE).unwrap();
        groups.report(at(11), group(1), port(1), &ALL).unwrap();
        groups.expire(at(200));
        assert!(groups.has(group(1), port(1)));
    }

    #[test]
    fn groups_with_one_mac_address_are_written_together() {
        let (mut groups, mut written) = (Groups::default(), Written::default());
        let twin = IpAddr::V4(Ipv4Addr::new(238, 128, 0, 1));
        assert_eq!(group_mac(twin), group_mac(group(1)));
        for (group, port) in [(group(1), port(1)), (twin, port(1)), (twin, port(2))] {
            groups.report(at(0), group, port, &ALL).unwrap();
        }
        written.take(&mut groups);
        let by_mac = (snooping::MEMBERS_BY_MAC.to_owned(), group_mac(twin).to_string());
        assert_eq!(written.0[&by_mac], [port(1), port(2)]);
        groups.forget_port(port(2));
        groups.report(at(1), twin, port(1), &NONE).unwrap();
        groups.expire(at(9));
        written.take(&mut groups);
        assert_eq!(written.0[&by_mac], [port(1)], "for the other group");
    }

    #[test]
    fn limits_hold_and_one_port_cannot_exhaust_them() {
        let mut groups = Groups::default();
        for n in 0..MAX_PER_PORT as u16 {
            groups.report(at(0), group(n), port(0), &ALL).unwrap();
        }
        assert_eq!(groups.report(at(0), group(9999), port(0), &ALL), Err(IgnoreReason::GroupsOfPort(port(0))));
        groups.report(at(1), group(0), port(0), &ALL).unwrap();
        for n in MAX_PER_PORT..MAX_GROUPS {
            groups.report(at(0), group(n as u16), port((n / MAX_PER_PORT) as u32), &ALL).unwrap();
        }
        assert_eq!(groups.report(at(0), group(9999), port(99), &ALL), Err(IgnoreReason::Groups));
        groups.report(at(0), group(1), port(99), &ALL).unwrap();
        groups.forget_switch(port(0).switch);
        groups.report(at(0), group(9999), port(99), &ALL).unwrap();
        for n in 1..=MAX_MEMBERS as u32 {
            let joined = groups.report(at(0), group(1), port(100 + n), &ALL);
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
            groups.report(at(0), group.parse().unwrap(), port(1), &ALL).unwrap();
            assert_eq!(groups.has(group.parse().unwrap(), port(1)), routed, "{group}");
        }
    }

    fn sources(numbers: impl IntoIterator<Item = u8>) -> Vec<IpAddr> {
        numbers.into_iter().map(|n| IpAddr::V4(Ipv4Addr::new(10, 0, 0, n))).collect()
    }

    #[test]
    fn a_host_that_blocks_its_last_sender_has_left() {
        let mut groups = Groups::default();
        let mut say = |seconds, wants: Sources| {
            groups.expire(at(seconds));
            let must_query = groups.report(at(seconds), group(1), port(1), &wants).unwrap();
            (must_query, groups.deadline())
        };
        let lasts = |from: u64| Some(at(from + 260));
        assert_eq!(say(0, Sources::Also(sources([1, 2]))), (false, lasts(0)));
        assert_eq!(say(10, Sources::Not(sources([2]))), (true, lasts(0)), "another one is left");
        assert_eq!(say(20, Sources::Not(sources([3]))), (false, lasts(0)), "nobody wanted that one");
        assert_eq!(say(30, Sources::Not(sources([1, 2]))), (true, Some(at(32))));
        assert_eq!(say(31, Sources::Also(sources([1]))), (false, lasts(31)), "another host still wants it");
        assert_eq!(say(40, Sources::All), (false, lasts(40)));
        assert_eq!(say(50, Sources::Not(sources([1]))), (true, lasts(40)), "all but one are many");
        assert_eq!(say(60, Sources::Only(sources([4]))), (true, lasts(60)), "no longer all");
        assert_eq!(say(70, Sources::Not(sources([4]))), (true, Some(at(72))));
        groups.expire(at(72));
        assert!(!groups.has(group(1), port(1)) && groups.members.is_empty() && groups.ends.is_empty());
    }

    #[test]
    fn a_port_with_very_many_senders_counts_as_one_that_wants_all() {
        let mut groups = Groups::default();
        let many = sources(0..=MAX_SOURCES as u8);
        groups.report(at(0), group(1), port(1), &Sources::Also(many.clone())).unwrap();
        groups.report(at(1), group(1), port(1), &Sources::Not(many)).unwrap();
        assert_eq!(groups.deadline(), Some(at(260)), "some of them may not be known, so nothing ends early");
        let known = groups.members.values().flat_map(BTreeMap::values).map(|wanted| wanted.sources.len());
        assert_eq!(known.sum::<usize>(), MAX_SOURCES);
    }

    #[derive(Clone, Debug)]
    enum Said {
        Wants(u16, u32, Sources),
        PortDown(u32),
        SwitchDown(u32),
    }

    fn said() -> impl Strategy<Value = Said> {
        let (group, port) = (0..3u16, 0..10u32);
        let some = || prop::collection::vec(0..3u8, 0..3).prop_map(sources);
        let wants = prop_oneof![
            3 => Just(ALL),
            3 => Just(NONE),
            4 => some().prop_map(Sources::Only),
            6 => some().prop_map(Sources::Also),
            6 => some().prop_map(Sources::Not),
        ];
        prop_oneof![
            10 => (group, port.clone(), wants).prop_map(|(group, port, wants)| Said::Wants(group, port, wants)),
            1 => port.clone().prop_map(Said::PortDown),
            1 => port.prop_map(Said::SwitchDown),
        ]
    }

    /// Returns until when a port belongs to a group because of one sender, or of the wish for all (`None`), according
    /// to a list of all messages.
    fn until(said: &[(u64, Said)], of: u16, behind: u32, sender: Option<IpAddr>) -> u64 {
        let mut until = 0;
        for (when, what) in said {
            let named = |all: &[IpAddr]| sender.is_some_and(|sender| all.contains(&sender));
            let (begins, ends) = match what {
                Said::PortDown(p) if *p == behind => {
                    until = 0;
                    continue;
                }
                Said::SwitchDown(p) if port(*p).switch == port(behind).switch => {
                    until = 0;
                    continue;
                }
                Said::Wants(g, p, wants) if (*g, *p) == (of, behind) => match wants {
                    Sources::All => (sender.is_none(), false),
                    Sources::Only(all) => (named(all), !named(all)),
                    Sources::Also(all) => (named(all), false),
                    Sources::Not(all) => (false, named(all)),
                },
                _ => continue,
            };
            if begins {
                until = when + 260;
            } else if ends {
                until = until.min(when + 2);
            }
        }
        until
    }

    /// Reports whether a port belongs to a group, according to a list of all messages: the oracle.
    fn belongs(said: &[(u64, Said)], now: u64, of: u16, behind: u32) -> bool {
        let senders = sources(0..3).into_iter().map(Some).chain([None]);
        senders.into_iter().any(|sender| now < until(said, of, behind, sender))
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
                    Said::Wants(g, p, ref wants) => drop(groups.report(at(now), group(g), port(p), wants).unwrap()),
                    Said::PortDown(p) => groups.forget_port(port(p)),
                    Said::SwitchDown(p) => groups.forget_switch(port(p).switch),
                }
                list.push((now, what));
                written.take(&mut groups);
                for g in 0..3 {
                    let wanted: Vec<Location> =
                        (0..10).filter(|p| belongs(&list, now, g, *p)).map(port).collect();
                    prop_assert_eq!(written.members(group(g)), &wanted);
                }
            }
            prop_assert_eq!(groups.ends.len(), groups.members.values().map(BTreeMap::len).sum::<usize>());
            groups.expire(at(now + 260));
            prop_assert!(groups.members.is_empty() && groups.of_port.is_empty() && groups.by_mac.is_empty());
        }
    }
}
