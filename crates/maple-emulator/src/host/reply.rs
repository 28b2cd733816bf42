//! The answers of a host: addresses, pings, and the server's side of TCP and UDP.
//!
//! The server keeps no state between packets: its answer follows from the received segment alone. So a repeated request
//! gets a repeated answer. Answers are never answered, whatever their ports, or two servers would talk for ever.

use std::net::{IpAddr, Ipv6Addr};

use maple_switch::time::Nanoseconds;
use maple_wire::icmpv6_type::{NEIGHBOR_ADVERT, NEIGHBOR_SOLICIT};
use maple_wire::ip_proto::{ICMP, ICMPV6, TCP, UDP};
use maple_wire::packet::Frame;
use maple_wire::packet::build::{IpFrame, multicast_mac, solicited_node};

use super::segment::{Datagram, Segment, Tcp, array, u16_at};
use super::{FIRST_CLIENT_PORT, Host, STREAM_PORT};
use crate::topology::HostSpec;

/// The flag of the last segment of a direction (RFC 9293 §3.1).
pub const FIN: u8 = 1;
/// The flag of the first segment of a direction (RFC 9293 §3.1).
pub const SYN: u8 = 2;
/// The flag that asks to deliver what has come (RFC 9293 §3.1).
pub const PSH: u8 = 8;
/// The flag of a segment that acknowledges (RFC 9293 §3.1).
pub const ACK: u8 = 16;

/// The sequence number that servers start with. Chosen: another than that of clients, so that a mix-up shows.
const SERVER_START: u32 = 5_000;

/// The payload of each of a server's answers.
const ANSWER: &[u8] = b"maple: here is your answer";

impl Host {
    /// Handles a frame for this host, or for everybody.
    pub(super) fn hear(&mut self, now: Nanoseconds, segment: &Segment<'_>, out: &mut Vec<Vec<u8>>) {
        match segment {
            Segment::Arp { op, sender_mac, sender, target } => {
                // Unspecified senders are probes for a duplicate address, and reveal no location.
                if !sender.is_unspecified() && *sender != self.spec.ipv4 {
                    self.learn(now, IpAddr::V4(*sender), *sender_mac, out);
                }
                if *op == 1 && *target == self.spec.ipv4 && *sender != self.spec.ipv4 {
                    self.answer(ethernet(*sender_mac, self.spec.mac).arp_reply(*target, *sender), out);
                }
            }
            Segment::Ip(datagram) if datagram.proto == ICMPV6 => self.hear_icmpv6(now, datagram, out),
            Segment::Ip(datagram) if self.owns(datagram.dst) => match datagram.proto {
                ICMP => self.hear_echo(now, datagram, 8, 0, out),
                TCP => self.hear_tcp(now, datagram, out),
                UDP => self.hear_udp(now, datagram, out),
                _ => {}
            },
            Segment::Ip(_) => {}
        }
    }

    fn hear_icmpv6(&mut self, now: Nanoseconds, datagram: &Datagram<'_>, out: &mut Vec<Vec<u8>>) {
        let target = array::<16>(datagram.body, 8).map(Ipv6Addr::from);
        let mac = array::<6>(datagram.body, 26);
        match (datagram.body.first(), target, datagram.src) {
            (Some(&NEIGHBOR_SOLICIT), Some(target), IpAddr::V6(src)) if self.owns(IpAddr::V6(target)) => {
                let mac = mac.unwrap_or(datagram.src_mac);
                if !src.is_unspecified() {
                    self.learn(now, datagram.src, mac, out);
                    self.answer(ethernet(mac, self.spec.mac).neighbor_advert(target, src), out);
                }
            }
            (Some(&NEIGHBOR_ADVERT), Some(target), _) => {
                self.learn(now, IpAddr::V6(target), mac.unwrap_or(datagram.src_mac), out);
            }
            _ if self.owns(datagram.dst) => self.hear_echo(now, datagram, 128, 129, out),
            _ => {}
        }
    }

    fn hear_echo(&mut self, now: Nanoseconds, datagram: &Datagram<'_>, request: u8, reply: u8, out: &mut Vec<Vec<u8>>) {
        let (Some(kind), Some(id), Some(seq)) =
            (datagram.body.first(), u16_at(datagram.body, 4), u16_at(datagram.body, 6))
        else {
            return;
        };
        if *kind == request {
            let frame = back(&self.spec, datagram).echo_reply(id, seq).payload(&datagram.body[8..]);
            self.answer(frame, out);
        } else if *kind == reply {
            self.hear_echo_reply(now, datagram.src, id);
        }
    }

