//! The cost of looking at a packet. `cargo bench -p maple-wire --bench packet`.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use maple_wire::field::Field;
use maple_wire::packet::{Frame, Packet, text};

const A: [u8; 6] = [2, 0, 0, 0, 0, 1];
const B: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// The fields that a policy reads if it learns and filters.
const SIX: [Field; 6] = [Field::EthSrc, Field::EthDst, Field::EthType, Field::Ipv4Src, Field::Ipv4Dst, Field::TcpDst];

fn main() {
    divan::main();
}

fn tcp() -> Vec<u8> {
    Frame::ethernet(B, A).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(1234, 80).payload(&[0; 64])
}

fn read_six(bencher: Bencher, frame: &[u8]) {
    bencher.counter(ItemsCount::new(1usize)).bench(|| {
        let packet = Packet::new(black_box(frame), 1);
        let get = |field| packet.get(field).unwrap_or(0);
        get(Field::EthSrc)
            ^ get(Field::EthDst)
            ^ get(Field::EthType)
            ^ get(Field::Ipv4Src)
            ^ get(Field::Ipv4Dst)
            ^ get(Field::TcpDst)
    });
}

#[divan::bench]
fn six_fields_of_a_tcp_frame(bencher: Bencher) {
    read_six(bencher, &tcp());
}

#[divan::bench]
fn six_fields_that_are_known_only_at_run_time(bencher: Bencher) {
    let frame = tcp();
    let fields = black_box(SIX.to_vec());
    bencher.bench(|| {
        let packet = Packet::new(black_box(&frame), 1);
        fields.iter().map(|field| packet.get(*field).unwrap_or(0)).fold(0, |a, b| a ^ b)
    });
}

#[divan::bench]
fn six_fields_of_a_tagged_tcp_frame(bencher: Bencher) {
    read_six(bencher, &Frame::ethernet(B, A).vlan(5).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(1234, 80).build());
}

#[divan::bench]
fn every_field_of_a_tcp_frame(bencher: Bencher) {
    let frame = tcp();
    bencher.bench(|| {
        let packet = Packet::new(black_box(&frame), 1);
        Field::ALL.map(|field| packet.get(field))
    });
}

#[divan::bench]
fn switch_value_of_tcp_dst(bencher: Bencher) {
    let frame = tcp();
    bencher.bench(|| Packet::new(black_box(&frame), 1).switch_value(Field::TcpDst));
}

#[divan::bench]
fn build_a_tcp_frame(bencher: Bencher) {
    bencher.bench(tcp);
}

#[divan::bench]
fn summary_of_a_tcp_frame(bencher: Bencher) {
    let frame = tcp();
    bencher.bench(|| text::summary(&Packet::new(black_box(&frame), 1)));
}
