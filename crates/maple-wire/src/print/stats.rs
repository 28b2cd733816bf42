//! Statistics: requests, and replies about rules, ports, queues, groups and meters.

use std::fmt::{self, Write};

use super::flow::{FlowLine, write_rule};
use super::value::{BitNames, Duration, EscapedText, Hex, HexBytes};
use super::{group_meter, matching, port, table};
use crate::msg::stats::{
    Desc, FlowStats, FlowStatsRequest, GroupStats, MORE, MeterFeatures, MeterStats, PortStats, QueueStats,
    QueueStatsRequest,
};
use crate::msg::{ReplyBody, RequestBody, StatsReply, StatsRequest, Version};
use crate::port::PortNo;

/// The kinds of requests and replies by their numbers, as they appear after `OFPST_`.
const KINDS: [&str; 14] = [
    "DESC",
    "FLOW",
    "AGGREGATE",
    "TABLE",
    "PORT",
    "QUEUE",
    "GROUP",
    "GROUP_DESC",
    "GROUP_FEATURES",
    "METER",
    "METER_CONFIG",
    "METER_FEATURES",
    "TABLE_FEATURES",
    "PORT_DESC",
];

/// Returns the kind of a request, as it appears after `OFPST_`.
pub(super) fn request_name(body: &RequestBody) -> &'static str {
    if matches!(body, RequestBody::Unknown { .. }) { "UNKNOWN" } else { name(body.kind()) }
}

/// Returns the kind of a reply, as it appears after `OFPST_`.
pub(super) fn reply_name(body: &ReplyBody) -> &'static str {
    if matches!(body, ReplyBody::Unknown { .. }) { "UNKNOWN" } else { name(body.kind()) }
}

fn name(kind: u16) -> &'static str {
    KINDS.get(usize::from(kind)).unwrap_or(&"EXPERIMENTER")
}

/// Prints the subject of a request.
pub(super) fn request(out: &mut String, version: Version, request: &StatsRequest) -> fmt::Result {
    write_flags(out, request.flags, version != Version::Of10)?;
    match &request.body {
        RequestBody::Flow(rules) | RequestBody::Aggregate(rules) => flow_request(out, version, rules),
        RequestBody::Port(port) => write!(out, " port_no={port}"),
        RequestBody::Queue(queues) => queue_request(out, queues),
        RequestBody::Group(0xffff_fffc) => out.write_str(" group_id=ALL"),
        RequestBody::Group(0xffff_ffff) => out.write_str(" group_id=ANY"),
        RequestBody::Group(group) => write!(out, " group_id={group}"),
        // Later versions name a group or a port here.
        RequestBody::GroupDesc => out.write_str(" group_id=ALL"),
        RequestBody::PortDesc => out.write_str(" port=ANY"),
        RequestBody::Meter(meter) | RequestBody::MeterConfig(meter) => {
            out.write_char(' ')?;
            group_meter::write_meter_number(out, *meter)
        }
        RequestBody::TableFeatures(tables) => table::features(out, tables),
        RequestBody::Experimenter { id, body } => experimenter(out, *id, body),
        RequestBody::Unknown { kind, body } => unknown(out, *kind, body),
        RequestBody::Desc | RequestBody::Table | RequestBody::GroupFeatures | RequestBody::MeterFeatures => Ok(()),
    }
}