    fn hear_udp(&mut self, now: Nanoseconds, datagram: &Datagram<'_>, out: &mut Vec<Vec<u8>>) {
        let (Some(src), Some(dst)) = (u16_at(datagram.body, 0), u16_at(datagram.body, 2)) else { return };
        if dst == STREAM_PORT && self.hear_stream(now, datagram) {
            return;
        }
        if dst >= FIRST_CLIENT_PORT {
            self.hear_udp_reply(now, datagram.src, src, dst);
        } else if datagram.body.get(8..) != Some(ANSWER) {
            let frame = back(&self.spec, datagram).udp(dst, src).payload(ANSWER);
            self.answer(frame, out);
        }
    }

    fn hear_tcp(&mut self, now: Nanoseconds, datagram: &Datagram<'_>, out: &mut Vec<Vec<u8>>) {
        let Some(tcp) = Tcp::parse(datagram.body) else { return };
        if tcp.dst >= FIRST_CLIENT_PORT {
            self.hear_tcp_reply(now, datagram.src, &tcp, out);
            return;
        }
        let to = |frame: IpFrame, flags, seq, ack, data: &[u8]| {
            frame.tcp_with(tcp.dst, tcp.src, flags, seq, ack).payload(data)
        };
        let ip = back(&self.spec, datagram);
        let got = tcp.seq.wrapping_add(tcp.data.len() as u32);
        let frame = match tcp.flags {
            flags if flags & (SYN | ACK) == SYN => to(ip, SYN | ACK, SERVER_START, tcp.seq.wrapping_add(1), &[]),
            flags if flags & FIN != 0 && tcp.src >= FIRST_CLIENT_PORT => {
                to(ip, FIN | ACK, tcp.ack, got.wrapping_add(1), &[])
            }
            flags if flags & (SYN | FIN) == 0 && !tcp.data.is_empty() && tcp.data != ANSWER => {
                to(ip, PSH | ACK, tcp.ack, got, ANSWER)
            }
            _ => return,
        };
        self.answer(frame, out);
    }

    fn answer(&mut self, frame: Vec<u8>, out: &mut Vec<Vec<u8>>) {
        self.counters.answered += 1;
        self.send(frame, out);
    }
}

/// Starts a frame between two hardware addresses.
pub fn ethernet(dst: [u8; 6], src: [u8; 6]) -> Frame {
    Frame::ethernet(dst, src)
}

/// Builds the request for the hardware address of `to`.
pub fn ask_for(spec: &HostSpec, link_local: Ipv6Addr, to: IpAddr) -> Vec<u8> {
    match to {
        IpAddr::V4(to) => ethernet([0xff; 6], spec.mac).arp_request(spec.ipv4, to),
        IpAddr::V6(to) => {
            let group = multicast_mac(solicited_node(to));
            ethernet(group, spec.mac).neighbor_solicit(source_for(spec, link_local, to), to)
        }
    }
}

/// Builds the headers of a packet to `to`, up to IP.
pub fn toward(spec: &HostSpec, link_local: Ipv6Addr, mac: [u8; 6], to: IpAddr) -> IpFrame {
    match to {
        IpAddr::V4(to) => ethernet(mac, spec.mac).ipv4(spec.ipv4, to),
        IpAddr::V6(to) => ethernet(mac, spec.mac).ipv6(source_for(spec, link_local, to), to),
    }
}

/// Builds the headers of an answer to a datagram, up to IP.
fn back(spec: &HostSpec, datagram: &Datagram<'_>) -> IpFrame {
    let link = ethernet(datagram.src_mac, spec.mac);
    match (datagram.dst, datagram.src) {
        (IpAddr::V4(own), IpAddr::V4(other)) => link.ipv4(own, other),
        (IpAddr::V6(own), IpAddr::V6(other)) => link.ipv6(own, other),
        _ => unreachable!("both addresses of a datagram are of one family"),
    }
}

fn source_for(spec: &HostSpec, link_local: Ipv6Addr, to: Ipv6Addr) -> Ipv6Addr {
    if to.is_unicast_link_local() { link_local } else { spec.ipv6 }
}
