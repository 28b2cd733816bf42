//! The judgement of one frame: what came out, what the oracle says, and why less may have come out.

use std::collections::BTreeSet;
use std::fmt;

use maple_core::network::{Location, PortInfo, PortKind, PortRole};
use maple_emulator::emulated::{Delivery, Drop, EnteredFrame, Hop, Outcome};
use maple_emulator::switch::Lost;
use maple_emulator::time::{MILLISECOND, Nanoseconds};
use maple_wire::{Dpid, PortNo};

use crate::contract::oracle::{Arrival, Decided, Out, verdict};
use crate::contract::state::State;
use crate::contract::world::ContractRun;

/// The time that a packet may wait for rules under way: the engine's `hold`, and some more.
const HOLD: Nanoseconds = 150 * MILLISECOND;

/// A reason why less may come out than f says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Excuse {
    /// A link or port was down when a copy came to it.
    NetworkLost,
    /// A switch on the way was not under control: it was restarting, or its control channel was broken.
    OutOfControl,
    /// Ports or switches changed while the frame was under way.
    TopologyChanged,
}

/// A frame that entered, with all that is known of it.
pub struct JudgedFrame<'a> {
    world: &'a ContractRun<'a>,
    entry: &'a EnteredFrame,
    at: Location,
    /// The deliveries of its copies.
    deliveries: Vec<&'a Delivery>,
    /// The copies that came out, each once.
    pub came: Out,
    /// The number of copies that came out.
    copies: usize,
    /// The time in which a state could decide about it.
    begin: Nanoseconds,
    end: Nanoseconds,
    /// The oracle's answers in the states of that time.
    answers: Vec<Decided>,
}

impl<'a> JudgedFrame<'a> {
    /// Collects what is known of a frame that entered at `at`.
    pub fn new(
        world: &'a ContractRun<'a>,
        entry: &'a EnteredFrame,
        at: Location,
        deliveries: Vec<&'a Delivery>,
    ) -> JudgedFrame<'a> {
        let out = deliveries.iter().filter_map(|delivery| match delivery.outcome {
            Outcome::Egress { dpid, port, .. } => Some((dpid, port, delivery.frame.clone())),
            _ => None,
        });
        let out: Vec<_> = out.collect();
        let (copies, came) = (out.len(), Out::from_iter(out));
        let last = deliveries.iter().map(|delivery| delivery.at).max().unwrap_or(entry.at);
        let lag = world.case.lag();
        let end = last + lag + if came.is_empty() { HOLD } else { 0 };
        let begin = entry.at.saturating_sub(lag);
        let answers = verdicts(world, Arrival { at, frame: &entry.frame }, begin, end);
        JudgedFrame { world, entry, at, deliveries, came, copies, begin, end, answers }
    }

    /// Reports whether the frame came out, and went, as one of the answers says.
    pub fn is_as_said(&self) -> bool {
        let is_way = |answer: &Decided| answer.out == self.came && strays(answer, &self.deliveries).is_none();
        !self.is_repeated() && self.answers.iter().any(is_way)
    }

    /// Reports whether all answers agree on what comes out.
    pub fn has_one_answer(&self) -> bool {
        self.answers.iter().map(|answer| &answer.out).collect::<BTreeSet<_>>().len() == 1
    }

    /// Reports whether some copy came out twice.
    pub fn is_repeated(&self) -> bool {
        self.copies > self.came.len()
    }

    /// Returns why less may have come out, or something else where a switch was not under control.
    pub fn excuse(&self) -> Option<Excuse> {
        let is_less = !self.is_repeated() && self.answers.iter().any(|answer| self.came.is_subset(&answer.out));
        if is_less && self.network_lost_a_copy() {
            Some(Excuse::NetworkLost)
        } else if self.outage_explains_it() {
            Some(Excuse::OutOfControl)
        } else {
            (is_less && self.topology_changed()).then_some(Excuse::TopologyChanged)
        }
    }

    fn network_lost_a_copy(&self) -> bool {
        let lost = |why: &Drop| matches!(why, Drop::LinkDown | Drop::Switch(Lost::PortDown(_)));
        self.deliveries.iter().any(|delivery| matches!(&delivery.outcome, Outcome::Dropped(_, why) if lost(why)))
    }

    /// Reports whether a switch on the way was not under control, and what came out may come from that.
    fn outage_explains_it(&self) -> bool {
        let route = self.answers.iter().flat_map(|answer| answer.hops.keys().copied());
        let passed = self.deliveries.iter().flat_map(|delivery| delivery.path.iter().map(|hop| hop.dpid));
        let switches: BTreeSet<Dpid> = route.chain(passed).chain([self.at.switch]).collect();
        let outages = switches.iter().filter_map(|dpid| self.world.outage(*dpid, self.begin, self.end));
        let Some(since) = outages.map(|outage| outage.from).min() else { return false };
        let allowed = self.possible_since(since);
        let may_come = |copy: &(Dpid, PortNo, Vec<u8>)| {
            self.is_wild(copy.0) || allowed.contains(copy) || self.passed_wild_switch(copy)
        };
        self.came.iter().all(may_come)
    }

    /// Reports whether a switch was not under control for some of the time.
    fn is_wild(&self, dpid: Dpid) -> bool {
        self.world.outage(dpid, self.begin, self.end).is_some()
    }

    /// Reports whether a copy came through a switch that was not under control. What such a switch sends on by its
    /// stale rules, perhaps under a label, goes wherever the others' rules say.
    fn passed_wild_switch(&self, (dpid, port, frame): &(Dpid, PortNo, Vec<u8>)) -> bool {
        let is_copy = |delivery: &&&Delivery| {
            let at = matches!(delivery.outcome, Outcome::Egress { dpid: d, port: p, .. } if (d, p) == (*dpid, *port));
            at && delivery.frame == *frame
        };
        self.deliveries.iter().filter(is_copy).all(|delivery| delivery.path.iter().any(|hop| self.is_wild(hop.dpid)))
    }

    /// Returns what may come out of the other switches while one is not under control. Its rules are what they were
    /// when that began; and what it sends to switches under control enters the network there, for all that the
    /// controller can know.
    fn possible_since(&self, since: Nanoseconds) -> Out {
        let outs = |arrival, begin| verdicts(self.world, arrival, begin, self.end).into_iter().flat_map(|one| one.out);
        let frame = &self.entry.frame[..];
        let mut all: Out = outs(Arrival { at: self.at, frame }, since.saturating_sub(self.world.case.lag())).collect();
        for delivery in &self.deliveries {
            for hops in delivery.path.windows(2) {
                if self.is_wild(hops[0].dpid) && hops[1].in_port.is_physical() {
                    let at = Location::new(hops[1].dpid, hops[1].in_port);
                    // The frame may bear the tag that the stale rules have for its path.
                    for frame in [frame, &delivery.frame] {
                        all.extend(outs(Arrival { at, frame }, self.begin));
                    }
                }
            }
        }
        all
    }

    /// Reports whether a link or switch came or went, or a port was closed or opened, as the controller saw it.
    fn topology_changed(&self) -> bool {
        let meanwhile = |pair: &&[(Nanoseconds, State)]| (self.begin..=self.end).contains(&pair[1].0);
        let mut changes = self.world.history.windows(2).filter(meanwhile);
        changes.any(|pair| skeleton(&pair[0].1) != skeleton(&pair[1].1))
    }
}

