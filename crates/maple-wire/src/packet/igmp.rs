//! IGMP: versions 1 (RFC 1112), 2 (RFC 2236) and 3 (RFC 3376).

use std::net::{IpAddr, Ipv4Addr};

use super::bytes::u8_at;
use super::membership::{Belonging, Membership, Sources, records};
use super::{Frame, NetworkKind, Packet, checksum, ipv4};
use crate::ip_proto;

const QUERY: u8 = 0x11;
const REPORT_V1: u8 = 0x12;
const REPORT_V2: u8 = 0x16;
const LEAVE: u8 = 0x17;
const REPORT_V3: u8 = 0x22;

/// The destination of general queries: all hosts of a link.
const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// The IPv4 option "router alert" (RFC 2113), which every IGMP message has.
const ROUTER_ALERT: [u8; 4] = [0x94, 4, 0, 0];

/// Reads a packet's message about groups. `None` if the packet is not an IGMP message of this link (time to live 1), if
/// it is cut off, or if its checksum is wrong.
pub fn read(packet: &Packet) -> Option<Membership> {
    let network = packet.network();
    if network.kind() != NetworkKind::V4 || !network.carries(ip_proto::IGMP) || network.is_fragment() {
        return None;
    }
    if u8_at(packet.frame(), network.start() + ipv4::TTL)? != 1 {
        return None;
    }
    parse(packet.frame().get(network.transport()..network.end())?)
}

/// Reads a message about groups, from its type on. `None` if it is cut off, or if its checksum is wrong.
pub fn parse(message: &[u8]) -> Option<Membership> {
    let ([kind, _, _, _, a, b, c, d], _) = message.split_first_chunk::<8>()?;
    if checksum::internet(message) != 0 {
        return None;
    }
    let group = Ipv4Addr::new(*a, *b, *c, *d);
    let belongs = |joined| {
        let wants = if joined { Sources::All } else { Sources::Only(Vec::new()) };
        let belonging = Belonging { group: IpAddr::V4(group), wants };
        group.is_multicast().then(|| Membership::Report(vec![belonging]))
    };
    match *kind {
        QUERY => Some(Membership::Query((!group.is_unspecified()).then_some(IpAddr::V4(group)))),
        REPORT_V1 | REPORT_V2 => belongs(true),
        LEAVE => belongs(false),
        REPORT_V3 => records::<4>(&message[6..], |bytes| IpAddr::V4(bytes.into())).map(Membership::Report),
        _ => None,
    }
}

/// Returns a query of version 2: which hosts belong to this group, or to any. `response` is the time for an answer, in
/// tenths of a second. Hosts of version 3 also answer such a query, in a form that every version reads. The source
/// address 0.0.0.0 marks a querier that is not a router. Routers ignore it when they elect their querier.
pub fn query(src: [u8; 6], group: Option<Ipv4Addr>, response: u8) -> Vec<u8> {
    let (to, asked) = (group.unwrap_or(ALL_HOSTS), group.unwrap_or(Ipv4Addr::UNSPECIFIED));
    frame(src, Ipv4Addr::UNSPECIFIED, to, &message(QUERY, response, &asked.octets()))
}

/// Returns a report of version 2 that `host` belongs to a group, or its message that it leaves the group.
pub fn report(src: [u8; 6], host: Ipv4Addr, group: Ipv4Addr, joined: bool) -> Vec<u8> {
    let query = message(if joined { REPORT_V2 } else { LEAVE }, 0, &group.octets());
    let to = if joined { group } else { Ipv4Addr::new(224, 0, 0, 2) };
    frame(src, host, to, &query)
}

fn frame(src: [u8; 6], from: Ipv4Addr, to: Ipv4Addr, message: &[u8]) -> Vec<u8> {
    let [_, b, c, d] = to.octets();
    Frame::ethernet([0x01, 0, 0x5e, b & 0x7f, c, d], src)
        .ipv4(from, to)
        .ttl(1)
        .options(&ROUTER_ALERT)
        .proto(ip_proto::IGMP)
        .payload(message)
}

fn message(kind: u8, code: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = [&[kind, code, 0, 0], body].concat();
    let sum = checksum::internet(&bytes).to_be_bytes();
    bytes[2..4].copy_from_slice(&sum);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 1, 1);

    fn belonging(group: [u8; 4], wants: Sources) -> Belonging {
        Belonging { group: IpAddr::V4(group.into()), wants }
    }

    fn sources(last: &[u8]) -> Vec<IpAddr> {
        last.iter().map(|last| IpAddr::V4([10, 0, 0, *last].into())).collect()
    }

    #[test]
    fn igmp_messages_are_read_back() {
        let read = |frame: &[u8]| read(&Packet::new(frame, 1));
        assert_eq!(read(&query(HOST, None, 100)), Some(Membership::Query(None)));
        assert_eq!(read(&query(HOST, Some(GROUP), 10)), Some(Membership::Query(Some(GROUP.into()))));
        for joined in [true, false] {
            let frame = report(HOST, [10, 0, 0, 1].into(), GROUP, joined);
            let wants = if joined { Sources::All } else { Sources::Only(vec![]) };
            assert_eq!(read(&frame), Some(Membership::Report(vec![belonging([239, 1, 1, 1], wants)])));
            assert_eq!(read(&frame[..frame.len() - 1]), None, "cut off");
            let mut far = frame.clone();
            far[14 + ipv4::TTL] = 2;
            assert_eq!(read(&far), None, "from beyond a router");
        }
    }

    #[test]
    fn version_3_says_which_sources_are_wanted() {
        let body = [
            &[0, 0, 0, 6][..],
            &[4, 0, 0, 0, 239, 1, 1, 1],
            &[3, 0, 0, 0, 239, 1, 1, 2],
            &[5, 1, 0, 1, 239, 1, 1, 3, 10, 0, 0, 1, 0xaa, 0xbb, 0xcc, 0xdd],
            &[6, 0, 0, 2, 239, 1, 1, 4, 10, 0, 0, 1, 10, 0, 0, 2],
            &[3, 0, 0, 1, 239, 1, 1, 5, 10, 0, 0, 3],
            &[1, 0, 0, 1, 239, 1, 1, 6, 10, 0, 0, 4],
        ]
        .concat();
        let mut bytes = message(REPORT_V3, 0, &body);
        let all = [
            Sources::All,
            Sources::Only(vec![]),
            Sources::Also(sources(&[1])),
            Sources::Not(sources(&[1, 2])),
            Sources::Only(sources(&[3])),
            Sources::Also(sources(&[4])),
        ];
        let all: Vec<_> = (1..).zip(all).map(|(last, wants)| belonging([239, 1, 1, last], wants)).collect();
        assert_eq!(parse(&bytes), Some(Membership::Report(all)));
        bytes[7] ^= 1;
        assert_eq!(parse(&bytes), None, "a wrong checksum");
        assert_eq!(parse(&message(REPORT_V3, 0, &[0, 0, 0, 2, 4, 0, 0, 0, 239, 1, 1, 1])), None, "a record too few");
        assert_eq!(parse(&message(REPORT_V2, 0, &[10, 0, 0, 1])), None, "no group");
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(body in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..80)) {
            parse(&body);
            parse(&message(REPORT_V3, 0, &body));
            let whole = frame(HOST, GROUP, GROUP, &message(REPORT_V3, 0, &body));
            for end in 0..whole.len() {
                proptest::prop_assert_eq!(read(&Packet::new(&whole[..end], 1)), None);
            }
        }
    }
}
