//! The handling of packets: priorities, ties, misses, pipelines, reserved ports, packet-outs, port settings.

use maple_wire::msg::{PacketInReason, PortMod};

use super::super::pipeline::NO_PACKET_IN;
use super::*;

#[test]
fn the_highest_priority_wins_and_the_record_says_which_rule_it_was() {
    let mut tested = TestSwitch::new(Version::Of13);
    assert!(tested.run("add 1 -> 2\n add 9 cookie=7 eth_type=0x800 ip_proto=6 tcp_dst=22 -> 3").is_empty());
    assert_eq!(tested.send(1, &tcp(22)), ["3"]);
    let step = PassedTable::Rule { table: 0, priority: 9, cookie: 7, ambiguous: false };
    assert_eq!(tested.switch.record().steps, [step]);
    assert_eq!(tested.send(1, &tcp(80)), ["2"]);
}

#[test]
fn a_tie_goes_to_the_older_rule_and_is_reported_only_where_it_matters() {
    let mut tested = TestSwitch::new(Version::Of13);
    assert!(tested.run("add 5 eth_type=0x800 -> 2\n add 5 in_port=1 -> 2\n add 5 in_port=3 -> 4").is_empty());
    assert_eq!(tested.send(1, &tcp(22)), ["2"]);
    assert_eq!(tested.switch.ambiguous_matches(), 0, "both rules say the same");
    assert_eq!(tested.send(3, &tcp(22)), ["2"]);
    assert_eq!(tested.switch.ambiguous_matches(), 1);
}

#[test]
fn a_miss_in_a_later_table_drops_the_action_set_but_in_open_vswitch() {
    for (open_vswitch, places) in [(false, vec![]), (true, vec!["2"])] {
        let mut tested = TestSwitch::with(Version::Of13, SwitchOptions { open_vswitch, ..SwitchOptions::default() });
        assert!(tested.run("add 1 -> write:2 goto:1").is_empty());
        assert_eq!(tested.send(1, &tcp(22)), places, "{open_vswitch}");
        assert_eq!(tested.switch.record().lost, [Lost::NoRule]);
    }
}

#[test]
fn written_actions_meet_the_packet_after_those_that_are_applied() {
    let mut tested = TestSwitch::new(Version::Of13);
    let set = Action::SetField(Constraint::exact(Field::TcpDst, 80));
    let rule = |applied| {
        let matching = Match::any().exact(Field::EthType, 0x0800).exact(Field::IpProto, 6);
        let instructions = vec![Instruction::ApplyActions(applied), Instruction::WriteActions(vec![set.clone()])];
        Message::FlowMod(FlowMod::new(FlowModCommand::Add, 1, matching, instructions))
    };
    assert_eq!(tested.say(rule(vec![Action::output(PortNo(1))])), []);
    let refused = tested.say(rule(vec![Action::PushMpls(0x8847)]));
    let [Outgoing::Message { message: Message::Error(error), .. }] = &refused[..] else { panic!("{refused:?}") };
    assert_eq!((error.kind, error.code), (2, 10), "under a label there is no TCP");
}

#[test]
fn a_miss_goes_to_the_controller_in_1_0_and_nowhere_in_1_3() {
    let frame = [tcp(22), vec![0; 200]].concat();
    let mut tested = TestSwitch::new(Version::Of13);
    assert!(tested.send(1, &frame).is_empty());
    assert_eq!(tested.switch.record().lost, [Lost::NoRule]);
    let mut tested = TestSwitch::new(Version::Of10);
    let out = tested.switch.receive(0, PortNo(1), frame.clone());
    let [Outgoing::Message { xid: 0, message: Message::PacketIn(packet_in), .. }] = &out[..] else { panic!("{out:?}") };
    assert_eq!((packet_in.buffer_id, packet_in.in_port()), (NO_BUFFER, Some(PortNo(1))));
    assert_eq!((usize::from(packet_in.total_len), packet_in.data.len()), (frame.len(), frame.len()));
}

#[test]
fn packet_ins_name_the_rule_and_whether_it_was_the_table_miss() {
    let mut tested = TestSwitch::new(Version::Of13);
    assert!(tested.run("add 0 cookie=5 -> controller\n add 1 cookie=6 in_port=2 -> goto:1").is_empty());
    assert!(tested.run("add 3 table=1 cookie=7 -> controller").is_empty());
    let mut packet_in = |port| match tested.switch.receive(0, PortNo(port), tcp(80)).pop() {
        Some(Outgoing::Message { message: Message::PacketIn(p), .. }) => (p.table_id, p.cookie, p.reason),
        other => panic!("{other:?}"),
    };
    assert_eq!(packet_in(1), (0, 5, maple_wire::msg::PacketInReason::NoMatch));
    assert_eq!(packet_in(2), (1, 7, maple_wire::msg::PacketInReason::Action));
}

