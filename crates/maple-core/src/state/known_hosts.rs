//! The hosts of a snapshot, found by MAC address, by IP address and by port.

use std::net::IpAddr;

use imbl::{OrdMap, OrdSet};
use maple_wire::{Dpid, PortNo};

use super::recent_keys::RecentKeys;
use super::snapshot::{first_and_last, put};
use crate::network::{HostInfo, Location, Mac};

/// The hosts, and indexes of them. Cloning is a few pointer copies.
#[derive(Clone, Default, Debug)]
pub(super) struct KnownHosts {
    by_mac: OrdMap<Mac, HostInfo>,
    recent: RecentKeys<Mac>,
    /// The host that announced each address last.
    by_ip: OrdMap<IpAddr, Mac>,
    recent_ips: RecentKeys<IpAddr>,
    by_port: OrdMap<Location, OrdSet<Mac>>,
}

impl KnownHosts {
    /// Returns a host.
    pub fn get(&self, mac: Mac) -> Option<&HostInfo> {
        self.by_mac.get(&mac)
    }

    /// Returns all hosts by MAC address.
    pub fn all(&self) -> impl Iterator<Item = (&Mac, &HostInfo)> + '_ {
        self.by_mac.iter()
    }

    /// Returns the host that announced an IP address last.
    pub fn by_ip(&self, ip: IpAddr) -> Option<Mac> {
        self.by_ip.get(&ip).copied()
    }

    /// Returns all announced IP addresses, each with the host that announced it last.
    pub fn bindings(&self) -> impl Iterator<Item = (IpAddr, Mac)> + '_ {
        self.by_ip.iter().map(|(ip, mac)| (*ip, *mac))
    }

    /// Returns the hosts that announced an IP address of a prefix last, once for each address.
    pub fn in_network(&self, network: IpAddr, bits: u8) -> impl Iterator<Item = Mac> + '_ {
        self.by_ip.range(first_and_last(network, bits)).map(|(_, mac)| *mac)
    }

    /// Returns the hosts at a port, by MAC address.
    pub fn at(&self, at: Location) -> impl Iterator<Item = Mac> + '_ {
        self.by_port.get(&at).into_iter().flatten().copied()
    }

    /// Returns the hosts at a switch, by port.
    pub fn at_switch(&self, dpid: Dpid) -> impl Iterator<Item = Mac> + '_ {
        let all = Location::new(dpid, PortNo(0))..=Location::new(dpid, PortNo(u32::MAX));
        self.by_port.range(all).flat_map(|(_, hosts)| hosts.iter().copied())
    }

    /// Returns the hosts that were written after a version. `None` if that is not known.
    pub fn written_since(&self, version: u64) -> Option<impl Iterator<Item = Mac>> {
        self.recent.after(version).map(Iterator::copied)
    }

    /// Returns the IP addresses whose hosts were written after a version: those that these hosts had or have. `None` if
    /// that is not known.
    pub fn ips_written_since(&self, version: u64) -> Option<impl Iterator<Item = IpAddr>> {
        self.recent_ips.after(version).map(Iterator::copied)
    }

    /// Puts a host in the snapshot of this version, or removes it. Returns whether its location is another now.
    pub fn put(&mut self, mac: Mac, info: Option<HostInfo>, version: u64) -> bool {
        let old = self.by_mac.get(&mac).cloned();
        for ip in old.iter().flat_map(HostInfo::addresses) {
            if self.by_ip.get(&ip) == Some(&mac) {
                self.by_ip.remove(&ip);
                self.recent_ips.note(&ip, version);
            }
        }
        let (from, to) = (old.map(|host| host.location), info.as_ref().map(|host| host.location));
        if from != to {
            self.relocate(mac, from, to);
        }
        for ip in info.iter().flat_map(HostInfo::addresses) {
            self.by_ip.insert(ip, mac);
            self.recent_ips.note(&ip, version);
        }
        self.recent.note(&mac, version);
        put(&mut self.by_mac, &mac, info);
        from != to
    }

    fn relocate(&mut self, mac: Mac, from: Option<Location>, to: Option<Location>) {
        if let Some(from) = from
            && let Some(hosts) = self.by_port.get_mut(&from)
        {
            hosts.remove(&mac);
            if hosts.is_empty() {
                self.by_port.remove(&from);
            }
        }
        if let Some(to) = to {
            self.by_port.entry(to).or_default().insert(mac);
        }
    }
}
