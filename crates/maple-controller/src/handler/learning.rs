//! The exact-match learning switch: the controller program that frameworks are compared by (Maple §6.4).
//!
//! It remembers behind which port each source address was seen. A packet for a known address is answered with one
//! flow-mod, which matches all headers of that packet exactly and takes it along by its buffer id; where the switch keeps
//! no packets, a packet-out follows. A packet for an unknown, broadcast or multicast address is flooded. Rules go
//! [`IDLE_TIMEOUT`] seconds after their last packet. An address that shows up behind another port has the rules towards
//! it deleted, and a port that goes has its addresses forgotten.
//!
//! Like all switches that learn, it needs a network without loops.

use maple_wire::msg::{FlowMod, FlowModCommand, NO_BUFFER, PacketInView, PortReason, PortStatus};
use maple_wire::{Field, Match, Message, Packet, PortNo, Version};

use super::exact::{FlowMod13, Rule, flow_mod10};
use super::hub::{ask_for_packets, flood, send};
use super::macs::{Key, Learned, Macs};
use super::{BATCH, Handler, Replies};
use crate::session::SwitchInfo;

/// Seconds that a rule stays without a packet.
pub const IDLE_TIMEOUT: u16 = 5;
/// The priority of all rules; they match exactly, so no two ever compete.
const PRIORITY: u16 = 0x8000;
/// Bytes to make room for, a packet of a batch. A longer answer moves the buffer.
const ROOM: usize = 160;
/// Bytes of a frame's two addresses.
const ADDRESSES: usize = 12;
/// From here on ports are kept in a list, since 16 bits do not hold them.
const FIRST_LISTED: u32 = 0xff00;

/// One learning switch.
#[derive(Debug)]
pub struct LearningSwitch {
    macs: Macs,
    ports: Ports,
}

/// Port numbers in 16 bits: small ones as they are, the few large ones by their place in a list.
#[derive(Debug, Default)]
struct Ports {
    large: Vec<u32>,
}

impl Ports {
    /// The port's 16 bits. Port 0 is none, and beyond 255 large ports there is no more room.
    #[inline]
    fn pack(&mut self, port: PortNo) -> Option<u16> {
        if port.0 < FIRST_LISTED { Some(port.0 as u16).filter(|n| *n != 0) } else { self.pack_large(port.0) }
    }

    #[cold]
    fn pack_large(&mut self, port: u32) -> Option<u16> {
        let at = self.large.iter().position(|large| *large == port).or_else(|| {
            (self.large.len() <= usize::from(u16::MAX) - FIRST_LISTED as usize).then(|| {
                self.large.push(port);
                self.large.len() - 1
            })
        })?;
        Some(FIRST_LISTED as u16 + at as u16)
    }

    #[inline]
    fn unpack(&self, packed: u16) -> PortNo {
        match u32::from(packed).checked_sub(FIRST_LISTED) {
            None => PortNo(packed.into()),
            Some(at) => PortNo(self.large[at as usize]),
        }
    }
}

/// Where a packet comes from and goes to.
#[derive(Clone, Copy, Default)]
struct Ends {
    dst: Key,
    src: Key,
}

impl LearningSwitch {
    /// A switch that has learned nothing.
    pub fn new() -> LearningSwitch {
        LearningSwitch { macs: Macs::new(), ports: Ports::default() }
    }

    /// How many addresses it knows.
    pub fn addresses(&self) -> usize {
        self.macs.len()
    }

    /// Bytes that its table takes.
    pub fn memory(&self) -> usize {
        self.macs.memory()
    }

    /// The ends of a frame; one that is too short to have any has those of nobody.
    #[inline]
    fn ends(&self, frame: &[u8]) -> Ends {
        let Some([a, b, c, d, e, f, src @ ..]) = frame.first_chunk::<ADDRESSES>() else { return Ends::default() };
        Ends { dst: self.macs.key([*a, *b, *c, *d, *e, *f]), src: self.macs.key(*src) }
    }

    /// Answers a packet with these ends.
    #[inline(always)]
    fn answer(&mut self, packet: &PacketInView<'_>, Ends { dst, src }: Ends, out: &mut Replies) {
        // A packet without addresses or from nowhere can be neither learned nor matched.
        let Some(in_port) = packet.in_port().filter(|_| packet.data().len() >= ADDRESSES) else { return };
        let packed = self.ports.pack(in_port);
        if let Some(port) = packed {
            self.learn(src, port, out);
        }
        let Some(port) = self.port_of(dst) else { return flood(packet, in_port, out) };
        // What is behind the port that it came in by has it already.
        let to = (Some(port) != packed).then(|| self.ports.unpack(port));
        install(packet, in_port, to, out);
    }

    /// The address is seen behind a port: if it was behind another one, the rules that say so go.
    #[inline]
    fn learn(&mut self, src: Key, port: u16, out: &mut Replies) {
        if !src.is_group() && self.macs.learn(src, port) == Learned::Moved {
            let matching = Match::any().exact(Field::EthDst, src.mac().into());
            out.request(&Message::FlowMod(FlowMod::new(FlowModCommand::Delete, 0, matching, Vec::new())));
        }
    }

