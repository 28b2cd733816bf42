//! Packets: every field that Open vSwitch extracts from a frame, also those that are zero.

use std::fmt::Write;
use std::net::Ipv4Addr;

use super::matching::shorthand;
use super::value::{Ipv6, Mac};
use crate::eth_type::value::{ARP, IPV4, IPV6, MPLS, MPLS_MULTICAST, RARP};
use crate::field::Field;
use crate::icmpv6_type::value::{NEIGHBOR_ADVERT, NEIGHBOR_SOLICIT};
use crate::ip_proto::{ICMP, ICMPV6, IGMP, SCTP, TCP, UDP};
use crate::packet::ethernet::{TAG_LEN, TYPE_OFFSET};
use crate::packet::mpls::Entry;
use crate::packet::{NetworkKind, Packet};

/// Returns the packet as text: its fields, and the checksum of its transport header.
///
/// ```
/// let frame = [[0xff; 6], [2, 0, 0, 0, 0, 1]].concat();
/// let frame = [&frame[..], &[0x88, 0xcc, 0, 0]].concat();
/// assert_eq!(
///     maple_wire::print::frame(&frame),
///     "vlan_tci=0x0000,dl_src=02:00:00:00:00:01,dl_dst=ff:ff:ff:ff:ff:ff,dl_type=0x88cc"
/// );
/// ```
pub fn frame(frame: &[u8]) -> String {
    frame_of(frame, frame.len())
}

/// Prints the beginning of a packet that had `wire_len` bytes.
///
/// Headers are read as far as they were captured. If the packet is cut off, Open vSwitch prints addresses as zero.
pub(super) fn frame_of(frame: &[u8], wire_len: usize) -> String {
    let mut out = FrameText(String::new());
    let outer = Packet::with_wire_len(frame, 0, wire_len).literal();
    if outer.get(Field::VlanVid) == Some(0) {
        out.put("vlan_tci=0x0000");
        out.after_tags(&outer);
        return out.0;
    }
    // Matching ends at a second tag, but a reader wants to see the rest.
    let inner_frame = [&frame[..TYPE_OFFSET], &frame[TYPE_OFFSET + TAG_LEN..]].concat();
    let inner = Packet::with_wire_len(&inner_frame, 0, wire_len - TAG_LEN).literal();
    out.tag(&outer, "");
    if inner.get(Field::VlanVid) == Some(0) {
        out.put("vlan_tci1=0x0000");
        out.after_tags(&outer);
    } else {
        out.tag(&inner, "1");
        out.after_tags(&inner);
    }
    out.0
}

struct FrameText(String);

impl FrameText {
    fn put(&mut self, part: impl std::fmt::Display) {
        let comma = if self.0.is_empty() { "" } else { "," };
        write!(self.0, "{comma}{part}").expect("writing to a string does not fail");
    }

    fn put_word(&mut self, word: &str) {
        let rest = std::mem::take(&mut self.0);
        self.0 = format!("{word},{rest}");
    }

    fn tag(&mut self, packet: &Packet, index: &str) {
        self.put(format_args!("dl_vlan{index}={}", value(packet, Field::VlanVid) & 0xfff));
        self.put(format_args!("dl_vlan_pcp{index}={}", value(packet, Field::VlanPcp)));
    }

    fn after_tags(&mut self, packet: &Packet) {
        let eth_type = value(packet, Field::EthType);
        let proto = packet.network().proto();
        let (word, with_proto) = shorthand(eth_type, proto.map(u128::from)).unzip();
        if let Some(word) = word {
            self.put_word(word);
        }
        self.put(format_args!("dl_src={}", Mac(value(packet, Field::EthSrc))));
        self.put(format_args!("dl_dst={}", Mac(value(packet, Field::EthDst))));
        if word.is_none() {
            self.put(format_args!("dl_type=0x{eth_type:04x}"));
        }
        match eth_type {
            IPV4 | IPV6 => self.ip(packet, eth_type == IPV6, with_proto == Some(true)),
            ARP | RARP => self.arp(packet),
            MPLS | MPLS_MULTICAST => self.mpls(packet),
            _ => {}
        }
    }

    fn ip(&mut self, packet: &Packet, is_v6: bool, with_proto: bool) {
        if is_v6 {
            self.put(format_args!("ipv6_src={}", Ipv6(value(packet, Field::Ipv6Src))));
            self.put(format_args!("ipv6_dst={}", Ipv6(value(packet, Field::Ipv6Dst))));
            self.put(format_args!("ipv6_label=0x{:05x}", value(packet, Field::Ipv6Flabel)));
        } else {
            self.put(format_args!("nw_src={}", Ipv4Addr::from(value(packet, Field::Ipv4Src) as u32)));
            self.put(format_args!("nw_dst={}", Ipv4Addr::from(value(packet, Field::Ipv4Dst) as u32)));
        }
        if !with_proto {
            self.put(format_args!("nw_proto={}", value(packet, Field::IpProto)));
        }
        self.put(format_args!("nw_tos={}", value(packet, Field::IpDscp) << 2));
        self.put(format_args!("nw_ecn={}", value(packet, Field::IpEcn)));
        self.put(format_args!("nw_ttl={}", ttl(packet)));
        self.put(format_args!("nw_frag={}", fragment(packet)));
        let network = packet.network();
        let Some(proto) = network.proto() else { return };
        let payload = payload(packet);
        if !network.is_later_fragment() {
            self.transport(packet, is_v6, proto, payload);
        }
        self.checksum(is_v6, proto, payload);
    }

