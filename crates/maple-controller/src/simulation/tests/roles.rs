//! Several controllers of the same switches, of which each switch obeys one. The switches are models with roles.

use std::collections::VecDeque;

use maple_cluster::{StreamCopy, StreamFollower};
use maple_switch::{ControllerId, Outgoing, Switch, SwitchOptions};
use maple_wire::Field;
use maple_wire::msg::{BundleControl, Role};

use super::*;
use crate::storage::{Adopted, KnownSwitches, LeafJournal, Restart, RowFeed, STREAM_LIMITS, SharedRows};

/// The time between two turns of a controller.
const STEP: Duration = Duration::from_millis(20);
/// Longer than any of the timers of discovery and sessions, so that all is done that is to be done.
const SETTLED: usize = 1_000;
/// The ports of each switch, all at the edge.
const PORTS: u32 = 2;

/// A controller with one shard.
struct Member {
    simulation: Simulation,
    /// The rows that the member has for standbys.
    rows: Arc<SharedRows>,
    feed: RowFeed,
    /// Its connection to each switch.
    lines: Vec<Option<SwitchEnd>>,
    /// The news that the member has not received yet, because it is asleep.
    news: VecDeque<ClusterRole>,
    reported: u64,
    is_asleep: bool,
    /// The number of changes that the member sent to switches since this was cleared, and of those refused.
    changes: (usize, usize),
    /// All its other messages since this was cleared.
    others: Vec<Message>,
}

/// Several controllers, and their switches.
struct Cluster {
    version: Version,
    members: Vec<Member>,
    switches: Vec<Switch>,
    /// The member that each switch has granted last to be master.
    masters: Vec<Option<usize>>,
    generation: u64,
    now: Time,
}

impl Cluster {
    fn new(version: Version, members: usize, switches: usize, open_vswitch: bool) -> Cluster {
        let member = |number: usize| {
            let (simulation, rows) = simulation(number as u16 + 1);
            Member {
                simulation,
                feed: RowFeed::new(Arc::clone(&rows)),
                rows,
                lines: (0..switches).map(|_| None).collect(),
                news: VecDeque::new(),
                reported: 0,
                is_asleep: false,
                changes: (0, 0),
                others: Vec::new(),
            }
        };
        let switch = |number| {
            let options = SwitchOptions { open_vswitch, ..SwitchOptions::default() };
            let mut switch = Switch::new(Dpid(number as u64 + 1), version, options);
            (1..=PORTS).for_each(|port| drop(switch.add_port(0, PortNo(port))));
            switch
        };
        let mut cluster = Cluster {
            version,
            members: (0..members).map(member).collect(),
            switches: (0..switches).map(switch).collect(),
            masters: vec![None; switches],
            generation: 0,
            now: Time(0),
        };
        for member in 0..members {
            (0..switches).for_each(|switch| cluster.connect(member, switch));
        }
        cluster
    }

    fn connect(&mut self, member: usize, switch: usize) {
        self.members[member].lines[switch] = Some(self.members[member].simulation.connect(0));
        let hello = self.switches[switch].connect_to(ControllerId(member as u16));
        self.carry_out(switch, hello);
    }

    /// Ends a connection, and opens another one.
    fn reconnect(&mut self, member: usize, switch: usize) {
        if let Some(line) = self.members[member].lines[switch].take() {
            line.hang_up();
        }
        self.switches[switch].disconnect_from(ControllerId(member as u16));
        if self.masters[switch] == Some(member) {
            self.masters[switch] = None;
        }
        self.connect(member, switch);
    }

    /// Makes a member master of the network. All will hear of it; who is asleep when it wakes.
    fn elect(&mut self, leader: usize) {
        self.generation += 1;
        let latest = Some(self.generation);
        for (at, member) in self.members.iter_mut().enumerate() {
            let leads = latest.filter(|_| at == leader);
            member.news.push_back(ClusterRole { own_generation: leads, latest, has_lease: true });
        }
    }

