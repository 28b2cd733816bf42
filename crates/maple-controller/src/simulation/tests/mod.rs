//! Switches that disconnect and connect again while turns run in a controlled order.

use maple_core::network::PortKind;
use maple_core::policy::{Net, PacketHandle};
use maple_core::route::Route;
use maple_wire::msg::{Features, Hello, NO_BUFFER};
use maple_wire::packet::build::Frame;
use maple_wire::{Header, Message, Port, PortNo, Version};

use std::sync::Mutex;

use super::*;
use crate::session::ENGINE_XIDS;
use crate::shard::FORGET_SWITCH_AFTER;
use crate::shard::testing::{packet_in, reply};

mod claims;
mod polls;
mod returns;
mod roles;

const SWITCH: Dpid = Dpid(7);
const SECOND: u64 = 1_000_000_000;

/// Two shards over one store.
struct ShardsWithSwitches {
    simulation: Simulation,
    store: Arc<Store>,
    now: Time,
    batches: Vec<Batch>,
    /// The switches' ports, all at the edge.
    ports: Vec<Port>,
}

/// Creates a policy that takes this long, and records the source addresses of its packets.
fn slow(clock: &Arc<AtomicU64>, nanoseconds: u64, asked: &Arc<Mutex<Vec<u64>>>) -> Arc<dyn Policy> {
    let (clock, asked) = (Arc::clone(clock), Arc::clone(asked));
    Arc::new(move |packet: &PacketHandle, _: &Net| {
        clock.fetch_add(nanoseconds, Ordering::Relaxed);
        asked.lock().expect("one thread").push(packet.eth_src().bits() as u64);
        Route::drop()
    })
}

impl ShardsWithSwitches {
    fn new() -> ShardsWithSwitches {
        ShardsWithSwitches::keeping(FORGET_SWITCH_AFTER)
    }

    /// Creates a world that keeps a switch without a connection for this long.
    fn keeping(forget_after: Duration) -> ShardsWithSwitches {
        ShardsWithSwitches::with_policy(
            forget_after,
            Arc::default(),
            Arc::new(|_: &PacketHandle, _: &Net| Route::drop()),
        )
    }

    fn with(clock: Arc<AtomicU64>, policy: Arc<dyn Policy>) -> ShardsWithSwitches {
        ShardsWithSwitches::with_policy(FORGET_SWITCH_AFTER, clock, policy)
    }

    fn with_policy(forget_after: Duration, clock: Arc<AtomicU64>, policy: Arc<dyn Policy>) -> ShardsWithSwitches {
        let store = Store::new();
        let options = SimulationOptions {
            shards: 2,
            clock,
            store: Arc::clone(&store),
            policy,
            engine: Options::default(),
            deadlines: Deadlines::default(),
            limits: QueueLimits::default(),
            forget_after: Some(forget_after),
            in_cluster: false,
            subscriptions: Vec::new(),
        };
        let simulation = Simulation::new(&options).expect("a poll for each");
        let ports = (1..=3).map(|n| Port::new(PortNo(n), [2, 0, 0, 0, 0, n as u8], "eth")).collect();
        ShardsWithSwitches { simulation, store, now: Time(0), batches: Vec::new(), ports }
    }

    /// Connects a switch to a shard, and sends its hello.
    fn connect(&mut self, shard: usize) -> SwitchEnd {
        let line = self.simulation.connect(shard);
        self.say(&line, 1, &Message::Hello(Hello { version: Version::Of10 as u8, elements: vec![] }));
        line
    }

    fn say(&self, line: &SwitchEnd, xid: u32, message: &Message) {
        let bytes = message.to_bytes(Version::Of10, xid).expect("it can be said");
        line.send(self.now, &bytes);
    }

    /// Connects these switches to the first shard, and waits until their ports are known to be at the edge.
    fn edge_switches<const N: usize>(&mut self, dpids: [Dpid; N]) -> [SwitchEnd; N] {
        let lines = dpids.map(|dpid| (dpid, self.simulation.connect(0)));
        for (_, line) in &lines {
            self.say(line, 1, &Message::Hello(Hello { version: Version::Of10 as u8, elements: vec![] }));
        }
        for _ in 0..10 {
            self.now = after(self.now, Duration::from_secs(1));
            self.settle_all(&[0], &lines);
        }
        let state = self.store.snapshot();
        let is_edge = |dpid| state.ports_of(dpid).filter(|(_, info)| info.kind == PortKind::Edge).count() == 3;
        assert!(dpids.into_iter().all(is_edge));
        lines.map(|(_, line)| line)
    }

    /// Runs turns of these shards until they have nothing to do, while a switch answers them. Mail between them
    /// arrives.
    fn settle(&mut self, shards: &[usize], line: &SwitchEnd) {
        self.settle_all(shards, &[(SWITCH, line.clone())]);
    }

