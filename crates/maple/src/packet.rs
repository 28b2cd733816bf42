//! The packet that a policy decides, with a typed question for each field.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use maple_core::PacketHandle;
use maple_core::network::Mac;
use maple_core::run::Observe;
use maple_core::trace::{Cond, Source};
use maple_wire::{Dpid, Field, PortNo};

use crate::field::PacketField;

/// The packet that a policy decides: a [`PacketField`] for each OXM field (OpenFlow 1.3, section 7.2.3.7).
///
/// A packet has a field if it has the headers that the field belongs to: `tcp_dst` needs IPv4 or IPv6, and TCP.
///
/// ```
/// use maple::testing::*;
///
/// fn firewall(pkt: &Packet, net: &Net) -> Route {
///     if pkt.ipv4_src().within("10.0.0.0/8") && pkt.tcp_dst().in_range(1..=1023) && pkt.tcp_dst() != 80 {
///         return Route::drop();
///     }
///     net.flood()
/// }
///
/// let bench = Bench::new().switch(1, 1..=2);
/// let decision = bench.decide(&firewall, &tcp(1024, 22), bench.port(1, 1));
/// assert!(decision.route().unwrap().is_drop());
/// ```
pub struct Packet(PacketHandle);

/// Records nothing, so it shows nothing that a policy could observe.
impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packet").finish_non_exhaustive()
    }
}

impl Packet {
    pub(crate) fn from_handle(handle: &PacketHandle) -> Packet {
        Packet(handle.clone())
    }

    /// Returns the engine's handle.
    pub(crate) fn handle(&self) -> &PacketHandle {
        &self.0
    }

    /// Returns the switch where the packet entered the network.
    ///
    /// ```
    /// # use maple::net::Dpid;
    /// maple::testing::run(|pkt, _| assert_eq!(pkt.switch(), Dpid(1)));
    /// ```
    #[track_caller]
    #[must_use]
    pub fn switch(&self) -> Dpid {
        self.0.switch()
    }

    /// Reports whether the packet is for several hosts: the group bit of `eth_dst`. This is a test, so one rule can
    /// match all such packets, whatever their source.
    ///
    /// ```
    /// maple::testing::run(|pkt, _| assert!(!pkt.is_multicast()));
    /// ```
    #[track_caller]
    #[must_use]
    pub fn is_multicast(&self) -> bool {
        self.eth_dst().is_multicast()
    }

    /// Reports whether the packet is for an address that bridges never forward: `01:80:c2:00:00:00` to `0f` (spanning
    /// trees, pause, LACP, 802.1X, LLDP), `01:00:0c:cc:cc:cc` and `cd` (Cisco's). Two tests.
    /// [`Net::flood`](crate::Net::flood) makes them by itself.
    ///
    /// ```
    /// # use maple::testing::{ask, tcp};
    /// let trace = ask(&tcp(1024, 22), |pkt| assert!(!pkt.is_reserved()));
    /// assert_eq!(trace[0], "test eth_dst=01:80:c2:00:00:00/ff:ff:ff:ff:ff:f0: no");
    /// ```
    #[track_caller]
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        self.0.is_reserved()
    }

    /// Reports whether a condition holds. One test asks all of its parts, and does not record which of them fails.
    ///
    /// ```
    /// # use maple::testing::{ask, tcp};
    /// use maple::field::{Cond, Constraint, Field, Range};
    ///
    /// let low_ports = Cond::default()
    ///     .and(Constraint::exact(Field::EthType, 0x0800))
    ///     .within(Range { field: Field::TcpDst, lo: 1, hi: 1023 });
    /// let trace = ask(&tcp(1024, 22), |pkt| assert!(pkt.matches(&low_ports)));
    /// assert_eq!(trace, ["test eth_type=0x800, ip_proto=6, tcp_dst=1..1023: yes"]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn matches(&self, cond: &Cond) -> bool {
        self.0.matches(cond)
    }

    /// Returns the whole frame from the Ethernet header on, without its check sequence. `None` if the switch sent only
    /// the beginning. No rule can match a whole frame, so each such packet comes to the controller.
    ///
    /// ```
    /// # use maple::testing::{ask, tcp};
    /// let sent = tcp(1024, 22);
    /// ask(&sent, |pkt| assert_eq!(&*pkt.frame().unwrap(), &sent[..]));
    /// ```
    #[track_caller]
    #[must_use]
    pub fn frame(&self) -> Option<Arc<[u8]>> {
        self.0.frame()
    }

    /// Returns the bytes after the innermost header. `None` and the cost are as with [`Packet::frame`].
    ///
    /// ```
    /// # use maple::testing::{ask, tcp};
    /// ask(&tcp(1024, 22), |pkt| assert_eq!(pkt.payload().unwrap(), b""));
    /// ```
    #[must_use]
    pub fn payload(&self) -> Option<Vec<u8>> {
        self.frame().map(|frame| maple_wire::Packet::new(&frame, 0).payload().to_vec())
    }
}

