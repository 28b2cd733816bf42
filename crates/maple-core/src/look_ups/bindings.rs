//! Look-ups of pairs: whether an IP address is that of the host with a hardware address.
//!
//! f asks for a pair of fields, so the table has the pairs. They follow from what is known of hosts and leases, and are
//! not stored anywhere.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use maple_wire::Field;

use super::{KeyBits, KeyField, KeyForm, LookUp, LookUpTable};
use crate::network::Mac;
use crate::state::snooping_tables::{LEASES_BY_MAC, Lease};
use crate::state::{Cell, CellValue, Snapshot, Stored, Value};

/// The name of the pairs that hosts have announced.
pub(super) const BINDINGS: &str = "net.bindings";
/// The name of the pairs that DHCP has given.
pub(super) const LEASED: &str = "net.leased";

impl LookUp {
    /// Creates the look-up of whether the IP address in one field is that of the host whose hardware address another
    /// has. `None` if the fields have no such addresses.
    pub(crate) fn of_binding(mac: Field, ip: Field) -> Option<LookUp> {
        let [mac, ip] = [KeyField::of_address(mac)?, KeyField::of_address(ip)?];
        let are_addresses = mac.form == KeyForm::Mac && ip.form != KeyForm::Mac;
        are_addresses.then(|| LookUp { table: LookUpTable::Bindings, fields: [mac, ip].into(), is_tuple: true })
    }

    /// Creates the look-up of whether DHCP gave the IPv4 address in one field to the host whose hardware address
    /// another has. `None` if the fields have no such addresses.
    pub(crate) fn of_leased(mac: Field, ip: Field) -> Option<LookUp> {
        let binding = LookUp::of_binding(mac, ip)?;
        (!binding.is_of_ipv6()).then_some(LookUp { table: LookUpTable::Leased, ..binding })
    }

    /// Returns a value if the pair that a key is was announced last by its host.
    pub(super) fn binding(&self, key: &[u128], read: &mut dyn FnMut(Cell) -> CellValue) -> Option<Value> {
        let (mac, ip) = self.pair(key)?;
        let is_owner = matches!(read(Cell::HostByIp(ip)), CellValue::Host(Some((owner, _))) if owner == mac);
        is_owner.then_some(Value::Bool(true))
    }

    /// Returns a value if the pair that a key is was given by DHCP at the port where the host is.
    pub(super) fn leased(&self, key: &[u128], read: &mut dyn FnMut(Cell) -> CellValue) -> Option<Value> {
        let (mac, ip) = self.pair(key)?;
        let CellValue::Value(Some(row)) = read(Cell::Table(LEASES_BY_MAC.into(), Value::Mac(mac))) else { return None };
        let lease = Lease::from_value(&row).filter(|lease| IpAddr::V4(lease.ip) == ip)?;
        let is_there = read(Cell::HostAt(mac)) == CellValue::Location(Some(lease.location));
        is_there.then_some(Value::Bool(true))
    }

    /// Returns the cell that says whose the IP address of a pair is, or which address its host has.
    pub(super) fn cell_of_pair(&self, key: &[u128]) -> Cell {
        let (mac, ip) = self.pair(key).unwrap_or((Mac::from_bits(0), IpAddr::V4(Ipv4Addr::UNSPECIFIED)));
        match self.table {
            LookUpTable::Leased => Cell::Table(LEASES_BY_MAC.into(), Value::Mac(mac)),
            _ => Cell::HostByIp(ip),
        }
    }

    fn pair(&self, key: &[u128]) -> Option<(Mac, IpAddr)> {
        let [mac, ip] = key else { return None };
        let ip = if self.is_of_ipv6() {
            IpAddr::V6(Ipv6Addr::from_bits(*ip))
        } else {
            IpAddr::V4(Ipv4Addr::from_bits(*ip as u32))
        };
        Some((Mac::from_bits(*mac), ip))
    }

    /// Reports whether the second field of a pair has an IPv6 address.
    pub(super) fn is_of_ipv6(&self) -> bool {
        self.fields.get(1).is_some_and(|ip| ip.form == KeyForm::Ipv6)
    }

