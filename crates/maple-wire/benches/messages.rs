//! The cost of reading and writing a message. `cargo bench -p maple-wire --bench messages`.

use divan::{Bencher, black_box};
use maple_wire::msg::stats::{FlowStats, PortStats, ReplyBody, StatsReply};
use maple_wire::msg::{FlowMod, FlowModCommand, FlowRemoved, NO_BUFFER, PacketIn, PacketInView, PacketOut};
use maple_wire::{Action, Field, Instruction, Match, Message, PortNo, Version};

const VERSIONS: [Version; 2] = [Version::Of10, Version::Of13];

fn main() {
    divan::main();
}

fn matching() -> Match {
    Match::any()
        .exact(Field::InPort, 3)
        .exact(Field::EthDst, 0x0200_0000_0002)
        .exact(Field::EthSrc, 0x0200_0000_0001)
        .exact(Field::EthType, 0x800)
        .exact(Field::IpProto, 6)
        .exact(Field::Ipv4Src, 0x0a00_0001)
        .exact(Field::Ipv4Dst, 0x0a00_0002)
        .exact(Field::TcpDst, 80)
}

fn instructions() -> Vec<Instruction> {
    vec![Instruction::ApplyActions(vec![Action::output(PortNo(2))])]
}

fn flow_mod() -> Message {
    Message::FlowMod(FlowMod::new(FlowModCommand::Add, 100, matching(), instructions()))
}

fn packet_in() -> Message {
    Message::PacketIn(PacketIn { total_len: 64, cookie: 7, ..PacketIn::new(3, vec![7; 64]) })
}

fn packet_out() -> Message {
    let actions = vec![Action::output(PortNo(2))];
    Message::PacketOut(PacketOut { buffer_id: NO_BUFFER, in_port: PortNo(3), actions, data: vec![7; 64] })
}

fn flow_removed() -> Message {
    Message::FlowRemoved(FlowRemoved {
        cookie: 7,
        priority: 100,
        reason: 0,
        table_id: 0,
        duration_sec: 1,
        duration_nsec: 2,
        idle_timeout: 3,
        hard_timeout: 0,
        packet_count: 4,
        byte_count: 5,
        matching: matching(),
    })
}

fn flows() -> Message {
    let flow = FlowStats {
        table_id: 0,
        duration_sec: 1,
        duration_nsec: 2,
        priority: 100,
        idle_timeout: 0,
        hard_timeout: 0,
        flags: 0,
        cookie: 7,
        packet_count: 8,
        byte_count: 9,
        matching: matching(),
        instructions: instructions(),
    };
    Message::StatsReply(StatsReply::new(ReplyBody::Flow(vec![flow; 100])))
}

fn ports() -> Message {
    let ports = (1..=48).map(|port| PortStats { port: PortNo(port), rx_packets: 1, ..PortStats::default() });
    Message::StatsReply(StatsReply::new(ReplyBody::Port(ports.collect())))
}

fn bytes(message: &Message, version: Version) -> Vec<u8> {
    message.to_bytes(version, 1).expect("both versions have a form for it")
}

fn decode(bencher: Bencher, version: Version, message: &Message) {
    let bytes = bytes(message, version);
    bencher.bench(|| Message::decode(black_box(&bytes)));
}

fn encode(bencher: Bencher, version: Version, message: &Message) {
    let mut out = bytes(message, version);
    bencher.bench_local(|| {
        out.clear();
        black_box(message).encode(version, 1, &mut out)
    });
}

#[divan::bench(args = VERSIONS)]
fn in_place_a_packet_in(bencher: Bencher, version: Version) {
    let bytes = bytes(&packet_in(), version);
    bencher.bench(|| {
        let view = PacketInView::new_checked(version, black_box(&bytes)).expect("it is whole");
        (view.in_port(), view.buffer_id(), view.data().len())
    });
}

/// Makes a module with a benchmark of each of these messages, in both versions.
macro_rules! benches {
    ($module:ident, $how:ident, $($message:ident)*) => {
        mod $module {
            $(#[divan::bench(args = super::VERSIONS)]
            fn $message(bencher: divan::Bencher, version: maple_wire::Version) {
                super::$how(bencher, version, &super::$message());
            })*
        }
    };
}

benches!(read, decode, packet_in flow_mod packet_out flow_removed flows ports);
benches!(write, encode, packet_in flow_mod packet_out flow_removed flows ports);