    fn settle_all(&mut self, shards: &[usize], lines: &[(Dpid, SwitchEnd)]) {
        for _ in 0..50 {
            for shard in shards {
                let (here, later) = std::mem::take(&mut self.batches).into_iter().partition(|p| p.to == *shard);
                self.batches = later;
                Vec::into_iter(here).for_each(|batch| self.simulation.deliver(batch));
                let said = self.simulation.turn(self.now, *shard);
                self.batches.extend(said);
            }
            lines.iter().for_each(|(dpid, line)| self.answer(*dpid, line));
        }
    }

    fn answer(&self, dpid: Dpid, line: &SwitchEnd) {
        let bytes = line.take();
        let mut rest = &bytes[..];
        while let Some(header) = Header::peek(rest).expect("a header") {
            let (message, behind) = rest.split_at(header.length.into());
            let (_, message) = Message::decode(message).expect("a message");
            let answer = match message {
                Message::BarrierRequest => Some(Message::BarrierReply),
                Message::FeaturesRequest => {
                    Some(Message::FeaturesReply(Features { ports: self.ports.clone(), ..Features::new(dpid, 1) }))
                }
                message => reply(dpid, &message),
            };
            answer.into_iter().for_each(|answer| self.say(line, header.xid, &answer));
            rest = behind;
        }
    }

    /// Breaks a switch's connection to the first shard, and connects it to the second before the first has dealt with
    /// that.
    fn reconnect_to_the_other_shard(&mut self) -> SwitchEnd {
        let first = self.connect(0);
        self.settle(&[0, 1], &first);
        assert_eq!((self.shard_known(), self.simulation.shard_of(SWITCH)), (Some(0), Some(0)));
        first.break_off();
        self.now = Time(6 * SECOND);
        let said = self.simulation.turn(self.now, 0);
        self.batches.extend(said);
        assert!(first.is_closed(), "an echo request could not be written");
        let second = self.connect(1);
        self.settle(&[1], &second);
        self.settle(&[0, 1], &second);
        second
    }

    fn shard_known(&self) -> Option<usize> {
        self.store.snapshot().shard_of(SWITCH).map(|shard| shard.0.into())
    }
}

/// The first shard finds out that the switch is gone when it writes to it, after the engine's part of the turn. Then it
/// takes no turn until the second shard has done all it can.
#[test]
fn a_switch_that_connects_to_another_shard_before_the_first_has_dealt_with_its_end_stays_known() {
    let mut world = ShardsWithSwitches::keeping(Duration::ZERO);
    world.reconnect_to_the_other_shard();
    assert_eq!(world.simulation.shard_of(SWITCH), Some(1));
    assert_eq!(world.shard_known(), Some(1), "the record is the new connection's");
    assert_eq!(world.simulation.rules(0, SWITCH), [], "the first shard has forgotten it");
    assert!(!world.simulation.rules(1, SWITCH).is_empty(), "and the second serves it");
}

#[test]
fn a_switch_that_connects_to_another_shard_goes_on_at_the_one_that_has_it() {
    let mut world = ShardsWithSwitches::new();
    let line = world.reconnect_to_the_other_shard();
    assert_eq!((world.simulation.shard_of(SWITCH), world.shard_known()), (Some(0), Some(0)));
    assert!(!world.simulation.rules(0, SWITCH).is_empty() && world.simulation.rules(1, SWITCH).is_empty());
    // It is served there: an echo request is answered.
    world.say(&line, 7, &Message::EchoRequest(Vec::new()));
    let said = world.simulation.turn(world.now, 0);
    world.batches.extend(said);
    assert_eq!(echoes(&line), 1);
    assert_eq!(world.simulation.counters(0).of_migrated, 0, "no load has moved it");
}

#[test]
fn a_switch_that_stays_away_is_forgotten_and_may_come_back_anywhere() {
    let mut world = ShardsWithSwitches::new();
    let first = world.connect(0);
    world.settle(&[0, 1], &first);
    first.hang_up();
    world.settle(&[0, 1], &first);
    assert_eq!((world.shard_known(), world.simulation.shard_of(SWITCH)), (Some(0), Some(0)));
    world.now = after(world.now, FORGET_SWITCH_AFTER);
    world.settle(&[0, 1], &first);
    assert_eq!((world.shard_known(), world.simulation.shard_of(SWITCH)), (None, None));
    let second = world.connect(1);
    world.settle(&[0, 1], &second);
    assert_eq!((world.shard_known(), world.simulation.shard_of(SWITCH)), (Some(1), Some(1)));
}

/// Encodes a packet-in from a port, with this source address.
fn packet(port: u32, source: u64) -> Vec<u8> {
    let [_, _, a, b, c, d, e, f] = source.to_be_bytes();
    let frame = Frame::ethernet([2; 6], [a, b, c, d, e, f]).ipv4([10; 4], [11; 4]).udp(1, 2).build();
    packet_in(Version::Of10, 1, NO_BUFFER, port, &frame)
}

/// Counts the answers to its echo requests that a switch was sent since the last call.
fn echoes(line: &SwitchEnd) -> usize {
    let bytes = line.take();
    let messages = maple_wire::msg::Frames::new(&bytes).map(|frame| Message::decode(frame.expect("whole").1));
    messages.filter(|message| matches!(message, Ok((_, Message::EchoReply(_))))).count()
}

