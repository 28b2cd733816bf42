//! One connection to a switch, as a state machine without I/O. Inputs are messages and the time; outputs are messages
//! to send, events, and the end of the connection ([`Output`]).
//!
//! ```text
//!            hello            features-reply          admit            all answers in
//!   Hello ───────────► Features ───────────► Claimed ───────► Describe ───────────────► Up
//! ```
//!
//! The first message must be a hello, and before `Up` only answers of the handshake have an effect. The session claims
//! the datapath id before it asks for anything else, so that no two connections change one switch's tables. The owner
//! asks its registry, and then calls [`Session::admit`] or [`Session::refuse`]. In `Describe` the session
//! sends all requests at once: ports (1.3) and description, and in 1.3 a bundle. If the switch refuses one with an
//! error, the session continues without that answer. The session asks a 1.3 switch for its configuration and sets a new
//! one when the answer comes, but waits for neither. It sets the configuration of a 1.0 switch without asking. A
//! malformed message ends this connection and no other. An unknown message is answered with `BAD_TYPE`, and the session
//! continues. There is a deadline for each phase of the handshake and for each request. If the switch is silent and no
//! request is open, the session sends an echo request, which has a deadline too.
//!
//! In a cluster, a session has one more phase, in which it is a standby (`roles.rs`).
//!
//! Transaction ids below [`ENGINE_XIDS`] belong to the session; the engine and handlers use the others.

mod describe;
mod keepalive;
mod negotiate;
mod output;
mod ports;
mod questions;
mod roles;
mod rule_pieces;
mod rule_reading;
mod table_sizes;

#[cfg(test)]
mod tests;

use std::time::Duration;

use maple_core::engine::Time;
use maple_wire::msg::{ErrorMsg, Header, PacketIn};
use maple_wire::{Dpid, Error, Message, Version};

use crate::printable::printable;
use crate::time::after;
use describe::DescriptionRequests;
pub use describe::apply_port_status;
use keepalive::Keepalive;
pub use negotiate::Incompatible;
use negotiate::{negotiate, our_hello};
pub use output::{CloseReason, Output, ProtocolWarning, SwitchInfo};
use ports::PortsRequest;
use questions::Questions;
pub use questions::{SwitchAnswer, SwitchQuestion};
use roles::SwitchRole;
pub use roles::{ClusterRole, RoleNews};
use rule_pieces::AllRules;
use rule_reading::RuleReading;
pub use table_sizes::TableSize;
use table_sizes::TableSizes;

/// The TCP port that IANA assigned to OpenFlow.
pub const OPENFLOW_PORT: u16 = 6653;
/// The lowest transaction id of the engine and of handlers. Chosen: half of all ids, so that neither side meets an id
/// of the other before it has counted to 2^31.
pub const ENGINE_XIDS: u32 = 0x8000_0000;

/// The first transaction id of a session on a connection that was handed over. The former session counted from 1, and
/// does not get there.
const RESUMED_XIDS: u32 = ENGINE_XIDS / 2;
/// The maximum number of packets that such a session keeps until the handshake is done. Chosen: those of a second or so
/// of new flows, and a bound on what a switch can make us keep.
pub(crate) const MAX_EARLY: usize = 4096;

/// The message type of a hello, in every version (1.0 §5.1, 1.3 §7.1).
const TYPE_HELLO: u8 = 0;
/// The message type of an error, in every version (1.0 §5.1, 1.3 §7.1).
const TYPE_ERROR: u8 = 1;

/// The time limits of a session.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    /// The limit for each phase of the handshake: the hello, the features, the description.
    pub handshake: Duration,
    /// The limit for the answer to a request.
    pub request: Duration,
    /// Silence after which an echo request is sent.
    pub idle: Duration,
    /// The limit for the answer to that echo request.
    pub echo: Duration,
    /// The limit for the answer to the echo request that checks a connection when another one claims the same switch.
    pub challenge: Duration,
}

impl Default for Deadlines {
    fn default() -> Deadlines {
        // Chosen: switches answer in milliseconds, and slow ones that are busy in a second or two. Only the answer to
        // a request may have hundreds of thousands of rules, which take longer. A connection that is challenged has
        // just been replaced in nearly all cases, and the new one waits for it.
        Deadlines {
            handshake: Duration::from_secs(5),
            request: Duration::from_secs(30),
            idle: Duration::from_secs(5),
            echo: Duration::from_secs(5),
            challenge: Duration::from_secs(1),
        }
    }
}

