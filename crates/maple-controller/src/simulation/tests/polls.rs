//! Polls of switches for their counters, which take a bounded share of the channel.

use maple_core::engine::{CounterKind, Effect};
use maple_core::network::Location;
use maple_wire::msg::stats::{PortStats, ReplyBody, RequestBody, StatsReply, StatsRequest};

use super::*;

/// Creates a policy that drops packets, and floods them when port 1 receives more than 800 bit/s, until it is 400 or
/// less.
fn load_policy() -> Arc<dyn Policy> {
    Arc::new(|pkt: &PacketHandle, net: &Net| {
        // A flood reads this anyway, so both decisions have the same observations.
        pkt.eth_dst();
        let port = Location::new(SWITCH, PortNo(1));
        if net.port_load(port).received().is_above_mbps(0.0008, 0.0004) { Route::flood() } else { Route::drop() }
    })
}

/// A request to a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Barrier(u32),
    Counters(u32),
}

fn asked(line: &SwitchEnd) -> Vec<Asked> {
    let bytes = line.take();
    let messages = maple_wire::msg::Frames::new(&bytes).map(|frame| Message::decode(frame.expect("whole").1));
    let asked = messages.filter_map(|message| match message.expect("a message") {
        (header, Message::BarrierRequest) => Some(Asked::Barrier(header.xid)),
        (header, Message::StatsRequest(StatsRequest { body: RequestBody::Port(PortNo::ANY), .. })) => {
            Some(Asked::Counters(header.xid))
        }
        _ => None,
    });
    asked.collect()
}

impl ShardsWithSwitches {
    /// Runs turns in steps of 100 ms, in which the switch answers nothing but echoes. Returns what it is asked
    /// meanwhile.
    fn pass(&mut self, line: &SwitchEnd, seconds: u64) -> Vec<Asked> {
        let mut all = Vec::new();
        for _ in 0..10 * seconds {
            self.now = after(self.now, Duration::from_millis(100));
            self.say(line, 1, &Message::EchoRequest(vec![]));
            self.simulation.turn(self.now, 0);
            all.extend(asked(line));
        }
        all
    }

    fn counters(&mut self, line: &SwitchEnd, xid: u32, bytes: u64) {
        let port = PortStats { port: PortNo(1), rx_bytes: bytes, ..PortStats::default() };
        self.say(line, xid, &Message::StatsReply(StatsReply::new(ReplyBody::Port(vec![port]))));
    }
}

#[test]
fn a_switch_is_polled_once_at_a_time_never_while_it_is_busy_and_a_slow_one_less_often() {
    let mut world = ShardsWithSwitches::with(Arc::default(), load_policy());
    let [line] = world.edge_switches([SWITCH]);
    assert_eq!(world.pass(&line, 20), [], "f has not asked yet");
    line.send(world.now, &packet(1, 0x0200_0000_0001));
    let [Asked::Barrier(barrier)] = world.pass(&line, 20)[..] else {
        panic!("one barrier, and no poll before its answer")
    };
    world.say(&line, barrier, &Message::BarrierReply);
    let [Asked::Counters(first)] = world.pass(&line, 5)[..] else { panic!("one poll, without an answer") };
    world.counters(&line, first, 0);
    // It took 5 s to answer, so it is left alone for 95 s.
    assert_eq!(world.pass(&line, 94), []);
    let [Asked::Counters(second)] = world.pass(&line, 2)[..] else { panic!("the next poll") };
    world.counters(&line, second, 100_000);
    assert_eq!(world.simulation.stats(0).polls, 2);
    // Rates over such a long time say nothing about the present: only the next answer makes one.
    assert!(world.simulation.rules(0, SWITCH).iter().all(|rule| !rule.why.contains("flood")));
    let [Asked::Counters(third)] = world.pass(&line, 40)[..] else { panic!("a slower one") };
    world.counters(&line, third, 100_000);
    assert!(world.simulation.stats(0).polls == 3);
}

