//! The simulated world: members with their connections, the store, switches, and what happens to them.

mod disturb;
mod members;
mod replicas;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::ops::AddAssign;
use std::time::Duration;

use fastrand::Rng;
use maple_cluster::{Event, Fence, Member, Time};
use maple_switch::{ControllerId, Outgoing, Switch, SwitchOptions};
use maple_wire::msg::{Header, Hello, Role};
use maple_wire::{Dpid, Message, Version};

use crate::faults::Plant;
use crate::store::{Answer, Ask, Store};
use replicas::{Confirmed, Owner};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// The time in which faults happen, and the time that the world then has to come to rest.
const FAULTS: Time = Duration::from_secs(60);
const REST: Time = Duration::from_secs(60);
/// The time that a member waits for an answer of the store.
const PATIENCE: Duration = Duration::from_secs(2);

/// The events of a schedule, counted by kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub masters: u64,
    pub rules: u64,
    pub refused: u64,
    /// Commits of the tracked state, and those of them that were confirmed.
    pub commits: u64,
    pub confirmed: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.masters += other.masters;
        self.rules += other.rules;
        self.refused += other.refused;
        self.commits += other.commits;
        self.confirmed += other.confirmed;
    }
}

/// An event that comes at a certain time.
#[derive(Debug)]
enum Coming {
    /// The member is notified of something, if it is in this life still.
    Notice { node: usize, life: u64, what: Notice },
    /// A request reaches the store.
    Asked { node: usize, life: u64, serial: u64, ask: Ask },
    /// A message reaches a switch.
    ToSwitch { node: usize, switch: usize, epoch: u64, message: Message },
    /// A connection is tried.
    Connect { node: usize, switch: usize },
    /// A fault begins.
    Fault,
    /// A fault ends.
    End(FaultEnd),
    /// All leases are looked at.
    Lease,
}

/// The end of a fault.
#[derive(Clone, Copy, Debug)]
enum FaultEnd {
    Start(usize),
    SeesStore(usize),
    SeesSwitch(usize, usize),
    StoreIsBack,
}

/// An event that a member gets from its surroundings.
#[derive(Debug)]
enum Notice {
    Wake,
    Event(Event),
    Answer {
        serial: u64,
        answer: Answer,
    },
    TimedOut(u64),
    /// The member looks what its watch has.
    Watch(u64),
    /// The member looks what the watch of the tracked state has.
    WatchState(u64),
    WakeReplica,
    /// The member commits something.
    Commit,
    Connected {
        switch: usize,
        epoch: u64,
    },
    Lost {
        switch: usize,
        epoch: u64,
    },
    Heard {
        switch: usize,
        epoch: u64,
        message: Message,
        answers_role: bool,
    },
    /// The member decides something for a switch.
    Decide(usize),
    /// The member sends what it decided.
    Send {
        switch: usize,
        epoch: u64,
        generation: u64,
    },
}

/// A connection as a member knows it.
struct Link {
    epoch: u64,
    fence: Fence,
}

/// The part of a member that asks the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker {
    Lease,
    Member,
    Replica,
}

struct Node {
    life: u64,
    member: Option<Member>,
    paused_until: Time,
    /// The events that came while the member was paused.
    inbox: VecDeque<Notice>,
    /// The time when the member will be woken.
    wake: Option<Time>,
    links: Vec<Option<Link>>,
    /// The open requests, with who asks.
    asked: BTreeMap<u64, Asker>,
    owner: Option<Owner>,
    /// The generation in which it leads, since it has the tracked state.
    own_generation: Option<u64>,
    /// The number of the watch, and the next revision that it wants.
    watch: (u64, u64),
    sees_store: bool,
    sees_switch: Vec<bool>,
    /// The earliest time when the next message arrives at each switch, and when the next one from it does.
    arrivals: Vec<[Time; 2]>,
    /// With [`Plant::OwnGenerations`].
    counted: u64,
}

struct SwitchNode {
    switch: Switch,
    /// The number of the connection of each member; 0 without one.
    epochs: Vec<u64>,
    /// The latest generation whose master was granted, since the switch started.
    granted: Option<u64>,
}

pub struct World {
    now: Time,
    random: Rng,
    plants: BTreeSet<Plant>,
    coming: BinaryHeap<Reverse<(Time, u64)>>,
    what: BTreeMap<u64, Coming>,
    serial: u64,
    store: Store,
    store_is_away: bool,
    /// Whether nothing is late any more.
    is_calm: bool,
    nodes: Vec<Node>,
    switches: Vec<SwitchNode>,
    /// Whose each generation is: member and life.
    generations: BTreeMap<u64, (usize, u64)>,
    counts: Counts,
    confirmed: Confirmed,
    failure: Option<String>,
    trace: bool,
}