/// The phases of a session.
#[derive(Debug)]
enum Phase {
    /// The session waits for a hello, until this time.
    Hello(Time),
    /// The session waits for the features, until this time.
    Features(Time),
    /// The session waits until the owner admits or refuses the datapath id.
    Claimed(Box<DescriptionRequests>),
    /// This controller is one of several, and not the switch's master.
    Standby,
    /// The session waits for ports and description.
    Describe(Box<DescriptionRequests>),
    /// The session is in use.
    Up,
    /// The session has ended.
    Closed,
}

/// The part of a session that waits for an answer.
enum AnswerFor {
    /// The reading of all rules.
    RuleReading,
    /// The reading of all rules, which deletes what is left.
    EndOfReading,
    /// The reading of rules in pieces.
    RulePieces,
    /// The reading of ports.
    Ports,
    /// A program, whose question the session has passed on.
    Program,
    /// The reading of the sizes of tables.
    TableSizes,
    /// Another part, or nobody.
    Other,
}

/// One connection to a switch.
#[derive(Debug)]
pub struct Session {
    phase: Phase,
    version: Version,
    deadlines: Deadlines,
    keepalive: Keepalive,
    /// The read of the switch's rules that is in progress.
    reading: Option<RuleReading>,
    /// The engine's open requests for all rules.
    all_rules: Vec<AllRules>,
    /// The open question about the switch's tables.
    table_sizes: TableSizes,
    /// The questions of people.
    questions: Questions,
    /// The open question about the switch's ports.
    ports_request: Option<PortsRequest>,
    /// Whether the switch reports all rules when it is asked for those with certain cookies.
    ignores_cookies: bool,
    /// The open request for the switch's configuration.
    config_request: Option<u32>,
    next_xid: u32,
    /// One bit for each kind of warning that was reported.
    warned: u8,
    /// The packets that came before the handshake was done, if the connection was handed over.
    early: Option<Vec<(u32, Message)>>,
    /// The role at the switch, if this controller is one of several.
    role: Option<Box<SwitchRole>>,
}

impl Session {
    /// Creates a session on a newly accepted connection. Outputs the hello.
    pub fn new(now: Time, deadlines: Deadlines, out: &mut Vec<Output>) -> Session {
        let mut session = Session {
            phase: Phase::Hello(after(now, deadlines.handshake)),
            version: Version::Of13,
            deadlines,
            keepalive: Keepalive::new(now),
            reading: None,
            all_rules: Vec::new(),
            table_sizes: TableSizes::default(),
            questions: Questions::default(),
            ports_request: None,
            ignores_cookies: false,
            config_request: None,
            next_xid: 1,
            warned: 0,
            early: None,
            role: None,
        };
        session.request(Message::Hello(our_hello()), out);
        session
    }

    /// Creates a session on a connection that another process has served, in this version. Requests the features. The
    /// given packets, and those that come before the handshake is done, are delivered after it.
    pub fn resumed(
        now: Time,
        deadlines: Deadlines,
        version: Version,
        packets: Vec<PacketIn>,
        out: &mut Vec<Output>,
    ) -> Session {
        // The hello was exchanged by the other process.
        let new = Session::new(now, deadlines, &mut Vec::new());
        let early = packets.into_iter().map(|packet| (0, Message::PacketIn(packet))).collect();
        let mut session = Session { next_xid: RESUMED_XIDS, early: Some(early), ..new };
        session.on_negotiated(now, version, out);
        session
    }

    /// Returns the version to encode messages in. Before the versions are negotiated it is 1.3, as in the hello.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Reports whether the handshake is done.
    pub fn is_up(&self) -> bool {
        matches!(self.phase, Phase::Up)
    }

    /// Reports whether the version is negotiated and the handshake is not done.
    pub fn is_in_handshake(&self) -> bool {
        matches!(self.phase, Phase::Features(_) | Phase::Claimed(_) | Phase::Describe(_))
    }

    /// Handles the header of a message whose body has not arrived, so that an invalid message is detected early.
    pub fn on_header(&mut self, header: Header, out: &mut Vec<Output>) {
        match self.check_header(header) {
            Ok(()) => {}
            Err(reason) => self.fail(header.xid, reason, &[], out),
        }
    }