    /// Where a packet for this address goes, if that is known.
    #[inline]
    fn port_of(&self, dst: Key) -> Option<u16> {
        if dst.is_group() { None } else { self.macs.get(dst) }
    }
}

impl Default for LearningSwitch {
    fn default() -> LearningSwitch {
        LearningSwitch::new()
    }
}

impl Handler for LearningSwitch {
    fn switch_up(&mut self, _: &SwitchInfo, out: &mut Replies) {
        ask_for_packets(out);
    }

    /// Asks for the table's places of all addresses first, so that their memory comes in together.
    fn packet_ins(&mut self, batch: &[PacketInView<'_>], out: &mut Replies) {
        for batch in batch.chunks(BATCH) {
            out.reserve(batch.len() * ROOM);
            let mut all = [Ends::default(); BATCH];
            for (packet, ends) in batch.iter().zip(&mut all) {
                *ends = self.ends(packet.data());
                self.macs.prefetch(ends.dst);
                self.macs.prefetch(ends.src);
            }
            for (packet, ends) in batch.iter().zip(&all) {
                self.answer(packet, *ends, out);
            }
        }
    }

    fn packet_in(&mut self, packet: &PacketInView<'_>, out: &mut Replies) {
        self.answer(packet, self.ends(packet.data()), out);
    }

    fn port_status(&mut self, status: &PortStatus, _: &mut Replies) {
        if (status.reason == PortReason::Delete || !status.port.is_up())
            && let Some(port) = self.ports.pack(status.port.number)
        {
            self.macs.forget(port);
        }
    }
}

/// Answers a packet with a rule for its like.
#[inline(always)]
fn install(packet: &PacketInView<'_>, in_port: PortNo, to: Option<PortNo>, out: &mut Replies) {
    let buffer_id = packet.buffer_id();
    let rule = Rule { xid: packet.xid(), buffer_id, idle_timeout: IDLE_TIMEOUT, priority: PRIORITY, to };
    match out.version() {
        Version::Of10 => {
            let Some(in_port) = in_port.to_of10() else { return };
            flow_mod10(packet.data(), packet.total_len().into(), in_port, rule, out);
        }
        Version::Of13 => install13(packet, in_port, rule, out),
    }
    if buffer_id == NO_BUFFER
        && let Some(to) = to
    {
        send(packet, in_port, to, out);
    }
}

#[inline(never)]
fn install13(packet: &PacketInView<'_>, in_port: PortNo, rule: Rule, out: &mut Replies) {
    let frame = Packet::with_wire_len(packet.data(), in_port.0, packet.total_len().into());
    out.append(FlowMod13::new(&frame, in_port, rule).bytes());
}

#[cfg(test)]
mod tests {
    use super::super::testing::{decoded, packet_in};
    use super::*;
    use maple_wire::msg::PacketOut;
    use maple_wire::packet::build::Frame;
    use maple_wire::{Action, Instruction, Port};

    const BOTH: [Version; 2] = [Version::Of10, Version::Of13];
    const A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
    const B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];

