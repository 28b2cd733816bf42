//! Open vSwitch as the oracle: `ovs-ofctl parse-pcap` prints the fields that `flow_extract` finds.

use std::process::Command;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::frames::broken_frames;
use super::skip::missing;
use crate::field::Field;
use crate::packet::Packet;
use crate::packet::text::{field_value_to_string, parse_field_value};

#[test]
fn open_vswitch_extracts_the_same_fields() {
    let mut runner = TestRunner::deterministic();
    let strategy = broken_frames(1);
    let frames: Vec<Vec<u8>> = (0..3000).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect();
    let Some(lines) = parse_pcap(&frames) else {
        missing("ovs-ofctl, to compare with");
        return;
    };
    assert_eq!(lines.len(), frames.len());
    let mut compared = 0;
    for (frame, line) in frames.iter().zip(&lines) {
        let packet = Packet::with_wire_len(frame, 0, frame.len()).literal();
        // With two tags the tool reads past both. A switch with its default vlan-limit doesn't.
        if packet.vlans().count() > 1 {
            continue;
        }
        compared += 1;
        for (field, value) in fields_of(line) {
            assert_eq!(
                packet.switch_value(field).map(|value| field_value_to_string(field, value)),
                Some(field_value_to_string(field, value)),
                "{field} of {frame:02x?}\n{line}"
            );
        }
    }
    assert!(compared > 2500, "only {compared} frames compared");
}

fn parse_pcap(frames: &[Vec<u8>]) -> Option<Vec<String>> {
    let mut pcap = Vec::new();
    pcap.extend_from_slice(&0xa1b2_c3d4u32.to_le_bytes());
    pcap.extend_from_slice(&[2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    pcap.extend_from_slice(&65535u32.to_le_bytes());
    pcap.extend_from_slice(&1u32.to_le_bytes());
    for frame in frames {
        let len = (frame.len() as u32).to_le_bytes();
        pcap.extend_from_slice(&[0; 8]);
        pcap.extend_from_slice(&len);
        pcap.extend_from_slice(&len);
        pcap.extend_from_slice(frame);
    }
    let path = std::env::temp_dir().join(format!("maple-packet-{}.pcap", std::process::id()));
    std::fs::write(&path, pcap).unwrap();
    let output = Command::new("ovs-ofctl").arg("parse-pcap").arg(&path).output();
    std::fs::remove_file(&path).unwrap();
    let output = output.ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap().lines().map(String::from).collect())
}

/// Returns the OXM fields in a printed flow.
fn fields_of(line: &str) -> Vec<(Field, u128)> {
    let (eth_type, proto) = packet_kind(line);
    let mut fields = Vec::new();
    fields.extend(eth_type.map(|value| (Field::EthType, value)));
    fields.extend(proto.map(|value| (Field::IpProto, value)));
    for (key, text) in line.split(',').filter_map(|item| item.split_once('=')) {
        let field = match key {
            "nd_sll" if line.contains("icmp_type=135") => Some(Field::Ipv6NdSll),
            "nd_tll" if line.contains("icmp_type=136") => Some(Field::Ipv6NdTll),
            key => field_named(key, eth_type, proto),
        };
        let Some(field) = field else { continue };
        let value = parse_field_value(field, text).unwrap_or_else(|_| {
            text.strip_prefix("0x").map_or_else(|| text.parse().unwrap(), |hex| u128::from_str_radix(hex, 16).unwrap())
        });
        fields.push(match key {
            "nw_tos" => (field, value >> 2),
            "dl_vlan" => (field, value | 0x1000),
            _ => (field, value),
        });
    }
    fields
}

/// Returns the Ethernet type and protocol that the words of a printed flow mean.
fn packet_kind(line: &str) -> (Option<u128>, Option<u128>) {
    let value = |key: &str| line.split(',').filter_map(|item| item.split_once('=')).find(|item| item.0 == key);
    let mut eth_type = value("dl_type").map(|(_, text)| parse_field_value(Field::EthType, text).unwrap());
    let mut proto = value("nw_proto").map(|(_, text)| parse_field_value(Field::IpProto, text).unwrap());
    for word in line.split(',') {
        let (kind, number) = match word {
            "ip" => (0x800, None),
            "ipv6" => (0x86dd, None),
            "arp" => (0x806, None),
            "rarp" => (0x8035, None),
            "mpls" => (0x8847, None),
            "mplsm" => (0x8848, None),
            "tcp" => (0x800, Some(6)),
            "udp" => (0x800, Some(17)),
            "sctp" => (0x800, Some(132)),
            "icmp" => (0x800, Some(1)),
            "tcp6" => (0x86dd, Some(6)),
            "udp6" => (0x86dd, Some(17)),
            "sctp6" => (0x86dd, Some(132)),
            "icmp6" => (0x86dd, Some(58)),
            _ => continue,
        };
        eth_type = Some(kind);
        proto = proto.or(number);
    }
    (eth_type, proto)
}

fn field_named(key: &str, eth_type: Option<u128>, proto: Option<u128>) -> Option<Field> {
    let (is_v4, is_arp) = (eth_type == Some(0x800), eth_type == Some(0x806));
    Some(match key {
        "dl_src" => Field::EthSrc,
        "dl_dst" => Field::EthDst,
        "vlan_tci" | "dl_vlan" => Field::VlanVid,
        "dl_vlan_pcp" => Field::VlanPcp,
        "nw_src" if is_v4 => Field::Ipv4Src,
        "nw_dst" if is_v4 => Field::Ipv4Dst,
        "nw_src" | "arp_spa" if is_arp => Field::ArpSpa,
        "nw_dst" | "arp_tpa" if is_arp => Field::ArpTpa,
        "arp_op" if is_arp => Field::ArpOp,
        "arp_sha" if is_arp => Field::ArpSha,
        "arp_tha" if is_arp => Field::ArpTha,
        "nw_tos" => Field::IpDscp,
        "nw_ecn" => Field::IpEcn,
        "ipv6_src" => Field::Ipv6Src,
        "ipv6_dst" => Field::Ipv6Dst,
        "ipv6_label" => Field::Ipv6Flabel,
        "tp_src" if proto == Some(6) => Field::TcpSrc,
        "tp_dst" if proto == Some(6) => Field::TcpDst,
        "tp_src" if proto == Some(17) => Field::UdpSrc,
        "tp_dst" if proto == Some(17) => Field::UdpDst,
        "tp_src" if proto == Some(132) => Field::SctpSrc,
        "tp_dst" if proto == Some(132) => Field::SctpDst,
        "icmp_type" if is_v4 => Field::Icmpv4Type,
        "icmp_code" if is_v4 => Field::Icmpv4Code,
        "icmp_type" => Field::Icmpv6Type,
        "icmp_code" => Field::Icmpv6Code,
        "nd_target" => Field::Ipv6NdTarget,
        "mpls_label" => Field::MplsLabel,
        "mpls_tc" => Field::MplsTc,
        "mpls_bos" => Field::MplsBos,
        _ => return None,
    })
}
