//! Tests of switches that refuse rules.

use std::sync::Arc;

use maple_wire::msg::ErrorMsg;
use maple_wire::{Dpid, Message, Version};

use crate::engine::testing::switch_up;
use crate::engine::{Effect, Engine, Event, Options};
use crate::ids::{ShardId, Time};
use crate::policy::{Net, PacketHandle};
use crate::route::Route;
use crate::state::Store;

const SWITCH: Dpid = Dpid(7);

/// Creates an engine with one switch that has no rules yet, and the first flow-mod for it.
fn with_flow_mod() -> (Engine, u32) {
    let policy = |_: &PacketHandle, _: &Net| Route::drop();
    let mut engine = Engine::new(ShardId(0), Store::new(), Arc::new(policy), Options::default());
    let mut out = Vec::new();
    engine.handle(
        Time(1),
        &mut vec![switch_up(SWITCH, Version::Of13, 254, vec![]), Event::RulesRead { dpid: SWITCH, rules: vec![] }],
        &mut out,
    );
    let xid = out.iter().find_map(|effect| match effect {
        Effect::Send { xid, message: Message::FlowMod(_), .. } => Some(*xid),
        _ => None,
    });
    (engine, xid.expect("a switch has rules from the start"))
}

#[test]
fn repeated_refusals_of_one_rule_count_once() {
    let (mut engine, xid) = with_flow_mod();
    let refusal = || Event::SwitchError { dpid: SWITCH, xid, error: ErrorMsg { kind: 5, code: 0, data: vec![] } };
    let mut out = Vec::new();
    for n in 0..1000 {
        engine.handle(Time(2 + n), &mut vec![refusal()], &mut out);
    }
    assert_eq!(engine.view().stats().refused_rules, 1);
    let readings = out.iter().filter(|effect| matches!(effect, Effect::ReadRules { .. })).count();
    assert_eq!((readings, out.len()), (1, 2), "and one report: {out:?}");
}
