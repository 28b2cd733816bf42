//! The connections of controllers: hello, requests and their answers, and asynchronous messages.

use std::collections::BTreeMap;

use maple_wire::msg::{AsyncConfig, ErrorMsg, Experimenter, Features, Hello, PacketInReason, PortMod, PortReason};
use maple_wire::msg::{Header, SwitchConfig};
use maple_wire::{Error, Field, Message, Version};

use super::bundles::Bundle;
use super::refusal::Refusal;
use super::roles::ConnectionRole;
use super::stats::WILDCARDS10;
use super::{ControllerId, Outgoing, Removal, Switch};
use crate::time::Nanoseconds;

/// The number of bytes of a refused request that an error message repeats. The specifications require at least 64 (1.0
/// §5.4.4, 1.3 §7.4.4).
const ERROR_DATA: usize = 128;
/// `OFP_DEFAULT_MISS_SEND_LEN`.
const MISS_SEND_LEN: u16 = 128;
/// The bits of `OFPC_FRAG_*`.
const FRAGMENTS: u16 = 3;
/// `OFPC_FRAG_REASM`, the mode that the switch does not have.
const REASSEMBLE: u16 = 2;
/// `OFPC_INVALID_TTL_TO_CONTROLLER` of 1.1, which Open vSwitch accepts in 1.0 as well.
const INVALID_TTL: u16 = 4;

/// The state of a connection.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    state: State,
    pub(super) role: ConnectionRole,
    unasked: AsyncConfig,
    /// The flags of `SET_CONFIG` that are not about fragments.
    flags: u16,
    /// The bytes of a packet that the controller wants, as it said with `SET_CONFIG`. The switch sends whole packets.
    miss_send_len: u16,
    /// The open bundles, by number.
    pub(super) bundles: BTreeMap<u32, Bundle>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Down,
    /// The switch has sent its hello, and the controller's has not come.
    Greeting,
    Up,
}

impl Connection {
    /// Returns the state of a connection that is closed.
    fn closed(version: Version) -> Connection {
        // Masters and equals get all but invalid TTLs, slaves only port-status (1.3 §6.3.5). 1.0 has no such masks.
        let packet_in = if version == Version::Of10 { u32::MAX } else { 0b011 };
        let unasked = AsyncConfig { packet_in: [packet_in, 0], port_status: [0b111, 0b111], flow_removed: [0b1111, 0] };
        Connection {
            state: State::Down,
            role: ConnectionRole::Equal,
            unasked,
            flags: 0,
            miss_send_len: MISS_SEND_LEN,
            bundles: BTreeMap::new(),
        }
    }

    fn wants(&self, masks: [u32; 2], reason: u32) -> bool {
        let mask = masks[usize::from(self.role == ConnectionRole::Slave)];
        mask.checked_shr(reason).is_some_and(|bits| bits & 1 == 1)
    }

    pub(super) fn wants_packet_in(&self, reason: PacketInReason) -> bool {
        let number = match reason {
            PacketInReason::NoMatch => 0,
            PacketInReason::Action => 1,
            PacketInReason::InvalidTtl => 2,
            PacketInReason::Other(number) => u32::from(number),
        };
        self.wants(self.unasked.packet_in, number)
    }

    pub(super) fn wants_port_status(&self, reason: PortReason) -> bool {
        let number = match reason {
            PortReason::Add => 0,
            PortReason::Delete => 1,
            PortReason::Modify => 2,
            PortReason::Other(number) => u32::from(number),
        };
        self.wants(self.unasked.port_status, number)
    }

    pub(super) fn wants_flow_removed(&self, why: Removal) -> bool {
        self.wants(self.unasked.flow_removed, why as u32)
    }
}

impl Switch {
    /// Opens a connection to the first controller: the switch sends its hello.
    pub fn connect(&mut self) -> Vec<Outgoing> {
        self.connect_to(ControllerId::FIRST)
    }

    /// Opens a connection to a controller: the switch sends its hello. A connection to it that is open ends.
    pub fn connect_to(&mut self, controller: ControllerId) -> Vec<Outgoing> {
        self.disconnect_from(controller);
        self.connections[controller.index()].state = State::Greeting;
        let version = self.version as u8;
        let hello = match self.version {
            Version::Of10 => Hello { version, elements: Vec::new() },
            Version::Of13 => Hello::offering(version, &[version]),
        };
        vec![Outgoing::Message { controller, xid: 0, message: Message::Hello(hello) }]
    }