    /// Returns the key of a pair; `None` if the field has addresses of another family.
    fn key_of_pair(&self, mac: Mac, ip: IpAddr) -> Option<KeyBits> {
        let ip = match (self.is_of_ipv6(), ip) {
            (true, IpAddr::V6(ip)) => ip.to_bits(),
            (false, IpAddr::V4(ip)) => u128::from(ip.to_bits()),
            _ => return None,
        };
        Some([mac.bits(), ip].into())
    }

    /// Returns the address that DHCP gave a host last, at the port where it is.
    fn leased_address(state: &Snapshot, mac: Mac) -> Option<IpAddr> {
        let lease = Lease::from_value(state.table(LEASES_BY_MAC)?.get(&Value::Mac(mac))?)?;
        (state.host(mac)?.location == lease.location).then_some(IpAddr::V4(lease.ip))
    }

    /// Returns the pairs of a state.
    pub(super) fn pairs(&self, state: &Snapshot) -> Vec<(KeyBits, Value)> {
        let of_key = |key: KeyBits| (key, Value::Bool(true));
        if self.table == LookUpTable::Leased {
            let leased = |(mac, _): (&Mac, _)| self.key_of_pair(*mac, LookUp::leased_address(state, *mac)?);
            return state.hosts().filter_map(leased).map(of_key).collect();
        }
        state.bindings(self.is_of_ipv6()).filter_map(|(ip, mac)| self.key_of_pair(mac, ip)).map(of_key).collect()
    }