    /// Sends a frame of this source into a port of a switch.
    fn frame(&mut self, switch: usize, port: u32, source: u8) {
        let frame =
            Frame::ethernet([2, 0, 0, 0, 0, 99], [2, 0, 0, switch as u8, port as u8, source]).raw(0x88b5, &[0; 46]);
        let out = self.switches[switch].receive(self.now.0, PortNo(port), frame);
        self.carry_out(switch, out);
    }

    fn carry_out(&mut self, switch: usize, out: Vec<Outgoing>) {
        for item in out {
            if let Outgoing::Message { controller, xid, message } = item
                && let Some(line) = &self.members[usize::from(controller.0)].lines[switch]
            {
                line.send(self.now, &message.to_bytes(self.version, xid).expect("it can be said"));
            }
        }
    }

    fn steps(&mut self, count: usize) {
        (0..count).for_each(|_| self.step());
    }

    fn step(&mut self) {
        self.now = after(self.now, STEP);
        for member in 0..self.members.len() {
            let Member { simulation, news, reported, is_asleep: false, .. } = &mut self.members[member] else {
                continue;
            };
            for role in news.drain(..) {
                *reported += 1;
                simulation.set_role(*reported, role);
            }
            simulation.turn(self.now, 0);
            for switch in 0..self.switches.len() {
                self.hear(member, switch);
            }
        }
        for switch in 0..self.switches.len() {
            let out = self.switches[switch].advance(self.now.0);
            self.carry_out(switch, out);
        }
    }

    /// Makes a switch obey what a member has sent. Whoever is not its master changes nothing.
    fn hear(&mut self, member: usize, switch: usize) {
        let Some(line) = &self.members[member].lines[switch] else { return };
        let (bytes, is_closed) = (line.take(), line.is_closed());
        let mut rest = &bytes[..];
        while let Some(header) = Header::peek(rest).expect("a header") {
            let (bytes, behind) = rest.split_at(header.length.into());
            rest = behind;
            let (_, message) = Message::decode(bytes).expect("a message");
            let out = self.switches[switch].receive_bytes_from(ControllerId(member as u16), self.now.0, bytes);
            let answered = |of: &Outgoing, is_error: bool| match of {
                Outgoing::Message { controller, xid, message } => {
                    (usize::from(controller.0), *xid) == (member, header.xid)
                        && matches!(message, Message::Error(_)) == is_error
                }
                Outgoing::Frame { .. } | Outgoing::Close(_) => false,
            };
            let is_refused = out.iter().any(|one| answered(one, true));
            let all = &mut self.members[member];
            if changes(&message) {
                (all.changes.0, all.changes.1) = (all.changes.0 + 1, all.changes.1 + usize::from(is_refused));
                assert!(
                    is_refused || self.masters[switch] == Some(member),
                    "{member} changes switch {switch} of {:?}: {message:?}",
                    self.masters[switch]
                );
            } else if let Some(role) = asked_role(&message) {
                if !is_refused && role != Role::NOCHANGE {
                    let is_its = self.masters[switch].filter(|master| *master != member);
                    self.masters[switch] = if role == Role::MASTER { Some(member) } else { is_its };
                }
                assert_ne!(role, Role::EQUAL, "whoever is equal is refused nothing");
            } else {
                all.others.push(message);
            }
            self.carry_out(switch, out);
        }
        if is_closed {
            self.reconnect(member, switch);
        }
    }

    /// Forgets what members have sent.
    fn clear(&mut self) {
        for member in &mut self.members {
            (member.changes, member.others) = ((0, 0), Vec::new());
        }
    }

    /// Returns the rules of a switch, by table.
    fn rules(&self, switch: usize) -> Vec<String> {
        let tables = self.switches[switch].tables().iter().enumerate();
        let rules = tables.flat_map(|(number, table)| {
            let text = move |rule: &maple_switch::Rule| {
                format!("{number} {} {:?} {:?}", rule.priority, rule.matching, rule.instructions)
            };
            table.rules().into_iter().map(text).collect::<Vec<_>>()
        });
        rules.collect()
    }

