//! Members with real etcd servers and a real Open vSwitch: whoever is master is the only one that changes the switch,
//! also when a master is paused, and when servers of etcd are killed.

#[allow(dead_code, reason = "the tests of maple-switch have this file too")]
#[path = "../../../maple-switch/tests/open_vswitch/bridge.rs"]
mod bridge;
#[allow(dead_code, reason = "the tests of maple-etcd have this file too")]
#[path = "../../../maple-etcd/tests/all/server.rs"]
mod server;
#[path = "../../../../tests/skip.rs"]
mod skip;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bridge::{Bridge, Connection, Daemons};
use maple_cluster::{Fence, FenceChange, Member, MemberHandle, MemberOptions, News, View, run_member};
use maple_etcd::{Client, EtcdError};
use maple_wire::msg::{FlowMod, FlowModCommand};
use maple_wire::{Match, Message, Version};
use server::{Etcd, PATIENCE, runtime};

/// The lease of each member.
const LEASE: Duration = Duration::from_secs(4);
/// By which the switch refuses changes by a slave.
const IS_SLAVE: (u16, u16) = (1, 10);

/// A message from a member's thread.
#[derive(Debug)]
enum Said {
    Lead(u64),
    Follow,
    Failed(EtcdError),
    Known(View),
    Lease(bool),
}

/// A member on a thread of its own, with a connection to the switch.
struct Controller {
    name: String,
    handle: MemberHandle,
    thread: Option<JoinHandle<()>>,
    said: Receiver<Said>,
    /// While something is here, the thread waits when it has news: it is paused.
    pause: Sender<Receiver<()>>,
    connection: Connection,
    fence: Fence,
    /// Role requests that are not answered.
    asked: Vec<u32>,
    own_generation: Option<u64>,
    view: View,
    /// Whether etcd failed since this was set back.
    has_failed: bool,
    /// Whether its lease is good.
    has_lease: bool,
}

impl Controller {
    fn start(name: &str, etcd: &Etcd, bridge: &Bridge<'_>, first: usize) -> Controller {
        let member = Member::new(MemberOptions {
            cluster: "campus".into(),
            name: name.into(),
            address: None,
            lease: LEASE,
            retry: Duration::from_millis(200),
            step_down: Duration::from_secs(60),
        });
        let (say, said) = channel();
        let (pause, pauses) = channel::<Receiver<()>>();
        let (give, given) = channel();
        let config = etcd.config(first);
        let thread = std::thread::spawn(move || {
            runtime().block_on(async {
                let news = move |news| {
                    if let Ok(end) = pauses.try_recv() {
                        // It ends when the other side is dropped.
                        let _ = end.recv();
                    }
                    let said = match news {
                        News::Lead(generation) => Said::Lead(generation),
                        News::Follow => Said::Follow,
                        News::Failed(error) => Said::Failed(error),
                        News::Known(view) => Said::Known(view),
                        News::Lease(is_good) => Said::Lease(is_good),
                        News::NameTaken => panic!("each name is there once"),
                    };
                    // The test may have ended.
                    let _ = say.send(said);
                };
                let (handle, task) = run_member(member, Client::new(config), news);
                give.send(handle).expect("the test waits for it");
                task.await;
            });
        });
        let handle = given.recv().expect("the thread begins");
        let (fence, ask) = Fence::new(Version::Of13, None, None);
        let mut controller = Controller {
            name: name.into(),
            handle,
            thread: Some(thread),
            said,
            pause,
            connection: bridge.connect(),
            fence,
            asked: Vec::new(),
            own_generation: None,
            view: View::default(),
            has_failed: false,
            has_lease: false,
        };
        controller.send(ask);
        controller
    }

    fn send(&mut self, ask: Vec<Message>) {
        for message in ask {
            self.asked.push(self.connection.send(&message));
        }
    }

    /// Takes all that the member and the switch have said.
    fn work(&mut self) {
        while let Ok(said) = self.said.try_recv() {
            match said {
                Said::Lead(generation) => {
                    self.own_generation = Some(generation);
                    let (ask, _) = self.fence.lead(generation);
                    self.send(ask);
                }
                Said::Follow => {
                    self.own_generation = None;
                    let (ask, _) = self.fence.follow(self.view.master().map(|master| master.generation));
                    self.send(ask);
                }
                Said::Known(view) => self.view = view,
                Said::Lease(is_good) => self.has_lease = is_good,
                Said::Failed(error) => {
                    assert_eq!(error.refusal(), None, "{}: {error}", self.name);
                    self.has_failed = true;
                }
            }
        }
        self.hear();
    }

    /// Takes what the switch has said up to now. Returns the errors to messages that do not ask for a role.
    fn hear(&mut self) -> Vec<(u16, u16)> {
        let mut errors = Vec::new();
        loop {
            let echo = self.connection.send(&Message::EchoRequest(Vec::new()));
            loop {
                let (header, message) = self.connection.receive();
                if matches!(message, Message::EchoReply(_)) && header.xid == echo {
                    break;
                }
                if let Message::EchoRequest(data) = message {
                    self.connection.send(&Message::EchoReply(data));
                    continue;
                }
                let answers_role = self.asked.contains(&header.xid);
                if let (Message::Error(error), false) = (&message, answers_role) {
                    errors.push((error.kind, error.code));
                }
                self.asked.retain(|xid| *xid != header.xid);
                let (ask, change) = self.fence.on_message(&message, answers_role);
                assert_ne!(change, Some(FenceChange::Unsupported), "Open vSwitch has roles");
                self.send(ask);
            }
            // What was asked now is answered after the next echo.
            if self.asked.is_empty() {
                return errors;
            }
        }
    }

