//! The exact-match learning switch: the program that controller frameworks are compared by (§6.4 of the Maple paper).
//!
//! It remembers the port of each source address. It answers a packet for a known address with one flow-mod, which
//! matches all headers of that packet exactly and releases the buffered packet. Where the switch did not buffer the
//! packet, a packet-out follows. A packet for an unknown, broadcast or multicast address is flooded. Rules expire
//! [`IDLE_TIMEOUT`] seconds after their last packet. When an address moves to another port, the rules towards it are
//! deleted. When a port goes down, its addresses are forgotten.
//!
//! Like every learning switch, it needs a network without loops.

use maple_controller::session::SwitchInfo;
use maple_wire::msg::{FlowMod, FlowModCommand, NO_BUFFER, PacketInView, PortReason, PortStatus};
use maple_wire::{Field, Match, Message, Packet, PortNo, Version};

use crate::exact_match::{FlowMod13, Rule, flow_mod10};
use crate::handler::{BATCH, Handler, install_table_miss};
use crate::hub::{flood, send};
use crate::mac_table::{Key, Learned, MacTable};
use crate::replies::Replies;

/// The time without a packet after which a rule expires, in seconds. Chosen: longer ones would fill tables with flows
/// that have ended, and shorter ones would cost flows that pause a packet-in.
pub const IDLE_TIMEOUT: u16 = 5;
/// The priority of all rules. They match exactly, so no two overlap. Chosen: the middle, so that other programs can
/// have rules above and below.
const PRIORITY: u16 = 0x8000;
/// The number of bytes to reserve for the answer to each packet of a batch. Chosen: twice a flow-mod of 1.0, which has
/// 80. A longer answer reallocates the buffer.
const RESERVED: usize = 160;
/// The number of bytes of a frame's two MAC addresses.
const ADDRESS_BYTES: usize = 12;
/// The number from which on ports are kept in a list, because not all fit 16 bits. It is that of the first reserved
/// port of 1.0, `OFPP_MAX` (1.0 §5.2.1).
const FIRST_LISTED: u32 = 0xff00;

/// One learning switch.
#[derive(Debug)]
pub struct LearningSwitch {
    table: MacTable,
    ports: Ports,
}

/// Encodes port numbers in 16 bits: small ones as they are, the few large ones by their index in a list.
#[derive(Debug, Default)]
struct Ports {
    large: Vec<u32>,
}

impl Ports {
    /// Returns the port's 16 bits. `None` for port 0, and for the large ports after the first 256.
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

/// A packet's source and destination.
#[derive(Clone, Copy, Default)]
struct Addresses {
    dst: Key,
    src: Key,
}

impl LearningSwitch {
    /// Creates a switch that has learned nothing.
    pub fn new() -> LearningSwitch {
        LearningSwitch { table: MacTable::new(), ports: Ports::default() }
    }

    /// Returns the number of known addresses.
    pub fn addresses(&self) -> usize {
        self.table.len()
    }

    /// Returns the size of the switch's table in bytes.
    pub fn memory(&self) -> usize {
        self.table.memory()
    }

    /// Returns the addresses of a frame. They are all zero for a frame that is too short to have them.
    #[inline]
    fn addresses_of(&self, frame: &[u8]) -> Addresses {
        let Some([a, b, c, d, e, f, src @ ..]) = frame.first_chunk::<ADDRESS_BYTES>() else {
            return Addresses::default();
        };
        Addresses { dst: self.table.key([*a, *b, *c, *d, *e, *f]), src: self.table.key(*src) }
    }

    /// Answers a packet with these addresses.
    #[inline(always)]
    fn answer(&mut self, packet: &PacketInView<'_>, Addresses { dst, src }: Addresses, out: &mut Replies) {
        // A packet without addresses or ingress port can be neither learned nor matched.
        let Some(in_port) = packet.in_port().filter(|_| packet.data().len() >= ADDRESS_BYTES) else { return };
        let packed = self.ports.pack(in_port);
        if let Some(port) = packed {
            self.learn(src, port, out);
        }
        let Some(port) = self.port_of(dst) else { return flood(packet, in_port, out) };
        // Hosts at the ingress port have received the packet already, so the rule drops it.
        let to = (Some(port) != packed).then(|| self.ports.unpack(port));
        install(packet, in_port, to, out);
    }