#[test]
fn a_port_that_floods_a_slow_policy_sheds_its_own_flows_and_delays_no_echo_and_no_other_port() {
    let (clock, asked) = (Arc::default(), Arc::default());
    let mut world = ShardsWithSwitches::with(Arc::clone(&clock), slow(&clock, 10_000_000, &asked));
    let [flooding, quiet] = world.edge_switches([Dpid(1), Dpid(2)]);
    let source = |group: u64, n: u64| 0x0200_0000_0000 | group << 32 | n;
    let mut sent = 0;
    let mut turn = |world: &mut ShardsWithSwitches| {
        world.now = Time(clock.load(Ordering::Relaxed).max(world.now.0));
        // The flood exceeds one read, and an echo request follows it.
        for _ in 0..500 {
            flooding.send(world.now, &packet(1, source(1, sent)));
            sent += 1;
        }
        world.say(&flooding, 9, &Message::EchoRequest(vec![]));
        world.simulation.turn(world.now, 0);
        world.answer(Dpid(2), &quiet);
    };
    (0..20).for_each(|_| turn(&mut world));
    assert!(world.simulation.counters(0).of_shed > 0, "the policy does not keep up");
    assert!(echoes(&flooding) >= 19, "echoes are answered in the turn in which they are read");
    let before = asked.lock().unwrap().len();
    flooding.send(world.now, &packet(2, source(2, 0)));
    quiet.send(world.now, &packet(1, source(3, 0)));
    (0..3).for_each(|_| turn(&mut world));
    let served = asked.lock().unwrap().clone();
    let since = |group| served[before..].iter().position(|address| *address == source(group, 0));
    assert!(since(2).is_some_and(|at| at < 30) && since(3).is_some_and(|at| at < 30), "{:?} {:?}", since(2), since(3));
    let flood: Vec<u64> = served.into_iter().filter(|address| *address >> 32 & 0xff == 1).collect();
    assert!(flood.is_sorted() && flood.len() > 100, "the oldest are served first");
}

#[test]
fn an_answer_that_lay_unread_when_its_deadline_passed_is_read_before_the_switch_is_judged() {
    let mut world = ShardsWithSwitches::new();
    let [line] = world.edge_switches([SWITCH]);
    // A new flow gets a rule, and so a barrier request, which the switch answers after a flood.
    line.send(world.now, &packet(1, 0x0200_0000_0001));
    world.simulation.turn(world.now, 0);
    let bytes = line.take();
    let mut frames = maple_wire::msg::Frames::new(&bytes).map(|frame| frame.expect("whole").0);
    let barrier = frames.find(|header| header.kind == 18).expect("a barrier request");
    assert!(barrier.xid >= ENGINE_XIDS);
    world.now = after(world.now, Duration::from_secs(29));
    (0..2000).for_each(|n| line.send(world.now, &packet(1, n)));
    world.say(&line, barrier.xid, &Message::BarrierReply);
    // The shard gets to it late, and reads it in several turns.
    world.now = after(world.now, Duration::from_secs(2));
    while line.unread() > 0 {
        world.simulation.turn(world.now, 0);
        assert!(!line.is_closed());
        world.now = world.simulation.next_turn(0).expect("there is more to do");
    }
    world.simulation.turn(after(world.now, Duration::from_secs(1)), 0);
    assert!(!line.is_closed(), "it answered in time");
}

#[test]
fn a_switch_that_floods_and_never_answers_is_given_up_nevertheless() {
    let mut world = ShardsWithSwitches::new();
    let [line] = world.edge_switches([SWITCH]);
    for _ in 0..400 {
        world.now = after(world.now, Duration::from_millis(100));
        // The socket's buffers are always full.
        while line.unread() < 512 * 1024 {
            line.send(world.now, &packet(1, 1));
        }
        world.simulation.turn(world.now, 0);
    }
    assert!(line.is_closed());
}

#[test]
fn a_rule_that_the_switch_s_version_can_not_say_is_refused_as_the_switch_would_refuse_it() {
    use maple_core::engine::Effect;
    use maple_wire::msg::{FlowMod, FlowModCommand};

    let mut world = ShardsWithSwitches::new();
    let [_line] = world.edge_switches([SWITCH]);
    let shard = &mut world.simulation.shards[0].shard;
    let before = shard.counters().of_flow_mods;
    let mut flow_mod = FlowMod::new(FlowModCommand::Add, 1, maple_wire::Match::any(), vec![]);
    flow_mod.table_id = 3;
    let effect = Effect::Send { dpid: SWITCH, xid: ENGINE_XIDS + 99, message: Message::FlowMod(flow_mod) };
    shard.perform(effect);
    assert_eq!((shard.counters().of_flow_mods, shard.counters().of_unencodable), (before, 1));
    let events = &shard.events()[..];
    assert!(matches!(events, [Event::SwitchError { dpid: SWITCH, xid, .. }] if *xid == ENGINE_XIDS + 99), "{events:?}");
    assert_eq!(world.simulation.next_turn(0), Some(world.now), "the engine hears of it at once");
}
