//! Whole messages: the header's text, and the dispatch of each message to the file that prints it.

use std::borrow::Cow;
use std::fmt::{self, Write};

use super::{bundle, control, flow_mod, group_meter, packet, port, session, stats};
use crate::msg::{Header, Message, StatsReply, StatsRequest, Version};

/// The maximum depth at which error messages that quote error messages are printed, which bounds the stack.
const MAX_DEPTH: u32 = 4;

/// Returns the message on one line, as `ovs-ofctl ofp-print` prints it (see the [module](super)).
pub fn message(header: &Header, message: &Message) -> String {
    one_line(&nested(header, message, 0))
}

/// Prints the message in the lines of Open vSwitch, within `depth` error messages.
pub(super) fn nested(header: &Header, message: &Message, depth: u32) -> String {
    let mut out = String::new();
    write_message(&mut out, header, message, depth).expect("writing to a string does not fail");
    out
}

fn write_message(out: &mut String, header: &Header, message: &Message, depth: u32) -> fmt::Result {
    let version = version_of(header);
    out.push_str(&name(version, message));
    write_version(out, header)?;
    match message {
        Message::Hello(hello) => session::hello(out, header, hello),
        Message::Error(error) if depth >= MAX_DEPTH => session::error_unquoted(out, version, error),
        Message::Error(error) => session::error(out, version, error, depth),
        Message::EchoRequest(data) | Message::EchoReply(data) => session::echo(out, data, depth),
        Message::FeaturesReply(features) => session::features(out, version, features),
        Message::PacketIn(packet_in) => packet::packet_in(out, version, packet_in),
        Message::PacketOut(packet_out) => packet::packet_out(out, version, packet_out),
        Message::FlowMod(flow_mod) => flow_mod::flow_mod(out, version, flow_mod),
        Message::FlowRemoved(removed) => flow_mod::flow_removed(out, version, removed),
        Message::PortStatus(status) => port::port_status(out, version, status),
        Message::GetConfigReply(config) | Message::SetConfig(config) => control::config(out, version, config),
        Message::PortMod(port_mod) => control::port_mod(out, version, port_mod),
        Message::TableMod(table_mod) => control::table_mod(out, table_mod),
        Message::GroupMod(group_mod) => group_meter::group_mod(out, group_mod),
        Message::MeterMod(meter_mod) => group_meter::meter_mod(out, meter_mod),
        Message::QueueGetConfigRequest(port) => control::queue_config_request(out, *port),
        Message::QueueGetConfigReply(queues) => control::queue_config(out, queues),
        Message::RoleRequest(role) => control::role(out, role, true),
        Message::RoleReply(role) => control::role(out, role, false),
        Message::GetAsyncReply(config) | Message::SetAsync(config) => control::async_config(out, config),
        Message::BundleControl(control) => bundle::control(out, control),
        Message::BundleAdd(add) => bundle::add(out, header, add, depth),
        Message::Experimenter(experimenter) => control::experimenter(out, version, experimenter),
        Message::Unknown { body, .. } => control::unknown(out, body),
        Message::StatsRequest(request) => stats::request(out, version, request),
        Message::StatsReply(reply) => stats::reply(out, version, reply),
        Message::FeaturesRequest
        | Message::GetConfigRequest
        | Message::BarrierRequest
        | Message::BarrierReply
        | Message::GetAsyncRequest => Ok(()),
    }
}

/// Returns the version for which the parts of a message are printed; hellos of later versions count as 1.3.
fn version_of(header: &Header) -> Version {
    if header.version <= Version::Of10 as u8 { Version::Of10 } else { Version::Of13 }
}

