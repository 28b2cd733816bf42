//! Checks what each question records, its source line, and that its answer is that of the plain value.

use std::net::{Ipv4Addr, Ipv6Addr};

use maple_wire::packet::Frame;

use super::*;
use crate::testing::{Bench, ask, tcp, udp};
use crate::{Net, Packet, Route};

fn ssh() -> Vec<u8> {
    tcp(1024, 22)
}

fn tagged(vid: u16) -> Vec<u8> {
    Frame::ethernet([0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, 1]).vlan(vid).raw(0x88b5, b"maple")
}

fn arp() -> Vec<u8> {
    Frame::ethernet([0xff; 6], [0, 0, 0, 0, 0, 1]).arp_request([10, 0, 0, 1], [10, 0, 0, 2])
}

/// Checks which items a question records, and its answer.
#[track_caller]
fn records(frame: &[u8], question: impl FnOnce(&Packet) -> bool, items: &[&str], answer: bool) {
    let mut reported = None;
    let trace = ask(frame, |pkt| reported = Some(question(pkt)));
    assert_eq!((reported, &trace[..]), (Some(answer), &items.iter().map(ToString::to_string).collect::<Vec<_>>()[..]));
}

const OF_TCP: &str = "eth_type=0x800, ip_proto=6";

#[test]
fn a_comparison_is_one_test_and_no_read() {
    // A test that fails asks about IPv6 too.
    let no_v6 = |what: &str| format!("test {}, {what}: no", OF_TCP.replace("0x800", "0x86dd"));
    let test = |what: &str, outcome: &str| format!("test {OF_TCP}, {what}: {outcome}");
    records(&ssh(), |pkt| pkt.tcp_dst() == 22, &[&test("tcp_dst=22", "yes")], true);
    records(&ssh(), |pkt| pkt.tcp_dst() != 22, &[&test("tcp_dst=22", "yes")], false);
    records(&tcp(1, 80), |pkt| pkt.tcp_dst() != 22, &[&test("tcp_dst=22", "no"), &no_v6("tcp_dst=22")], true);
    records(&ssh(), |pkt| pkt.tcp_dst() < 1024, &[&test("tcp_dst=0/0xfc00", "yes")], true);
    records(&ssh(), |pkt| pkt.tcp_dst() <= 22, &[&test("tcp_dst=0..22", "yes")], true);
    records(&ssh(), |pkt| pkt.tcp_dst() > 22, &[&test("tcp_dst=23..65535", "no"), &no_v6("tcp_dst=23..65535")], false);
    records(&ssh(), |pkt| pkt.tcp_dst() >= 22, &[&test("tcp_dst=22..65535", "yes")], true);
    records(&ssh(), |pkt| pkt.tcp_dst().in_range(1..=1023), &[&test("tcp_dst=1..1023", "yes")], true);
    records(
        &ssh(),
        |pkt| pkt.tcp_dst().in_range(1..22),
        &[&test("tcp_dst=1..21", "no"), &no_v6("tcp_dst=1..21")],
        false,
    );
    records(&ssh(), |pkt| pkt.tcp_dst().in_range(22..), &[&test("tcp_dst=22..65535", "yes")], true);
    let net_ten = "test eth_type=0x800, ipv4_src=10.0.0.0/8: yes";
    records(&ssh(), |pkt| pkt.ipv4_src().within("10.0.0.0/8"), &[net_ten], true);
    let typed: Prefix<Ipv4Addr> = "10.0.0.0/8".parse().unwrap();
    records(&ssh(), |pkt| pkt.ipv4_src().within(typed), &[net_ten], true);
    let group = "test eth_dst=01:00:00:00:00:00/01:00:00:00:00:00: yes";
    records(&arp(), Packet::is_multicast, &[group], true);
}

#[test]
fn presence_is_a_test_of_what_the_field_needs() {
    records(&ssh(), |pkt| pkt.tcp_dst().is_present(), &["test eth_type=0x800, ip_proto=6: yes"], true);
    records(&ssh(), |pkt| pkt.eth_src().is_present(), &[], true);
    records(&arp(), |pkt| pkt.ipv4_src().is_present(), &["test eth_type=0x800: no"], false);
    // A range of all values and a prefix of length 0 test only whether the field is present.
    records(&ssh(), |pkt| pkt.tcp_dst().in_range(..), &["test eth_type=0x800, ip_proto=6: yes"], true);
    records(&ssh(), |pkt| pkt.tcp_dst() >= 0, &["test eth_type=0x800, ip_proto=6: yes"], true);
    records(&ssh(), |pkt| pkt.ipv4_src().within("0.0.0.0/0"), &["test eth_type=0x800: yes"], true);
    records(&ssh(), |pkt| pkt.ipv4_src().prefix(0).is_some(), &["test eth_type=0x800: yes"], true);
}

