//! The packet that a policy decides: one attribute a field, by its OXM name.

use maple_wire::Field;
use pyo3::prelude::*;

use crate::current::{self, Ticket};
use crate::field::FieldRef;

/// The packet that a policy is asked about.
#[pyclass(frozen, name = "Packet", module = "maple")]
pub struct PyPacket {
    ticket: Ticket,
}

impl PyPacket {
    /// The packet of the run that `ticket` names.
    pub fn new(ticket: Ticket) -> PyPacket {
        PyPacket { ticket }
    }
}

macro_rules! fields {
    ($($name:ident => $field:ident),* $(,)?) => {
        /// The names of all fields, in the order of their OXM numbers.
        pub const FIELDS: [&str; Field::COUNT] = [$(stringify!($name)),*];

        #[pymethods]
        impl PyPacket {
            /// Datapath id of the switch where the packet entered the network.
            #[getter]
            fn switch(&self) -> PyResult<u64> {
                current::with_packet(self.ticket, "pkt.switch", |p| p.switch().0)
            }

            fn __repr__(&self) -> &'static str {
                "<packet>"
            }

            $(#[getter]
            fn $name(&self) -> FieldRef {
                FieldRef::new(Field::$field, self.ticket)
            })*
        }
    };
}

fields! {
    in_port => InPort,
    in_phy_port => InPhyPort,
    metadata => Metadata,
    eth_dst => EthDst,
    eth_src => EthSrc,
    eth_type => EthType,
    vlan_vid => VlanVid,
    vlan_pcp => VlanPcp,
    ip_dscp => IpDscp,
    ip_ecn => IpEcn,
    ip_proto => IpProto,
    ipv4_src => Ipv4Src,
    ipv4_dst => Ipv4Dst,
    tcp_src => TcpSrc,
    tcp_dst => TcpDst,
    udp_src => UdpSrc,
    udp_dst => UdpDst,
    sctp_src => SctpSrc,
    sctp_dst => SctpDst,
    icmpv4_type => Icmpv4Type,
    icmpv4_code => Icmpv4Code,
    arp_op => ArpOp,
    arp_spa => ArpSpa,
    arp_tpa => ArpTpa,
    arp_sha => ArpSha,
    arp_tha => ArpTha,
    ipv6_src => Ipv6Src,
    ipv6_dst => Ipv6Dst,
    ipv6_flabel => Ipv6Flabel,
    icmpv6_type => Icmpv6Type,
    icmpv6_code => Icmpv6Code,
    ipv6_nd_target => Ipv6NdTarget,
    ipv6_nd_sll => Ipv6NdSll,
    ipv6_nd_tll => Ipv6NdTll,
    mpls_label => MplsLabel,
    mpls_tc => MplsTc,
    mpls_bos => MplsBos,
    pbb_isid => PbbIsid,
    tunnel_id => TunnelId,
    ipv6_exthdr => Ipv6Exthdr,
}
