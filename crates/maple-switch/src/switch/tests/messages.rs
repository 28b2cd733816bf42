//! Requests and their answers: configuration, roles, groups, statistics, ports, and invalid bytes.

use maple_wire::msg::stats::{FlowStatsRequest, QueueStatsRequest};
use maple_wire::msg::{
    Bucket, GroupMod, PortMod, ReplyBody, RequestBody, Role, StatsReply, StatsRequest, SwitchConfig,
};

use super::*;

/// Sends a request, and returns its only answer.
fn answer(tested: &mut TestSwitch, request: Message) -> Message {
    let mut out = tested.say(request);
    assert_eq!(out.len(), 1, "{out:?}");
    match out.pop() {
        Some(Outgoing::Message { xid: 7, message, .. }) => message,
        other => panic!("{other:?}"),
    }
}

fn error(tested: &mut TestSwitch, request: Message) -> (u16, u16) {
    match answer(tested, request) {
        Message::Error(e) => (e.kind, e.code),
        other => panic!("{other:?}"),
    }
}

fn stats(tested: &mut TestSwitch, body: RequestBody) -> ReplyBody {
    match answer(tested, Message::StatsRequest(StatsRequest::new(body))) {
        Message::StatsReply(StatsReply { flags: 0, body }) => body,
        other => panic!("{other:?}"),
    }
}

fn all_flows() -> FlowStatsRequest {
    FlowStatsRequest {
        table_id: 0xff,
        out_port: PortNo::ANY,
        out_group: u32::MAX,
        cookie: 0,
        cookie_mask: 0,
        matching: Match::any(),
    }
}

#[test]
fn simple_requests_are_answered_with_their_transaction_id() {
    for version in [Version::Of10, Version::Of13] {
        let mut tested = TestSwitch::new(version);
        assert_eq!(answer(&mut tested, Message::EchoRequest(vec![1, 2])), Message::EchoReply(vec![1, 2]));
        assert_eq!(answer(&mut tested, Message::BarrierRequest), Message::BarrierReply);
        let Message::FeaturesReply(features) = answer(&mut tested, Message::FeaturesRequest) else { panic!() };
        let (tables, ports) = if version == Version::Of10 { (1, 4) } else { (4, 0) };
        assert_eq!((features.dpid, features.n_tables, features.ports.len()), (Dpid(1), tables, ports));
        let config = SwitchConfig { flags: 0, miss_send_len: 0xffff };
        assert!(tested.say(Message::SetConfig(config)).is_empty());
        assert_eq!(answer(&mut tested, Message::GetConfigRequest), Message::GetConfigReply(config));
    }
}

