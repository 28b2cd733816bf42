//! Several controllers of one switch: who may change it, and who is notified of what.

use maple_wire::msg::{AsyncConfig, Experimenter, Hello, Role, SwitchConfig};

use super::*;

const A: ControllerId = ControllerId(0);
const B: ControllerId = ControllerId(1);
const C: ControllerId = ControllerId(2);

/// Creates a switch with this number of controllers.
fn switch(version: Version, controllers: u16) -> Switch {
    let mut switch = Switch::new(Dpid(1), version, SwitchOptions::default());
    (1..=4).for_each(|port| drop(switch.add_port(0, PortNo(port))));
    (0..controllers).for_each(|number| connect(&mut switch, ControllerId(number)));
    switch
}

fn connect(switch: &mut Switch, controller: ControllerId) {
    assert!(
        matches!(switch.connect_to(controller)[..], [Outgoing::Message { controller: to, .. }] if to == controller)
    );
    let version = switch.version() as u8;
    assert_eq!(say(switch, controller, Message::Hello(Hello { version, elements: vec![] })), []);
    assert!(switch.is_connected_to(controller));
}

/// Sends a message. Returns who hears what.
fn say(switch: &mut Switch, from: ControllerId, message: Message) -> Vec<(ControllerId, Message)> {
    let header = Header { version: switch.version() as u8, kind: 0, length: 8, xid: 7 };
    heard(switch.handle_message_from(from, 0, header, message))
}

fn heard(out: Vec<Outgoing>) -> Vec<(ControllerId, Message)> {
    let message = |item| match item {
        Outgoing::Message { controller, message, .. } => (controller, message),
        other => panic!("{other:?}"),
    };
    out.into_iter().map(message).collect()
}

/// Asks for a role. Returns the error, if it is refused.
fn ask(switch: &mut Switch, from: ControllerId, role: u32, generation_id: u64) -> Result<Role, (u16, u16)> {
    match &say(switch, from, Message::RoleRequest(Role { role, generation_id }))[..] {
        [(to, Message::RoleReply(role))] if *to == from => Ok(*role),
        [(to, Message::Error(error))] if *to == from => Err((error.kind, error.code)),
        other => panic!("{other:?}"),
    }
}

/// Returns the error by which a switch refuses a slave's changes.
fn is_slave(switch: &Switch) -> (u16, u16) {
    (1, if switch.version() == Version::Of10 { 5 } else { 10 })
}

/// Sends a packet. Reports whether the switch takes it.
fn sends(switch: &mut Switch, from: ControllerId) -> bool {
    let (in_port, actions, data) = (PortNo::ANY, vec![], tcp(80));
    match &say(switch, from, Message::PacketOut(PacketOut { buffer_id: NO_BUFFER, in_port, actions, data }))[..] {
        [] => true,
        [(to, Message::Error(error))] if *to == from && (error.kind, error.code) == is_slave(switch) => false,
        other => panic!("{other:?}"),
    }
}

/// Creates Nicira's request for a role, or the reply to it.
fn nicira(kind: u32, role: u32) -> Message {
    let body = [kind, role].iter().flat_map(|number| number.to_be_bytes()).collect();
    Message::Experimenter(Experimenter { id: 0x2320, body })
}

