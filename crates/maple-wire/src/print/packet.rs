//! Packet-in and packet-out.

use std::fmt::{self, Write};

use super::frame::frame_of;
use super::{actions, matching};
use crate::msg::{NO_BUFFER, PacketIn, PacketInReason, PacketOut, Version};

const REASONS: [&str; 6] = ["no_match", "action", "invalid_ttl", "action_set", "group", "packet_out"];

/// Prints the origin of the packet, the reason, and the packet.
pub(super) fn packet_in(out: &mut String, version: Version, packet_in: &PacketIn) -> fmt::Result {
    let (total, included) = (usize::from(packet_in.total_len), packet_in.data.len());
    if packet_in.table_id != 0 {
        write!(out, " table_id={}", packet_in.table_id)?;
    }
    if packet_in.cookie != u64::MAX {
        write!(out, " cookie={:#x}", packet_in.cookie)?;
    }
    write!(out, " total_len={total} {} (via ", matching(version, &packet_in.pipeline))?;
    let reason = reason_number(packet_in.reason);
    match REASONS.get(usize::from(reason)) {
        Some(name) => write!(out, "{name})")?,
        None => write!(out, "{reason})")?,
    }
    write!(out, " data_len={included}")?;
    if packet_in.buffer_id == NO_BUFFER {
        out.write_str(" (unbuffered)")?;
        if total != included {
            out.write_str(" (***total_len != data_len***)")?;
        }
    } else {
        write!(out, " buffer=0x{:08x}", packet_in.buffer_id)?;
        if total < included {
            out.write_str(" (***total_len < data_len***)")?;
        }
    }
    write!(out, "\n{}", frame_of(&packet_in.data, total.max(included)))
}

fn reason_number(reason: PacketInReason) -> u8 {
    match reason {
        PacketInReason::NoMatch => 0,
        PacketInReason::Action => 1,
        PacketInReason::InvalidTtl => 2,
        PacketInReason::Other(number) => number,
    }
}

/// Prints the actions for the packet, and the packet or its buffer.
pub(super) fn packet_out(out: &mut String, version: Version, packet_out: &PacketOut) -> fmt::Result {
    write!(out, " in_port={} actions={}", packet_out.in_port, actions(version, &packet_out.actions))?;
    if packet_out.buffer_id != NO_BUFFER {
        return write!(out, " buffer=0x{:08x}", packet_out.buffer_id);
    }
    write!(out, " data_len={}", packet_out.data.len())?;
    if !packet_out.data.is_empty() {
        write!(out, "\n{}", frame_of(&packet_out.data, packet_out.data.len()))?;
    }
    Ok(())
}
