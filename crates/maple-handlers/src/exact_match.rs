//! Encodes flow-mods that match all headers of one packet, without allocating.
//!
//! The match covers everything that a switch of this version matches in the packet: ingress port, link layer, and the
//! network and transport layers of IPv4, IPv6 (1.3) and ARP (OpenFlow 1.0 §3.4, 1.3 §7.2.3.7). A test compares each
//! message with what the general codec writes for the same fields.

use maple_wire::eth_type::value::{ARP, IPV4, IPV6};
use maple_wire::ip_proto;
use maple_wire::ip_proto::value::{ICMP, ICMPV6, SCTP, TCP, UDP};
use maple_wire::msg::oxm;
use maple_wire::{Field, Packet, PortNo};

use crate::hub::write_at;
use crate::replies::Replies;

/// Everything of a rule except its match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// Transaction id of the message.
    pub xid: u32,
    /// The buffered packet that the switch applies the rule to immediately, or `NO_BUFFER`.
    pub buffer_id: u32,
    /// Seconds without a packet after which the rule expires.
    pub idle_timeout: u16,
    /// The priority.
    pub priority: u16,
    /// The output port; `None` drops packets.
    pub to: Option<PortNo>,
}

/// A 1.0 flow-mod with one output action, before its fields are filled in.
const FORWARD10: [u8; 80] = {
    let mut bytes = [0; 80];
    [bytes[0], bytes[1], bytes[3]] = [1, 14, 80];
    [bytes[68], bytes[69], bytes[75]] = [0xff, 0xff, 8];
    bytes
};
/// A 1.0 flow-mod without actions, before its fields are filled in.
const DROP10: [u8; 72] = {
    let mut bytes = [0; 72];
    [bytes[0], bytes[1], bytes[3]] = [1, 14, 72];
    [bytes[68], bytes[69]] = [0xff, 0xff];
    bytes
};
/// The offset after the match of a 1.0 flow-mod, in bytes (1.0 §5.3.3).
const MATCH_END10: usize = 48;
/// An upper bound of the flow-mods here, in bytes: 48, a match of at most 112, and 24 for the action.
const MAX_LENGTH13: usize = 192;
/// The offset of the match in a 1.3 flow-mod, in bytes (1.3 §7.3.4.1).
const MATCH13: usize = 48;

/// The VLAN of packets without a tag, `OFP_VLAN_NONE` (1.0 §5.2.3).
const NO_VLAN: u16 = 0xffff;

/// Wildcard bits of a 1.0 match (1.0 §5.2.3).
mod any {
    /// The wildcard of the Ethernet type, `OFPFW_DL_TYPE` (1.0 §5.2.3).
    pub const DL_TYPE: u32 = 1 << 4;
    /// The wildcard of the tag's priority, `OFPFW_DL_VLAN_PCP`.
    pub const VLAN_PCP: u32 = 1 << 20;
    /// The wildcards of type of service, protocol and both addresses.
    pub const NETWORK: u32 = TOS | PROTO | SRC | DST;
    /// The wildcard of the whole source address, `OFPFW_NW_SRC_ALL`.
    pub const SRC: u32 = 32 << 8;
    /// The wildcard of the whole destination address, `OFPFW_NW_DST_ALL`.
    pub const DST: u32 = 32 << 14;
    /// The wildcard of the type of service, `OFPFW_NW_TOS`.
    pub const TOS: u32 = 1 << 21;
    /// The wildcard of the protocol, `OFPFW_NW_PROTO`.
    pub const PROTO: u32 = 1 << 5;
    /// The wildcard of the source port, `OFPFW_TP_SRC`.
    pub const TP_SRC: u32 = 1 << 6;
    /// The wildcard of the destination port, `OFPFW_TP_DST`.
    pub const TP_DST: u32 = 1 << 7;
}

/// A 1.3 flow-mod that adds a rule to table 0, without cookie and flags.
pub(crate) struct FlowMod13 {
    bytes: [u8; MAX_LENGTH13],
    length: usize,
}

