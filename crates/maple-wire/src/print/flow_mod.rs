//! Flow-mod and flow-removed.

use std::fmt::{self, Write};

use super::flow::{prioritised_match, write_flags};
use super::instructions;
use super::value::Duration;
use crate::msg::{FlowMod, FlowModCommand, FlowRemoved, NO_BUFFER, Version};
use crate::port::PortNo;

/// Prints the command of a flow-mod, and the rules that it is about.
pub(super) fn flow_mod(out: &mut String, version: Version, flow_mod: &FlowMod) -> fmt::Result {
    let command = match flow_mod.command {
        FlowModCommand::Add => "ADD",
        FlowModCommand::Modify => "MOD",
        FlowModCommand::ModifyStrict => "MOD_STRICT",
        FlowModCommand::Delete => "DEL",
        FlowModCommand::DeleteStrict => "DEL_STRICT",
    };
    write!(out, " {command}")?;
    if flow_mod.table_id != 0 {
        write!(out, " table:{}", flow_mod.table_id)?;
    }
    write!(out, " {} ", prioritised_match(version, flow_mod.priority, &flow_mod.matching))?;
    write_cookie(out, version, flow_mod)?;
    if flow_mod.idle_timeout != 0 {
        write!(out, "idle:{} ", flow_mod.idle_timeout)?;
    }
    if flow_mod.hard_timeout != 0 {
        write!(out, "hard:{} ", flow_mod.hard_timeout)?;
    }
    if flow_mod.buffer_id != NO_BUFFER {
        write!(out, "buf:{:#x} ", flow_mod.buffer_id)?;
    }
    if flow_mod.out_port != PortNo::ANY {
        write!(out, "out_port:{} ", flow_mod.out_port)?;
    }
    write_flags(out, flow_mod.flags)?;
    write!(out, "actions={}", instructions(version, &flow_mod.instructions))
}

/// Prints the cookie that the rule gets, or in 1.3 the cookie of the rules to change or delete.
///
/// In 1.3 only those two commands have a mask. Without a mask their cookie has no meaning.
fn write_cookie(out: &mut String, version: Version, flow_mod: &FlowMod) -> fmt::Result {
    let sets = version == Version::Of10 || flow_mod.command == FlowModCommand::Add;
    if sets && flow_mod.cookie != 0 && flow_mod.cookie != u64::MAX {
        write!(out, "cookie:{:#x} ", flow_mod.cookie)?;
    }
    if !sets && flow_mod.cookie_mask != 0 {
        write!(out, "cookie:{:#x}/{:#x} ", flow_mod.cookie, flow_mod.cookie_mask)?;
    }
    Ok(())
}

const REASONS: [&str; 6] = ["idle", "hard", "delete", "group_delete", "meter_delete", "eviction"];

/// Prints the rule that was removed, the reason, and its counters.
pub(super) fn flow_removed(out: &mut String, version: Version, removed: &FlowRemoved) -> fmt::Result {
    write!(out, " {} ", prioritised_match(version, removed.priority, &removed.matching))?;
    match REASONS.get(usize::from(removed.reason)) {
        Some(reason) => write!(out, "reason={reason}")?,
        None => write!(out, "reason={}", removed.reason)?,
    }
    if version != Version::Of10 {
        write!(out, " table_id={}", removed.table_id)?;
    }
    if removed.cookie != 0 {
        write!(out, " cookie:{:#x}", removed.cookie)?;
    }
    write!(out, " duration{}", Duration { sec: removed.duration_sec, nsec: removed.duration_nsec })?;
    write!(out, " idle{}", removed.idle_timeout)?;
    if removed.hard_timeout != 0 {
        write!(out, " hard{}", removed.hard_timeout)?;
    }
    write!(out, " pkts{} bytes{}", removed.packet_count, removed.byte_count)
}
