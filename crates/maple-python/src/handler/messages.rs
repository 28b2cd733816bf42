//! The messages that handlers return.

use maple_wire::msg::ALL_TABLES;
use maple_wire::msg::{FlowMod, FlowModCommand, NO_BUFFER, PacketOut};
use maple_wire::{Header, Version, print};
use maple_wire::{Instruction, Match, Message, PortNo};
use pyo3::prelude::*;

use super::action;
use super::matching::PyMatch;
use super::packet_in::PyPacketIn;

/// The flow-mod flag `OFPFF_CHECK_OVERLAP`.
const CHECK_OVERLAP: u16 = 2;

/// A message that makes the switch send a packet.
#[pyclass(frozen, name = "PacketOut", module = "maple.openflow", eq)]
#[derive(PartialEq)]
pub struct PyPacketOut(Message);

/// Adds, changes or deletes rules.
#[pyclass(frozen, name = "FlowMod", module = "maple.openflow", eq)]
#[derive(PartialEq)]
pub struct PyFlowMod {
    message: Message,
    /// The packet-out that follows the rule if the switch does not buffer the packet.
    packet_out: Option<Message>,
}

/// Makes the switch finish all earlier messages, and confirm that.
#[pyclass(frozen, module = "maple.openflow", eq)]
#[derive(PartialEq)]
pub struct Barrier;

/// Returns a message as text for people.
pub(super) fn message_text(message: &Message) -> String {
    let mut bytes = Vec::new();
    let encoded =
        message.encode(Version::Of13, 0, &mut bytes).or_else(|_| message.encode(Version::Of10, 0, &mut bytes));
    match encoded.ok().and_then(|()| Header::peek(&bytes).ok().flatten()) {
        Some(header) => print::message(&header, message),
        None => format!("{message:?}"),
    }
}

impl PyPacketOut {
    /// Wraps this packet-out.
    pub(super) fn new(message: Message) -> PyPacketOut {
        PyPacketOut(message)
    }

    /// Returns the packet-out.
    pub(super) fn message(&self) -> &Message {
        &self.0
    }
}

#[pymethods]
impl PyPacketOut {
    #[new]
    #[pyo3(signature = (actions, data = Vec::new(), *, in_port = 0xffff_fffd, buffer_id = None))]
    fn py_new(
        actions: &Bound<'_, PyAny>,
        data: Vec<u8>,
        in_port: u32,
        buffer_id: Option<u32>,
    ) -> PyResult<PyPacketOut> {
        let (actions, in_port) = (action::actions(actions)?, PortNo(in_port));
        let buffer_id = buffer_id.unwrap_or(NO_BUFFER);
        Ok(PyPacketOut(Message::PacketOut(PacketOut { buffer_id, in_port, actions, data })))
    }

    fn __repr__(&self) -> String {
        format!("<PacketOut {}>", message_text(&self.0))
    }
}

impl PyFlowMod {
    /// Returns the flow-mod.
    pub(super) fn message(&self) -> &Message {
        &self.message
    }

    /// Returns the packet-out that follows the rule, if one is needed.
    pub(super) fn packet_out(&self) -> Option<&Message> {
        self.packet_out.as_ref()
    }

    fn alone(flow_mod: FlowMod) -> PyFlowMod {
        PyFlowMod { message: Message::FlowMod(flow_mod), packet_out: None }
    }
}

/// Returns the instructions of a rule: its meter, its actions and its next table.
fn instructions(actions: Vec<maple_wire::Action>, goto: Option<u8>, meter: Option<u32>) -> Vec<Instruction> {
    let apply = (!actions.is_empty()).then_some(Instruction::ApplyActions(actions));
    [meter.map(Instruction::Meter), apply, goto.map(Instruction::GotoTable)].into_iter().flatten().collect()
}

