//! Routes under limits: meters are added before the rules that name them, and deleted when no rule needs them.

use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::{Event, Options};
use maple_core::network::{Location, Mac};
use maple_core::policy::{Net, PacketHandle};
use maple_core::report::Report;
use maple_core::route::{Limit, Route};
use maple_core::state::{Value, Write};
use maple_sim::SimNetwork;
use maple_wire::packet::build::Frame;
use maple_wire::{Dpid, Field, Instruction, PortNo, Version};

const A: Mac = Mac([0, 0, 0, 0, 0, 0xa]);
const B: Mac = Mac([0, 0, 0, 0, 0, 0xb]);

/// Floods under a limit for each class of UDP ports, unless it is closed.
fn limited(pkt: &PacketHandle, net: &Net) -> Route {
    if net.var("closed").is_some() {
        return Route::drop();
    }
    let class = pkt.get(Field::UdpDst).unwrap_or_default() / 1000;
    Route::flood().limit(Limit::kilobits(format!("class {class}"), 1000 * (1 + class as u32)))
}

fn network(version: Version, takes_meters: bool) -> SimNetwork {
    let mut sim = SimNetwork::new(Arc::new(limited), 1, &Options::default(), 7);
    let mut switch = maple_sim::SimSwitch::new(Dpid(1), version);
    switch.takes_meters = takes_meters;
    sim.connect(switch, (1..=2).map(PortNo));
    sim.settle();
    sim
}

/// Returns the number of copies of a packet to this port that come out.
fn send(sim: &mut SimNetwork, dst: u16) -> usize {
    let frame = Frame::ethernet(B.0, A.0).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1000, dst).payload(b"hello");
    sim.inject(Location::new(Dpid(1), PortNo(1)), frame);
    sim.run_for(Duration::from_secs(1));
    std::mem::take(&mut sim.delivered).len()
}

/// Returns the rates of the switch's meters, in kilobits per second.
fn rates(sim: &mut SimNetwork) -> Vec<u32> {
    sim.switch(Dpid(1)).unwrap().model.meters().flat_map(|(_, meter)| meter.bands()).map(|band| band.rate).collect()
}

fn reported(sim: &SimNetwork) -> Vec<String> {
    let is_of_meters = |report: &&Report| matches!(report, Report::NotMetered { .. });
    sim.reports.iter().filter(is_of_meters).map(ToString::to_string).collect()
}

#[test]
fn routes_of_one_limit_share_a_meter_which_goes_with_the_last_of_them() {
    let mut sim = network(Version::Of13, true);
    for dst in [53, 80, 1001, 1002, 53] {
        assert_eq!(send(&mut sim, dst), 1);
    }
    assert_eq!(rates(&mut sim), [1000, 2000]);
    let metered = |sim: &mut SimNetwork| {
        let flows = sim.switch(Dpid(1)).unwrap().flows();
        flows.iter().filter(|flow| matches!(flow.instructions.first(), Some(Instruction::Meter(_)))).count()
    };
    assert_eq!(metered(&mut sim), 4, "a rule for each port");
    sim.report(Event::Write(vec![Write::Var { name: "closed".into(), value: Some(Value::from(true)) }]));
    sim.run_for(Duration::from_secs(5));
    assert_eq!((metered(&mut sim), rates(&mut sim).len()), (0, 2), "they rest for a while");
    sim.run_for(Duration::from_secs(30));
    assert_eq!(rates(&mut sim), [0; 0]);
    assert_eq!(reported(&sim), [""; 0]);
}

#[test]
fn a_switch_that_takes_no_meters_still_forwards_and_people_are_notified_once() {
    for version in [Version::Of13, Version::Of10] {
        let mut sim = network(version, false);
        for dst in [53, 80, 1001, 53, 80] {
            assert_eq!(send(&mut sim, dst), 1, "{version}");
        }
        let reported = reported(&sim);
        assert_eq!(reported.len(), 1, "{reported:?}");
        assert!(reported[0].ends_with("packets are not limited there"), "{reported:?}");
    }
}

#[test]
fn a_switch_that_returns_with_its_meters_gets_them_right() {
    let mut sim = network(Version::Of13, true);
    assert_eq!(send(&mut sim, 1001), 1);
    assert_eq!(rates(&mut sim), [2000]);
    sim.restart(Dpid(1));
    sim.run_for(Duration::from_secs(2));
    sim.settle_ports();
    sim.run();
    assert_eq!(send(&mut sim, 53), 1, "another limit, under the number that the first one had");
    assert_eq!(rates(&mut sim), [1000]);
    assert_eq!(reported(&sim), [""; 0]);
}
