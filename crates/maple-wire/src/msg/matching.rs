//! The match structure of both versions (1.0 §5.2.3, 1.3 §7.2.3).
//!
//! OpenFlow 1.0 has twelve fields in 40 fixed bytes. `dl_type` and `nw_proto` determine the meaning of `nw_*` and
//! `tp_*`, which are read as the OXM fields that they stand for. Parts that the specification ignores are not read, so
//! writing such a match again may produce other (equivalent) bytes.

use super::Version;
use super::bytes::{Put, Reader, array_at, at_least, number, padded, u16_at, u32_at, unsupported};
use super::oxm::{self, Entries};
use super::wire::Wire;
use crate::error::{Error, Result};
use crate::eth_type::value::{ARP, IPV4, IPV6};
use crate::field::VLAN_PRESENT;
use crate::field::{Field, FieldSet};
use crate::flow::{Constraint, Match, MatchField};
use crate::ip_proto::value::{ICMP, ICMPV6, SCTP, TCP, UDP};
use crate::port::PortNo;

/// Offsets in `ofp_match` of 1.0.
mod offset10 {
    pub const WILDCARDS: usize = 0;
    pub const IN_PORT: usize = 4;
    pub const DL_SRC: usize = 6;
    pub const DL_DST: usize = 12;
    pub const DL_VLAN: usize = 18;
    pub const DL_VLAN_PCP: usize = 20;
    pub const DL_TYPE: usize = 22;
    pub const NW_TOS: usize = 24;
    pub const NW_PROTO: usize = 25;
    pub const NW_SRC: usize = 28;
    pub const NW_DST: usize = 32;
    pub const TP_SRC: usize = 36;
    pub const TP_DST: usize = 38;
    pub const END: usize = 40;
}

/// Offsets in `ofp_match` of 1.3.
mod offset13 {
    pub const TYPE: usize = 0;
    pub const LENGTH: usize = 2;
    pub const FIELDS: usize = 4;
}

/// The bits of 1.0's wildcards (`OFPFW_*`).
mod wildcard {
    pub const IN_PORT: u32 = 1 << 0;
    pub const DL_VLAN: u32 = 1 << 1;
    pub const DL_SRC: u32 = 1 << 2;
    pub const DL_DST: u32 = 1 << 3;
    pub const DL_TYPE: u32 = 1 << 4;
    pub const NW_PROTO: u32 = 1 << 5;
    pub const TP_SRC: u32 = 1 << 6;
    pub const TP_DST: u32 = 1 << 7;
    pub const NW_SRC_SHIFT: u32 = 8;
    pub const NW_DST_SHIFT: u32 = 14;
    pub const DL_VLAN_PCP: u32 = 1 << 20;
    pub const NW_TOS: u32 = 1 << 21;
    /// All bits, with 32 for the wildcarded bits of an address, as Open vSwitch writes them. (`OFPFW_ALL` has 63
    /// there.)
    pub const ALL: u32 = ((1 << 22) - 1) & !(31 << NW_SRC_SHIFT) & !(31 << NW_DST_SHIFT);
}

/// The type of a match that consists of OXM entries (`OFPMT_OXM`).
const TYPE_OXM: u16 = 1;
/// The `dl_vlan` of 1.0 for packets without a tag.
const VLAN_NONE: u16 = 0xffff;

/// A match of a request when it is written. In 1.0 it must not be about IPv6: a switch that does not know IPv6 would
/// read it as a wider match.
impl Wire for Match {
    const MIN: [usize; 2] = [offset10::END, 8];

    fn read(reader: &mut Reader<'_>) -> Result<Match> {
        if reader.is_10() {
            let matching = Of10(reader.array()?);
            let known = FieldSet::OF10_PLACES.iter().filter_map(|field| matching.get(field));
            return Ok(Match { fields: known.map(MatchField::Known).collect() });
        }
        let (entries, length) = entries13(reader.ahead())?;
        reader.take(length)?;
        Ok(Match { fields: entries.map(|entry| Ok(entry?.to_match_field())).collect::<Result<_>>()? })
    }

