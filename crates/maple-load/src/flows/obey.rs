//! The reaction of a switch to one message of the controller.

use maple_wire::msg::stats::FlowStats;
use maple_wire::msg::{
    ErrorMsg, FlowMod, FlowModCommand, FlowRemoved, Header, PacketOut, ReplyBody, RequestBody, StatsReply, StatsRequest,
};
use maple_wire::{Instruction, Message, PortNo, Version};

use super::lab::Lab;
use super::table::Rule;
use crate::error::LoadError;
use crate::handshake::answer;

/// The maximum number of rules in one statistics message.
const RULES: usize = 200;
/// The table number that means all tables.
const ALL_TABLES: u8 = 0xff;
/// `OFPST_*` flag: more parts follow.
const MORE: u16 = 1;
/// `OFPRR_DELETE`.
const DELETED: u8 = 2;
/// The number of bytes of a request that an error carries.
const ERROR_DATA: usize = 64;
/// `OFPET_*` of a request that is not understood, of flow-mods in either version, and of group-mods.
const BAD_REQUEST: u16 = 1;
const FLOW_MOD_FAILED_10: u16 = 3;
const FLOW_MOD_FAILED_13: u16 = 5;
const GROUP_MOD_FAILED: u16 = 6;
/// `OFPBRC_BAD_STAT`.
const BAD_STAT: u16 = 2;

/// Obeys a message.
pub(super) fn message(lab: &mut Lab, switch: usize, header: Header, bytes: &[u8]) -> Result<(), LoadError> {
    let (_, message) = Message::decode(bytes).map_err(|error| lab.channels[switch].malformed(error))?;
    match message {
        Message::FlowMod(request) => flow_mod(lab, switch, header.xid, request, bytes),
        Message::PacketOut(request) => packet_out(lab, switch, request),
        Message::GroupMod(request) => {
            lab.counters.group_mods += 1;
            if lab.fabric.nodes[switch].group_mod(request) {
                Ok(())
            } else {
                refuse(lab, switch, header.xid, (GROUP_MOD_FAILED, 0), bytes)
            }
        }
        Message::StatsRequest(request) => statistics(lab, switch, header.xid, &request.body, bytes),
        other => converse(lab, switch, header.xid, &other),
    }
}

/// Answers requests, and ignores messages that need no answer.
fn converse(lab: &mut Lab, switch: usize, xid: u32, message: &Message) -> Result<(), LoadError> {
    match message {
        Message::BarrierRequest => lab.counters.barriers += 1,
        Message::FeaturesRequest => lab.is_known[switch] = true,
        Message::Error(error) if !lab.is_known[switch] => {
            return Err(lab.channels[switch].closed(&format!("error type {} code {}", error.kind, error.code)));
        }
        _ => {}
    }
    match answer(lab.options.version, &lab.identities[switch], message) {
        Some(reply) => lab.channels[switch].say(xid, &reply),
        None => Ok(()),
    }
}

fn flow_mod(lab: &mut Lab, switch: usize, xid: u32, request: FlowMod, bytes: &[u8]) -> Result<(), LoadError> {
    lab.counters.flow_mods += 1;
    if request.command == FlowModCommand::Add {
        lab.counters.adds += 1;
        let is_up = Instruction::lead_to(&request.instructions, PortNo::CONTROLLER, u32::MAX);
        lab.counters.adds_to_controller += u64::from(is_up);
    }
    let version = lab.options.version;
    let Some(gone) = lab.fabric.nodes[switch].flow_mod(version, request) else {
        let kind = if version == Version::Of10 { FLOW_MOD_FAILED_10 } else { FLOW_MOD_FAILED_13 };
        return refuse(lab, switch, xid, (kind, 0), bytes);
    };
    for (table_id, rule) in gone.into_iter().filter(|(_, rule)| rule.flags & FlowMod::SEND_FLOW_REM != 0) {
        lab.channels[switch].say(0, &Message::FlowRemoved(removed(table_id, rule)))?;
    }
    Ok(())
}

fn removed(table_id: u8, rule: Rule) -> FlowRemoved {
    FlowRemoved {
        cookie: rule.cookie,
        priority: rule.priority,
        reason: DELETED,
        table_id,
        duration_sec: 0,
        duration_nsec: 0,
        idle_timeout: 0,
        hard_timeout: 0,
        packet_count: rule.packets,
        byte_count: rule.bytes,
        matching: rule.matching,
    }
}

fn packet_out(lab: &mut Lab, switch: usize, request: PacketOut) -> Result<(), LoadError> {
    lab.counters.packet_outs += 1;
    lab.fabric.send((switch, request.in_port.0), &request.actions, request.data, &mut lab.seen);
    lab.look()
}

fn statistics(lab: &mut Lab, switch: usize, xid: u32, body: &RequestBody, bytes: &[u8]) -> Result<(), LoadError> {
    let RequestBody::Flow(request) = body else {
        let request = StatsRequest { flags: 0, body: body.clone() };
        return match answer(lab.options.version, &lab.identities[switch], &Message::StatsRequest(request)) {
            Some(reply) => lab.channels[switch].say(xid, &reply),
            None => refuse(lab, switch, xid, (BAD_REQUEST, BAD_STAT), bytes),
        };
    };
    let selects = |rule: &&Rule| {
        request.matching.covers(&rule.matching)
            && rule.cookie & request.cookie_mask == request.cookie & request.cookie_mask
            && Instruction::lead_to(&rule.instructions, request.out_port, request.out_group)
    };
    let tables = (0..).zip(&lab.fabric.nodes[switch].tables);
    let mut rules: Vec<FlowStats> = tables
        .filter(|(id, _)| request.table_id == ALL_TABLES || request.table_id == *id)
        .flat_map(|(id, table)| table.rules().filter(selects).map(move |rule| counted(id, rule)))
        .collect();
    loop {
        let rest = rules.split_off(rules.len().min(RULES));
        let flags = if rest.is_empty() { 0 } else { MORE };
        let reply = StatsReply { flags, body: ReplyBody::Flow(rules) };
        lab.channels[switch].say(xid, &Message::StatsReply(reply))?;
        if rest.is_empty() {
            return Ok(());
        }
        rules = rest;
    }
}

fn counted(table_id: u8, rule: &Rule) -> FlowStats {
    FlowStats {
        table_id,
        duration_sec: 0,
        duration_nsec: 0,
        priority: rule.priority,
        idle_timeout: 0,
        hard_timeout: 0,
        flags: rule.flags,
        cookie: rule.cookie,
        packet_count: rule.packets,
        byte_count: rule.bytes,
        matching: rule.matching.clone(),
        instructions: rule.instructions.to_vec(),
    }
}

fn refuse(lab: &mut Lab, switch: usize, xid: u32, (kind, code): (u16, u16), bytes: &[u8]) -> Result<(), LoadError> {
    lab.counters.refused += 1;
    let data = bytes[..bytes.len().min(ERROR_DATA)].to_vec();
    lab.channels[switch].say(xid, &Message::Error(ErrorMsg { kind, code, data }))
}
