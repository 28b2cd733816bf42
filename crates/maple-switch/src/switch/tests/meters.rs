//! Meters, and the operator's settings of queues and ports.

use maple_wire::msg::command::{ADD, DELETE, MODIFY};
use maple_wire::msg::stats::QueueStatsRequest;
use maple_wire::msg::{
    Band, BandKind, MeterMod, QueueConfig, QueueDesc, QueueProperty, ReplyBody, RequestBody, StatsReply, StatsRequest,
};

use super::*;

const KBPS: u16 = 1;
const PKTPS: u16 = 2;
const BURST: u16 = 4;

fn meter(command: u16, meter: u32, flags: u16, bands: &[(u32, u32)]) -> Message {
    let band = |(rate, burst): &(u32, u32)| Band { rate: *rate, burst: *burst, kind: BandKind::Drop };
    Message::MeterMod(MeterMod { command, flags, meter, bands: bands.iter().map(band).collect() })
}

/// Builds a rule that sends all packets through a meter and out of port 2.
fn through(meter: u32) -> Message {
    let output = Instruction::ApplyActions(vec![Action::output(PortNo(2))]);
    let instructions = vec![Instruction::Meter(meter), output];
    Message::FlowMod(FlowMod { flags: 1, ..FlowMod::new(FlowModCommand::Add, 1, Match::any(), instructions) })
}

fn errors(out: &[Outgoing]) -> Vec<(u16, u16)> {
    out.iter()
        .filter_map(|item| match item {
            Outgoing::Message { message: Message::Error(e), .. } => Some((e.kind, e.code)),
            _ => None,
        })
        .collect()
}

fn stats(tested: &mut TestSwitch, body: RequestBody) -> Result<ReplyBody, Vec<(u16, u16)>> {
    let out = tested.say(Message::StatsRequest(StatsRequest::new(body)));
    match &out[..] {
        [Outgoing::Message { message: Message::StatsReply(StatsReply { flags: 0, body }), .. }] => Ok(body.clone()),
        _ => Err(errors(&out)),
    }
}

/// Returns the number of packets of this rate that pass, in ten seconds that follow a second without any.
fn passed(tested: &mut TestSwitch, per_second: u64) -> usize {
    let start = tested.now + SECOND;
    (0..10 * per_second)
        .filter(|n| {
            tested.now = start + n * SECOND / per_second;
            !tested.send(1, &tcp(80)).is_empty()
        })
        .count()
}

#[test]
fn a_meter_passes_its_rate_in_packets_and_in_kilobits() {
    let mut tested = TestSwitch::new(Version::Of13);
    assert!(tested.say(meter(ADD, 1, PKTPS, &[(20, 0)])).is_empty());
    assert!(tested.say(through(1)).is_empty());
    assert_eq!(passed(&mut tested, 10), 100, "below the rate all pass");
    let passed_now = passed(&mut tested, 100);
    assert!((200..=221).contains(&passed_now), "{passed_now}: the rate, and what had gathered in a second");
    assert_eq!(tested.switch.record().lost.last(), Some(&Lost::Metered(1)));
    let bits = 8 * tcp(80).len() as u32;
    assert!(tested.say(meter(MODIFY, 1, KBPS | BURST, &[(bits * 50 / 1000, 1)])).is_empty());
    let (rate, passed_now) = (bits * 50 / 1000 * 1000 / bits, passed(&mut tested, 200) as u32);
    assert!((10 * rate..10 * rate + 12).contains(&passed_now), "{passed_now} of {rate} a second");
    let ReplyBody::Meter(counters) = stats(&mut tested, RequestBody::Meter(1)).unwrap() else { panic!() };
    assert_eq!((counters[0].flow_count, counters[0].packet_in_count), (1, 2000));
    assert_eq!(counters[0].bands[0].packet_count, 2000 - u64::from(passed_now));
}

#[test]
fn the_highest_band_that_is_exceeded_counts() {
    let mut tested = TestSwitch::new(Version::Of13);
    tested.say(meter(ADD, 1, PKTPS | BURST, &[(1, 1), (5, 5)]));
    tested.say(through(1));
    (0..8).for_each(|_| drop(tested.send(1, &tcp(80))));
    let ReplyBody::Meter(counters) = stats(&mut tested, RequestBody::Meter(u32::MAX)).unwrap() else { panic!() };
    let bands: Vec<u64> = counters[0].bands.iter().map(|band| band.packet_count).collect();
    assert_eq!(bands, [4, 3]);
}