/// Appends the 1.0 flow-mod (add, without cookie and flags) that matches all headers of this frame. `wire_len` is the
/// frame's length on the wire; the captured bytes may be fewer.
#[inline(always)]
pub(crate) fn flow_mod10(frame: &[u8], wire_len: usize, in_port: u16, rule: Rule, out: &mut Replies) {
    let bytes: &mut [u8] = match rule.to.and_then(PortNo::to_of10) {
        Some(to) => {
            let bytes = out.append_array(&FORWARD10);
            write_at(bytes, 76, to.to_be_bytes());
            bytes
        }
        None => out.append_array(&DROP10),
    };
    let Some((head, tail)) = bytes.split_first_chunk_mut::<MATCH_END10>() else { return };
    write_at(head, 4, rule.xid.to_be_bytes());
    if let [_, _, _, _, _, _, _, _, matching @ ..] = head
        && !common_match10(frame, in_port, matching)
    {
        match10(&Packet::with_wire_len(frame, in_port.into(), wire_len), in_port, matching);
    }
    write_at(tail, 58 - MATCH_END10, rule.idle_timeout.to_be_bytes());
    write_at(tail, 62 - MATCH_END10, rule.priority.to_be_bytes());
    write_at(tail, 64 - MATCH_END10, rule.buffer_id.to_be_bytes());
}

/// Writes the 40 bytes of a 1.0 match for the common case: untagged IPv4 without options or fragments, headers captured
/// whole. Writes nothing and returns `false` for any other packet.
#[inline(always)]
fn common_match10(frame: &[u8], in_port: u16, out: &mut [u8; 40]) -> bool {
    let Some((ethernet, rest)) = frame.split_first_chunk::<14>() else { return false };
    let Some((ip, rest)) = rest.split_first_chunk::<20>() else { return false };
    let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    // The IP length must fit what was on the wire. This stricter check asks that it fits what was captured.
    let is_common = ethernet[12..] == [8, 0] && ip[0] & 0xf == 5 && ip[6] & 0x3f == 0 && ip[7] == 0;
    if !is_common || total < 20 || total > frame.len() - ethernet.len() {
        return false;
    }
    let ports = match (ip[9], rest) {
        (ip_proto::UDP, [a, b, c, d, ..]) if total >= 20 + 8 => Some([*a, *b, *c, *d]),
        // The TCP header has at least its minimum length, and fits the packet.
        (ip_proto::TCP, [a, b, c, d, _, _, _, _, _, _, _, _, words, ..])
            if (5..=(total - 20) / 4).contains(&usize::from(words >> 4)) =>
        {
            Some([*a, *b, *c, *d])
        }
        (ip_proto::ICMP | ip_proto::TCP | ip_proto::UDP, _) => return false,
        _ => None,
    };
    write_at(out, 0, (any::VLAN_PCP | if ports.is_none() { any::TP_SRC | any::TP_DST } else { 0 }).to_be_bytes());
    write_at(out, 4, in_port.to_be_bytes());
    out[6..12].copy_from_slice(&ethernet[6..12]);
    out[12..18].copy_from_slice(&ethernet[..6]);
    write_at(out, 18, NO_VLAN.to_be_bytes());
    write_at(out, 22, [8, 0, ip[1] & 0xfc, ip[9]]);
    out[28..36].copy_from_slice(&ip[12..20]);
    write_at(out, 36, ports.unwrap_or_default());
    true
}

