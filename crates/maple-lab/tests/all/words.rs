//! Each word holds when it should, and fails with readable text when it should not.

use std::panic::{AssertUnwindSafe, catch_unwind};

use maple::prelude::*;
use maple_lab::{TestNetwork, with};

/// Decides as a user's policy: ssh takes the secure path, telnet is dropped, and blocked hosts send nothing.
fn policy(pkt: &Packet, net: &Net) -> Route {
    let blocked = Table::<Mac, bool>::new("blocked");
    if pkt.tcp_dst() == 23 || blocked.contains(net, &pkt.eth_src().get()) {
        return Route::drop();
    }
    match (net.locate(pkt.eth_src()), net.locate(pkt.eth_dst())) {
        (Some(src), Some(dst)) if pkt.tcp_dst() == 22 => net.path(src, dst, "costly"),
        (Some(src), Some(dst)) => net.shortest_path(src, dst),
        _ => net.flood(),
    }
}

fn ring() -> TestNetwork {
    TestNetwork::with_app("ring:4", App::new(policy).link_cost("costly", 1, 2, 10))
}

/// Returns what a failed assertion prints.
fn failure(assert: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(assert)).expect_err("the assertion should fail");
    panic.downcast_ref::<String>().cloned().expect("a text")
}

#[test]
fn packets_arrive_as_the_policy_says() {
    let mut net = ring();
    net.assert_delivered("h1", "h2", with().tcp_dst(80).via([1, 2]).only());
    net.assert_delivered("h1", "h2", with().tcp_dst(22).via([1, 4, 3, 2]).arrives(Field::TcpDst, 22));
    net.assert_delivered("h1", "h3", with().udp_dst(53).vlan_vid(5).arrives(Field::VlanVid, 0x1005));
    net.assert_delivered("h1", "h4", with().eth_dst(Mac([0xff; 6])).field(Field::EthType, 0x806));
    net.assert_dropped("h1", "h2", with().tcp_dst(23));
    net.link_down("s1", "s2");
    net.assert_delivered("h1", "h2", with().via([1, 4, 3, 2]));
    net.link_up("s1", "s2");
    net.move_host("h2", "s4");
    net.assert_delivered("h1", "h2", with().via([1, 4]));
}

#[test]
fn state_counts_when_its_change_returns() {
    let mut net = ring();
    let blocked = Table::<Mac, bool>::new("blocked");
    net.change(|tx| blocked.set(tx, &Mac([0, 0, 0, 0, 0, 1]), &true));
    net.assert_dropped("h1", "h2", with());
    net.assert_delivered("h2", "h1", with());
    net.change(|tx| blocked.delete(tx, &Mac([0, 0, 0, 0, 0, 1])));
    net.assert_delivered("h1", "h2", with());
}

#[test]
fn a_failure_shows_the_packet_and_the_lines_that_decided_it() {
    let mut net = ring();
    let reported = failure(|| net.assert_delivered("h1", "h2", with().tcp_dst(23)));
    assert!(
        reported.starts_with("h2 got it 0 times, and should get it 1\n    packet  tcp 10.0.0.1:40000 > 10.0.0.2:23"),
        "{reported}"
    );
    assert!(
        reported.contains("words.rs:") && reported.contains("tcp_dst=23: yes") && reported.ends_with("drop"),
        "{reported}"
    );
    let reported = failure(|| net.assert_delivered("h1", "h2", with().via([1, 4, 3, 2])));
    assert!(reported.starts_with("it came via [1, 2], and not via [1, 4, 3, 2]"), "{reported}");
    let reported = failure(|| net.assert_delivered("h1", "h2", with().arrives(Field::IpDscp, 8)));
    assert!(reported.starts_with("ip_dscp is 0x0, and should be 0x8"), "{reported}");
    let reported = failure(|| net.assert_dropped("h1", "h2", with()));
    assert!(reported.starts_with("h2 got it, and nobody should"), "{reported}");
    assert!(failure(|| net.assert_dropped("h1", "h9", with())).contains("there is no host h9"));
    assert!(failure(|| net.link_down("s1", "s3")).contains("not linked"));
}

#[test]
fn a_policy_that_fails_drops_nothing_on_purpose() {
    let mut net = TestNetwork::new("linear:2", |_: &Packet, _: &Net| -> Route { panic!("no idea") });
    let reported = failure(|| net.assert_dropped("h1", "h2", with()));
    assert!(
        reported.starts_with("it was dropped because the policy fails: the policy panicked: no idea"),
        "{reported}"
    );
}

#[test]
fn claims_on_all_packets_are_proved_or_contradicted() {
    let walled = |pkt: &Packet, _: &Net| {
        if pkt.tcp_dst() == 8080 { Route::flood() } else { Route::drop() }
    };
    let net = TestNetwork::new("linear:2", walled);
    let reported = failure(|| drop(net.assert_isolated(&["h1"], &["h2"])));
    assert!(reported.contains("a copy leaves at") && reported.contains("tcp_dst=8080: yes"), "{reported}");
    let reported = failure(|| drop(net.assert_reachable(&["h1"], &["h2"])));
    assert!(reported.starts_with("no copy comes to its receiver"), "{reported}");
    assert!(net.assert_same_as(walled).is_proved());
    let reported = failure(|| drop(net.assert_same_as(|_: &Packet, _: &Net| Route::drop())));
    assert!(reported.starts_with("the routes differ") && reported.contains("other   "), "{reported}");
    let closed = TestNetwork::new("linear:2", |_: &Packet, _: &Net| Route::drop());
    assert!(closed.assert_isolated(&["h1"], &["h2"]).is_proved());
    let reads = TestNetwork::new("linear:2", |pkt: &Packet, _: &Net| {
        if pkt.eth_dst().get().0 == [2, 7, 7, 7, 7, 7] { Route::flood() } else { Route::drop() }
    });
    let explored = reads.assert_isolated(&["h1"], &["h2"]);
    assert!(!explored.is_proved() && explored.to_string().contains("not a proof"), "{explored}");
}
