//! Actions of both versions (1.0 §5.2.4, 1.3 §7.2.5).

use super::Version;
use super::bytes::{Element, Put, Reader, exactly, number, padded, u16_at, u32_at, unsupported};
use super::oxm;
use super::wire::Wire;
use crate::error::{Error, Result};
use crate::field::{Field, VLAN_PRESENT};
use crate::flow::{Action, Constraint};
use crate::port::PortNo;

/// `ofp_action_type` of 1.0.
mod kind10 {
    pub const OUTPUT: u16 = 0;
    pub const SET_VLAN_VID: u16 = 1;
    pub const SET_VLAN_PCP: u16 = 2;
    pub const STRIP_VLAN: u16 = 3;
    pub const SET_DL_SRC: u16 = 4;
    pub const SET_DL_DST: u16 = 5;
    pub const SET_NW_SRC: u16 = 6;
    pub const SET_NW_DST: u16 = 7;
    pub const SET_NW_TOS: u16 = 8;
    pub const SET_TP_SRC: u16 = 9;
    pub const SET_TP_DST: u16 = 10;
    pub const ENQUEUE: u16 = 11;
}

/// `ofp_action_type` of 1.3.
mod kind13 {
    pub const OUTPUT: u16 = 0;
    pub const COPY_TTL_OUT: u16 = 11;
    pub const COPY_TTL_IN: u16 = 12;
    pub const SET_MPLS_TTL: u16 = 15;
    pub const DEC_MPLS_TTL: u16 = 16;
    pub const PUSH_VLAN: u16 = 17;
    pub const POP_VLAN: u16 = 18;
    pub const PUSH_MPLS: u16 = 19;
    pub const POP_MPLS: u16 = 20;
    pub const SET_QUEUE: u16 = 21;
    pub const GROUP: u16 = 22;
    pub const SET_NW_TTL: u16 = 23;
    pub const DEC_NW_TTL: u16 = 24;
    pub const SET_FIELD: u16 = 25;
    pub const PUSH_PBB: u16 = 26;
    pub const POP_PBB: u16 = 27;
}

/// `OFPAT_EXPERIMENTER`, in 1.0 `OFPAT_VENDOR`.
const EXPERIMENTER: u16 = 0xffff;

impl Wire for Action {
    const MIN: [usize; 2] = [8; 2];
    const ELEMENT: Option<Element> = Some(Element { multiple: 8, ..Element::new("action", 2) });

    fn read(reader: &mut Reader<'_>) -> Result<Action> {
        let (kind, _length, body) = (reader.u16()?, reader.u16()?, reader.rest());
        if kind == EXPERIMENTER {
            return Ok(Action::Experimenter { id: u32_at(body, 0), body: body[4..].to_vec() });
        }
        let known = if reader.is_10() { read10(kind, body)? } else { read13(kind, body)? };
        Ok(known.unwrap_or_else(|| Action::Unknown { kind, body: body.to_vec() }))
    }

    fn write(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        match (self, version) {
            (Action::Experimenter { id, body }, _) => {
                check_body(4 + body.len())?;
                put_with(out, EXPERIMENTER, |out| {
                    out.put_u32(*id);
                    out.put(body);
                })
            }
            (Action::Unknown { kind, body }, _) => {
                check_body(body.len())?;
                put_with(out, *kind, |out| out.put(body))
            }
            (_, Version::Of10) => write10(self, out),
            (_, Version::Of13) => write13(self, out),
        }
    }
}

