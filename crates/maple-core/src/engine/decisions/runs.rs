//! Runs of f.

use std::sync::Arc;

use maple_wire::Version;

use super::Decisions;
use super::leaf::Leaf;
use crate::engine::fabric::Fabric;
use crate::engine::messages::cause::DropCause;
use crate::engine::messages::received_packet::ReceivedPacket;
use crate::look_ups::SOURCE_IS_HERE;
use crate::policy::Policy;
use crate::policy_error::PolicyError;
use crate::route::{Goal, Resolved, Route};
use crate::run::{Run, RunResult};
use crate::trace::ReadMetadata;

/// The result of a run.
pub(in crate::engine) enum RunOutcome {
    /// f's answer, and what f observed.
    Answer((Goal, Arc<Resolved>), Box<RunResult>),
    /// f has no answer until something that it read changes.
    Waits(Box<RunResult>),
    /// The error, and the listeners that want the packet, as bits.
    Failed(PolicyError, u64),
}

impl Decisions {
    /// Creates a run on the newest state. `None` for a packet that may not enter the network.
    pub fn admissible_run(fabric: &Fabric, received: &ReceivedPacket) -> Option<Run> {
        Decisions::run_assuming(fabric, received, ReadMetadata::default())
    }

    /// Creates a run on the newest state for the packets of a leaf. What its witness packet looks up may have changed,
    /// or its host may have gone: then the leaf is for other packets, which find what the leaf's run has found.
    pub fn rerun(fabric: &Fabric, leaf: &Leaf) -> Option<Run> {
        Decisions::run_assuming(fabric, &leaf.witness, leaf.trace.metadata())
    }

    /// Creates a run on the newest state for packets like this one that have these bits of the metadata. `None` if they
    /// may not enter the network.
    pub fn run_assuming(fabric: &Fabric, received: &ReceivedPacket, metadata: ReadMetadata) -> Option<Run> {
        let txn = fabric.ctx.store.begin_txn();
        let switch = fabric.switches.get(&received.at.switch)?;
        let is_source_here = metadata.value & SOURCE_IS_HERE != 0;
        if !fabric.ctx.is_admissible(received, txn.peek(), is_source_here) {
            return None;
        }
        let run =
            Run::new(received.frame.clone(), received.total_len, received.at, txn, fabric.ctx.options.track_hosts);
        let run = run.for_leaf(metadata);
        let registers = || switch.ingress.look_ups.registers();
        let run = if !switch.layout().look_ups().is_empty() {
            run.with_registers(registers())
        } else if fabric.ctx.options.look_up_tables > 0 {
            run.without_tables(registers())
        } else {
            run
        };
        if !switch.has_pipeline() {
            // In OpenFlow 1.0 a label replaces the packet's VLAN id. So the leaf must determine that id.
            run.read_location(switch.version() == Version::Of10);
        }
        run.hear(&fabric.ctx.options.listener_filters);
        let run = run.timed_by(fabric.ctx.options.stopwatch);
        Some(if received.is_made_up { run.made_up() } else { run })
    }

    /// Runs f on a batch, and counts the runs by line. Yields the tag of each run with its result.
    pub fn run_policy<T>(
        &mut self,
        fabric: &mut Fabric,
        runs: Vec<(Run, T)>,
    ) -> impl Iterator<Item = (T, RunOutcome)> + use<T> {
        let (runs, tags): (Vec<Run>, Vec<T>) = runs.into_iter().unzip();
        let answers = self.counted_answers(fabric, &runs);
        outcomes(runs, tags, answers)
    }

    /// Runs `policy` on a batch; it need not be the engine's own. Yields the tag of each run with its result.
    pub fn run_with<T>(
        fabric: &mut Fabric,
        policy: &dyn Policy,
        runs: Vec<(Run, T)>,
    ) -> impl Iterator<Item = (T, RunOutcome)> + use<T> {
        let (runs, tags): (Vec<Run>, Vec<T>) = runs.into_iter().unzip();
        let answers = answers(fabric, policy, &runs);
        outcomes(runs, tags, answers)
    }

    /// Runs f once, and counts the run by line.
    pub fn run_once(&mut self, fabric: &mut Fabric, run: &Run) -> RunOutcome {
        let missing = || Err(PolicyError::Exception("the policy gave no answer".into()));
        outcome(run, self.counted_answers(fabric, std::slice::from_ref(run)).pop().unwrap_or_else(missing))
    }

    fn counted_answers(&mut self, fabric: &mut Fabric, runs: &[Run]) -> Vec<Result<Route, PolicyError>> {
        let answers = answers(fabric, &*self.policy, runs);
        runs.iter().zip(&answers).for_each(|(run, answer)| self.line_runs.count_run(run, answer));
        answers
    }

    /// Drops a packet that may not enter the network where it is.
    pub fn refuse_packet(fabric: &mut Fabric, received: &ReceivedPacket) {
        fabric.ctx.stats.spoofed_drops += 1;
        fabric.switches.drop_packet(&mut fabric.ctx, received, DropCause::NotAdmissible);
    }
}

/// Runs a policy on a batch.
fn answers(fabric: &mut Fabric, policy: &dyn Policy, runs: &[Run]) -> Vec<Result<Route, PolicyError>> {
    fabric.ctx.stats.runs += runs.len() as u64;
    if runs.is_empty() { Vec::new() } else { policy.decide_batch(runs) }
}

/// Ends the runs of a batch, each when its result is asked for.
fn outcomes<T>(
    runs: Vec<Run>,
    tags: Vec<T>,
    answers: Vec<Result<Route, PolicyError>>,
) -> impl Iterator<Item = (T, RunOutcome)> + use<T> {
    let missing = || Err(PolicyError::Exception("the policy gave no answer for this packet of the batch".into()));
    let answers = answers.into_iter().chain(std::iter::repeat_with(missing));
    runs.into_iter().zip(tags).zip(answers).map(|((run, tag), answer)| (tag, outcome(&run, answer)))
}

/// Checks f's answer, and ends the run.
pub(in crate::engine) fn outcome(run: &Run, answer: Result<Route, PolicyError>) -> RunOutcome {
    let resolved = answer.map(|route| run.resolve(&route));
    let Some(finished) = run.finish() else {
        return RunOutcome::Failed(PolicyError::Exception("the policy ended its own run".into()), 0);
    };
    match (resolved, &finished.error) {
        (Err(PolicyError::Retry), _) | (Ok(_), Some(PolicyError::Retry)) => RunOutcome::Waits(Box::new(finished)),
        // The policy's error is more precise about the place than the error that was noted for it.
        (Err(error), _) => RunOutcome::Failed(error, finished.listeners),
        (_, Some(error)) => RunOutcome::Failed(error.clone(), finished.listeners),
        (Ok(Err(error)), None) => RunOutcome::Failed(error, finished.listeners),
        (Ok(Ok(route)), None) => RunOutcome::Answer(route, Box::new(finished)),
    }
}