#[test]
fn a_range_without_values_asks_nothing() {
    #[allow(clippy::reversed_empty_ranges, reason = "that is what is tested")]
    records(&ssh(), |pkt| pkt.tcp_dst().in_range(30..20), &[], false);
    records(&ssh(), |pkt| pkt.tcp_dst().in_range(22..22), &[], false);
    records(&ssh(), |pkt| pkt.tcp_dst() < 0, &[], false);
    records(&ssh(), |pkt| pkt.tcp_dst() > u16::MAX, &[], false);
    let above = (Bound::Excluded(Ipv6Addr::from(u128::MAX)), Bound::Unbounded);
    records(&ssh(), |pkt| pkt.ipv6_src().in_range(above), &[], false);
}

#[test]
fn a_value_is_a_read() {
    let reads = ["read eth_type=0x800", "read ip_proto=6", "read tcp_dst=22"];
    records(&ssh(), |pkt| pkt.tcp_dst().value() == Some(22), &reads, true);
    records(&ssh(), |pkt| pkt.tcp_dst().get() == 22, &reads, true);
    let prefix = ["read eth_type=0x800", "read ipv4_dst=10.0.0.0/24"];
    records(&ssh(), |pkt| pkt.ipv4_dst().prefix(24).unwrap().to_string() == "10.0.0.0/24", &prefix, true);
    let both = ["read eth_src=00:00:00:00:00:01", "read eth_dst=00:00:00:00:00:02"];
    records(&ssh(), |pkt| pkt.eth_src() == pkt.eth_dst(), &both, false);
    records(&ssh(), |pkt| pkt.ip_proto().partial_cmp(&6) == Some(Ordering::Equal), &reads[..2], true);
}

#[test]
fn to_name_a_field_learns_nothing() {
    let named = |pkt: &Packet| format!("{:?}", pkt.tcp_dst()) == "pkt.tcp_dst" && pkt.ip_ecn().field() == Field::IpEcn;
    records(&ssh(), named, &[], true);
}

#[test]
fn to_print_the_arguments_of_a_policy_learns_nothing() {
    let trace = ask(&ssh(), |pkt| assert_eq!(format!("{pkt:?}"), "Packet { .. }"));
    assert_eq!(trace, [""; 0]);
    let bench = Bench::new().switch(1, 1..=2);
    let printing = |_: &Packet, net: &Net| {
        assert_eq!(format!("{net:?}"), "Net { .. }");
        Route::drop()
    };
    let decision = bench.decide(&printing, &ssh(), bench.port(1, 1));
    assert_eq!((decision.error(), decision.reads()), (None, &[][..]));
}

#[test]
fn a_comparison_with_an_absent_field_is_false() {
    for frame in [arp(), udp(1, 2), tagged(5)] {
        ask(&frame, |pkt| {
            let port = pkt.tcp_dst();
            assert!(!(port == 0 || port < 1 || port <= 0 || port > 0 || port >= 0 || port.in_range(..)));
            assert!(!(port.matches(0, 0xff) || port.is_one_of([0, 1]) || pkt.ipv6_src().within("::/0")));
            assert!(!pkt.ipv6_dst().is_multicast() && pkt.ipv6_src() != pkt.ipv6_dst());
            assert!(port != 0 && !port.is_present() && port.value().is_none() && port.partial_cmp(&0).is_none());
        });
    }
}

#[test]
fn a_vlan_id_is_its_twelve_bits_and_absent_without_a_tag() {
    let test = ["test vlan_vid=5: yes"];
    records(&tagged(5), |pkt| pkt.vlan_vid() == 5, &test, true);
    records(&tagged(5), |pkt| pkt.vlan_vid().value() == Some(5), &["read vlan_vid=5"], true);
    records(&tagged(5), |pkt| pkt.vlan_vid().is_present(), &["test vlan_vid=0x1000/0x1000: yes"], true);
    records(&tagged(5), |pkt| pkt.vlan_vid().in_range(..), &["test vlan_vid=0x1000/0x1000: yes"], true);
    records(&tagged(5), |pkt| pkt.vlan_vid().in_range(1..=10), &["test vlan_vid=1..10: yes"], true);
    // A range is cut to the 12-bit ids.
    records(&tagged(5), |pkt| pkt.vlan_vid() < 9999, &["test vlan_vid=0x1000/0x1000: yes"], true);
    records(&tagged(5), |pkt| pkt.vlan_vid() > 9999, &[], false);
    for untagged in [ssh(), arp()] {
        let absent = |pkt: &Packet| !pkt.vlan_vid().is_present() && pkt.vlan_vid() != 0 && pkt.vlan_vid() < 9999;
        ask(&untagged, |pkt| assert!(!absent(pkt) && pkt.vlan_vid().value().is_none()));
        ask(&untagged, |pkt| assert!(!(pkt.vlan_vid() == 0)));
    }
}