impl World {
    /// Plays one schedule. Returns what went wrong, if something did.
    pub fn play(seed: u64, plants: &BTreeSet<Plant>) -> Result<Counts, String> {
        let mut random = Rng::with_seed(seed);
        let (members, switches) = (random.usize(2..=5), random.usize(1..=3));
        let store = Store::new(random.u64(1..1000), plants.clone());
        let node = |_| Node {
            life: 0,
            member: None,
            paused_until: Time::ZERO,
            inbox: VecDeque::new(),
            wake: None,
            links: (0..switches).map(|_| None).collect(),
            asked: BTreeMap::new(),
            owner: None,
            own_generation: None,
            watch: (0, 0),
            sees_store: true,
            sees_switch: vec![true; switches],
            arrivals: vec![[Time::ZERO; 2]; switches],
            counted: 0,
        };
        let switch = |at: usize| SwitchNode {
            switch: Switch::new(
                Dpid(at as u64 + 1),
                Version::Of13,
                SwitchOptions { open_vswitch: random.bool(), ..SwitchOptions::default() },
            ),
            epochs: vec![0; members],
            granted: None,
        };
        let mut world = World {
            now: Time::ZERO,
            plants: plants.clone(),
            coming: BinaryHeap::new(),
            what: BTreeMap::new(),
            serial: 0,
            store,
            store_is_away: false,
            is_calm: false,
            nodes: (0..members).map(node).collect(),
            switches: (0..switches).map(switch).collect(),
            random,
            generations: BTreeMap::new(),
            counts: Counts::default(),
            confirmed: Confirmed::default(),
            failure: None,
            trace: std::env::var_os("MAPLE_TRACE").is_some(),
        };
        (0..members).for_each(|at| world.start(at));
        world.after(SECOND, Coming::Fault);
        world.after(SECOND, Coming::Lease);
        world.run(FAULTS);
        world.heal();
        world.run(FAULTS + REST);
        world.check_rest();
        match world.failure {
            Some(why) => Err(why),
            None => Ok(world.counts),
        }
    }

    fn fail(&mut self, why: String) {
        self.failure.get_or_insert_with(|| format!("at {:?}: {why}", self.now));
    }

    fn after(&mut self, delay: Duration, coming: Coming) {
        self.at(self.now + delay, coming);
    }

    fn at(&mut self, at: Time, coming: Coming) {
        self.serial += 1;
        self.coming.push(Reverse((at, self.serial)));
        self.what.insert(self.serial, coming);
    }

    fn run(&mut self, until: Time) {
        while let Some(Reverse((at, serial))) = self.coming.peek().copied()
            && at <= until
            && self.failure.is_none()
        {
            self.coming.pop();
            self.now = at;
            let coming = self.what.remove(&serial).expect("each is there once");
            if self.trace {
                println!("{:?} {coming:?}", self.now);
            }
            self.on_coming(coming);
        }
        self.now = until;
    }

    fn on_coming(&mut self, coming: Coming) {
        match coming {
            Coming::Notice { node, life, what } if self.nodes[node].life == life => self.notify(node, what),
            Coming::Notice { .. } => {}
            Coming::Asked { node, life, serial, ask } => {
                let answer = self.store.ask(self.now, ask);
                if let Some(why) = self.store.tracked.failure.take() {
                    self.fail(why);
                }
                if self.nodes[node].sees_store && !self.store_is_away {
                    let what = Notice::Answer { serial, answer };
                    let delay = self.delay();
                    self.after(delay, Coming::Notice { node, life, what });
                }
            }
            Coming::ToSwitch { node, switch, epoch, message } => self.on_message(node, switch, epoch, message),
            Coming::Connect { node, switch } => self.connect(node, switch),
            Coming::Fault => self.fault(),
            Coming::End(end) => self.end(end),
            Coming::Lease => {
                self.store.advance(self.now);
                let delay = MS * self.random.u32(10..500);
                self.after(delay, Coming::Lease);
            }
        }
    }

    fn delay(&mut self) -> Duration {
        // Now and then something is very late.
        let most = if self.random.u8(..) < 8 && !self.is_calm { 3_000 } else { 20 };
        MS * self.random.u32(1..=most)
    }

    // Connections.

