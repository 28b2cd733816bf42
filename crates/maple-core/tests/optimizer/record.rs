//! The recorder: answers are the packet's, and a trace says all that decided them.

use maple_core::{Capabilities, Fields, Item};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::compile::{of13, of13_masked_ports};
use crate::policy::{Headers, packets, programs};

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
        for capabilities in [of13(), of13_masked_ports(), crate::compile::of10()] {
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

fn lower(program: &crate::policy::Program, packet: &Headers, capabilities: &Capabilities) -> Vec<Item> {
    program.run(packet).1.lower(packet, capabilities).items
}

/// Whether a packet has the fields that an item looks at, up to the first that does not fit.
fn is_there(item: &Item, packet: &Headers) -> bool {
    match item {
        Item::Read(constraint) => packet.value(constraint.field).is_some(),
        Item::Test { cond, .. } => {
            for constraint in &cond.all {
                match packet.value(constraint.field) {
                    None => return false,
                    Some(value) if !constraint.holds(value) => return true,
                    Some(_) => {}
                }
            }
            cond.range.is_none_or(|range| packet.value(range.field).is_some())
        }
    }
}