#[test]
fn answers_are_those_of_the_plain_value() {
    let ports = [0u16, 1, 21, 22, 23, 1023, 1024, 65534, 65535];
    for there in ports {
        for limit in ports {
            ask(&tcp(1, there), |pkt| {
                let port = pkt.tcp_dst();
                assert_eq!(port == limit, there == limit);
                assert_eq!(port != limit, there != limit);
                assert_eq!(port < limit, there < limit);
                assert_eq!(port <= limit, there <= limit);
                assert_eq!(port > limit, there > limit);
                assert_eq!(port >= limit, there >= limit);
                assert_eq!(port.in_range(21..limit), (21..limit).contains(&there));
                assert_eq!(port.in_range(21..=limit), (21..=limit).contains(&there));
                assert_eq!(port.is_one_of([limit, 22]), [limit, 22].contains(&there));
                assert_eq!(port.matches(limit & 0xff00, 0xff00), there & 0xff00 == limit & 0xff00);
            });
        }
    }
}

/// Runs one question. Returns the source line of the first item that it recorded.
fn line_of(question: impl Fn(&Packet, &Net) -> bool + Send + Sync) -> u32 {
    let bench = Bench::new().switch(1, 1..=2);
    let policy = move |pkt: &Packet, net: &Net| {
        let _ = question(pkt, net);
        Route::drop()
    };
    let decision = bench.decide(&policy, &ssh(), bench.port(1, 1));
    let source = decision.sources()[0].as_ref().expect("the line is known");
    assert_eq!(&*source.file, file!());
    source.line
}

#[test]
fn the_line_of_a_question_is_that_of_the_policy() {
    let prefix: Prefix<Ipv4Addr> = "10.0.0.0/8".parse().unwrap();
    // Each entry is on one line, because the line is compared with its position.
    #[rustfmt::skip]
    let lines = [
        (line!(), line_of(|pkt, _| pkt.tcp_dst() == 22)),
        (line!(), line_of(|pkt, _| pkt.tcp_dst() != 22)),
        (line!(), line_of(|pkt, _| pkt.tcp_dst() < 22)),
        (line!(), line_of(|pkt, _| pkt.tcp_dst() >= 23)),
        (line!(), line_of(|pkt, _| pkt.tcp_dst().in_range(1..5))),
        (line!(), line_of(|pkt, _| pkt.tcp_dst().is_one_of([80, 443]))),
        (line!(), line_of(|pkt, _| pkt.tcp_dst().matches(0, 1))),
        (line!(), line_of(|pkt, _| pkt.tcp_dst().is_present())),
        (line!(), line_of(|pkt, _| pkt.tcp_dst().value().is_some())),
        (line!(), line_of(|pkt, _| pkt.tcp_dst().get() == 7)),
        (line!(), line_of(|pkt, _| pkt.ipv4_src().within(prefix))),
        (line!(), line_of(|pkt, _| pkt.ipv4_src().within("10.0.0.0/8"))),
        (line!(), line_of(|pkt, _| pkt.ipv4_src().prefix(8).is_some())),
        (line!(), line_of(|pkt, _| pkt.eth_dst().is_multicast())),
        (line!(), line_of(|pkt, _| pkt.eth_dst() == pkt.eth_src())),
        (line!(), line_of(|pkt, _| pkt.is_multicast())),
        (line!(), line_of(|pkt, _| Route::ecmp([Route::flood(), Route::drop()], pkt, &[Field::EthSrc]).is_drop())),
        (line!(), line_of(|pkt, net| net.locate(pkt.eth_dst()).is_some())),
        (line!(), line_of(|pkt, net| net.locate_ip(pkt.ipv4_dst()).is_some())),
        (line!(), line_of(|pkt, net| net.traffic(pkt.eth_src(), pkt.eth_dst()).is_above_mbps(1.0, 1.0))),
    ];
    for (here, reported) in lines {
        assert_eq!(reported, here);
    }
}

#[test]
fn a_value_that_the_field_can_not_have_is_an_error_of_the_packet() {
    let bench = Bench::new().switch(1, 1..=2);
    let reported = |question: fn(&Packet) -> bool| {
        let policy = move |pkt: &Packet, _: &Net| if question(pkt) { Route::flood() } else { Route::drop() };
        bench.decide(&policy, &tagged(0xfff), bench.port(1, 1)).error().map(ToString::to_string)
    };
    let panicked = |text: &str| Some(format!("the policy panicked: {text}"));
    assert_eq!(reported(|pkt| pkt.vlan_vid() == 0x1fff), panicked("vlan_vid is 0 to 4095; it can't be 8191"));
    assert_eq!(reported(|pkt| pkt.ip_dscp() == 64), panicked("ip_dscp is 0 to 63; it can't be 64"));
    assert_eq!(reported(|pkt| pkt.vlan_pcp().is_one_of([8])), panicked("vlan_pcp is 0 to 7; it can't be 8"));
    assert_eq!(
        reported(|pkt| pkt.vlan_vid().matches(0x1001, 0x1001)),
        panicked("vlan_vid has no such bits as the mask")
    );
    assert_eq!(reported(|pkt| pkt.tcp_dst().get() == 1), panicked("this packet has no tcp_dst"));
    let bad = "ipv4_src: \"10/8\" is not a prefix; write an address, a slash and a number of bits, as in 10.0.0.0/8";
    assert_eq!(reported(|pkt| pkt.ipv4_src().within("10/8")), panicked(bad));
    assert_eq!(reported(|pkt| pkt.vlan_vid() == 0xfff), None);
}