    fn write(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        write_as(self, version, false, out)
    }
}

/// Returns the entries of the 1.3 match at the start of `bytes`, and the number of bytes that the match takes, padding
/// included. The entries are checked when they are iterated over.
///
/// # Errors
/// [`Error::Truncated`] if the match is cut off, [`Error::BadValue`] for another type than OXM, [`Error::BadLength`]
/// for an impossible length.
#[inline]
pub(super) fn entries13(bytes: &[u8]) -> Result<(Entries<'_>, usize)> {
    at_least("match", bytes, offset13::FIELDS)?;
    let kind = u16_at(bytes, offset13::TYPE);
    if kind != TYPE_OXM {
        return Err(Error::BadValue { what: "match type", value: kind.into() });
    }
    let length = usize::from(u16_at(bytes, offset13::LENGTH));
    if length < offset13::FIELDS {
        return Err(Error::BadLength { what: "match", length });
    }
    at_least("match", bytes, padded(length))?;
    Ok((Entries::new(&bytes[offset13::FIELDS..length]), padded(length)))
}

/// A match of 1.0, whose fields are read one by one.
struct Of10([u8; offset10::END]);

impl Of10 {
    /// Returns the condition on `field`.
    ///
    /// 1.0 does not know IPv6. Here the fields that IPv4 and IPv6 share are conditions on both, as in Open vSwitch.
    fn get(&self, field: Field) -> Option<Constraint> {
        use wildcard as w;
        let exact = |bit: u32, value: u128| self.cares(bit).then(|| Constraint::exact(field, value));
        // Type and code of ICMP have 16 bits here. A value of more than 8 bits fits no packet.
        let whole =
            |bit: u32, value: u128| self.cares(bit).then(|| Constraint { field, value, mask: field.full_mask() });
        let (ipv4, arp) = (self.eth_type() == Some(IPV4), self.eth_type() == Some(ARP));
        let ip = ipv4 || self.eth_type() == Some(IPV6);
        let wide = |at| u128::from(u16_at(&self.0, at));
        match field {
            Field::InPort => exact(w::IN_PORT, PortNo::from_of10(u16_at(&self.0, offset10::IN_PORT)).0.into()),
            Field::EthSrc => exact(w::DL_SRC, number(&self.0[offset10::DL_SRC..offset10::DL_DST])),
            Field::EthDst => exact(w::DL_DST, number(&self.0[offset10::DL_DST..offset10::DL_VLAN])),
            Field::EthType => exact(w::DL_TYPE, wide(offset10::DL_TYPE)),
            Field::VlanVid => exact(w::DL_VLAN, self.vlan_vid()),
            Field::VlanPcp if self.untagged() => None,
            Field::VlanPcp => exact(w::DL_VLAN_PCP, u128::from(self.0[offset10::DL_VLAN_PCP])),
            Field::IpDscp if ip => exact(w::NW_TOS, u128::from(self.0[offset10::NW_TOS] >> 2)),
            Field::IpProto if ip => exact(w::NW_PROTO, u128::from(self.0[offset10::NW_PROTO])),
            Field::ArpOp if arp => exact(w::NW_PROTO, u128::from(self.0[offset10::NW_PROTO])),
            Field::Ipv4Src if ipv4 => self.address(field, offset10::NW_SRC, w::NW_SRC_SHIFT),
            Field::Ipv4Dst if ipv4 => self.address(field, offset10::NW_DST, w::NW_DST_SHIFT),
            Field::ArpSpa if arp => self.address(field, offset10::NW_SRC, w::NW_SRC_SHIFT),
            Field::ArpTpa if arp => self.address(field, offset10::NW_DST, w::NW_DST_SHIFT),
            _ if Some(field) == self.transport(0) => whole(w::TP_SRC, wide(offset10::TP_SRC)),
            _ if Some(field) == self.transport(1) => whole(w::TP_DST, wide(offset10::TP_DST)),
            _ => None,
        }
    }