/// Writes the 40 bytes of a 1.0 match for any packet.
#[inline(never)]
fn match10(packet: &Packet<'_>, in_port: u16, out: &mut [u8; 40]) {
    let mut wildcards = 0;
    write_at(out, 4, in_port.to_be_bytes());
    let frame = packet.frame();
    if let [dst @ .., _, _, _, _, _, _] = frame.get(..12).unwrap_or_default() {
        out[12..18].copy_from_slice(dst);
        out[6..12].copy_from_slice(&frame[6..12]);
    }
    let eth_type = packet.get(Field::EthType).unwrap_or_else(|| {
        wildcards |= any::DL_TYPE;
        0
    });
    write_at(out, 22, (eth_type as u16).to_be_bytes());
    match packet.get(Field::VlanPcp) {
        Some(pcp) => {
            write_at(out, 18, (packet.get(Field::VlanVid).unwrap_or_default() as u16 & 0xfff).to_be_bytes());
            out[20] = pcp as u8;
        }
        None => {
            write_at(out, 18, NO_VLAN.to_be_bytes());
            wildcards |= any::VLAN_PCP;
        }
    }
    wildcards |= match eth_type {
        IPV4 => {
            let dscp = packet.get(Field::IpDscp).map(|dscp| dscp << 2);
            let proto = packet.get(Field::IpProto);
            let (src, dst) = (packet.get(Field::Ipv4Src), packet.get(Field::Ipv4Dst));
            network10([dscp, proto, src, dst], out)
        }
        ARP => {
            let (src, dst) = (packet.get(Field::ArpSpa), packet.get(Field::ArpTpa));
            network10([None, packet.get(Field::ArpOp), src, dst], out)
        }
        _ => any::NETWORK,
    };
    let (src, dst) = if eth_type == IPV4 { transport10(packet) } else { (None, None) };
    wildcards |= if src.is_none() { any::TP_SRC } else { 0 } | if dst.is_none() { any::TP_DST } else { 0 };
    write_at(out, 36, (src.unwrap_or_default() as u16).to_be_bytes());
    write_at(out, 38, (dst.unwrap_or_default() as u16).to_be_bytes());
    write_at(out, 0, wildcards.to_be_bytes());
}

/// Writes type of service, protocol and addresses into a 1.0 match. Returns the wildcard bits of absent fields.
#[inline]
fn network10([tos, proto, src, dst]: [Option<u128>; 4], out: &mut [u8]) -> u32 {
    out[24] = tos.unwrap_or_default() as u8;
    out[25] = proto.unwrap_or_default() as u8;
    write_at(out, 28, (src.unwrap_or_default() as u32).to_be_bytes());
    write_at(out, 32, (dst.unwrap_or_default() as u32).to_be_bytes());
    let absent = |field: Option<u128>, bits| if field.is_none() { bits } else { 0 };
    absent(tos, any::TOS) | absent(proto, any::PROTO) | absent(src, any::SRC) | absent(dst, any::DST)
}

/// Returns the transport ports of an IPv4 packet, or type and code of ICMP. Version 1.0 stores both in the same fields.
#[inline]
fn transport10(packet: &Packet<'_>) -> (Option<u128>, Option<u128>) {
    match packet.get(Field::IpProto) {
        Some(TCP) => (packet.get(Field::TcpSrc), packet.get(Field::TcpDst)),
        Some(UDP) => (packet.get(Field::UdpSrc), packet.get(Field::UdpDst)),
        Some(ICMP) => (packet.get(Field::Icmpv4Type), packet.get(Field::Icmpv4Code)),
        _ => (None, None),
    }
}

impl FlowMod13 {
    /// Creates the flow-mod that matches all headers of this packet.
    #[inline]
    pub fn new(packet: &Packet<'_>, in_port: PortNo, rule: Rule) -> FlowMod13 {
        let mut flow_mod = FlowMod13 { bytes: [0; MAX_LENGTH13], length: MATCH13 + 4 };
        flow_mod.match13(packet, in_port);
        let match_length = (flow_mod.length - MATCH13) as u16;
        flow_mod.length = flow_mod.length.next_multiple_of(8);
        let instructions = flow_mod.length;
        let bytes = &mut flow_mod.bytes;
        write_at(bytes, 4, rule.xid.to_be_bytes());
        write_at(bytes, 26, rule.idle_timeout.to_be_bytes());
        write_at(bytes, 30, rule.priority.to_be_bytes());
        write_at(bytes, 32, rule.buffer_id.to_be_bytes());
        write_at(bytes, 36, [0xff; 8]);
        write_at(bytes, MATCH13, [0, 1]);
        write_at(bytes, MATCH13 + 2, match_length.to_be_bytes());
        if let Some(to) = rule.to {
            write_at(bytes, instructions, [0, 4, 0, 24, 0, 0, 0, 0, 0, 0, 0, 16]);
            write_at(bytes, instructions + 12, to.0.to_be_bytes());
            flow_mod.length += 24;
        }
        write_at(bytes, 0, [4, 14, 0, flow_mod.length as u8]);
        flow_mod
    }

