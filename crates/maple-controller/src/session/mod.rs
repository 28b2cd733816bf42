//! One connection to a switch, as a state machine without I/O: messages and the time go in, messages and findings
//! come out.
//!
//! ```text
//!            hello            features-reply          admit            all answers in
//!   Hello ───────────► Features ───────────► Claimed ───────► Describe ───────────────► Up
//! ```
//!
//! Nothing is believed before a hello, and nothing but the handshake's answers before `Up`. The datapath id is claimed
//! before anything else is asked, so that no two connections ever change one switch's tables: the owner asks its
//! registry and calls [`Session::admit`] or [`Session::refuse`]. In `Describe` all requests are out at once: ports (1.3) and
//! description. A switch that refuses one of them by an error goes without. A switch of 1.3 is also asked for its
//! configuration, and given a new one when it answers, but nothing waits for that. A switch of 1.0 is given its
//! configuration without being asked.
//!
//! A malformed message costs this connection and nothing else. An unknown one is answered with `BAD_TYPE`, and the
//! session goes on. Deadlines: each phase of the handshake, each request, and an echo when nothing was heard for a while
//! and nothing else is waited for.
//!
//! Transaction ids below [`ENGINE_XIDS`] are the session's, those from it on the engine's.

mod describe;
mod flows;
mod keepalive;
mod negotiate;
mod verdict;

#[cfg(test)]
mod tests;

use std::time::Duration;

use maple_core::engine::Time;
use maple_wire::msg::{ErrorMsg, Header};
use maple_wire::{Dpid, Error, Message, Version};

use crate::printable::printable;
use crate::time::after;
use describe::Describe;
pub use describe::apply_port_status;
use flows::FlowReading;
use keepalive::Keepalive;
pub use negotiate::Incompatible;
use negotiate::{negotiate, our_hello};
pub use verdict::{CloseReason, Note, Output, SwitchInfo};

/// The lowest transaction id that is the engine's.
pub const ENGINE_XIDS: u32 = 0x8000_0000;

/// Message type of a hello, in every version.
const TYPE_HELLO: u8 = 0;
/// Message type of an error, in every version.
const TYPE_ERROR: u8 = 1;
/// `OFPET_HELLO_FAILED` with its codes, and `OFPET_BAD_REQUEST` with its codes; the same in 1.0 and 1.3.
const HELLO_FAILED: u16 = 0;
const INCOMPATIBLE: u16 = 0;
const EPERM: u16 = 1;
const BAD_REQUEST: u16 = 1;
const BAD_VERSION: u16 = 0;
const BAD_TYPE: u16 = 1;
const BAD_LEN: u16 = 6;
/// How much of an offending message goes back in an error; the specification asks for at least 64 bytes.
const ERROR_DATA: usize = 64;

/// How long a session waits for what.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    /// For each phase of the handshake: the hello, the features, the description.
    pub handshake: Duration,
    /// For the answer to a request.
    pub request: Duration,
    /// Silence after which an echo request is sent.
    pub idle: Duration,
    /// For the answer to that echo.
    pub echo: Duration,
    /// For the answer to the echo that tells whether a connection is dead when its switch seems to connect again.
    pub challenge: Duration,
}

impl Default for Deadlines {
    fn default() -> Deadlines {
        Deadlines {
            handshake: Duration::from_secs(5),
            request: Duration::from_secs(30),
            idle: Duration::from_secs(5),
            echo: Duration::from_secs(5),
            challenge: Duration::from_secs(1),
        }
    }
}

/// How far the handshake is.
#[derive(Debug)]
enum Phase {
    /// Waiting for a hello, until the deadline.
    Hello(Time),
    /// Waiting for the features.
    Features(Time),
    /// Waiting for the owner to admit or refuse the datapath id.
    Claimed(Box<Describe>),
    /// Waiting for ports and description.
    Describe(Box<Describe>),
    /// In use.
    Up,
    /// Over.
    Closed,
}

/// One connection to a switch.
#[derive(Debug)]
pub struct Session {
    phase: Phase,
    version: Version,
    deadlines: Deadlines,
    keepalive: Keepalive,
    /// The reading of the switch's rules that is in progress.
    reading: Option<FlowReading>,
    /// The request for the switch's configuration, until it is answered.
    config_asked: Option<u32>,
    next_xid: u32,
    /// One bit for each kind of note that was made.
    noted: u8,
}