impl Observe for Packet {
    fn read(&self, field: Field, mask: u128, source: Option<Source>) -> Option<u128> {
        self.0.read(field, mask, source)
    }

    fn equals(&self, field: Field, value: u128, mask: u128, source: Option<Source>) -> bool {
        self.0.equals(field, value, mask, source)
    }

    fn in_range(&self, field: Field, lo: u128, hi: u128, source: Option<Source>) -> bool {
        self.0.in_range(field, lo, hi, source)
    }

    fn present(&self, field: Field, source: Option<Source>) -> bool {
        self.0.present(field, source)
    }

    fn fits(&self, cond: &Cond, source: Option<Source>) -> bool {
        self.0.fits(cond, source)
    }
}

macro_rules! fields {
    ($(#[doc = $doc:literal] $name:ident => $field:ident: $values:ty, $example:literal;)*) => {
        impl Packet {
            $(#[doc = $doc]
            ///
            /// ```
            /// # use std::net::{Ipv4Addr, Ipv6Addr};
            /// # use maple::net::{Mac, PortNo};
            /// # use maple::testing::{ask, tcp};
            /// # ask(&tcp(1024, 22), |pkt| {
            #[doc = concat!("assert!(", $example, ");")]
            /// # });
            /// ```
            pub fn $name(&self) -> PacketField<'_, $values> {
                PacketField::new(&self.0, Field::$field)
            })*
        }
    };
}