#[test]
fn a_rate_is_taken_between_answers_a_period_apart_and_decides_again() {
    let mut world = ShardsWithSwitches::with(Arc::default(), load_policy());
    let [line] = world.edge_switches([SWITCH]);
    line.send(world.now, &packet(1, 0x0200_0000_0001));
    let mut counted = 0;
    // 100, 1000, 70 and 50 bytes a second make 800, 8000, 560 and 400 bit/s, each for half a minute.
    let mut runs = Vec::new();
    for bytes_a_second in [100, 1000, 70, 50] {
        for _ in 0..300 {
            for question in world.pass_once(&line) {
                match question {
                    Asked::Barrier(xid) => world.say(&line, xid, &Message::BarrierReply),
                    Asked::Counters(xid) => world.counters(&line, xid, counted),
                }
            }
            counted += bytes_a_second / 10;
        }
        runs.push((world.is_flooded(), world.simulation.stats(0).runs));
    }
    assert_eq!(runs, [(false, 1), (true, 2), (true, 2), (false, 3)]);
    assert!((11..=13).contains(&world.simulation.stats(0).polls));
}

impl ShardsWithSwitches {
    fn pass_once(&mut self, line: &SwitchEnd) -> Vec<Asked> {
        self.now = after(self.now, Duration::from_millis(100));
        self.say(line, 1, &Message::EchoRequest(vec![]));
        self.simulation.turn(self.now, 0);
        asked(line)
    }

    /// Reports whether packets of a leaf are sent out.
    fn is_flooded(&self) -> bool {
        let rules = self.simulation.rules(0, SWITCH);
        let mut of_leaves = rules.iter().filter(|rule| rule.leaf.is_some());
        of_leaves.any(|rule| rule.rule.instructions.iter().any(|one| format!("{one:?}").contains("Output")))
    }
}

#[test]
fn a_poll_is_not_sent_while_much_waits_for_the_switch() {
    let mut world = ShardsWithSwitches::with(Arc::default(), load_policy());
    let [line] = world.edge_switches([SWITCH]);
    let poll = |xid| Effect::Poll {
        dpid: SWITCH,
        xid: ENGINE_XIDS + xid,
        message: Message::StatsRequest(StatsRequest::new(RequestBody::Port(PortNo::ANY))),
    };
    line.take();
    let shard = &mut world.simulation.shards[0].shard;
    shard.perform(poll(1));
    assert!(shard.events().is_empty());
    let outbox = shard.outbox_of(SWITCH).expect("it is connected");
    outbox.push(Version::Of10, 7, &Message::EchoReply(vec![0; 20_000])).expect("it can be said");
    shard.perform(poll(2));
    assert!(matches!(shard.events()[..], [Event::Unsent { dpid: SWITCH, xid }] if xid == ENGINE_XIDS + 2));
    world.simulation.turn(world.now, 0);
    let sent = asked(&line);
    assert_eq!(sent, [Asked::Counters(ENGINE_XIDS + 1)]);
}

#[test]
fn a_watcher_gets_port_counts_after_one_poll() {
    let mut world = ShardsWithSwitches::with(Arc::default(), load_policy());
    let [line] = world.edge_switches([SWITCH]);
    world.simulation.shards[0].shard.events().push(Event::ShowCounters { dpid: SWITCH, what: CounterKind::Ports });
    let [Asked::Counters(xid)] = world.pass_once(&line)[..] else { panic!("one poll, at once") };
    world.counters(&line, xid, 5000);
    world.pass_once(&line);
    let counts = world.simulation.shards[0].shard.engine().view().port_counts(SWITCH);
    assert_eq!((counts.len(), counts[0].counters.rx_bytes, counts[0].rates), (1, 5000, None));
    assert!(matches!(world.pass(&line, 2)[..], [Asked::Counters(_)]), "again after a second, while somebody watches");
}