/// Reads the body of an action of 1.0. `None` if its type or its content is unknown.
fn read10(kind: u16, body: &[u8]) -> Result<Option<Action>> {
    exactly(
        BODY,
        body,
        match kind {
            kind10::SET_DL_SRC | kind10::SET_DL_DST | kind10::ENQUEUE => 12,
            kind10::OUTPUT..kind10::ENQUEUE => 4,
            _ => body.len(),
        },
    )?;
    let port = || PortNo::from_of10(u16_at(body, 0));
    let set = |field, bytes: &[u8]| Some(Action::SetField(Constraint::exact(field, number(bytes))));
    Ok(match kind {
        kind10::OUTPUT => Some(Action::Output { port: port(), max_len: u16_at(body, 2) }),
        kind10::SET_VLAN_VID => Some(Action::SetVlanVid(u16_at(body, 0))),
        kind10::SET_VLAN_PCP => Some(Action::SetVlanPcp(body[0])),
        kind10::STRIP_VLAN => Some(Action::PopVlan),
        kind10::SET_DL_SRC => set(Field::EthSrc, &body[..6]),
        kind10::SET_DL_DST => set(Field::EthDst, &body[..6]),
        kind10::SET_NW_SRC => set(Field::Ipv4Src, &body[..4]),
        kind10::SET_NW_DST => set(Field::Ipv4Dst, &body[..4]),
        kind10::SET_NW_TOS if body[0] & 3 == 0 => set(Field::IpDscp, &[body[0] >> 2]),
        kind10::SET_TP_SRC => Some(Action::SetTpSrc(u16_at(body, 0))),
        kind10::SET_TP_DST => Some(Action::SetTpDst(u16_at(body, 0))),
        kind10::ENQUEUE => Some(Action::Enqueue { port: port(), queue: u32_at(body, 8) }),
        _ => None,
    })
}

/// Reads the body of an action of 1.3. `None` if its type or its content is unknown.
fn read13(kind: u16, body: &[u8]) -> Result<Option<Action>> {
    exactly(
        BODY,
        body,
        match kind {
            kind13::OUTPUT => 12,
            kind13::COPY_TTL_OUT | kind13::COPY_TTL_IN => 4,
            kind13::SET_MPLS_TTL..=kind13::DEC_NW_TTL | kind13::PUSH_PBB | kind13::POP_PBB => 4,
            _ => body.len(),
        },
    )?;
    Ok(match kind {
        kind13::OUTPUT => Some(Action::Output { port: PortNo(u32_at(body, 0)), max_len: u16_at(body, 4) }),
        kind13::COPY_TTL_OUT => Some(Action::CopyTtlOut),
        kind13::COPY_TTL_IN => Some(Action::CopyTtlIn),
        kind13::SET_MPLS_TTL => Some(Action::SetMplsTtl(body[0])),
        kind13::DEC_MPLS_TTL => Some(Action::DecMplsTtl),
        kind13::PUSH_VLAN => Some(Action::PushVlan(u16_at(body, 0))),
        kind13::POP_VLAN => Some(Action::PopVlan),
        kind13::PUSH_MPLS => Some(Action::PushMpls(u16_at(body, 0))),
        kind13::POP_MPLS => Some(Action::PopMpls(u16_at(body, 0))),
        kind13::SET_QUEUE => Some(Action::SetQueue(u32_at(body, 0))),
        kind13::GROUP => Some(Action::Group(u32_at(body, 0))),
        kind13::SET_NW_TTL => Some(Action::SetNwTtl(body[0])),
        kind13::DEC_NW_TTL => Some(Action::DecNwTtl),
        kind13::SET_FIELD => set_field(body)?,
        kind13::PUSH_PBB => Some(Action::PushPbb(u16_at(body, 0))),
        kind13::POP_PBB => Some(Action::PopPbb),
        _ => None,
    })
}

/// The name in errors of an action's body that is too long or too short for its type.
const BODY: &str = "body of an action";
/// The name in errors of a set-field whose length contradicts that of its field.
const SET_FIELD: &str = "set-field";

/// Reads the body of a set-field of 1.3. `None` for unknown fields, and for masks, which 1.3 does not have.
fn set_field(body: &[u8]) -> Result<Option<Action>> {
    let entry = oxm::OxmEntry::first(body).map_err(|_| Error::BadLength { what: SET_FIELD, length: body.len() })?;
    exactly(SET_FIELD, body, padded(4 + entry.len()) - 4)?;
    let exact = entry.constraint().filter(|_| !entry.has_mask());
    Ok(exact.map(Action::SetField))
}

/// Appends an action of this type with the bytes that `body` writes, padded to a multiple of 8. The list that it is in
/// fills in its length.
fn put_with(out: &mut Vec<u8>, kind: u16, body: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
    let start = out.len();
    let [high, low] = kind.to_be_bytes();
    out.put(&[high, low, 0, 0]);
    body(out);
    out.pad_from(start, 8);
    Ok(())
}

