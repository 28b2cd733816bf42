//! The network under test.

use std::sync::Arc;

use maple::prelude::*;
use maple_core::network::Location;
use maple_core::state::Attempt;
use maple_emulator::Topology;
use maple_emulator::commands::{Command, LinkChange};
use maple_emulator::topology::HostSpec;
use maple_wire::packet::text::summary;
use maple_wire::{Packet, Version};

use crate::laboratory::{Laboratory, seconds};
use crate::packet::{PacketExpectation, differences};
use crate::world::{FrameFate, LaboratoryOptions};

/// The simulated seconds that the network gets to follow a fault: discovery distinguishes links from hosts in this
/// time.
const FOLLOWED: f64 = 3.0;

/// An emulated network under a policy. A failed assertion panics with the packet and the policy's decision, as in any
/// test.
///
/// ```
/// use maple::prelude::*;
/// use maple_lab::{TestNetwork, with};
///
/// let mut net = TestNetwork::new("linear:2", |_: &Packet, net: &Net| net.flood());
/// net.assert_delivered("h1", "h2", with().tcp_dst(80));
/// ```
pub struct TestNetwork {
    pub(crate) laboratory: Laboratory,
}

impl TestNetwork {
    /// Creates a network of this topology under a policy, and introduces its hosts.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// let net = maple_lab::TestNetwork::new("ring:4", |_: &Packet, _: &Net| Route::drop());
    /// ```
    ///
    /// # Panics
    /// If `topology` does not name a topology.
    #[track_caller]
    pub fn new(topology: &str, policy: impl Policy + 'static) -> TestNetwork {
        TestNetwork::with_app(topology, App::new(policy))
    }

    /// Creates a network under an application: a policy with its tables, the costs of links and what it snoops on.
    ///
    /// ```
    /// use maple::prelude::*;
    ///
    /// let app = App::new(|_: &Packet, net: &Net| net.flood()).link_cost("secure", 1, 2, 10);
    /// let net = maple_lab::TestNetwork::with_app("ring:4", app);
    /// ```
    ///
    /// # Panics
    /// If `topology` does not name a topology, or if the declaration of a table or a variable failed.
    #[track_caller]
    pub fn with_app(topology: &str, app: App) -> TestNetwork {
        let topology = Topology::parse(topology).unwrap_or_else(|error| panic!("{error}"));
        let (options, _) = app.into_parts().unwrap_or_else(|error| panic!("{error}"));
        let laboratory = LaboratoryOptions {
            topology,
            version: Version::Of13,
            tables: 254,
            seed: 1,
            track_hosts: options.engine.track_hosts,
            snooping: options.snooping,
        };
        let laboratory = Laboratory::start(laboratory, options.policy, options.store);
        let laboratory = laboratory.unwrap_or_else(|error| panic!("{error}"));
        laboratory.call(|_, world| world.introduce_hosts()).unwrap_or_else(|error| panic!("{error}"));
        TestNetwork { laboratory }
    }

    /// Sends a packet, and returns what became of it.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// # use maple_lab::{TestNetwork, with};
    /// let mut net = TestNetwork::new("linear:2", |_: &Packet, net: &Net| net.flood());
    /// assert!(net.send("h1", "h2", &with()).copies.iter().any(|copy| copy.end.as_deref() == Ok("h2")));
    /// ```
    ///
    /// # Panics
    /// If there is no such host, or if the fields don't fit each other.
    #[track_caller]
    pub fn send(&mut self, src: &str, dst: &str, packet: &PacketExpectation) -> FrameFate {
        let frame = packet.frame(&self.host(src), &self.host(dst));
        self.deliver(src, frame)
    }

