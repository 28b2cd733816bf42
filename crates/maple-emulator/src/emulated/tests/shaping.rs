//! Links that lose and delay, ports and queues with rates.

use maple_switch::QueueRates;

use super::*;

/// Sends frames of this many bytes one after the other, with a pause of `apart` after each.
fn stream(network: &mut EmulatedNetwork, count: u64, bytes: usize, apart: Nanoseconds) -> Vec<FrameId> {
    let frame = |n: u64| {
        let payload: Vec<u8> = n.to_be_bytes().into_iter().cycle().take(bytes - 14).collect();
        Frame::ethernet([0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, 1]).raw(0x88b5, &payload)
    };
    let send = |n| {
        let id = network.inject_from("h1", frame(n)).unwrap();
        network.run_for(apart);
        id
    };
    (0..count).map(send).collect()
}

fn arrived(network: &EmulatedNetwork, ids: &[FrameId]) -> usize {
    ids.iter().filter(|id| !network.log().egress(**id).is_empty()).count()
}

fn line(text: &str) -> EmulatedNetwork {
    let topology = Topology::parse(text).unwrap();
    let mut network = greeted(&topology, Version::Of13);
    program(&mut network, &topology);
    network
}

#[test]
fn a_link_loses_its_share_and_one_seed_loses_the_same() {
    let run = || {
        let mut network = line("linear:2,loss=10%");
        let ids = stream(&mut network, 1000, 100, MILLISECOND);
        let lost = |id: &&FrameId| network.log().egress(**id).is_empty();
        let lost: Vec<FrameId> = ids.iter().filter(lost).copied().collect();
        let why = Outcome::Dropped(Dpid(1), Drop::Loss);
        assert!(lost.iter().all(|id| network.log().of_frame(*id).map(|d| &d.outcome).eq([&why])));
        lost
    };
    let lost = run();
    assert!((70..130).contains(&lost.len()), "{}", lost.len());
    assert_eq!(lost, run());
}

#[test]
fn delay_and_loss_of_a_link_can_be_changed() {
    let mut network = line("linear:2");
    network.set_link_delay(Dpid(2), Dpid(1), 20 * MILLISECOND).unwrap();
    let sent = network.now();
    let id = network.inject_from("h1", unique(1)).unwrap();
    network.run_for(SECOND);
    let took = network.log().of_frame(id).next().unwrap().at - sent;
    assert!((20 * MILLISECOND..21 * MILLISECOND).contains(&took), "{took}");
    network.set_link_loss(Dpid(1), Dpid(2), 1.0).unwrap();
    let ids = stream(&mut network, 10, 100, MILLISECOND);
    assert_eq!(arrived(&network, &ids), 0);
    assert_eq!(network.set_link_loss(Dpid(1), Dpid(2), 1.5), Err(NetworkError::BadLoss(1.5)));
    assert_eq!(network.set_link_loss(Dpid(1), Dpid(9), 0.5), Err(NetworkError::NoLink(Dpid(1), Dpid(9))));
}

#[test]
fn a_link_carries_its_rate_and_queues_before_it_drops() {
    let mut network = line("linear:2,rate=1mbit");
    // A frame of 1000 bytes takes 8 ms: a hundred wait, the rest is lost.
    let ids = stream(&mut network, 300, 1000, MILLISECOND);
    network.run_for(2 * SECOND);
    let through = arrived(&network, &ids);
    assert!((100 + 300 / 8..=102 + 300 / 8).contains(&through), "{through}");
    let port = &network.switch(Dpid(1)).unwrap().ports()[&PortNo(2)];
    assert_eq!((port.counters.tx_packets, port.counters.tx_dropped), (through as u64, 300 - through as u64));
    network.set_link_rate(Dpid(1), Dpid(2), None).unwrap();
    let ids = stream(&mut network, 300, 1000, MILLISECOND);
    assert_eq!(arrived(&network, &ids[..299]), 299);
}

#[test]
fn packets_of_a_queue_keep_to_its_rate() {
    let mut network = line("linear:2");
    let rates = QueueRates { min: None, max: Some(400_000) };
    network.set_queue(Dpid(1), PortNo(2), 3, Some(rates)).unwrap();
    let actions = vec![Action::SetQueue(3), Action::output(PortNo(2))];
    let rule = FlowMod::new(FlowModCommand::Add, 30, Match::any(), vec![Instruction::ApplyActions(actions)]);
    say(&mut network, Dpid(1), &Message::FlowMod(rule));
    network.run_for(MILLISECOND);
    let ids = stream(&mut network, 1000, 1000, MILLISECOND);
    let through = arrived(&network, &ids);
    assert_eq!(through, 50, "400 kbit in a second");
    let (_, queue) = network.switch(Dpid(1)).unwrap().queues().next().unwrap();
    assert_eq!((queue.counters.packets, queue.counters.dropped), (50, 1000 - 150));
    network.set_port(Dpid(1), PortNo(2), false).unwrap();
    network.run_for(10 * SECOND);
    assert_eq!(arrived(&network, &ids), through, "what waits at a port that goes down is lost");
}
