//! The packet that a question means: its frame, and where it enters.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use maple_core::explain::EnteringPacket;
use maple_core::network::{HostInfo, Location, Mac, PortKind};
use maple_core::state::Snapshot;
use maple_wire::eth_type::value::{ARP, IPV4, IPV6};
use maple_wire::field::Prerequisite;
use maple_wire::field::VLAN_PRESENT;
use maple_wire::ip_proto::value::{ICMP, ICMPV6, SCTP, TCP, UDP};
use maple_wire::packet::build::frame_of;
use maple_wire::packet::text::parse_field_value;
use maple_wire::{Field, Packet, nearest};

use super::Explain;
use crate::names::Names;

/// The sender's and the receiver's port, where only the other is given.
const PORTS: [u128; 2] = [40_000, 80];

/// The error of a question that means no packet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct QuestionError {
    /// The part of the question, such as `fields.tcp_dst`.
    pub field: String,
    /// The reason.
    pub text: String,
}

impl fmt::Display for QuestionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.text)
    }
}

impl QuestionError {
    /// Creates an error about this part of a question.
    pub fn at(field: &str, text: impl Into<String>) -> QuestionError {
        QuestionError { field: field.to_owned(), text: text.into() }
    }
}

/// One end of a packet's path.
#[derive(Clone, Debug, Default)]
struct PacketEnd {
    mac: Option<Mac>,
    info: Option<HostInfo>,
    /// The address by which the end was given.
    ip: Option<IpAddr>,
    /// The port by which the end was given, or where its host is.
    at: Option<Location>,
}

/// Parses a field's name and value as people write them: `tcp_dst` and `80`. `vlan_vid` may be given without its bit
/// 12.
///
/// ```
/// use maple_controller::control::explain::field_value;
/// use maple_wire::Field;
///
/// assert_eq!(field_value("vlan_vid", "5"), Ok((Field::VlanVid, 0x1005)));
/// assert!(field_value("tcp_dest", "80").unwrap_err().contains("tcp_dst"));
/// ```
///
/// # Errors
/// A text that says what is wrong. For an unknown name it suggests the nearest known one.
pub fn field_value(name: &str, value: &str) -> Result<(Field, u128), String> {
    let Some(field) = Field::ALL.into_iter().find(|field| field.to_string() == name) else {
        let known = Field::ALL.map(|field| field.to_string());
        let near = nearest(name, known.iter().map(String::as_str)).map(|known| format!("; did you mean {known}?"));
        return Err(format!("{name:?} is not a field{}", near.unwrap_or_default()));
    };
    if field == Field::VlanVid && value == "none" {
        return Ok((field, 0));
    }
    let value = parse_field_value(field, value).map_err(|error| error.to_string())?;
    Ok((field, if field == Field::VlanVid { value | VLAN_PRESENT } else { value }))
}

/// Builds the packet of a question, and lists what had to be assumed.
pub(super) fn from_question(
    question: &Explain,
    state: &Snapshot,
    names: &Names,
    host: &dyn Fn(Mac) -> Option<HostInfo>,
) -> Result<(EnteringPacket, Vec<String>), QuestionError> {
    let mut assumed = Vec::new();
    let resolve = |field: &str, text: &Option<String>| {
        text.as_deref().map(|text| find_end(field, text, state, names, host)).transpose().map(Option::unwrap_or_default)
    };
    let (from, to) = (resolve("from", &question.from)?, resolve("to", &question.to)?);
    let frame = match &question.frame {
        Some(digits) => frame_from(digits)?,
        None => frame_of(&headers(question, &from, &to, state, &mut assumed)?),
    };
    let at = match (&question.at, from.at) {
        (Some(text), _) => names.location(text).map_err(|error| QuestionError::at("at", error))?,
        (None, Some(at)) => at,
        (None, None) => where_its_sender_is(&frame, question, state)?,
    };
    Ok((EnteringPacket { at, frame: frame.into() }, assumed))
}

fn frame_from(digits: &str) -> Result<Vec<u8>, QuestionError> {
    let digits: Vec<u8> = digits.bytes().filter(|c| !c.is_ascii_whitespace() && *c != b':').collect();
    let bytes = hex::decode(digits).ok().filter(|bytes| (14..=65_535).contains(&bytes.len()));
    bytes.ok_or_else(|| QuestionError::at("frame", "a frame is pairs of hex digits, from the Ethernet header on"))
}

