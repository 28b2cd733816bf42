//! A switch: its connection, its packet-ins, and their answers.

use std::net::SocketAddr;
use std::sync::Arc;

use maple_switch::time::Nanoseconds;
use maple_wire::eth_type;
use maple_wire::msg::{Frames, Header, NO_BUFFER, kind};
use maple_wire::{Action, Message, PortNo, Version};
use rustls::ClientConfig;

use crate::channel::Channel;
use crate::error::LoadError;
use crate::handshake::{Identity, answer, hello};
use crate::packets;
use crate::pending::Pending;
use crate::tls::of_one_switch;
use crate::workload::{MARK, PAYLOAD, Source, SwitchPackets};

/// The position of the last byte of the command in a flow-mod of 1.0 (§5.3.3).
const COMMAND10: usize = 57;
/// The position of the buffer id in a flow-mod of 1.0 (§5.3.3).
const BUFFER10: usize = 64;
/// The position of the command in a flow-mod of 1.3 (§7.3.4.1).
const COMMAND13: usize = 25;
/// The position of the buffer id in a flow-mod of 1.3 (§7.3.4.1).
const BUFFER13: usize = 32;
/// The position of the buffer id in a packet-out (1.0 §5.3.6, 1.3 §7.3.7).
const BUFFER_OUT: usize = 8;
/// `OFPFC_DELETE`, the lowest command that deletes.
const DELETE: u8 = 3;

/// The number of bytes from the switch's index in a request to the end of its frame.
const REQUEST_TAIL: usize = 18;

/// The counters of a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub sent: u64,
    pub answers: u64,
    pub flow_mods: u64,
    pub packet_outs: u64,
    /// Answers to packet-ins that are not open.
    pub strange: u64,
    /// Packet-outs of answered requests: further copies of a flooded one.
    pub copies: u64,
}

impl std::ops::Sub for Tally {
    type Output = Tally;

    fn sub(self, before: Tally) -> Tally {
        Tally {
            sent: self.sent - before.sent,
            answers: self.answers - before.answers,
            flow_mods: self.flow_mods - before.flow_mods,
            packet_outs: self.packet_outs - before.packet_outs,
            strange: self.strange - before.strange,
            copies: self.copies - before.copies,
        }
    }
}

impl Tally {
    /// Counts an answer to a packet-in that is not open: a further copy of a request, or an error.
    fn count_late(&mut self, is_copy: bool) {
        if is_copy { self.copies += 1 } else { self.strange += 1 }
    }
}

/// One switch.
pub(crate) struct LoadSwitch {
    pub channel: Channel,
    pub tally: Tally,
    /// Whether the controller has requested the features.
    pub is_known: bool,
    /// Frames to send out of ports, if it has links.
    pub carried: Vec<(u32, Vec<u8>)>,
    /// Answered requests of other switches: the switch's index, and the buffer id there.
    pub strayed: Vec<(u32, u32)>,
    /// The TLS configuration that keeps the switch's sessions.
    sessions: Option<Arc<ClientConfig>>,
    identity: Identity,
    source: Source,
    teaching: Vec<u8>,
    has_links: bool,
    pending: Pending,
    next_mac: u32,
}

/// The kinds of messages to a switch.
enum MessageKind {
    /// A message that releases the packet with this buffer id.
    Answer(u32),
    /// A message that releases a packet whose bytes it carries.
    Oldest,
    /// A message that releases a request whose bytes it carries.
    Request {
        /// The index of the request's switch.
        switch: u32,
        /// The request's buffer id at that switch.
        id: u32,
    },
    /// A message that answers nothing.
    Nothing,
    /// A request, or a part of the handshake.
    Other,
}

impl LoadSwitch {
    /// Connects a switch with this number (from 1), and sends its hello.
    ///
    /// # Errors
    /// [`LoadError::Connect`] if the controller can't be reached, or [`LoadError::Closed`] if it closes the connection.
    pub fn connect(
        address: SocketAddr,
        tls: Option<&ClientConfig>,
        id: u32,
        version: Version,
        packets: SwitchPackets,
        window: u32,
    ) -> Result<LoadSwitch, LoadError> {
        let sessions = tls.map(of_one_switch);
        let mut switch = LoadSwitch {
            channel: Channel::connect(address, sessions.as_ref(), id, version)?,
            tally: Tally::default(),
            is_known: false,
            carried: Vec::new(),
            strayed: Vec::new(),
            sessions,
            identity: Identity { dpid: packets.dpid, ports: packets.ports, tables: packets.tables },
            source: packets.source,
            teaching: packets.teaching,
            has_links: packets.has_links,
            pending: Pending::new(window),
            next_mac: 0,
        };
        switch.channel.say(0, &hello(version))?;
        switch.channel.flush()?;
        Ok(switch)
    }

