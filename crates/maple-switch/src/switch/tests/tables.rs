//! Each flow-mod command, overlaps, cookies, timeouts, full tables, refused matches and instructions.

use maple_wire::msg::{ReplyBody, RequestBody, StatsRequest};

use super::*;

const IP: &str = "eth_type=0x800";

#[test]
fn rules_are_kept_by_falling_priority_and_equal_ones_by_age() {
    check(
        Version::Of13,
        "add 1 -> 1
         add 9 eth_type=0x806 -> 2
         add 5 in_port=1 -> 3
         add 5 in_port=2 -> 4",
        "9 eth_type=0x806 -> 2
         5 in_port=0x1 -> 3
         5 in_port=0x2 -> 4
         1 -> 1",
        &[],
    );
}

#[test]
fn an_addition_with_the_same_match_and_priority_replaces() {
    check(
        Version::Of13,
        "add 5 cookie=1 in_port=1 eth_type=0x800 -> 1
         add 5 cookie=2 eth_type=0x800 in_port=1 -> 2",
        "5 cookie=2 in_port=0x1 eth_type=0x800 -> 2",
        &[],
    );
}

#[test]
fn replacing_keeps_counters_in_1_3_unless_told_and_never_in_1_0() {
    for (version, flags, packets) in [(Version::Of13, 0, 1), (Version::Of13, 4, 0), (Version::Of10, 0, 0)] {
        let mut tested = TestSwitch::new(version);
        assert!(tested.run("add 5 in_port=1 -> 2").is_empty());
        tested.send(1, &tcp(80));
        assert!(tested.run(&format!("add 5 flags={flags} in_port=1 -> 3")).is_empty());
        assert_eq!(tested.switch.tables()[0].rules()[0].packets, packets, "{version} flags {flags}");
    }
}

#[test]
fn modify_changes_all_covered_rules_and_adds_nothing_in_1_3() {
    check(
        Version::Of13,
        "add 5 eth_type=0x800 ip_proto=6 -> 1
         add 4 eth_type=0x800 -> 1
         add 3 eth_type=0x806 -> 1
         modify 9 cookie=8 eth_type=0x800 -> 2
         modify 9 eth_type=0x86dd -> 3",
        "5 eth_type=0x800 ip_proto=0x6 -> 2
         4 eth_type=0x800 -> 2
         3 eth_type=0x806 -> 1",
        &[],
    );
}

#[test]
fn modify_of_nothing_is_an_addition_in_1_0() {
    check(
        Version::Of10,
        "add 5 cookie=1 in_port=1 -> 1
         modify 9 cookie=2 in_port=1 -> 2
         modify_strict 7 cookie=3 in_port=1 -> 3",
        "7 cookie=3 in_port=0x1 -> 3
         5 cookie=2 in_port=0x1 -> 2",
        &[],
    );
}

#[test]
fn strict_commands_want_the_same_match_and_priority() {
    check(
        Version::Of13,
        "add 5 eth_type=0x800 ip_proto=6 -> 1
         add 5 eth_type=0x800 -> 1
         add 4 eth_type=0x800 -> 1
         modify_strict 5 eth_type=0x800 -> 2
         delete_strict 4 eth_type=0x800
         delete_strict 6 eth_type=0x800",
        "5 eth_type=0x800 ip_proto=0x6 -> 1
         5 eth_type=0x800 -> 2",
        &[],
    );
}

#[test]
fn delete_takes_what_the_match_covers_whatever_the_priority() {
    check(
        Version::Of13,
        "add 5 eth_type=0x800 ipv4_src=0x0a000001 -> 1
         add 4 eth_type=0x800 ipv4_src=0x0a000000/0xffffff00 -> 1
         add 3 eth_type=0x800 ipv4_src=0x0a000000/0xff000000 -> 1
         add 2 eth_type=0x800 ipv4_src=0x0b000001 -> 1
         delete 0 eth_type=0x800 ipv4_src=0x0a000000/0xffff0000",
        "3 eth_type=0x800 ipv4_src=0xa000000/0xff000000 -> 1
         2 eth_type=0x800 ipv4_src=0xb000001 -> 1",
        &[],
    );
}

