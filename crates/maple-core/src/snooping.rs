//! The facts that snooping has learned, for f to ask: the members of multicast groups, and the addresses that hosts
//! have leased.
//!
//! Ordinary tables of tracked state hold them, so a run depends only on the groups and leases that it asked for. The
//! tables are declared only if snooping is on. Asking without snooping is an error, because no answer would ever
//! change.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use maple_wire::Field;

use crate::look_ups::{KeyField, KeyForm, LookUp};
use crate::network::{Location, Mac};
use crate::policy_error::PolicyError;
use crate::run::Net;
use crate::state::{Cell, CellValue, Commit, DeclareError, Kind, Snapshot, Store, Stored, Table, Types, Value, Write};
use crate::trace::Source;

pub use crate::state::snooping_tables::{LEASES, LEASES_BY_MAC, Lease, MEMBERS, MEMBERS_BY_MAC};

/// A multicast group, or all groups that share a hardware address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MulticastGroup {
    /// The group with this address.
    Ip(IpAddr),
    /// All groups whose frames go to this hardware address.
    Mac(Mac),
}

impl From<IpAddr> for MulticastGroup {
    fn from(ip: IpAddr) -> MulticastGroup {
        MulticastGroup::Ip(ip)
    }
}

impl From<Ipv4Addr> for MulticastGroup {
    fn from(ip: Ipv4Addr) -> MulticastGroup {
        MulticastGroup::Ip(ip.into())
    }
}

impl From<Ipv6Addr> for MulticastGroup {
    fn from(ip: Ipv6Addr) -> MulticastGroup {
        MulticastGroup::Ip(ip.into())
    }
}

impl From<Mac> for MulticastGroup {
    fn from(mac: Mac) -> MulticastGroup {
        MulticastGroup::Mac(mac)
    }
}

/// Returns the hardware address that frames to a group carry (RFC 1112 §6.4, RFC 2464 §7).
#[must_use]
pub fn group_mac(group: IpAddr) -> Mac {
    match group {
        IpAddr::V4(ip) => {
            let [_, b, c, d] = ip.octets();
            Mac([0x01, 0, 0x5e, b & 0x7f, c, d])
        }
        IpAddr::V6(ip) => {
            let [.., a, b, c, d] = ip.octets();
            Mac([0x33, 0x33, a, b, c, d])
        }
    }
}

/// Returns a group's address as the key of [`MEMBERS`].
#[must_use]
pub fn group_key(group: IpAddr) -> Value {
    match group {
        IpAddr::V4(ip) => Value::Ipv4(ip),
        IpAddr::V6(ip) => Value::Ipv6(ip),
    }
}

/// Reports whether this writes or declares what snooping learns, which belongs to one network and not to the policy.
#[must_use]
pub fn is_learned(write: &Write) -> bool {
    let tables = [MEMBERS, MEMBERS_BY_MAC, LEASES, LEASES_BY_MAC];
    matches!(write, Write::Table { table, .. } | Write::Types { table, .. } if tables.contains(&&**table))
}

/// Declares the tables of snooped groups, of leases, or of both, so that f may ask for them.
///
/// # Errors
/// [`DeclareError`] if the policy has a table of one of these names that holds something else.
pub fn declare(store: &Store, groups: bool, leases: bool) -> Result<Vec<Commit>, DeclareError> {
    let members = Vec::<Location>::kind();
    let tables = [
        (groups, MEMBERS, Kind::Ip, members.clone()),
        (groups, MEMBERS_BY_MAC, Kind::Mac, members),
        (leases, LEASES, Kind::Ipv4, Lease::kind()),
        (leases, LEASES_BY_MAC, Kind::Mac, Lease::kind()),
    ];
    let wanted = tables.into_iter().filter(|(wanted, ..)| *wanted);
    wanted.map(|(_, name, key, value)| store.declare_types(name, Types { key, value })).collect()
}

