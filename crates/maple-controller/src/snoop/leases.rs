//! Which addresses DHCP has given to whom, by what servers acknowledge.
//!
//! Only what comes from a port where a server may be counts; else any host could say what another one's address is. A
//! client is where it asked from: the first to send a request of this hardware address and number. A lease ends when it
//! is given back or refused from there, or when its time is over; a port that goes down does not end it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use maple_core::engine::Time;
use maple_core::snooped::{self, Lease};
use maple_core::state::{Stored, Write};
use maple_core::{Location, Mac};
use maple_wire::packet::dhcp::{Dhcp, Kind};

use super::{Effect, Ignored};
use crate::time::after;

/// The most leases.
pub const MOST_LEASES: usize = 65_536;
/// The most leases of a port.
pub const MOST_OF_PORT: usize = 1024;
/// The most requests of a port that wait for an answer; more, and the oldest is forgotten.
pub const MOST_ASKED: usize = 256;
/// How long a request waits for its answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Leases, and requests that may become some.
#[derive(Debug, Default)]
pub struct Leases {
    /// Unix time when the clock of [`Time`] began.
    epoch: Duration,
    leases: BTreeMap<Ipv4Addr, Binding>,
    /// The addresses of a host, the newest last.
    of_mac: BTreeMap<Mac, Vec<Ipv4Addr>>,
    of_port: BTreeMap<Location, usize>,
    /// What ends, what ends first first.
    ends: BTreeSet<(Time, Ipv4Addr)>,
    asked: BTreeMap<(Mac, u32), (Time, Location)>,
    /// The same by port, the oldest first.
    asked_from: BTreeMap<Location, BTreeSet<(Time, Mac, u32)>>,
    changed: BTreeSet<Ipv4Addr>,
    changed_macs: BTreeSet<Mac>,
}

#[derive(Clone, Copy, Debug)]
struct Binding {
    mac: Mac,
    at: Location,
    /// `None`: never.
    end: Option<Time>,
}

impl Leases {
    /// None yet, where the clock of [`Time`] began so long after 1970; but those that a store has kept.
    pub fn new(epoch: Duration, kept: impl IntoIterator<Item = Lease>) -> Leases {
        let mut leases = Leases { epoch, ..Leases::default() };
        for Lease { mac, ip, location: at, ends } in kept {
            let end = ends.map(|ends| after(Time(0), Duration::from_secs(ends).saturating_sub(epoch)));
            leases.put(ip, Binding { mac, at, end });
        }
        leases
    }

    /// A client says something from a port; `src` is its frame's source.
    pub fn hear_client(&mut self, now: Time, src: Mac, message: &Dhcp, at: Location) {
        let mac = Mac(message.chaddr);
        // A relay's copy comes from elsewhere, and in the relay's name.
        if src != mac {
            return;
        }
        match message.kind {
            Kind::Discover | Kind::Request => self.ask(now, mac, message.xid, at),
            Kind::Release => self.give_back(message.ciaddr, mac, at),
            Kind::Decline => self.give_back(message.requested.unwrap_or(message.ciaddr), mac, at),
            _ => {}
        }
    }

    /// A server says something, from a port where one may be.
    pub fn hear_server(&mut self, now: Time, message: &Dhcp) -> Result<(), Ignored> {
        let (mac, ip) = (Mac(message.chaddr), message.yiaddr);
        let asked = match message.kind {
            Kind::Ack | Kind::Nak => self.answered(mac, message.xid),
            _ => None,
        };
        let (Kind::Ack, Some(seconds), false) = (message.kind, message.lease, ip.is_unspecified()) else {
            return Ok(());
        };
        let known = self.leases.get(&ip).copied().filter(|lease| lease.mac == mac);
        // Who renews where Maple did not hear it stays where it was.
        let Some(at) = asked.or(known.map(|lease| lease.at)) else { return Ok(()) };
        self.room_for(ip, at)?;
        let end = (seconds != u32::MAX).then(|| after(now, Duration::from_secs(seconds.into())));
        self.put(ip, Binding { mac, at, end });
        Ok(())
    }

