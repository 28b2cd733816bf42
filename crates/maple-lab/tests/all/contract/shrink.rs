//! Makes a failing case smaller while it fails in the same way.

use std::panic::{AssertUnwindSafe, catch_unwind};

use maple_sim::cases::Step;
use maple_wire::Version;

use crate::contract::case::Case;
use crate::contract::check::{self, Failure, MessageCounts};

/// The maximum number of runs that shrinking takes.
const BUDGET: usize = 600;

/// Runs a case. A panic counts as a failure.
pub fn run(case: &Case) -> Result<MessageCounts, Failure> {
    catch_unwind(AssertUnwindSafe(|| check::run(case))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(Failure { kind: "panic", text: text.unwrap_or_default() })
    })
}

/// Returns the smallest case found that fails as this one does, and its failure.
pub fn shrink(case: &Case, failure: Failure) -> (Case, Failure) {
    let (mut best, mut failure, mut left) = (case.clone(), failure, BUDGET);
    loop {
        let smaller = candidates(&best).into_iter().find_map(|candidate| {
            left = left.checked_sub(1)?;
            run(&candidate).err().filter(|f| f.kind == failure.kind).map(|f| (candidate, f))
        });
        match smaller {
            Some((case, how)) => (best, failure) = (case, how),
            None => return (best, failure),
        }
    }
}

/// Returns cases with something taken away, the boldest first.
fn candidates(case: &Case) -> Vec<Case> {
    let mut all = Vec::new();
    let steps = case.scenario.steps.len();
    let mut chunk = steps;
    while chunk > 0 {
        for start in (0..steps).step_by(chunk) {
            let mut smaller = case.clone();
            smaller.scenario.steps.drain(start..(start + chunk).min(steps));
            all.push(smaller);
        }
        chunk /= 2;
    }
    all.extend((0..case.scenario.packets.len()).map(|packet| without_packet(case, packet)));
    all.extend(case.scenario.policy.smaller().into_iter().map(|policy| {
        let mut smaller = case.clone();
        smaller.scenario.policy = policy;
        smaller
    }));
    all.extend(without_links(case));
    all.extend(plainer(case));
    all
}

fn without_packet(case: &Case, packet: usize) -> Case {
    let mut smaller = case.clone();
    smaller.scenario.packets.remove(packet);
    smaller.scenario.steps.retain_mut(|step| match step {
        Step::Send(sent) | Step::Stream { packet: sent, .. } if *sent == packet => false,
        Step::Send(sent) | Step::Stream { packet: sent, .. } => {
            *sent -= usize::from(*sent > packet);
            true
        }
        _ => true,
    });
    smaller
}

fn without_links(case: &Case) -> Vec<Case> {
    let without = |at| {
        let mut smaller = case.clone();
        smaller.scenario.network.links.remove(at);
        smaller
    };
    (0..case.scenario.network.links.len()).map(without).collect()
}

/// Returns the case with one thing made as simple as can be, in each possible way.
fn plainer(case: &Case) -> Vec<Case> {
    let mut all = vec![
        Case { shards: 1, ..case.clone() },
        Case { busy: 0, ..case.clone() },
        Case { mail: 0, ..case.clone() },
        Case { jitter: 0, ..case.clone() },
        Case { open_vswitch: false, ..case.clone() },
        Case { version: Version::Of13, ..case.clone() },
        Case { tables: (8, case.tables.1), ..case.clone() },
        Case { track_hosts: true, ..case.clone() },
    ];
    for (at, packet) in case.scenario.packets.iter().enumerate() {
        let mut plain = packet.clone();
        (plain.tags, plain.cut) = (Vec::new(), None);
        let mut smaller = case.clone();
        smaller.scenario.packets[at] = plain;
        all.push(smaller);
    }
    for (at, step) in case.scenario.steps.iter().enumerate() {
        if let Step::Stream { packet, times, gap } = *step {
            let mut smaller = case.clone();
            smaller.scenario.steps[at] =
                if times > 1 { Step::Stream { packet, times: times / 2, gap } } else { Step::Send(packet) };
            all.push(smaller);
        }
    }
    let last = case.scenario.network.hosts.len().saturating_sub(1);
    let moves = |step: &Step| matches!(step, Step::Move { host, .. } if *host == last);
    let used = case.scenario.packets.iter().any(|packet| packet.from == last) || case.scenario.steps.iter().any(moves);
    if last > 0 && !used {
        let mut smaller = case.clone();
        smaller.scenario.network.hosts.pop();
        all.push(smaller);
    }
    all.retain(|smaller| smaller != case);
    all
}