/// Returns where the host is that has the frame's source address.
fn where_its_sender_is(frame: &[u8], question: &Explain, state: &Snapshot) -> Result<Location, QuestionError> {
    let source = Packet::new(frame, 0).switch_value(Field::EthSrc).unwrap_or_default();
    if let Some(host) = state.host(Mac::from_bits(source)) {
        return Ok(host.location);
    }
    match &question.from {
        Some(from) => Err(QuestionError::at(
            "from",
            format!("it is not known where {from} is: it has sent nothing yet; say where the packet enters (at)"),
        )),
        None => Err(QuestionError::at("from", "say who sends the packet, or where it enters (at)")),
    }
}

/// Finds a host or a port by its name, hardware address, IP address or place.
fn find_end(
    field: &str,
    text: &str,
    state: &Snapshot,
    names: &Names,
    host: &dyn Fn(Mac) -> Option<HostInfo>,
) -> Result<PacketEnd, QuestionError> {
    let of_mac = |mac: Mac, ip: Option<IpAddr>| {
        let info = host(mac);
        PacketEnd { mac: Some(mac), at: info.as_ref().map(|info| info.location), info, ip }
    };
    if let Ok(mac) = names.host(text) {
        return Ok(of_mac(mac, None));
    }
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok(match state.host_by_ip(ip) {
            Some(mac) => of_mac(mac, Some(ip)),
            None => PacketEnd { ip: Some(ip), ..PacketEnd::default() },
        });
    }
    if let Ok(at) = names.location(text) {
        if state.port(at).is_none() {
            return Err(QuestionError::at(field, format!("no switch has a port {text}")));
        }
        let mut there = state.hosts().filter(|(_, info)| info.location == at).map(|(mac, _)| *mac);
        let only = there.next().filter(|_| there.next().is_none());
        return Ok(PacketEnd { at: Some(at), ..only.map(|mac| of_mac(mac, None)).unwrap_or_default() });
    }
    Err(QuestionError::at(
        field,
        format!("{text:?} is neither a host (its name, hardware address or IP address) nor a port such as 1:3"),
    ))
}

/// Collects the fields of the packet: the given ones, those that they require, and the addresses of the hosts.
fn headers(
    question: &Explain,
    from: &PacketEnd,
    to: &PacketEnd,
    state: &Snapshot,
    assumed: &mut Vec<String>,
) -> Result<BTreeMap<Field, u128>, QuestionError> {
    let mut headers = BTreeMap::new();
    for (name, value) in &question.fields {
        let (field, value) =
            field_value(name, value).map_err(|error| QuestionError::at(&format!("fields.{name}"), error))?;
        if matches!(field, Field::InPort | Field::InPhyPort | Field::Metadata | Field::TunnelId) {
            return Err(QuestionError::at(&format!("fields.{name}"), "no packet has this; `at` says where it enters"));
        }
        headers.insert(field, value);
    }
    let given: Vec<Field> = headers.keys().copied().collect();
    let is_ipv6 = wants_ipv6(&headers, from, to);
    for field in given {
        require(field, is_ipv6, &mut headers)?;
    }
    addresses(question, from, to, state, &mut headers)?;
    network(from, to, is_ipv6, &mut headers, assumed);
    transport(&mut headers);
    Ok(headers)
}

/// Reports whether the packet is IPv6. Where the fields leave that open, the ends decide.
fn wants_ipv6(headers: &BTreeMap<Field, u128>, from: &PacketEnd, to: &PacketEnd) -> bool {
    if let Some(kind) = headers.get(&Field::EthType) {
        return *kind == IPV6;
    }
    let needs = |field: &Field, kind: u128| {
        let is_kind = |p: &Prerequisite| p.field == Field::EthType && p.value == kind;
        let alternatives = field.prerequisites();
        !alternatives.is_empty() && alternatives.iter().all(|alternative| alternative.iter().any(is_kind))
    };
    if let Some(field) = headers.keys().find(|field| needs(field, IPV4) || needs(field, IPV6)) {
        return needs(field, IPV6);
    }
    let is_v6 = |end: &PacketEnd| match (end.ip, &end.info) {
        (Some(ip), _) => Some(ip.is_ipv6()),
        (None, Some(info)) if info.ipv4.is_empty() && !info.ipv6.is_empty() => Some(true),
        _ => None,
    };
    is_v6(from).or_else(|| is_v6(to)).unwrap_or(false)
}

