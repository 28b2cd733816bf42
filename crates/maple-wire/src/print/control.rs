//! Messages that set up a switch: configuration, ports, tables, queues, roles; and messages of unknown meaning.

use std::fmt::{self, Write};

use super::port;
use super::value::{BitNames, Hex, HexBytes, Mac};
use crate::msg::queue_config::QueueProperty;
use crate::msg::{AsyncConfig, Experimenter, PortMod, QueueConfig, Role, SwitchConfig, TableMod, Version};
use crate::port::PortNo;

/// Prints the treatment of fragments and the number of bytes of a packet that are sent.
pub(super) fn config(out: &mut String, version: Version, config: &SwitchConfig) -> fmt::Result {
    const FRAGMENTS: [&str; 4] = ["normal", "drop", "reassemble", "nx-match"];
    write!(out, " frags={}", FRAGMENTS[usize::from(config.flags & 3)])?;
    let mut rest = config.flags & !3;
    if version == Version::Of10 && rest & 4 != 0 {
        out.write_str(" invalid_ttl_to_controller")?;
        rest &= !4;
    }
    if rest != 0 {
        write!(out, " flags={rest:#x}")?;
    }
    write!(out, " miss_send_len={}", config.miss_send_len)
}

/// Prints the new configuration of a port.
pub(super) fn port_mod(out: &mut String, version: Version, port_mod: &PortMod) -> fmt::Result {
    writeln!(out, " port: {}: addr:{}", port_mod.port, Mac::from(port_mod.hw_addr))?;
    writeln!(out, "     config: {}", port::config(version, port_mod.config))?;
    writeln!(out, "     mask:   {}", port::config(version, port_mod.mask))?;
    match port_mod.advertise {
        0 => out.write_str("     advertise: UNCHANGED"),
        features => write!(out, "     advertise: {}", port::features(version, features)),
    }
}

/// Prints the table. Its configuration has no bits with a meaning in 1.3.
pub(super) fn table_mod(out: &mut String, table_mod: &TableMod) -> fmt::Result {
    match table_mod.table_id {
        0xff => out.write_str(" table_id: ALL_TABLES"),
        table => write!(out, " table_id={table}"),
    }
}

/// Prints the role that a controller asks for or has. A generation id of all ones counts as absent, and a question
/// about the current role needs none.
pub(super) fn role(out: &mut String, role: &Role, is_request: bool) -> fmt::Result {
    match role.role {
        Role::NOCHANGE => out.write_str(" role=nochange")?,
        Role::EQUAL => out.write_str(" role=equal")?,
        Role::MASTER => out.write_str(" role=primary")?,
        Role::SLAVE => out.write_str(" role=secondary")?,
        other => write!(out, " role={other}")?,
    }
    if role.generation_id == u64::MAX || is_request && role.role == Role::NOCHANGE {
        return Ok(());
    }
    write!(out, " generation_id={}", role.generation_id)
}

/// Prints the messages that a switch sends without a request, to its primary controller and to others.
pub(super) fn async_config(out: &mut String, config: &AsyncConfig) -> fmt::Result {
    for (which, name) in ["primary", "secondary"].iter().enumerate() {
        let bits = |bits: u32, names| BitNames { bits, names, zero: "(off)", shows_nameless: false };
        writeln!(out, "\n {name}:")?;
        let reasons = &["no_match", "action", "invalid_ttl"];
        writeln!(out, " PACKET_IN: {}", bits(config.packet_in[which], reasons))?;
        let reasons = &["add", "delete", "modify"];
        writeln!(out, " PORT_STATUS: {}", bits(config.port_status[which], reasons))?;
        let reasons = &["idle", "hard", "delete", "group_delete", "meter_delete", "eviction"];
        writeln!(out, " FLOW_REMOVED: {}", bits(config.flow_removed[which], reasons))?;
        // These kinds exist in later versions.
        out.write_str(" ROLE_STATUS: (off) TABLE_STATUS: (off) REQUESTFORWARD: (off)")?;
    }
    Ok(())
}

/// Prints the port whose queues are asked for.
pub(super) fn queue_config_request(out: &mut String, port: PortNo) -> fmt::Result {
    write!(out, " port={port}")
}

/// Prints the queues of a port with their rates.
pub(super) fn queue_config(out: &mut String, config: &QueueConfig) -> fmt::Result {
    if config.queues.is_empty() {
        return Ok(());
    }
    write!(out, " port={}", config.port)?;
    let mut queues: Vec<_> = config.queues.iter().collect();
    queues.sort_by_key(|queue| (queue.port, queue.id));
    for queue in queues {
        write!(out, "\nqueue {}:", queue.id)?;
        for property in &queue.properties {
            match property {
                QueueProperty::MinRate(rate) => write_rate(out, "min_rate", *rate)?,
                QueueProperty::MaxRate(rate) => write_rate(out, "max_rate", *rate)?,
                QueueProperty::Unknown { kind, body } => write!(out, " property({kind},0x{})", HexBytes(body))?,
            }
        }
    }
    Ok(())
}

/// Prints a rate in tenths of a percent. More than 100 % is printed as disabled, and all ones is left out.
fn write_rate(out: &mut String, name: &str, rate: u16) -> fmt::Result {
    match rate {
        0xffff => Ok(()),
        0..=1000 => write!(out, " {name}:{}.{}%", rate / 10, rate % 10),
        _ => write!(out, " {name}:(disabled)"),
    }
}

/// Prints the experimenter, and the content of the message in hex.
pub(super) fn experimenter(out: &mut String, version: Version, message: &Experimenter) -> fmt::Result {
    let who = if version == Version::Of10 { "vendor" } else { "experimenter" };
    write!(out, " {who}={}", Hex(u128::from(message.id)))?;
    unknown(out, &message.body)
}

/// Prints bytes of unknown meaning.
pub(super) fn unknown(out: &mut String, body: &[u8]) -> fmt::Result {
    if body.is_empty() { Ok(()) } else { write!(out, " 0x{}", HexBytes(body)) }
}
