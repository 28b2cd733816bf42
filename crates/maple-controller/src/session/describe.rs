//! The handshake's last part: what the switch is, which ports it has, and how much of a packet it sends.

use maple_core::engine::Time;
use maple_wire::msg::stats::{Desc, ReplyBody, RequestBody};
use maple_wire::msg::{Features, Header, PortReason, PortStatus, StatsReply, StatsRequest, SwitchConfig};
use maple_wire::{Message, Port, Version};

use super::{CloseReason, Note, Output, Phase, Session, SwitchInfo};
use crate::time::after;

/// `miss_send_len` that asks for whole packets.
const WHOLE_PACKETS: u16 = 0xffff;
/// `OFPC_FRAG_NORMAL`: fragments are treated as other packets.
const FRAGMENTS_NORMAL: u16 = 0;
/// Most ports that a switch may have.
const MAX_PORTS: usize = 1 << 16;

/// What was asked, and what came back so far.
#[derive(Debug)]
pub(super) struct Describe {
    features: Features,
    ports: Vec<Port>,
    description: Desc,
    deadline: Time,
    /// The requests that wait for an answer.
    pending: Vec<(u32, Question)>,
}

/// What was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Ports,
    Description,
}

impl Describe {
    pub(super) fn new(mut features: Features) -> Describe {
        let ports = std::mem::take(&mut features.ports);
        Describe { features, ports, description: Desc::default(), deadline: Time(u64::MAX), pending: Vec::new() }
    }

    /// Asks everything at once.
    pub(super) fn begin(&mut self, session: &mut Session, now: Time, out: &mut Vec<Output>) {
        self.deadline = after(now, session.deadlines.handshake);
        let version = session.version;
        let mut ask = |question, message| {
            let xid = session.request(message, out);
            self.pending.push((xid, question));
        };
        if version == Version::Of13 {
            ask(Question::Ports, stats_request(RequestBody::PortDesc));
        }
        ask(Question::Description, stats_request(RequestBody::Desc));
        // `cbench` answers the question of 1.0 by a header whose length is in host order.
        match version {
            Version::Of10 => session.configure(FRAGMENTS_NORMAL, out),
            Version::Of13 => session.config_asked = Some(session.request(Message::GetConfigRequest, out)),
        }
    }

    pub(super) fn deadline(&self) -> Time {
        self.deadline
    }

    /// What is still missing, for people.
    pub(super) fn waiting_for(&self) -> &'static str {
        match self.pending.first() {
            Some((_, Question::Ports)) => "port description",
            Some((_, Question::Description)) => "switch description",
            None => "description",
        }
    }

    /// Takes the request with this id off the list, or leaves it there if more parts of its answer follow.
    fn answered(&mut self, xid: u32, more: bool) -> Option<Question> {
        let at = self.pending.iter().position(|(asked, _)| *asked == xid)?;
        Some(if more { self.pending[at].1 } else { self.pending.remove(at).1 })
    }

    fn is_pending(&self, xid: u32) -> bool {
        self.pending.iter().any(|(asked, _)| *asked == xid)
    }

    fn into_info(self, version: Version) -> SwitchInfo {
        SwitchInfo { version, features: self.features, ports: self.ports, description: self.description }
    }
}

impl Session {
    /// A message between the features and the end of the handshake.
    pub(super) fn describe(&mut self, header: Header, message: Message, bytes: &[u8], out: &mut Vec<Output>) {
        let (Phase::Claimed(describe) | Phase::Describe(describe)) = &mut self.phase else { return };
        match message {
            Message::PortStatus(status) => apply_port_status(&mut describe.ports, status),
            Message::StatsReply(reply) if describe.is_pending(header.xid) => self.statistics(header.xid, reply, out),
            Message::Error(error) => {
                describe.answered(header.xid, false);
                self.note(Note::Refused(error.kind, error.code), out);
            }
            message => return self.running(header, message, bytes, out),
        }
        self.finish_if_complete(out);
    }

    /// A part of the answer to one of our questions.
    fn statistics(&mut self, xid: u32, reply: StatsReply, out: &mut Vec<Output>) {
        let Phase::Describe(describe) = &mut self.phase else { return };
        describe.answered(xid, reply.more());
        match reply.body {
            ReplyBody::PortDesc(ports) if describe.ports.len() + ports.len() <= MAX_PORTS => {
                describe.ports.extend(ports);
            }
            ReplyBody::PortDesc(_) => self.end(CloseReason::TooMany("ports", MAX_PORTS), out),
            ReplyBody::Desc(desc) => describe.description = desc,
            _ => {}
        }
    }

    /// The configuration was asked for by this request: asks for whole packets, and leaves the treatment of fragments as it
    /// is. A switch that does not tell its configuration gets the usual one.
    pub(super) fn config_answered(&mut self, message: &Message, out: &mut Vec<Output>) {
        self.config_asked = None;
        match message {
            Message::GetConfigReply(config) => self.configure(config.flags, out),
            Message::Error(error) => {
                self.note(Note::Refused(error.kind, error.code), out);
                self.configure(FRAGMENTS_NORMAL, out);
            }
            _ => {}
        }
    }

    /// Asks for whole packets.
    fn configure(&mut self, flags: u16, out: &mut Vec<Output>) {
        self.request(Message::SetConfig(SwitchConfig { flags, miss_send_len: WHOLE_PACKETS }), out);
    }

    fn finish_if_complete(&mut self, out: &mut Vec<Output>) {
        if matches!(&self.phase, Phase::Describe(describe) if describe.pending.is_empty())
            && let Phase::Describe(describe) = std::mem::replace(&mut self.phase, Phase::Up)
        {
            out.push(Output::Up(Box::new(describe.into_info(self.version))));
        }
    }
}

/// A port list with one more change in it.
pub fn apply_port_status(ports: &mut Vec<Port>, status: PortStatus) {
    ports.retain(|port| port.number != status.port.number);
    if status.reason != PortReason::Delete && ports.len() < MAX_PORTS {
        ports.push(status.port);
        ports.sort_by_key(|port| port.number);
    }
}

/// A request for statistics.
pub(super) fn stats_request(body: RequestBody) -> Message {
    Message::StatsRequest(StatsRequest::new(body))
}