    /// Returns the whole message.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn match13(&mut self, packet: &Packet<'_>, in_port: PortNo) {
        self.oxm::<4>(Field::InPort, Some(in_port.0.into()));
        self.oxm::<6>(Field::EthDst, packet.get(Field::EthDst));
        self.oxm::<6>(Field::EthSrc, packet.get(Field::EthSrc));
        let eth_type = packet.get(Field::EthType);
        self.oxm::<2>(Field::EthType, eth_type);
        self.oxm::<2>(Field::VlanVid, packet.get(Field::VlanVid));
        self.oxm::<1>(Field::VlanPcp, packet.get(Field::VlanPcp));
        match eth_type {
            Some(IPV4 | IPV6) => {
                self.oxm::<1>(Field::IpDscp, packet.get(Field::IpDscp));
                let proto = packet.get(Field::IpProto);
                self.oxm::<1>(Field::IpProto, proto);
                self.oxm::<4>(Field::Ipv4Src, packet.get(Field::Ipv4Src));
                self.oxm::<4>(Field::Ipv4Dst, packet.get(Field::Ipv4Dst));
                if eth_type == Some(IPV6) {
                    self.oxm::<16>(Field::Ipv6Src, packet.get(Field::Ipv6Src));
                    self.oxm::<16>(Field::Ipv6Dst, packet.get(Field::Ipv6Dst));
                }
                self.transport13(packet, proto.unwrap_or(u128::MAX));
            }
            Some(ARP) => {
                self.oxm::<2>(Field::ArpOp, packet.get(Field::ArpOp));
                self.oxm::<4>(Field::ArpSpa, packet.get(Field::ArpSpa));
                self.oxm::<4>(Field::ArpTpa, packet.get(Field::ArpTpa));
            }
            _ => {}
        }
    }

    fn transport13(&mut self, packet: &Packet<'_>, proto: u128) {
        let (first, second) = match proto {
            TCP => (Field::TcpSrc, Field::TcpDst),
            UDP => (Field::UdpSrc, Field::UdpDst),
            SCTP => (Field::SctpSrc, Field::SctpDst),
            ICMP => return self.icmp(packet, Field::Icmpv4Type, Field::Icmpv4Code),
            ICMPV6 => return self.icmp(packet, Field::Icmpv6Type, Field::Icmpv6Code),
            _ => return,
        };
        self.oxm::<2>(first, packet.get(first));
        self.oxm::<2>(second, packet.get(second));
    }

    fn icmp(&mut self, packet: &Packet<'_>, kind: Field, code: Field) {
        self.oxm::<1>(kind, packet.get(kind));
        self.oxm::<1>(code, packet.get(code));
    }

    /// Appends one field of `N` bytes, if the packet has it.
    #[inline]
    fn oxm<const N: usize>(&mut self, field: Field, value: Option<u128>) {
        let Some(value) = value else { return };
        write_at(&mut self.bytes, self.length, oxm::header(field, false).to_be_bytes());
        let value = value.to_be_bytes();
        self.bytes[self.length + 4..self.length + 4 + N].copy_from_slice(&value[16 - N..]);
        self.length += 4 + N;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maple_wire::msg::{FlowMod, FlowModCommand};
    use maple_wire::packet::build::{Frame, snap};
    use maple_wire::{Action, FieldSet, Instruction, Match, Message, Version};
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// The fields of an exact match, prerequisites before those that need them.
    const FIELDS: [Field; 25] = [
        Field::InPort,
        Field::EthDst,
        Field::EthSrc,
        Field::EthType,
        Field::VlanVid,
        Field::VlanPcp,
        Field::IpDscp,
        Field::IpProto,
        Field::Ipv4Src,
        Field::Ipv4Dst,
        Field::Ipv6Src,
        Field::Ipv6Dst,
        Field::TcpSrc,
        Field::TcpDst,
        Field::UdpSrc,
        Field::UdpDst,
        Field::SctpSrc,
        Field::SctpDst,
        Field::Icmpv4Type,
        Field::Icmpv4Code,
        Field::Icmpv6Type,
        Field::Icmpv6Code,
        Field::ArpOp,
        Field::ArpSpa,
        Field::ArpTpa,
    ];

    fn frames() -> Vec<Vec<u8>> {
        let ethernet = || Frame::ethernet([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let (c, d) = (Ipv6Addr::LOCALHOST, "fd00::7".parse::<Ipv6Addr>().unwrap());
        let mut frames = vec![
            ethernet().ipv4(a, b).tcp(1000, 80).build(),
            ethernet().ipv4(a, b).dscp(46).udp(53, 5353).payload(b"query"),
            ethernet().tag(0x8100, 7, 5).ipv4(a, b).tcp(1, 2).build(),
            ethernet().service_vlan(9).vlan(7).ipv4(a, b).tcp(1, 2).build(),
            ethernet().ipv4(a, b).echo_request(1, 2).build(),
            ethernet().ipv4(a, b).sctp(5, 6).build(),
            ethernet().ipv4(a, b).proto(89).payload(&[1, 2, 3]),
            ethernet().ipv4(a, b).fragment(0, true, 3).udp(1, 2).payload(&[0; 64]),
            ethernet().ipv4(a, b).fragment(64, false, 3).udp(1, 2).payload(&[0; 64]),
            ethernet().ipv6(c, d).tcp(1000, 443).build(),
            ethernet().ipv6(c, d).echo_request(1, 2).build(),
            ethernet().ipv6(c, d).extension(0, &[0; 6]).udp(7, 8).build(),
            ethernet().ipv6(c, d).fragment(64, false, 3).udp(1, 2).payload(&[0; 64]),
            ethernet().arp_request(a, b),
            ethernet().arp_reply(a, b),
            ethernet().mpls(&[5], &[1, 2, 3]),
            ethernet().raw(0x9999, &[1, 2, 3]),
            snap([2; 6], [4; 6], 0x0800, &[1, 2, 3]),
        ];
        // The frames, truncated in every header.
        let cut: Vec<Vec<u8>> = frames.iter().flat_map(|f| (14..f.len()).step_by(3).map(|n| f[..n].to_vec())).collect();
        frames.extend(cut);
        frames
    }

    /// Returns the flow-mod that the general codec writes for the packet's fields.
    fn general(packet: &Packet<'_>, rule: Rule, version: Version) -> FlowMod {
        let known = |field: &Field| version == Version::Of13 || FieldSet::OF10.contains(*field);
        let matching = FIELDS.iter().filter(|f| known(f)).fold(Match::any(), |m, f| match packet.get(*f) {
            Some(value) => m.exact(*f, value),
            None => m,
        });
        let instructions = rule.to.map(|to| Instruction::ApplyActions(vec![Action::output(to)]));
        let add = FlowModCommand::Add;
        FlowMod {
            idle_timeout: rule.idle_timeout,
            buffer_id: rule.buffer_id,
            ..FlowMod::new(add, rule.priority, matching, instructions.into_iter().collect())
        }
    }

    /// Returns the flow-mod with its match fields sorted: their order has no meaning.
    fn sorted(message: Message) -> Message {
        let Message::FlowMod(mut flow_mod) = message else { panic!("{message:?}") };
        flow_mod.matching.fields.sort_by_key(|field| format!("{field:?}"));
        Message::FlowMod(flow_mod)
    }

    #[test]
    fn flow_mods_are_those_of_the_general_codec() {
        for frame in frames() {
            let packet = Packet::new(&frame, 3);
            for to in [Some(PortNo(4)), Some(PortNo::LOCAL), None] {
                let rule = Rule { xid: 5, buffer_id: 6, idle_timeout: 7, priority: 8, to };
                let flow_mod = FlowMod13::new(&packet, PortNo(3), rule);
                let (header, message) = Message::decode(flow_mod.bytes()).unwrap();
                let expected = Message::FlowMod(general(&packet, rule, Version::Of13));
                assert_eq!((header.xid, sorted(message)), (5, sorted(expected)));

                let mut out = Replies::new(Version::Of10);
                flow_mod10(&frame, usize::MAX, 3, rule, &mut out);
                let (_, message) = Message::decode(out.bytes()).unwrap();
                let mut expected = general(&packet, rule, Version::Of10);
                if packet.get(Field::EthType) == Some(IPV6) {
                    // 1.0 matches nothing after the Ethernet type of IPv6.
                    expected.matching.fields.truncate(5 + usize::from(packet.get(Field::VlanPcp).is_some()));
                }
                let bytes = Message::FlowMod(expected).to_bytes(Version::Of10, 5).unwrap();
                assert_eq!(message, Message::decode(&bytes).unwrap().1, "{frame:02x?}");
            }
        }
    }
}