/// Checks that the kept bytes after type and length make the action's length a multiple of 8.
fn check_body(length: usize) -> Result<()> {
    if length % 8 == 4 { Ok(()) } else { Err(Error::BadLength { what: "action", length }) }
}

fn write10(action: &Action, out: &mut Vec<u8>) -> Result<()> {
    match action {
        Action::Output { port, max_len } => {
            let port = port10(*port)?;
            put_with(out, kind10::OUTPUT, |out| {
                out.put_u16(port);
                out.put_u16(*max_len);
            })
        }
        Action::Enqueue { port, queue } => {
            let port = port10(*port)?;
            put_with(out, kind10::ENQUEUE, |out| {
                out.put_u16(port);
                out.put_zeros(6);
                out.put_u32(*queue);
            })
        }
        Action::SetVlanVid(vid) => put_with(out, kind10::SET_VLAN_VID, |out| out.put_u16(*vid)),
        Action::SetVlanPcp(pcp) => put_with(out, kind10::SET_VLAN_PCP, |out| out.put_u8(*pcp)),
        Action::PopVlan => put_with(out, kind10::STRIP_VLAN, |out| out.put_zeros(4)),
        Action::SetTpSrc(port) => put_with(out, kind10::SET_TP_SRC, |out| out.put_u16(*port)),
        Action::SetTpDst(port) => put_with(out, kind10::SET_TP_DST, |out| out.put_u16(*port)),
        Action::SetField(set) => set_field10(set, out),
        other => unsupported(Version::Of10, format!("the action {other:?}")),
    }
}

/// Appends a set-field as 1.0's action for that field.
fn set_field10(set: &Constraint, out: &mut Vec<u8>) -> Result<()> {
    let (kind, value, bytes) = match set.field {
        _ if !set.is_exact() => return unsupported(Version::Of10, format!("a masked set-field on {}", set.field)),
        Field::VlanVid if set.value & VLAN_PRESENT != 0 => (kind10::SET_VLAN_VID, set.value & 0xfff, 2),
        Field::VlanPcp => (kind10::SET_VLAN_PCP, set.value, 1),
        Field::EthSrc => (kind10::SET_DL_SRC, set.value, 6),
        Field::EthDst => (kind10::SET_DL_DST, set.value, 6),
        Field::Ipv4Src => (kind10::SET_NW_SRC, set.value, 4),
        Field::Ipv4Dst => (kind10::SET_NW_DST, set.value, 4),
        Field::IpDscp => (kind10::SET_NW_TOS, set.value << 2, 1),
        Field::TcpSrc | Field::UdpSrc | Field::SctpSrc => (kind10::SET_TP_SRC, set.value, 2),
        Field::TcpDst | Field::UdpDst | Field::SctpDst => (kind10::SET_TP_DST, set.value, 2),
        field => return unsupported(Version::Of10, format!("a set-field on {field}")),
    };
    put_with(out, kind, |out| out.put_number(value, bytes))
}

fn port10(port: PortNo) -> Result<u16> {
    port.to_of10().map_or_else(|| unsupported(Version::Of10, format!("port {port}")), Ok)
}