    /// Disconnects and connects again, before the switch has sent a packet.
    ///
    /// # Errors
    /// [`LoadError::Connect`] if the controller can't be reached, or [`LoadError::Closed`] if it closes the connection.
    pub fn reconnect(&mut self, address: SocketAddr) -> Result<(), LoadError> {
        let Channel { id, version, .. } = self.channel;
        self.channel = Channel::connect(address, self.sessions.as_ref(), id as u32, version)?;
        self.is_known = false;
        self.channel.say(0, &hello(version))?;
        self.channel.flush()
    }

    /// Returns the number of unanswered packet-ins.
    pub fn open(&self) -> u32 {
        self.pending.open()
    }

    /// Returns the number of packet-ins that can be added.
    pub fn room(&self) -> u32 {
        self.pending.room()
    }

    /// Teaches the controller where the destinations are.
    ///
    /// # Errors
    /// [`LoadError::Closed`] if the controller has closed the connection.
    pub fn teach(&mut self) -> Result<(), LoadError> {
        self.channel.waiting.append(&mut self.teaching);
        self.channel.flush()
    }

    /// Reports whether the switch has nothing to send.
    pub fn is_mute(&self) -> bool {
        matches!(&self.source, Source::Requests(requests) if requests.is_empty())
    }

    /// Returns the number of different requests of its hosts.
    pub fn requests(&self) -> usize {
        if let Source::Requests(requests) = &self.source { requests.len() } else { 0 }
    }

    /// Sends this many packet-ins, which count as sent at `time` (in nanoseconds); there must be room. `random` chooses
    /// among requests, and `scratch` is empty before and after.
    ///
    /// # Errors
    /// [`LoadError::Closed`] if the controller has closed the connection.
    pub fn send(
        &mut self,
        count: u32,
        time: u64,
        random: impl FnMut() -> u64,
        scratch: &mut Vec<u8>,
    ) -> Result<(), LoadError> {
        self.make(count, time, random, scratch);
        self.channel.send(scratch)?;
        scratch.clear();
        Ok(())
    }

    /// Queues this many packet-ins after the waiting bytes; they count as sent at `time`. There must be room.
    pub fn stage(&mut self, count: u32, time: Nanoseconds, random: impl FnMut() -> u64) {
        let mut waiting = std::mem::take(&mut self.channel.waiting);
        self.make(count, time, random, &mut waiting);
        self.channel.waiting = waiting;
    }

    /// Builds this many packet-ins, and records them as sent at `time`.
    fn make(&mut self, count: u32, time: Nanoseconds, mut random: impl FnMut() -> u64, scratch: &mut Vec<u8>) {
        if let Source::Addresses(template, _) = &self.source {
            scratch.reserve(count as usize * template.len());
        }
        for _ in 0..count {
            let id = self.pending.push(time);
            let start = scratch.len();
            match &mut self.source {
                Source::Addresses(template, macs) => {
                    template.append(self.channel.id, self.next_mac, id, scratch);
                    self.next_mac = if self.next_mac + 1 == *macs { 0 } else { self.next_mac + 1 };
                }
                Source::List { packet_ins, next } => {
                    scratch.extend_from_slice(&packet_ins[*next]);
                    packets::stamp(&mut scratch[start..], id);
                    *next = if *next + 1 == packet_ins.len() { 0 } else { *next + 1 };
                }
                Source::Requests(requests) => {
                    let request = &requests[(random() % requests.len() as u64) as usize];
                    scratch.extend_from_slice(request);
                    let message = &mut scratch[start..];
                    packets::stamp(message, id);
                    let at = message.len() - REQUEST_TAIL;
                    message[at..at + 4].copy_from_slice(&(self.channel.id as u32 - 1).to_be_bytes());
                    message[at + 4..at + 8].copy_from_slice(&id.to_be_bytes());
                }
            }
        }
        self.tally.sent += u64::from(count);
    }

    /// Sends the packet-in for a packet that arrives by a link.
    ///
    /// # Errors
    /// [`LoadError::Closed`] if the controller has closed the connection.
    pub fn deliver(&mut self, port: u32, frame: &[u8]) -> Result<(), LoadError> {
        self.channel.waiting.extend(packets::packet_in(self.channel.version, port, frame));
        self.channel.flush()
    }

    /// Handles the answer to a request that another switch received. Returns when the request was sent, if it is open.
    pub fn answered_elsewhere(&mut self, id: u32) -> Option<u64> {
        let sent = self.pending.answer(id);
        match sent {
            Some(_) => self.tally.answers += 1,
            None => self.tally.count_late(self.pending.was_sent(id)),
        }
        sent
    }

