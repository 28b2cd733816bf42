//! Tests of the recorder: answers are the packet's, and a trace contains all that decided them.

use maple_core::{Capabilities, Fields, Item, Recorder};
use maple_wire::packet::Frame;
use maple_wire::{Field, Packet};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::compile::{of10, of13, of13_masked_ports};
use crate::policy::{Headers, Program, packets, programs};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Theorem 2.
    #[test]
    fn packets_that_pass_a_trace_get_its_answer(program in programs(), packets in vec(packets(), 30)) {
        for packet in &packets {
            let (answer, trace) = program.run(packet);
            prop_assert_eq!(answer, program.eval(packet));
            prop_assert_eq!(trace.items.len(), trace.sources.len());
            prop_assert!(trace.items.iter().all(|item| item.holds(packet)), "{:?}", trace.items);
            for other in packets.iter().filter(|other| trace.items.iter().all(|item| item.holds(*other))) {
                prop_assert_eq!(program.run(other), (answer, trace.clone()));
            }
        }
    }

    #[test]
    fn fields_are_looked_at_only_where_items_before_prove_that_they_are_there(
        program in programs(),
        packets in vec(packets(), 20),
    ) {
        for packet in &packets {
            let (_, trace) = program.run(packet);
            for (i, item) in trace.items.iter().enumerate() {
                for other in packets.iter().filter(|p| trace.items[..i].iter().all(|before| before.holds(*p))) {
                    prop_assert!(is_there(item, other), "{item} of {other:?} after {:?}", &trace.items[..i]);
                }
            }
        }
    }

    #[test]
    fn lowering_gives_narrower_traces_that_still_form_a_tree(program in programs(), packets in vec(packets(), 20)) {
        for capabilities in [of13(), of13_masked_ports(), of10()] {
            let lowered: Vec<_> = packets.iter().map(|packet| lower(&program, packet, &capabilities)).collect();
            for (packet, items) in packets.iter().zip(&lowered) {
                prop_assert!(items.iter().all(|item| item.holds(packet)), "{:?}", items);
                let (answer, trace) = program.run(packet);
                for (other, others) in packets.iter().zip(&lowered) {
                    if items.iter().all(|item| item.holds(other)) {
                        prop_assert!(trace.items.iter().all(|item| item.holds(other)));
                        prop_assert_eq!(items, others);
                        prop_assert_eq!(answer, program.eval(other));
                    }
                }
            }
        }
    }
}

/// Generates frames whose type and protocol are often known ones, with arbitrary bytes after them, cut anywhere.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let types = select(vec![0x0800u16, 0x0800, 0x86dd, 0x86dd, 0x0806, 0x8847, 0x8100, 0x88e7, 0x0100]);
    let protocols = select(vec![1u8, 6, 17, 58, 132, 0, 44]);
    let parts = (any::<[u8; 12]>(), any::<bool>(), types, vec(any::<u8>(), 0..90), protocols, 0..130usize);
    parts.prop_map(|(addresses, tagged, eth_type, mut payload, protocol, length)| {
        let (first, at) = if eth_type == 0x0800 { (0x45, 9) } else { (0x60, 6) };
        for (at, byte) in [(0, first), (at, protocol), (40, 135 + (protocol & 1))] {
            if let Some(there) = payload.get_mut(at) {
                *there = byte;
            }
        }
        let tag: &[u8] = if tagged { &[0x81, 0, 0x60, 5] } else { &[] };
        let mut frame = [&addresses, tag, &eth_type.to_be_bytes(), &payload].concat();
        frame.truncate(length);
        frame
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn reads_of_real_frames_give_what_a_switch_sees(frame in frames(), fields in vec(select(Field::ALL.to_vec()), 8)) {
        let packet = Packet::new(&frame, 3);
        let mut recorder = Recorder::new();
        for field in fields {
            let seen = packet.switch_value(field);
            prop_assert_eq!(recorder.read(&packet, field, u128::MAX, None), seen);
            prop_assert_eq!(recorder.present(&packet, field, None), seen.is_some());
        }
        let trace = recorder.finish();
        prop_assert!(trace.items.iter().all(|item| item.holds(&packet)));
    }
}

#[test]
fn only_what_was_cut_off_on_the_way_to_us_makes_a_trace_short() {
    let frame = Frame::ethernet([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(1, 2).build();
    let read = |packet: &Packet| {
        let mut recorder = Recorder::new();
        recorder.read(packet, Field::Ipv4Dst, u128::MAX, None);
        recorder.finish().reads_missing_bytes
    };
    assert!(read(&Packet::with_wire_len(&frame[..20], 1, frame.len())));
    assert!(!read(&Packet::with_wire_len(&frame[..20], 1, 20)));
    assert!(!read(&Packet::with_wire_len(&frame, 1, frame.len())));
}

fn lower(program: &Program, packet: &Headers, capabilities: &Capabilities) -> Vec<Item> {
    program.run(packet).1.lower(packet, capabilities).items
}

/// Reports whether a packet has the fields that an item reads, up to the first that does not fit.
fn is_there(item: &Item, packet: &Headers) -> bool {
    match item {
        Item::Read(constraint) => packet.value(constraint.field).is_some(),
        Item::Test { cond, .. } => {
            for constraint in &cond.constraints {
                match packet.value(constraint.field) {
                    None => return false,
                    Some(value) if !constraint.holds(value) => return true,
                    Some(_) => {}
                }
            }
            cond.ranges.iter().all(|range| packet.value(range.field).is_some())
        }
    }
}