    fn transport(&mut self, packet: &Packet, is_v6: bool, proto: u8, payload: &[u8]) {
        let (src, dst) = match proto {
            TCP => (Field::TcpSrc, Field::TcpDst),
            UDP => (Field::UdpSrc, Field::UdpDst),
            SCTP => (Field::SctpSrc, Field::SctpDst),
            ICMP if !is_v6 => (Field::Icmpv4Type, Field::Icmpv4Code),
            ICMPV6 if is_v6 => (Field::Icmpv6Type, Field::Icmpv6Code),
            IGMP => {
                let at = |at: usize| payload.get(at).filter(|_| payload.len() >= 8).copied().unwrap_or(0);
                self.put(format_args!("tp_src={},tp_dst={}", at(0), at(1)));
                return;
            }
            _ => return,
        };
        let name = if matches!(proto, ICMP | ICMPV6) { ["icmp_type", "icmp_code"] } else { ["tp_src", "tp_dst"] };
        self.put(format_args!("{}={}", name[0], value(packet, src)));
        self.put(format_args!("{}={}", name[1], value(packet, dst)));
        if proto == TCP {
            let known = packet.get(Field::TcpSrc).and_then(|_| word(payload, 12));
            self.put(format_args!("tcp_flags={}", TcpFlags(known.unwrap_or(0) & 0xfff)));
        }
        let is_discovery = matches!(value(packet, Field::Icmpv6Type), NEIGHBOR_SOLICIT | NEIGHBOR_ADVERT);
        if proto == ICMPV6 && is_discovery && value(packet, Field::Icmpv6Code) == 0 {
            self.put(format_args!("nd_target={}", Ipv6(value(packet, Field::Ipv6NdTarget))));
            self.put(format_args!("nd_sll={}", Mac(value(packet, Field::Ipv6NdSll))));
            self.put(format_args!("nd_tll={}", Mac(value(packet, Field::Ipv6NdTll))));
        }
    }

    fn checksum(&mut self, is_v6: bool, proto: u8, payload: &[u8]) {
        let (name, at, header_len) = match proto {
            TCP => ("tcp", 16, 20),
            UDP => ("udp", 6, 8),
            SCTP => ("sctp", 8, 12),
            ICMP if !is_v6 => ("icmp", 2, 8),
            ICMPV6 if is_v6 => ("icmp6", 2, 4),
            _ => return,
        };
        if payload.len() < header_len {
            return;
        }
        let bytes = if proto == SCTP { &payload[at..at + 4] } else { &payload[at..at + 2] };
        let sum = bytes.iter().fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte));
        write!(self.0, " {name}_csum:{sum:x}").expect("writing to a string does not fail");
    }

    /// Prints address resolution, forward or reverse; all zero if it is not for Ethernet and IPv4.
    fn arp(&mut self, packet: &Packet) {
        const ETHERNET_AND_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];
        let body = packet.frame().get(packet.link().end()..).unwrap_or_default();
        let body = if body.len() >= 28 && body[..6] == ETHERNET_AND_IPV4 { &body[..28] } else { &[0; 28] };
        let ip = |at: usize| Ipv4Addr::new(body[at], body[at + 1], body[at + 2], body[at + 3]);
        let mac = |at: usize| Mac(body[at..at + 6].iter().fold(0, |mac, byte| mac << 8 | u128::from(*byte)));
        let op = if body[6] == 0 { body[7] } else { 0 };
        self.put(format_args!("arp_spa={},arp_tpa={},arp_op={op}", ip(14), ip(24)));
        self.put(format_args!("arp_sha={},arp_tha={}", mac(8), mac(18)));
    }

    /// Prints the outermost label stack entry by its fields, and two more as numbers.
    fn mpls(&mut self, packet: &Packet) {
        let stack: Vec<Entry> = packet.mpls_stack().take(3).collect();
        let entry = |at: usize| stack.get(at).copied().unwrap_or(Entry::from_bits(0));
        let Entry { label, tc, bottom, ttl } = entry(0);
        self.put(format_args!("mpls_label={label},mpls_tc={tc},mpls_ttl={ttl},mpls_bos={}", u8::from(bottom)));
        for at in 1..3 {
            if entry(at - 1).bottom {
                break;
            }
            self.put(format_args!("mpls_lse{at}={}", entry(at).to_bits()));
        }
    }
}

/// The names of TCP flags from the lowest bit on. Flags without a name are shown as their value in hex.
struct TcpFlags(u16);

impl std::fmt::Display for TcpFlags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const NAMES: [&str; 12] =
            ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns", "[200]", "[400]", "[800]"];
        if self.0 == 0 {
            return f.write_char('0');
        }
        let names: Vec<&str> =
            NAMES.iter().enumerate().filter(|(bit, _)| self.0 & 1 << bit != 0).map(|(_, name)| *name).collect();
        f.write_str(&names.join("|"))
    }
}

fn value(packet: &Packet, field: Field) -> u128 {
    packet.get(field).unwrap_or(0)
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]))
}

/// Returns the bytes after the IP headers, within the declared length and the captured bytes.
fn payload<'a>(packet: &Packet<'a>) -> &'a [u8] {
    let network = packet.network();
    packet.frame().get(network.transport()..network.end().min(packet.frame().len())).unwrap_or_default()
}

fn ttl(packet: &Packet) -> u8 {
    let network = packet.network();
    let at = match network.kind() {
        NetworkKind::V4 => network.start() + 8,
        NetworkKind::V6 if !network.has_broken_chain() => network.start() + 7,
        _ => return 0,
    };
    packet.frame().get(at).copied().unwrap_or(0)
}

/// Names the part of a fragmented packet.
fn fragment(packet: &Packet) -> &'static str {
    match packet.network() {
        network if network.is_later_fragment() => "later",
        network if network.is_fragment() => "first",
        _ => "no",
    }
}