    /// Forgets what has ended.
    pub fn expire(&mut self, now: Time) {
        while let Some((_, ip)) = self.ends.first().filter(|(end, _)| *end <= now).copied() {
            self.remove(ip);
        }
    }

    /// When the next lease ends.
    pub fn next(&self) -> Option<Time> {
        self.ends.first().map(|(end, _)| *end)
    }

    /// Writes what has changed since the last time.
    pub fn write(&mut self, out: &mut Vec<Effect>) {
        for ip in std::mem::take(&mut self.changed) {
            out.push(put(snooped::LEASES, ip.into(), self.lease(ip)));
        }
        for mac in std::mem::take(&mut self.changed_macs) {
            let newest = self.of_mac.get(&mac).and_then(|all| all.last());
            out.push(put(snooped::LEASES_BY_MAC, mac.into(), newest.and_then(|ip| self.lease(*ip))));
        }
    }

    fn lease(&self, ip: Ipv4Addr) -> Option<Lease> {
        let Binding { mac, at, end } = *self.leases.get(&ip)?;
        let ends = end.map(|end| (self.epoch + Duration::from_nanos(end.0)).as_secs());
        Some(Lease { mac, ip, location: at, ends })
    }

    fn ask(&mut self, now: Time, mac: Mac, xid: u32, at: Location) {
        if let Some((when, from)) = self.asked.get(&(mac, xid)).copied() {
            // Somebody elsewhere says the same: the first one counts, as others may have read the number.
            if from != at && now < after(when, PATIENCE) {
                return;
            }
            self.answered(mac, xid);
        }
        let waiting = self.asked_from.entry(at).or_default();
        if waiting.len() >= MOST_ASKED
            && let Some((_, mac, xid)) = waiting.pop_first()
        {
            self.asked.remove(&(mac, xid));
        }
        waiting.insert((now, mac, xid));
        self.asked.insert((mac, xid), (now, at));
    }

    /// Where this was asked, which is forgotten.
    fn answered(&mut self, mac: Mac, xid: u32) -> Option<Location> {
        let (when, at) = self.asked.remove(&(mac, xid))?;
        if let Some(waiting) = self.asked_from.get_mut(&at) {
            waiting.remove(&(when, mac, xid));
            if waiting.is_empty() {
                self.asked_from.remove(&at);
            }
        }
        Some(at)
    }

    fn give_back(&mut self, ip: Ipv4Addr, mac: Mac, at: Location) {
        if self.leases.get(&ip).is_some_and(|lease| (lease.mac, lease.at) == (mac, at)) {
            self.remove(ip);
        }
    }

    fn room_for(&self, ip: Ipv4Addr, at: Location) -> Result<(), Ignored> {
        let before = self.leases.get(&ip);
        if before.is_none() && self.leases.len() >= MOST_LEASES {
            return Err(Ignored::Leases);
        }
        let is_new = before.is_none_or(|lease| lease.at != at);
        if is_new && self.of_port.get(&at).is_some_and(|count| *count >= MOST_OF_PORT) {
            return Err(Ignored::LeasesOfPort(at));
        }
        Ok(())
    }

    fn put(&mut self, ip: Ipv4Addr, binding: Binding) {
        self.remove(ip);
        self.leases.insert(ip, binding);
        self.of_mac.entry(binding.mac).or_default().push(ip);
        *self.of_port.entry(binding.at).or_default() += 1;
        self.ends.extend(binding.end.map(|end| (end, ip)));
        self.changed.insert(ip);
        self.changed_macs.insert(binding.mac);
    }

    fn remove(&mut self, ip: Ipv4Addr) {
        let Some(Binding { mac, at, end }) = self.leases.remove(&ip) else { return };
        if let Some(end) = end {
            self.ends.remove(&(end, ip));
        }
        if let Some(all) = self.of_mac.get_mut(&mac) {
            all.retain(|other| *other != ip);
            if all.is_empty() {
                self.of_mac.remove(&mac);
            }
        }
        if let Some(count) = self.of_port.get_mut(&at) {
            *count -= 1;
            if *count == 0 {
                self.of_port.remove(&at);
            }
        }
        self.changed.insert(ip);
        self.changed_macs.insert(mac);
    }
}