    /// Asserts that this member is the master of all switches, that they have its rules, and that others say nothing.
    fn obey(&mut self, leader: usize) {
        // Whoever has just connected or followed says that first.
        self.steps(SETTLED);
        self.clear();
        self.steps(SETTLED);
        assert_eq!(self.masters, vec![Some(leader); self.switches.len()]);
        for (at, switch) in self.switches.iter().enumerate() {
            let believed = self.members[leader].simulation.rules(0, switch.dpid());
            assert!(!believed.is_empty(), "{leader} knows switch {at}");
            assert_eq!(believed.len(), self.rules(at).len(), "{believed:#?} {:#?}", self.rules(at));
        }
        for (at, member) in self.members.iter().enumerate().filter(|(at, _)| *at != leader) {
            assert_eq!(member.changes.0, 0, "{at} is a standby");
            let is_sign_of_life =
                |message: &&Message| !matches!(message, Message::EchoRequest(_) | Message::EchoReply(_));
            assert_eq!(member.others.iter().find(is_sign_of_life), None, "{at} is a standby");
        }
    }

    /// Asserts that a packet of a new source is decided, and by this member alone.
    fn decides(&mut self, leader: usize, source: u8) {
        let before: Vec<u64> = self.decided();
        (0..self.switches.len()).for_each(|switch| self.frame(switch, 1, source));
        self.steps(50);
        let decided: Vec<u64> = self.decided().iter().zip(before).map(|(now, before)| now - before).collect();
        let expected = (0..self.members.len()).map(|at| if at == leader { self.switches.len() as u64 } else { 0 });
        assert_eq!(decided, expected.collect::<Vec<_>>());
    }

    /// Copies what a member has for standbys.
    fn copy(&mut self, from: usize) -> StreamCopy {
        let Member { feed, rows, .. } = &mut self.members[from];
        feed.turn();
        let mut follower = StreamFollower::new(STREAM_LIMITS);
        while follower.behind() != Some(0) {
            let part = rows.source().answer(&follower.ask(), 1);
            follower.on_part(part).expect("it is right");
        }
        follower.take().expect("it is whole")
    }

    /// Has a member go on with a copy, and makes it master.
    fn hand_over(&mut self, copy: StreamCopy, to: usize) -> Adopted {
        self.members[to].simulation.send(0, vec![ShardMessage::ForgetUnreachable]);
        self.step();
        let adopted = self.members[to].rows.adopt(copy, |_| true);
        self.elect(to);
        adopted
    }

    /// Returns the changes of rules that switches have received.
    fn flow_mods(&self) -> Vec<u64> {
        self.switches.iter().map(|switch| switch.counters().flow_mods).collect()
    }

    fn decided(&self) -> Vec<u64> {
        self.members.iter().map(|member| member.simulation.stats(0).packet_ins).collect()
    }
}

/// Creates shards with a policy that asks who sends the packet.
fn simulation(epoch: u16) -> (Simulation, Arc<SharedRows>) {
    let policy = Arc::new(
        |packet: &PacketHandle, _: &Net| {
            if packet.is(Field::EthSrc, 0x0200_0000_0105) { Route::flood() } else { Route::drop() }
        },
    );
    let options = SimulationOptions {
        shards: 1,
        clock: Arc::default(),
        store: Store::new(),
        policy,
        engine: Options { epoch, remember: true, ..Options::default() },
        deadlines: Deadlines::default(),
        limits: QueueLimits::default(),
        forget_after: Some(FORGET_SWITCH_AFTER),
        in_cluster: true,
        subscriptions: Vec::new(),
    };
    let mut simulation = Simulation::new(&options).expect("a poll for each");
    let restart = Arc::new(Restart::new(Time(0), Arc::clone(&options.store), [].into()));
    let known = KnownSwitches { restart, journal: Arc::new(LeafJournal::new(epoch)) };
    simulation.shards[0].shard.remember(known.clone());
    let rows = SharedRows::new(known, Clock::Simulated(Arc::clone(&options.clock)));
    (simulation, Arc::new(rows.expect("random bytes")))
}

/// Reports whether a message changes a switch or sends a packet.
fn changes(message: &Message) -> bool {
    match message {
        Message::FlowMod(_) | Message::PacketOut(_) | Message::GroupMod(_) | Message::MeterMod(_) => true,
        Message::BundleControl(control) => control.kind == BundleControl::COMMIT,
        _ => false,
    }
}