    /// Closes the connection to the first controller. The rules stay.
    pub fn disconnect(&mut self) {
        self.disconnect_from(ControllerId::FIRST);
    }

    /// Closes the connection to a controller. The rules stay, and so does the generation of masters.
    pub fn disconnect_from(&mut self, controller: ControllerId) {
        let closed = Connection::closed(self.version);
        if self.connections.len() <= controller.index() {
            self.connections.resize(controller.index() + 1, closed.clone());
        }
        self.connections[controller.index()] = closed;
    }

    /// Reports whether a controller is connected and versions are agreed on.
    pub fn is_connected(&self) -> bool {
        self.connections.iter().any(|connection| connection.state == State::Up)
    }

    /// Reports whether this controller is connected and versions are agreed on.
    pub fn is_connected_to(&self, controller: ControllerId) -> bool {
        self.connections.get(controller.index()).is_some_and(|connection| connection.state == State::Up)
    }

    /// Obeys the bytes of one complete message of the first controller. The answer to an invalid one is an error.
    pub fn receive_bytes(&mut self, now: Nanoseconds, bytes: &[u8]) -> Vec<Outgoing> {
        self.receive_bytes_from(ControllerId::FIRST, now, bytes)
    }

    /// Obeys the bytes of one complete message of a controller, with whom a connection was opened.
    pub fn receive_bytes_from(&mut self, from: ControllerId, now: Nanoseconds, bytes: &[u8]) -> Vec<Outgoing> {
        match Message::decode(bytes) {
            Ok((header, message)) if self.speaks(&header, &message) => {
                self.handle_from(from, now, header.xid, message, bytes)
            }
            Ok((header, _)) => vec![self.error(from, Refusal::BadVersion, header.xid, bytes)],
            Err(error) => match Header::peek(bytes) {
                Ok(Some(header)) => vec![self.error(from, refusal_of(&error), header.xid, bytes)],
                // Without a header, nothing that follows can be parsed.
                Ok(None) | Err(_) => vec![self.error(from, Refusal::BadLength, 0, bytes), Outgoing::Close(from)],
            },
        }
    }

    /// Sends a message to each controller that wants it. Returns the number of them.
    pub(super) fn notify(&self, wants: impl Fn(&Connection) -> bool, message: Message, out: &mut Vec<Outgoing>) -> u64 {
        let before = out.len();
        let mut wanting = self.listeners(wants);
        if let Some(first) = wanting.next() {
            let copies = wanting.map(|controller| (controller, message.clone())).collect::<Vec<_>>();
            for (controller, message) in std::iter::once((first, message)).chain(copies) {
                out.push(Outgoing::Message { controller, xid: 0, message });
            }
        }
        (out.len() - before) as u64
    }

    /// Returns the controllers that are connected and want a message.
    pub(super) fn listeners(&self, wants: impl Fn(&Connection) -> bool) -> impl Iterator<Item = ControllerId> {
        let all = (0..).map(ControllerId).zip(&self.connections);
        all.filter(move |(_, one)| one.state == State::Up && wants(one)).map(|(controller, _)| controller)
    }

    fn speaks(&self, header: &Header, message: &Message) -> bool {
        header.version == self.version as u8 || matches!(message, Message::Hello(_) | Message::Error(_))
    }

    pub(super) fn error(&mut self, to: ControllerId, refusal: Refusal, xid: u32, request: &[u8]) -> Outgoing {
        self.counters.errors += u64::from(refusal != Refusal::BadExperimenter);
        let (kind, code) = refusal.number(self.version);
        // An experimenter's error begins with the experimenter.
        let mut data =
            if kind == ErrorMsg::EXPERIMENTER { Experimenter::ONF.to_be_bytes().to_vec() } else { Vec::new() };
        if let (Refusal::NICIRA, Some((kind, code))) = ((kind, code), refusal.nicira()) {
            data.extend(Experimenter::NICIRA.to_be_bytes());
            data.extend([kind, code].iter().flat_map(|number| number.to_be_bytes()));
        }
        data.extend_from_slice(&request[..request.len().min(ERROR_DATA)]);
        Outgoing::Message { controller: to, xid, message: Message::Error(ErrorMsg { kind, code, data }) }
    }

    /// Obeys a message of the first controller; `bytes` are its encoded form.
    pub fn handle(&mut self, now: Nanoseconds, xid: u32, message: Message, bytes: &[u8]) -> Vec<Outgoing> {
        self.handle_from(ControllerId::FIRST, now, xid, message, bytes)
    }

