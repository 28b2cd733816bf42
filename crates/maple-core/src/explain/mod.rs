//! Explanations of where a packet goes: what f observes of it, which rules take it, and what would have to be
//! different.
//!
//! # What
//!
//! [`Decision::from_trial`] runs f on a packet once more, with an account of everything that it asks
//! ([`crate::run::AccountItem`]). Nothing is committed. [`find_alternatives`] changes one answer at a time, and says
//! which change makes f decide otherwise. [`Passage::through`] is one switch: the rules that take the packet, and what
//! leaves. [`Journey::follow`] follows the packet from switch to switch. [`explain`] puts these together.
//!
//! # Why it is correct
//!
//! f runs on the newest state, as it would on a packet that enters now. Each "would pass if" was tried: f ran on the
//! changed packet or the changed state and gave another answer. The journey reads the rules that the switches have, and
//! f's answer plays no part in it. So the two can disagree; that is a fault of Maple or a foreign rule, and the
//! explanation says so.
//!
//! # Cost
//!
//! An explanation costs a run of f, and one for each alternative, at most [`MAX_ALTERNATIVES`]. Each switch on the way
//! costs a comparison with each of its rules.

mod account_text;
mod alternatives;
mod decision;
mod journey;
mod passage;

use std::fmt;
use std::sync::Arc;

pub use alternatives::{Alternative, Hypothesis, MAX_ALTERNATIVES, find_alternatives};
pub use decision::{Decision, PacketFate};
pub use journey::{Arrival, Journey, JourneyHop, MAX_HOPS};
pub use passage::{Passage, PassageOutcome, PassedRule, TableRules};

use crate::ids::LeafId;
use crate::network::Location;
use crate::policy::Policy;
use crate::run::Run;
use crate::state::{Store, Write};
use crate::trace::Cond;

/// A packet that enters the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnteringPacket {
    /// The port where it enters.
    pub at: Location,
    /// The bytes of the packet.
    pub frame: Arc<[u8]>,
}

/// The reception of a packet, before f decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// f decides about the packet. If it comes to the controller, the controller first makes these writes, which it
    /// learns from it.
    Decided(Vec<Write>),
    /// f never sees the packet, for this reason.
    Refused(String),
}

/// A leaf that decides about a packet, as far as users see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafView {
    /// The id of the leaf.
    pub id: LeafId,
    /// The progress of its installation, in words; `None` once its rule is installed.
    pub under_way: Option<String>,
    /// The further constraints that its packets fit, if it is narrower than its trace.
    pub specialised_to: Vec<String>,
    /// Whether exploration has made up the packet that it was decided for.
    pub is_made_up: bool,
}

/// The network that a packet enters, with what an explanation asks of it.
pub trait ExplainedNetwork {
    /// Returns the policy that decides at this place.
    fn policy(&mut self, at: Location) -> Option<Arc<dyn Policy>>;

    /// Reports whether f decides about a packet, and what is learned from it.
    fn admit(&mut self, packet: &EnteringPacket) -> Admission;

    /// Returns the leaf that decides about a packet, if there is one. `is_learned`: the controller learns from the
    /// packet first that its source is where it comes in.
    fn leaf(&mut self, packet: &EnteringPacket, is_learned: bool) -> Option<LeafView>;

    /// Returns what a switch does with a frame that comes in by a port; `None` if the switch is not connected.
    fn pass(&mut self, at: Location, frame: &[u8]) -> Option<Passage>;
}

/// The conditions under which policies run here.
#[derive(Clone, Debug, Default)]
pub struct RunConditions {
    /// Whether f may ask where hosts are.
    pub track_hosts: bool,
    /// The packets that listeners want.
    pub listener_filters: Arc<[Cond]>,
}

