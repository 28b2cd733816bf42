//! The client's side of a host's flows.

use std::net::IpAddr;

use maple_switch::time::Nanoseconds;

use super::reply::{ACK, FIN, PSH, SYN, toward};
use super::segment::Tcp;
use super::{FlowKind, Host, Progress, RETRY_AFTER};

/// The sequence number that clients start with. Chosen: another than that of servers, so that a mix-up shows; nobody
/// guesses numbers here.
const CLIENT_START: u32 = 1_000;

/// The stage of a flow's dialogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The hardware address is not known.
    Resolving,
    /// A ping or datagram was sent.
    Asked,
    /// TCP: SYN was sent.
    Opening,
    /// TCP: the request was sent; the server's next sequence number.
    Requesting(u32),
    /// TCP: FIN was sent; the server's next sequence number.
    Closing(u32),
    /// TCP: the server's FIN is acknowledged; the number that the client expects next.
    Acknowledging(u32),
    /// The dialogue has ended.
    Over,
}

impl Host {
    /// Sends the first packet of a flow whose address is known.
    pub(super) fn begin(&mut self, now: Nanoseconds, at: usize, out: &mut Vec<Vec<u8>>) {
        let stage = if matches!(self.flows[at].record.kind, FlowKind::Tcp(_)) { Stage::Opening } else { Stage::Asked };
        self.enter(now, at, stage, out);
    }

    /// Enters a stage, and sends its packet.
    fn enter(&mut self, now: Nanoseconds, at: usize, stage: Stage, out: &mut Vec<Vec<u8>>) {
        let flow = &mut self.flows[at];
        (flow.stage, flow.attempts) = (stage, 0);
        self.say(now, at, out);
    }

    /// Handles a deadline that has passed: sends again, or gives up.
    pub(super) fn repeat(&mut self, now: Nanoseconds, at: usize, out: &mut Vec<Vec<u8>>) {
        if self.flows[at].attempts >= self.flows[at].patience {
            // The neighbour may have moved to other hardware; the next flow asks again.
            self.neighbours.remove(&self.flows[at].record.to);
            self.end(now, at, Progress::NoAnswer);
        } else {
            self.say(now, at, out);
        }
    }

    fn say(&mut self, now: Nanoseconds, at: usize, out: &mut Vec<Vec<u8>>) {
        let flow = &mut self.flows[at];
        let to = flow.record.to;
        let Some(mac) = self.neighbours.get(&to).copied() else {
            self.end(now, at, Progress::NoNeighbour);
            return;
        };
        flow.attempts += 1;
        flow.record.sent += 1;
        self.expect(at, Some(now + RETRY_AFTER));
        let flow = &self.flows[at];
        let ip = toward(&self.spec, self.link_local, mac, to);
        let text = format!("maple {} {} #{at}", self.spec.name, flow.record.kind);
        let after_request = CLIENT_START + 1 + text.len() as u32;
        let tcp = |ip: maple_wire::packet::build::IpFrame, port, flags, seq, ack| {
            ip.tcp_with(flow.port, port, flags, seq, ack)
        };
        let frame = match (flow.record.kind, flow.stage) {
            (FlowKind::Ping, _) => ip.echo_request(flow.port, flow.attempts as u16).payload(text.as_bytes()),
            (FlowKind::Udp(port), _) => ip.udp(flow.port, port).payload(text.as_bytes()),
            (FlowKind::Tcp(port), Stage::Requesting(ack)) => {
                tcp(ip, port, PSH | ACK, CLIENT_START + 1, ack).payload(text.as_bytes())
            }
            (FlowKind::Tcp(port), Stage::Closing(ack)) => tcp(ip, port, FIN | ACK, after_request, ack).build(),
            (FlowKind::Tcp(port), Stage::Acknowledging(ack)) => tcp(ip, port, ACK, after_request + 1, ack).build(),
            (FlowKind::Tcp(port), _) => tcp(ip, port, SYN, CLIENT_START, 0).build(),
        };
        self.send(frame, out);
    }

    /// Handles an echo reply to the flow from `port` (its identifier).
    pub(super) fn hear_echo_reply(&mut self, now: Nanoseconds, from: IpAddr, port: u16) {
        self.finish(now, |record| record.kind == FlowKind::Ping, from, port);
    }

    /// Handles a UDP reply from a server's port to the flow from `port`.
    pub(super) fn hear_udp_reply(&mut self, now: Nanoseconds, from: IpAddr, server: u16, port: u16) {
        self.finish(now, |record| record.kind == FlowKind::Udp(server), from, port);
    }

    fn finish(&mut self, now: Nanoseconds, fits: impl Fn(&super::FlowRecord) -> bool, from: IpAddr, port: u16) {
        let Some(at) = self.flow_from(port) else { return };
        let flow = &mut self.flows[at];
        if flow.record.to == from && fits(&flow.record) {
            flow.record.received += 1;
            if flow.stage == Stage::Asked {
                self.end(now, at, Progress::Done);
            }
        }
    }

    /// Handles a TCP segment from a server.
    pub(super) fn hear_tcp_reply(&mut self, now: Nanoseconds, from: IpAddr, tcp: &Tcp<'_>, out: &mut Vec<Vec<u8>>) {
        let fits =
            |f: &super::Flow| f.port == tcp.dst && f.record.to == from && f.record.kind == FlowKind::Tcp(tcp.src);
        let Some(at) = self.flow_from(tcp.dst).filter(|at| fits(&self.flows[*at])) else { return };
        self.flows[at].record.received += 1;
        let next = tcp.seq.wrapping_add(tcp.data.len() as u32);
        match (self.flows[at].stage, tcp.flags) {
            (Stage::Opening, flags) if flags & SYN != 0 && flags & ACK != 0 => {
                self.enter(now, at, Stage::Requesting(next.wrapping_add(1)), out);
            }
            (Stage::Requesting(expected), flags) if flags & PSH != 0 && tcp.seq == expected => {
                self.enter(now, at, Stage::Closing(next), out);
            }
            (Stage::Closing(_), flags) if flags & FIN != 0 => {
                self.enter(now, at, Stage::Acknowledging(next.wrapping_add(1)), out);
                self.end(now, at, Progress::Done);
            }
            _ => {}
        }
    }
}