/// Returns the writes that make `members`, in order, the members of a group. They assume that nothing else counts
/// members by hardware address: for simulated networks.
#[must_use]
pub fn members(state: &Snapshot, group: IpAddr, members: &[Location]) -> Vec<Write> {
    let put = |table: &str, key: Value, members: Vec<Location>| {
        let value = (!members.is_empty()).then(|| members.to_value());
        Write::Table { table: table.into(), key, value }
    };
    let mac = group_mac(group);
    let others = state.table(MEMBERS).into_iter().flatten().filter_map(|(key, value)| {
        let other = match key {
            Value::Ipv4(ip) => IpAddr::V4(*ip),
            Value::Ipv6(ip) => IpAddr::V6(*ip),
            _ => return None,
        };
        (other != group && group_mac(other) == mac).then(|| Vec::<Location>::from_value(value))?
    });
    let of_mac: BTreeSet<Location> = others.flatten().chain(members.iter().copied()).collect();
    let of_mac = of_mac.into_iter().collect();
    vec![put(MEMBERS, group_key(group), members.to_vec()), put(MEMBERS_BY_MAC, mac.into(), of_mac)]
}

/// Returns the writes that store a lease and make it its host's newest: for simulated networks.
#[must_use]
pub fn lease(lease: &Lease) -> Vec<Write> {
    let put = |table: &str, key| Write::Table { table: table.into(), key, value: Some(lease.to_value()) };
    vec![put(LEASES, lease.ip.into()), put(LEASES_BY_MAC, lease.mac.into())]
}

impl Net {
    /// Returns the edge ports with members of a multicast group behind them, in order; empty if there are none. The run
    /// depends on this group alone. Without snooping this makes the run fail.
    ///
    /// ```
    /// use std::net::Ipv4Addr;
    ///
    /// use maple_core::{Net, PacketHandle, Route};
    /// use maple_wire::Field;
    ///
    /// fn to_members(pkt: &PacketHandle, net: &Net) -> Route {
    ///     let (Some(src), Some(group)) = (net.locate(pkt.eth_src()), pkt.get(Field::Ipv4Dst)) else {
    ///         return Route::flood();
    ///     };
    ///     let members = net.members(Ipv4Addr::from(group as u32)).into_iter().filter(|at| *at != src);
    ///     Route::multicast(members.map(|at| net.shortest_path(src, at)))
    /// }
    /// ```
    pub fn members(&self, group: impl Into<MulticastGroup>) -> Vec<Location> {
        self.try_members(group.into()).unwrap_or_default()
    }

    /// Returns the ports that [`Net::members`] returns, or the error that makes the run fail.
    ///
    /// # Errors
    /// [`PolicyError::NotSnooped`] if groups are not snooped on; the run then fails, whatever f does with the error.
    pub fn try_members(&self, group: MulticastGroup) -> Result<Vec<Location>, PolicyError> {
        self.need_table(MEMBERS, PolicyError::NotSnooped("net.members", "IGMP or MLD"))?;
        Ok(match group {
            MulticastGroup::Ip(ip) => Table::<Value, Vec<Location>>::new(MEMBERS).get(&self.outside(), &group_key(ip)),
            MulticastGroup::Mac(mac) => Table::<Mac, Vec<Location>>::new(MEMBERS_BY_MAC).get(&self.outside(), &mac),
        }
        .into_iter()
        .flatten()
        .filter(|at| self.has_port(*at))
        .collect())
    }