fields! {
    /// The port where the packet entered.
    in_port => InPort: PortNo, "pkt.in_port() == PortNo(1)";
    /// The physical port under a logical one.
    in_phy_port => InPhyPort: PortNo, "pkt.in_phy_port() != PortNo(9)";
    /// The metadata that one table passes to the next. 0 for packets that enter.
    metadata => Metadata: u64, "pkt.metadata() == 0";
    /// The Ethernet destination.
    eth_dst => EthDst: Mac, "pkt.eth_dst() == Mac([0, 0, 0, 0, 0, 2])";
    /// The Ethernet source.
    eth_src => EthSrc: Mac, "pkt.eth_src() == Mac([0, 0, 0, 0, 0, 1])";
    /// The Ethernet type, after VLAN tags.
    eth_type => EthType: u16, "pkt.eth_type() == 0x0800";
    /// The VLAN id, 0 to 4095. Absent without a tag.
    vlan_vid => VlanVid: u16, "pkt.vlan_vid() != 10";
    /// The VLAN priority, 0 to 7.
    vlan_pcp => VlanPcp: u8, "!pkt.vlan_pcp().is_present()";
    /// The differentiated services code point, 0 to 63.
    ip_dscp => IpDscp: u8, "pkt.ip_dscp() == 0";
    /// The congestion notification, 0 to 3.
    ip_ecn => IpEcn: u8, "pkt.ip_ecn() < 3";
    /// The IP protocol.
    ip_proto => IpProto: u8, "pkt.ip_proto() == 6";
    /// The IPv4 source.
    ipv4_src => Ipv4Src: Ipv4Addr, r#"pkt.ipv4_src().within("10.0.0.0/8")"#;
    /// The IPv4 destination.
    ipv4_dst => Ipv4Dst: Ipv4Addr, "pkt.ipv4_dst() == Ipv4Addr::new(10, 0, 0, 2)";
    /// The TCP source port.
    tcp_src => TcpSrc: u16, "pkt.tcp_src().in_range(1024..)";
    /// The TCP destination port.
    tcp_dst => TcpDst: u16, "pkt.tcp_dst() == 22";
    /// The UDP source port.
    udp_src => UdpSrc: u16, "pkt.udp_src() != 68";
    /// The UDP destination port.
    udp_dst => UdpDst: u16, "pkt.udp_dst() != 53";
    /// The SCTP source port.
    sctp_src => SctpSrc: u16, "!pkt.sctp_src().is_present()";
    /// The SCTP destination port.
    sctp_dst => SctpDst: u16, "pkt.sctp_dst() != 5060";
    /// The ICMP type.
    icmpv4_type => Icmpv4Type: u8, "pkt.icmpv4_type() != 8";
    /// The ICMP code.
    icmpv4_code => Icmpv4Code: u8, "!pkt.icmpv4_code().is_present()";
    /// The ARP operation: 1 is a request, 2 a reply.
    arp_op => ArpOp: u16, "pkt.arp_op() != 1";
    /// The IPv4 address of an ARP sender.
    arp_spa => ArpSpa: Ipv4Addr, r#"!pkt.arp_spa().within("192.168.0.0/16")"#;
    /// The IPv4 address of an ARP target.
    arp_tpa => ArpTpa: Ipv4Addr, "pkt.arp_tpa() != Ipv4Addr::new(10, 0, 0, 1)";
    /// The hardware address of an ARP sender.
    arp_sha => ArpSha: Mac, "!pkt.arp_sha().is_multicast()";
    /// The hardware address of an ARP target.
    arp_tha => ArpTha: Mac, "pkt.arp_tha() != Mac([0; 6])";
    /// The IPv6 source.
    ipv6_src => Ipv6Src: Ipv6Addr, r#"!pkt.ipv6_src().within("fe80::/10")"#;
    /// The IPv6 destination.
    ipv6_dst => Ipv6Dst: Ipv6Addr, "!pkt.ipv6_dst().is_multicast()";
    /// The IPv6 flow label, 20 bits.
    ipv6_flabel => Ipv6Flabel: u32, "!pkt.ipv6_flabel().is_present()";
    /// The ICMPv6 type.
    icmpv6_type => Icmpv6Type: u8, "pkt.icmpv6_type() != 135";
    /// The ICMPv6 code.
    icmpv6_code => Icmpv6Code: u8, "!pkt.icmpv6_code().is_present()";
    /// The target of neighbour discovery.
    ipv6_nd_target => Ipv6NdTarget: Ipv6Addr, "pkt.ipv6_nd_target() != Ipv6Addr::LOCALHOST";
    /// The link-layer source address of neighbour discovery.
    ipv6_nd_sll => Ipv6NdSll: Mac, "!pkt.ipv6_nd_sll().is_present()";
    /// The link-layer target address of neighbour discovery.
    ipv6_nd_tll => Ipv6NdTll: Mac, "!pkt.ipv6_nd_tll().is_present()";
    /// The label of the outermost MPLS entry, 20 bits.
    mpls_label => MplsLabel: u32, "pkt.mpls_label() != 16";
    /// The traffic class of the outermost MPLS entry, 0 to 7.
    mpls_tc => MplsTc: u8, "!pkt.mpls_tc().is_present()";
    /// 1 if the outermost MPLS entry is also the innermost one, otherwise 0.
    mpls_bos => MplsBos: u8, "pkt.mpls_bos() != 1";
    /// The service id of a provider backbone, 24 bits.
    pbb_isid => PbbIsid: u32, "pkt.pbb_isid() != 1";
    /// The metadata of a logical port.
    tunnel_id => TunnelId: u64, "pkt.tunnel_id() == 0";
    /// A bit for each type of IPv6 extension header that is present, 9 bits.
    ipv6_exthdr => Ipv6Exthdr: u16, "!pkt.ipv6_exthdr().matches(0, 1)";
}