/// Adds a rule. Reports whether the switch takes it.
fn adds(switch: &mut Switch, from: ControllerId) -> bool {
    let rule = FlowMod::new(FlowModCommand::Add, 1, Match::any(), vec![]);
    match &say(switch, from, Message::FlowMod(rule))[..] {
        [] => true,
        [(to, Message::Error(error))] if *to == from && (error.kind, error.code) == is_slave(switch) => false,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stale_master_changes_nothing() {
    let mut switch = switch(Version::Of13, 2);
    ask(&mut switch, A, Role::MASTER, 5).unwrap();
    assert!(adds(&mut switch, A));
    ask(&mut switch, B, Role::MASTER, 6).unwrap();
    assert!(!adds(&mut switch, A), "it was made a slave");
    assert!(!sends(&mut switch, A) && sends(&mut switch, B));
    for role in [Role::MASTER, Role::SLAVE] {
        assert_eq!(ask(&mut switch, A, role, 5), Err((11, 0)));
    }
    // A new connection begins as an equal, so only a request to be a slave keeps it from changing the switch.
    connect(&mut switch, A);
    assert_eq!(ask(&mut switch, A, Role::MASTER, 5), Err((11, 0)));
    assert!(adds(&mut switch, A));
    ask(&mut switch, A, Role::SLAVE, 6).unwrap();
    assert!(!adds(&mut switch, A) && adds(&mut switch, B));
}

#[test]
fn generations_wrap_round_and_outlive_connections_but_no_restart() {
    let mut switch = switch(Version::Of13, 1);
    assert_eq!(ask(&mut switch, A, Role::NOCHANGE, 0), Ok(Role { role: Role::EQUAL, generation_id: u64::MAX }));
    ask(&mut switch, A, Role::MASTER, u64::MAX).unwrap();
    ask(&mut switch, A, Role::MASTER, 3).unwrap();
    assert_eq!(ask(&mut switch, A, Role::MASTER, u64::MAX), Err((11, 0)));
    switch.disconnect_from(A);
    connect(&mut switch, A);
    assert_eq!(switch.generation(), Some(3));
    assert_eq!(ask(&mut switch, A, Role::MASTER, 2), Err((11, 0)));
    switch.restart();
    connect(&mut switch, A);
    ask(&mut switch, A, Role::MASTER, 2).unwrap();
}

#[test]
fn each_controller_chooses_the_messages_that_it_gets() {
    let mut switch = switch(Version::Of13, 3);
    ask(&mut switch, A, Role::MASTER, 1).unwrap();
    ask(&mut switch, B, Role::SLAVE, 1).unwrap();
    say(&mut switch, A, Message::FlowMod(flow_mod("add 0 flags=1 -> controller")));
    let to = |heard: Vec<(ControllerId, Message)>| heard.into_iter().map(|(to, _)| to).collect::<Vec<_>>();
    assert_eq!(to(heard(switch.receive(0, PortNo(1), tcp(80)))), [A, C], "an equal is notified as a master is");
    assert_eq!(switch.counters().packet_ins, 2);
    assert_eq!(to(heard(switch.set_link(PortNo(2), false))), [A, B, C]);

    let deaf = AsyncConfig { packet_in: [0, 1], port_status: [7, 0], flow_removed: [0, 0b100] };
    say(&mut switch, B, Message::SetAsync(deaf));
    assert_eq!(to(heard(switch.receive(0, PortNo(1), tcp(80)))), [A, B, C]);
    assert_eq!(to(heard(switch.set_link(PortNo(2), true))), [A, C]);
    assert_eq!(to(say(&mut switch, A, Message::FlowMod(flow_mod("delete 0 -> ")))), [A, B, C]);
    switch.disconnect_from(A);
    assert!(switch.is_connected() && !switch.is_connected_to(A));
    assert_eq!(to(heard(switch.set_link(PortNo(2), false))), [C]);
}

#[test]
fn a_bundle_of_a_master_that_was_replaced_is_not_committed() {
    let mut switch = switch(Version::Of13, 2);
    ask(&mut switch, A, Role::MASTER, 1).unwrap();
    let control = |kind| Message::BundleControl(maple_wire::msg::BundleControl { bundle: 1, kind, flags: 0 });
    say(&mut switch, A, control(maple_wire::msg::BundleControl::OPEN));
    let message = Box::new(Message::FlowMod(flow_mod("add 1 -> 1")));
    say(&mut switch, A, Message::BundleAdd(maple_wire::msg::BundleAdd { bundle: 1, flags: 0, message }));
    ask(&mut switch, B, Role::MASTER, 2).unwrap();
    let refused = say(&mut switch, A, control(maple_wire::msg::BundleControl::COMMIT));
    assert!(matches!(&refused[..], [(A, Message::Error(error))] if (error.kind, error.code) == (1, 10)));
    assert_eq!(switch.tables()[0].rules().len(), 0);
    // The number of a bundle is one of its connection.
    assert!(matches!(
        &say(&mut switch, B, control(maple_wire::msg::BundleControl::OPEN))[..],
        [(B, Message::BundleControl(_))]
    ));
}

#[test]
fn in_1_0_the_last_controller_that_asks_is_master() {
    let mut switch = switch(Version::Of10, 2);
    let role = |switch: &mut Switch, from, role: u32| {
        assert_eq!(say(switch, from, nicira(10, role)), [(from, nicira(11, role))]);
    };
    role(&mut switch, A, 1);
    role(&mut switch, B, 1);
    assert!(!adds(&mut switch, A) && adds(&mut switch, B), "the last one that asks is master");
    assert!(!sends(&mut switch, A) && sends(&mut switch, B));
    role(&mut switch, A, 1);
    assert!(adds(&mut switch, A) && !adds(&mut switch, B));
    assert_eq!(heard(switch.set_link(PortNo(2), false)).len(), 2);
}

#[test]
fn a_role_without_a_generation_unseats_a_master_where_open_vswitch_gives_it() {
    for open_vswitch in [false, true] {
        let mut switch =
            Switch::new(Dpid(1), Version::Of13, SwitchOptions { open_vswitch, ..SwitchOptions::default() });
        (0..2).for_each(|number| connect(&mut switch, ControllerId(number)));
        ask(&mut switch, A, Role::MASTER, 1_000).unwrap();
        assert_eq!(ask(&mut switch, B, Role::MASTER, 999), Err((11, 0)));
        let heard = say(&mut switch, B, nicira(10, 1));
        if open_vswitch {
            assert!(matches!(&heard[..], [(A, Message::Experimenter(_)), (B, reply)] if *reply == nicira(11, 1)));
        } else {
            assert!(matches!(&heard[..], [(B, Message::Error(error))] if (error.kind, error.code) == (1, 3)));
        }
        assert_eq!((adds(&mut switch, A), switch.generation()), (!open_vswitch, Some(1_000)));
    }
}

#[test]
fn a_request_of_nicira_s_has_its_length() {
    let mut switch = switch(Version::Of10, 1);
    let request = [0, 0, 0, 10, 0, 0, 0, 1, 0];
    for (body, wanted) in [(&request[..], (1, 6)), (&request[..4], (1, 6)), (&[], (1, 6)), (&[0, 0, 0, 77], (1, 3))] {
        let body = body.to_vec();
        let refused = say(&mut switch, A, Message::Experimenter(Experimenter { id: 0x2320, body }));
        assert!(
            matches!(&refused[..], [(A, Message::Error(error))] if (error.kind, error.code) == wanted),
            "{refused:?}"
        );
    }
}

#[test]
fn a_generation_half_way_round_is_stale_from_both_sides() {
    for (first, then) in [(0, 1 << 63), (1 << 63, 0), (7, 7 + (1 << 63))] {
        let mut switch = switch(Version::Of13, 1);
        ask(&mut switch, A, Role::MASTER, first).unwrap();
        assert_eq!(ask(&mut switch, A, Role::MASTER, then), Err((11, 0)));
        ask(&mut switch, A, Role::MASTER, first.wrapping_add((1 << 63) - 1)).unwrap();
    }
}

#[test]
fn fragments_are_treated_as_set_for_the_switch_and_the_rest_as_set_for_the_connection() {
    let config = |flags, miss_send_len| SwitchConfig { flags, miss_send_len };
    let got = |switch: &mut Switch, from| match say(switch, from, Message::GetConfigRequest).pop() {
        Some((_, Message::GetConfigReply(config))) => config,
        other => panic!("{other:?}"),
    };
    for open_vswitch in [false, true] {
        let mut switch =
            Switch::new(Dpid(1), Version::Of13, SwitchOptions { open_vswitch, ..SwitchOptions::default() });
        (0..2).for_each(|number| connect(&mut switch, ControllerId(number)));
        ask(&mut switch, A, Role::MASTER, 1).unwrap();
        ask(&mut switch, B, Role::SLAVE, 1).unwrap();
        assert_eq!(got(&mut switch, A), config(0, 128));
        assert_eq!(say(&mut switch, A, Message::SetConfig(config(0, 500))), []);
        assert_eq!(say(&mut switch, B, Message::SetConfig(config(1, 70))), []);
        let chosen = u16::from(!open_vswitch);
        assert_eq!((got(&mut switch, A), got(&mut switch, B)), (config(chosen, 500), config(chosen, 70)));
        assert_eq!(say(&mut switch, A, Message::SetConfig(config(1, 500))), []);
        connect(&mut switch, A);
        assert_eq!((got(&mut switch, A), got(&mut switch, B)), (config(1, 128), config(1, 70)));
    }
    let mut switch = switch(Version::Of10, 2);
    assert_eq!(say(&mut switch, A, Message::SetConfig(config(5, 500))), []);
    assert_eq!((got(&mut switch, A), got(&mut switch, B)), (config(5, 500), config(1, 128)));
}