    /// Returns the ports that [`Net::members`] returns for the group whose address a field of the packet has. Of a
    /// group without members the run observes that it has none, and not the address, as for [`Net::look_up`]; of
    /// another one it observes the address and the ports. There are none if the packet lacks the field, or if it has no
    /// address.
    ///
    /// # Errors
    /// [`PolicyError::NotSnooped`] if groups are not snooped on; the run then fails, whatever f does with the error.
    pub fn try_members_by(&self, field: Field, source: Option<Source>) -> Result<Vec<Location>, PolicyError> {
        self.need_table(MEMBERS, PolicyError::NotSnooped("net.members", "IGMP or MLD"))?;
        let Some(key) = KeyField::of_address(field) else { return Ok(Vec::new()) };
        let table = if key.form == KeyForm::Mac { MEMBERS_BY_MAC } else { MEMBERS };
        if !self.has_key(&LookUp::of_learned(table, key), source.clone()) {
            return Ok(Vec::new());
        }
        // A decision of the group's own follows each host that joins or leaves. If sets of members were classes, the
        // stream would need another decision each time, and come to the controller for it.
        match self.read_key(key, source) {
            Some(Value::Mac(mac)) => self.try_members(mac.into()),
            Some(Value::Ipv4(ip)) => self.try_members(ip.into()),
            Some(Value::Ipv6(ip)) => self.try_members(ip.into()),
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the lease of an IPv4 address; `None` if no host has it. The run depends on this lease alone. Without
    /// snooping this makes the run fail.
    #[must_use]
    pub fn lease(&self, ip: Ipv4Addr) -> Option<Lease> {
        self.try_lease(ip).ok().flatten()
    }

    /// Returns the lease that [`Net::lease`] returns, or the error that makes the run fail.
    ///
    /// # Errors
    /// [`PolicyError::NotSnooped`] if DHCP is not snooped on; the run then fails, whatever f does with the error.
    pub fn try_lease(&self, ip: Ipv4Addr) -> Result<Option<Lease>, PolicyError> {
        self.need_table(LEASES, PolicyError::NotSnooped("net.lease", "DHCP"))?;
        Ok(Table::<Ipv4Addr, Lease>::new(LEASES).get(&self.outside(), &ip).filter(|lease| self.has_lease(lease)))
    }

    /// Returns the newest lease of the host with this hardware address. Without snooping this makes the run fail.
    #[must_use]
    pub fn lease_of(&self, mac: Mac) -> Option<Lease> {
        self.try_lease_of(mac).ok().flatten()
    }

    /// Returns the lease that [`Net::lease_of`] returns, or the error that makes the run fail.
    ///
    /// # Errors
    /// [`PolicyError::NotSnooped`] if DHCP is not snooped on; the run then fails, whatever f does with the error.
    pub fn try_lease_of(&self, mac: Mac) -> Result<Option<Lease>, PolicyError> {
        self.need_table(LEASES, PolicyError::NotSnooped("net.lease", "DHCP"))?;
        Ok(Table::<Mac, Lease>::new(LEASES_BY_MAC).get(&self.outside(), &mac).filter(|lease| self.has_lease(lease)))
    }

    /// Reports whether DHCP gave an IPv4 address to the host with this hardware address last, at the port where the
    /// host is. Without snooping this makes the run fail.
    ///
    /// # Errors
    /// [`PolicyError::NotSnooped`] if DHCP is not snooped on; the run then fails, whatever f does with the error.
    pub fn try_is_leased(&self, mac: Mac, ip: Ipv4Addr) -> Result<bool, PolicyError> {
        self.need_table(LEASES, PolicyError::NotSnooped("net.is_leased", "DHCP"))?;
        let lease = self.try_lease_of(mac)?.filter(|lease| lease.ip == ip);
        Ok(lease.is_some_and(|lease| self.read(Cell::HostAt(mac)) == CellValue::Location(Some(lease.location))))
    }

    /// Reports what [`Net::try_is_leased`] reports about the addresses in two fields of the packet. The run observes no
    /// more than that, as for [`Net::look_up`]. `false` if the packet lacks a field, or if they have no such addresses.
    ///
    /// # Errors
    /// Those of [`Net::try_is_leased`].
    pub fn try_is_leased_by(&self, mac: Field, ip: Field, source: Option<Source>) -> Result<bool, PolicyError> {
        self.need_table(LEASES, PolicyError::NotSnooped("net.is_leased", "DHCP"))?;
        Ok(LookUp::of_leased(mac, ip).is_some_and(|of| self.has_key(&of, source)))
    }

    /// Returns all leases, by IP address. The run depends on each of them. Without snooping this makes the run fail.
    #[must_use]
    pub fn leases(&self) -> Vec<Lease> {
        self.try_leases().unwrap_or_default()
    }

    /// Returns the leases that [`Net::leases`] returns, or the error that makes the run fail.
    ///
    /// # Errors
    /// [`PolicyError::NotSnooped`] if DHCP is not snooped on; the run then fails, whatever f does with the error.
    pub fn try_leases(&self) -> Result<Vec<Lease>, PolicyError> {
        self.need_table(LEASES, PolicyError::NotSnooped("net.leases", "DHCP"))?;
        let all = Table::<Ipv4Addr, Lease>::new(LEASES).entries(&self.outside());
        Ok(all.into_iter().map(|(_, lease)| lease).filter(|lease| self.has_lease(lease)).collect())
    }

    /// Reports whether the running slice has the host of a lease.
    fn has_lease(&self, lease: &Lease) -> bool {
        self.has_host(lease.mac, lease.location)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use maple_wire::{Dpid, PortNo};

    use super::*;
    use crate::run::Run;

    const GROUP: IpAddr = IpAddr::V4(Ipv4Addr::new(239, 1, 1, 1));

    /// Returns what f returns on this store, the cells that it read, and why it failed.
    fn ask<T>(store: &Store, f: impl Fn(&Net) -> T) -> (T, Vec<Cell>, Option<PolicyError>) {
        let run = Run::new(Arc::new([0; 64]), 64, Location::new(Dpid(1), PortNo(1)), store.begin(), true);
        let said = f(&run.net());
        let finished = run.finish().unwrap();
        (said, finished.txn.reads().map(|(cell, _)| cell.clone()).collect(), finished.error)
    }

    #[test]
    fn a_run_depends_on_the_group_and_the_lease_that_it_asked_for() {
        let store = Store::new();
        declare(&store, true, true).unwrap();
        let at = Location::new(Dpid(1), PortNo(3));
        let lease = Lease { mac: Mac([2; 6]), ip: [10, 0, 0, 1].into(), location: at, ends: Some(1) };
        let write = |table: &str, key, value| Write::Table { table: table.into(), key, value: Some(value) };
        let writes = vec![
            write(MEMBERS, group_key(GROUP), vec![at].to_value()),
            write(LEASES, lease.ip.into(), lease.to_value()),
            write(LEASES_BY_MAC, lease.mac.into(), lease.to_value()),
        ];
        store.change(writes).unwrap();
        let (members, reads, _) = ask(&store, |net| net.members(GROUP));
        assert_eq!((members, reads), (vec![at], vec![Cell::Table(MEMBERS.into(), group_key(GROUP))]));
        assert_eq!(ask(&store, |net| net.members(group_mac(GROUP))).0, [], "nobody wrote that");
        let (found, reads, _) = ask(&store, |net| net.lease(lease.ip));
        assert_eq!((found, reads), (Some(lease), vec![Cell::Table(LEASES.into(), lease.ip.into())]));
        assert_eq!(ask(&store, |net| (net.lease_of(lease.mac), net.leases())).0, (Some(lease), vec![lease]));
    }

    #[test]
    fn asking_where_nobody_snoops_is_an_error() {
        let store = Store::new();
        declare(&store, true, false).unwrap();
        assert_eq!(ask(&store, |net| net.members(GROUP)).2, None);
        let error = ask(&store, Net::leases).2.unwrap();
        assert_eq!(
            error.to_string(),
            "net.leases needs snooping on DHCP, which is off (docs/snooping.md says how to turn it on)"
        );
    }

    #[test]
    fn groups_of_both_families_have_hardware_addresses() {
        assert_eq!(group_mac([239, 129, 2, 3].into()).to_string(), "01:00:5e:01:02:03");
        let group = IpAddr::V6("ff05::1:2:3".parse().unwrap());
        assert_eq!(group_mac(group).to_string(), "33:33:00:02:00:03");
    }
}
