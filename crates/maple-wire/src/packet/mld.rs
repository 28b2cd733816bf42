//! Multicast listener discovery: versions 1 (RFC 2710) and 2 (RFC 3810).

use std::net::{IpAddr, Ipv6Addr};

use super::build::multicast_mac;
use super::bytes::{u8_at, u128_at};
use super::checksum::Sum;
use super::membership::{Belonging, Membership, Sources, records};
use super::{Frame, NetworkKind, Packet, ipv6};
use crate::ip_proto;

/// ICMPv6 type of a query.
pub const QUERY: u8 = 130;
/// ICMPv6 type of a report of version 1.
pub const REPORT: u8 = 131;
/// ICMPv6 type of a host that leaves a group.
pub const DONE: u8 = 132;
/// ICMPv6 type of a report of version 2.
pub const REPORT_V2: u8 = 143;

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// The hop-by-hop option "router alert" (RFC 2711), padded.
const ROUTER_ALERT: [u8; 6] = [5, 2, 0, 0, 1, 0];

/// Reads a packet's message about groups. `None` if the packet is not an MLD message of this link: hop limit 1 and a
/// router alert, from a link-local address or from none. Also `None` if it is cut off, or its checksum is wrong.
pub fn read(packet: &Packet) -> Option<Membership> {
    let network = packet.network();
    if network.kind() != NetworkKind::V6 || !network.carries(ip_proto::ICMPV6) || network.is_fragment() {
        return None;
    }
    let message = packet.frame().get(network.transport()..network.end())?;
    let addresses = network.start() + ipv6::HEADER_LEN - 32;
    let src = Ipv6Addr::from(u128_at(packet.frame(), addresses)?);
    let from_here = src.is_unspecified() || src.segments()[0] & 0xffc0 == 0xfe80;
    let is_whole = Sum::default()
        .with_pseudo_header(
            packet.frame().get(addresses..addresses + 16)?,
            packet.frame().get(addresses + 16..addresses + 32)?,
            ip_proto::ICMPV6,
            message.len(),
        )
        .with(message)
        .finish()
        == 0;
    let near = u8_at(packet.frame(), network.start() + ipv6::HOP_LIMIT)? == 1;
    let alerts = alerts_routers(packet.frame().get(network.start()..)?);
    if from_here && is_whole && near && alerts { parse(message) } else { None }
}

/// Reports whether the first extension header contains a router alert for MLD.
fn alerts_routers(packet: &[u8]) -> bool {
    let options = ipv6::HEADER_LEN;
    let len = match (u8_at(packet, ipv6::NEXT_HEADER), u8_at(packet, options + 1)) {
        (Some(ipv6::HOP_BY_HOP), Some(units)) => usize::from(units) * 8 + 8,
        _ => return false,
    };
    let mut rest = packet.get(options + 2..options + len).unwrap_or_default();
    while let [kind, after @ ..] = rest {
        if rest.starts_with(&ROUTER_ALERT[..4]) {
            return true;
        }
        rest = match (kind, after.first()) {
            // One byte of padding is the only option without a length.
            (0, _) => after,
            (_, Some(len)) => after.get(1 + usize::from(*len)..).unwrap_or_default(),
            (_, None) => &[],
        };
    }
    false
}

/// Reads a message about groups, from its ICMPv6 type on. Its checksum is not checked.
pub fn parse(message: &[u8]) -> Option<Membership> {
    let kind = *message.first()?;
    if kind == REPORT_V2 {
        return records::<16>(message.get(6..)?, |bytes| IpAddr::V6(bytes.into())).map(Membership::Report);
    }
    let group = Ipv6Addr::from(u128_at(message, 8)?);
    match kind {
        QUERY => Some(Membership::Query((!group.is_unspecified()).then_some(IpAddr::V6(group)))),
        REPORT | DONE if group.is_multicast() => {
            let wants = if kind == REPORT { Sources::All } else { Sources::Only(Vec::new()) };
            Some(Membership::Report(vec![Belonging { group: IpAddr::V6(group), wants }]))
        }
        _ => None,
    }
}

