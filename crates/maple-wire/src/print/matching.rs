//! Matches, with the shorthands and in the order of `ovs-ofctl`.
//!
//! Open vSwitch turns a match into a flow and its mask and prints these, so the order of the fields in the message does
//! not appear. Ethernet type and IP protocol become a word if there is one (`tcp`, `arp`, `ipv6`). VLAN id and priority
//! become the tag control information unless both are exact.

use std::fmt::{Display, Write};

use super::value::{HexBytes, Impossible, Masked};
use crate::eth_type::value::{ARP, IPV4, IPV6, MPLS, MPLS_MULTICAST, RARP};
use crate::field::{Field, VLAN_PRESENT};
use crate::flow::{Constraint, Match, MatchField};
use crate::ip_proto::value::{ICMP, ICMPV6, SCTP, TCP, UDP};
use crate::msg::Version;
use crate::msg::oxm::constraint_in;

/// Returns the match as text: its fields joined by commas, without spaces. Empty for the match that takes everything.
pub fn matching(version: Version, matching: &Match) -> String {
    let mut out = MatchText { text: String::new(), matching };
    let eth_type = out.exact(Field::EthType);
    let (word, with_proto) = eth_type.and_then(|kind| shorthand(kind, out.exact(Field::IpProto))).unzip();
    if let Some(word) = word {
        out.put(word);
    }
    out.named("tun_id", Field::TunnelId);
    out.named("metadata", Field::Metadata);
    out.named("in_port", Field::InPort);
    out.vlan(version);
    out.named("dl_src", Field::EthSrc);
    out.named("dl_dst", Field::EthDst);
    if let Some(eth_type) = eth_type.filter(|_| word.is_none()) {
        out.put(format_args!("dl_type=0x{eth_type:04x}"));
    }
    out.network_layer(with_proto == Some(true));
    out.transport_layer();
    out.rest();
    out.text
}

/// Returns the word for an Ethernet type and an IP protocol, if there is one, and whether it also implies the protocol.
pub(super) fn shorthand(eth_type: u128, proto: Option<u128>) -> Option<(&'static str, bool)> {
    Some(match (eth_type, proto) {
        (IPV4, Some(ICMP)) => ("icmp", true),
        (IPV4, Some(TCP)) => ("tcp", true),
        (IPV4, Some(UDP)) => ("udp", true),
        (IPV4, Some(SCTP)) => ("sctp", true),
        (IPV4, _) => ("ip", false),
        (IPV6, Some(TCP)) => ("tcp6", true),
        (IPV6, Some(UDP)) => ("udp6", true),
        (IPV6, Some(ICMPV6)) => ("icmp6", true),
        (IPV6, Some(SCTP)) => ("sctp6", true),
        (IPV6, _) => ("ipv6", false),
        (ARP, _) => ("arp", false),
        (RARP, _) => ("rarp", false),
        (MPLS, _) => ("mpls", false),
        (MPLS_MULTICAST, _) => ("mplsm", false),
        _ => return None,
    })
}

struct MatchText<'a> {
    text: String,
    matching: &'a Match,
}