#[test]
fn without_buffers_packet_ins_have_the_whole_packet() {
    let mut tested = TestSwitch::new(Version::Of10);
    tested.say(Message::SetConfig(SwitchConfig { flags: 0, miss_send_len: 20 }));
    match tested.switch.receive(0, PortNo(1), tcp(80)).pop() {
        Some(Outgoing::Message { message: Message::PacketIn(p), .. }) => assert_eq!(p.data, tcp(80)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn flags_of_a_configuration_that_do_not_exist_are_refused() {
    let config = |flags| Message::SetConfig(SwitchConfig { flags, miss_send_len: 20 });
    let mut tested = TestSwitch::new(Version::Of13);
    assert!(tested.say(config(1)).is_empty());
    assert!(tested.say(config(2)).is_empty(), "to reassemble fragments is not had, and the mode stays");
    assert_eq!(error(&mut tested, config(4)), (10, 0));
    let kept = SwitchConfig { flags: 1, miss_send_len: 20 };
    assert_eq!(answer(&mut tested, Message::GetConfigRequest), Message::GetConfigReply(kept));
    let mut tested = TestSwitch::new(Version::Of10);
    assert!(tested.say(config(4)).is_empty());
    let [Outgoing::Message { message: Message::Error(error), .. }] = &tested.say(config(8))[..] else { panic!() };
    // Nicira's number, then type and code.
    assert_eq!((error.kind, error.code, &error.data[..8]), (0xb0c2, 0, &[0, 0, 0x23, 0x20, 0, 1, 2, 9][..]));
}

#[test]
fn a_slave_may_ask_and_not_change_and_gets_port_status_only() {
    let mut tested = TestSwitch::new(Version::Of13);
    tested.run("add 0 flags=1 -> controller");
    let slave = Role { role: Role::SLAVE, generation_id: 5 };
    assert_eq!(answer(&mut tested, Message::RoleRequest(slave)), Message::RoleReply(slave));
    assert_eq!(tested.run("add 1 -> 1"), ["1/10"]);
    assert!(tested.send(1, &tcp(80)).is_empty());
    assert_eq!(tested.switch.set_link(PortNo(1), false).len(), 1);
    assert_eq!(error(&mut tested, Message::RoleRequest(Role { role: Role::MASTER, generation_id: 4 })), (11, 0));
    assert_eq!(error(&mut tested, Message::RoleRequest(Role { role: 9, generation_id: 6 })), (11, 2));
    answer(&mut tested, Message::RoleRequest(Role { role: Role::MASTER, generation_id: 6 }));
    assert!(tested.run("add 1 -> 1").is_empty());
}

#[test]
fn groups_copy_choose_and_fail_over() {
    let mut tested = TestSwitch::new(Version::Of13);
    let bucket = |kind: u8, port: u32| Bucket {
        weight: u16::from(kind == 1),
        watch_port: if kind == 3 { PortNo(port) } else { PortNo::ANY },
        watch_group: u32::MAX,
        actions: vec![Action::output(PortNo(port))],
    };
    let group = |command, kind, group, ports: &[u32]| {
        let buckets = ports.iter().map(|p| bucket(kind, *p)).collect();
        Message::GroupMod(GroupMod { command, kind, group, buckets })
    };
    let use_group = |group| {
        let actions = vec![Instruction::ApplyActions(vec![Action::Group(group)])];
        Message::FlowMod(FlowMod { flags: 1, ..FlowMod::new(FlowModCommand::Add, 1, Match::any(), actions) })
    };
    assert_eq!(error(&mut tested, use_group(1)), (2, 9));
    for (number, kind, ports, expected) in
        [(1, 0, &[2, 3][..], vec!["2", "3"]), (2, 2, &[3], vec!["3"]), (3, 3, &[4, 2], vec!["4"])]
    {
        assert!(tested.say(group(0, kind, number, ports)).is_empty());
        assert!(tested.say(use_group(number)).is_empty());
        assert_eq!(tested.send(1, &tcp(80)), expected);
    }
    tested.switch.set_link(PortNo(4), false);
    assert_eq!(tested.send(1, &tcp(80)), ["2"], "the watched port is down");
    tested.say(group(0, 1, 4, &[2, 3]));
    tested.say(use_group(4));
    let first = tested.send(1, &tcp(80));
    assert_eq!(first, tested.send(1, &tcp(80)), "one flow takes one bucket");
    let taken: std::collections::BTreeSet<_> = (0..50).flat_map(|port| tested.send(1, &tcp(port))).collect();
    assert_eq!(taken.len(), 2, "flows are spread");
    assert_eq!(error(&mut tested, group(0, 0, 1, &[])), (6, 0));
    assert_eq!(error(&mut tested, group(1, 0, 9, &[])), (6, 8));
    assert_eq!(error(&mut tested, group(0, 2, 9, &[1, 2])), (6, 1));
    let ReplyBody::Group(counters) = stats(&mut tested, RequestBody::Group(4)) else { panic!() };
    assert_eq!((counters[0].ref_count, counters[0].packet_count), (1, 52));
    let out = tested.say(group(2, 0, 4, &[]));
    assert!(matches!(&out[..], [Outgoing::Message { message: Message::FlowRemoved(r), .. }] if r.reason == 3));
}

#[test]
fn groups_lead_to_groups_and_watch_them() {
    let mut tested = TestSwitch::new(Version::Of13);
    let output = |port| vec![Action::output(PortNo(port))];
    let bucket = |watch_port, watch_group, actions| Bucket { weight: 0, watch_port, watch_group, actions };
    let add = |kind, group, buckets| Message::GroupMod(GroupMod { command: 0, kind, group, buckets });
    let through = |group| vec![Action::Group(group)];
    assert_eq!(error(&mut tested, add(3, 1, vec![bucket(PortNo::ANY, u32::MAX, output(2))])), (6, 1));
    assert_eq!(error(&mut tested, add(0, 1, vec![bucket(PortNo(2), u32::MAX, output(2))])), (6, 6));
    assert!(tested.say(add(3, 1, vec![bucket(PortNo(2), u32::MAX, output(2))])).is_empty());
    let fallback = vec![bucket(PortNo::ANY, 1, through(1)), bucket(PortNo(3), u32::MAX, output(3))];
    assert!(tested.say(add(3, 2, fallback)).is_empty());
    assert!(tested.say(add(0, 3, vec![bucket(PortNo::ANY, u32::MAX, through(3))])).is_empty(), "in itself");
    let rule = |priority, group| {
        let instructions = vec![Instruction::ApplyActions(through(group))];
        Message::FlowMod(FlowMod::new(FlowModCommand::Add, priority, Match::any(), instructions))
    };
    tested.say(rule(1, 2));
    assert_eq!(tested.send(1, &tcp(80)), ["2"]);
    tested.switch.set_link(PortNo(2), false);
    assert_eq!(tested.send(1, &tcp(80)), ["3"], "no bucket of the watched group is live");
    tested.say(rule(2, 3));
    assert!(tested.send(1, &tcp(80)).is_empty());
    assert_eq!(tested.switch.record().lost, [Lost::TooDeep]);
}

#[test]
fn statistics_say_what_went_through() {
    for version in [Version::Of10, Version::Of13] {
        let mut tested = TestSwitch::new(version);
        tested.run("add 5 cookie=3 idle=9 in_port=1 -> 2\n add 4 -> 3");
        (0..3).for_each(|_| drop(tested.send(1, &tcp(80))));
        tested.now = 3 * SECOND / 2;
        let bytes = 3 * tcp(80).len() as u64;
        let ReplyBody::Flow(flows) = stats(&mut tested, RequestBody::Flow(all_flows())) else { panic!() };
        assert_eq!(flows.len(), 2);
        let f = &flows[0];
        assert_eq!((f.priority, f.cookie, f.idle_timeout, f.packet_count, f.byte_count), (5, 3, 9, 3, bytes));
        assert_eq!((f.duration_sec, f.duration_nsec), (1, 500_000_000));
        let to_3 = FlowStatsRequest { out_port: PortNo(3), ..all_flows() };
        let ReplyBody::Flow(flows) = stats(&mut tested, RequestBody::Flow(to_3)) else { panic!() };
        assert_eq!(flows.iter().map(|f| f.priority).collect::<Vec<_>>(), [4]);
        let ReplyBody::Aggregate(sum) = stats(&mut tested, RequestBody::Aggregate(all_flows())) else { panic!() };
        assert_eq!((sum.flow_count, sum.packet_count), (2, 3));
        let ReplyBody::Table(tables) = stats(&mut tested, RequestBody::Table) else { panic!() };
        assert_eq!((tables[0].active_count, tables[0].lookup_count, tables[0].matched_count), (2, 3, 3));
        let ReplyBody::Port(ports) = stats(&mut tested, RequestBody::Port(PortNo::ANY)) else { panic!() };
        assert_eq!((ports.len(), ports[0].rx_packets, ports[1].tx_bytes), (4, 3, bytes));
        let queues = QueueStatsRequest { port: PortNo::ANY, queue: u32::MAX };
        assert_eq!(stats(&mut tested, RequestBody::Queue(queues)), ReplyBody::Queue(vec![]));
        assert!(matches!(stats(&mut tested, RequestBody::Desc), ReplyBody::Desc(_)));
    }
}

#[test]
fn replies_can_be_written_whatever_was_asked() {
    let mut tested = TestSwitch::new(Version::Of13);
    let bodies = [
        RequestBody::PortDesc,
        RequestBody::GroupDesc,
        RequestBody::GroupFeatures,
        RequestBody::Group(0xffff_fffc),
        RequestBody::Meter(u32::MAX),
        RequestBody::MeterConfig(u32::MAX),
        RequestBody::MeterFeatures,
        RequestBody::TableFeatures(vec![]),
        RequestBody::Table,
    ];
    for body in bodies {
        let reply = Message::StatsReply(StatsReply::new(stats(&mut tested, body)));
        let bytes = reply.to_bytes(Version::Of13, 7).unwrap();
        assert_eq!(Message::decode(&bytes).unwrap().1, reply);
    }
    let unknown = StatsRequest::new(RequestBody::Unknown { kind: 99, body: vec![] });
    assert_eq!(error(&mut tested, Message::StatsRequest(unknown)), (1, 2));
}

#[test]
fn many_rules_come_in_several_replies() {
    let mut tested =
        TestSwitch::with(Version::Of13, SwitchOptions { n_tables: 1, table_size: 5_000, ..SwitchOptions::default() });
    for n in 0..2_000u32 {
        let matching = Match::any().exact(Field::InPort, u128::from(n));
        tested.say(Message::FlowMod(FlowMod::new(FlowModCommand::Add, 1, matching, vec![])));
    }
    let replies = tested.say(Message::StatsRequest(StatsRequest::new(RequestBody::Flow(all_flows()))));
    let mut count = 0;
    for (i, reply) in replies.iter().enumerate() {
        let Outgoing::Message { xid: 7, message, .. } = reply else { panic!("{reply:?}") };
        message.encode(Version::Of13, 7, &mut Vec::new()).unwrap();
        let Message::StatsReply(StatsReply { flags, body: ReplyBody::Flow(flows) }) = message else { panic!() };
        assert_eq!(*flags == 0, i + 1 == replies.len());
        count += flows.len();
    }
    assert!(replies.len() > 1 && count == 2_000);
}

#[test]
fn port_mods_change_ports_and_are_reported() {
    let mut tested = TestSwitch::new(Version::Of13);
    let hw_addr = tested.switch.ports()[&PortNo(2)].description.hw_addr;
    let down = PortMod { port: PortNo(2), hw_addr, config: 1, mask: 1, advertise: 0 };
    assert!(matches!(answer_unasked(&mut tested, Message::PortMod(down)), Message::PortStatus(s) if !s.port.is_up()));
    assert!(tested.say(Message::PortMod(down)).is_empty(), "nothing changes");
    assert_eq!(error(&mut tested, Message::PortMod(PortMod { port: PortNo(9), ..down })), (7, 0));
    assert_eq!(error(&mut tested, Message::PortMod(PortMod { hw_addr: [9; 6], ..down })), (7, 1));
}

fn answer_unasked(tested: &mut TestSwitch, request: Message) -> Message {
    match tested.say(request).pop() {
        Some(Outgoing::Message { xid: 0, message, .. }) => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn bytes_that_make_no_sense_are_answered_with_an_error_that_repeats_them() {
    let mut tested = TestSwitch::new(Version::Of13);
    let mut reply = |bytes: &[u8]| match &tested.switch.receive_bytes(0, bytes)[..] {
        [Outgoing::Message { xid, message: Message::Error(e), .. }, rest @ ..] => {
            assert!(bytes.starts_with(&e.data) && e.data.len() >= bytes.len().min(64));
            (*xid, e.kind, e.code, rest.len())
        }
        other => panic!("{other:?}"),
    };
    let long = [&[4, 14, 0, 200, 0, 0, 0, 9][..], &[0xff; 192]].concat();
    assert_eq!(reply(&[4, 14, 0, 12, 0, 0, 0, 9, 0, 0, 0, 0]), (9, 1, 6, 0), "a flow-mod of twelve bytes");
    assert_eq!(reply(&[4, 99, 0, 8, 0, 0, 0, 9]), (9, 1, 1, 0), "no such type");
    assert_eq!(reply(&[1, 5, 0, 8, 0, 0, 0, 9]), (9, 1, 0, 0), "another version");
    assert_eq!(reply(&[9, 5, 0, 8, 0, 0, 0, 9]), (9, 1, 0, 0), "an unknown version");
    assert_eq!(reply(&[4, 5, 0, 3, 0, 0, 0, 9]).3, 1, "a length below the header's: nothing more can be read");
    assert_eq!(reply(&long).0, 9);
}

#[test]
fn a_part_of_another_length_is_refused_as_that_part() {
    let mut tested = TestSwitch::new(Version::Of13);
    let mut reply = |parts: &[&[u8]]| {
        let mut bytes = [&[4, 14, 0, 0, 0, 0, 0, 9][..], &[0; 40], &parts.concat()].concat();
        bytes[3] = bytes.len() as u8;
        match &tested.switch.receive_bytes(0, &bytes)[..] {
            [Outgoing::Message { message: Message::Error(e), .. }] => (e.kind, e.code),
            other => panic!("{other:?}"),
        }
    };
    let any = [0, 1, 0, 4, 0, 0, 0, 0];
    assert_eq!(reply(&[&[0, 1, 0, 9, 0x80, 0, 0x0a, 1, 8, 0, 0, 0, 0, 0, 0, 0]]), (4, 6), "eth_type");
    assert_eq!(reply(&[&[0, 0, 0, 4, 0, 0, 0, 0]]), (4, 1), "another type of match");
    assert_eq!(reply(&[&any, &[0, 5, 0, 4, 0, 0, 0, 0]]), (3, 7), "clear-actions");
    assert_eq!(reply(&[&any, &[0, 4, 0, 16, 0, 0, 0, 0], &[0, 18, 0, 4, 0, 0, 0, 0]]), (2, 1), "pop-vlan");
    let set_eth_type = [0, 25, 0, 16, 0x80, 0, 0x0a, 1, 8, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(reply(&[&any, &[0, 4, 0, 24, 0, 0, 0, 0], &set_eth_type]), (2, 14));
    assert_eq!(reply(&[&any, &[0, 4, 0, 20, 0, 0, 0, 0], &[0, 18, 0, 12], &[0; 8]]), (1, 6), "no multiple of 8");
}

#[test]
fn random_bytes_never_break_a_switch() {
    let mut state = 11u64;
    let mut below = |bound: u64| {
        // The generator of Knuth's MMIX; its high bits are the good ones.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    for version in [Version::Of10, Version::Of13] {
        let mut tested = TestSwitch::new(version);
        for _ in 0..20_000 {
            let length = 8 + below(80) as usize;
            let mut bytes: Vec<u8> = (0..length).map(|_| below(256) as u8 & below(256) as u8).collect();
            bytes[..4].copy_from_slice(&[version as u8, below(30) as u8, 0, length as u8]);
            for item in tested.switch.receive_bytes(0, &bytes) {
                if let Outgoing::Message { xid, message, .. } = item {
                    message.encode(version, xid, &mut Vec::new()).unwrap();
                }
            }
        }
    }
}
