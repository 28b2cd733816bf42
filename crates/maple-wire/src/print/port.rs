//! Ports: their descriptions, and messages about them.

use std::fmt::{self, Write};

use super::value::{BitNames, EscapedText, Mac};
use crate::msg::{PortReason, PortStatus, Version};
use crate::port::Port;

const CONFIG: [&str; 7] = ["PORT_DOWN", "NO_STP", "NO_RECV", "NO_RECV_STP", "NO_FLOOD", "NO_FWD", "NO_PACKET_IN"];

/// The bits of the configuration that OpenFlow 1.3 kept.
const CONFIG_OF13: u32 = 0b110_0101;

const STATE_OF13: [&str; 3] = ["LINK_DOWN", "BLOCKED", "LIVE"];

/// The state of the spanning tree, which OpenFlow 1.0 has in bits 8 and 9 of the state.
const STP_STATE_OF10: [&str; 4] = ["", "STP_LEARN", "STP_FORWARD", "STP_BLOCK"];

const FEATURES_OF10: [&str; 12] = [
    "10MB-HD",
    "10MB-FD",
    "100MB-HD",
    "100MB-FD",
    "1GB-HD",
    "1GB-FD",
    "10GB-FD",
    "COPPER",
    "FIBER",
    "AUTO_NEG",
    "AUTO_PAUSE",
    "AUTO_PAUSE_ASYM",
];

const FEATURES_OF13: [&str; 16] = [
    "10MB-HD",
    "10MB-FD",
    "100MB-HD",
    "100MB-FD",
    "1GB-HD",
    "1GB-FD",
    "10GB-FD",
    "40GB-FD",
    "100GB-FD",
    "1TB-FD",
    "OTHER",
    "COPPER",
    "FIBER",
    "AUTO_NEG",
    "AUTO_PAUSE",
    "AUTO_PAUSE_ASYM",
];

/// Prints the kind of change of a port, and the port after it.
pub(super) fn port_status(out: &mut String, version: Version, status: &PortStatus) -> fmt::Result {
    match status.reason {
        PortReason::Add => out.write_str(" ADD:")?,
        PortReason::Delete => out.write_str(" DEL:")?,
        PortReason::Modify => out.write_str(" MOD:")?,
        PortReason::Other(reason) => write!(out, " reason={reason}:")?,
    }
    port(out, version, &status.port)
}

/// Prints the ports in the order of their numbers.
pub(super) fn ports(out: &mut String, version: Version, ports: &[Port]) -> fmt::Result {
    let mut in_order: Vec<&Port> = ports.iter().collect();
    in_order.sort_by_key(|port| port.number);
    for one in in_order {
        out.write_char('\n')?;
        port(out, version, one)?;
    }
    Ok(())
}

fn port(out: &mut String, version: Version, port: &Port) -> fmt::Result {
    let name = EscapedText(port.name_raw.split(|byte| *byte == 0).next().unwrap_or_default());
    writeln!(out, " {}({name}): addr:{}", port.number, Mac::from(port.hw_addr))?;
    writeln!(out, "     config:     {}", config(version, port.config))?;
    writeln!(out, "     state:      {}", state(version, port.state))?;
    let lines =
        [("current", port.curr), ("advertised", port.advertised), ("supported", port.supported), ("peer", port.peer)];
    for (what, bits) in lines {
        if bits != 0 {
            writeln!(out, "     {what}: {}", features(version, bits))?;
        }
    }
    let (now, max) = match version {
        Version::Of10 => (speed_of10(port.curr), speed_of10(port.supported)),
        Version::Of13 => (port.curr_speed / 1000, port.max_speed / 1000),
    };
    write!(out, "     speed: {now} Mbps now, {max} Mbps max")
}

/// Returns the configuration of a port. Bits that the version does not have are hex.
pub(super) fn config(version: Version, bits: u32) -> String {
    let known = if version == Version::Of10 { 0x7f } else { CONFIG_OF13 };
    let names: Vec<&str> =
        CONFIG.iter().enumerate().map(|(i, name)| if known & 1 << i != 0 { *name } else { "" }).collect();
    BitNames { bits, names: &names, zero: "0", shows_nameless: false }.to_string()
}

fn state(version: Version, bits: u32) -> String {
    if version == Version::Of13 {
        return BitNames { bits, names: &STATE_OF13, zero: "0", shows_nameless: false }.to_string();
    }
    let stp = STP_STATE_OF10[(bits >> 8 & 3) as usize];
    let rest = BitNames {
        bits: bits & !0x300,
        names: &STATE_OF13[..1],
        zero: if stp.is_empty() { "0" } else { "" },
        shows_nameless: false,
    };
    format!("{stp} {rest}")
}

/// Returns the abilities of a port: bits of `OFPPF_*`.
pub(super) fn features(version: Version, bits: u32) -> String {
    let names: &[&str] = if version == Version::Of10 { &FEATURES_OF10 } else { &FEATURES_OF13 };
    BitNames { bits, names, zero: "0", shows_nameless: false }.to_string()
}

/// Returns the highest of these speeds in Mb/s.
fn speed_of10(features: u32) -> u32 {
    match features & 0x7f {
        bits if bits & 0x40 != 0 => 10_000,
        bits if bits & 0x30 != 0 => 1_000,
        bits if bits & 0x0c != 0 => 100,
        bits if bits & 0x03 != 0 => 10,
        _ => 0,
    }
}
