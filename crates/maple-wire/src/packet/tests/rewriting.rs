//! Checks that rewriting and reading agree, and that checksums stay right.

use proptest::prelude::*;

use super::frames::{broken_frames, frames};
use super::properties::checksums_are_right;
use crate::field::Field;
use crate::flow::Constraint;
use crate::packet::rewrite::*;
use crate::packet::{Frame, Packet, checksum};

fn field() -> impl Strategy<Value = Field> {
    proptest::sample::select(Field::ALL.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_field_that_was_set_has_that_value(frame in frames(1), field in field(), value: u128, mask: u128) {
        prop_assume!(mask & field.full_mask() != 0);
        let set = Constraint::masked(field, value, mask);
        let before = Packet::new(&frame, 0).literal();
        let mut changed = frame.clone();
        let Ok(()) = set_field(&mut changed, &set) else {
            prop_assert_eq!(&changed, &frame);
            return Ok(());
        };
        let after = Packet::new(&changed, 0).literal();
        let tag = if field == Field::VlanVid { 0x1000 } else { 0 };
        let expect = before.get(field).unwrap() & !set.mask | set.value | tag;
        // Large ARP operations and the types of ICMPv6 messages determine which other fields exist.
        match field {
            Field::ArpOp => prop_assert!(after.get(field).is_none_or(|value| value == expect)),
            _ => prop_assert_eq!(after.get(field), Some(expect)),
        }
        if !matches!(field, Field::ArpOp | Field::Icmpv6Type | Field::Icmpv6Code) {
            for other in Field::ALL.into_iter().filter(|other| *other != field) {
                prop_assert_eq!(after.get(other), before.get(other), "{} after setting {}", other, field);
            }
        }
        prop_assert!(checksums_are_right(&changed), "checksums of {:02x?}", changed);
    }

    #[test]
    fn rewriting_broken_frames_keeps_what_else_they_hold(frame in broken_frames(2), field in field(), value: u128) {
        let mut changed = frame.clone();
        let set = Constraint::exact(field, value);
        match set_field(&mut changed, &set) {
            Ok(()) => prop_assert!(Packet::new(&frame, 0).get(field).is_some()),
            Err(_) => prop_assert_eq!(&changed, &frame),
        }
        prop_assert_eq!(changed.len(), frame.len());
        for change in [dec_ttl, dec_mpls_ttl, copy_ttl_in, copy_ttl_out] {
            let before = changed.clone();
            if change(&mut changed).is_err() {
                prop_assert_eq!(&changed, &before);
            }
        }
    }

    #[test]
    fn pushed_tags_and_labels_can_be_popped(frame in broken_frames(2), vid in 0..4096u128) {
        let mut changed = frame.clone();
        if push_vlan(&mut changed, 0x8100).is_ok() {
            set_field(&mut changed, &Constraint::exact(Field::VlanVid, 0x1000 | vid)).unwrap();
            prop_assert_eq!(Packet::new(&changed, 0).get(Field::VlanVid), Some(0x1000 | vid));
            pop_vlan(&mut changed).unwrap();
        }
        prop_assert_eq!(&changed, &frame);
        if push_mpls(&mut changed, 0x8847).is_ok() {
            prop_assert_eq!(Packet::new(&changed, 0).get(Field::EthType), Some(0x8847));
            let eth_type = Packet::new(&frame, 0).get(Field::EthType).unwrap() as u16;
            pop_mpls(&mut changed, eth_type).unwrap();
        }
        prop_assert_eq!(&changed, &frame);
    }

    #[test]
    fn counting_down_keeps_the_checksum_right(frame in frames(1)) {
        let mut changed = frame;
        let _ = dec_ttl(&mut changed);
        prop_assert!(checksums_are_right(&changed));
    }
}

#[test]
fn sctp_keeps_a_right_crc() {
    let mut frame = Frame::ethernet([1; 6], [2; 6]).ipv4([1, 2, 3, 4], [5, 6, 7, 8]).sctp(1, 2).payload(b"chunk");
    set_field(&mut frame, &Constraint::exact(Field::SctpDst, 9)).unwrap();
    set_field(&mut frame, &Constraint::exact(Field::Ipv4Dst, 9)).unwrap();
    let stored: [u8; 4] = frame[42..46].try_into().unwrap();
    frame[42..46].fill(0);
    assert_eq!(u32::from_le_bytes(stored), checksum::crc32c(&frame[34..]));
}

#[test]
fn a_udp_packet_without_checksum_stays_without() {
    let mut frame = Frame::ethernet([1; 6], [2; 6]).ipv4([1, 2, 3, 4], [5, 6, 7, 8]).udp(1, 2).build();
    frame[40..42].fill(0);
    set_field(&mut frame, &Constraint::exact(Field::UdpDst, 9)).unwrap();
    set_field(&mut frame, &Constraint::exact(Field::Ipv4Src, 9)).unwrap();
    assert_eq!(frame[40..42], [0, 0]);
}

#[test]
fn the_checksum_of_a_source_routed_packet_covers_the_last_destination() {
    let frame =
        Frame::ethernet([1; 6], [2; 6]).ipv6([1; 16], [2; 16]).extension(43, &[0, 1, 0, 0, 0, 0]).tcp(1, 2).build();
    let mut changed = frame.clone();
    set_field(&mut changed, &Constraint::exact(Field::Ipv6Dst, 9)).unwrap();
    assert_eq!(changed[54..], frame[54..]);
    set_field(&mut changed, &Constraint::exact(Field::Ipv6Src, 9)).unwrap();
    assert_ne!(changed[54..], frame[54..]);
}

#[test]
fn errors_say_what_is_missing() {
    let arp = Frame::ethernet([1; 6], [2; 6]).arp_request([10, 0, 0, 1], [10, 0, 0, 2]);
    let check = |result: Result<(), RewriteError>, expect: &str| assert_eq!(result.unwrap_err().to_string(), expect);
    check(set_field(&mut arp.clone(), &Constraint::exact(Field::TcpDst, 1)), "the packet has no tcp_dst");
    check(set_field(&mut arp.clone(), &Constraint::exact(Field::VlanVid, 0x1001)), "the packet has no vlan_vid");
    check(set_field(&mut arp.clone(), &Constraint::exact(Field::EthType, 1)), "eth_type can't be set");
    check(pop_vlan(&mut arp.clone()), "the packet has no VLAN header");
    check(push_vlan(&mut arp.clone(), 0x800), "VLAN can't be pushed with Ethernet type 0x0800");
    check(dec_ttl(&mut arp.clone()), "the packet has no IP header");
    check(pop_mpls(&mut arp.clone(), 0x800), "the packet has no MPLS header");
    let mut last = Frame::ethernet([1; 6], [2; 6]).ipv4([1, 2, 3, 4], [5, 6, 7, 8]).ttl(1).tcp(1, 2).build();
    check(dec_ttl(&mut last), "time to live exceeded");
}

#[test]
fn time_to_live_is_copied_between_mpls_and_ip() {
    let ip = Frame::ethernet([1; 6], [2; 6]).ipv4([1, 2, 3, 4], [5, 6, 7, 8]).ttl(9).tcp(1, 2).build();
    let mut frame = ip.clone();
    push_mpls(&mut frame, 0x8847).unwrap();
    assert_eq!(Packet::new(&frame, 0).mpls_stack().next().unwrap().ttl, 9);
    set_mpls_ttl(&mut frame, 7).unwrap();
    copy_ttl_in(&mut frame).unwrap();
    dec_mpls_ttl(&mut frame).unwrap();
    copy_ttl_out(&mut frame).unwrap();
    assert_eq!(Packet::new(&frame, 0).mpls_stack().next().unwrap().ttl, 7);
    pop_mpls(&mut frame, 0x800).unwrap();
    let mut expect = ip;
    set_ttl(&mut expect, 7).unwrap();
    assert_eq!(frame, expect);
}