#[test]
fn meters_are_refused_as_real_switches_do() {
    let mut tested = TestSwitch::new(Version::Of13);
    tested.say(meter(ADD, 1, KBPS, &[(1, 0)]));
    for (request, error) in [
        (meter(ADD, 1, KBPS, &[(1, 0)]), (12, 1)),
        (meter(ADD, 0, KBPS, &[(1, 0)]), (12, 2)),
        (meter(ADD, u32::MAX, KBPS, &[(1, 0)]), (12, 2)),
        (meter(ADD, 2, 0, &[(1, 0)]), (12, 5)),
        (meter(ADD, 2, KBPS, &[]), (12, 11)),
        (through(2), (12, 2)),
        (meter(MODIFY, 2, KBPS, &[(1, 0)]), (12, 3)),
        (meter(7, 2, KBPS, &[(1, 0)]), (12, 4)),
        (meter(ADD, 2, KBPS | PKTPS, &[(1, 0)]), (12, 5)),
        (meter(ADD, 2, KBPS, &[(0, 0)]), (12, 6)),
        (meter(ADD, 2, KBPS, &[(1, 0); 9]), (12, 11)),
    ] {
        assert_eq!(errors(&tested.say(request.clone())), [error], "{request:?}");
    }
    let remark = Band { rate: 1, burst: 0, kind: BandKind::DscpRemark(1) };
    let remark = Message::MeterMod(MeterMod { command: ADD, flags: KBPS, meter: 2, bands: vec![remark] });
    assert_eq!(errors(&tested.say(remark)), [(12, 8)]);
    assert_eq!(stats(&mut tested, RequestBody::Meter(2)), Err(vec![(12, 3)]));
    assert_eq!(stats(&mut tested, RequestBody::MeterConfig(2)), Err(vec![(12, 3)]));
}

#[test]
fn rules_go_with_their_meter_and_nobody_is_notified() {
    let mut tested = TestSwitch::new(Version::Of13);
    tested.say(meter(ADD, 1, KBPS, &[(1, 0)]));
    tested.say(through(1));
    assert!(tested.say(meter(DELETE, u32::MAX, 0, &[])).is_empty());
    assert!(tested.dump().is_empty());
    assert!(tested.send(1, &tcp(80)).is_empty() && tested.switch.meters().next().is_none());
}

#[test]
fn queues_are_told_of_and_counted() {
    let rates = QueueRates { min: Some(1_000_000), max: Some(5_000_000) };
    for (version, properties) in [
        (Version::Of10, vec![QueueProperty::MinRate(100)]),
        (Version::Of13, vec![QueueProperty::MinRate(100), QueueProperty::MaxRate(500)]),
    ] {
        let mut tested = TestSwitch::new(version);
        tested.switch.set_queue(0, PortNo(2), 7, Some(rates));
        assert_eq!(tested.switch.set_port_rate(PortNo(2), Some(10_000_000)).len(), 1, "the controller is notified");
        let reported = tested.say(Message::QueueGetConfigRequest(PortNo(2)));
        let queues = vec![QueueDesc { id: 7, port: PortNo(2), properties }];
        let message = Message::QueueGetConfigReply(QueueConfig { port: PortNo(2), queues });
        assert_eq!(reported, [Outgoing::Message { controller: ControllerId::FIRST, xid: 7, message }]);
        tested.switch.queue_sent(PortNo(2), Some(7), 100);
        tested.switch.queue_dropped(PortNo(2), Some(7), 100);
        let all = RequestBody::Queue(QueueStatsRequest { port: PortNo::ANY, queue: u32::MAX });
        let ReplyBody::Queue(counters) = stats(&mut tested, all).unwrap() else { panic!() };
        let counted: Vec<_> = counters.iter().map(|q| (q.queue, q.tx_packets, q.tx_bytes, q.tx_errors)).collect();
        assert_eq!(counted, [(7, 1, 100, 1)]);
        let kind = if version == Version::Of10 { 5 } else { 9 };
        let ask = |port, queue| RequestBody::Queue(QueueStatsRequest { port: PortNo(port), queue });
        assert_eq!(stats(&mut tested, ask(2, 8)), Err(vec![(kind, 1)]));
        assert_eq!(stats(&mut tested, ask(9, 7)), Err(vec![(kind, 0)]));
        assert_eq!(errors(&tested.say(Message::QueueGetConfigRequest(PortNo(9)))), [(kind, 0)]);
    }
}
