//! Tests of a switch that connects to another shard before this shard has noticed its disconnection, and of the end of
//! a shard that hands its switches over.

use std::sync::Arc;

use maple_wire::msg::{PacketIn, PortReason, PortStatus};
use maple_wire::{Dpid, Port, PortNo, Version};

use crate::engine::testing::switch_up;
use crate::engine::{Effect, Engine, Event, Options};
use crate::ids::{ShardId, Time};
use crate::network::Location;
use crate::policy::{Net, PacketHandle};
use crate::report::Report;
use crate::route::Route;
use crate::state::Store;

const SWITCH: Dpid = Dpid(7);

fn up() -> Event {
    switch_up(SWITCH, Version::Of13, 254, vec![Port::new(PortNo(1), [2; 6], "eth1")])
}

#[test]
fn a_shard_that_loses_a_switch_keeps_what_another_shard_has_written_about_it() {
    let store = Store::new();
    let policy = |_: &PacketHandle, _: &Net| Route::drop();
    let [mut old, mut new] =
        [0, 1].map(|id| Engine::new(ShardId(id), store.clone(), Arc::new(policy), Options::default()));
    let mut out = Vec::new();
    old.handle(Time(1), &mut vec![up()], &mut out);
    new.handle(Time(2), &mut vec![up()], &mut out);
    out.clear();
    old.handle(Time(3), &mut vec![Event::SwitchDown { dpid: SWITCH }], &mut out);
    let state = store.snapshot();
    assert_eq!(state.shard_of(SWITCH), Some(ShardId(1)));
    assert!(state.port(Location::new(SWITCH, PortNo(1))).is_some());
    let down = |effect: &Effect| matches!(effect, Effect::Report(Report::SwitchDown(_)));
    assert!(!out.iter().any(down), "it is up: {out:?}");
    // The old shard no longer owns anything of it.
    let status = PortStatus { reason: PortReason::Delete, port: Port::new(PortNo(1), [2; 6], "eth1") };
    old.handle(Time(4), &mut vec![Event::PortStatus { dpid: SWITCH, status }], &mut out);
    assert!(store.snapshot().port(Location::new(SWITCH, PortNo(1))).is_some());
    new.handle(Time(5), &mut vec![Event::SwitchDown { dpid: SWITCH }], &mut out);
    assert_eq!(store.snapshot().shard_of(SWITCH), None);
    assert!(out.iter().any(down));
}

#[test]
fn at_the_end_packets_of_new_ports_are_taken_as_they_came() {
    let policy = |_: &PacketHandle, _: &Net| Route::drop();
    let mut engine = Engine::new(ShardId(0), Store::new(), Arc::new(policy), Options::default());
    let packet_in = PacketIn { total_len: 100, ..PacketIn::new(1, vec![7; 60]) };
    let arrived = Event::PacketIn { dpid: SWITCH, packet_in: packet_in.clone() };
    let mut out = Vec::new();
    engine.handle(Time(1), &mut vec![up(), arrived], &mut out);
    assert_eq!(engine.take_unanswered(), [(SWITCH, packet_in)]);
    assert_eq!(engine.take_unanswered(), [], "only once");
}
