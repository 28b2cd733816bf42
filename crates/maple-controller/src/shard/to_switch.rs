//! Sends the engine's messages to a connected switch: the last step of a packet-out before its outbox ([`Io::send`]).

use maple_core::engine::Event;
use maple_wire::Message;
use maple_wire::msg::stats::{FlowStatsRequest, RequestBody};
use maple_wire::msg::{ErrorMsg, PacketOut};

use super::context::Context;
use super::io::Io;

/// The number of waiting bytes above which a request that can wait is not sent to a switch. Chosen: more than a hundred
/// rules, so a switch that is only a turn behind is still asked.
const MAX_BYTES_BEFORE_POLL: usize = 16 * 1024;
/// The maximum number of outputs in one packet-out. A message has at most 65,535 bytes. With 16 bytes each, the outputs
/// leave room for a frame of 9,000 bytes.
const MAX_OUTPUTS: usize = 3_500;

/// Sends a message of the engine to the switch in this slot. The session reads all rules in pieces; then it has
/// outputs, which the shard acts on.
pub(super) fn send(slot: usize, xid: u32, message: &Message, io: &mut Io, ctx: &mut Context) {
    match message {
        Message::FlowMod(_) | Message::BundleAdd(_) => return send_flow_mod(slot, xid, message, io, ctx),
        Message::PacketOut(packet_out) if packet_out.actions.len() > MAX_OUTPUTS => {
            return send_in_parts(slot, xid, packet_out, io, ctx);
        }
        Message::PacketOut(_) => ctx.counters.of_packet_outs += 1,
        _ if reads_all_rules(message) => {
            if let Some((session, outputs)) = io.session(slot) {
                session.ask_for_all_rules(ctx.now, xid, outputs);
            }
            return;
        }
        _ => {
            if let Some((session, _)) = io.session(slot) {
                session.on_sent(ctx.now, xid, message);
            }
            io.arm(slot);
        }
    }
    // An error is counted and logged.
    let _ = io.send(slot, xid, message, ctx);
}

/// Reports whether a message asks for all rules of a switch, which the session reads in pieces.
pub(super) fn reads_all_rules(message: &Message) -> bool {
    matches!(message, Message::StatsRequest(request) if request.body == RequestBody::Flow(FlowStatsRequest::all()))
}

/// Reports whether a request that can wait should wait, because much output does.
pub(super) fn is_busy(slot: usize, io: &mut Io) -> bool {
    io.get(slot).is_some_and(|connection| connection.input.is_paused || connection.outbox.len() > MAX_BYTES_BEFORE_POLL)
}

/// Sends a packet-out with more outputs than fit one message.
fn send_in_parts(slot: usize, xid: u32, packet_out: &PacketOut, io: &mut Io, ctx: &mut Context) {
    for part in packet_out.split(MAX_OUTPUTS) {
        ctx.counters.of_packet_outs += 1;
        let _ = io.send(slot, xid, &Message::PacketOut(part), ctx);
    }
}

/// Sends a rule. If the switch's version cannot express it, refuses it as the switch would.
fn send_flow_mod(slot: usize, xid: u32, message: &Message, io: &mut Io, ctx: &mut Context) {
    match io.send(slot, xid, message, ctx) {
        Ok(()) => ctx.counters.of_flow_mods += 1,
        Err(error) => {
            let Some((_, dpid, switch)) = io.up(slot) else { return };
            let (kind, code) = ErrorMsg::flow_mod_failed(switch.version);
            let error = ErrorMsg { kind, code, data: error.to_string().into_bytes() };
            ctx.events.push(Event::SwitchError { dpid, xid, error });
        }
    }
}