    /// Reports whether there is a condition on the field of this wildcard bit.
    fn cares(&self, bit: u32) -> bool {
        u32_at(&self.0, offset10::WILDCARDS) & bit == 0
    }

    fn eth_type(&self) -> Option<u128> {
        self.cares(wildcard::DL_TYPE).then(|| u16_at(&self.0, offset10::DL_TYPE).into())
    }

    fn untagged(&self) -> bool {
        self.cares(wildcard::DL_VLAN) && u16_at(&self.0, offset10::DL_VLAN) == VLAN_NONE
    }

    fn vlan_vid(&self) -> u128 {
        match u16_at(&self.0, offset10::DL_VLAN) {
            VLAN_NONE => 0,
            vid => VLAN_PRESENT | u128::from(vid & 0xfff),
        }
    }

    /// Returns the condition on an address, whose wildcarded low bits are given by a count.
    fn address(&self, field: Field, at: usize, shift: u32) -> Option<Constraint> {
        let wild = u32_at(&self.0, offset10::WILDCARDS) >> shift & 63;
        let mask = u32::MAX.checked_shl(wild)?;
        Some(Constraint::masked(field, u32_at(&self.0, at).into(), mask.into()))
    }

    /// Returns the field that `tp_src` (0) or `tp_dst` (1) stands for.
    fn transport(&self, which: usize) -> Option<Field> {
        let proto = self.0[offset10::NW_PROTO];
        let eth_type = self.eth_type().filter(|_| self.cares(wildcard::NW_PROTO))?;
        transport_fields(eth_type, proto.into()).map(|fields| fields[which])
    }
}

/// Returns the fields that 1.0's `tp_src` and `tp_dst` stand for with an Ethernet type and an IP protocol.
fn transport_fields(eth_type: u128, ip_proto: u128) -> Option<[Field; 2]> {
    match (eth_type, ip_proto) {
        (IPV4, ICMP) => Some([Field::Icmpv4Type, Field::Icmpv4Code]),
        (IPV6, ICMPV6) => Some([Field::Icmpv6Type, Field::Icmpv6Code]),
        (IPV4 | IPV6, TCP) => Some([Field::TcpSrc, Field::TcpDst]),
        (IPV4 | IPV6, UDP) => Some([Field::UdpSrc, Field::UdpDst]),
        (IPV4 | IPV6, SCTP) => Some([Field::SctpSrc, Field::SctpDst]),
        _ => None,
    }
}

/// Appends a match of a switch's report, with its padding. In 1.0 it can be about IPv6, as Open vSwitch's reports are.
pub(super) fn write_reported(matching: &Match, version: Version, out: &mut Vec<u8>) -> Result<()> {
    write_as(matching, version, true, out)
}

fn write_as(matching: &Match, version: Version, reported: bool, out: &mut Vec<u8>) -> Result<()> {
    match version {
        Version::Of10 => {
            let bytes = Of10Writer::write(matching, reported)?;
            out.put(&bytes);
            Ok(())
        }
        Version::Of13 => {
            let start = out.len();
            out.put_sized(offset13::LENGTH, |out| {
                out.put_u16(TYPE_OXM);
                out.put_u16(0);
                matching.fields.iter().try_for_each(|entry| oxm::write(entry, out))
            })?;
            out.pad_from(start, 8);
            Ok(())
        }
    }
}

/// Writes a neutral match as 1.0's fixed structure, and refuses conditions that the structure can't express.
struct Of10Writer<'a> {
    matching: &'a Match,
    /// Whether the match may be about IPv6.
    reported: bool,
    wildcards: u32,
    bytes: [u8; offset10::END],
}