impl MatchText<'_> {
    fn put(&mut self, part: impl Display) {
        if !self.text.is_empty() {
            self.text.push(',');
        }
        write!(self.text, "{part}").expect("writing to a string does not fail");
    }

    fn get(&self, field: Field) -> Option<Constraint> {
        self.matching.get(field).copied()
    }

    fn exact(&self, field: Field) -> Option<u128> {
        self.get(field).filter(Constraint::is_exact).map(|c| c.value)
    }

    fn named(&mut self, name: &str, field: Field) {
        if let Some(constraint) = self.get(field) {
            self.put(format_args!("{name}={}", Masked(&constraint)));
        }
    }

    /// Prints the VLAN fields, as the tag control information that they are part of.
    fn vlan(&mut self, version: Version) {
        let (vid, pcp) = (self.get(Field::VlanVid), self.get(Field::VlanPcp));
        let (vid_value, vid_mask) = vid.map_or((0, 0), |c| (c.value, c.mask));
        // In 1.0 a priority alone matches only tagged packets, as a present-bit would.
        let tagged = if vid.is_none() && pcp.is_some() { VLAN_PRESENT } else { 0 };
        let value = vid_value | tagged | pcp.map_or(0, |c| c.value << 13);
        let mask = vid_mask | tagged | pcp.map_or(0, |c| c.mask << 13);
        let vid_bits = mask & 0xfff;
        let pcp_bits = mask & 0xe000;
        if mask == 0 {
            return;
        }
        if version == Version::Of10 && vid_mask == 0x1fff && vid_value == 0 {
            self.put("vlan_tci=0x0000");
        } else if value & mask & VLAN_PRESENT != 0
            && matches!(vid_bits, 0 | 0xfff)
            && matches!(pcp_bits, 0 | 0xe000)
            && vid_bits | pcp_bits != 0
        {
            if vid_bits != 0 {
                self.put(format_args!("dl_vlan={}", value & 0xfff));
            }
            if pcp_bits != 0 {
                self.put(format_args!("dl_vlan_pcp={}", value >> 13));
            }
        } else if mask == 0xffff {
            self.put(format_args!("vlan_tci=0x{value:04x}"));
        } else {
            self.put(format_args!("vlan_tci=0x{value:04x}/0x{mask:04x}"));
        }
    }

    fn network_layer(&mut self, with_proto: bool) {
        self.named("ipv6_src", Field::Ipv6Src);
        self.named("ipv6_dst", Field::Ipv6Dst);
        if let Some(label) = self.get(Field::Ipv6Flabel) {
            if label.is_exact() {
                self.put(format_args!("ipv6_label=0x{:05x}", label.value));
            } else {
                self.put(format_args!("ipv6_label=0x{:05x}/0x{:05x}", label.value, label.mask));
            }
        }
        self.named("arp_spa", Field::ArpSpa);
        self.named("arp_tpa", Field::ArpTpa);
        self.named("nw_src", Field::Ipv4Src);
        self.named("nw_dst", Field::Ipv4Dst);
        if !with_proto {
            self.named("nw_proto", Field::IpProto);
        }
        self.named("arp_op", Field::ArpOp);
        self.named("arp_sha", Field::ArpSha);
        self.named("arp_tha", Field::ArpTha);
        if let Some(dscp) = self.get(Field::IpDscp) {
            self.put(format_args!("nw_tos={}", dscp.value << 2));
        }
        self.named("nw_ecn", Field::IpEcn);
        self.named("mpls_label", Field::MplsLabel);
        self.named("mpls_tc", Field::MplsTc);
        self.named("mpls_bos", Field::MplsBos);
    }

    fn transport_layer(&mut self) {
        self.named("icmp_type", Field::Icmpv4Type);
        self.named("icmp_code", Field::Icmpv4Code);
        self.named("icmp_type", Field::Icmpv6Type);
        self.named("icmp_code", Field::Icmpv6Code);
        self.named("nd_target", Field::Ipv6NdTarget);
        self.named("nd_sll", Field::Ipv6NdSll);
        self.named("nd_tll", Field::Ipv6NdTll);
        for field in [Field::TcpSrc, Field::UdpSrc, Field::SctpSrc] {
            self.named("tp_src", field);
        }
        for field in [Field::TcpDst, Field::UdpDst, Field::SctpDst] {
            self.named("tp_dst", field);
        }
    }

    /// Prints the entries for which Open vSwitch has no text: unsupported fields, and fields that no packet can fit, by
    /// their OXM names (`ipv4_src=10.0.0.1/8`, `ip_dscp=64`), and unknown fields as class, number and payload.
    fn rest(&mut self) {
        for field in [Field::InPhyPort, Field::PbbIsid, Field::Ipv6Exthdr] {
            self.named(field.name(), field);
        }
        for entry in &self.matching.fields {
            if let MatchField::Unknown { header, body } = entry {
                if let Some(stated) = constraint_in(*header, body) {
                    self.put(format_args!("{}={}", stated.field, Impossible(&stated)));
                    continue;
                }
                let (class, number) = (header >> 16, header >> 9 & 0x7f);
                self.put(format_args!("oxm(0x{class:04x},{number})=0x{}", HexBytes(body)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::oxm;

    fn check(version: Version, constraints: &[(Field, u128, u128)], text: &str) {
        let m = Match::from_constraints(constraints.iter().map(|(f, v, m)| Constraint::masked(*f, *v, *m)));
        assert_eq!(matching(version, &m), text);
    }

    const ALL: u128 = u128::MAX;

    #[test]
    fn type_and_protocol_become_a_word_where_there_is_one() {
        let words = [
            (0x0800, None, "ip"),
            (0x0800, Some(0), "ip,nw_proto=0"),
            (0x0800, Some(1), "icmp"),
            (0x0800, Some(2), "ip,nw_proto=2"),
            (0x0800, Some(6), "tcp"),
            (0x0800, Some(17), "udp"),
            (0x0800, Some(58), "ip,nw_proto=58"),
            (0x0800, Some(132), "sctp"),
            (0x86dd, None, "ipv6"),
            (0x86dd, Some(1), "ipv6,nw_proto=1"),
            (0x86dd, Some(6), "tcp6"),
            (0x86dd, Some(17), "udp6"),
            (0x86dd, Some(58), "icmp6"),
            (0x86dd, Some(132), "sctp6"),
            (0x0806, None, "arp"),
            (0x8035, None, "rarp"),
            (0x8847, None, "mpls"),
            (0x8848, None, "mplsm"),
            (0x88cc, None, "dl_type=0x88cc"),
            (0x0005, None, "dl_type=0x0005"),
        ];
        for (eth_type, proto, text) in words {
            let mut fields = vec![(Field::EthType, eth_type, ALL)];
            fields.extend(proto.map(|p| (Field::IpProto, p, ALL)));
            check(Version::Of13, &fields, text);
        }
    }

    #[test]
    fn vlan_fields_become_tag_control_information_unless_both_are_exact() {
        use Field::{VlanPcp, VlanVid};
        check(Version::Of13, &[(VlanVid, 0x1005, ALL)], "dl_vlan=5");
        check(Version::Of13, &[(VlanVid, 0x1005, ALL), (VlanPcp, 3, ALL)], "dl_vlan=5,dl_vlan_pcp=3");
        check(Version::Of13, &[(VlanVid, 0x1000, 0x1000), (VlanPcp, 3, ALL)], "dl_vlan_pcp=3");
        check(Version::Of13, &[(VlanVid, 0x1000, 0x1000)], "vlan_tci=0x1000/0x1000");
        check(Version::Of13, &[(VlanVid, 0x1005, 0x100f)], "vlan_tci=0x1005/0x100f");
        check(Version::Of13, &[(VlanVid, 0x1005, 0x100f), (VlanPcp, 3, ALL)], "vlan_tci=0x7005/0xf00f");
        check(Version::Of13, &[(VlanVid, 0, ALL)], "vlan_tci=0x0000/0x1fff");
        check(Version::Of13, &[(VlanVid, 5, ALL)], "vlan_tci=0x0005/0x1fff");
        check(Version::Of10, &[(VlanVid, 0, ALL)], "vlan_tci=0x0000");
        check(Version::Of10, &[(VlanPcp, 3, ALL)], "dl_vlan_pcp=3");
    }

    #[test]
    fn fields_come_in_the_order_of_open_vswitch_whatever_order_they_were_sent_in() {
        check(
            Version::Of13,
            &[
                (Field::InPort, 1, ALL),
                (Field::Metadata, 5, 15),
                (Field::EthDst, 2, ALL),
                (Field::EthSrc, 1, ALL),
                (Field::EthType, 0x806, ALL),
                (Field::ArpOp, 1, ALL),
                (Field::ArpSpa, 0x0a00_0000, 0xff00_0000),
                (Field::ArpTpa, 1, ALL),
                (Field::ArpSha, 1, ALL),
                (Field::ArpTha, 2, ALL),
                (Field::TunnelId, 3, ALL),
            ],
            "arp,tun_id=0x3,metadata=0x5/0xf,in_port=1,dl_src=00:00:00:00:00:01,dl_dst=00:00:00:00:00:02,\
             arp_spa=10.0.0.0/8,arp_tpa=0.0.0.1,arp_op=1,arp_sha=00:00:00:00:00:01,arp_tha=00:00:00:00:00:02",
        );
        check(
            Version::Of13,
            &[
                (Field::EthType, 0x86dd, ALL),
                (Field::IpDscp, 1, ALL),
                (Field::IpEcn, 3, ALL),
                (Field::IpProto, 58, ALL),
                (Field::Ipv6Src, 1, ALL),
                (Field::Ipv6Flabel, 5, 15),
                (Field::Icmpv6Type, 135, ALL),
                (Field::Icmpv6Code, 0, ALL),
                (Field::Ipv6NdTarget, 1, ALL),
                (Field::Ipv6NdSll, 9, ALL),
            ],
            "icmp6,ipv6_src=::1,ipv6_label=0x00005/0x0000f,nw_tos=4,nw_ecn=3,icmp_type=135,icmp_code=0,\
             nd_target=::1,nd_sll=00:00:00:00:00:09",
        );
    }

    #[test]
    fn fields_that_open_vswitch_does_not_know_are_printed_after_the_rest() {
        let mut m = Match::any().exact(Field::PbbIsid, 7).exact(Field::InPort, 1);
        m.fields.push(MatchField::Unknown { header: 0x0001_0204, body: vec![0, 0, 0, 9] });
        assert_eq!(matching(Version::Of13, &m), "in_port=1,pbb_isid=7,oxm(0x0001,1)=0x00000009");
    }

    #[test]
    fn constraints_that_no_packet_fits_are_printed_as_fields() {
        let print = |entries: &[(u32, &[u8])]| {
            let mut m = Match::any().exact(Field::InPort, 1);
            let unknown = |(header, body): &(u32, &[u8])| MatchField::Unknown { header: *header, body: body.to_vec() };
            m.fields.extend(entries.iter().map(unknown));
            matching(Version::Of13, &m)
        };
        let host_bits = (oxm::header(Field::Ipv4Src, true), &[10, 0, 0, 1, 255, 0, 0, 0][..]);
        assert_eq!(print(&[host_bits]), "in_port=1,ipv4_src=10.0.0.1/8");
        assert_eq!(print(&[(oxm::header(Field::IpDscp, false), &[64])]), "in_port=1,ip_dscp=64");
        assert_eq!(print(&[(oxm::header(Field::VlanVid, false), &[0x30, 5])]), "in_port=1,vlan_vid=12293");
        assert_eq!(print(&[(oxm::header(Field::TcpDst, true), &[0, 3, 0, 1])]), "in_port=1,tcp_dst=0x3/0x1");
        assert_eq!(print(&[(oxm::header(Field::IpDscp, true), &[64, 0xff])]), "in_port=1,ip_dscp=0x40/0xff");
        assert_eq!(print(&[(0x8000_1001, &[1, 2])]), "in_port=1,oxm(0x8000,8)=0x0102", "of another length");
    }
}
