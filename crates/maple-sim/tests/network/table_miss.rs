//! The table-miss rule of a switch's first table, without which it drops what no other rule takes: other rules never
//! take its room.

use std::time::Duration;

use maple_core::engine::Options;
use maple_sim::{SimNetwork, SimSwitch};
use maple_wire::{Dpid, Version};

use crate::look_ups::{check_all, network, write};

const ONE: Dpid = Dpid(1);

/// Creates a switch whose rules take packets between three hosts.
fn in_use(version: Version, tables: u8) -> SimNetwork {
    let mut switch = SimSwitch::new(ONE, version);
    switch.model.change_options(|options| options.n_tables = tables);
    let mut sim = network(switch, &Options::default());
    write(&mut sim, "groups", (0..3).map(|n| (n, Some(n as i64))));
    write(&mut sim, "ports", (0..3).map(|n| (n, Some(1 + n as i64))));
    check_all(&mut sim, 0..3);
    sim
}

fn set_capacity(sim: &mut SimNetwork, rules: usize) {
    sim.switch(ONE).expect("a switch").model.change_options(|options| options.capacity = rules);
}

/// Returns the place of the first table's table-miss rule among the rules of the switch.
fn first_miss(sim: &mut SimNetwork) -> Option<usize> {
    let flows = sim.switch(ONE).expect("a switch").flows();
    flows.iter().position(|flow| (flow.table_id, flow.priority) == (0, 0))
}

#[test]
fn a_switch_that_comes_back_with_room_for_few_rules_loses_no_packet() {
    for (version, tables) in [(Version::Of13, 254), (Version::Of13, 1), (Version::Of10, 1)] {
        for capacity in 1..40 {
            let mut sim = in_use(version, tables);
            sim.restart(ONE);
            set_capacity(&mut sim, capacity);
            sim.run_for(Duration::from_secs(2));
            sim.settle_ports();
            sim.run();
            assert!(first_miss(&mut sim).is_some(), "{version}, {tables} tables, {capacity} rules");
            check_all(&mut sim, 0..3);
        }
    }
}

#[test]
fn leaves_of_a_full_switch_give_way_to_a_table_miss_rule_that_was_lost() {
    for (version, tables) in [(Version::Of13, 254), (Version::Of13, 1), (Version::Of10, 1)] {
        let mut sim = in_use(version, tables);
        let lost = first_miss(&mut sim).expect("it is there at first");
        sim.lose_rule(ONE, lost);
        let rules = sim.switch(ONE).expect("a switch").flows().len();
        set_capacity(&mut sim, rules);
        // After a pause of a second it is tried again.
        sim.run_for(Duration::from_secs(2));
        assert!(first_miss(&mut sim).is_some(), "{version}, {tables} tables");
        check_all(&mut sim, 0..3);
        assert!(first_miss(&mut sim).is_some(), "{version}, {tables} tables");
    }
}
