//! DHCP leases, from the acknowledgements of servers.
//!
//! Only replies from trusted ports count; otherwise any host could claim an address for another one. A client's
//! location is the port that first sent a request with this MAC address and transaction id. A lease ends when the
//! client releases or declines it from its location, or when it expires. It does not end when the port goes down.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use maple_core::engine::Time;
use maple_core::snooping::{self, Lease};
use maple_core::state::{Stored, Write};
use maple_core::{Location, Mac};
use maple_wire::packet::dhcp::{Dhcp, DhcpMessageKind};

use super::{IgnoreReason, SnoopEffect};
use crate::time::after;

/// The maximum number of leases. Chosen: those of 64 ports that each have as many as they may, and a bound on memory.
pub const MAX_LEASES: usize = 65_536;
/// The maximum number of leases of a port, so that one port cannot take the places of all others. Chosen: a switch or
/// an access point that is not ours may be there, with its hosts.
pub const MAX_PER_PORT: usize = 1024;
/// The maximum number of open requests of a port. Beyond that the oldest is forgotten. Chosen: hosts behind a port that
/// ask within the same moment, and a bound on what one can make up.
pub const MAX_REQUESTS: usize = 256;
/// The time for which a request stays open. Chosen: a client repeats a request after 4, 8, 16 and 32 seconds, which are
/// a minute together (RFC 2131 §4.1).
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Leases, and open requests.
#[derive(Debug, Default)]
pub struct Leases {
    /// The Unix time at which the clock of [`Time`] started.
    epoch: Duration,
    leases: BTreeMap<Ipv4Addr, Binding>,
    /// The addresses of each host, the newest last.
    of_mac: BTreeMap<Mac, Vec<Ipv4Addr>>,
    of_port: BTreeMap<Location, usize>,
    /// Leases that expire, ordered by end.
    ends: BTreeSet<(Time, Ipv4Addr)>,
    requests: BTreeMap<(Mac, u32), (Time, Location)>,
    /// The open requests by port, the oldest first.
    requests_of_port: BTreeMap<Location, BTreeSet<(Time, Mac, u32)>>,
    changed: BTreeSet<Ipv4Addr>,
    changed_macs: BTreeSet<Mac>,
}

#[derive(Clone, Copy, Debug)]
struct Binding {
    mac: Mac,
    at: Location,
    /// `None` for an unlimited lease.
    end: Option<Time>,
}

impl Leases {
    /// Starts with the leases that a store has kept. `epoch` is the Unix time at which the clock of [`Time`] started.
    pub fn new(epoch: Duration, kept: impl IntoIterator<Item = Lease>) -> Leases {
        let mut leases = Leases { epoch, ..Leases::default() };
        for Lease { mac, ip, location: at, ends } in kept {
            let end = ends.map(|ends| after(Time(0), Duration::from_secs(ends).saturating_sub(epoch)));
            leases.insert(ip, Binding { mac, at, end });
        }
        leases
    }

    /// Handles a client's message. `src` is the source address of the frame.
    pub fn on_client(&mut self, now: Time, src: Mac, message: &Dhcp, at: Location) {
        let mac = Mac(message.chaddr);
        // A relay's copy has the relay's source address and comes from another port.
        if src != mac {
            return;
        }
        match message.kind {
            DhcpMessageKind::Discover | DhcpMessageKind::Request => self.add_request(now, mac, message.xid, at),
            DhcpMessageKind::Release => self.release(message.ciaddr, mac, at),
            DhcpMessageKind::Decline => self.release(message.requested.unwrap_or(message.ciaddr), mac, at),
            _ => {}
        }
    }

    /// Handles a server's message from a trusted port.
    ///
    /// # Errors
    /// [`IgnoreReason`] if there are too many leases, in total or at the port.
    pub fn on_server(&mut self, now: Time, message: &Dhcp) -> Result<(), IgnoreReason> {
        let (mac, ip) = (Mac(message.chaddr), message.yiaddr);
        let requested_at = match message.kind {
            DhcpMessageKind::Ack | DhcpMessageKind::Nak => self.take_request(mac, message.xid),
            _ => None,
        };
        let (DhcpMessageKind::Ack, Some(seconds), false) = (message.kind, message.lease, ip.is_unspecified()) else {
            return Ok(());
        };
        let known = self.leases.get(&ip).copied().filter(|lease| lease.mac == mac);
        // A renewal whose request Maple did not see keeps the location.
        let Some(at) = requested_at.or(known.map(|lease| lease.at)) else { return Ok(()) };
        self.check_capacity(ip, at)?;
        let end = (seconds != u32::MAX).then(|| after(now, Duration::from_secs(seconds.into())));
        self.insert(ip, Binding { mac, at, end });
        Ok(())
    }

    /// Removes expired leases.
    pub fn expire(&mut self, now: Time) {
        while let Some((_, ip)) = self.ends.first().filter(|(end, _)| *end <= now).copied() {
            self.remove(ip);
        }
    }