    /// Handles one whole message.
    pub fn on_message(&mut self, now: Time, header: Header, bytes: &[u8], out: &mut Vec<Output>) {
        if let Err(reason) = self.check_header(header) {
            return self.fail(header.xid, reason, bytes, out);
        }
        if self.keepalive.on_message(now) {
            out.push(Output::Silent(false));
        }
        match Message::decode(bytes) {
            Ok((_, message)) => self.dispatch(now, header, message, bytes, out),
            // Table sizes are optional; an unreadable reply counts as none.
            Err(_) if self.table_sizes.awaits(header.xid) => self.end_table_sizes(header.xid, out),
            Err(_) if self.is_question(header.xid) => self.end_question(header.xid, SwitchAnswer::Unsupported, out),
            Err(error) => self.fail(header.xid, CloseReason::Malformed(error), bytes, out),
        }
    }

    /// Handles an invalid header.
    pub fn on_garbage(&mut self, error: Error, out: &mut Vec<Output>) {
        self.fail(0, CloseReason::Malformed(error), &[], out);
    }

    /// Records that the engine sent this message. If it is a request, its answer has a deadline.
    pub fn on_sent(&mut self, now: Time, xid: u32, message: &Message) {
        if matches!(message, Message::BarrierRequest | Message::StatsRequest(_)) {
            self.expect(now, xid);
        }
    }

    /// Records that a request with this id was sent. Its answer has a deadline.
    pub fn expect(&mut self, now: Time, xid: u32) {
        self.keepalive.expect(xid, now);
    }

    /// Grants the claim. Requests ports and description; in a cluster, when this controller is the switch's master.
    pub fn admit(&mut self, now: Time, out: &mut Vec<Output>) {
        // The session may have ended over what followed the claim.
        if let Phase::Claimed(describe) = std::mem::replace(&mut self.phase, Phase::Closed) {
            match &self.role {
                Some(_) => self.begin_standby(now, describe.dpid(), out),
                None => self.ask_for_description(now, describe, out),
            }
        }
    }

    fn ask_for_description(&mut self, now: Time, mut describe: Box<DescriptionRequests>, out: &mut Vec<Output>) {
        describe.begin(self, now, out);
        self.phase = Phase::Describe(describe);
    }

    /// Records that the switch has read or sent some bytes. So it is alive, though it may not have answered yet.
    pub fn on_progress(&mut self, now: Time) {
        self.keepalive.on_progress(now);
    }

    /// Restarts the time for the hello, because what comes before it makes progress.
    pub fn restart_hello(&mut self, now: Time) {
        if let Phase::Hello(deadline) = &mut self.phase {
            *deadline = after(now, self.deadlines.handshake);
        }
    }

    /// Refuses the claim: sends the switch the reason and ends the session.
    pub fn refuse(&mut self, reason: CloseReason, out: &mut Vec<Output>) {
        self.fail(0, reason, &[], out);
    }

    /// Checks with an echo request and a short deadline whether the switch is alive. Either [`Output::Alive`] or the
    /// end of the session follows.
    pub fn challenge(&mut self, now: Time, out: &mut Vec<Output>) {
        let xid = self.request(Message::EchoRequest(Vec::new()), out);
        self.keepalive.challenge(xid, after(now, self.deadlines.challenge));
    }

    /// Returns the latest time for the next call of [`Session::on_timer`].
    pub fn deadline(&self) -> Option<Time> {
        match &self.phase {
            Phase::Hello(deadline) | Phase::Features(deadline) => Some(*deadline),
            Phase::Describe(describe) => Some(describe.deadline().min(self.keepalive.deadline(&self.deadlines, false))),
            Phase::Claimed(_) | Phase::Up => {
                let keepalive = self.keepalive.deadline(&self.deadlines, self.reading.is_some());
                let reading = self.reading.as_ref().map(RuleReading::deadline);
                Some(reading.into_iter().chain(self.next_piece()).fold(keepalive, Time::min))
            }
            Phase::Standby => {
                let again = self.role.as_ref().and_then(|role| role.again());
                Some(again.into_iter().fold(self.keepalive.deadline(&self.deadlines, false), Time::min))
            }
            Phase::Closed => None,
        }
    }