impl Session {
    /// A session on a connection that has just been accepted. Pushes the hello to send.
    pub fn new(now: Time, deadlines: Deadlines, out: &mut Vec<Output>) -> Session {
        let mut session = Session {
            phase: Phase::Hello(after(now, deadlines.handshake)),
            version: Version::Of13,
            deadlines,
            keepalive: Keepalive::new(now),
            reading: None,
            config_asked: None,
            next_xid: 1,
            noted: 0,
        };
        session.request(Message::Hello(our_hello()), out);
        session
    }

    /// The version to encode messages in. Before a version is agreed on it is 1.3, as in the hello.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Whether the handshake is done.
    pub fn is_up(&self) -> bool {
        matches!(self.phase, Phase::Up)
    }

    /// Whether a version is agreed on, and the handshake is still to be finished.
    pub fn is_introducing(&self) -> bool {
        matches!(self.phase, Phase::Features(_) | Phase::Claimed(_) | Phase::Describe(_))
    }

    /// Takes the header of a message whose other bytes are still to come, so that garbage is not waited for.
    pub fn on_header(&mut self, header: Header, out: &mut Vec<Output>) {
        match self.check_header(header) {
            Ok(()) => {}
            Err(reason) => self.fail(header.xid, reason, &[], out),
        }
    }

    /// Takes one whole message.
    pub fn on_message(&mut self, now: Time, header: Header, bytes: &[u8], out: &mut Vec<Output>) {
        if let Err(reason) = self.check_header(header) {
            return self.fail(header.xid, reason, bytes, out);
        }
        self.keepalive.heard(now);
        match Message::decode(bytes) {
            Ok((_, message)) => self.dispatch(now, header, message, bytes, out),
            Err(error) => self.fail(header.xid, CloseReason::Malformed(error), bytes, out),
        }
    }

    /// Takes a header that can't be one, or bytes that break off.
    pub fn on_garbage(&mut self, error: Error, out: &mut Vec<Output>) {
        self.fail(0, CloseReason::Malformed(error), &[], out);
    }

    /// Notes that this message of the engine's was sent, so that its answer can be waited for.
    pub fn on_sent(&mut self, now: Time, xid: u32, message: &Message) {
        if matches!(message, Message::BarrierRequest | Message::StatsRequest(_)) {
            self.expect(now, xid);
        }
    }

    /// Notes that a request with this id was sent, so that its answer can be waited for.
    pub fn expect(&mut self, now: Time, xid: u32) {
        self.keepalive.expect(xid, now);
    }

    /// The claim is granted: asks the switch for the rest.
    pub fn admit(&mut self, now: Time, out: &mut Vec<Output>) {
        let Phase::Claimed(mut describe) = std::mem::replace(&mut self.phase, Phase::Closed) else { return };
        describe.begin(self, now, out);
        self.phase = Phase::Describe(describe);
    }

    /// The switch took bytes that were waiting for it, or sent some: it lives, though it may have had no time to answer.
    pub fn on_progress(&mut self, now: Time) {
        self.keepalive.heard(now);
    }

    /// The claim is not granted, or the connection is not wanted: tells the switch why and ends.
    pub fn refuse(&mut self, reason: CloseReason, out: &mut Vec<Output>) {
        self.fail(0, reason, &[], out);
    }

    /// Asks whether the switch is alive, with a short deadline: [`Output::Alive`] or the end follows.
    pub fn challenge(&mut self, now: Time, out: &mut Vec<Output>) {
        let xid = self.request(Message::EchoRequest(Vec::new()), out);
        self.keepalive.challenge(xid, after(now, self.deadlines.challenge));
    }

    /// When [`Session::on_timer`] wants to be called, at the latest.
    pub fn deadline(&self) -> Option<Time> {
        match &self.phase {
            Phase::Hello(deadline) | Phase::Features(deadline) => Some(*deadline),
            Phase::Describe(describe) => Some(describe.deadline().min(self.keepalive.deadline(&self.deadlines, false))),
            Phase::Claimed(_) | Phase::Up => {
                let keepalive = self.keepalive.deadline(&self.deadlines, self.reading.is_some());
                Some(self.reading.as_ref().map_or(keepalive, |reading| keepalive.min(reading.deadline())))
            }
            Phase::Closed => None,
        }
    }

    /// Does what is due.
    pub fn on_timer(&mut self, now: Time, out: &mut Vec<Output>) {
        let within = self.deadlines.handshake;
        let late = |waiting_for| CloseReason::HandshakeTimeout { waiting_for, within };
        match &self.phase {
            Phase::Hello(deadline) if *deadline <= now => self.fail(0, late("hello"), &[], out),
            Phase::Features(deadline) if *deadline <= now => self.fail(0, late("features"), &[], out),
            Phase::Describe(describe) if describe.deadline() <= now => {
                let reason = late(describe.waiting_for());
                self.fail(0, reason, &[], out);
            }
            Phase::Up if self.reading.as_ref().is_some_and(|reading| reading.deadline() <= now) => {
                self.end(CloseReason::RequestTimeout(self.deadlines.request), out);
            }
            Phase::Claimed(_) | Phase::Describe(_) | Phase::Up => self.keep_alive(now, out),
            Phase::Hello(_) | Phase::Features(_) | Phase::Closed => {}
        }
    }