/// Prints the statistics.
pub(super) fn reply(out: &mut String, version: Version, reply: &StatsReply) -> fmt::Result {
    write_flags(out, reply.flags, true)?;
    match &reply.body {
        ReplyBody::Desc(switch) => desc(out, switch),
        ReplyBody::Flow(rules) => rules.iter().try_for_each(|rule| flow(out, version, rule)),
        ReplyBody::Aggregate(sum) => {
            write!(out, " packet_count={} byte_count={}", sum.packet_count, sum.byte_count)?;
            write!(out, " flow_count={}", sum.flow_count)
        }
        ReplyBody::Table(tables) => table::statistics(out, version, tables),
        ReplyBody::Port(ports) => {
            write!(out, " {} ports", ports.len())?;
            ports.iter().try_for_each(|one| port_counters(out, version, one))
        }
        ReplyBody::Queue(queues) => {
            write!(out, " {} queues", queues.len())?;
            queues.iter().try_for_each(|one| queue(out, version, one))
        }
        ReplyBody::Group(groups) => groups.iter().try_for_each(|one| group(out, one)),
        ReplyBody::GroupDesc(groups) => groups.iter().try_for_each(|one| {
            out.write_str("\n ")?;
            group_meter::group(out, one.group, one.kind, &one.buckets)
        }),
        ReplyBody::GroupFeatures(features) => group_meter::group_features(out, features),
        ReplyBody::Meter(meters) => meters.iter().try_for_each(|one| meter(out, one)),
        ReplyBody::MeterConfig(meters) => meters.iter().try_for_each(|one| {
            out.write_char('\n')?;
            group_meter::meter(out, one.meter, one.flags, &one.bands)
        }),
        ReplyBody::MeterFeatures(features) => meter_features(out, features),
        ReplyBody::TableFeatures(tables) => table::features(out, tables),
        ReplyBody::PortDesc(ports) => port::ports(out, version, ports),
        ReplyBody::Experimenter { id, body } => experimenter(out, *id, body),
        ReplyBody::Unknown { kind, body } => unknown(out, *kind, body),
    }
}

fn write_flags(out: &mut String, flags: u16, may_have_more: bool) -> fmt::Result {
    if flags == 0 {
        return Ok(());
    }
    out.write_str(" flags=")?;
    let more = if may_have_more { flags & MORE } else { 0 };
    if more != 0 {
        out.write_str("[more]")?;
    }
    match flags & !more {
        0 => Ok(()),
        unknown => write!(out, "[***unknown flags 0x{unknown:04x}***]"),
    }
}

fn flow_request(out: &mut String, version: Version, rules: &FlowStatsRequest) -> fmt::Result {
    if rules.table_id != 0xff {
        write!(out, " table={}", rules.table_id)?;
    }
    if rules.out_port != PortNo::ANY {
        write!(out, " out_port={}", rules.out_port)?;
    }
    write!(out, " {}", matching(version, &rules.matching))
}

fn queue_request(out: &mut String, queues: &QueueStatsRequest) -> fmt::Result {
    let port = if queues.port == PortNo::ALL { PortNo::ANY } else { queues.port };
    match queues.queue {
        0xffff_ffff => write!(out, " port={port} queue=ALL"),
        queue => write!(out, " port={port} queue={queue}"),
    }
}

fn desc(out: &mut String, switch: &Desc) -> fmt::Result {
    writeln!(out, "\nManufacturer: {}", EscapedText(&switch.manufacturer.0))?;
    writeln!(out, "Hardware: {}", EscapedText(&switch.hardware.0))?;
    writeln!(out, "Software: {}", EscapedText(&switch.software.0))?;
    writeln!(out, "Serial Num: {}", EscapedText(&switch.serial.0))?;
    write!(out, "DP Description: {}", EscapedText(&switch.datapath.0))
}

fn flow(out: &mut String, version: Version, rule: &FlowStats) -> fmt::Result {
    let duration = Duration { sec: rule.duration_sec, nsec: rule.duration_nsec };
    write!(out, "\n cookie={:#x}, duration={duration}, table={}, ", rule.cookie, rule.table_id)?;
    write!(out, "n_packets={}, n_bytes={}, ", Counter(rule.packet_count), Counter(rule.byte_count))?;
    let line = FlowLine {
        version,
        cookie: rule.cookie,
        table: rule.table_id,
        idle_timeout: rule.idle_timeout,
        hard_timeout: rule.hard_timeout,
        flags: rule.flags,
        priority: rule.priority,
        matching: &rule.matching,
        instructions: &rule.instructions,
    };
    write_rule(out, &line)
}