impl fmt::Display for JudgedFrame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, packet) = (self.entry.id, self.world.sent.get(&self.entry.id));
        writeln!(f, "frame {id:?} (packet {packet:?}) entered at {:?} at {} ns", self.at, self.entry.at)?;
        writeln!(f, "said one of")?;
        for answer in &self.answers {
            writeln!(f, "  {:?} {}", answer.how, show(&answer.out))?;
        }
        write!(f, "came {}\n{}", show(&self.came), trail(self.deliveries.iter().copied()))
    }
}

/// Returns the oracle's verdicts in all states that the controller knew between two times.
fn verdicts(world: &ContractRun, arrival: Arrival, begin: Nanoseconds, end: Nanoseconds) -> Vec<Decided> {
    let history = &world.history;
    let until = |at: usize| history.get(at + 1).map_or(Nanoseconds::MAX, |(from, _)| *from);
    let valid = (0..history.len()).filter(|at| history[*at].0 <= end && until(*at) >= begin);
    valid.map(|at| verdict(world.program(), world.case.track_hosts, &history[at].1, arrival)).collect()
}

/// Returns the parts of a state that packets under way depend on: switches, links, and closed ports.
fn skeleton(state: &State) -> impl PartialEq + use<> {
    let is_link = |(_, info): &(&Location, &PortInfo)| matches!(info.kind, PortKind::Link(_));
    let links: Vec<_> = state.ports.iter().filter(is_link).map(|(at, info)| (*at, *info)).collect();
    // What is under way to a port that is closed is dropped there.
    let is_closed = |at: &&Location| state.facts.role(**at) == PortRole::Closed;
    let closed: Vec<_> = state.ports.keys().filter(is_closed).copied().collect();
    (state.switches.clone(), links, closed)
}

/// Returns a port by which a copy of a frame left a switch, although f's route does not leave there.
pub fn strays(said: &Decided, deliveries: &[&Delivery]) -> Option<(Dpid, PortNo)> {
    let hops = deliveries.iter().flat_map(|delivery| &delivery.path);
    let mut left = hops.filter_map(|hop| Some((hop.dpid, hop.out_port?)));
    left.find(|(dpid, port)| !said.hops.get(dpid).is_some_and(|ports| ports.contains(port)))
}

/// Describes what came out.
pub fn show(out: &Out) -> String {
    let one = |(dpid, port, frame): &(Dpid, PortNo, Vec<u8>)| {
        format!("{}:{port} {}", dpid.0, frame.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    };
    if out.is_empty() { "nothing".to_owned() } else { out.iter().map(one).collect::<Vec<_>>().join(", ") }
}

/// Describes what became of a frame, one line a copy.
pub fn trail<'a>(deliveries: impl Iterator<Item = &'a Delivery>) -> String {
    let hop = |hop: &Hop| {
        let steps: Vec<String> = hop.steps.iter().map(|step| format!("{step:?}")).collect();
        format!("{}[in {} {} out {:?}]", hop.dpid.0, hop.in_port, steps.join(" "), hop.out_port)
    };
    let line = |d: &Delivery| {
        let path: Vec<String> = d.path.iter().map(hop).collect();
        format!("  {} ns {:?} by {}", d.at, d.outcome, path.join(" "))
    };
    deliveries.map(line).collect::<Vec<_>>().join("\n")
}