/// Returns a query of version 1, which hosts of version 2 answer too: which hosts belong to this group, or to any.
/// `response` is the time for an answer, in milliseconds. The source is the link-local address of `src`.
pub fn query(src: [u8; 6], group: Option<Ipv6Addr>, response: u16) -> Vec<u8> {
    frame(src, group.unwrap_or(ALL_NODES), QUERY, response, group.unwrap_or(Ipv6Addr::UNSPECIFIED))
}

/// Returns a report of version 1 that a host belongs to a group, or its message that it leaves the group.
pub fn report(src: [u8; 6], group: Ipv6Addr, joined: bool) -> Vec<u8> {
    let (kind, to) = if joined { (REPORT, group) } else { (DONE, ALL_ROUTERS) };
    frame(src, to, kind, 0, group)
}

/// Returns the link-local address derived from a hardware address (RFC 4291, appendix A).
pub fn link_local([a, b, c, d, e, f]: [u8; 6]) -> Ipv6Addr {
    Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

fn frame(src: [u8; 6], to: Ipv6Addr, kind: u8, response: u16, group: Ipv6Addr) -> Vec<u8> {
    let from = link_local(src);
    let mut message = vec![kind, 0, 0, 0];
    message.extend(response.to_be_bytes());
    message.extend([0, 0]);
    message.extend(group.octets());
    let sum = Sum::default()
        .with_pseudo_header(&from.octets(), &to.octets(), ip_proto::ICMPV6, message.len())
        .with(&message)
        .finish();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let ip = Frame::ethernet(multicast_mac(to), src).ipv6(from, to).ttl(1).options(&ROUTER_ALERT);
    ip.proto(ip_proto::ICMPV6).payload(&message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const GROUP: Ipv6Addr = Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 0x1234);

    #[test]
    fn mld_messages_are_read_back() {
        let read = |frame: &[u8]| read(&Packet::new(frame, 1));
        assert_eq!(read(&query(HOST, None, 10_000)), Some(Membership::Query(None)));
        assert_eq!(read(&query(HOST, Some(GROUP), 1000)), Some(Membership::Query(Some(GROUP.into()))));
        for joined in [true, false] {
            let mut frame = report(HOST, GROUP, joined);
            let wants = if joined { Sources::All } else { Sources::Only(vec![]) };
            let belonging = Belonging { group: IpAddr::V6(GROUP), wants };
            assert_eq!(read(&frame), Some(Membership::Report(vec![belonging])));
            assert_eq!(read(&frame[..frame.len() - 1]), None, "cut off");
            *frame.last_mut().unwrap() ^= 1;
            assert_eq!(read(&frame), None, "a wrong checksum");
            *frame.last_mut().unwrap() ^= 1;
            let mut far = frame.clone();
            far[14 + ipv6::HOP_LIMIT] = 2;
            assert_eq!(read(&far), None, "from beyond a router");
            // The router alert follows the extension header's two bytes.
            frame[14 + ipv6::HEADER_LEN + 2] = 1;
            assert_eq!(read(&frame), None, "without a router alert");
        }
    }

    #[test]
    fn version_2_says_which_sources_are_wanted() {
        let source = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
        let record = |kind: u8| [&[kind, 0, 0, 0][..], &GROUP.octets()].concat();
        let block = [&[6, 0, 0, 1][..], &GROUP.octets(), &source.octets()].concat();
        let message = [&[REPORT_V2, 0, 0, 0, 0, 0, 0, 3][..], &record(4), &record(3), &block].concat();
        let all = [Sources::All, Sources::Only(vec![]), Sources::Not(vec![source.into()])];
        let all = all.map(|wants| Belonging { group: IpAddr::V6(GROUP), wants });
        assert_eq!(parse(&message), Some(Membership::Report(all.to_vec())));
        assert_eq!(parse(&message[..message.len() - 1]), None);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            kind in proptest::sample::select(vec![QUERY, REPORT, DONE, REPORT_V2]),
            body in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..120),
        ) {
            parse(&[&[kind][..], &body].concat());
            read(&Packet::new(&Frame::ethernet(HOST, HOST).raw(0x86dd, &body), 1));
        }
    }
}