    /// Obeys a message of a controller; `bytes` are its encoded form.
    pub(super) fn handle_from(
        &mut self,
        from: ControllerId,
        now: Nanoseconds,
        xid: u32,
        mut message: Message,
        bytes: &[u8],
    ) -> Vec<Outgoing> {
        if self.connections.len() <= from.index() {
            self.disconnect_from(from);
        }
        let mut out = self.advance(now);
        match &mut message {
            Message::PacketOut(_) => self.record.clear(),
            // Rules without wildcards take precedence over all others (1.0 §3.4).
            Message::FlowMod(request) if self.version == Version::Of10 && has_no_wildcards(bytes) => {
                request.priority = u16::MAX;
            }
            _ => {}
        }
        let state = self.connections[from.index()].state;
        if state == State::Greeting && !matches!(message, Message::Hello(_) | Message::Error(_)) {
            let error = self.error(from, Refusal::Incompatible, xid, bytes);
            out.extend([error, Outgoing::Close(from)]);
            return out;
        }
        match self.obey(from, now, xid, message, &mut out) {
            Ok(Some(reply)) => out.push(Outgoing::Message { controller: from, xid, message: reply }),
            Ok(None) => {}
            Err(refusal) => {
                let error = self.error(from, refusal, xid, bytes);
                out.push(error);
                if refusal == Refusal::Incompatible {
                    out.push(Outgoing::Close(from));
                }
            }
        }
        out
    }

    fn obey(
        &mut self,
        from: ControllerId,
        now: Nanoseconds,
        xid: u32,
        message: Message,
        out: &mut Vec<Outgoing>,
    ) -> Result<Option<Message>, Refusal> {
        if self.connections[from.index()].role == ConnectionRole::Slave && changes_the_switch(&message) {
            return Err(Refusal::IsSlave);
        }
        let reply = match message {
            Message::Hello(hello) => {
                if !hello.offers(self.version as u8) {
                    return Err(Refusal::Incompatible);
                }
                self.connections[from.index()].state = State::Up;
                return Ok(None);
            }
            Message::EchoRequest(data) => Message::EchoReply(data),
            Message::FeaturesRequest => Message::FeaturesReply(self.features()),
            Message::GetConfigRequest => {
                let Connection { flags, miss_send_len, .. } = self.connections[from.index()];
                Message::GetConfigReply(SwitchConfig { flags: self.fragments | flags, miss_send_len })
            }
            Message::SetConfig(config) => return self.set_config(from, config).map(|()| None),
            Message::BarrierRequest => {
                self.counters.barriers += 1;
                Message::BarrierReply
            }
            Message::FlowMod(request) => return self.flow_mod(now, request, out).map(|()| None),
            Message::PacketOut(request) => return self.packet_out(now, request, out).map(|()| None),
            Message::GroupMod(request) => return self.group_mod(now, request, out).map(|()| None),
            Message::PortMod(request) => return self.port_mod(from, &request, out).map(|()| None),
            Message::TableMod(request) if !self.has_table(request.table_id) => return Err(Refusal::TableModTable),
            Message::TableMod(_) => return Ok(None),
            Message::MeterMod(request) => return self.meter_mod(now, request).map(|()| None),
            Message::StatsRequest(request) => {
                let replies = self.statistics(now, request)?.into_iter().map(Message::StatsReply);
                out.extend(replies.map(|message| Outgoing::Message { controller: from, xid, message }));
                return Ok(None);
            }
            Message::QueueGetConfigRequest(port) => Message::QueueGetConfigReply(self.queue_config(port)?),
            Message::RoleRequest(role) => Message::RoleReply(self.take_role(from, role, out)?),
            Message::GetAsyncRequest => Message::GetAsyncReply(self.connections[from.index()].unasked),
            Message::SetAsync(config) => {
                self.connections[from.index()].unasked = config;
                return Ok(None);
            }
            Message::BundleControl(request) => Message::BundleControl(self.bundle_control(from, now, request, out)?),
            Message::BundleAdd(request) => return self.bundle_add(from, xid, request).map(|()| None),
            Message::Experimenter(request) => Message::Experimenter(self.take_nicira_role(from, &request, out)?),
            // The switch ignores answers to requests that it never sends, and errors.
            Message::Error(_) | Message::EchoReply(_) => return Ok(None),
            _ => return Err(Refusal::BadType),
        };
        Ok(Some(reply))
    }