    fn send(&mut self, at: usize, switch: usize, messages: Vec<Message>) {
        let Some(epoch) = self.nodes[at].links[switch].as_ref().map(|link| link.epoch) else { return };
        for message in messages {
            if self.plants.contains(&Plant::AsksNoSwitch) && matches!(message, Message::RoleRequest(_)) {
                continue;
            }
            let delay = MS * self.random.u32(1..10);
            let arrival = &mut self.nodes[at].arrivals[switch][0];
            *arrival = (*arrival).max(self.now + delay);
            let arrival = *arrival;
            self.at(arrival, Coming::ToSwitch { node: at, switch, epoch, message });
        }
    }

    fn connect(&mut self, at: usize, switch: usize) {
        let is_there = self.nodes[at].member.is_some() && self.nodes[at].sees_switch[switch];
        if !is_there || self.switches[switch].epochs[at] != 0 {
            if !is_there {
                self.after(SECOND, Coming::Connect { node: at, switch });
            }
            return;
        }
        self.serial += 1;
        let (epoch, life) = (self.serial, self.nodes[at].life);
        let node = &mut self.switches[switch];
        node.epochs[at] = epoch;
        let controller = ControllerId(at as u16);
        node.switch.connect_to(controller);
        let header = Header { version: Version::Of13 as u8, kind: 0, length: 8, xid: 0 };
        let hello = Message::Hello(Hello { version: Version::Of13 as u8, elements: Vec::new() });
        assert_eq!(node.switch.handle_message_from(controller, 0, header, hello), []);
        self.after(MS, Coming::Notice { node: at, life, what: Notice::Connected { switch, epoch } });
    }

    /// Ends a connection at the switch. The member hears of it some time later.
    fn cut(&mut self, at: usize, switch: usize) {
        let epoch = std::mem::take(&mut self.switches[switch].epochs[at]);
        if epoch == 0 {
            return;
        }
        self.switches[switch].switch.disconnect_from(ControllerId(at as u16));
        let (life, delay) = (self.nodes[at].life, self.delay());
        self.after(delay, Coming::Notice { node: at, life, what: Notice::Lost { switch, epoch } });
        self.after(delay + SECOND, Coming::Connect { node: at, switch });
    }

    fn on_message(&mut self, at: usize, switch: usize, epoch: u64, message: Message) {
        let node = &mut self.switches[switch];
        if node.epochs[at] != epoch {
            return;
        }
        let header = Header { version: Version::Of13 as u8, kind: 0, length: 8, xid: 0 };
        let asks_role = matches!(message, Message::RoleRequest(_));
        let asks_mastery = match &message {
            Message::RoleRequest(Role { role: Role::MASTER, generation_id }) => Some(*generation_id),
            _ => None,
        };
        let cookie = match &message {
            Message::FlowMod(rule) => Some(rule.cookie),
            _ => None,
        };
        let out = node.switch.handle_message_from(ControllerId(at as u16), 0, header, message);
        let is_refused = out.iter().any(|item| matches!(item, Outgoing::Message { message: Message::Error(_), .. }));
        let granted = node.granted;
        match cookie {
            Some(_) if is_refused => self.counts.refused += 1,
            Some(generation) => {
                self.counts.rules += 1;
                let owner = self.generations.get(&generation).copied();
                // Also where nobody asked, a later master has been here.
                self.switches[switch].granted = granted.max(Some(generation));
                if granted.is_some_and(|granted| generation < granted) {
                    self.fail(format!(
                        "n{at} added a rule of {generation} at s{switch}, which had granted {granted:?}"
                    ));
                }
                if owner.is_none_or(|(owner, _)| owner != at) {
                    self.fail(format!("n{at} added a rule of {generation}, which is of {owner:?}"));
                }
            }
            None => {}
        }
        for item in out {
            let Outgoing::Message { controller, message, .. } = item else { continue };
            let to = usize::from(controller.0);
            if let (Message::RoleReply(_), Some(reported)) = (&message, asks_mastery) {
                // As the store counts, whatever was announced to the switch.
                let leads = self.nodes[at].member.as_ref().and_then(Member::own_generation);
                let generation =
                    if self.generations.get(&reported).is_some_and(|of| of.0 == at) { Some(reported) } else { leads };
                let granted = &mut self.switches[switch].granted;
                *granted = generation.max(*granted);
            }
            let delay = MS * self.random.u32(1..10);
            let epoch = self.switches[switch].epochs[to];
            let arrival = &mut self.nodes[to].arrivals[switch][1];
            *arrival = (*arrival).max(self.now + delay);
            let (arrival, life) = (*arrival, self.nodes[to].life);
            let what = Notice::Heard { switch, epoch, message, answers_role: asks_role && to == at };
            self.at(arrival, Coming::Notice { node: to, life, what });
        }
    }
}