    /// Remembers the port of an address. If the address moved, deletes the rules towards it.
    #[inline]
    fn learn(&mut self, src: Key, port: u16, out: &mut Replies) {
        if !src.is_group() && self.table.learn(src, port) == Learned::Moved {
            let matching = Match::any().exact(Field::EthDst, src.mac().into());
            out.request(&Message::FlowMod(FlowMod::new(FlowModCommand::Delete, 0, matching, Vec::new())));
        }
    }

    /// Returns the port for packets to this address, if it is known.
    #[inline]
    fn port_of(&self, dst: Key) -> Option<u16> {
        if dst.is_group() { None } else { self.table.get(dst) }
    }
}

impl Default for LearningSwitch {
    fn default() -> LearningSwitch {
        LearningSwitch::new()
    }
}

impl Handler for LearningSwitch {
    fn switch_up(&mut self, _: &SwitchInfo, out: &mut Replies) {
        install_table_miss(out);
    }

    /// Prefetches the table's lines for all addresses first, so that the memory accesses overlap.
    fn packet_ins(&mut self, batch: &[PacketInView<'_>], out: &mut Replies) {
        for batch in batch.chunks(BATCH) {
            out.reserve(batch.len() * RESERVED);
            let mut all = [Addresses::default(); BATCH];
            for (packet, addresses) in batch.iter().zip(&mut all) {
                *addresses = self.addresses_of(packet.data());
                self.table.prefetch(addresses.dst);
                self.table.prefetch(addresses.src);
            }
            for (packet, addresses) in batch.iter().zip(&all) {
                self.answer(packet, *addresses, out);
            }
        }
    }

    fn packet_in(&mut self, packet: &PacketInView<'_>, out: &mut Replies) {
        self.answer(packet, self.addresses_of(packet.data()), out);
    }

    fn port_status(&mut self, status: &PortStatus, _: &mut Replies) {
        if (status.reason == PortReason::Delete || !status.port.is_up())
            && let Some(port) = self.ports.pack(status.port.number)
        {
            self.table.forget(port);
        }
    }
}

/// Answers a packet with a rule that matches it exactly.
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
    use super::*;
    use crate::testing::{decoded, packet_in};
    use maple_wire::msg::PacketOut;
    use maple_wire::packet::build::Frame;
    use maple_wire::{Action, Instruction, Port};

    const BOTH: [Version; 2] = [Version::Of10, Version::Of13];
    const A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
    const B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];