    fn features(&self) -> Features {
        let of10 = self.version == Version::Of10;
        // Flow, table, port (bits 0 to 2) and queue statistics (bit 6) in both; group statistics (bit 3) in 1.3.
        let capabilities = if of10 { 0b100_0111 } else { 0b100_1111 };
        let ports = if of10 { self.ports.values().map(|p| p.description.clone()).collect() } else { Vec::new() };
        Features {
            dpid: self.dpid,
            n_buffers: 0,
            n_tables: self.n_tables(),
            auxiliary_id: 0,
            capabilities,
            // 1.0: all actions from OUTPUT to ENQUEUE (bits 0 to 11).
            actions: if of10 { 0xfff } else { 0 },
            ports,
        }
    }

    /// Obeys a configuration. What becomes of fragments is the switch's, the rest is the connection's. The
    /// specification lets a slave choose it too; Open vSwitch leaves it as it is, without a word.
    fn set_config(&mut self, from: ControllerId, asked: SwitchConfig) -> Result<(), Refusal> {
        let known = if self.version == Version::Of10 { FRAGMENTS | INVALID_TTL } else { FRAGMENTS };
        if asked.flags & !known != 0 {
            return Err(Refusal::ConfigFlags);
        }
        let connection = &mut self.connections[from.index()];
        connection.flags = asked.flags & !FRAGMENTS;
        connection.miss_send_len = asked.miss_send_len;
        let is_kept_out = self.options.open_vswitch && connection.role == ConnectionRole::Slave;
        if !is_kept_out && asked.flags & FRAGMENTS != REASSEMBLE {
            self.fragments = asked.flags & FRAGMENTS;
        }
        Ok(())
    }

    fn port_mod(&mut self, from: ControllerId, request: &PortMod, out: &mut Vec<Outgoing>) -> Result<(), Refusal> {
        let port = self.ports.get_mut(&request.port).ok_or(Refusal::PortModPort)?;
        if port.description.hw_addr != request.hw_addr {
            return Err(Refusal::PortModAddress);
        }
        let before = port.description.config;
        port.description.config = before & !request.mask | request.config & request.mask;
        if port.description.config != before {
            let reported = self.port_status(PortReason::Modify, request.port);
            // Open vSwitch notifies only the others.
            let is_of_who_asks =
                |item: &Outgoing| matches!(item, Outgoing::Message { controller, .. } if *controller == from);
            out.extend(reported.into_iter().filter(|item| !(self.options.open_vswitch && is_of_who_asks(item))));
        }
        Ok(())
    }
}

fn changes_the_switch(message: &Message) -> bool {
    matches!(
        message,
        Message::FlowMod(_)
            | Message::BundleControl(_)
            | Message::BundleAdd(_)
            | Message::GroupMod(_)
            | Message::PortMod(_)
            | Message::TableMod(_)
            | Message::MeterMod(_)
            | Message::PacketOut(_)
    )
}

/// Reports whether a flow-mod of 1.0 has no wildcards.
fn has_no_wildcards(flow_mod: &[u8]) -> bool {
    let wildcards = flow_mod.get(8..12).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
    wildcards.is_some_and(|bits| bits & WILDCARDS10 == 0)
}

/// Returns the error for a request that could not be decoded.
fn refusal_of(error: &Error) -> Refusal {
    let (what, length) = match error {
        Error::BadVersion(_) => return Refusal::BadVersion,
        Error::BadValue { what: "flow-mod command", .. } => return Refusal::BadCommand,
        Error::BadValue { what: "match type", .. } => return Refusal::MatchLength,
        Error::BadValue { what: "meter band type", .. } => return Refusal::MeterBand,
        Error::Truncated { what, have, .. } => (*what, *have),
        Error::BadLength { what, length } if *length > 8 => (*what, *length),
        Error::BadLength { what, .. } => (*what, 0),
        _ => return Refusal::BadLength,
    };
    match what {
        // These are lists whose length is not a multiple of 8.
        "action" | "instruction" | "bucket" if length % 8 != 0 => Refusal::BadLength,
        "match" | "OXM entry" => Refusal::MatchLength,
        "action" | "body of an action" => Refusal::ActionLength,
        "set-field" => Refusal::SetLength,
        "instruction" | "body of an instruction" => Refusal::InstructionLength,
        "bucket" => Refusal::GroupBucket,
        field if Field::from_name(field).is_some() => Refusal::MatchField,
        _ => Refusal::BadLength,
    }
}
