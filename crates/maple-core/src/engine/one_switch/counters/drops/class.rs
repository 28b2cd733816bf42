//! Describes the packets of a rule in one line.

use maple_wire::eth_type::value::{ARP, IPV4, IPV6};
use maple_wire::ip_proto::value::{ICMP, ICMPV6, SCTP, TCP, UDP};
use maple_wire::{Constraint, Field, Match};

use crate::trace;

/// The fields that have a place of their own in the line, or that are shown with the sender of the packets.
const SHOWN: [Field; 9] = [
    Field::InPort,
    Field::EthSrc,
    Field::EthType,
    Field::IpProto,
    Field::Ipv4Src,
    Field::Ipv4Dst,
    Field::Ipv6Src,
    Field::Ipv6Dst,
    Field::Metadata,
];

const SOURCES: [Field; 3] = [Field::TcpSrc, Field::UdpSrc, Field::SctpSrc];
const DESTINATIONS: [Field; 3] = [Field::TcpDst, Field::UdpDst, Field::SctpDst];

/// Describes a rule's packets as people write them: `tcp 10.0.99.0/24 > any:22, ip_dscp=8`.
pub fn class_of(matching: &Match) -> String {
    let find = |fields: &[Field]| matching.constraints().find(|one| fields.contains(&one.field));
    let side = |addresses: &[Field], ports: &[Field]| {
        let address = find(addresses).map_or("any".to_owned(), value);
        address + &find(ports).map_or(String::new(), |one| format!(":{}", value(one)))
    };
    let mut text = kind(matching).unwrap_or_else(|| "any packet".to_owned());
    if is_ip(matching) {
        let (from, to) =
            (side(&[Field::Ipv4Src, Field::Ipv6Src], &SOURCES), side(&[Field::Ipv4Dst, Field::Ipv6Dst], &DESTINATIONS));
        text += &format!(" {from} > {to}");
    }
    let is_shown = |field| SHOWN.contains(&field) || SOURCES.contains(&field) || DESTINATIONS.contains(&field);
    for one in matching.constraints().filter(|one| !is_shown(one.field)) {
        text += &format!(", {}={}", one.field, value(one));
    }
    text
}

/// Returns the name of the protocol that the rule matches.
fn kind(matching: &Match) -> Option<String> {
    let exact_value = |field| super::exact(matching, field);
    Some(match (exact_value(Field::EthType)?, exact_value(Field::IpProto)) {
        (ARP, _) => "arp".to_owned(),
        (IPV4 | IPV6, Some(TCP)) => "tcp".to_owned(),
        (IPV4 | IPV6, Some(UDP)) => "udp".to_owned(),
        (IPV4 | IPV6, Some(SCTP)) => "sctp".to_owned(),
        (IPV4, Some(ICMP)) => "icmp".to_owned(),
        (IPV6, Some(ICMPV6)) => "icmp6".to_owned(),
        (IPV4 | IPV6, Some(other)) => format!("ip proto {other}"),
        (IPV4, None) => "ip".to_owned(),
        (IPV6, None) => "ip6".to_owned(),
        (other, _) => format!("eth_type={other:#x}"),
    })
}

fn is_ip(matching: &Match) -> bool {
    matches!(super::exact(matching, Field::EthType), Some(IPV4 | IPV6))
}

/// Returns a constraint without its field: `10.0.99.0/24`.
fn value(one: &Constraint) -> String {
    let shown = trace::constraint_text(one);
    shown.split_once('=').map_or(shown.clone(), |(_, value)| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_reported_by_the_packets_that_they_are_for() {
        let ip = |kind| Constraint::exact(Field::EthType, kind);
        let proto = |number| Constraint::exact(Field::IpProto, number);
        let subnet = Constraint { field: Field::Ipv4Src, value: 0x0a00_6300, mask: 0xffff_ff00 };
        for (all, reported) in [
            (vec![], "any packet"),
            (vec![Constraint::exact(Field::InPort, 3), ip(0x806)], "arp"),
            (vec![ip(0x800), subnet, Constraint::exact(Field::Ipv4Dst, 0x0a00_3246)], "ip 10.0.99.0/24 > 10.0.50.70"),
            (vec![ip(0x800), proto(6), subnet, Constraint::exact(Field::TcpDst, 22)], "tcp 10.0.99.0/24 > any:22"),
            (
                vec![ip(0x86dd), proto(58), Constraint::exact(Field::Icmpv6Type, 135)],
                "icmp6 any > any, icmpv6_type=135",
            ),
            (vec![ip(0x800), proto(253)], "ip proto 253 any > any"),
            (vec![Constraint::exact(Field::VlanVid, 0x1014)], "any packet, vlan_vid=20"),
        ] {
            let matching = Match::from_constraints(all);
            assert_eq!(class_of(&matching), reported);
        }
    }
}