#[pymethods]
impl PyFlowMod {
    /// Adds a rule.
    #[staticmethod]
    #[pyo3(signature = (
        r#match, actions, *, priority = 0x8000, idle_timeout = 0, hard_timeout = 0, cookie = 0, table = 0, goto = None,
        meter = None, flow_removed = false, check_overlap = false, packet = None
    ))]
    #[allow(clippy::too_many_arguments, reason = "they are keywords")]
    fn add(
        r#match: &Bound<'_, PyMatch>,
        actions: &Bound<'_, PyAny>,
        priority: u16,
        idle_timeout: u16,
        hard_timeout: u16,
        cookie: u64,
        table: u8,
        goto: Option<u8>,
        meter: Option<u32>,
        flow_removed: bool,
        check_overlap: bool,
        packet: Option<&Bound<'_, PyPacketIn>>,
    ) -> PyResult<PyFlowMod> {
        let actions = action::actions(actions)?;
        let (mut buffer_id, mut packet_out) = (None, None);
        if let Some(packet) = packet {
            buffer_id = packet.get().buffer();
            if buffer_id.is_none() && !actions.is_empty() {
                packet_out = Some(packet.get().sent(actions.clone()));
            }
        }
        let flags =
            if flow_removed { FlowMod::SEND_FLOW_REM } else { 0 } | if check_overlap { CHECK_OVERLAP } else { 0 };
        let matching = r#match.get().0.clone();
        let instructions = instructions(actions, goto, meter);
        let message = Message::FlowMod(FlowMod {
            cookie,
            table_id: table,
            idle_timeout,
            hard_timeout,
            buffer_id: buffer_id.unwrap_or(NO_BUFFER),
            flags,
            ..FlowMod::new(FlowModCommand::Add, priority, matching, instructions)
        });
        Ok(PyFlowMod { message, packet_out })
    }

    /// Changes the actions of rules: of all rules within the match, or of the one with this match and priority.
    #[staticmethod]
    #[pyo3(signature = (
        r#match, actions, *, strict = false, priority = 0x8000, cookie = 0, cookie_mask = 0, table = 0, goto = None,
        meter = None
    ))]
    #[allow(clippy::too_many_arguments, reason = "they are keywords")]
    fn modify(
        r#match: &Bound<'_, PyMatch>,
        actions: &Bound<'_, PyAny>,
        strict: bool,
        priority: u16,
        cookie: u64,
        cookie_mask: u64,
        table: u8,
        goto: Option<u8>,
        meter: Option<u32>,
    ) -> PyResult<PyFlowMod> {
        let command = if strict { FlowModCommand::ModifyStrict } else { FlowModCommand::Modify };
        let instructions = instructions(action::actions(actions)?, goto, meter);
        let flow_mod = FlowMod::new(command, priority, r#match.get().0.clone(), instructions);
        Ok(PyFlowMod::alone(FlowMod { cookie, cookie_mask, table_id: table, ..flow_mod }))
    }

    /// Deletes rules: all within the match, or the one with this match and priority.
    #[staticmethod]
    #[pyo3(signature = (
        r#match = None, *, strict = false, priority = 0x8000, out_port = None, cookie = 0, cookie_mask = 0, table = None
    ))]
    fn delete(
        r#match: Option<&Bound<'_, PyMatch>>,
        strict: bool,
        priority: u16,
        out_port: Option<u32>,
        cookie: u64,
        cookie_mask: u64,
        table: Option<u8>,
    ) -> PyFlowMod {
        let command = if strict { FlowModCommand::DeleteStrict } else { FlowModCommand::Delete };
        let matching = r#match.map_or_else(Match::any, |matching| matching.get().0.clone());
        let flow_mod = FlowMod::new(command, priority, matching, Vec::new());
        let (table_id, out_port) = (table.unwrap_or(ALL_TABLES), out_port.map_or(PortNo::ANY, PortNo));
        PyFlowMod::alone(FlowMod { cookie, cookie_mask, table_id, out_port, ..flow_mod })
    }

    fn __repr__(&self) -> String {
        format!("<FlowMod {}>", message_text(&self.message))
    }
}

#[pymethods]
impl Barrier {
    #[new]
    fn new() -> Barrier {
        Barrier
    }

    fn __repr__(&self) -> &'static str {
        "<Barrier>"
    }
}