#[test]
fn packets_leave_by_the_port_they_came_from_only_if_in_port_says_so() {
    let mut tested = TestSwitch::new(Version::Of13);
    assert!(tested.run("add 1 -> 1 2\n add 2 eth_type=0x806 -> in_port").is_empty());
    assert_eq!(tested.send(1, &tcp(80)), ["2"]);
    assert_eq!(tested.switch.record().lost, [Lost::ToIngress(PortNo(1))]);
    let arp = Frame::ethernet([0xff; 6], [0, 0, 0, 0, 0, 1]).arp_request([10, 0, 0, 1], [10, 0, 0, 2]);
    assert_eq!(tested.send(1, &arp), ["1"]);
}

#[test]
fn no_packet_in_mutes_a_port_in_1_0_and_its_table_misses_in_1_3() {
    let arp = Frame::ethernet([0xff; 6], [0, 0, 0, 0, 0, 1]).arp_request([10, 0, 0, 1], [10, 0, 0, 2]);
    // The packets of a rule, a miss at the port, and one at another port. 1.3 has a rule for misses.
    let sent = |tested: &mut TestSwitch| {
        [tested.send(1, &arp), tested.send(1, &tcp(80)), tested.send(2, &tcp(80))].map(|to| to.len())
    };
    for (version, rules, muted) in [
        (Version::Of10, "add 5 eth_type=0x806 -> controller", [0, 0, 1]),
        (Version::Of13, "add 5 eth_type=0x806 -> controller\n add 0 -> controller", [1, 0, 1]),
    ] {
        let mut tested = TestSwitch::new(version);
        assert!(tested.run(rules).is_empty());
        assert_eq!(sent(&mut tested), [1, 1, 1], "{version:?}");
        let hw_addr = tested.switch.ports()[&PortNo(1)].description.hw_addr;
        let mute = PortMod { port: PortNo(1), hw_addr, config: NO_PACKET_IN, mask: NO_PACKET_IN, advertise: 0 };
        tested.say(Message::PortMod(mute));
        assert_eq!(sent(&mut tested), muted, "{version:?}");
    }
}

#[test]
fn floods_leave_out_the_ingress_and_ports_that_are_down() {
    let mut tested = TestSwitch::new(Version::Of13);
    assert!(tested.run("add 1 -> flood").is_empty());
    assert_eq!(tested.send(2, &tcp(80)), ["1", "3", "4"]);
    let out = tested.switch.set_link(PortNo(3), false);
    assert!(matches!(out[..], [Outgoing::Message { message: Message::PortStatus(_), .. }]));
    assert_eq!(tested.send(2, &tcp(80)), ["1", "4"]);
    tested.switch.set_port_down(PortNo(2), true);
    assert!(tested.send(2, &tcp(80)).is_empty());
    assert_eq!(tested.switch.record().lost, [Lost::PortDown(PortNo(2))]);
}

#[test]
fn tables_pass_metadata_and_collect_an_action_set() {
    let mut tested = TestSwitch::new(Version::Of13);
    let errors = tested.run(
        "add 1 in_port=1 -> meta:5 write:2 goto:1
         add 1 in_port=2 -> meta:6 write:2 goto:1
         add 1 table=1 metadata=5 -> goto:2
         add 1 table=1 metadata=6 -> clear write:4
         add 1 table=2 -> 3",
    );
    assert!(errors.is_empty());
    assert_eq!(tested.send(1, &tcp(80)), ["3", "2"], "apply-actions at once, the action set at the end");
    assert_eq!(tested.switch.record().steps.len(), 3);
    assert_eq!(tested.send(2, &tcp(80)), ["4"]);
}

#[test]
fn a_miss_in_a_later_table_loses_the_packet_with_its_action_set() {
    let mut tested = TestSwitch::new(Version::Of13);
    assert!(tested.run("add 1 -> write:2 goto:1").is_empty());
    assert!(tested.send(1, &tcp(80)).is_empty());
    assert_eq!(tested.switch.record().lost, [Lost::NoRule]);
}