    /// Reads once, and passes the sending time of each answered packet-in to `answered`.
    ///
    /// # Errors
    /// [`LoadError::Closed`] if the controller has closed the connection, or [`LoadError::Malformed`] if a message is
    /// wrong.
    pub fn receive(&mut self, buffer: &mut [u8], mut answered: impl FnMut(u64)) -> Result<(), LoadError> {
        let Some(read) = self.channel.read(buffer)? else {
            // This may be the end of a handshake, after which bytes can be written.
            return if self.channel.is_behind() { self.channel.flush() } else { Ok(()) };
        };
        let mut frames = Frames::new(&buffer[..read]);
        for frame in frames.by_ref() {
            let (header, message) = frame.map_err(|error| self.channel.malformed(error))?;
            self.take(header, message, &mut answered)?;
        }
        self.channel.keep(frames.rest());
        if self.channel.waiting.is_empty() { Ok(()) } else { self.channel.flush() }
    }

    fn take(&mut self, header: Header, message: &[u8], answered: &mut impl FnMut(u64)) -> Result<(), LoadError> {
        let mut is_copy = false;
        let sent = match self.on_message(header, message)? {
            MessageKind::Answer(id) if id > 0x7fff_ffff => return Ok(()),
            MessageKind::Answer(id) => self.pending.answer(id),
            MessageKind::Oldest => self.pending.answer_oldest(),
            MessageKind::Request { switch, id } if u64::from(switch) + 1 == self.channel.id => {
                is_copy = self.pending.was_sent(id);
                self.pending.answer(id)
            }
            MessageKind::Request { switch, id } => {
                self.strayed.push((switch, id));
                return Ok(());
            }
            MessageKind::Nothing => return Ok(()),
            MessageKind::Other => return self.converse(message),
        };
        match sent {
            Some(sent) => {
                self.tally.answers += 1;
                answered(sent);
            }
            None => self.tally.count_late(is_copy),
        }
        Ok(())
    }

    /// Classifies a message, and counts it.
    fn on_message(&mut self, header: Header, message: &[u8]) -> Result<MessageKind, LoadError> {
        let short = || maple_wire::Error::Truncated { what: "message", need: 72, have: message.len() };
        let (command, buffer_id) = match (header.kind, self.channel.version) {
            (kind::PACKET_OUT, _) => {
                self.tally.packet_outs += 1;
                let id = number(message, BUFFER_OUT).ok_or_else(|| self.channel.malformed(short()))?;
                if self.has_links && id == NO_BUFFER {
                    return self.carry(message);
                }
                return Ok(if id == NO_BUFFER { MessageKind::Oldest } else { MessageKind::Answer(id) });
            }
            (kind::FLOW_MOD, Version::Of10) => (message.get(COMMAND10), number(message, BUFFER10)),
            (kind::FLOW_MOD, Version::Of13) => (message.get(COMMAND13), number(message, BUFFER13)),
            _ => return Ok(MessageKind::Other),
        };
        let (Some(command), Some(id)) = (command, buffer_id) else { return Err(self.channel.malformed(short())) };
        self.tally.flow_mods += 1;
        Ok(if *command >= DELETE || id == NO_BUFFER { MessageKind::Nothing } else { MessageKind::Answer(id) })
    }

    /// Handles a packet-out with a frame at a switch with links: it answers a request, or its frame crosses the links.
    fn carry(&mut self, message: &[u8]) -> Result<MessageKind, LoadError> {
        let (_, message) = Message::decode(message).map_err(|error| self.channel.malformed(error))?;
        let Message::PacketOut(out) = message else { return Ok(MessageKind::Nothing) };
        if let Some(tail) = out.data.get(PAYLOAD..).and_then(|payload| payload.strip_prefix(&MARK))
            && let (Some(switch), Some(id)) = (number(tail, 0), number(tail, 4))
        {
            return Ok(MessageKind::Request { switch, id });
        }
        if out.data.get(12..14) == Some(&eth_type::LLDP.to_be_bytes()) {
            let ports = out.actions.iter().filter_map(|action| match action {
                Action::Output { port, .. } if *port <= PortNo::MAX => Some(port.0),
                _ => None,
            });
            self.carried.extend(ports.map(|port| (port, out.data.clone())));
        }
        Ok(MessageKind::Nothing)
    }

    /// Answers a request.
    fn converse(&mut self, message: &[u8]) -> Result<(), LoadError> {
        let (header, message) = Message::decode(message).map_err(|error| self.channel.malformed(error))?;
        self.is_known |= message == Message::FeaturesRequest;
        if let Message::Error(error) = &message
            && !self.is_known
        {
            return Err(self.channel.closed(&format!("error type {} code {}", error.kind, error.code)));
        }
        if let Some(reply) = answer(self.channel.version, &self.identity, &message) {
            self.channel.say(header.xid, &reply)?;
        }
        Ok(())
    }
}

/// Returns the 32-bit number at this position.
#[inline]
fn number(message: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*message.get(at..at + 4)?.first_chunk()?))
}