    /// Handles deadlines that have passed.
    pub fn on_timer(&mut self, now: Time, out: &mut Vec<Output>) {
        let within = self.deadlines.handshake;
        let timed_out = |waiting_for| CloseReason::HandshakeTimeout { waiting_for, within };
        if self.is_up() {
            self.continue_reading(now, out);
            self.ask_for_pieces(now, out);
        }
        match &self.phase {
            Phase::Hello(deadline) if *deadline <= now => self.fail(0, timed_out("hello"), &[], out),
            Phase::Features(deadline) if *deadline <= now => self.fail(0, timed_out("features"), &[], out),
            Phase::Describe(describe) if describe.deadline() <= now => {
                let reason = timed_out(describe.waiting_for());
                self.fail(0, reason, &[], out);
            }
            Phase::Up if self.reading.as_ref().is_some_and(|reading| reading.deadline() <= now) => {
                self.end(CloseReason::RequestTimeout(self.deadlines.request), out);
            }
            Phase::Standby => {
                self.ask_again(now, out);
                self.keep_alive(now, out);
            }
            Phase::Claimed(_) | Phase::Describe(_) | Phase::Up => self.keep_alive(now, out),
            Phase::Hello(_) | Phase::Features(_) | Phase::Closed => {}
        }
    }

    /// Checks that a message with this header is acceptable in this phase.
    fn check_header(&self, header: Header) -> Result<(), CloseReason> {
        let (version, kind) = (header.version, header.kind);
        match self.phase {
            Phase::Hello(_) if kind == TYPE_HELLO || kind == TYPE_ERROR => Ok(()),
            Phase::Hello(_) => Err(CloseReason::NotHello { version, kind }),
            // A switch may still refuse our hello in its own version, or repeat its hello.
            _ if version == self.version as u8 || kind == TYPE_HELLO || kind == TYPE_ERROR => Ok(()),
            Phase::Features(_) => Err(CloseReason::Incompatible(Incompatible::version(version))),
            _ => Err(CloseReason::WrongVersion(version)),
        }
    }

    /// Dispatches a message according to the phase.
    fn dispatch(&mut self, now: Time, header: Header, message: Message, bytes: &[u8], out: &mut Vec<Output>) {
        let (is_closed, is_claimed) = (matches!(self.phase, Phase::Closed), self.claimed().is_some());
        if is_closed || self.role.is_some() && self.take_role(now, header.xid, &message, out) {
            return;
        }
        match (&mut self.phase, message) {
            (Phase::Up, message @ Message::PacketIn(_)) => out.push(Output::Deliver { xid: header.xid, message }),
            (_, message @ Message::PacketIn(_)) if self.early.as_ref().is_some_and(|all| all.len() < MAX_EARLY) => {
                if let Some(early) = &mut self.early {
                    early.push((header.xid, message));
                }
            }
            (_, Message::EchoRequest(data)) => {
                out.push(Output::Send { xid: header.xid, message: Message::EchoReply(data) });
            }
            (Phase::Hello(_), Message::Hello(hello)) => match negotiate(&hello) {
                Ok(version) => self.on_negotiated(now, version, out),
                Err(reason) => self.fail(header.xid, reason.into(), &[], out),
            },
            (Phase::Hello(_) | Phase::Features(_), Message::Error(error)) if !is_claimed => {
                self.end(CloseReason::RefusedByPeer(error_text(&error)), out);
            }
            (_, Message::Hello(_)) => {}
            (Phase::Features(_), Message::FeaturesReply(features)) => self.claim(now, features, out),
            (Phase::Standby, message) => self.on_standby_message(header, message, bytes, out),
            (_, message @ (Message::GetConfigReply(_) | Message::Error(_)))
                if self.config_request == Some(header.xid) =>
            {
                self.on_config(&message, out);
            }
            (Phase::Claimed(_) | Phase::Describe(_), message) => self.describe(header, message, bytes, out),
            (Phase::Up, message) => self.dispatch_up(now, header, message, bytes, out),
            (_, message) => self.on_other_message(header, message, bytes, out),
        }
    }

