//! Random rules and random frames: [`Switch`] does what a real Open vSwitch does, bit for bit.
//!
//! Both get the same groups and rules, and must refuse the same ones with the same errors. Then both get the same
//! frames, from packet-outs and at ports. They must send the same frames out of the same ports, in the same order at
//! each port, and the same packet-ins to the controller. `MAPLE_FRAMES` sets the number of frames, and `MAPLE_SEED`
//! plays the rounds again from a seed that a failure names. Without Open vSwitch the test prints that and is skipped;
//! in CI it fails.

#[allow(dead_code, reason = "the tests of maple-core include this file too")]
mod bridge;
mod generate;
mod operator;
mod roles;
#[path = "../../../../tests/skip.rs"]
mod skip;

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use bridge::{Bridge, Daemons, PORTS};
use generate::{Random, Round};
use maple_switch::{Outgoing, PassedTable, Switch, SwitchOptions};
use maple_wire::msg::{
    FlowMod, FlowModCommand, GroupMod, Hello, NO_BUFFER, PacketIn, PacketInReason, PacketOut, SwitchConfig,
};
use maple_wire::packet::Frame;
use maple_wire::{Action, Dpid, Field, Instruction, Match, Message, PortNo, Version};

/// The number of frames of a usual run, for each version. Chosen: some seconds. A night plays 20,000 (`make
/// test-nightly`).
const FRAMES: u64 = 1_500;
/// The number of frames for one set of rules.
const FRAMES_PER_ROUND: u64 = 30;
/// The Ethernet type of the frames that end the output of the frame before them.
const MARK: u16 = 0x9999;

/// The effects of one frame: the frames at each port, in order, and the packet-ins.
#[derive(Default, PartialEq, Eq)]
struct Effects {
    frames: Vec<(u32, Vec<u8>)>,
    packet_ins: Vec<(PacketInReason, u8, u64, Match, Vec<u8>)>,
}

impl Effects {
    fn add(&mut self, packet_in: PacketIn) {
        let PacketIn { reason, table_id, cookie, pipeline, data, .. } = packet_in;
        self.packet_ins.push((reason, table_id, cookie, pipeline, data));
    }
}

impl fmt::Debug for Effects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (port, frame) in &self.frames {
            writeln!(f, "    port {port}: {}", hex(frame))?;
        }
        for (reason, table, cookie, pipeline, data) in &self.packet_ins {
            writeln!(f, "    controller: {reason:?} {table} {cookie:#x} {pipeline:?} {}", hex(data))?;
        }
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns frames that no rule but the mark's own takes.
fn mark() -> Vec<u8> {
    Frame::ethernet([2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 0, 9]).raw(MARK, &[0; 46])
}

/// Returns the actions that show a mark wherever they are done.
fn everywhere() -> Vec<Action> {
    let ports = (1..=PORTS).map(PortNo).chain([PortNo::IN_PORT]);
    ports.map(Action::output).chain([Action::to_controller()]).collect()
}

fn packet_out(in_port: PortNo, actions: Vec<Action>, data: Vec<u8>) -> Message {
    Message::PacketOut(PacketOut { buffer_id: NO_BUFFER, in_port, actions, data })
}

/// Removes everything.
fn clear(version: Version) -> Vec<Message> {
    let all = FlowMod { table_id: 0xff, ..FlowMod::new(FlowModCommand::Delete, 0, Match::any(), vec![]) };
    let groups = GroupMod { command: 2, kind: 0, group: 0xffff_fffc, buckets: vec![] };
    match version {
        Version::Of10 => vec![Message::FlowMod(FlowMod { table_id: 0, ..all })],
        Version::Of13 => vec![Message::FlowMod(all), Message::GroupMod(groups)],
    }
}

/// Both switches.
struct Pair<'a> {
    version: Version,
    switch: Switch,
    bridge: Bridge<'a>,
}