/// Adds the fields that must have certain values for this field to exist.
fn require(field: Field, is_ipv6: bool, headers: &mut BTreeMap<Field, u128>) -> Result<(), QuestionError> {
    let fits = |alternative: &&&[Prerequisite]| {
        alternative.iter().all(|need| headers.get(&need.field).is_none_or(|value| value & need.mask == need.value))
    };
    let is_v6 = |alternative: &&&[Prerequisite]| {
        alternative.iter().any(|need| need.field == Field::EthType && need.value == IPV6)
    };
    let mut possible: Vec<&&[Prerequisite]> = field.prerequisites().iter().filter(fits).collect();
    possible.sort_by_key(|alternative| is_v6(alternative) != is_ipv6);
    let Some(alternative) = possible.first() else {
        let text = "the packet can't have this field together with the others";
        return Err(QuestionError::at(&format!("fields.{field}"), text));
    };
    for p in alternative.iter() {
        headers.entry(p.field).or_insert(p.value);
    }
    Ok(())
}

/// Fills in the hardware addresses.
fn addresses(
    question: &Explain,
    from: &PacketEnd,
    to: &PacketEnd,
    state: &Snapshot,
    headers: &mut BTreeMap<Field, u128>,
) -> Result<(), QuestionError> {
    if let Some(mac) = from.mac {
        headers.entry(Field::EthSrc).or_insert(mac.bits());
    }
    if !headers.contains_key(&Field::EthSrc) {
        let at = from.at.filter(|at| state.port(*at).is_some_and(|port| port.kind == PortKind::Edge));
        let why = match (at, &question.from) {
            (Some(at), _) => format!("not exactly one host is at {at}: name one, or give eth_src"),
            (None, Some(from)) => format!("no host is known that is {from}: give eth_src"),
            (None, None) => "say who sends the packet: from, or the field eth_src".to_owned(),
        };
        return Err(QuestionError::at("from", why));
    }
    let is_arp_request =
        headers.get(&Field::EthType) == Some(&ARP) && headers.get(&Field::ArpOp).is_none_or(|op| *op == 1);
    let broadcast = is_arp_request.then_some(Mac([0xff; 6]));
    if let Some(mac) = broadcast.or(to.mac) {
        headers.entry(Field::EthDst).or_insert(mac.bits());
    }
    if !headers.contains_key(&Field::EthDst) {
        let why = match &question.to {
            Some(to) => format!("no host is known that is {to}: give eth_dst, such as its gateway's"),
            None => "say whom the packet is for: to, or the field eth_dst".to_owned(),
        };
        return Err(QuestionError::at("to", why));
    }
    Ok(())
}

/// Fills in the network protocol and its addresses.
fn network(
    from: &PacketEnd,
    to: &PacketEnd,
    is_ipv6: bool,
    headers: &mut BTreeMap<Field, u128>,
    assumed: &mut Vec<String>,
) {
    let kind = *headers.entry(Field::EthType).or_insert(if is_ipv6 { IPV6 } else { IPV4 });
    let pairs = match kind {
        IPV4 => [Field::Ipv4Src, Field::Ipv4Dst],
        IPV6 => [Field::Ipv6Src, Field::Ipv6Dst],
        ARP => [Field::ArpSpa, Field::ArpTpa],
        _ => return,
    };
    for (field, end) in pairs.into_iter().zip([from, to]) {
        if headers.contains_key(&field) {
            continue;
        }
        match address(end, kind == IPV6) {
            Some(bits) => drop(headers.insert(field, bits)),
            None => {
                let nothing = if kind == IPV6 { "::".to_owned() } else { Ipv4Addr::UNSPECIFIED.to_string() };
                assumed.push(format!("{field} is {nothing}: no address is known for it"));
                headers.insert(field, 0);
            }
        }
    }
    if kind == ARP {
        headers.entry(Field::ArpOp).or_insert(1);
        if let Some(source) = headers.get(&Field::EthSrc).copied() {
            headers.entry(Field::ArpSha).or_insert(source);
        }
    }
}

/// Returns an address of an end: IPv6 or IPv4.
fn address(end: &PacketEnd, is_ipv6: bool) -> Option<u128> {
    match end.ip {
        Some(IpAddr::V4(ip)) if !is_ipv6 => return Some(u128::from(u32::from(ip))),
        Some(IpAddr::V6(ip)) if is_ipv6 => return Some(u128::from(ip)),
        _ => {}
    }
    let info = end.info.as_ref()?;
    if is_ipv6 {
        info.ipv6.first().map(|ip| u128::from(*ip))
    } else {
        info.ipv4.first().map(|ip| u128::from(u32::from(*ip)))
    }
}