fn put(table: &str, key: maple_core::Value, lease: Option<Lease>) -> Effect {
    Effect::Write(Write::Table { table: table.into(), key, value: lease.map(|lease| lease.to_value()) })
}

#[cfg(test)]
mod tests {
    use maple_wire::{Dpid, PortNo};

    use super::*;

    const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const HOST: Mac = Mac([2, 0, 0, 0, 0, 1]);

    fn at(seconds: u64) -> Time {
        Time(seconds * 1_000_000_000)
    }

    fn port(n: u32) -> Location {
        Location::new(Dpid(1), PortNo(n))
    }

    fn message(kind: Kind, mac: Mac, xid: u32) -> Dhcp {
        Dhcp {
            is_reply: false,
            kind,
            xid,
            broadcast: false,
            ciaddr: Ipv4Addr::UNSPECIFIED,
            yiaddr: Ipv4Addr::UNSPECIFIED,
            giaddr: Ipv4Addr::UNSPECIFIED,
            chaddr: mac.0,
            requested: None,
            lease: None,
            server: None,
            renewal: None,
        }
    }

    fn ip(n: u16) -> Ipv4Addr {
        let [a, b] = n.to_be_bytes();
        Ipv4Addr::new(10, 1, a, b)
    }

    /// A host asks at a port and gets an address.
    fn get(leases: &mut Leases, now: u64, mac: Mac, from: u32, ip: Ipv4Addr, seconds: u32) -> Result<(), Ignored> {
        let request = message(Kind::Request, mac, 7);
        leases.hear_client(at(now), mac, &request, port(from));
        leases.hear_server(at(now), &request.answer(Kind::Ack, ip, SERVER, Some(seconds)))
    }

    fn written(leases: &mut Leases) -> Vec<(String, String, Option<Lease>)> {
        let mut out = Vec::new();
        leases.write(&mut out);
        let line = |effect| {
            let Effect::Write(Write::Table { table, key, value }) = effect else { panic!("{effect:?}") };
            (table.to_string(), key.to_string(), value.map(|value| Lease::from_value(&value).unwrap()))
        };
        out.into_iter().map(line).collect()
    }

    #[test]
    fn an_acknowledged_lease_holds_until_its_end() {
        let mut leases = Leases::new(Duration::from_secs(1_000_000), []);
        get(&mut leases, 1, HOST, 3, ip(1), 60).unwrap();
        let lease = Lease { mac: HOST, ip: ip(1), location: port(3), ends: Some(1_000_061) };
        let both = |lease: Option<Lease>| {
            [("net.leases", ip(1).to_string(), lease), ("net.leases.mac", HOST.to_string(), lease)]
                .map(|(table, key, lease)| (table.to_owned(), key, lease))
        };
        assert_eq!(written(&mut leases), both(Some(lease)));
        assert_eq!(leases.next(), Some(at(61)));
        leases.expire(at(60));
        assert_eq!(written(&mut leases), []);
        leases.expire(at(61));
        assert_eq!(written(&mut leases), both(None));
        assert!(leases.of_port.is_empty() && leases.of_mac.is_empty() && leases.asked_from.is_empty());
    }

    #[test]
    fn a_renewal_lasts_longer_and_is_where_the_host_asked_last() {
        let mut leases = Leases::default();
        get(&mut leases, 0, HOST, 3, ip(1), 60).unwrap();
        get(&mut leases, 30, HOST, 4, ip(1), 60).unwrap();
        let lease = leases.lease(ip(1)).unwrap();
        assert_eq!((lease.location, lease.ends), (port(4), Some(90)));
        let unheard = message(Kind::Request, HOST, 8).answer(Kind::Ack, ip(1), SERVER, Some(u32::MAX));
        leases.hear_server(at(40), &unheard).unwrap();
        let lease = leases.lease(ip(1)).unwrap();
        assert_eq!((lease.location, lease.ends, leases.next()), (port(4), None, None));
    }

