//! One engine and one switch in simulated time. Counts the packets that go to the controller.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::testing::switch_up;
use maple_core::engine::{Effect, Engine, Event, Options, ShardId, Time};
use maple_core::state::Store;
use maple_core::{Location, Policy};
use maple_emulator::switch::SwitchOptions;
use maple_emulator::{Outgoing, Switch};
use maple_wire::msg::{Hello, Message};
use maple_wire::{Dpid, PortNo, Version};

use crate::error::BenchError;

const DPID: Dpid = Dpid(1);

/// A scheduled event.
enum Happening {
    Frame(PortNo, Vec<u8>),
    Event(Box<Event>),
    Message(u32, Box<Message>),
}

/// The engine, its switch, and the messages in flight between them.
pub(super) struct MissNetwork {
    now: Time,
    queue: BTreeMap<(Time, u64), Happening>,
    queued: u64,
    engine: Engine,
    switch: Switch,
    /// The delay of a message between switch and controller.
    delay: Duration,
    /// The delivered frames, by port.
    pub(super) left: BTreeMap<PortNo, Vec<Vec<u8>>>,
}

impl MissNetwork {
    /// Creates a switch with ports 1 to `ports`. Its initial rules are installed; its hosts have sent nothing.
    pub(super) fn new(policy: Arc<dyn Policy>, ports: u32, delay: Duration) -> Result<MissNetwork, BenchError> {
        let options = Options { track_hosts: false, ..Options::default() };
        let engine = Engine::new(ShardId(0), Store::new(), policy, options);
        let mut switch = Switch::new(DPID, Version::Of13, SwitchOptions::default());
        for port in 1..=ports {
            switch.add_port(0, PortNo(port));
        }
        switch.connect();
        let left = BTreeMap::new();
        let mut world = MissNetwork { now: Time(0), queue: BTreeMap::new(), queued: 0, engine, switch, delay, left };
        world.greet()?;
        world.run()?;
        Ok(world)
    }

    /// Schedules a frame at a port.
    pub(super) fn send(&mut self, after: Duration, port: PortNo, frame: Vec<u8>) {
        self.at(self.now + after, Happening::Frame(port, frame));
    }

    /// Returns the number of packets that went to the controller so far.
    pub(super) fn misses(&self) -> u64 {
        self.switch.counters().packet_ins
    }

    /// Returns the number of rules of the switch.
    pub(super) fn rules(&self) -> usize {
        self.switch.tables().iter().map(|table| table.len()).sum()
    }

    /// Runs until nothing is scheduled.
    pub(super) fn run(&mut self) -> Result<(), BenchError> {
        while let Some(((at, _), happening)) = self.queue.pop_first() {
            while let Some(deadline) = self.engine.next_deadline().filter(|deadline| *deadline <= at) {
                self.now = self.now.max(deadline);
                self.wake(Event::Tick);
            }
            self.now = self.now.max(at);
            match happening {
                Happening::Frame(port, frame) => {
                    let out = self.switch.receive(self.now.0, port, frame);
                    self.on_outgoing(out)?;
                }
                Happening::Event(event) => self.wake(*event),
                Happening::Message(xid, message) => self.obey(xid, &message)?,
            }
        }
        Ok(())
    }

    fn greet(&mut self) -> Result<(), BenchError> {
        self.obey(1, &Message::Hello(Hello::offering(Version::Of13 as u8, &[Version::Of13 as u8])))?;
        let ports: Vec<_> = self.switch.ports().values().map(|port| port.description.clone()).collect();
        let edges: Vec<_> = ports.iter().map(|port| Location::new(DPID, port.number)).collect();
        self.send_event(switch_up(DPID, Version::Of13, SwitchOptions::default().n_tables, ports));
        edges.into_iter().for_each(|port| self.send_event(Event::PortIsEdge { port }));
        Ok(())
    }

    fn send_event(&mut self, event: Event) {
        self.at(self.now + self.delay, Happening::Event(Box::new(event)));
    }

    fn at(&mut self, time: Time, happening: Happening) {
        self.queued += 1;
        self.queue.insert((time, self.queued), happening);
    }

    fn wake(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.engine.handle(self.now, &mut vec![event], &mut effects);
        for effect in effects {
            match effect {
                Effect::Send { xid, message, .. } => {
                    self.at(self.now + self.delay, Happening::Message(xid, Box::new(message)));
                }
                // A new switch has no rules.
                Effect::ReadRules { dpid } => self.send_event(Event::RulesRead { dpid, rules: Vec::new() }),
                // With one shard there is no mail; reports and other effects are not used here.
                Effect::Mail { .. }
                | Effect::Report(_)
                | Effect::BarriersDone(_)
                | Effect::RuleCounted { .. }
                | Effect::Remember(_)
                | Effect::Departed { .. }
                | Effect::Tried { .. }
                | Effect::Adopted { .. }
                | Effect::ListenerPacket(_)
                | Effect::Live { .. }
                | Effect::Reconnect { .. }
                | Effect::AskPorts { .. }
                | Effect::Poll { .. } => {}
            }
        }
    }

    /// Passes a message to the switch, after encoding and decoding it.
    fn obey(&mut self, xid: u32, message: &Message) -> Result<(), BenchError> {
        let mut bytes = Vec::new();
        let encoded = message.encode(Version::Of13, xid, &mut bytes);
        encoded.map_err(|error| BenchError::WrongResult(format!("{error}: {message:?}")))?;
        let out = self.switch.receive_bytes(self.now.0, &bytes);
        self.on_outgoing(out)
    }

    fn on_outgoing(&mut self, out: Vec<Outgoing>) -> Result<(), BenchError> {
        for out in out {
            match out {
                Outgoing::Frame { port, frame, .. } => self.left.entry(port).or_default().push(frame),
                Outgoing::Message { xid, message, .. } => match message {
                    Message::PacketIn(packet_in) => self.send_event(Event::PacketIn { dpid: DPID, packet_in }),
                    Message::BarrierReply => self.send_event(Event::BarrierReply { dpid: DPID, xid }),
                    Message::FlowRemoved(removed) => self.send_event(Event::FlowRemoved { dpid: DPID, removed }),
                    Message::Error(error) => {
                        return Err(BenchError::WrongResult(format!("the switch refused a message: {error:?}")));
                    }
                    _ => {}
                },
                Outgoing::Close(_) => return Err(BenchError::WrongResult("the switch closed the connection".into())),
            }
        }
        Ok(())
    }
}
