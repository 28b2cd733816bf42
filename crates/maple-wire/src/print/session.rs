//! Messages that set up and keep a session: hello, error, echo, features.

use std::fmt::{self, Write};

use super::message::{kind_name, nested, write_version};
use super::value::{BitNames, HexDump, Printable};
use super::{error_names, port};
use crate::msg::hello::HelloElement;
use crate::msg::{ErrorMsg, Features, Header, Hello, Message, Version};

/// Prints the versions, and the whole message in hex if it contains more than versions.
pub(super) fn hello(out: &mut String, header: &Header, hello: &Hello) -> fmt::Result {
    let bitmaps = hello.elements.iter().filter_map(|element| match element {
        HelloElement::VersionBitmap(words) => words.first().map(|word| word & !1).filter(|bits| *bits != 0),
        _ => None,
    });
    let bitmaps: Vec<u32> = bitmaps.collect();
    let highest = u32::from(hello.version).min(31);
    let up_to_highest = ((1_u64 << (highest + 1)) - 2) as u32;
    let bits = bitmaps.last().copied().unwrap_or(up_to_highest);
    let versions: Vec<String> = (1..32).filter(|v| bits & 1 << v != 0).map(|v| format!("0x{v:02x}")).collect();
    write!(out, "\n version bitmap: {}", versions.join(", "))?;
    if bitmaps.len() == hello.elements.len() {
        return Ok(());
    }
    let mut bytes = Vec::new();
    match Message::Hello(hello.clone()).encode(Version::Of13, header.xid, &mut bytes) {
        Ok(()) => write!(out, "\n unknown data in hello:\n{}", HexDump(&bytes)),
        Err(error) => write!(out, "\n unknown data in hello: {error}"),
    }
}

/// Prints the name of the error, and the request that it answers, quoted as far as it was sent.
pub(super) fn error(out: &mut String, version: Version, error: &ErrorMsg, depth: u32) -> fmt::Result {
    let data = error_head(out, version, error)?;
    if error.kind == 0 {
        return write!(out, "\n{}", Printable(data));
    }
    let header = match Header::peek(data) {
        Ok(Some(header)) => header,
        _ if data.is_empty() => return out.write_str("\nOpenFlow message is empty"),
        _ => return write!(out, "\nOpenFlow packet too short (only {} bytes):\n{}", data.len(), HexDump(data)),
    };
    match Message::decode(data) {
        Ok((header, message)) => write!(out, "\n{}", nested(&header, &message, depth + 1)),
        Err(error) => {
            write!(out, "\n{}", kind_name(&header))?;
            write_version(out, &header)?;
            if data.len() < usize::from(header.length) {
                write!(out, "\n(***truncated to {} bytes from {}***)", data.len(), header.length)?;
            } else {
                write!(out, " ***decode error: {error}***")?;
            }
            write!(out, "\n{}", HexDump(data))
        }
    }
}

/// Prints the name of the error, and the request that it answers as bytes.
pub(super) fn error_unquoted(out: &mut String, version: Version, error: &ErrorMsg) -> fmt::Result {
    let data = error_head(out, version, error)?;
    write!(out, "\n{}", HexDump(data))
}

/// Returns the error's name, such as `OFPFMFC_TABLE_FULL`; its type and code if it has none.
pub fn error_name(version: Version, error: &ErrorMsg) -> String {
    let mut out = String::new();
    error_head(&mut out, version, error).expect("writing to a string does not fail");
    out.trim_start().to_owned()
}

/// Prints the error's name, or its numbers if it has none, and returns the request after it.
fn error_head<'a>(out: &mut String, version: Version, error: &'a ErrorMsg) -> Result<&'a [u8], fmt::Error> {
    if let Some((experimenter, name, request)) = experimenter_error(version, error) {
        match name {
            Some(name) => write!(out, " {name}")?,
            None => write!(out, " experimenter={experimenter:#x} type={} code={}", error.kind, error.code)?,
        }
        return Ok(request);
    }
    match error_names::name(version, error.kind, error.code) {
        Some(name) => write!(out, " {name}")?,
        None => write!(out, " type={} code={}", error.kind, error.code)?,
    }
    Ok(&error.data)
}

/// Returns the experimenter of an experimenter's error, the error's name, and the request.
fn experimenter_error(version: Version, error: &ErrorMsg) -> Option<(u32, Option<String>, &[u8])> {
    let (id, after) = error.data.split_first_chunk::<4>()?;
    let id = u32::from_be_bytes(*id);
    match (version, error.kind) {
        (Version::Of13, ErrorMsg::EXPERIMENTER) => Some((id, error_names::of_experimenter(id, error.code), after)),
        (Version::Of10, ErrorMsg::NICIRA) => {
            let (&[kind_high, kind_low, code_high, code_low], request) = after.split_first_chunk::<4>()?;
            let kind = u16::from_be_bytes([kind_high, kind_low]);
            let code = u16::from_be_bytes([code_high, code_low]);
            Some((id, error_names::of_open_vswitch(id, kind, code), request))
        }
        _ => None,
    }
}

/// Prints the size and the content of an echo; only the size if it is quoted.
pub(super) fn echo(out: &mut String, data: &[u8], depth: u32) -> fmt::Result {
    write!(out, " {} bytes of payload", data.len())?;
    if depth == 0 && !data.is_empty() {
        write!(out, "\n{}", HexDump(data))?;
    }
    Ok(())
}

const CAPABILITIES_OF10: [&str; 8] =
    ["FLOW_STATS", "TABLE_STATS", "PORT_STATS", "STP", "", "IP_REASM", "QUEUE_STATS", "ARP_MATCH_IP"];

const CAPABILITIES_OF13: [&str; 9] =
    ["FLOW_STATS", "TABLE_STATS", "PORT_STATS", "GROUP_STATS", "", "IP_REASM", "QUEUE_STATS", "", "PORT_BLOCKED"];

/// The actions of OpenFlow 1.0 in the order of Open vSwitch: bit and name.
const ACTIONS_OF10: [(u32, &str); 12] = [
    (0, "output"),
    (11, "enqueue"),
    (1, "set_vlan_vid"),
    (2, "set_vlan_pcp"),
    (3, "strip_vlan"),
    (4, "mod_dl_src"),
    (5, "mod_dl_dst"),
    (6, "mod_nw_src"),
    (7, "mod_nw_dst"),
    (8, "mod_nw_tos"),
    (9, "mod_tp_src"),
    (10, "mod_tp_dst"),
];

/// Prints a switch's report about itself, and in 1.0 its ports.
pub(super) fn features(out: &mut String, version: Version, features: &Features) -> fmt::Result {
    write!(out, " dpid:{}\nn_tables:{}, n_buffers:{}", features.dpid, features.n_tables, features.n_buffers)?;
    if features.auxiliary_id != 0 {
        write!(out, ", auxiliary_id:{}", features.auxiliary_id)?;
    }
    let names: &[&str] = if version == Version::Of10 { &CAPABILITIES_OF10 } else { &CAPABILITIES_OF13 };
    write!(
        out,
        "\ncapabilities: {}",
        BitNames { bits: features.capabilities, names, zero: "0", shows_nameless: false }
    )?;
    let actions: Vec<&str> =
        ACTIONS_OF10.iter().filter(|(bit, _)| features.actions & 1 << bit != 0).map(|(_, name)| *name).collect();
    if version == Version::Of10 && !actions.is_empty() {
        write!(out, "\nactions: {}", actions.join(" "))?;
    }
    port::ports(out, version, &features.ports)
}