#[test]
fn deletes_can_be_limited_to_a_port_a_cookie_and_a_table() {
    check(
        Version::Of13,
        "add 5 cookie=0x11 in_port=1 -> 1
         add 5 cookie=0x12 in_port=2 -> 2
         add 5 cookie=0x21 in_port=3 -> 2
         add 5 cookie=0x21 table=2 in_port=3 -> 2
         delete 0 table=0xff out_port=1
         delete 0 table=0 cookie=0x20 cookie_mask=0xf0",
        "5 cookie=18 in_port=0x2 -> 2
         5 table=2 cookie=33 in_port=0x3 -> 2",
        &[],
    );
    check(Version::Of13, "add 1 -> 1\n add 1 table=3 -> 1\n delete 0 table=0xff", "", &[]);
}

#[test]
fn modify_looks_at_the_cookie_mask_in_1_3() {
    check(
        Version::Of13,
        "add 5 cookie=1 in_port=1 -> 1
         add 5 cookie=2 in_port=2 -> 1
         modify 0 cookie=2 cookie_mask=0xff -> 3",
        "5 cookie=1 in_port=0x1 -> 1
         5 cookie=2 in_port=0x2 -> 3",
        &[],
    );
}

#[test]
fn the_overlap_check_compares_rules_of_one_priority() {
    let script = "add 5 in_port=1 -> 1
                  add 5 flags=2 eth_type=0x800 -> 2
                  add 5 flags=2 in_port=2 eth_type=0x800 -> 2
                  add 6 flags=2 eth_type=0x800 -> 2
                  add 5 flags=2 in_port=1 -> 3";
    let left = "6 eth_type=0x800 -> 2\n 5 in_port=0x1 -> 3\n 5 in_port=0x2 eth_type=0x800 -> 2";
    check(Version::Of13, script, left, &["5/3"]);
    check(Version::Of10, script, left, &["3/1"]);
}

#[test]
fn tables_have_sizes_of_their_own_and_a_capacity_that_they_share() {
    let options = SwitchOptions { n_tables: 3, table_size: 3, capacity: 4, ..SwitchOptions::default() };
    let mut tested = TestSwitch::with(Version::Of13, options);
    tested.switch.set_table_size(1, 2);
    let script = "add 1 table=0 -> 1
                  add 1 table=1 -> 1
                  add 2 table=1 -> 1
                  add 3 table=1 -> 1
                  add 2 table=0 -> 1
                  add 3 table=0 -> 1
                  add 2 table=0 -> 2";
    let (all, rules) = (["5/1", "5/1"], "2 -> 2\n1 -> 1\n2 table=1 -> 1\n1 table=1 -> 1\n");
    assert_eq!(tested.run(script), all, "table 1 has room for two rules, and the switch for four");
    assert_eq!(tested.dump(), rules);
    tested.switch.change_options(|options| options.capacity = 1);
    assert_eq!((tested.run("add 1 -> 3"), tested.run("add 3 -> 3")), (vec![], vec!["5/1".to_owned()]), "rules stay");
    tested.switch.restart();
    tested.switch.change_options(|options| options.capacity = 4);
    tested.switch.connect();
    assert_eq!(tested.dump(), "");
    let hello = maple_wire::msg::Hello { version: 4, elements: vec![] };
    assert!(tested.say(Message::Hello(hello)).is_empty());
    assert_eq!((tested.run(script), tested.dump().as_str()), (all.map(str::to_owned).to_vec(), rules), "sizes stay");
}

#[test]
fn a_switch_that_speaks_1_0_sends_packets_by_the_rules_that_1_3_has_left_and_deletes_them_all() {
    let mut tested = TestSwitch::new(Version::Of13);
    assert!(tested.run("add 5 -> meta:7 goto:1\nadd 5 table=1 in_port=1 -> controller\nadd 6 table=2 -> 1").is_empty());
    tested.switch.speak(Version::Of10);
    assert!(!tested.switch.is_connected());
    tested.switch.connect();
    assert!(tested.say(Message::Hello(maple_wire::msg::Hello { version: 1, elements: vec![] })).is_empty());
    let out = tested.switch.receive(0, PortNo(1), Frame::ethernet([2; 6], [4; 6]).raw(0x88b5, b"hello"));
    let [Outgoing::Message { message, .. }] = &out[..] else { panic!("{out:?}") };
    assert!(message.to_bytes(Version::Of10, 0).is_ok(), "{message:?} names only the port");
    assert!(tested.run("delete_strict 6 ->").is_empty());
    assert_eq!(tested.dump().lines().count(), 2);
    assert!(tested.run("delete 0 ->").is_empty());
    assert_eq!(tested.dump(), "");
}