fn name(version: Version, message: &Message) -> Cow<'static, str> {
    Cow::Borrowed(match message {
        Message::Hello(_) => "OFPT_HELLO",
        Message::Error(_) => "OFPT_ERROR",
        Message::EchoRequest(_) => "OFPT_ECHO_REQUEST",
        Message::EchoReply(_) => "OFPT_ECHO_REPLY",
        Message::Experimenter(_) if version == Version::Of10 => "OFPT_VENDOR",
        Message::Experimenter(_) => "OFPT_EXPERIMENTER",
        Message::BundleControl(_) => "ONFT_BUNDLE_CONTROL",
        Message::BundleAdd(_) => "ONFT_BUNDLE_ADD_MESSAGE",
        Message::FeaturesRequest => "OFPT_FEATURES_REQUEST",
        Message::FeaturesReply(_) => "OFPT_FEATURES_REPLY",
        Message::GetConfigRequest => "OFPT_GET_CONFIG_REQUEST",
        Message::GetConfigReply(_) => "OFPT_GET_CONFIG_REPLY",
        Message::SetConfig(_) => "OFPT_SET_CONFIG",
        Message::PacketIn(_) => "OFPT_PACKET_IN",
        Message::FlowRemoved(_) => "OFPT_FLOW_REMOVED",
        Message::PortStatus(_) => "OFPT_PORT_STATUS",
        Message::PacketOut(_) => "OFPT_PACKET_OUT",
        Message::FlowMod(_) => "OFPT_FLOW_MOD",
        Message::GroupMod(_) => "OFPT_GROUP_MOD",
        Message::PortMod(_) => "OFPT_PORT_MOD",
        Message::TableMod(_) => "OFPT_TABLE_MOD",
        Message::BarrierRequest => "OFPT_BARRIER_REQUEST",
        Message::BarrierReply => "OFPT_BARRIER_REPLY",
        Message::QueueGetConfigRequest(_) => "OFPT_QUEUE_GET_CONFIG_REQUEST",
        Message::QueueGetConfigReply(_) => "OFPT_QUEUE_GET_CONFIG_REPLY",
        Message::RoleRequest(_) => "OFPT_ROLE_REQUEST",
        Message::RoleReply(_) => "OFPT_ROLE_REPLY",
        Message::GetAsyncRequest => "OFPT_GET_ASYNC_REQUEST",
        Message::GetAsyncReply(_) => "OFPT_GET_ASYNC_REPLY",
        Message::SetAsync(_) => "OFPT_SET_ASYNC",
        Message::MeterMod(_) => "OFPT_METER_MOD",
        Message::StatsRequest(StatsRequest { body, .. }) => {
            return Cow::Owned(format!("OFPST_{} request", stats::request_name(body)));
        }
        Message::StatsReply(StatsReply { body, .. }) => {
            return Cow::Owned(format!("OFPST_{} reply", stats::reply_name(body)));
        }
        Message::Unknown { kind, .. } => return Cow::Owned(format!("OFPT_UNKNOWN_{kind}")),
    })
}

/// Returns the known part of a message that can't be read: its type, version and transaction id.
pub fn header(header: &Header) -> String {
    let mut out = kind_name(header);
    write_version(&mut out, header).expect("writing to a string does not fail");
    out.pop();
    out
}

/// Returns the name of a message's type.
pub(super) fn kind_name(header: &Header) -> String {
    const BOTH: [&str; 15] = [
        "HELLO",
        "ERROR",
        "ECHO_REQUEST",
        "ECHO_REPLY",
        "EXPERIMENTER",
        "FEATURES_REQUEST",
        "FEATURES_REPLY",
        "GET_CONFIG_REQUEST",
        "GET_CONFIG_REPLY",
        "SET_CONFIG",
        "PACKET_IN",
        "FLOW_REMOVED",
        "PORT_STATUS",
        "PACKET_OUT",
        "FLOW_MOD",
    ];
    const OF10: [&str; 7] = [
        "PORT_MOD",
        "STATS_REQUEST",
        "STATS_REPLY",
        "BARRIER_REQUEST",
        "BARRIER_REPLY",
        "QUEUE_GET_CONFIG_REQUEST",
        "QUEUE_GET_CONFIG_REPLY",
    ];
    const OF13: [&str; 15] = [
        "GROUP_MOD",
        "PORT_MOD",
        "TABLE_MOD",
        "MULTIPART_REQUEST",
        "MULTIPART_REPLY",
        "BARRIER_REQUEST",
        "BARRIER_REPLY",
        "QUEUE_GET_CONFIG_REQUEST",
        "QUEUE_GET_CONFIG_REPLY",
        "ROLE_REQUEST",
        "ROLE_REPLY",
        "GET_ASYNC_REQUEST",
        "GET_ASYNC_REPLY",
        "SET_ASYNC",
        "METER_MOD",
    ];
    let after: &[&str] = match Version::from_wire(header.version) {
        Some(Version::Of10) => &OF10,
        Some(Version::Of13) => &OF13,
        None => &[],
    };
    match BOTH.iter().chain(after).nth(header.kind.into()) {
        Some(name) => format!("OFPT_{name}"),
        None => format!("OFPT_UNKNOWN_{}", header.kind),
    }
}

/// Prints version and transaction id; OpenFlow 1.0 is not named.
pub(super) fn write_version(out: &mut String, header: &Header) -> fmt::Result {
    match header.version {
        1 => {}
        version @ 2..=6 => write!(out, " (OF1.{})", version - 1)?,
        version => write!(out, " (OF 0x{version:02x})")?,
    }
    write!(out, " (xid={:#x}):", header.xid)
}

/// Returns `text` with each run of white space as one space.
fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_without_double_spaces() {
        assert_eq!(one_line(" a  b\n     c: d\n"), "a b c: d");
    }

    #[test]
    fn the_header_names_every_version_but_1_0() {
        let text = |version| {
            let header = Header { version, kind: 18, length: 8, xid: 0xab };
            message(&header, &Message::BarrierRequest)
        };
        assert_eq!(text(1), "OFPT_BARRIER_REQUEST (xid=0xab):");
        assert_eq!(text(4), "OFPT_BARRIER_REQUEST (OF1.3) (xid=0xab):");
        assert_eq!(text(9), "OFPT_BARRIER_REQUEST (OF 0x09) (xid=0xab):");
    }
}