    /// Whether a message with this header is acceptable now.
    fn check_header(&self, header: Header) -> Result<(), CloseReason> {
        let (version, kind) = (header.version, header.kind);
        match self.phase {
            Phase::Hello(_) if kind == TYPE_HELLO || kind == TYPE_ERROR => Ok(()),
            Phase::Hello(_) => Err(CloseReason::NotHello { version, kind }),
            // A switch may still refuse our hello in its own version, or repeat its own.
            _ if version == self.version as u8 || kind == TYPE_HELLO || kind == TYPE_ERROR => Ok(()),
            Phase::Features(_) => Err(CloseReason::Incompatible(Incompatible::speaking(version))),
            _ => Err(CloseReason::WrongVersion(version)),
        }
    }

    /// Does with a message what the phase says.
    fn dispatch(&mut self, now: Time, header: Header, message: Message, bytes: &[u8], out: &mut Vec<Output>) {
        match (&mut self.phase, message) {
            (Phase::Closed, _) => {}
            (Phase::Up, message @ Message::PacketIn(_)) => out.push(Output::Deliver { xid: header.xid, message }),
            (_, Message::EchoRequest(data)) => {
                out.push(Output::Send { xid: header.xid, message: Message::EchoReply(data) });
            }
            (Phase::Hello(_), Message::Hello(hello)) => match negotiate(&hello) {
                Ok(version) => self.agreed(now, version, out),
                Err(reason) => self.fail(header.xid, reason.into(), &[], out),
            },
            (Phase::Hello(_) | Phase::Features(_), Message::Error(error)) => {
                self.end(CloseReason::RefusedByPeer(error_text(&error)), out);
            }
            (_, Message::Hello(_)) => {}
            (Phase::Features(_), Message::FeaturesReply(features)) => self.claim(features, out),
            (_, message @ (Message::GetConfigReply(_) | Message::Error(_)))
                if self.config_asked == Some(header.xid) =>
            {
                self.config_answered(&message, out);
            }
            (Phase::Claimed(_) | Phase::Describe(_), message) => self.describe(header, message, bytes, out),
            (Phase::Up, Message::Error(error)) if self.reading.as_ref().is_some_and(|r| r.is_about(header.xid)) => {
                self.note(Note::Refused(error.kind, error.code), out);
                self.flows_refused(now, out);
            }
            (Phase::Up, Message::BarrierReply | Message::Error(_))
                if self.reading.as_ref().is_some_and(|r| r.is_deleted_by(header.xid)) =>
            {
                self.end_reading(out);
            }
            (Phase::Up, Message::StatsReply(reply))
                if self.reading.as_ref().is_some_and(|r| r.is_about(header.xid)) =>
            {
                self.flows_part(now, reply, out);
            }
            (_, message) => self.running(header, message, bytes, out),
        }
    }

    /// A message that does not belong to the handshake.
    fn running(&mut self, header: Header, message: Message, bytes: &[u8], out: &mut Vec<Output>) {
        let up = self.is_up();
        let deliver = |message| Output::Deliver { xid: header.xid, message };
        match message {
            Message::PacketIn(_) => self.note(Note::EarlyPacketIn, out),
            Message::EchoReply(_) => {
                if self.keepalive.challenge_answered(header.xid) {
                    out.push(Output::Alive);
                }
            }
            Message::PortStatus(_) | Message::FlowRemoved(_) if up => out.push(deliver(message)),
            Message::PortStatus(_) | Message::FlowRemoved(_) => {}
            Message::Error(_) if up && header.xid >= ENGINE_XIDS => {
                self.keepalive.answered(header.xid);
                out.push(deliver(message));
            }
            Message::Error(error) => {
                self.note(Note::Refused(error.kind, error.code), out);
            }
            Message::StatsReply(ref reply) if up && self.keepalive.is_expected(header.xid) => {
                if !reply.more() {
                    self.keepalive.answered(header.xid);
                }
                out.push(deliver(message));
            }
            Message::BarrierReply if up && self.keepalive.answered(header.xid) => out.push(deliver(message)),
            Message::BarrierReply | Message::StatsReply(_) | Message::FeaturesReply(_) | Message::GetConfigReply(_) => {
                self.note(Note::UnexpectedReply(header.kind), out);
            }
            _ => self.unknown(header, bytes, out),
        }
    }