#[test]
fn a_full_table_refuses_additions_and_nothing_else() {
    for (version, error) in [(Version::Of10, "3/0"), (Version::Of13, "5/1")] {
        let mut tested =
            TestSwitch::with(version, SwitchOptions { n_tables: 1, table_size: 2, ..SwitchOptions::default() });
        let errors = tested.run(
            "add 1 -> 1
             add 2 -> 1
             add 3 -> 1
             add 2 -> 2",
        );
        assert_eq!(errors, [error]);
        assert_eq!(tested.dump(), "2 -> 2\n1 -> 1\n");
    }
}

#[test]
fn hard_timeouts_count_from_the_addition_and_idle_ones_from_the_last_packet() {
    let mut tested = TestSwitch::new(Version::Of13);
    assert!(tested.run("add 5 idle=2 flags=1 in_port=1 -> 2\n add 4 hard=3 flags=1 in_port=2 -> 2").is_empty());
    tested.now = 3 * SECOND / 2;
    assert_eq!(tested.send(1, &tcp(80)), ["2"]);
    assert_eq!(tested.switch.next_timeout(), Some(3 * SECOND));
    assert!(tested.switch.advance(3 * SECOND - 1).is_empty());
    let gone = |out: Vec<Outgoing>| match &out[..] {
        [Outgoing::Message { message: Message::FlowRemoved(r), .. }] => (r.priority, r.reason, r.duration_sec),
        other => panic!("{other:?}"),
    };
    assert_eq!(gone(tested.switch.advance(3 * SECOND)), (4, Removal::Hard as u8, 3));
    assert_eq!(gone(tested.switch.advance(7 * SECOND / 2)), (5, Removal::Idle as u8, 3));
    assert_eq!(tested.switch.next_timeout(), None);
}

#[test]
fn a_rule_that_is_overdue_takes_no_packet_even_before_it_is_removed() {
    let mut tested = TestSwitch::new(Version::Of13);
    assert!(tested.run("add 5 hard=1 -> 2").is_empty());
    tested.now = SECOND;
    assert!(tested.send(1, &tcp(80)).is_empty());
}

#[test]
fn deleted_rules_are_reported_if_they_asked_for_it() {
    let mut tested = TestSwitch::new(Version::Of13);
    assert!(tested.run("add 5 flags=1 cookie=9 in_port=1 -> 1\n add 4 in_port=1 -> 1").is_empty());
    tested.send(1, &tcp(80));
    let out = tested.say(Message::FlowMod(flow_mod("delete 0")));
    let [Outgoing::Message { xid: 0, message: Message::FlowRemoved(removed), .. }] = &out[..] else {
        panic!("{out:?}")
    };
    assert_eq!((removed.cookie, removed.reason, removed.packet_count), (9, Removal::Delete as u8, 1));
}

#[test]
fn matches_are_refused_by_what_is_wrong_with_them() {
    for (line, error) in [
        ("add 1 tcp_dst=80 -> 1", "4/9"),
        ("add 1 eth_type=0x800 tcp_dst=80 -> 1", "4/9"),
        ("add 1 eth_type=0x800 eth_type=0x806 -> 1", "4/10"),
        ("add 1 eth_type=0x800/0xff00 -> 1", "4/8"),
        ("add 1 vlan_pcp=3 -> 1", "4/9"),
        ("add 1 eth_type=0x800 ipv4_src=0x0a000001/0xff000000 -> 1", "4/5"),
        ("add 1 ip_proto=6 eth_type=0x800 -> 1", "4/9"),
        ("add 1 eth_type=0x800 ip_dscp=64 -> 1", "4/5"),
        ("add 1 eth_type=0x88e7 pbb_isid=1 -> 1", "4/6"),
        ("delete 1 eth_type=0x806 ipv4_src=1", "4/9"),
    ] {
        check(Version::Of13, line, "", &[error]);
    }
}

#[test]
fn in_1_0_fields_without_their_prerequisites_are_wildcards() {
    check(
        Version::Of10,
        &format!("add 1 tcp_dst=80 -> 1\n add 2 {IP} tcp_dst=80 -> 1"),
        "2 eth_type=0x800 -> 1\n 1 -> 1",
        &[],
    );
}