    /// Returns when the next lease ends.
    pub fn deadline(&self) -> Option<Time> {
        self.ends.first().map(|(end, _)| *end)
    }

    /// Writes the changes since the last call.
    pub fn write(&mut self, out: &mut Vec<SnoopEffect>) {
        for ip in std::mem::take(&mut self.changed) {
            out.push(table_write(snooping::LEASES, ip.into(), self.lease(ip)));
        }
        for mac in std::mem::take(&mut self.changed_macs) {
            let newest = self.of_mac.get(&mac).and_then(|all| all.last());
            out.push(table_write(snooping::LEASES_BY_MAC, mac.into(), newest.and_then(|ip| self.lease(*ip))));
        }
    }

    fn lease(&self, ip: Ipv4Addr) -> Option<Lease> {
        let Binding { mac, at, end } = *self.leases.get(&ip)?;
        let ends = end.map(|end| (self.epoch + Duration::from_nanos(end.0)).as_secs());
        Some(Lease { mac, ip, location: at, ends })
    }

    fn add_request(&mut self, now: Time, mac: Mac, xid: u32, at: Location) {
        if let Some((when, from)) = self.requests.get(&(mac, xid)).copied() {
            // The same request from another port: the first one counts, because others may have read the id.
            if from != at && now < after(when, REQUEST_TIMEOUT) {
                return;
            }
            self.take_request(mac, xid);
        }
        let waiting = self.requests_of_port.entry(at).or_default();
        if waiting.len() >= MAX_REQUESTS
            && let Some((_, mac, xid)) = waiting.pop_first()
        {
            self.requests.remove(&(mac, xid));
        }
        waiting.insert((now, mac, xid));
        self.requests.insert((mac, xid), (now, at));
    }

    /// Removes a request, and returns its port.
    fn take_request(&mut self, mac: Mac, xid: u32) -> Option<Location> {
        let (when, at) = self.requests.remove(&(mac, xid))?;
        if let Some(waiting) = self.requests_of_port.get_mut(&at) {
            waiting.remove(&(when, mac, xid));
            if waiting.is_empty() {
                self.requests_of_port.remove(&at);
            }
        }
        Some(at)
    }

    fn release(&mut self, ip: Ipv4Addr, mac: Mac, at: Location) {
        if self.leases.get(&ip).is_some_and(|lease| (lease.mac, lease.at) == (mac, at)) {
            self.remove(ip);
        }
    }

    fn check_capacity(&self, ip: Ipv4Addr, at: Location) -> Result<(), IgnoreReason> {
        let before = self.leases.get(&ip);
        if before.is_none() && self.leases.len() >= MAX_LEASES {
            return Err(IgnoreReason::Leases);
        }
        let is_new = before.is_none_or(|lease| lease.at != at);
        if is_new && self.of_port.get(&at).is_some_and(|count| *count >= MAX_PER_PORT) {
            return Err(IgnoreReason::LeasesOfPort(at));
        }
        Ok(())
    }