/// Returns the role that a message asks for, in the numbers of 1.3.
fn asked_role(message: &Message) -> Option<u32> {
    match message {
        Message::RoleRequest(role) => Some(role.role),
        Message::Experimenter(nicira) if nicira.body[..4] == [0, 0, 0, 10] => Some(u32::from(nicira.body[7]) + 1),
        _ => None,
    }
}

#[test]
fn a_standby_decides_nothing_until_the_switches_call_it_master() {
    for version in [Version::Of10, Version::Of13] {
        let mut cluster = Cluster::new(version, 3, 2, true);
        cluster.steps(SETTLED);
        assert_eq!(cluster.masters, [None, None]);
        assert!(cluster.members.iter().all(|member| member.changes.0 == 0), "nobody leads");
        assert!((0..2).all(|switch| cluster.rules(switch).is_empty()));
        cluster.elect(1);
        cluster.obey(1);
        cluster.decides(1, 5);
        cluster.elect(2);
        cluster.obey(2);
        cluster.decides(2, 6);
    }
}

#[test]
fn a_master_that_was_asleep_is_refused_when_it_wakes_and_stops_deciding() {
    // A switch other than Open vSwitch does not inform a master of another one.
    let mut cluster = Cluster::new(Version::Of13, 2, 1, false);
    cluster.elect(0);
    cluster.obey(0);
    cluster.decides(0, 5);
    // Packets wait for the master, which sleeps.
    cluster.members[0].is_asleep = true;
    (10..20).for_each(|source| cluster.frame(0, 1, source));
    cluster.elect(1);
    cluster.steps(SETTLED);
    assert_eq!(cluster.masters, [Some(1)]);
    let (before, decided) = (cluster.rules(0), cluster.decided()[0]);
    // It wakes, and hears of the other one only later.
    let news = std::mem::take(&mut cluster.members[0].news);
    cluster.clear();
    cluster.members[0].is_asleep = false;
    cluster.steps(100);
    assert!(cluster.decided()[0] >= decided + 10, "it decides what waited");
    let (sent, refused) = cluster.members[0].changes;
    assert!(sent > 0 && refused == sent, "{sent} {refused}");
    assert_eq!(cluster.rules(0), before);
    cluster.members[0].news = news;
    cluster.obey(1);
    cluster.decides(1, 6);
    // It is master again, and goes on.
    cluster.elect(0);
    cluster.obey(0);
    cluster.decides(0, 7);
}

#[test]
fn a_master_in_a_new_generation_changes_no_rule() {
    let mut cluster = Cluster::new(Version::Of13, 2, 2, true);
    cluster.elect(0);
    cluster.obey(0);
    cluster.decides(0, 5);
    let before = [cluster.rules(0), cluster.rules(1)];
    let stats = cluster.switches[0].counters().flow_mods;
    cluster.elect(0);
    cluster.obey(0);
    assert_eq!(([cluster.rules(0), cluster.rules(1)], cluster.switches[0].counters().flow_mods), (before, stats));
    cluster.decides(0, 6);
}