impl Of10Writer<'_> {
    fn write(matching: &Match, reported: bool) -> Result<[u8; offset10::END]> {
        let mut writer = Of10Writer { matching, reported, wildcards: wildcard::ALL, bytes: [0; offset10::END] };
        for entry in &matching.fields {
            match entry {
                MatchField::Known(constraint) => writer.constraint(constraint)?,
                MatchField::Unknown { header, .. } => return refuse(format!("a match on OXM {header:#010x}")),
            }
        }
        let wildcards = writer.wildcards;
        writer.put(offset10::WILDCARDS, &wildcards.to_be_bytes());
        Ok(writer.bytes)
    }

    fn constraint(&mut self, c: &Constraint) -> Result<()> {
        use wildcard as w;
        if self.matching.constraints().filter(|other| other.field == c.field).count() > 1 {
            return refuse(format!("two conditions on {}", c.field));
        }
        self.check_prerequisites(c.field)?;
        let value = c.value.to_be_bytes();
        match c.field {
            Field::InPort => match PortNo(c.value as u32).to_of10() {
                Some(port) => self.exact(c, w::IN_PORT, offset10::IN_PORT, &port.to_be_bytes()),
                None => refuse(format!("port {}", c.value)),
            },
            Field::EthSrc => self.exact(c, w::DL_SRC, offset10::DL_SRC, &value[10..]),
            Field::EthDst => self.exact(c, w::DL_DST, offset10::DL_DST, &value[10..]),
            Field::EthType => self.exact(c, w::DL_TYPE, offset10::DL_TYPE, &value[14..]),
            Field::VlanVid => self.vlan(c),
            Field::VlanPcp => self.exact(c, w::DL_VLAN_PCP, offset10::DL_VLAN_PCP, &value[15..]),
            Field::IpDscp => self.exact(c, w::NW_TOS, offset10::NW_TOS, &[value[15] << 2]),
            Field::IpProto => self.exact(c, w::NW_PROTO, offset10::NW_PROTO, &value[15..]),
            Field::ArpOp if c.value < 256 => self.exact(c, w::NW_PROTO, offset10::NW_PROTO, &value[15..]),
            Field::Ipv4Src | Field::ArpSpa => self.address(c, w::NW_SRC_SHIFT, offset10::NW_SRC),
            Field::Ipv4Dst | Field::ArpTpa => self.address(c, w::NW_DST_SHIFT, offset10::NW_DST),
            Field::TcpSrc | Field::UdpSrc | Field::SctpSrc | Field::Icmpv4Type => {
                self.exact(c, w::TP_SRC, offset10::TP_SRC, &value[14..])
            }
            Field::TcpDst | Field::UdpDst | Field::SctpDst | Field::Icmpv4Code => {
                self.exact(c, w::TP_DST, offset10::TP_DST, &value[14..])
            }
            Field::Icmpv6Type if self.reported => self.exact(c, w::TP_SRC, offset10::TP_SRC, &value[14..]),
            Field::Icmpv6Code if self.reported => self.exact(c, w::TP_DST, offset10::TP_DST, &value[14..]),
            field => refuse(format!("a match on {field}")),
        }
    }

    /// Checks that the match states the prerequisites of a field for IPv4. Otherwise 1.0 ignores the field, and the
    /// match would be too wide.
    fn check_prerequisites(&self, field: Field) -> Result<()> {
        let states = |field, value| self.matching.get(field) == Some(&Constraint::exact(field, value));
        let stated = match field {
            Field::VlanPcp => self.matching.get(Field::VlanVid).is_none_or(|vid| vid.value & VLAN_PRESENT != 0),
            _ => {
                let allowed = if self.reported { field.prerequisites().len() } else { 1 };
                field.prerequisites().iter().take(allowed).any(|all| all.iter().all(|p| states(p.field, p.value)))
            }
        };
        if stated { Ok(()) } else { refuse(format!("a match on {field} that does not state its IPv4 prerequisites")) }
    }

    fn vlan(&mut self, c: &Constraint) -> Result<()> {
        if c.value & VLAN_PRESENT != 0 {
            return self.exact(c, wildcard::DL_VLAN, offset10::DL_VLAN, &(c.value as u16 & 0xfff).to_be_bytes());
        }
        if c.value != 0 {
            return refuse(format!("vlan_vid {:#x}", c.value));
        }
        // A packet without a tag has priority 0 in 1.0, and switches write it so.
        self.wildcards &= !wildcard::DL_VLAN_PCP;
        self.exact(c, wildcard::DL_VLAN, offset10::DL_VLAN, &VLAN_NONE.to_be_bytes())
    }

    fn exact(&mut self, c: &Constraint, bit: u32, at: usize, bytes: &[u8]) -> Result<()> {
        if !c.is_exact() {
            return refuse(format!("a mask on {}", c.field));
        }
        self.wildcards &= !bit;
        self.put(at, bytes);
        Ok(())
    }

    fn address(&mut self, c: &Constraint, shift: u32, at: usize) -> Result<()> {
        let mask = c.mask as u32;
        let wild = mask.trailing_zeros();
        if wild < 32 && mask != u32::MAX << wild {
            return refuse(format!("a mask on {} that is not a prefix", c.field));
        }
        self.wildcards = self.wildcards & !(63 << shift) | wild << shift;
        self.put(at, &array_at::<4>(&c.value.to_be_bytes(), 12));
        Ok(())
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

fn refuse<T>(what: String) -> Result<T> {
    unsupported(Version::Of10, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(version: Version, bytes: &[u8]) -> Match {
        Match::read(&mut Reader::new("match", version, bytes)).unwrap()
    }

    fn write(version: Version, matching: &Match) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        matching.write(version, &mut out).map(|()| out)
    }

    fn check(version: Version, bytes: &[u8], expect: Match) {
        assert_eq!(read(version, bytes), expect);
        assert_eq!(write(version, &expect).unwrap(), bytes);
    }

    fn refused(bytes: &[u8]) -> bool {
        Match::read(&mut Reader::new("match", Version::Of13, bytes)).is_err()
    }

    fn check_refused(matching: Match, what: &str) {
        let expect = Error::Unsupported { version: Version::Of10, what: what.to_string() };
        assert_eq!(write(Version::Of10, &matching), Err(expect));
    }

    /// The match `tcp,in_port=3,dl_vlan=5,nw_src=10.0.0.0/8,tp_dst=80` in 1.0, as `ovs-ofctl` writes it.
    #[rustfmt::skip]
    const TCP10: [u8; 40] = [
        0, 0x38, 0x18, 0x4c, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5,
        0, 0, 8, 0, 0, 6, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 80,
    ];

    fn tcp() -> Match {
        Match::any()
            .exact(Field::InPort, 3)
            .exact(Field::EthType, 0x800)
            .exact(Field::VlanVid, 0x1005)
            .exact(Field::IpProto, 6)
            .with(Constraint::masked(Field::Ipv4Src, 0x0a000000, 0xff000000))
            .exact(Field::TcpDst, 80)
    }

    #[test]
    fn a_tcp_match_of_1_0_reads_as_oxm_fields() {
        check(Version::Of10, &TCP10, tcp());
        let matching = read(Version::Of10, &TCP10);
        assert_eq!(matching.get(Field::TcpDst), Some(&Constraint::exact(Field::TcpDst, 80)));
        assert_eq!(matching.get(Field::UdpDst), None);
    }

    #[test]
    fn an_empty_match_of_1_0_has_all_wildcards() {
        let mut bytes = [0; 40];
        bytes[1..4].copy_from_slice(&[0x38, 0x20, 0xff]);
        check(Version::Of10, &bytes, Match::any());
        // Counts of 32 and of 63 wildcarded bits are equivalent.
        bytes[1..4].copy_from_slice(&[0x3f, 0xff, 0xff]);
        assert_eq!(read(Version::Of10, &bytes), Match::any());
    }

    #[test]
    fn arp_and_icmp_give_nw_and_tp_their_own_meaning_in_1_0() {
        let arp = Match::any().exact(Field::EthType, 0x806).exact(Field::ArpOp, 2).exact(Field::ArpTpa, 0x0a000001);
        let icmp = Match::any()
            .exact(Field::EthType, 0x800)
            .exact(Field::IpProto, 1)
            .exact(Field::Icmpv4Type, 8)
            .exact(Field::Icmpv4Code, 0);
        for matching in [arp, icmp] {
            assert_eq!(read(Version::Of10, &write(Version::Of10, &matching).unwrap()), matching);
        }
    }

    #[test]
    fn ipv6_is_read_and_reported_in_1_0_and_never_asked_for() {
        let icmp = Match::any().exact(Field::EthType, 0x86dd).exact(Field::IpProto, 58).exact(Field::Icmpv6Type, 135);
        let tcp = Match::any().exact(Field::EthType, 0x86dd).exact(Field::IpProto, 6).exact(Field::TcpDst, 80);
        for matching in [icmp, tcp] {
            let mut bytes = Vec::new();
            write_reported(&matching, Version::Of10, &mut bytes).unwrap();
            assert_eq!(read(Version::Of10, &bytes), matching);
            assert!(write(Version::Of10, &matching).is_err());
        }
    }

    #[test]
    fn an_icmp_type_of_1_0_that_no_packet_has_is_not_cut_to_one_that_packets_have() {
        let icmp = Match::any().exact(Field::EthType, 0x800).exact(Field::IpProto, 1).exact(Field::Icmpv4Type, 8);
        let mut bytes = write(Version::Of10, &icmp).unwrap();
        bytes[offset10::TP_SRC] = 1;
        let matching = read(Version::Of10, &bytes);
        let kind = matching.get(Field::Icmpv4Type).unwrap();
        assert_eq!(kind.value, 0x108);
        assert!(!kind.holds(8) && kind.is_exact());
        assert_eq!(write(Version::Of10, &matching).unwrap(), bytes);
    }

    #[test]
    fn untagged_is_vlan_0xffff_in_1_0() {
        let bytes = write(Version::Of10, &Match::any().exact(Field::VlanVid, 0)).unwrap();
        assert_eq!((&bytes[..4], &bytes[18..20]), (&[0, 0x28, 0x20, 0xfd][..], &[0xff, 0xff][..]));
        assert_eq!(read(Version::Of10, &bytes), Match::any().exact(Field::VlanVid, 0));
    }

    #[test]
    fn matches_that_1_0_cannot_express_are_refused_by_name() {
        let ipv4 = Match::any().exact(Field::EthType, 0x800);
        check_refused(
            Match::any().exact(Field::MplsLabel, 1),
            "a match on mpls_label that does not state its IPv4 prerequisites",
        );
        check_refused(ipv4.clone().exact(Field::IpEcn, 1), "a match on ip_ecn");
        check_refused(
            ipv4.with(Constraint::masked(Field::Ipv4Src, 1, 0xff)),
            "a mask on ipv4_src that is not a prefix",
        );
        check_refused(Match::any().with(Constraint::masked(Field::EthSrc, 1, 1)), "a mask on eth_src");
        check_refused(Match::any().with(Constraint::masked(Field::VlanVid, 0x1000, 0x1000)), "a mask on vlan_vid");
        check_refused(
            Match::any().exact(Field::EthType, 0x86dd).exact(Field::IpProto, 6),
            "a match on ip_proto that does not state its IPv4 prerequisites",
        );
    }

    #[test]
    fn a_match_of_1_3_is_padded_to_eight_bytes() {
        let bytes = [0, 1, 0, 10, 0x80, 0, 0x0a, 2, 8, 6, 0, 0, 0, 0, 0, 0];
        check(Version::Of13, &bytes, Match::any().exact(Field::EthType, 0x806));
        check(Version::Of13, &[0, 1, 0, 4, 0, 0, 0, 0], Match::any());
        assert!(refused(&bytes[..15]));
    }

    #[test]
    fn a_match_of_1_3_with_a_wrong_type_or_length_is_refused() {
        for bytes in [[0, 0, 0, 4, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0, 0, 0], [0, 1, 0, 9, 0, 0, 0, 0]] {
            assert!(refused(&bytes));
        }
        let entry_too_long = [0, 1, 0, 8, 0x80, 0, 0x0a, 2];
        assert!(entries13(&entry_too_long).is_ok() && refused(&entry_too_long));
    }
}