    /// Dispatches a message of a switch that is up: the answers to the session's own requests, and all others.
    fn dispatch_up(&mut self, now: Time, header: Header, message: Message, bytes: &[u8], out: &mut Vec<Output>) {
        let xid = header.xid;
        match (self.answer_for(xid), message) {
            (AnswerFor::RuleReading, Message::Error(error)) => {
                self.warn(ProtocolWarning::Refused(error.kind, error.code), out);
                self.on_flows_refused(now, out);
            }
            (AnswerFor::RuleReading, Message::StatsReply(reply)) => self.on_flows_part(now, reply, out),
            (AnswerFor::EndOfReading, Message::BarrierReply | Message::Error(_)) => self.end_reading(out),
            (AnswerFor::RulePieces, Message::Error(error)) => self.on_piece_refused(now, xid, error, out),
            (AnswerFor::RulePieces, Message::StatsReply(reply)) => self.on_piece_part(now, xid, reply, out),
            (AnswerFor::Ports, message @ (Message::StatsReply(_) | Message::FeaturesReply(_) | Message::Error(_))) => {
                self.on_ports_part(message, out)
            }
            (AnswerFor::Program, Message::StatsReply(reply)) => self.on_answer_part(xid, reply, bytes.len(), out),
            (AnswerFor::Program, Message::RoleReply(role)) => self.end_question(xid, SwitchAnswer::Role(role), out),
            (AnswerFor::Program, Message::Error(_)) => self.end_question(xid, SwitchAnswer::Unsupported, out),
            (AnswerFor::TableSizes, Message::StatsReply(reply)) => self.on_table_sizes_part(xid, &reply, out),
            (AnswerFor::TableSizes, Message::Error(error)) => {
                self.warn(ProtocolWarning::Refused(error.kind, error.code), out);
                self.end_table_sizes(xid, out);
            }
            (_, message) => self.on_other_message(header, message, bytes, out),
        }
    }

    /// Returns which part of the session has sent a request with this id and waits for its answer.
    fn answer_for(&self, xid: u32) -> AnswerFor {
        match &self.reading {
            Some(reading) if reading.is_answer(xid) => AnswerFor::RuleReading,
            Some(reading) if reading.is_deleted_by(xid) => AnswerFor::EndOfReading,
            _ if self.is_piece(xid) => AnswerFor::RulePieces,
            _ if self.ports_request.as_ref().is_some_and(|request| request.is_answered_by(xid)) => AnswerFor::Ports,
            _ if self.is_question(xid) => AnswerFor::Program,
            _ if self.table_sizes.awaits(xid) => AnswerFor::TableSizes,
            _ => AnswerFor::Other,
        }
    }

    /// Handles a message outside the handshake.
    fn on_other_message(&mut self, header: Header, message: Message, bytes: &[u8], out: &mut Vec<Output>) {
        let up = self.is_up();
        let deliver = |message| Output::Deliver { xid: header.xid, message };
        match message {
            Message::PacketIn(_) => self.warn(ProtocolWarning::EarlyPacketIn, out),
            Message::EchoReply(_) => {
                if self.keepalive.on_challenge_answer(header.xid) {
                    out.push(Output::Alive);
                }
            }
            Message::PortStatus(_) | Message::FlowRemoved(_) if up => out.push(deliver(message)),
            Message::PortStatus(_) | Message::FlowRemoved(_) => {}
            Message::Error(_) if up && header.xid >= ENGINE_XIDS => {
                self.keepalive.on_answer(header.xid);
                out.push(deliver(message));
            }
            Message::Error(error) => {
                self.warn(ProtocolWarning::Refused(error.kind, error.code), out);
            }
            Message::StatsReply(ref reply) if up && self.keepalive.is_expected(header.xid) => {
                if !reply.more() {
                    self.keepalive.on_answer(header.xid);
                }
                out.push(deliver(message));
            }
            Message::BarrierReply if up && self.keepalive.on_answer(header.xid) => out.push(deliver(message)),
            // Errors and barrier replies show what became of a bundle.
            Message::BundleControl(_) => {}
            Message::BarrierReply | Message::StatsReply(_) | Message::FeaturesReply(_) | Message::GetConfigReply(_) => {
                self.warn(ProtocolWarning::UnexpectedReply(header.kind), out);
            }
            _ => self.on_unknown(header, bytes, out),
        }
    }

    /// Sets the negotiated version, and requests the features.
    fn on_negotiated(&mut self, now: Time, version: Version, out: &mut Vec<Output>) {
        self.version = version;
        self.begin_role(now, out);
        self.ask_for_features(now, out);
    }

    fn ask_for_features(&mut self, now: Time, out: &mut Vec<Output>) {
        self.request(Message::FeaturesRequest, out);
        self.phase = Phase::Features(after(now, self.deadlines.handshake));
    }

    /// Returns the switch, if its claim is granted and this controller is one of several.
    fn claimed(&self) -> Option<Dpid> {
        self.role.as_ref()?.dpid()
    }