fn write13(action: &Action, out: &mut Vec<u8>) -> Result<()> {
    match action {
        Action::Output { port, max_len } => put_with(out, kind13::OUTPUT, |out| {
            out.put_u32(port.0);
            out.put_u16(*max_len);
        }),
        Action::Group(group) => put_with(out, kind13::GROUP, |out| out.put_u32(*group)),
        Action::SetQueue(queue) => put_with(out, kind13::SET_QUEUE, |out| out.put_u32(*queue)),
        Action::SetField(set) if set.is_exact() => {
            put_with(out, kind13::SET_FIELD, |out| oxm::write_constraint(set, out))
        }
        Action::PushVlan(eth_type) => put_with(out, kind13::PUSH_VLAN, |out| out.put_u16(*eth_type)),
        Action::PopVlan => put_with(out, kind13::POP_VLAN, |out| out.put_zeros(4)),
        Action::PushMpls(eth_type) => put_with(out, kind13::PUSH_MPLS, |out| out.put_u16(*eth_type)),
        Action::PopMpls(eth_type) => put_with(out, kind13::POP_MPLS, |out| out.put_u16(*eth_type)),
        Action::PushPbb(eth_type) => put_with(out, kind13::PUSH_PBB, |out| out.put_u16(*eth_type)),
        Action::PopPbb => put_with(out, kind13::POP_PBB, |out| out.put_zeros(4)),
        Action::SetMplsTtl(ttl) => put_with(out, kind13::SET_MPLS_TTL, |out| out.put_u8(*ttl)),
        Action::DecMplsTtl => put_with(out, kind13::DEC_MPLS_TTL, |out| out.put_zeros(4)),
        Action::SetNwTtl(ttl) => put_with(out, kind13::SET_NW_TTL, |out| out.put_u8(*ttl)),
        Action::DecNwTtl => put_with(out, kind13::DEC_NW_TTL, |out| out.put_zeros(4)),
        Action::CopyTtlOut => put_with(out, kind13::COPY_TTL_OUT, |out| out.put_zeros(4)),
        Action::CopyTtlIn => put_with(out, kind13::COPY_TTL_IN, |out| out.put_zeros(4)),
        other => unsupported(Version::Of13, format!("the action {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(version: Version, bytes: &[u8]) -> Result<Vec<Action>> {
        Reader::new("list", version, bytes).list()
    }

    fn check(version: Version, bytes: &[u8], expect: &[Action]) {
        assert_eq!(read(version, bytes).unwrap(), expect);
        let mut out = Vec::new();
        expect.to_vec().write(version, &mut out).unwrap();
        assert_eq!(out, bytes);
    }

    #[test]
    fn all_actions_of_1_0_are_read_and_written() {
        #[rustfmt::skip]
        let bytes = [
            0, 0, 0, 8, 0xff, 0xfd, 0, 128,
            0, 1, 0, 8, 0, 5, 0, 0,
            0, 2, 0, 8, 3, 0, 0, 0,
            0, 3, 0, 8, 0, 0, 0, 0,
            0, 4, 0, 16, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0,
            0, 5, 0, 16, 2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0,
            0, 6, 0, 8, 10, 0, 0, 1,
            0, 7, 0, 8, 10, 0, 0, 2,
            0, 8, 0, 8, 0xb8, 0, 0, 0,
            0, 9, 0, 8, 0, 80, 0, 0,
            0, 10, 0, 8, 1, 187, 0, 0,
            0, 11, 0, 16, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7,
            0xff, 0xff, 0, 16, 0, 0, 0x23, 0x20, 0, 26, 0, 0, 0, 0, 0, 0,
        ];
        let set = |field, value| Action::SetField(Constraint::exact(field, value));
        check(
            Version::Of10,
            &bytes,
            &[
                Action::Output { port: PortNo::CONTROLLER, max_len: 128 },
                Action::SetVlanVid(5),
                Action::SetVlanPcp(3),
                Action::PopVlan,
                set(Field::EthSrc, 0x020000000001),
                set(Field::EthDst, 0x020000000002),
                set(Field::Ipv4Src, 0x0a000001),
                set(Field::Ipv4Dst, 0x0a000002),
                set(Field::IpDscp, 0x2e),
                Action::SetTpSrc(80),
                Action::SetTpDst(443),
                Action::Enqueue { port: PortNo(1), queue: 7 },
                Action::Experimenter { id: 0x2320, body: vec![0, 26, 0, 0, 0, 0, 0, 0] },
            ],
        );
    }

    #[test]
    fn all_actions_of_1_3_are_read_and_written() {
        #[rustfmt::skip]
        let bytes = [
            0, 0, 0, 16, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0,
            0, 11, 0, 8, 0, 0, 0, 0,
            0, 12, 0, 8, 0, 0, 0, 0,
            0, 15, 0, 8, 64, 0, 0, 0,
            0, 16, 0, 8, 0, 0, 0, 0,
            0, 17, 0, 8, 0x81, 0, 0, 0,
            0, 18, 0, 8, 0, 0, 0, 0,
            0, 19, 0, 8, 0x88, 0x47, 0, 0,
            0, 20, 0, 8, 8, 0, 0, 0,
            0, 21, 0, 8, 0, 0, 0, 9,
            0, 22, 0, 8, 0, 0, 0, 4,
            0, 23, 0, 8, 63, 0, 0, 0,
            0, 24, 0, 8, 0, 0, 0, 0,
            0, 25, 0, 16, 0x80, 0, 0x18, 4, 192, 168, 2, 9, 0, 0, 0, 0,
            0, 26, 0, 8, 0x88, 0xe7, 0, 0,
            0, 27, 0, 8, 0, 0, 0, 0,
            0xff, 0xff, 0, 8, 0, 0, 0, 1,
            0, 99, 0, 8, 1, 2, 3, 4,
        ];
        check(
            Version::Of13,
            &bytes,
            &[
                Action::output(PortNo(3)),
                Action::CopyTtlOut,
                Action::CopyTtlIn,
                Action::SetMplsTtl(64),
                Action::DecMplsTtl,
                Action::PushVlan(0x8100),
                Action::PopVlan,
                Action::PushMpls(0x8847),
                Action::PopMpls(0x800),
                Action::SetQueue(9),
                Action::Group(4),
                Action::SetNwTtl(63),
                Action::DecNwTtl,
                Action::SetField(Constraint::exact(Field::Ipv4Dst, 0xc0a80209)),
                Action::PushPbb(0x88e7),
                Action::PopPbb,
                Action::Experimenter { id: 1, body: vec![] },
                Action::Unknown { kind: 99, body: vec![1, 2, 3, 4] },
            ],
        );
    }

    #[test]
    fn a_neutral_set_field_becomes_the_old_action_in_1_0() {
        let mut out = Vec::new();
        let actions = [(Field::VlanVid, 0x1005), (Field::VlanPcp, 3), (Field::UdpSrc, 80), (Field::TcpDst, 443)]
            .map(|(field, value)| Action::SetField(Constraint::exact(field, value)));
        actions.to_vec().write(Version::Of10, &mut out).unwrap();
        let old = [Action::SetVlanVid(5), Action::SetVlanPcp(3), Action::SetTpSrc(80), Action::SetTpDst(443)];
        assert_eq!(read(Version::Of10, &out).unwrap(), old);
    }

    #[test]
    fn a_masked_or_foreign_set_field_is_kept_as_it_is() {
        for oxm in [[0x80, 0, 0x11, 2, 8, 8, 0, 0, 0, 0, 0, 0], [0, 1, 0x3e, 4, 1, 2, 3, 4, 0, 0, 0, 0]] {
            let bytes = [&[0, 25, 0, 16][..], &oxm].concat();
            check(Version::Of13, &bytes, &[Action::Unknown { kind: 25, body: oxm.to_vec() }]);
        }
    }

    #[test]
    fn lengths_that_can_not_be_are_refused() {
        for length in [0, 4, 7, 9, 24] {
            assert!(read(Version::Of13, &[0, 24, 0, length, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).is_err());
        }
        // A set-field with 8 bytes too many; an output of 8 bytes in 1.3, one of 16 in 1.0.
        let set_field = [0, 25, 0, 24, 0x80, 0, 0x0a, 2, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert!(read(Version::Of13, &set_field).is_err());
        assert!(read(Version::Of13, &[0, 0, 0, 8, 0, 0, 0, 1]).is_err());
        assert!(read(Version::Of10, &[0, 0, 0, 16, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).is_err());
    }

    #[test]
    fn actions_that_a_version_lacks_are_refused() {
        let is_refused = |action: Action, version| matches!(action.write(version, &mut Vec::new()), Err(Error::Unsupported { version: v, .. }) if v == version);
        assert!(is_refused(Action::Group(1), Version::Of10));
        assert!(is_refused(Action::SetField(Constraint::exact(Field::Ipv6Src, 1)), Version::Of10));
        assert!(is_refused(Action::output(PortNo(0x10000)), Version::Of10));
        assert!(is_refused(Action::SetTpDst(1), Version::Of13));
        assert!(is_refused(Action::Enqueue { port: PortNo(1), queue: 1 }, Version::Of13));
    }
}