#[test]
fn instructions_and_actions_are_refused_by_what_is_wrong_with_them() {
    for (line, error) in [
        ("add 1 table=1 -> goto:1", "3/2"),
        ("add 1 -> goto:9", "3/2"),
        ("add 1 table=9 -> 1", "5/2"),
        ("add 1 table=0xff -> 1", "5/2"),
        ("add 1 -> 0xfffffff7", "2/4"),
        ("add 1 -> 0xffffffff", "2/4"),
        ("add 1 -> set:ipv4_src=1", "2/10"),
        ("add 1 -> set:vlan_vid=0x1005", "2/10"),
        ("add 1 -> set:in_port=1", "2/15"),
        ("add 1 vlan_vid=0x1001 -> set:vlan_vid=5", "2/15"),
        ("add 1 flags=0x20 -> 1", "5/7"),
        ("delete 1 -> set:in_port=1", "2/15"),
    ] {
        check(Version::Of13, line, "", &[error]);
    }
    check(
        Version::Of13,
        "add 1 eth_type=0x800 -> set:ipv4_src=1 7",
        "1 eth_type=0x800 -> SetField(Constraint { field: ipv4_src, value: 1, mask: 4294967295 }) 7",
        &[],
    );
}

#[test]
fn a_rule_for_a_packet_in_no_buffer_is_refused() {
    check(Version::Of13, "add 1 buffer=5 -> 1", "", &["1/8"]);
    check(Version::Of10, "add 1 buffer=5 -> 1", "", &["1/8"]);
}

#[test]
fn a_mask_of_zeros_asks_for_nothing() {
    check(
        Version::Of13,
        &format!("add 1 {IP} eth_src=0/0 ip_dscp=0/0 -> 1\n add 1 {IP} -> 2"),
        "1 eth_type=0x800 -> 2",
        &[],
    );
}

#[test]
fn instructions_are_kept_in_the_order_in_which_they_are_done() {
    let instructions = vec![
        Instruction::GotoTable(1),
        Instruction::WriteActions(vec![]),
        Instruction::ApplyActions(vec![Action::output(PortNo(2))]),
    ];
    let mut tested = TestSwitch::new(Version::Of13);
    let add = |instructions| Message::FlowMod(FlowMod::new(FlowModCommand::Add, 1, Match::any(), instructions));
    assert!(tested.say(add(instructions)).is_empty());
    assert_eq!(tested.dump(), "1 -> 2 goto:1\n");
    let twice = add(vec![Instruction::ClearActions, Instruction::ClearActions]);
    let [Outgoing::Message { message: Message::Error(error), .. }] = &tested.say(twice)[..] else { panic!() };
    assert_eq!((error.kind, error.code, &error.data[..4]), (0xffff, 2600, &b"ONF\0"[..]));
}

#[test]
fn a_rule_of_1_0_without_wildcards_comes_first() {
    let mut tested = TestSwitch::new(Version::Of10);
    let fields = "in_port=1 eth_dst=2 eth_src=3 eth_type=0x800 vlan_vid=0x1005 vlan_pcp=1 ip_dscp=8 ip_proto=6";
    let rest = "ipv4_src=1 ipv4_dst=2 tcp_src=1 tcp_dst=2";
    assert!(tested.run(&format!("add 7 {fields} {rest} -> 1\n add 7 {fields} -> 1")).is_empty());
    let priorities: Vec<u16> = tested.switch.tables()[0].rules().iter().map(|rule| rule.priority).collect();
    assert_eq!(priorities, [0xffff, 7]);
}

#[test]
fn a_switch_of_1_0_matches_the_fields_that_ipv6_shares_with_ipv4() {
    let mut tested = TestSwitch::new(Version::Of10);
    assert!(tested.run("add 1 eth_type=0x86dd ip_proto=17 udp_dst=53 -> 2").is_empty());
    let udp =
        |port| Frame::ethernet([0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, 1]).ipv6([1; 16], [2; 16]).udp(9, port).payload(b"");
    assert_eq!((tested.send(1, &udp(53)), tested.send(1, &udp(54))), (vec!["2".into()], vec!["controller".into()]));
}

#[test]
fn masks_on_ports_are_refused_unless_the_switch_says_that_it_is_open_vswitch() {
    let line = format!("add 1 {IP} ip_proto=6 tcp_dst=0x400/0xfc00 -> 1");
    for (open_vswitch, errors) in [(false, vec!["4/8"]), (true, vec![])] {
        let mut tested = TestSwitch::with(Version::Of13, SwitchOptions { open_vswitch, ..SwitchOptions::default() });
        assert_eq!(tested.run(&line), errors);
        let request = StatsRequest::new(RequestBody::Desc);
        let [Outgoing::Message { message: Message::StatsReply(reply), .. }] =
            &tested.say(Message::StatsRequest(request))[..]
        else {
            panic!("one reply")
        };
        let ReplyBody::Desc(desc) = &reply.body else { panic!("{reply:?}") };
        assert_eq!(desc.hardware == "Open vSwitch".into(), open_vswitch);
    }
}