    /// Sends a rule, whatever the fence says. Reports whether the switch took it. It takes it only from who is master
    /// by its fence, and whoever is refused is not master any more.
    fn adds_rule(&mut self) -> bool {
        let before = self.fence.mastery();
        self.connection.send(&Message::FlowMod(FlowMod::new(FlowModCommand::Add, 1, Match::any(), Vec::new())));
        match self.hear()[..] {
            [] => assert_ne!(before, None, "{} is no master, and has changed the switch", self.name),
            [IS_SLAVE] => assert_eq!(self.fence.mastery(), None, "{} was refused", self.name),
            ref other => panic!("{}: {other:?}", self.name),
        }
        self.fence.mastery().is_some()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        runtime().block_on(self.handle.leave());
        let ended = thread.join();
        assert!(ended.is_ok() || std::thread::panicking(), "{} has failed", self.name);
    }
}

/// The controllers of a network.
struct Network(Vec<Controller>);

impl Network {
    /// Lets those work that are not left out, until something holds.
    fn until(&mut self, left_out: Option<usize>, mut holds: impl FnMut(&[Controller]) -> bool) {
        let end = Instant::now() + PATIENCE;
        loop {
            for (at, controller) in self.0.iter_mut().enumerate() {
                if Some(at) != left_out {
                    controller.work();
                }
            }
            if holds(&self.0) {
                return;
            }
            assert!(Instant::now() < end, "it has not come within {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until one of those that are not left out changes the switch, and no other. Returns who, and its
    /// generation.
    fn master(&mut self, left_out: Option<usize>) -> (usize, u64) {
        let end = Instant::now() + PATIENCE;
        loop {
            self.until(left_out, |all| all.iter().any(|one| one.fence.mastery().is_some()));
            let others: Vec<usize> = (0..self.0.len()).filter(|at| Some(*at) != left_out).collect();
            let took: Vec<usize> = others.into_iter().filter(|at| self.0[*at].adds_rule()).collect();
            if let [at] = took[..]
                && let Some(generation) = self.0[at].fence.mastery()
            {
                return (at, generation);
            }
            assert!(Instant::now() < end, "masters are {took:?}");
        }
    }
}

#[test]
fn only_the_master_changes_the_switch() {
    let (Some(daemons), true) = (Daemons::start(), server::is_here()) else { return };
    let mut etcd = Etcd::start(3);
    let bridge = daemons.bridge("cluster", Version::Of13);
    let start = |at: usize| Controller::start(["a", "b", "c"][at], &etcd, &bridge, at);
    let mut network = Network((0..3).map(start).collect());
    network.until(None, |all| all.iter().all(|one| one.view.members().eq(["a", "b", "c"])));
    let (first, generation) = network.master(None);

    // The master stands still when it hears of a new member. Its connection is open.
    let (wake, end) = channel();
    network.0[first].pause.send(end).expect("it runs");
    network.0.push(Controller::start("d", &etcd, &bridge, 0));
    let (second, later) = network.master(Some(first));
    assert!(second != first && later > generation, "{second} {later}, before {first} {generation}");
    assert_eq!(network.0[first].fence.mastery(), Some(generation), "it does not know yet");
    assert!(!network.0[first].adds_rule(), "what it decided before is refused");
    drop(wake);
    network.until(None, |all| all[first].own_generation.is_none() && all[first].view.members().count() == 4);

    // A master that is replaced though it is there, and one that steps down, while one server of etcd is gone.
    etcd.servers[0].kill();
    let (second, later) = network.master(None);
    let (other, name) = ((second + 1) % 4, network.0[second].name.clone());
    runtime().block_on(network.0[other].handle.suspect(&name));
    network
        .until(None, |all| all[second].own_generation.is_none() && all.iter().any(|one| one.fence.mastery().is_some()));
    let (second, latest) = network.master(None);
    assert!(latest > later);
    runtime().block_on(network.0[second].handle.step_down());
    network
        .until(None, |all| all[second].own_generation.is_none() && all.iter().any(|one| one.fence.mastery().is_some()));
    assert!(network.master(None).1 > latest);

    // Without etcd the master goes on, longer than its lease.
    etcd.servers[1].kill();
    etcd.servers[2].kill();
    network.0.iter_mut().for_each(|one| one.has_failed = false);
    network.until(None, |all| all.iter().all(|one| one.has_failed));
    let before = network.master(None);
    let until = Instant::now() + LEASE + Duration::from_secs(1);
    network.until(None, |_| Instant::now() > until);
    network.until(None, |all| all.iter().all(|one| !one.has_lease));
    assert_eq!(network.master(None), before);

    // When etcd is back, all agree on one master.
    (0..3).for_each(|at| etcd.servers[at].start());
    network.until(None, |all| all.iter().all(|one| one.has_lease));
    network.until(None, |all| {
        let leads: Vec<u64> = all.iter().filter_map(|one| one.own_generation).collect();
        let known = all.iter().all(|one| one.view.master().is_some_and(|master| leads == [master.generation]));
        known && all.iter().all(|one| one.fence.mastery() == one.own_generation)
    });
    network.master(None);
}
