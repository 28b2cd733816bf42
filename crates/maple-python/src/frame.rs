//! Frames that policies and tests make: bytes from field values.

use maple_wire::eth_type::value as eth_type;
use maple_wire::ip_proto;
use maple_wire::packet::build::{IpFrame, TransportFrame};
use maple_wire::packet::{Frame, rewrite};
use maple_wire::{Constraint, Field};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::field::FieldRef;
use crate::kind::{named, operand, to_raw};

/// The default content after an Ethernet header.
const NOTHING: &[u8] = b"maple";
/// The maximum length of a payload in bytes: that of a jumbo frame.
const MAX_PAYLOAD: usize = 9000;

const ARP: [Field; 5] = [Field::ArpOp, Field::ArpSpa, Field::ArpTpa, Field::ArpSha, Field::ArpTha];
const ICMPV6: [Field; 5] =
    [Field::Icmpv6Type, Field::Icmpv6Code, Field::Ipv6NdTarget, Field::Ipv6NdSll, Field::Ipv6NdTll];

/// The fields that a frame with one field of each group also needs, because a default address would be useless.
const NEEDS: [(&[Field], &[Field]); 7] = [
    (&ARP, &[Field::ArpOp, Field::ArpSpa, Field::ArpTpa]),
    (&[Field::Ipv4Src, Field::Ipv4Dst, Field::Icmpv4Type, Field::Icmpv4Code], &[Field::Ipv4Src, Field::Ipv4Dst]),
    (&[Field::Ipv6Src, Field::Ipv6Dst, Field::Icmpv6Type, Field::Icmpv6Code], &[Field::Ipv6Src, Field::Ipv6Dst]),
    (&[Field::TcpSrc, Field::TcpDst], &[Field::TcpSrc, Field::TcpDst]),
    (&[Field::UdpSrc, Field::UdpDst], &[Field::UdpSrc, Field::UdpDst]),
    (&[Field::SctpSrc, Field::SctpDst], &[Field::SctpSrc, Field::SctpDst]),
    (&[], &[Field::EthSrc, Field::EthDst]),
];