/// The explanation of where a packet goes.
#[derive(Debug)]
pub struct Explanation {
    /// The packet.
    pub packet: EnteringPacket,
    /// f's decision; or the reason why f has none to make.
    pub decision: Result<Decision, String>,
    /// Changes that make f decide otherwise.
    pub alternatives: Vec<Alternative>,
    /// The leaf that decides about such packets.
    pub leaf: Option<LeafView>,
    /// The path of the packet by the rules that the switches have.
    pub journey: Journey,
}

/// Explains the fate of a packet that enters the network now.
pub fn explain(
    network: &mut dyn ExplainedNetwork,
    store: &Store,
    conditions: &RunConditions,
    packet: EnteringPacket,
) -> Explanation {
    let journey = Journey::follow(network, &store.snapshot(), &packet);
    let policy = network.policy(packet.at);
    let learned = learned(network, &packet, |_| journey.begins_at_controller());
    let leaf = network.leaf(&packet, learned.as_ref().is_ok_and(|learned| !learned.is_empty()));
    let (decision, alternatives) = match (learned, policy) {
        (Err(why), _) => (Err(why), Vec::new()),
        (_, None) => (Err(format!("switch {} is not connected", packet.at.switch)), Vec::new()),
        (Ok(learned), Some(policy)) => {
            let tried = PolicyTrial { policy: &*policy, store, conditions };
            let decision = Decision::from_trial(&tried, &packet, &learned);
            let alternatives = find_alternatives(&tried, network, &packet, &learned, &decision);
            (Ok(decision), alternatives)
        }
    };
    Explanation { packet, decision, alternatives, leaf, journey }
}

/// Returns what the controller learns from a packet before f decides about it. `comes_in` says whether the packet's
/// journey begins at the controller.
///
/// # Errors
/// The reason why f never sees the packet.
fn learned(
    network: &mut dyn ExplainedNetwork,
    packet: &EnteringPacket,
    comes_in: impl FnOnce(&mut dyn ExplainedNetwork) -> bool,
) -> Result<Vec<Write>, String> {
    match network.admit(packet) {
        Admission::Refused(why) => Err(why),
        Admission::Decided(learned) if learned.is_empty() => Ok(learned),
        // The controller learns nothing from packets that a switch forwards by itself.
        Admission::Decided(learned) => Ok(if comes_in(network) { learned } else { Vec::new() }),
    }
}

impl Explanation {
    /// Reports whether the switches do with the packet what f decides. Returns `None` if they ask the controller, or if
    /// f does not decide.
    pub fn agrees(&self) -> Option<bool> {
        let decision = self.decision.as_ref().ok()?;
        let wanted = decision.copies.as_ref()?;
        if self.journey.asks_controller() || !decision.trace.lasts() {
            return None;
        }
        let arrived: Vec<(Location, Vec<u8>)> =
            self.journey.arrivals.iter().map(|arrival| (arrival.at, arrival.frame.clone())).collect();
        Some(*wanted == arrived)
    }
}

/// A policy, with the state and conditions in which it is tried.
pub struct PolicyTrial<'a> {
    /// The policy.
    pub policy: &'a dyn Policy,
    /// The state.
    pub store: &'a Store,
    /// The conditions of its runs.
    pub conditions: &'a RunConditions,
}

impl fmt::Debug for PolicyTrial<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyTrial").field("conditions", &self.conditions).finish_non_exhaustive()
    }
}

impl PolicyTrial<'_> {
    /// Starts a run on a packet in the newest state with these writes. It keeps an account.
    fn run(&self, packet: &EnteringPacket, writes: &[Write]) -> Run {
        let mut txn = self.store.begin();
        writes.iter().for_each(|write| txn.write(write.clone()));
        let (frame, length) = (Arc::clone(&packet.frame), packet.frame.len());
        let run = Run::new(frame, length, packet.at, txn, self.conditions.track_hosts).with_account();
        if !self.conditions.listener_filters.is_empty() {
            run.hear(&self.conditions.listener_filters);
        }
        run
    }
}