    fn insert(&mut self, ip: Ipv4Addr, binding: Binding) {
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

fn table_write(table: &str, key: maple_core::Value, lease: Option<Lease>) -> SnoopEffect {
    SnoopEffect::Write(Write::Table { table: table.into(), key, value: lease.map(|lease| lease.to_value()) })
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

    fn message(kind: DhcpMessageKind, mac: Mac, xid: u32) -> Dhcp {
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

    /// Makes a host request an address at a port and get it.
    fn get(leases: &mut Leases, now: u64, mac: Mac, from: u32, ip: Ipv4Addr, seconds: u32) -> Result<(), IgnoreReason> {
        let request = message(DhcpMessageKind::Request, mac, 7);
        leases.on_client(at(now), mac, &request, port(from));
        leases.on_server(at(now), &request.answer(DhcpMessageKind::Ack, ip, SERVER, Some(seconds)))
    }

    fn written(leases: &mut Leases) -> Vec<(String, String, Option<Lease>)> {
        let mut out = Vec::new();
        leases.write(&mut out);
        let line = |effect| {
            let SnoopEffect::Write(Write::Table { table, key, value }) = effect else { panic!("{effect:?}") };
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
        assert_eq!(leases.deadline(), Some(at(61)));
        leases.expire(at(60));
        assert_eq!(written(&mut leases), []);
        leases.expire(at(61));
        assert_eq!(written(&mut leases), both(None));
        assert!(leases.of_port.is_empty() && leases.of_mac.is_empty() && leases.requests_of_port.is_empty());
    }

    #[test]
    fn a_renewal_extends_the_lease_and_follows_the_client() {
        let mut leases = Leases::default();
        get(&mut leases, 0, HOST, 3, ip(1), 60).unwrap();
        get(&mut leases, 30, HOST, 4, ip(1), 60).unwrap();
        let lease = leases.lease(ip(1)).unwrap();
        assert_eq!((lease.location, lease.ends), (port(4), Some(90)));
        let unheard =
            message(DhcpMessageKind::Request, HOST, 8).answer(DhcpMessageKind::Ack, ip(1), SERVER, Some(u32::MAX));
        leases.on_server(at(40), &unheard).unwrap();
        let lease = leases.lease(ip(1)).unwrap();
        assert_eq!((lease.location, lease.ends, leases.deadline()), (port(4), None, None));
    }

    #[test]
    fn only_the_client_itself_releases_or_declines() {
        for kind in [DhcpMessageKind::Release, DhcpMessageKind::Decline] {
            let mut leases = Leases::default();
            get(&mut leases, 0, HOST, 3, ip(1), 60).unwrap();
            let other = Mac([2, 0, 0, 0, 0, 2]);
            let named = Dhcp { ciaddr: ip(1), requested: Some(ip(1)), ..message(kind, HOST, 9) };
            leases.on_client(at(1), HOST, &named, port(4));
            leases.on_client(at(1), other, &named, port(3));
            leases.on_client(at(1), other, &Dhcp { chaddr: other.0, ..named.clone() }, port(3));
            assert!(leases.lease(ip(1)).is_some());
            leases.on_client(at(1), HOST, &named, port(3));
            assert!(leases.lease(ip(1)).is_none(), "{kind:?}");
        }
    }

    #[test]
    fn replies_without_a_request_are_ignored_and_the_first_request_counts() {
        let mut leases = Leases::default();
        let request = message(DhcpMessageKind::Request, HOST, 7);
        let ack = request.answer(DhcpMessageKind::Ack, ip(1), SERVER, Some(60));
        leases.on_server(at(0), &ack).unwrap();
        assert!(leases.lease(ip(1)).is_none());
        leases.on_client(at(1), HOST, &request, port(3));
        leases.on_client(at(1), HOST, &request, port(4));
        leases.on_server(at(2), &request.answer(DhcpMessageKind::Nak, Ipv4Addr::UNSPECIFIED, SERVER, None)).unwrap();
        leases.on_server(at(2), &ack).unwrap();
        assert!(leases.lease(ip(1)).is_none(), "it was refused");
        leases.on_client(at(3), HOST, &request, port(3));
        leases.on_client(at(3), HOST, &request, port(4));
        leases.on_server(at(4), &ack).unwrap();
        assert_eq!(leases.lease(ip(1)).unwrap().location, port(3));
        let inform =
            message(DhcpMessageKind::Inform, HOST, 8).answer(DhcpMessageKind::Ack, Ipv4Addr::UNSPECIFIED, SERVER, None);
        leases.on_server(at(5), &inform).unwrap();
        assert_eq!(leases.leases.len(), 1);
    }

    #[test]
    fn an_address_has_one_host_and_the_newest_lease_of_a_host_is_written() {
        let mut leases = Leases::default();
        let other = Mac([2, 0, 0, 0, 0, 2]);
        get(&mut leases, 0, HOST, 3, ip(1), 60).unwrap();
        get(&mut leases, 1, HOST, 3, ip(2), 60).unwrap();
        written(&mut leases);
        get(&mut leases, 2, other, 4, ip(2), 60).unwrap();
        let writes = written(&mut leases);
        let lease = |name: &str| writes.iter().find(|(_, key, _)| key == name).unwrap().2;
        assert_eq!(lease(&ip(2).to_string()).map(|lease| lease.mac), Some(other));
        assert_eq!(lease(&HOST.to_string()).map(|lease| lease.ip), Some(ip(1)), "what is left to it");
    }

    #[test]
    fn one_port_cannot_exhaust_the_limits() {
        let mut leases = Leases::default();
        for n in 0..=MAX_PER_PORT as u16 {
            let got = get(&mut leases, 0, HOST, 3, ip(n), 60);
            assert_eq!(got.is_ok(), usize::from(n) < MAX_PER_PORT, "{n}");
        }
        get(&mut leases, 0, HOST, 4, ip(9999), 60).unwrap();
        for n in 0..1000 {
            let mac = Mac([2, 0, 0, 0, (n >> 8) as u8, n as u8]);
            leases.on_client(at(n), mac, &message(DhcpMessageKind::Discover, mac, 1), port(3));
        }
        assert_eq!((leases.requests.len(), leases.requests_of_port[&port(3)].len()), (MAX_REQUESTS, MAX_REQUESTS));
    }

    #[test]
    fn leases_that_a_store_has_kept_go_on() {
        let lease = Lease { mac: HOST, ip: ip(1), location: port(3), ends: Some(1_000_050) };
        let mut leases = Leases::new(Duration::from_secs(1_000_000), [lease]);
        assert_eq!((leases.lease(ip(1)), leases.deadline()), (Some(lease), Some(at(50))));
        assert_eq!(written(&mut leases).len(), 2);
    }
}