/// Fills in the transport protocol and its ports: an echo request, if none is given.
fn transport(headers: &mut BTreeMap<Field, u128>) {
    let kind = headers.get(&Field::EthType).copied();
    let (echo, request) = match kind {
        Some(IPV4) => (ICMP, Field::Icmpv4Type),
        Some(IPV6) => (ICMPV6, Field::Icmpv6Type),
        _ => return,
    };
    let proto = *headers.entry(Field::IpProto).or_insert(echo);
    let ports = match proto {
        TCP => [Field::TcpSrc, Field::TcpDst],
        UDP => [Field::UdpSrc, Field::UdpDst],
        SCTP => [Field::SctpSrc, Field::SctpDst],
        proto if proto == echo => {
            headers.entry(request).or_insert(if kind == Some(IPV4) { 8 } else { 128 });
            return;
        }
        _ => return,
    };
    for (field, port) in ports.into_iter().zip(PORTS) {
        headers.entry(field).or_insert(port);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use maple_core::ShardId;
    use maple_core::network::PortInfo;
    use maple_core::state::{Store, SwitchInfo, Write};
    use maple_core::trace::Cond;
    use maple_wire::packet::text::summary;
    use maple_wire::{Constraint, Dpid, PortNo, Version};

    use super::*;
    use crate::names::Named;

    const H1: Mac = Mac([0, 0, 0, 0, 0, 1]);
    const H2: Mac = Mac([0, 0, 0, 0, 0, 2]);

    /// Creates a switch with two hosts, each with an IPv4 and an IPv6 address.
    fn network() -> (Arc<Store>, Names) {
        let store = Store::new();
        let info = SwitchInfo { shard: ShardId(0), version: Version::Of13 };
        let port = |n| {
            let at = Location::new(Dpid(1), PortNo(n));
            Write::Port { at, info: Some(PortInfo { up: true, kind: PortKind::Edge }) }
        };
        let host = |mac, port, ipv4: &[[u8; 4]], ipv6: &[u16]| {
            let location = Location::new(Dpid(1), PortNo(port));
            let ipv6 = ipv6.iter().map(|n| [0xfd00, 0, 0, 0, 0, 0, 0, *n].into()).collect();
            let info = HostInfo { location, ipv4: ipv4.iter().map(|ip| (*ip).into()).collect(), ipv6 };
            Write::Host { mac, info: Some(info) }
        };
        store.update(|_| {
            vec![
                Write::Switch { dpid: Dpid(1), info: Some(info) },
                port(1),
                port(2),
                port(3),
                host(H1, 1, &[[10, 0, 0, 1]], &[1]),
                host(H2, 2, &[[10, 0, 0, 2]], &[2]),
            ]
        });
        let mut names = Names::new();
        names.add("h1", Named::Host(H1)).expect("a name");
        names.add("h2", Named::Host(H2)).expect("a name");
        (store, names)
    }

    fn packet(from: &str, to: &str, fields: &[(&str, &str)]) -> Result<(Location, String, Vec<String>), QuestionError> {
        let (store, names) = network();
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let question = Explain { from: text(from), to: text(to), fields, ..Explain::default() };
        let state = store.snapshot();
        let (packet, assumed) = question.packet(&state, &names, &|mac| state.host(mac).cloned())?;
        Ok((packet.at, summary(&Packet::new(&packet.frame, packet.at.port.0)), assumed))
    }

    fn said(from: &str, to: &str, fields: &[(&str, &str)]) -> String {
        packet(from, to, fields).map_or_else(|error| error.to_string(), |(_, summary, _)| summary)
    }

    #[test]
    fn unstated_fields_are_taken_from_the_known_network() {
        assert_eq!(said("h1", "h2", &[]), "icmp 10.0.0.1 > 10.0.0.2 echo request");
        assert_eq!(said("10.0.0.1", "00:00:00:00:00:02", &[("tcp_dst", "80")]), "tcp 10.0.0.1:40000 > 10.0.0.2:80");
        assert_eq!(said("1:1", "h2", &[("udp_src", "53")]), "udp 10.0.0.1:53 > 10.0.0.2:80");
        assert_eq!(said("h1", "h2", &[("vlan_vid", "5"), ("tcp_dst", "1")]), "vlan 5 tcp 10.0.0.1:40000 > 10.0.0.2:1");
        assert_eq!(said("h1", "h2", &[("ipv4_src", "10.9.9.9")]), "icmp 10.9.9.9 > 10.0.0.2 echo request");
        assert_eq!(
            said("h1", "h2", &[("tcp_dst", "22"), ("ipv6_src", "fd00::9")]),
            "tcp [fd00::9]:40000 > [fd00::2]:22"
        );
        assert_eq!(said("h1", "fd00::2", &[("tcp_dst", "22")]), "tcp [fd00::1]:40000 > [fd00::2]:22");
        assert_eq!(said("h1", "h2", &[("eth_type", "0x806")]), "arp who-has 10.0.0.2 tell 10.0.0.1");
        let (at, _, assumed) = packet("h1", "", &[("eth_dst", "00:00:00:00:00:09")]).expect("a packet");
        assert_eq!((at.port.0, assumed.len()), (1, 1), "the address of nobody is not known: {assumed:?}");
    }

    #[test]
    fn a_tag_with_the_id_0_is_not_the_absence_of_a_tag() {
        for value in [0, VLAN_PRESENT, VLAN_PRESENT | 5] {
            let printed = maple_core::trace::field_value_text(Field::VlanVid, value);
            assert_eq!(field_value("vlan_vid", &printed), Ok((Field::VlanVid, value)), "{printed}");
        }
    }

    proptest::proptest! {
        #[test]
        fn field_values_are_accepted_as_they_are_printed(value: u128, at in 0..Field::ALL.len()) {
            let field = Field::ALL[at];
            let value = value & field.full_mask() | if field == Field::VlanVid { VLAN_PRESENT } else { 0 };
            let printed = Cond::default().and(Constraint::exact(field, value)).to_string();
            let (name, text) = printed.split_once('=').expect("a field and its value");
            assert_eq!(field_value(name, text), Ok((field, value)), "{printed}");
        }
    }

    #[test]
    fn a_place_may_be_the_switch_s_own_port() {
        let (store, names) = network();
        let port = Location::new(Dpid(1), PortNo::LOCAL);
        store.update(|_| vec![Write::Port { at: port, info: Some(PortInfo { up: true, kind: PortKind::Edge }) }]);
        let state = store.snapshot();
        let ask = |from: &str, at: Option<&str>| {
            let fields = [("eth_src".to_owned(), "00:00:00:00:00:01".to_owned())].into();
            let (from, to, at) = (Some(from.to_owned()), Some("h2".to_owned()), at.map(str::to_owned));
            let question = Explain { from, to, at, fields, ..Explain::default() };
            question.packet(&state, &names, &|mac| state.host(mac).cloned()).map(|(packet, _)| packet.at)
        };
        assert_eq!(ask("1:LOCAL", None), Ok(port));
        assert_eq!(ask("h1", Some("0000000000000001:LOCAL")), Ok(port));
    }

    #[test]
    fn an_invalid_question_names_the_wrong_field() {
        let faults = [
            ("h3", "h2", &[][..], "from: \"h3\" is neither a host"),
            ("1:9", "h2", &[], "from: no switch has a port 1:9"),
            ("1:3", "h2", &[], "from: not exactly one host is at"),
            ("", "h2", &[], "from: say who sends"),
            ("h1", "", &[], "to: say whom the packet is for"),
            ("h1", "8.8.8.8", &[], "to: no host is known that is 8.8.8.8"),
            ("00:00:00:00:00:09", "h2", &[], "from: it is not known where 00:00:00:00:00:09 is"),
            ("h1", "h2", &[("tcp_dts", "1")], "fields.tcp_dts: \"tcp_dts\" is not a field; did you mean tcp_dst?"),
            ("h1", "h2", &[("tcp_dst", "70000")], "fields.tcp_dst: tcp_dst: `70000`"),
            ("h1", "h2", &[("tcp_dst", "1"), ("udp_dst", "2")], "fields.udp_dst: the packet can't have this field"),
            ("h1", "h2", &[("in_port", "1")], "fields.in_port: no packet has this"),
        ];
        for (from, to, fields, wanted) in faults {
            let error = packet(from, to, fields).expect_err(wanted).to_string();
            assert!(error.starts_with(wanted), "{error}");
        }
        let names: BTreeSet<String> = Field::ALL.into_iter().map(|field| field.to_string()).collect();
        assert!(names.contains("tcp_dst"), "fields have the names that policies use");
    }

    #[test]
    fn a_frame_in_hex_digits_is_taken_as_it_is() {
        let (store, names) = network();
        let state = store.snapshot();
        let ask = |frame: &str| {
            let question = Explain { frame: Some(frame.to_owned()), ..Explain::default() };
            question.packet(&state, &names, &|mac| state.host(mac).cloned())
        };
        let (packet, _) = ask("000000000002 000000000001 88b5 0102").expect("a frame");
        assert_eq!((packet.at.port.0, packet.frame.len()), (1, 16));
        assert!(ask("0000000000020000000000018").is_err() && ask("0102").is_err() && ask("zz").is_err());
        assert!(ask("00000000000200000000000788b5").is_err_and(|error| error.field == "from"));
    }
}