/// Returns the bytes of a frame that has these fields, to be sent.
#[pyfunction]
#[pyo3(signature = (*, payload = None, **fields))]
pub fn frame(payload: Option<&[u8]>, fields: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<u8>> {
    let mut wanted = values(fields)?;
    need_all(&wanted)?;
    if wanted.iter().any(|(field, _)| ARP.contains(field)) {
        let get = |field| wanted.iter().find(|(f, _)| *f == field).map(|(_, value)| *value);
        // A reply goes to its target. The target of a request is unknown, so its address is 0.
        let (sha, tha) = (get(Field::EthSrc), get(Field::EthDst).filter(|_| get(Field::ArpOp) == Some(2)));
        let missing = [(Field::ArpSha, sha), (Field::ArpTha, Some(tha.unwrap_or(0)))];
        let missing = missing.into_iter().filter(|(field, _)| get(*field).is_none());
        let missing: Vec<(Field, u128)> = missing.filter_map(|(field, value)| Some((field, value?))).collect();
        wanted.extend(missing);
    }
    build(wanted, payload)
}

/// Returns the bytes of a packet with these fields, and defaults for others: for tests.
#[pyfunction]
#[pyo3(signature = (*, payload = None, **fields))]
pub fn test_frame(payload: Option<&[u8]>, fields: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<u8>> {
    build(values(fields)?, payload)
}

fn values(fields: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<(Field, u128)>> {
    let mut wanted = Vec::new();
    for (name, value) in fields.into_iter().flatten() {
        let field = named(&name, "frame()")?;
        let value = FieldRef::value_of(&value)?.unwrap_or(value);
        if value.is_none() {
            return Err(PyTypeError::new_err(format!("frame(): {field} is None; leave out what the frame has not")));
        }
        wanted.push((field, operand(field, &value)?));
    }
    Ok(wanted)
}

fn need_all(wanted: &[(Field, u128)]) -> PyResult<()> {
    let is_there = |field: &Field| wanted.iter().any(|(other, _)| other == field);
    for (given, needed) in NEEDS {
        if (given.is_empty() || given.iter().any(is_there))
            && let Some(missing) = needed.iter().find(|field| !is_there(field))
        {
            return Err(PyTypeError::new_err(format!("frame() needs {missing} too")));
        }
    }
    Ok(())
}

fn build(mut wanted: Vec<(Field, u128)>, payload: Option<&[u8]>) -> PyResult<Vec<u8>> {
    if let Some(long) = payload.map(<[u8]>::len).filter(|len| *len > MAX_PAYLOAD) {
        return Err(PyValueError::new_err(format!("frame(): a payload has at most {MAX_PAYLOAD} bytes, not {long}")));
    }
    wanted.sort();
    let mut frame = skeleton(&wanted, payload)?;
    for (field, value) in wanted {
        if matches!(field, Field::EthType | Field::IpProto) {
            continue;
        }
        let set = Constraint::exact(field, to_raw(field, value));
        rewrite::set_field(&mut frame, &set)
            .map_err(|e| PyValueError::new_err(format!("frame(): {field} does not fit the other fields: {e}")))?;
    }
    Ok(frame)
}

/// Returns a frame with all of these fields. Fields that can be set later have other values.
fn skeleton(wanted: &[(Field, u128)], payload: Option<&[u8]>) -> PyResult<Vec<u8>> {
    let get = |field| wanted.iter().find(|(f, _)| *f == field).map(|(_, value)| *value);
    let any = |fields: &[Field]| wanted.iter().any(|(f, _)| fields.contains(f));
    let mut frame = Frame::ethernet([0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, 1]);
    if any(&[Field::VlanVid, Field::VlanPcp]) {
        frame = frame.vlan(0);
    }
    if any(&ARP) || get(Field::EthType) == Some(eth_type::ARP) {
        if payload.is_some() {
            return Err(PyTypeError::new_err("frame(): ARP has no payload"));
        }
        return Ok(frame.arp_request([10, 0, 0, 1], [10, 0, 0, 2]));
    }
    let icmp6 = any(&ICMPV6);
    let v6 = icmp6
        || any(&[Field::Ipv6Src, Field::Ipv6Dst, Field::Ipv6Flabel])
        || get(Field::EthType) == Some(eth_type::IPV6);
    let transport = [
        (ip_proto::TCP, any(&[Field::TcpSrc, Field::TcpDst])),
        (ip_proto::UDP, any(&[Field::UdpSrc, Field::UdpDst])),
        (ip_proto::SCTP, any(&[Field::SctpSrc, Field::SctpDst])),
        (ip_proto::ICMP, any(&[Field::Icmpv4Type, Field::Icmpv4Code])),
        (ip_proto::ICMPV6, icmp6),
    ];
    let number = transport.iter().find(|(_, given)| *given).map(|(number, _)| *number);
    let ip_fields = [Field::Ipv4Src, Field::Ipv4Dst, Field::IpProto, Field::IpDscp, Field::IpEcn];
    if !v6 && number.is_none() && !any(&ip_fields) && get(Field::EthType) != Some(eth_type::IPV4) {
        return Ok(frame.raw(get(Field::EthType).unwrap_or(0x88b5) as u16, payload.unwrap_or(NOTHING)));
    }
    let ip = if v6 {
        frame.ipv6(std::net::Ipv6Addr::LOCALHOST, std::net::Ipv6Addr::LOCALHOST)
    } else {
        frame.ipv4([10, 0, 0, 1], [10, 0, 0, 2])
    };
    Ok(segment(ip, v6, number.or(get(Field::IpProto).map(|n| n as u8)), payload))
}

/// Returns a packet of this protocol, or of UDP.
fn segment(ip: IpFrame, is_v6: bool, proto: Option<u8>, payload: Option<&[u8]>) -> Vec<u8> {
    let with_payload = |frame: TransportFrame| frame.payload(payload.unwrap_or_default());
    match proto {
        Some(ip_proto::TCP) => with_payload(ip.tcp(1024, 80)),
        Some(ip_proto::SCTP) => with_payload(ip.sctp(1024, 80)),
        Some(ip_proto::UDP) | None => with_payload(ip.udp(1024, 53)),
        Some(ip_proto::ICMP | ip_proto::ICMPV6) => match payload {
            // The first four bytes belong to the header, and depend on the type.
            Some(payload) => {
                let mut rest = [0; 4];
                let (head, tail) = payload.split_at(payload.len().min(4));
                rest[..head.len()].copy_from_slice(head);
                ip.icmp(if is_v6 { 128 } else { 8 }, 0, rest).payload(tail)
            }
            None => ip.echo_request(1, 1).build(),
        },
        Some(other) => with_payload(ip.proto(other)),
    }
}