    /// Asserts that a packet that is sent arrives at `dst` in the way that `packet` describes.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// # use maple_lab::{TestNetwork, with};
    /// # let mut net = TestNetwork::new("linear:2", |_: &Packet, net: &Net| net.flood());
    /// net.assert_delivered("h1", "h2", with().tcp_dst(80).via([1, 2]).only());
    /// ```
    ///
    /// # Panics
    /// If it does not.
    #[track_caller]
    pub fn assert_delivered(&mut self, src: &str, dst: &str, packet: PacketExpectation) {
        let frame = packet.frame(&self.host(src), &self.host(dst));
        let journey = self.deliver(src, frame);
        let mut wrong = Vec::new();
        let copies: Vec<_> = journey.copies.iter().filter(|copy| copy.end.as_deref() == Ok(dst)).collect();
        if copies.len() != packet.count {
            wrong.push(format!("{dst} got it {} times, and should get it {}", copies.len(), packet.count));
        }
        for copy in copies {
            let mut way: Vec<u64> = copy.path.iter().map(|hop| hop.dpid.0).collect();
            way.dedup();
            if packet.via.as_ref().is_some_and(|via| *via != way) {
                wrong.push(format!("it came via {way:?}, and not via {:?}", packet.via.as_ref().unwrap_or(&way)));
            }
            wrong.extend(differences(&copy.frame, &packet.arrives));
        }
        let others = receivers(&journey).filter(|host| *host != dst).collect::<Vec<_>>();
        if packet.only && !others.is_empty() {
            wrong.push(format!("{} got a copy too", others.join(", ")));
        }
        self.judge(src, &journey, &wrong);
    }

    /// Asserts that nobody gets a packet that is sent, and that the policy does not fail on it.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// # use maple_lab::{TestNetwork, with};
    /// let mut net = TestNetwork::new("linear:2", |_: &Packet, _: &Net| Route::drop());
    /// net.assert_dropped("h1", "h2", with());
    /// ```
    ///
    /// # Panics
    /// If somebody gets it, or the policy fails.
    #[track_caller]
    pub fn assert_dropped(&mut self, src: &str, dst: &str, packet: PacketExpectation) {
        let frame = packet.frame(&self.host(src), &self.host(dst));
        let decision = self.laboratory.observe(self.place(src), &frame);
        let journey = self.deliver(src, frame);
        let got: Vec<&str> = receivers(&journey).collect();
        let mut wrong = Vec::new();
        if !got.is_empty() {
            wrong.push(format!("{} got it, and nobody should", got.join(", ")));
        } else if let Err(error) = &decision.answer {
            wrong.push(format!("it was dropped because the policy fails: {error}"));
        }
        self.judge(src, &journey, &wrong);
    }

    /// Takes the links between two switches down, and waits until the network has followed.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// # let mut net = maple_lab::TestNetwork::new("ring:4", |_: &Packet, net: &Net| net.flood());
    /// net.link_down("s1", "s2");
    /// ```
    ///
    /// # Panics
    /// If they are not linked.
    #[track_caller]
    pub fn link_down(&mut self, a: &str, b: &str) {
        self.happens(Command::Link { a: a.into(), b: b.into(), change: LinkChange::Up(false) });
    }

    /// Takes the links between two switches up, and waits until the network has followed.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// # let mut net = maple_lab::TestNetwork::new("ring:4", |_: &Packet, net: &Net| net.flood());
    /// net.link_up("s1", "s2");
    /// ```
    ///
    /// # Panics
    /// If they are not linked.
    #[track_caller]
    pub fn link_up(&mut self, a: &str, b: &str) {
        self.happens(Command::Link { a: a.into(), b: b.into(), change: LinkChange::Up(true) });
    }

    /// Plugs a host into another switch, where it announces itself.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// # let mut net = maple_lab::TestNetwork::new("ring:4", |_: &Packet, net: &Net| net.flood());
    /// net.move_host("h1", "s3");
    /// ```
    ///
    /// # Panics
    /// If the host or the switch does not exist.
    #[track_caller]
    pub fn move_host(&mut self, host: &str, switch: &str) {
        self.happens(Command::Move { host: host.into(), switch: switch.into(), port: None });
    }

