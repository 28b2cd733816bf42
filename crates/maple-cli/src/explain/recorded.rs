//! Explanations of packets at a moment of a recording, which is replayed up to there; then its engines are queried.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use maple_controller::control::explain::{AnswerContext, Explain, RuleCounters, to_json, with_assumed};
use maple_controller::names::Names;
use maple_controller::replay::Recorded;
use maple_core::engine::Engines;
use maple_core::explain::explain;
use serde_json::{Value, json};

use crate::replay::ReplayParameters;

/// The maximum time of a policy's run. It must exceed that of the recorded controller, one second by default, since the
/// machine may be slower.
pub const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Returns the explanations of packets at the end of the replayed part of a recording.
///
/// # Errors
/// If the recording is damaged, a policy can't be loaded, or a question does not describe a packet.
pub fn answers(folder: &Path, again: &ReplayParameters<'_>, questions: &[Explain]) -> anyhow::Result<Vec<Value>> {
    let recorded = Recorded::open(folder)?;
    let replayed = again.run(&recorded, None, true)?;
    let store = Arc::clone(&replayed.store);
    let first = replayed.engines.first().context("the recording has no worker")?;
    let (conditions, state, names) = (first.view().conditions(), store.snapshot(), Names::new());
    let one = |question: &Explain| {
        let packet = question.packet(&state, &names, &|mac| state.host(mac).cloned());
        let (packet, assumed) = packet.map_err(|error| anyhow!("{error}"))?;
        let explanation = explain(&mut Engines(replayed.engines.iter().collect()), &store, &conditions, packet);
        let context = AnswerContext { store: &store, counts: &RuleCounters::new(), loaded: None };
        let mut answer = with_assumed(to_json(&explanation, &context), &assumed);
        answer["time"] = json!(recorded.timestamp(replayed.counts.at));
        if let Some(first) = &replayed.difference {
            answer["differs"] = json!(format!("{}: {}", recorded.timestamp(first.at), first.what));
        }
        Ok(answer)
    };
    questions.iter().map(one).collect()
}