#[test]
fn actions_change_only_the_copies_after_them() {
    let mut tested = TestSwitch::new(Version::Of13);
    assert!(tested.run("add 1 eth_type=0x800 ip_proto=6 -> 2 set:tcp_dst=81 3").is_empty());
    let out = tested.switch.receive(0, PortNo(1), tcp(80));
    let frames: Vec<_> = out
        .iter()
        .map(|item| match item {
            Outgoing::Frame { port, frame, .. } => (port.0, frame.clone()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(frames, [(2, tcp(80)), (3, tcp(81))]);
}

#[test]
fn packet_outs_go_to_ports_to_the_table_and_to_the_controller() {
    let mut tested = TestSwitch::new(Version::Of13);
    assert!(tested.run("add 1 in_port=2 -> 3").is_empty());
    let mut out = |in_port, actions: &[PortNo]| {
        let actions = actions.iter().map(|p| Action::output(*p)).collect();
        let request = PacketOut { buffer_id: NO_BUFFER, in_port, actions, data: tcp(80) };
        let out = tested.say(Message::PacketOut(request));
        let error = out.iter().find_map(|item| match item {
            Outgoing::Message { message: Message::Error(e), .. } => Some(vec![format!("{}/{}", e.kind, e.code)]),
            _ => None,
        });
        error.unwrap_or_else(|| places(&out))
    };
    assert_eq!(out(PortNo::CONTROLLER, &[PortNo(1), PortNo(2)]), ["1", "2"]);
    assert_eq!(out(PortNo(2), &[PortNo::TABLE]), ["3"]);
    assert_eq!(out(PortNo(2), &[PortNo::FLOOD]), ["1", "3", "4"]);
    assert_eq!(out(PortNo(2), &[PortNo::IN_PORT]), ["2"]);
    assert_eq!(out(PortNo(2), &[PortNo::CONTROLLER]), ["controller"]);
    assert_eq!(out(PortNo::CONTROLLER, &[PortNo(9)]), [""; 0], "no such port");
    assert_eq!(out(PortNo::CONTROLLER, &[PortNo::ANY]), ["2/4"]);
    assert_eq!(out(PortNo::FLOOD, &[PortNo(1)]), ["1/11"]);
}

/// Returns table, cookie and reason of the packet-in that a message of the controller or a frame causes.
fn packet_in(out: &[Outgoing]) -> (u8, u64, PacketInReason) {
    match out {
        [Outgoing::Message { message: Message::PacketIn(p), .. }] => (p.table_id, p.cookie, p.reason),
        other => panic!("{other:?}"),
    }
}

fn packet_out(actions: Vec<Action>) -> Message {
    Message::PacketOut(PacketOut { buffer_id: NO_BUFFER, in_port: PortNo(1), actions, data: tcp(80) })
}

#[test]
fn an_injected_packet_is_never_a_miss_and_its_action_set_has_no_rule() {
    let mut tested = TestSwitch::new(Version::Of13);
    let to_table = || packet_out(vec![Action::output(PortNo::TABLE)]);
    assert!(tested.run("add 0 cookie=5 -> controller").is_empty());
    assert_eq!(packet_in(&tested.switch.receive(0, PortNo(1), tcp(80))), (0, 5, PacketInReason::NoMatch));
    assert_eq!(packet_in(&tested.say(to_table())), (0, 5, PacketInReason::Action));
    let direct = packet_out(vec![Action::to_controller()]);
    assert_eq!(packet_in(&tested.say(direct)), (0, u64::MAX, PacketInReason::Action));
    let written = vec![Instruction::WriteActions(vec![Action::to_controller()]), Instruction::GotoTable(1)];
    let rule = FlowMod { cookie: 7, ..FlowMod::new(FlowModCommand::Add, 1, Match::any(), written) };
    assert!(tested.say(Message::FlowMod(rule)).is_empty());
    assert!(tested.run("add 1 table=1 cookie=8 ->").is_empty());
    assert_eq!(packet_in(&tested.switch.receive(0, PortNo(1), tcp(80))), (0, 7, PacketInReason::Action));
    assert_eq!(packet_in(&tested.say(to_table())), (0, u64::MAX, PacketInReason::Action));
}

#[test]
fn actions_of_a_packet_out_are_refused_if_its_packet_lacks_the_header() {
    let mut tested = TestSwitch::new(Version::Of13);
    let set =
        |field, value| packet_out(vec![Action::SetField(Constraint::exact(field, value)), Action::output(PortNo(2))]);
    assert_eq!(places(&tested.say(set(Field::TcpDst, 81))), ["2"]);
    let [Outgoing::Message { message: Message::Error(error), .. }] = &tested.say(set(Field::UdpDst, 81))[..] else {
        panic!("no error")
    };
    assert_eq!((error.kind, error.code), (2, 10));
}

#[test]
fn expired_packets_go_to_controllers_that_ask_for_them() {
    let mut tested = TestSwitch::new(Version::Of13);
    let rule = vec![Instruction::ApplyActions(vec![Action::SetNwTtl(1), Action::DecNwTtl, Action::output(PortNo(2))])];
    let ip = Match::any().exact(Field::EthType, 0x800);
    let rule = FlowMod { cookie: 9, ..FlowMod::new(FlowModCommand::Add, 1, ip, rule) };
    assert!(tested.say(Message::FlowMod(rule)).is_empty());
    assert!(tested.send(1, &tcp(80)).is_empty());
    let all = maple_wire::msg::AsyncConfig { packet_in: [7, 7], port_status: [7, 7], flow_removed: [15, 15] };
    tested.say(Message::SetAsync(all));
    assert_eq!(packet_in(&tested.switch.receive(0, PortNo(1), tcp(80))), (0, 9, PacketInReason::InvalidTtl));
    assert_eq!(tested.switch.record().lost, [Lost::TimeToLive]);
}

#[test]
fn rules_can_set_and_match_the_tunnel_id_and_packet_ins_say_it() {
    let mut tested = TestSwitch::new(Version::Of13);
    assert!(tested.run("add 1 -> set:tunnel_id=9 goto:1\n add 1 table=1 tunnel_id=9 -> controller").is_empty());
    let out = tested.switch.receive(0, PortNo(1), tcp(80));
    let [Outgoing::Message { message: Message::PacketIn(packet_in), .. }] = &out[..] else { panic!("{out:?}") };
    assert_eq!(packet_in.pipeline.get(Field::TunnelId).map(|c| c.value), Some(9));
}

#[test]
fn an_output_to_normal_learns_and_leaves_reserved_addresses_alone() {
    let mut tested = TestSwitch::new(Version::Of13);
    assert!(tested.run("add 1 -> 0xfffffffa").is_empty());
    let frame = |dst: u8, src: u8| Frame::ethernet([0, 0, 0, 0, 0, dst], [0, 0, 0, 0, 0, src]).raw(0x88b5, &[0; 46]);
    assert_eq!(tested.send(1, &frame(2, 1)), ["2", "3", "4"], "nobody knows where 2 is");
    assert_eq!(tested.send(2, &frame(1, 2)), ["1"]);
    assert_eq!(tested.send(1, &frame(2, 1)), ["2"]);
    assert!(tested.send(2, &frame(2, 9)).is_empty(), "it is there already");
    let bridges = Frame::ethernet([1, 0x80, 0xc2, 0, 0, 0xe], [0, 0, 0, 0, 0, 1]).raw(0x88cc, &[0; 46]);
    assert!(tested.send(1, &bridges).is_empty());
    assert_eq!(tested.switch.record().lost, [Lost::Reserved]);
    tested.now = 400 * SECOND;
    assert_eq!(tested.send(1, &frame(2, 1)), ["2", "3", "4"], "what was learned is forgotten");
}

#[test]
fn a_packet_out_of_an_unknown_buffer_is_refused() {
    let mut tested = TestSwitch::new(Version::Of10);
    let request = PacketOut { buffer_id: 3, in_port: PortNo(1), actions: vec![], data: vec![] };
    let out = tested.say(Message::PacketOut(request));
    let [Outgoing::Message { xid: 7, message: Message::Error(error), .. }] = &out[..] else { panic!("{out:?}") };
    assert_eq!((error.kind, error.code), (1, 8));
    assert!(error.data.len() >= 16);
}

#[test]
fn without_a_controller_packets_for_it_are_lost_and_rules_go_on() {
    let mut tested = TestSwitch::new(Version::Of13);
    assert!(tested.run("add 0 -> controller\n add 1 in_port=2 -> 1").is_empty());
    tested.switch.disconnect();
    assert!(tested.send(1, &tcp(80)).is_empty());
    assert_eq!(tested.switch.record().lost, [Lost::NoController]);
    assert_eq!(tested.send(2, &tcp(80)), ["1"]);
}

#[test]
fn a_restart_loses_the_rules_and_keeps_the_ports() {
    let mut tested = TestSwitch::new(Version::Of13);
    assert!(tested.run("add 0 -> 1").is_empty());
    tested.switch.restart();
    assert!(tested.dump().is_empty() && !tested.switch.is_connected());
    assert_eq!(tested.switch.ports().len(), 4);
}

#[test]
fn frames_too_short_for_their_headers_have_zeros_there() {
    let mut tested = TestSwitch::new(Version::Of13);
    assert!(tested.run("add 1 eth_type=0x800 ip_proto=0 -> 2").is_empty());
    let short = [0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 1, 8, 0, 0x45];
    assert_eq!(tested.send(1, &short), ["2"]);
    assert!(tested.send(1, &[]).is_empty());
}