    fn frame(src: [u8; 6], dst: [u8; 6]) -> Vec<u8> {
        Frame::ethernet(dst, src).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1, 2).build()
    }

    /// A learning switch that answers encoded packet-ins.
    struct Harness {
        version: Version,
        switch: LearningSwitch,
    }

    impl Harness {
        fn new(version: Version) -> Harness {
            Harness { version, switch: LearningSwitch::new() }
        }

        /// Returns the answers to a packet from `src` to `dst` that enters by this port.
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
            let mut harness = Harness::new(version);
            for dst in [B, [0xff; 6], [1, 0, 0x5e, 0, 0, 1]] {
                let answers = harness.packet(1, 5, A, dst);
                assert!(matches!(&answers[..], [Message::PacketOut(out)] if out.buffer_id == 5), "{answers:?}");
                assert_eq!(outputs(&answers[0]), [PortNo::FLOOD]);
            }
        }
    }

    #[test]
    fn a_known_address_gets_one_exact_rule_that_releases_the_packet() {
        for version in BOTH {
            let mut harness = Harness::new(version);
            harness.packet(1, 5, A, B);
            let answers = harness.packet(2, 6, B, A);
            let [Message::FlowMod(rule)] = &answers[..] else { panic!("{answers:?}") };
            assert_eq!((rule.buffer_id, rule.idle_timeout, rule.command), (6, IDLE_TIMEOUT, FlowModCommand::Add));
            assert_eq!(outputs(&answers[0]), [PortNo(1)]);
            for (field, value) in [(Field::InPort, 2), (Field::UdpSrc, 1), (Field::UdpDst, 2), (Field::IpProto, 17)] {
                assert_eq!(rule.matching.get(field).map(|c| c.value), Some(value), "{version} {field:?}");
            }
        }
    }

    #[test]
    fn an_unbuffered_packet_follows_in_a_packet_out() {
        for version in BOTH {
            let mut harness = Harness::new(version);
            harness.packet(1, 5, A, B);
            let answers = harness.packet(2, NO_BUFFER, B, A);
            let [Message::FlowMod(_), Message::PacketOut(out)] = &answers[..] else { panic!("{answers:?}") };
            assert_eq!((out.data.clone(), outputs(&answers[1])), (frame(B, A), vec![PortNo(1)]));
        }
    }

    #[test]
    fn packets_to_their_ingress_port_are_dropped_by_a_rule() {
        for version in BOTH {
            let mut harness = Harness::new(version);
            harness.packet(1, 5, A, B);
            let answers = harness.packet(1, NO_BUFFER, B, A);
            assert!(matches!(&answers[..], [Message::FlowMod(rule)] if rule.instructions.is_empty()), "{answers:?}");
        }
    }

    #[test]
    fn rules_towards_an_address_that_moved_are_deleted() {
        let mut harness = Harness::new(Version::Of13);
        harness.packet(1, 5, A, B);
        let answers = harness.packet(3, 5, A, B);
        let [Message::FlowMod(delete), Message::PacketOut(_)] = &answers[..] else { panic!("{answers:?}") };
        let expected = Match::any().exact(Field::EthDst, 0x0200_0000_000a);
        assert_eq!((delete.command, &delete.matching), (FlowModCommand::Delete, &expected));
        assert_eq!(outputs(&harness.packet(2, 5, B, A)[0]), [PortNo(3)]);
    }

    #[test]
    fn addresses_of_a_deleted_port_are_forgotten() {
        let mut harness = Harness::new(Version::Of13);
        harness.packet(1, 5, A, B);
        let port = Port::new(PortNo(1), [0; 6], "p1");
        harness
            .switch
            .port_status(&PortStatus { reason: PortReason::Modify, port: port.clone() }, &mut Replies::default());
        assert_eq!(harness.switch.addresses(), 1, "it is still up");
        harness.switch.port_status(&PortStatus { reason: PortReason::Delete, port }, &mut Replies::default());
        assert_eq!(harness.switch.addresses(), 0);
    }

    #[test]
    fn large_port_numbers_are_learned_too() {
        let mut harness = Harness::new(Version::Of13);
        for port in [0xff00, 0x12_3456, 0xffff_fffe] {
            harness.packet(port, 5, A, B);
            assert_eq!(outputs(&harness.packet(2, 5, B, A)[0]), [PortNo(port)]);
        }
        let mut ports = Ports::default();
        let packed: Vec<_> = (0..300).map(|n| ports.pack(PortNo(0x1_0000 + n))).collect();
        assert_eq!(packed.iter().flatten().count(), 256);
        assert_eq!((ports.unpack(packed[255].unwrap()), ports.pack(PortNo(0))), (PortNo(0x1_00ff), None));
    }

    #[test]
    fn a_batch_is_answered_like_its_packets_one_at_a_time() {
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
    fn a_frame_without_addresses_is_not_answered() {
        let message = packet_in(Version::Of10, 1, 5, 1, &[1, 2, 3]);
        let mut out = Replies::new(Version::Of10);
        let view = PacketInView::new_checked(Version::Of10, &message).unwrap();
        LearningSwitch::new().packet_ins(&[view, view], &mut out);
        assert!(out.bytes().is_empty());
    }
}