    /// Lets `span` simulated seconds pass.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// # let mut net = maple_lab::TestNetwork::new("ring:4", |_: &Packet, net: &Net| net.flood());
    /// net.advance(60.0);
    /// ```
    ///
    /// # Panics
    /// If `span` is not a number from 0 to 86400.
    #[track_caller]
    pub fn advance(&mut self, span: f64) {
        use maple_emulator::commands::Ground as _;

        let span = seconds(span).unwrap_or_else(|error| panic!("{error}"));
        self.laboratory.call(move |_, world| world.pass(span)).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Changes tracked state, and returns when the rules have followed.
    ///
    /// ```
    /// use maple::prelude::*;
    ///
    /// let blocked = Table::<Mac, bool>::new("blocked");
    /// let mut net = maple_lab::TestNetwork::new("ring:4", |_: &Packet, net: &Net| net.flood());
    /// net.change(|tx| blocked.set(tx, &Mac([0, 0, 0, 0, 0, 1]), &true));
    /// ```
    ///
    /// # Panics
    /// If the network has ended.
    #[track_caller]
    pub fn change(&mut self, mut write: impl FnMut(&Tx)) {
        let commit = loop {
            // Another thread may have written what it read; then the closure runs again.
            let attempt = self.laboratory.store().attempt(|tx| {
                write(tx);
                Ok(())
            });
            if let Attempt::Done((), commit) = attempt {
                break commit;
            }
        };
        let followed = self.laboratory.committed(commit).recv();
        followed.expect("the network is there").unwrap_or_else(|error| panic!("{error}"));
    }

    #[track_caller]
    fn happens(&mut self, command: Command) {
        let done = self.laboratory.call(move |runner, world| runner.run(world, &command));
        done.unwrap_or_else(|error| panic!("{error}"));
        self.advance(FOLLOWED);
    }

    #[track_caller]
    fn deliver(&self, src: &str, frame: Vec<u8>) -> FrameFate {
        let src = src.to_owned();
        let journey = self.laboratory.call(move |_, world| world.deliver(&src, frame));
        journey.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns the present description of the host with this name.
    #[track_caller]
    pub(crate) fn host(&self, name: &str) -> HostSpec {
        let wanted = name.to_owned();
        let found = self.laboratory.call(move |runner, world| {
            runner.host(&wanted)?;
            Ok(world.network().host(&wanted).map(|host| host.spec().clone()))
        });
        let found = found.unwrap_or_else(|error| panic!("{error}"));
        found.unwrap_or_else(|| panic!("there is no host {name}"))
    }

    fn place(&self, host: &str) -> Location {
        let spec = self.host(host);
        Location::new(spec.switch, spec.port)
    }

    /// Panics if anything is `wrong`, with the packet, its journey and the policy's decision.
    #[track_caller]
    fn judge(&self, src: &str, journey: &FrameFate, wrong: &[String]) {
        if wrong.is_empty() {
            return;
        }
        let mut reported =
            vec![wrong.join("; "), format!("packet  {}, from {src}", summary(&Packet::new(&journey.frame, 0)))];
        reported.extend(journey.copies.iter().map(|copy| match &copy.end {
            Ok(host) => format!("became  a copy at {host}"),
            Err(why) => format!("became  a copy that {why}"),
        }));
        let decision = self.laboratory.observe(self.place(src), &journey.frame);
        reported.extend(decision.lines().into_iter().map(|line| format!("policy  {line}")));
        panic!("{}", reported.join("\n    "));
    }
}

fn receivers(journey: &FrameFate) -> impl Iterator<Item = &str> {
    journey.copies.iter().filter_map(|copy| copy.end.as_deref().ok())
}

/// Returns the policy in the form that the engine runs.
pub(crate) fn engine(policy: impl Policy + 'static) -> Arc<dyn maple_core::Policy> {
    App::new(policy).options().policy.clone()
}