    /// A version is agreed on: asks for the features.
    fn agreed(&mut self, now: Time, version: Version, out: &mut Vec<Output>) {
        self.version = version;
        self.request(Message::FeaturesRequest, out);
        self.phase = Phase::Features(after(now, self.deadlines.handshake));
    }

    /// The switch said who it is.
    fn claim(&mut self, features: maple_wire::msg::Features, out: &mut Vec<Output>) {
        if features.auxiliary_id != 0 {
            return self.fail(0, CloseReason::Auxiliary(features.auxiliary_id), &[], out);
        }
        let dpid: Dpid = features.dpid;
        self.phase = Phase::Claimed(Box::new(Describe::new(features)));
        out.push(Output::Claim(dpid));
    }

    /// A type that no switch sends, or that this version does not have.
    fn unknown(&mut self, header: Header, bytes: &[u8], out: &mut Vec<Output>) {
        let error = error_of(BAD_REQUEST, BAD_TYPE, bytes);
        out.push(Output::Send { xid: header.xid, message: error });
        self.note(Note::UnknownType(header.kind), out);
    }

    /// A transaction id for a message of the session's owner.
    pub fn take_xid(&mut self) -> u32 {
        let xid = self.next_xid;
        self.next_xid = (xid + 1) % ENGINE_XIDS;
        xid
    }

    /// Sends a request of the session's own; gives its transaction id.
    fn request(&mut self, message: Message, out: &mut Vec<Output>) -> u32 {
        let xid = self.take_xid();
        out.push(Output::Send { xid, message });
        xid
    }

    /// Echo requests and overdue answers.
    fn keep_alive(&mut self, now: Time, out: &mut Vec<Output>) {
        match self.keepalive.due(now, &self.deadlines, self.reading.is_some()) {
            keepalive::Due::Nothing => {}
            keepalive::Due::Echo => {
                self.request(Message::EchoRequest(Vec::new()), out);
                self.keepalive.echo_sent(now);
            }
            keepalive::Due::Dead(reason) => self.end(reason, out),
        }
    }

    /// Tells the owner of something odd.
    fn note(&mut self, note: Note, out: &mut Vec<Output>) {
        let first = self.noted & note.bit() == 0;
        self.noted |= note.bit();
        out.push(Output::Note { note, first });
    }

    /// Ends the session with the OpenFlow error that fits the reason, where there is one.
    fn fail(&mut self, xid: u32, reason: CloseReason, bytes: &[u8], out: &mut Vec<Output>) {
        if matches!(self.phase, Phase::Closed) {
            return;
        }
        if bytes.first() == Some(&(Version::Of10 as u8)) && matches!(self.phase, Phase::Hello(_)) {
            self.version = Version::Of10;
        }
        let text = || reason.to_string().into_bytes();
        let error = |kind, code, data| Message::Error(ErrorMsg { kind, code, data });
        let message = match &reason {
            CloseReason::Incompatible(_) => Some(error(HELLO_FAILED, INCOMPATIBLE, text())),
            CloseReason::Auxiliary(_) | CloseReason::Duplicate(_) => Some(error(HELLO_FAILED, EPERM, text())),
            CloseReason::NotHello { .. } => Some(error_of(BAD_REQUEST, BAD_TYPE, bytes)),
            CloseReason::WrongVersion(_) => Some(error_of(BAD_REQUEST, BAD_VERSION, bytes)),
            CloseReason::Malformed(_) => Some(error_of(BAD_REQUEST, BAD_LEN, bytes)),
            _ => None,
        };
        out.extend(message.map(|message| Output::Send { xid, message }));
        self.end(reason, out);
    }

    /// Ends the session without a word to the switch.
    fn end(&mut self, reason: CloseReason, out: &mut Vec<Output>) {
        self.phase = Phase::Closed;
        out.push(Output::Close(reason));
    }
}

/// An error about a message that came in.
fn error_of(kind: u16, code: u16, bytes: &[u8]) -> Message {
    Message::Error(ErrorMsg { kind, code, data: bytes[..bytes.len().min(ERROR_DATA)].to_vec() })
}

/// What a hello-failed error says: its text where it has one.
fn error_text(error: &ErrorMsg) -> String {
    let text = String::from_utf8_lossy(&error.data);
    let text: String = text.trim_end_matches('\0').chars().take(200).collect();
    let text = printable(&text);
    format!("error type {} code {}: {text}", error.kind, error.code)
}
