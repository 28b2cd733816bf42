//! `maple explain --dropped`: the drops of the last minutes by source line and host.

use maple_core::engine::{CounterKind, DropCause, Dropped as Drops, KEPT_MINUTES};
use maple_core::network::{Location, Mac};
use serde_json::{Value, json};

use super::answer::location;
use super::explain::SourceLines;
use super::request::RequestError;
use super::{COUNT_TIMEOUT, Handle};

/// Answers with an object for each line, host and port, those with the most packets first.
pub(super) fn answer(handle: &Handle, minutes: u64) -> Result<Value, RequestError> {
    if !(1..=KEPT_MINUTES).contains(&minutes) {
        let text = format!("the last {KEPT_MINUTES} minutes are kept, so it must be from 1 to {KEPT_MINUTES}");
        return Err(RequestError::at("show.dropped", text));
    }
    handle.count(CounterKind::Rules, None, COUNT_TIMEOUT)?;
    let mut all = handle.drops(minutes)?;
    all.sort_by(|a, b| {
        b.packets.cmp(&a.packets).then_with(|| (a.switch, a.port, a.host).cmp(&(b.switch, b.port, b.host)))
    });
    let mut lines = SourceLines::new(Some(handle.policy_loaded()));
    Ok(all.iter().map(|one| dropped(handle, one, &mut lines)).collect())
}

fn dropped(handle: &Handle, one: &Drops, lines: &mut SourceLines) -> Value {
    let state = handle.snapshot();
    let at = one.port.map(|port| Location::new(one.switch, port));
    let line = one.cause.line();
    let known = |mac: Mac| state.host(mac).map(|host| location(host.location));
    let elsewhere = match &one.cause {
        DropCause::Elsewhere(at) => Some(location(*at)),
        _ => None,
    };
    json!({
        "packets": one.packets,
        "latest": one.latest,
        "switch": one.switch.to_string(),
        "at": at.map(location),
        "host": one.host.map(|mac| mac.to_string()),
        "host_at": one.host.and_then(known),
        "line": line.map(ToString::to_string),
        "text": line.and_then(|line| lines.text(&line.file, line.line)),
        "constraint": one.cause.constraint().map(|name| &**name),
        "why": one.cause.to_string(),
        "elsewhere": elsewhere,
        "example": Some(&*one.example).filter(|example| !example.is_empty()),
    })
}