    /// Returns the pairs that may have changed since an earlier version of a state, with what the state holds for them.
    pub(super) fn pairs_written_since<'k>(
        &self,
        state: &Snapshot,
        version: u64,
        keys: impl Iterator<Item = &'k KeyBits>,
    ) -> Option<Vec<(KeyBits, Option<Value>)>> {
        let all: Vec<KeyBits> = if self.table == LookUpTable::Leased {
            let mac = |key: &Value| if let Value::Mac(mac) = key { Some(*mac) } else { None };
            let leased = state.table(LEASES_BY_MAC)?.written_since(version)?.filter_map(mac);
            let hosts: BTreeSet<Mac> = state.hosts_written_since(version)?.chain(leased).collect();
            let before = keys.filter(|key| self.pair(key).is_some_and(|(mac, _)| hosts.contains(&mac))).cloned();
            let now = |mac: &Mac| self.key_of_pair(*mac, LookUp::leased_address(state, *mac)?);
            before.chain(hosts.iter().filter_map(now)).collect()
        } else {
            let ips: BTreeSet<IpAddr> = state.bindings_written_since(version)?.collect();
            let before = keys.filter(|key| self.pair(key).is_some_and(|(_, ip)| ips.contains(&ip))).cloned();
            let now = |ip: &IpAddr| self.key_of_pair(state.host_by_ip(*ip)?, *ip);
            before.chain(ips.iter().filter_map(now)).collect()
        };
        let found = |key: KeyBits| {
            let value = LookUp::value(self.find(&key, |cell| cell.evaluate(state)));
            (key, value)
        };
        Some(all.into_iter().map(found).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use maple_wire::{Dpid, PortNo};
    use proptest::prelude::*;

    use super::*;
    use crate::network::{HostInfo, Location};
    use crate::state::{Store, Write};

    fn mac(number: u8) -> Mac {
        Mac([2, 0, 0, 0, 0, number])
    }

    fn ip(number: u8) -> IpAddr {
        if number < 3 { Ipv4Addr::new(10, 0, 0, number).into() } else { Ipv6Addr::from(u128::from(number)).into() }
    }

    fn place(port: u8) -> Location {
        Location::new(Dpid(1), PortNo(port.into()))
    }

    /// A host comes or changes, with its place and addresses, or goes; or DHCP gives it an address at a port, or takes
    /// it back.
    #[derive(Clone, Debug)]
    enum Step {
        Host(u8, Option<(u8, Vec<u8>)>),
        Lease(u8, Option<(u8, u8)>),
    }

    fn step() -> impl Strategy<Value = Step> {
        let info = (0..2u8, proptest::collection::vec(0..5u8, 0..3));
        prop_oneof![
            (0..4u8, proptest::option::weighted(0.8, info)).prop_map(|(host, info)| Step::Host(host, info)),
            (0..4u8, proptest::option::weighted(0.8, (0..3u8, 0..2u8))).prop_map(|(host, of)| Step::Lease(host, of)),
        ]
    }

    fn write(step: &Step) -> Write {
        match step {
            Step::Host(host, info) => {
                let info = info.as_ref().map(|(port, addresses)| {
                    let (mut ipv4, mut ipv6) = (Vec::new(), Vec::new());
                    addresses.iter().for_each(|number| match ip(*number) {
                        IpAddr::V4(ip) => ipv4.push(ip),
                        IpAddr::V6(ip) => ipv6.push(ip),
                    });
                    let (ipv4, ipv6) = (ipv4.into_iter().collect(), ipv6.into_iter().collect());
                    HostInfo { location: place(*port), ipv4, ipv6 }
                });
                Write::Host { mac: mac(*host), info }
            }
            Step::Lease(host, of) => {
                let lease = of.map(|(number, port)| Lease {
                    mac: mac(*host),
                    ip: Ipv4Addr::new(10, 0, 0, number),
                    location: place(port),
                    ends: None,
                });
                let (table, key) = (LEASES_BY_MAC.into(), Value::Mac(mac(*host)));
                Write::Table { table, key, value: lease.map(|lease| lease.to_value()) }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_pairs_of_a_state_are_those_that_a_question_for_each_finds_and_can_be_followed(
            steps in proptest::collection::vec((step(), any::<bool>()), 1..40),
        ) {
            let (store, mac_field) = (Store::new(), Field::EthSrc);
            let all = [
                LookUp::of_binding(mac_field, Field::Ipv4Src),
                LookUp::of_binding(mac_field, Field::Ipv6Src),
                LookUp::of_leased(mac_field, Field::Ipv4Src),
            ];
            let all: Vec<LookUp> = all.into_iter().flatten().collect();
            prop_assert_eq!(all.len(), 3);
            let pairs = |of: &LookUp| of.pairs(&store.snapshot()).into_iter().collect::<BTreeMap<_, _>>();
            let mut followed: Vec<_> = all.iter().map(|of| (store.snapshot(), pairs(of))).collect();
            for (step, follows) in steps {
                store.update(|_| vec![write(&step)]);
                if !follows {
                    continue;
                }
                let state = store.snapshot();
                for (of, (before, known)) in all.iter().zip(&mut followed) {
                    let has_changed = of.all_cells().iter().any(|cell| cell.evaluate(before) != cell.evaluate(&state));
                    let old = known.clone();
                    match of.pairs_written_since(&state, before.version(), old.keys()) {
                        Some(written) => written.into_iter().for_each(|(key, value)| match value {
                            Some(value) => drop(known.insert(key, value)),
                            None => drop(known.remove(&key)),
                        }),
                        // The table has no rows.
                        None => known.clone_from(&pairs(of)),
                    }
                    prop_assert!(has_changed || *known == old, "{} has changed without its cells", of);
                    let asked = (0..4).flat_map(|host| (0..5).map(move |number| (mac(host), ip(number))));
                    let keys = asked.filter_map(|(mac, ip)| of.key_of_pair(mac, ip));
                    let found = |key: &KeyBits| LookUp::value(of.find(key, |cell| cell.evaluate(&state))).is_some();
                    let mut wanted: Vec<KeyBits> = keys.filter(found).collect();
                    let mut there: Vec<KeyBits> = known.keys().cloned().collect();
                    let mut searched: Vec<KeyBits> = pairs(of).into_keys().collect();
                    [&mut there, &mut searched, &mut wanted].into_iter().for_each(|keys| keys.sort());
                    prop_assert_eq!(&there, &wanted);
                    prop_assert_eq!(&searched, &wanted);
                    *before = state.clone();
                }
            }
        }
    }
}
