//! The packet that a policy decides: one attribute for each field, by its OXM name.

#![allow(unsafe_op_in_unsafe_fn, reason = "PyO3's own code for __getattr__, where a macro makes the methods")]

use std::sync::Arc;

use maple_core::policy::PacketHandle;
use maple_core::run::Observe as _;
use maple_wire::packet::text::summary_of_fields;
use maple_wire::{Field, Packet};
use pyo3::exceptions::{PyAttributeError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::assertion::conjunction;
use crate::current::{self, Ticket};
use crate::field::FieldRef;
use crate::source;

/// The packet that a policy is asked about.
#[pyclass(frozen, name = "Packet", module = "maple")]
pub struct PyPacket {
    ticket: Ticket,
}

impl PyPacket {
    /// Creates the packet of the run that `ticket` names.
    pub fn new(ticket: Ticket) -> PyPacket {
        PyPacket { ticket }
    }
}

/// Returns the bytes of the whole packet, or an error that mentions `what`.
fn whole(ticket: Ticket, what: &str) -> PyResult<Arc<[u8]>> {
    let frame = current::with_packet(ticket, what, PacketHandle::frame)?;
    frame.ok_or_else(|| PyRuntimeError::new_err(format!("{what}: the switch sent only the beginning of the packet")))
}

/// Passes all fields to a macro, in the order of their OXM numbers: documentation, name, and the wire's name.
macro_rules! for_all_fields {
    ($make:ident) => {
        $make! {
            /// Port by which the packet came in.
            in_port => InPort,
            /// Physical port under a logical one.
            in_phy_port => InPhyPort,
            /// Passed between tables. 0 for packets that enter.
            metadata => Metadata,
            /// Ethernet destination.
            eth_dst => EthDst,
            /// Ethernet source.
            eth_src => EthSrc,
            /// Ethernet type, after VLAN tags.
            eth_type => EthType,
            /// VLAN id, 12 bits. Absent without a tag.
            vlan_vid => VlanVid,
            /// VLAN priority.
            vlan_pcp => VlanPcp,
            /// Differentiated services code point.
            ip_dscp => IpDscp,
            /// Congestion notification.
            ip_ecn => IpEcn,
            /// IP protocol.
            ip_proto => IpProto,
            /// IPv4 source.
            ipv4_src => Ipv4Src,
            /// IPv4 destination.
            ipv4_dst => Ipv4Dst,
            /// TCP source port.
            tcp_src => TcpSrc,
            /// TCP destination port.
            tcp_dst => TcpDst,
            /// UDP source port.
            udp_src => UdpSrc,
            /// UDP destination port.
            udp_dst => UdpDst,
            /// SCTP source port.
            sctp_src => SctpSrc,
            /// SCTP destination port.
            sctp_dst => SctpDst,
            /// ICMP type.
            icmpv4_type => Icmpv4Type,
            /// ICMP code.
            icmpv4_code => Icmpv4Code,
            /// ARP operation: 1 request, 2 reply.
            arp_op => ArpOp,
            /// ARP sender IPv4 address.
            arp_spa => ArpSpa,
            /// ARP target IPv4 address.
            arp_tpa => ArpTpa,
            /// ARP sender hardware address.
            arp_sha => ArpSha,
            /// ARP target hardware address.
            arp_tha => ArpTha,
            /// IPv6 source.
            ipv6_src => Ipv6Src,
            /// IPv6 destination.
            ipv6_dst => Ipv6Dst,
            /// IPv6 flow label.
            ipv6_flabel => Ipv6Flabel,
            /// ICMPv6 type.
            icmpv6_type => Icmpv6Type,
            /// ICMPv6 code.
            icmpv6_code => Icmpv6Code,
            /// Neighbour discovery target.
            ipv6_nd_target => Ipv6NdTarget,
            /// Neighbour discovery source link-layer address.
            ipv6_nd_sll => Ipv6NdSll,
            /// Neighbour discovery target link-layer address.
            ipv6_nd_tll => Ipv6NdTll,
            /// Label of the outermost MPLS entry.
            mpls_label => MplsLabel,
            /// Traffic class of the outermost MPLS entry.
            mpls_tc => MplsTc,
            /// Bottom-of-stack bit of the outermost MPLS entry.
            mpls_bos => MplsBos,
            /// Provider backbone service id.
            pbb_isid => PbbIsid,
            /// Metadata of a logical port.
            tunnel_id => TunnelId,
            /// Bits for the IPv6 extension headers that are there.
            ipv6_exthdr => Ipv6Exthdr,
        }
    };
}
pub(crate) use for_all_fields;

macro_rules! fields {
    ($(#[doc = $doc:literal] $name:ident => $field:ident),* $(,)?) => {
        /// The names of all fields, in the order of their OXM numbers.
        pub const FIELDS: [&str; Field::COUNT] = [$(stringify!($name)),*];

        #[pymethods]
        impl PyPacket {
            /// Datapath id of the switch where the packet entered the network.
            #[getter]
            fn switch(&self) -> PyResult<u64> {
                current::with_packet(self.ticket, "pkt.switch", |p| p.switch().0)
            }

            /// The whole frame, from the Ethernet header on. Then each such packet comes to the controller.
            #[getter]
            fn frame<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
                Ok(PyBytes::new(py, &whole(self.ticket, "pkt.frame")?))
            }

            /// The bytes after the innermost header, as with `frame`.
            #[getter]
            fn payload<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
                Ok(PyBytes::new(py, Packet::new(&whole(self.ticket, "pkt.payload")?, 0).payload()))
            }

            /// Whether the packet matches all of these conditions: one test.
            #[pyo3(signature = (**fields))]
            fn matches(&self, py: Python<'_>, fields: Option<&Bound<'_, PyDict>>) -> PyResult<bool> {
                let Some(cond) = conjunction(fields)? else { return Ok(false) };
                current::with_packet(self.ticket, "pkt.matches", |p| p.fits(&cond, source::here(py)))
            }

            fn __repr__(&self) -> &'static str {
                "<packet>"
            }

            /// The packet in one line, which reads the fields that it shows.
            fn __str__(&self, py: Python<'_>) -> PyResult<String> {
                let line = source::here(py);
                current::with_packet(self.ticket, "str(pkt)", |p| {
                    summary_of_fields(&|field| p.read(field, field.full_mask(), line.clone()))
                })
            }

            /// Called for names that are no attribute.
            fn __getattr__(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
                let told = py.import("maple._spelling")?.call_method1("unknown_field", (name,))?;
                Err(PyAttributeError::new_err(told.unbind()))
            }

            $(#[doc = $doc]
            #[getter]
            fn $name(&self) -> FieldRef {
                FieldRef::new(Field::$field, self.ticket)
            })*
        }
    };
}

for_all_fields!(fields);
