//! Groups and meters: messages that change them, and their parts, which also appear in statistics.

use std::fmt::{self, Write};

use super::actions;
use super::table::ACTIONS;
use super::value::{Hex, HexBytes};
use crate::msg::ANY_GROUP;
use crate::msg::command::DELETE;
use crate::msg::group_mod::Bucket;
use crate::msg::meter_mod::{Band, BandKind};
use crate::msg::stats::GroupFeatures;
use crate::msg::{GroupMod, MeterMod, Version};
use crate::port::PortNo;

const SELECT: u8 = 1;

/// The bit of a meter's flags that is set if its bands have a burst size.
const METER_BURST: u16 = 4;

/// Prints the command of the message, and its group.
pub(super) fn group_mod(out: &mut String, group_mod: &GroupMod) -> fmt::Result {
    out.write_str("\n ")?;
    match group_mod.command {
        0 => out.write_str("ADD")?,
        1 => out.write_str("MOD")?,
        2 => out.write_str("DEL")?,
        other => write!(out, "command({other})")?,
    }
    out.write_char(' ')?;
    group(out, group_mod.group, group_mod.kind, &group_mod.buckets)
}

/// Prints a group with its type and its buckets.
pub(super) fn group(out: &mut String, group: u32, kind: u8, buckets: &[Bucket]) -> fmt::Result {
    write!(out, "group_id={group},type=")?;
    match kind {
        0 => out.write_str("all")?,
        SELECT => out.write_str("select")?,
        2 => out.write_str("indirect")?,
        3 => out.write_str("ff")?,
        other => write!(out, "{other}")?,
    }
    for bucket in buckets {
        out.write_str(",bucket=")?;
        if kind == SELECT && bucket.weight != 1 {
            write!(out, "weight:{},", bucket.weight)?;
        }
        if bucket.watch_port != PortNo::ANY {
            write!(out, "watch_port:{},", bucket.watch_port)?;
        }
        if bucket.watch_group != ANY_GROUP {
            write!(out, "watch_group:{},", bucket.watch_group)?;
        }
        write!(out, "actions={}", actions(Version::Of13, &bucket.actions))?;
    }
    Ok(())
}

/// Prints the command of the message, and its meter.
pub(super) fn meter_mod(out: &mut String, meter_mod: &MeterMod) -> fmt::Result {
    match meter_mod.command {
        0 => out.write_str(" ADD ")?,
        1 => out.write_str(" MOD ")?,
        DELETE => out.write_str(" DEL ")?,
        other => write!(out, " command({other}) ")?,
    }
    // The number of a meter is enough to delete it. Anything else has no meaning.
    if meter_mod.command == DELETE {
        return meter(out, meter_mod.meter, 0, &[]);
    }
    meter(out, meter_mod.meter, meter_mod.flags, &meter_mod.bands)
}

/// Prints a meter with its flags and its bands.
pub(super) fn meter(out: &mut String, meter: u32, flags: u16, bands: &[Band]) -> fmt::Result {
    write_meter_number(out, meter)?;
    for (bit, name) in ["kbps", "pktps", "burst", "stats"].iter().enumerate() {
        if flags & 1 << bit != 0 {
            write!(out, " {name}")?;
        }
    }
    if flags & !0xf != 0 {
        write!(out, " flags:{:#x}", flags & !0xf)?;
    }
    out.write_str(" bands=")?;
    for one in bands {
        out.write_char('\n')?;
        band(out, flags, one)?;
    }
    Ok(())
}

/// Prints `meter=` and the number, or the name of a reserved one.
pub(super) fn write_meter_number(out: &mut String, meter: u32) -> fmt::Result {
    match meter {
        0xffff_fffd => out.write_str("meter=slowpath"),
        0xffff_fffe => out.write_str("meter=controller"),
        0xffff_ffff => out.write_str("meter=all"),
        number => write!(out, "meter={number}"),
    }
}

fn band(out: &mut String, flags: u16, band: &Band) -> fmt::Result {
    let name = match band.kind {
        BandKind::Drop => "drop",
        BandKind::DscpRemark(_) => "dscp_remark",
        BandKind::Experimenter { .. } => "experimenter",
    };
    write!(out, "type={name} rate={}", band.rate)?;
    if flags & METER_BURST != 0 {
        write!(out, " burst_size={}", band.burst)?;
    }
    match &band.kind {
        BandKind::Drop => Ok(()),
        BandKind::DscpRemark(level) => write!(out, " prec_level={level}"),
        BandKind::Experimenter { id, body } => write!(out, " experimenter={id:#x} 0x{}", HexBytes(body)),
    }
}

/// Prints the abilities of groups, type by type.
pub(super) fn group_features(out: &mut String, features: &GroupFeatures) -> fmt::Result {
    const TYPES: [&str; 4] = ["all", "select", "indirect", "fast failover"];
    write!(out, "\n Group table:\n Types: {:#x}\n Capabilities: {:#x}", features.types, features.capabilities)?;
    for (kind, name) in TYPES.iter().enumerate().filter(|(kind, _)| features.types & 1 << kind != 0) {
        write!(out, "\n {name} group:\n max_groups={}", Hex(u128::from(features.max_groups[kind])))?;
        let has = |action: u16| features.actions[kind] & 1 << action != 0;
        let actions: Vec<&str> = ACTIONS.iter().filter(|(action, _)| has(*action)).map(|(_, name)| *name).collect();
        let actions = if actions.is_empty() { "<none>".to_owned() } else { actions.join(" ") };
        write!(out, "\n actions: {actions}")?;
    }
    Ok(())
}
