//! The packets that tests send: the given fields, and the usual values of the rest.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use maple::net::Mac;
use maple_emulator::topology::HostSpec;
use maple_wire::eth_type::value::{ARP, IPV4};
use maple_wire::field::VLAN_PRESENT;
use maple_wire::packet::build::frame_of;
use maple_wire::{Dpid, Field, Packet};

/// The client's port in packets for which the test names none.
const CLIENT_PORT: u128 = 40_000;
const SERVER_PORTS: [(u128, Field, Field, u128); 2] =
    [(6, Field::TcpSrc, Field::TcpDst, 80), (17, Field::UdpSrc, Field::UdpDst, 53)];

/// A packet as a test describes it, with what must become of it.
#[derive(Clone, Debug)]
#[must_use]
pub struct PacketExpectation {
    pub(crate) fields: BTreeMap<Field, u128>,
    pub(crate) via: Option<Vec<u64>>,
    pub(crate) arrives: BTreeMap<Field, u128>,
    pub(crate) count: usize,
    pub(crate) only: bool,
}

/// Expects a packet with the usual fields: an ICMP echo request with the addresses of its hosts.
///
/// ```
/// use maple_lab::with;
///
/// let ssh = with().tcp_dst(22).via([1, 4, 3, 2]);
/// ```
pub fn with() -> PacketExpectation {
    PacketExpectation { fields: BTreeMap::new(), via: None, arrives: BTreeMap::new(), count: 1, only: false }
}

impl PacketExpectation {
    /// Sets a field to a value, as OpenFlow encodes it.
    ///
    /// ```
    /// let arp = maple_lab::with().field(maple::field::Field::EthType, 0x806);
    /// ```
    pub fn field(mut self, field: Field, value: u128) -> PacketExpectation {
        self.fields.insert(field, value);
        self
    }

    /// Sets the destination port of TCP.
    ///
    /// ```
    /// let ssh = maple_lab::with().tcp_dst(22);
    /// ```
    pub fn tcp_dst(self, port: u16) -> PacketExpectation {
        self.field(Field::TcpDst, port.into())
    }

    /// Sets the destination port of UDP.
    ///
    /// ```
    /// let dns = maple_lab::with().udp_dst(53);
    /// ```
    pub fn udp_dst(self, port: u16) -> PacketExpectation {
        self.field(Field::UdpDst, port.into())
    }

    /// Sets the IPv4 source address, which may differ from the sending host's.
    ///
    /// ```
    /// let forged = maple_lab::with().ipv4_src([10, 0, 9, 9]);
    /// ```
    pub fn ipv4_src(self, address: impl Into<Ipv4Addr>) -> PacketExpectation {
        self.field(Field::Ipv4Src, u32::from(address.into()).into())
    }

    /// Sets the IPv4 destination address.
    ///
    /// ```
    /// let group = maple_lab::with().ipv4_dst([239, 1, 1, 1]);
    /// ```
    pub fn ipv4_dst(self, address: impl Into<Ipv4Addr>) -> PacketExpectation {
        self.field(Field::Ipv4Dst, u32::from(address.into()).into())
    }

    /// Sets the destination's hardware address.
    ///
    /// ```
    /// let broadcast = maple_lab::with().eth_dst(maple::net::Mac([0xff; 6]));
    /// ```
    pub fn eth_dst(self, mac: Mac) -> PacketExpectation {
        self.field(Field::EthDst, mac.bits())
    }

    /// Puts the packet into this VLAN.
    ///
    /// ```
    /// let tagged = maple_lab::with().vlan_vid(5);
    /// ```
    pub fn vlan_vid(self, vid: u16) -> PacketExpectation {
        self.field(Field::VlanVid, VLAN_PRESENT | u128::from(vid))
    }

    /// Expects the packet to pass exactly these switches, by datapath id, in order.
    ///
    /// ```
    /// let long = maple_lab::with().via([1, 4, 3, 2]);
    /// ```
    pub fn via(mut self, switches: impl IntoIterator<Item = impl Into<Dpid>>) -> PacketExpectation {
        self.via = Some(switches.into_iter().map(|dpid| dpid.into().0).collect());
        self
    }

    /// Expects a field to have this value when the packet arrives.
    ///
    /// ```
    /// let rewritten = maple_lab::with().tcp_dst(80).arrives(maple::field::Field::TcpDst, 8080);
    /// ```
    pub fn arrives(mut self, field: Field, value: u128) -> PacketExpectation {
        self.arrives.insert(field, value);
        self
    }

    /// Expects the receiver to get `count` copies.
    ///
    /// ```
    /// let twice = maple_lab::with().count(2);
    /// ```
    pub fn count(mut self, count: usize) -> PacketExpectation {
        self.count = count;
        self
    }

    /// Expects that nobody but the receiver gets a copy.
    ///
    /// ```
    /// let private = maple_lab::with().only();
    /// ```
    pub fn only(mut self) -> PacketExpectation {
        self.only = true;
        self
    }

    /// Encodes the packet from one host to another.
    pub(crate) fn frame(&self, src: &HostSpec, dst: &HostSpec) -> Vec<u8> {
        let mut all = BTreeMap::from([(Field::EthSrc, mac(src)), (Field::EthDst, mac(dst))]);
        let given = |field: Field| self.fields.contains_key(&field);
        let (from, to) = (u128::from(u32::from(src.ipv4)), u128::from(u32::from(dst.ipv4)));
        match self.fields.get(&Field::EthType) {
            None | Some(&IPV4) => {
                all.extend([(Field::EthType, IPV4), (Field::Ipv4Src, from), (Field::Ipv4Dst, to)]);
                let transport = SERVER_PORTS.iter().find(|(_, src, dst, _)| given(*src) || given(*dst));
                match transport {
                    Some((proto, src, dst, port)) => {
                        all.extend([(Field::IpProto, *proto), (*src, CLIENT_PORT), (*dst, *port)]);
                    }
                    None => all.extend([(Field::IpProto, 1), (Field::Icmpv4Type, 8), (Field::Icmpv4Code, 0)]),
                }
            }
            Some(&ARP) => {
                all.extend([(Field::ArpOp, 1), (Field::ArpSpa, from), (Field::ArpTpa, to), (Field::ArpSha, mac(src))]);
            }
            Some(_) => {}
        }
        all.extend(&self.fields);
        let frame = frame_of(&all);
        let packet = Packet::new(&frame, 0);
        for (field, value) in &self.fields {
            let there = packet.get(*field);
            assert!(there == Some(*value), "{field} does not fit the other fields of the packet");
        }
        frame
    }
}

fn mac(host: &HostSpec) -> u128 {
    Mac(host.mac).bits()
}

/// Describes the fields of a frame that differ from these values.
pub(crate) fn differences(frame: &[u8], wanted: &BTreeMap<Field, u128>) -> Vec<String> {
    let packet = Packet::new(frame, 0);
    let text = |value: Option<u128>| value.map_or("absent".to_owned(), |value| format!("{value:#x}"));
    let differs = wanted.iter().filter(|(field, value)| packet.get(**field) != Some(**value));
    differs.map(|(field, value)| format!("{field} is {}, and should be {value:#x}", text(packet.get(*field)))).collect()
}