#[test]
fn a_standby_that_has_the_masters_rows_changes_no_rule() {
    for version in [Version::Of10, Version::Of13] {
        let mut cluster = Cluster::new(version, 3, 2, true);
        cluster.elect(0);
        cluster.obey(0);
        (1..6).for_each(|source| cluster.decides(0, source));
        let (rules, reported) = ([cluster.rules(0), cluster.rules(1)], cluster.flow_mods());
        let copy = cluster.copy(0);
        let leaves = cluster.members[0].simulation.stats(0).leaves;
        // It has never been master.
        assert_eq!(cluster.hand_over(copy, 1), Adopted { leaves: leaves as usize, hosts: 10, damaged: 0 });
        cluster.obey(1);
        assert_eq!(([cluster.rules(0), cluster.rules(1)], cluster.flow_mods()), (rules, reported));
        assert_eq!(cluster.members[1].simulation.stats(0).leaves, leaves);
        (6..9).for_each(|source| cluster.decides(1, source));
        // Another one goes on with the rows of both, which are rows of leaves of its own by then.
        let copy = cluster.copy(1);
        let (rules, reported) = ([cluster.rules(0), cluster.rules(1)], cluster.flow_mods());
        let leaves = cluster.members[1].simulation.stats(0).leaves;
        assert_eq!(cluster.hand_over(copy, 2).hosts, 16);
        cluster.obey(2);
        assert_eq!(([cluster.rules(0), cluster.rules(1)], cluster.flow_mods()), (rules, reported));
        // The first one knew some of it. It forgets that in favour of the copy.
        cluster.decides(2, 9);
        let (rules, reported) = ([cluster.rules(0), cluster.rules(1)], cluster.flow_mods());
        let copy = cluster.copy(2);
        assert_eq!(cluster.hand_over(copy, 0).hosts, 18);
        cluster.obey(0);
        assert_eq!(([cluster.rules(0), cluster.rules(1)], cluster.flow_mods()), (rules, reported));
        assert!(cluster.members[0].simulation.stats(0).leaves >= leaves);
        cluster.decides(0, 10);
    }
}

#[test]
fn a_copy_of_a_master_that_had_not_restored_what_it_adopted_has_all_of_it() {
    let mut cluster = Cluster::new(Version::Of13, 3, 2, true);
    cluster.elect(0);
    cluster.obey(0);
    (1..6).for_each(|source| cluster.decides(0, source));
    let (rules, reported) = ([cluster.rules(0), cluster.rules(1)], cluster.flow_mods());
    let copy = cluster.copy(0);
    let rows = copy.rows.len();
    // It dies before a switch has answered it.
    let adopted = cluster.hand_over(copy, 1);
    let copy = cluster.copy(1);
    assert_eq!(copy.rows.len(), rows);
    assert_eq!(cluster.hand_over(copy, 2), adopted);
    cluster.obey(2);
    assert_eq!(([cluster.rules(0), cluster.rules(1)], cluster.flow_mods()), (rules, reported));
}

#[test]
fn a_switch_that_has_restarted_is_claimed_again() {
    let mut cluster = Cluster::new(Version::Of13, 2, 1, true);
    cluster.elect(1);
    cluster.obey(1);
    cluster.switches[0].restart();
    cluster.masters[0] = None;
    (0..2).for_each(|member| cluster.reconnect(member, 0));
    cluster.obey(1);
    cluster.decides(1, 5);
}

#[test]
fn whatever_happens_no_switch_obeys_anybody_but_its_master() {
    let seed = std::env::var("MAPLE_SEED").ok().map(|text| text.parse().expect("MAPLE_SEED is a number"));
    let seeds = seed.map_or_else(|| (0..200).map(|_| fastrand::u64(..)).collect(), |seed| vec![seed]);
    for seed in seeds {
        println!("MAPLE_SEED={seed}");
        play(&mut fastrand::Rng::with_seed(seed));
    }
}

/// Plays a random schedule, and then lets all agree on a master.
fn play(random: &mut fastrand::Rng) {
    let version = if random.u8(0..4) == 0 { Version::Of10 } else { Version::Of13 };
    let (members, switches) = (random.usize(2..=3), random.usize(1..=2));
    let mut cluster = Cluster::new(version, members, switches, random.bool());
    for _ in 0..random.usize(5..40) {
        let (member, switch) = (random.usize(0..members), random.usize(0..switches));
        match random.u8(0..10) {
            0..3 => cluster.elect(member),
            3 => cluster.members[member].is_asleep ^= true,
            4 => cluster.reconnect(member, switch),
            5 if random.u8(0..3) == 0 => {
                cluster.switches[switch].restart();
                cluster.masters[switch] = None;
                (0..members).for_each(|member| cluster.reconnect(member, switch));
            }
            _ => cluster.frame(switch, random.u32(1..=PORTS), random.u8(1..9)),
        }
        cluster.steps(random.usize(0..60));
    }
    let leader = random.usize(0..members);
    cluster.elect(leader);
    cluster.members.iter_mut().for_each(|member| member.is_asleep = false);
    cluster.obey(leader);
    cluster.decides(leader, 200);
}