    /// Takes the features, and claims the datapath id, unless that is done.
    fn claim(&mut self, now: Time, features: maple_wire::msg::Features, out: &mut Vec<Output>) {
        if features.auxiliary_id != 0 {
            return self.fail(0, CloseReason::Auxiliary(features.auxiliary_id), &[], out);
        }
        let dpid: Dpid = features.dpid;
        let describe = Box::new(DescriptionRequests::new(features));
        match self.claimed() {
            None => {
                self.phase = Phase::Claimed(describe);
                out.push(Output::Claim(dpid));
            }
            Some(claimed) if claimed == dpid => self.ask_for_description(now, describe, out),
            Some(claimed) => self.end(CloseReason::OtherDpid(claimed, dpid), out),
        }
    }

    /// Answers a message of a type that no switch sends, or that this version does not have, with an error.
    fn on_unknown(&mut self, header: Header, bytes: &[u8], out: &mut Vec<Output>) {
        let error = ErrorMsg::about(ErrorMsg::BAD_TYPE, bytes);
        out.push(Output::Send { xid: header.xid, message: Message::Error(error) });
        self.warn(ProtocolWarning::UnknownType(header.kind), out);
    }

    /// Takes a transaction id, for a message of the session's owner.
    pub fn take_xid(&mut self) -> u32 {
        let xid = self.next_xid;
        self.next_xid = (xid + 1) % ENGINE_XIDS;
        xid
    }

    /// Sends a request of the session's own. Returns its transaction id.
    fn request(&mut self, message: Message, out: &mut Vec<Output>) -> u32 {
        let xid = self.take_xid();
        out.push(Output::Send { xid, message });
        xid
    }

    /// Sends echo requests, and ends the session if an answer is overdue.
    fn keep_alive(&mut self, now: Time, out: &mut Vec<Output>) {
        match self.keepalive.due_action(now, &self.deadlines, self.reading.is_some()) {
            keepalive::KeepaliveAction::Nothing => {}
            keepalive::KeepaliveAction::Echo => {
                self.request(Message::EchoRequest(Vec::new()), out);
                self.keepalive.on_echo_sent(now);
            }
            keepalive::KeepaliveAction::Silent => {
                self.keepalive.mark_silent();
                out.push(Output::Silent(true));
            }
            keepalive::KeepaliveAction::Dead(reason) => self.end(reason, out),
        }
    }

    /// Reports a warning to the owner.
    fn warn(&mut self, warning: ProtocolWarning, out: &mut Vec<Output>) {
        let first = self.warned & warning.bit() == 0;
        self.warned |= warning.bit();
        out.push(Output::Warning { warning, first });
    }

    /// Ends the session, with the OpenFlow error for the reason if there is one.
    fn fail(&mut self, xid: u32, reason: CloseReason, bytes: &[u8], out: &mut Vec<Output>) {
        if matches!(self.phase, Phase::Closed) {
            return;
        }
        if bytes.first() == Some(&(Version::Of10 as u8)) && matches!(self.phase, Phase::Hello(_)) {
            self.version = Version::Of10;
        }
        let with_text = |(kind, code)| ErrorMsg { kind, code, data: reason.to_string().into_bytes() };
        let error = match &reason {
            CloseReason::Incompatible(_) => Some(with_text(ErrorMsg::INCOMPATIBLE)),
            CloseReason::Auxiliary(_) | CloseReason::Duplicate(_) => Some(with_text(ErrorMsg::HELLO_NOT_PERMITTED)),
            CloseReason::NotHello { .. } => Some(ErrorMsg::about(ErrorMsg::BAD_TYPE, bytes)),
            CloseReason::WrongVersion(_) => Some(ErrorMsg::about(ErrorMsg::BAD_VERSION, bytes)),
            CloseReason::Malformed(_) => Some(ErrorMsg::about(ErrorMsg::BAD_LENGTH, bytes)),
            _ => None,
        };
        out.extend(error.map(|error| Output::Send { xid, message: Message::Error(error) }));
        self.end(reason, out);
    }

    /// Ends the session without an error to the switch.
    fn end(&mut self, reason: CloseReason, out: &mut Vec<Output>) {
        self.phase = Phase::Closed;
        out.push(Output::Close(reason));
    }
}

/// Returns the text of an error message, made safe to print.
fn error_text(error: &ErrorMsg) -> String {
    let text = String::from_utf8_lossy(&error.data);
    let text: String = text.trim_end_matches('\0').chars().take(200).collect();
    let text = printable(&text);
    format!("error type {} code {}: {text}", error.kind, error.code)
}