fn port_counters(out: &mut String, version: Version, port: &PortStats) -> fmt::Result {
    write!(out, "\n  port {}: rx pkts={}, ", port.port, Counter(port.rx_packets))?;
    write!(out, "bytes={}, drop={}, ", Counter(port.rx_bytes), Counter(port.rx_dropped))?;
    write!(out, "errs={}, frame={}, ", Counter(port.rx_errors), Counter(port.rx_frame_err))?;
    write!(out, "over={}, crc={}", Counter(port.rx_over_err), Counter(port.rx_crc_err))?;
    write!(out, "\n tx pkts={}, bytes={}, ", Counter(port.tx_packets), Counter(port.tx_bytes))?;
    write!(out, "drop={}, errs={}, ", Counter(port.tx_dropped), Counter(port.tx_errors))?;
    write!(out, "coll={}", Counter(port.collisions))?;
    if version == Version::Of10 || port.duration_sec == u32::MAX {
        return Ok(());
    }
    write!(out, "\n duration={}", Duration { sec: port.duration_sec, nsec: port.duration_nsec })
}

fn queue(out: &mut String, version: Version, queue: &QueueStats) -> fmt::Result {
    write!(out, "\n  port {} queue {}: ", queue.port, queue.queue)?;
    write!(out, "bytes={}, pkts={}, ", Counter(queue.tx_bytes), Counter(queue.tx_packets))?;
    write!(out, "errors={}, duration=", Counter(queue.tx_errors))?;
    if version == Version::Of10 || queue.duration_sec == u32::MAX {
        return out.write_char('?');
    }
    write!(out, "{}", Duration { sec: queue.duration_sec, nsec: queue.duration_nsec })
}

fn group(out: &mut String, group: &GroupStats) -> fmt::Result {
    write!(out, "\n group_id={},", group.group)?;
    if group.duration_sec != u32::MAX {
        write!(out, "duration={},", Duration { sec: group.duration_sec, nsec: group.duration_nsec })?;
    }
    write!(out, "ref_count={},", group.ref_count)?;
    write!(out, "packet_count={},byte_count={}", group.packet_count, group.byte_count)?;
    for (number, bucket) in group.buckets.iter().enumerate() {
        write!(out, ",bucket{number}:packet_count={},byte_count={}", bucket.packet_count, bucket.byte_count)?;
    }
    Ok(())
}

fn meter(out: &mut String, meter: &MeterStats) -> fmt::Result {
    out.write_char('\n')?;
    match meter.meter {
        0xffff_fffd => out.write_str("meter:slowpath")?,
        0xffff_fffe => out.write_str("meter:controller")?,
        number => write!(out, "meter:{number}")?,
    }
    write!(out, " flow_count:{} packet_in_count:{}", meter.flow_count, meter.packet_in_count)?;
    let duration = Duration { sec: meter.duration_sec, nsec: meter.duration_nsec };
    write!(out, " byte_in_count:{} duration:{duration} bands:", meter.byte_in_count)?;
    for (number, band) in meter.bands.iter().enumerate() {
        write!(out, "\n{number}: packet_count:{} byte_count:{}", band.packet_count, band.byte_count)?;
    }
    Ok(())
}

fn meter_features(out: &mut String, features: &MeterFeatures) -> fmt::Result {
    write!(out, "\nmax_meter:{} max_bands:{}", features.max_meter, features.max_bands)?;
    let types =
        BitNames { bits: features.band_types, names: &["", "drop", "dscp_remark"], zero: "0", shows_nameless: true };
    write!(out, " max_color:{}\nband_types: {types}", features.max_color)?;
    let names = &["kbps", "pktps", "burst", "stats"];
    write!(out, "\ncapabilities: {}", BitNames { bits: features.capabilities, names, zero: "0", shows_nameless: true })
}

fn experimenter(out: &mut String, id: u32, body: &[u8]) -> fmt::Result {
    write!(out, " experimenter={} 0x{}", Hex(u128::from(id)), HexBytes(body))
}

fn unknown(out: &mut String, kind: u16, body: &[u8]) -> fmt::Result {
    write!(out, " kind={kind} 0x{}", HexBytes(body))
}

/// A counter. All ones means that the switch does not have it.
struct Counter(u64);

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == u64::MAX { f.write_char('?') } else { write!(f, "{}", self.0) }
    }
}