    fn frame(src: [u8; 6], dst: [u8; 6]) -> Vec<u8> {
        Frame::ethernet(dst, src).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1, 2).build()
    }

    /// A switch with what it answered last.
    struct Bench {
        version: Version,
        switch: LearningSwitch,
    }

    impl Bench {
        fn new(version: Version) -> Bench {
            Bench { version, switch: LearningSwitch::new() }
        }

        /// The answers to a packet from `src` to `dst` by this port.
        fn packet(&mut self, port: u32, buffer_id: u32, src: [u8; 6], dst: [u8; 6]) -> Vec<Message> {
            let message = packet_in(self.version, 7, buffer_id, port, &frame(src, dst));
            let mut out = Replies::new(self.version);
            self.switch.packet_ins(&[PacketInView::new_checked(self.version, &message).unwrap()], &mut out);
            decoded(out.bytes()).into_iter().map(|(_, message)| message).collect()
        }
    }

    fn outputs(message: &Message) -> Vec<PortNo> {
        let actions = match message {
            Message::PacketOut(PacketOut { actions, .. }) => actions.clone(),
            Message::FlowMod(flow_mod) => match &flow_mod.instructions[..] {
                [Instruction::ApplyActions(actions)] => actions.clone(),
                _ => vec![],
            },
            other => panic!("{other:?}"),
        };
        actions.iter().map(|action| if let Action::Output { port, .. } = action { *port } else { panic!() }).collect()
    }

    #[test]
    fn unknown_and_group_addresses_are_flooded() {
        for version in BOTH {
            let mut bench = Bench::new(version);
            for dst in [B, [0xff; 6], [1, 0, 0x5e, 0, 0, 1]] {
                let answers = bench.packet(1, 5, A, dst);
                assert!(matches!(&answers[..], [Message::PacketOut(out)] if out.buffer_id == 5), "{answers:?}");
                assert_eq!(outputs(&answers[0]), [PortNo::FLOOD]);
            }
        }
    }

    #[test]
    fn a_known_address_gets_one_exact_rule_that_takes_the_packet_along() {
        for version in BOTH {
            let mut bench = Bench::new(version);
            bench.packet(1, 5, A, B);
            let answers = bench.packet(2, 6, B, A);
            let [Message::FlowMod(rule)] = &answers[..] else { panic!("{answers:?}") };
            assert_eq!((rule.buffer_id, rule.idle_timeout, rule.command), (6, IDLE_TIMEOUT, FlowModCommand::Add));
            assert_eq!(outputs(&answers[0]), [PortNo(1)]);
            for (field, value) in [(Field::InPort, 2), (Field::UdpSrc, 1), (Field::UdpDst, 2), (Field::IpProto, 17)] {
                assert_eq!(rule.matching.get(field).map(|c| c.value), Some(value), "{version} {field:?}");
            }
        }
    }

    #[test]
    fn where_the_switch_keeps_no_packets_a_packet_out_follows() {
        for version in BOTH {
            let mut bench = Bench::new(version);
            bench.packet(1, 5, A, B);
            let answers = bench.packet(2, NO_BUFFER, B, A);
            let [Message::FlowMod(_), Message::PacketOut(out)] = &answers[..] else { panic!("{answers:?}") };
            assert_eq!((out.data.clone(), outputs(&answers[1])), (frame(B, A), vec![PortNo(1)]));
        }
    }

    #[test]
    fn packets_to_where_they_came_from_are_dropped_by_a_rule() {
        for version in BOTH {
            let mut bench = Bench::new(version);
            bench.packet(1, 5, A, B);
            let answers = bench.packet(1, NO_BUFFER, B, A);
            assert!(matches!(&answers[..], [Message::FlowMod(rule)] if rule.instructions.is_empty()), "{answers:?}");
        }
    }

    #[test]
    fn rules_towards_an_address_that_moved_are_deleted() {
        let mut bench = Bench::new(Version::Of13);
        bench.packet(1, 5, A, B);
        let answers = bench.packet(3, 5, A, B);
        let [Message::FlowMod(delete), Message::PacketOut(_)] = &answers[..] else { panic!("{answers:?}") };
        let expected = Match::any().exact(Field::EthDst, 0x0200_0000_000a);
        assert_eq!((delete.command, &delete.matching), (FlowModCommand::Delete, &expected));
        assert_eq!(outputs(&bench.packet(2, 5, B, A)[0]), [PortNo(3)]);
    }

    #[test]
    fn addresses_behind_a_port_that_went_are_forgotten() {
        let mut bench = Bench::new(Version::Of13);
        bench.packet(1, 5, A, B);
        let port = Port::new(PortNo(1), [0; 6], "p1");
        bench
            .switch
            .port_status(&PortStatus { reason: PortReason::Modify, port: port.clone() }, &mut Replies::default());
        assert_eq!(bench.switch.addresses(), 1, "it is still up");
        bench.switch.port_status(&PortStatus { reason: PortReason::Delete, port }, &mut Replies::default());
        assert_eq!(bench.switch.addresses(), 0);
    }

    #[test]
    fn large_port_numbers_are_learned_too() {
        let mut bench = Bench::new(Version::Of13);
        for port in [0xff00, 0x12_3456, 0xffff_fffe] {
            bench.packet(port, 5, A, B);
            assert_eq!(outputs(&bench.packet(2, 5, B, A)[0]), [PortNo(port)]);
        }
        let mut ports = Ports::default();
        let packed: Vec<_> = (0..300).map(|n| ports.pack(PortNo(0x1_0000 + n))).collect();
        assert_eq!(packed.iter().flatten().count(), 256);
        assert_eq!((ports.unpack(packed[255].unwrap()), ports.pack(PortNo(0))), (PortNo(0x1_00ff), None));
    }

    #[test]
    fn a_batch_is_answered_like_its_packets_one_by_one() {
        for version in BOTH {
            let macs: Vec<[u8; 6]> = (0..20).map(|n| [2, 0, 0, 0, 1, n % 7]).collect();
            let messages: Vec<Vec<u8>> = (0..19)
                .map(|n| packet_in(version, n, 5, n % 3 + 1, &frame(macs[n as usize], macs[n as usize + 1])))
                .collect();
            let views: Vec<_> = messages.iter().map(|m| PacketInView::new_checked(version, m).unwrap()).collect();
            let (mut batch, mut single) = (Replies::new(version), Replies::new(version));
            LearningSwitch::new().packet_ins(&views, &mut batch);
            let mut switch = LearningSwitch::new();
            views.iter().for_each(|view| switch.packet_in(view, &mut single));
            assert_eq!(decoded(batch.bytes()), decoded(single.bytes()));
        }
    }

    #[test]
    fn a_frame_without_addresses_is_left_alone() {
        let message = packet_in(Version::Of10, 1, 5, 1, &[1, 2, 3]);
        let mut out = Replies::new(Version::Of10);
        let view = PacketInView::new_checked(Version::Of10, &message).unwrap();
        LearningSwitch::new().packet_ins(&[view, view], &mut out);
        assert!(out.bytes().is_empty());
    }
}