impl<'a> Pair<'a> {
    fn new(daemons: &'a Daemons, version: Version) -> Pair<'a> {
        let name = if version == Version::Of10 { "v10" } else { "v13" };
        let options = SwitchOptions { open_vswitch: true, ..SwitchOptions::default() };
        let mut switch = Switch::new(Dpid(1), version, options);
        (1..=PORTS).for_each(|number| drop(switch.add_port(0, PortNo(number))));
        switch.connect();
        let mut pair = Pair { version, switch, bridge: daemons.bridge(name, version) };
        pair.obey(&Message::Hello(Hello { version: version as u8, elements: vec![] }));
        let config = Message::SetConfig(SwitchConfig { flags: 0, miss_send_len: 0xffff });
        assert_eq!(pair.ask(&[config]), []);
        pair
    }

    /// Lets the switch obey a message.
    fn obey(&mut self, message: &Message) -> Vec<Outgoing> {
        let bytes = message.to_bytes(self.version, 0).unwrap_or_else(|error| panic!("{error}: {message:?}"));
        self.switch.receive_bytes(0, &bytes)
    }

    /// Gives both these messages. Returns the messages that both refused, by number.
    fn ask(&mut self, messages: &[Message]) -> Vec<usize> {
        let mut refused = Vec::new();
        for (at, message) in messages.iter().enumerate() {
            self.bridge.send(message);
            let expected = self.bridge.errors().pop().map(|(_, error)| (error.kind, error.code));
            let errors = self.obey(message).into_iter().find_map(|item| match item {
                Outgoing::Message { message: Message::Error(error), .. } => Some((error.kind, error.code)),
                _ => None,
            });
            assert_eq!(errors, expected, "ours, Open vSwitch's: {message:?}");
            refused.extend(expected.map(|_| at));
        }
        refused
    }

    /// Gives both the rules of a round. Returns those that were taken.
    fn install(&mut self, messages: Vec<Message>) -> Vec<Message> {
        let refused = self.ask(&messages);
        let marked = Match::any().exact(Field::EthType, MARK.into());
        let instructions = vec![Instruction::ApplyActions(everywhere())];
        let rule = Message::FlowMod(FlowMod::new(FlowModCommand::Add, u16::MAX, marked, instructions));
        self.bridge.send(&rule);
        assert_eq!(self.bridge.errors(), []);
        (0..).zip(messages).filter(|(at, _)| !refused.contains(at)).map(|(_, message)| message).collect()
    }

    /// Returns what the bridge has done until the next mark.
    fn effects(&mut self) -> Effects {
        let mut effects = Effects::default();
        for port in 1..=PORTS {
            loop {
                let frame = self.bridge.arrival(port);
                if frame == mark() {
                    break;
                }
                effects.frames.push((port, frame));
            }
        }
        loop {
            match self.bridge.receive() {
                (_, Message::PacketIn(packet_in)) if packet_in.data == mark() => return effects,
                (_, Message::PacketIn(packet_in)) => effects.add(packet_in),
                (_, other) => panic!("{other:?}"),
            }
        }
    }

    /// Returns what the bridge does to a frame.
    fn expected(&mut self, port: u32, frame: &[u8], at_port: bool) -> Effects {
        if at_port {
            self.bridge.forget();
            self.bridge.transmit(port, &[frame, &mark()]);
        } else {
            self.bridge.send(&packet_out(PortNo(port), vec![Action::output(PortNo::TABLE)], frame.to_vec()));
            self.bridge.send(&packet_out(PortNo::ANY, everywhere(), mark()));
        }
        self.effects()
    }

    /// Returns what the switch does to a frame.
    fn found(&mut self, port: u32, frame: &[u8], at_port: bool) -> Effects {
        let out = if at_port {
            self.switch.receive(0, PortNo(port), frame)
        } else {
            self.obey(&packet_out(PortNo(port), vec![Action::output(PortNo::TABLE)], frame.to_vec()))
        };
        let mut effects = Effects::default();
        for item in out {
            match item {
                Outgoing::Frame { port, frame, .. } => effects.frames.push((port.0, frame)),
                Outgoing::Message { xid, message, .. } => {
                    let bytes = message.to_bytes(self.version, xid).expect("its version has it");
                    match Message::decode(&bytes).expect("it is read").1 {
                        Message::PacketIn(packet_in) => effects.add(packet_in),
                        other => panic!("{other:?}"),
                    }
                }
                Outgoing::Close(_) => panic!("it hangs up"),
            }
        }
        // Only the order at each port can be seen.
        effects.frames.sort_by_key(|(port, _)| *port);
        effects
    }

    /// Returns the groups and the rules that the last packet met, as text.
    fn met(&self, rules: &[Message]) -> String {
        let steps = &self.switch.record().steps;
        let is_met = |rule: &FlowMod| {
            let is_step =
                |step: &PassedTable| matches!(step, PassedTable::Rule { cookie, .. } if *cookie == rule.cookie);
            steps.iter().any(is_step)
        };
        let met = rules.iter().filter(|message| !matches!(message, Message::FlowMod(rule) if !is_met(rule)));
        met.map(|message| format!("{message:?}\n")).collect()
    }

    /// Plays one round. Returns the number of frames that had an effect.
    fn round(&mut self, seed: u64) -> u64 {
        let mut random = Random::new(seed);
        assert_eq!(self.ask(&clear(self.version)), []);
        let round = Round::new(&mut random, self.version);
        let rules = self.install(generate::messages(&mut random, round));
        let mut forwarded = 0;
        for _ in 0..FRAMES_PER_ROUND {
            let (port, at_port) =
                (1 + random.below(PORTS.into()) as u32, random.percent(50) || !round.has_packet_outs());
            let frame = generate::frame(&mut random, round);
            let expected = self.expected(port, &frame, at_port);
            let found = self.found(port, &frame, at_port);
            assert!(
                found == expected,
                "MAPLE_SEED={seed}, {:?}, port {port}, at the port: {at_port}\n{}frame {}\nours\n{found:?}\
                 Open vSwitch's\n{expected:?}{:?}",
                self.version,
                self.met(&rules),
                hex(&frame),
                self.switch.record(),
            );
            forwarded += u64::from(found != Effects::default());
        }
        forwarded
    }
}

/// Returns a seed: the one that is asked for, or a fresh one.
fn seed() -> u64 {
    let fresh = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_millis() as u64);
    number("MAPLE_SEED").unwrap_or_else(fresh)
}

/// Returns the number in an environment variable, if there is one.
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|error| panic!("{variable}: {error}")))
}

#[test]
fn random_packets_meet_random_rules_as_in_open_vswitch() {
    let Some(daemons) = Daemons::start() else { return };
    let seed = seed();
    let frames = number("MAPLE_FRAMES").unwrap_or(FRAMES);
    for version in [Version::Of10, Version::Of13] {
        let mut pair = Pair::new(&daemons, version);
        let rounds = frames.div_ceil(FRAMES_PER_ROUND);
        println!("{version:?}: MAPLE_SEED={seed}, {rounds} rounds of {FRAMES_PER_ROUND} frames");
        let forwarded: u64 = (0..rounds).map(|round| pair.round(seed + round)).sum();
        println!("{forwarded} of {} frames had an effect", rounds * FRAMES_PER_ROUND);
        assert!(forwarded * 5 > rounds * FRAMES_PER_ROUND, "most rules take nothing");
    }
}