    #[test]
    fn only_the_host_itself_gives_back_or_refuses() {
        for kind in [Kind::Release, Kind::Decline] {
            let mut leases = Leases::default();
            get(&mut leases, 0, HOST, 3, ip(1), 60).unwrap();
            let other = Mac([2, 0, 0, 0, 0, 2]);
            let named = Dhcp { ciaddr: ip(1), requested: Some(ip(1)), ..message(kind, HOST, 9) };
            leases.hear_client(at(1), HOST, &named, port(4));
            leases.hear_client(at(1), other, &named, port(3));
            leases.hear_client(at(1), other, &Dhcp { chaddr: other.0, ..named.clone() }, port(3));
            assert!(leases.lease(ip(1)).is_some());
            leases.hear_client(at(1), HOST, &named, port(3));
            assert!(leases.lease(ip(1)).is_none(), "{kind:?}");
        }
    }

    #[test]
    fn what_nobody_asked_for_binds_nobody_and_who_asks_first_has_asked() {
        let mut leases = Leases::default();
        let request = message(Kind::Request, HOST, 7);
        let ack = request.answer(Kind::Ack, ip(1), SERVER, Some(60));
        leases.hear_server(at(0), &ack).unwrap();
        assert!(leases.lease(ip(1)).is_none());
        leases.hear_client(at(1), HOST, &request, port(3));
        leases.hear_client(at(1), HOST, &request, port(4));
        leases.hear_server(at(2), &request.answer(Kind::Nak, Ipv4Addr::UNSPECIFIED, SERVER, None)).unwrap();
        leases.hear_server(at(2), &ack).unwrap();
        assert!(leases.lease(ip(1)).is_none(), "it was refused");
        leases.hear_client(at(3), HOST, &request, port(3));
        leases.hear_client(at(3), HOST, &request, port(4));
        leases.hear_server(at(4), &ack).unwrap();
        assert_eq!(leases.lease(ip(1)).unwrap().location, port(3));
        let inform = message(Kind::Inform, HOST, 8).answer(Kind::Ack, Ipv4Addr::UNSPECIFIED, SERVER, None);
        leases.hear_server(at(5), &inform).unwrap();
        assert_eq!(leases.leases.len(), 1);
    }

    #[test]
    fn an_address_has_one_host_and_a_host_s_newest_is_told() {
        let mut leases = Leases::default();
        let other = Mac([2, 0, 0, 0, 0, 2]);
        get(&mut leases, 0, HOST, 3, ip(1), 60).unwrap();
        get(&mut leases, 1, HOST, 3, ip(2), 60).unwrap();
        written(&mut leases);
        get(&mut leases, 2, other, 4, ip(2), 60).unwrap();
        let told = written(&mut leases);
        let of = |name: &str| told.iter().find(|(_, key, _)| key == name).unwrap().2;
        assert_eq!(of(&ip(2).to_string()).map(|lease| lease.mac), Some(other));
        assert_eq!(of(&HOST.to_string()).map(|lease| lease.ip), Some(ip(1)), "what is left to it");
    }

    #[test]
    fn a_port_can_t_fill_what_others_share() {
        let mut leases = Leases::default();
        for n in 0..=MOST_OF_PORT as u16 {
            let got = get(&mut leases, 0, HOST, 3, ip(n), 60);
            assert_eq!(got.is_ok(), usize::from(n) < MOST_OF_PORT, "{n}");
        }
        get(&mut leases, 0, HOST, 4, ip(9999), 60).unwrap();
        for n in 0..1000 {
            let mac = Mac([2, 0, 0, 0, (n >> 8) as u8, n as u8]);
            leases.hear_client(at(n), mac, &message(Kind::Discover, mac, 1), port(3));
        }
        assert_eq!((leases.asked.len(), leases.asked_from[&port(3)].len()), (MOST_ASKED, MOST_ASKED));
    }

    #[test]
    fn leases_that_a_store_has_kept_go_on() {
        let lease = Lease { mac: HOST, ip: ip(1), location: port(3), ends: Some(1_000_050) };
        let mut leases = Leases::new(Duration::from_secs(1_000_000), [lease]);
        assert_eq!((leases.lease(ip(1)), leases.next()), (Some(lease), Some(at(50))));
        assert_eq!(written(&mut leases).len(), 2);
    }
}
