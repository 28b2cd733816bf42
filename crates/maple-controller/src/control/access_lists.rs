//! Access lists for people: what their rules have decided (`maple show access-list`), and what other lists in their
//! place would treat differently (`maple plan`).

use std::sync::Arc;

use maple_core::access::{AccessDecision, AccessList, ListDifference};
use maple_core::engine::{CounterKind, MAX_DIFFERENCES};
use serde_json::{Value, json};

use super::explain::SourceLines;
use super::queries::LateShard;
use super::{COUNT_TIMEOUT, Handle};

/// Answers with the lists of the policy, and with the packets that each rule has decided since the policy was loaded.
pub(super) fn answer(handle: &Handle) -> Result<Value, LateShard> {
    handle.count(CounterKind::Rules, None, COUNT_TIMEOUT)?;
    let mut lines = SourceLines::new(Some(handle.policy_loaded()));
    Ok(handle.access_hits()?.iter().map(|(list, packets)| hits(list, packets, &mut lines)).collect())
}

fn hits(list: &AccessList, packets: &[u64], lines: &mut SourceLines) -> Value {
    let written = list.written();
    let rule = |(index, packets): (usize, &u64)| {
        let rule = &list.rules()[index];
        let source = rule.source.as_ref();
        json!({
            "rule": written.map(|written| written.describe(index)),
            "action": rule.action.to_string(),
            "packets": packets,
            "line": source.map(|source| source.line),
            "text": source.and_then(|source| lines.text(&source.file, source.line)),
        })
    };
    let rules: Value = packets.iter().enumerate().map(rule).collect();
    json!({ "file": written.map(|written| written.file()), "rules": rules })
}

/// Finds what the lists of another policy treat differently from those in their places. Lists are in the same place if
/// both policies have the same number of lists, or else if they are from the same file.
pub(super) fn compare(before: &[Arc<AccessList>], after: &[Arc<AccessList>]) -> Value {
    let file = |list: &AccessList| list.written().map(|written| written.file().to_owned());
    let counterpart = |at: usize| {
        if before.len() == after.len() {
            before.get(at)
        } else {
            before.iter().find(|list| file(list).is_some() && file(list) == file(&after[at]))
        }
    };
    let compared = |(at, new): (usize, &Arc<AccessList>)| {
        let (old, new) = (counterpart(at)?.written()?, new.written()?);
        let comparison = old.compare(new)?;
        let complete = comparison.complete && comparison.differences.len() <= MAX_DIFFERENCES;
        let differences: Value = comparison.differences.iter().take(MAX_DIFFERENCES).map(difference).collect();
        Some(json!({ "file": new.file(), "differences": differences, "complete": complete }))
    };
    after.iter().enumerate().filter_map(compared).collect()
}

fn difference(one: &ListDifference) -> Value {
    let side = |AccessDecision { action, rule }: &AccessDecision| json!({ "action": action.to_string(), "rule": rule });
    json!({ "packets": one.packets, "cubes": one.sets, "old": side(&one.before), "new": side(&one.after) })
}
