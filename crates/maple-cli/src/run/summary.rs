//! The summary of a run.

use std::cmp::Reverse;
use std::sync::Arc;

use maple_controller::{Handle, LateShard};
use maple_emulator::driver::Stats;

use super::check_deliveries::Verdicts;
use super::progress::Lines;
use crate::output::print_line;
use maple_wire::counted;

/// The maximum number of errors of f that are listed. Chosen: they fit a screen, the most frequent ones first.
const ERRORS: usize = 20;

/// Prints the summary of a controller without an emulated network.
pub fn of_controller(handle: &Handle, lines: &mut Lines) {
    let engine = match handle.stats() {
        Ok(stats) => stats.total.engine,
        Err(late) => return lines.print_line(&format!("no summary: {late}")),
    };
    lines.print_line(&format!(
        "{} packet-ins, {} decided by the policy, {} flow-mods",
        engine.packet_ins, engine.misses, engine.flow_mods
    ));
    if engine.policy_errors > 0 {
        lines.print_line(&format!("the policy failed on {}: dropped", counted(engine.policy_errors, "packet")));
        errors(handle, |line| lines.print_line(&line));
    }
}

/// Prints the summary of the traffic on an emulated network.
///
/// # Errors
/// [`LateShard`] if a shard does not answer in time.
pub fn of_network(handle: &Handle, network: &Stats, verdicts: Option<&Verdicts>) -> Result<(), LateShard> {
    let engine = handle.stats()?.total.engine;
    let sent: u64 = network.hosts.iter().map(|host| host.sent).sum();
    let rules: usize = network.switches.iter().map(|switch| switch.rules).sum();
    let line = |name: &str, value: u64| print_line(format_args!("  {name:<34}{value:>9}"));
    print_line("summary");
    line("packets sent by hosts", sent);
    if let Some(verdicts) = verdicts {
        line("  treated as f says", verdicts.right);
        line("  lost", verdicts.lost.count);
        line("  treated otherwise than f says", verdicts.wrong.count);
        if verdicts.excused > 0 {
            line("  lost by links, meters, failures", verdicts.excused);
        }
        if verdicts.unchecked > 0 {
            line("  not checked", verdicts.unchecked);
        }
    }
    line("packet-ins", engine.packet_ins);
    line("  misses (decided by f)", engine.misses);
    line("rules", rules as u64);
    line("flow-mods", engine.flow_mods);
    line("flows opened", network.total.opened);
    line("  ended well", network.total.done);
    if engine.policy_errors > 0 {
        line("dropped because f failed", engine.policy_errors);
        errors(handle, |line| print_line(handle.names().in_text(&line)));
    }
    for (what, tally) in verdicts.iter().flat_map(|v| [("lost", &v.lost), ("wrong", &v.wrong)]) {
        for example in &tally.examples {
            print_line(handle.names().in_text(&format!("{what}: {example}")));
        }
    }
    Ok(())
}

/// Prints the errors of f with their counts, the most frequent first.
fn errors(handle: &Handle, mut print: impl FnMut(String)) {
    let mut all: Vec<(Arc<str>, u64)> = match handle.operations().policy_errors() {
        Ok(errors) => errors.into_iter().collect(),
        Err(late) => return print(late.to_string()),
    };
    all.sort_by_key(|(_, count)| Reverse(*count));
    for (error, count) in all.iter().take(ERRORS) {
        print(format!("  {count:>7} x {}", brief(error)));
    }
    if let Some(more) = all.len().checked_sub(ERRORS).filter(|more| *more > 0) {
        print(format!("  and {more} other errors, less often"));
    }
}

/// Shortens an error to one line: a traceback to the place and the last line.
fn brief(error: &str) -> String {
    let lines = || error.lines().map(str::trim).filter(|line| !line.is_empty());
    let last = lines().next_back().unwrap_or_default();
    match lines().rev().skip(1).find(|line| line.starts_with("File ")) {
        Some(place) => format!("{place}: {last}"),
        None => last.to_string(),
    }
}

/// The flow counts of hosts on an emulated network.
#[derive(Clone, Copy, Debug)]
pub struct Flows {
    pub opened: u64,
    pub ended: u64,
    /// Whether the policy may drop packets of flows.
    pub may_drop: bool,
}

impl Flows {
    /// Describes the problems of the flows, given that all packets were delivered as f decided and f failed on this
    /// number of packets.
    fn failure(self, policy_errors: u64) -> Option<String> {
        let left = self.opened.saturating_sub(self.ended);
        let flows = format!("{left} of {} did not end", counted(self.opened, "flow"));
        match (left, policy_errors) {
            (0, _) => None,
            (_, 1..) => Some(format!("{flows}: the policy failed on {}", counted(policy_errors, "packet"))),
            _ if self.may_drop => None,
            _ => Some(format!("{flows}, as the policy says; if it drops packets on purpose, say --allow-drops")),
        }
    }
}

/// Returns the reason why a run on an emulated network failed.
pub fn failure(handle: &Handle, verdicts: Option<&Verdicts>, flows: Flows) -> Option<String> {
    let engine = match handle.stats() {
        Ok(stats) => stats.total.engine,
        Err(late) => return Some(late.to_string()),
    };
    if engine.policy_errors > 0 && engine.leaves_installed + engine.sent_by_controller == 0 {
        return Some("the policy failed on every packet".into());
    }
    let Some(Verdicts { lost, wrong, .. }) = verdicts else { return flows.failure(engine.policy_errors) };
    let count = |count, what| format!("{count} {} {what}", if count == 1 { "packet was" } else { "packets were" });
    match (lost.count, wrong.count) {
        (0, 0) => flows.failure(engine.policy_errors),
        (lost, 0) => Some(count(lost, "lost")),
        (0, wrong) => Some(count(wrong, "delivered otherwise than f says")),
        (lost, wrong) => Some(format!("{}, {wrong} delivered otherwise than f says", count(lost, "lost"))),
    }
}

#[cfg(test)]
mod tests {
    use super::{Flows, brief};

    #[test]
    fn flows_that_do_not_end_are_a_failure_unless_the_policy_may_drop_them() {
        let flows = |ended, may_drop| Flows { opened: 9, ended, may_drop };
        assert_eq!(flows(9, false).failure(3), None);
        assert!(flows(0, false).failure(0).is_some_and(|text| text.starts_with("9 of 9 flows did not end, as")));
        assert_eq!(flows(7, true).failure(0), None);
        assert_eq!(
            flows(7, true).failure(2).as_deref(),
            Some("2 of 9 flows did not end: the policy failed on 2 packets")
        );
    }

    #[test]
    fn an_error_in_a_line_says_where_and_what() {
        let traceback = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    g()\n  File \"b.py\", \
                         line 7, in g\n    raise ValueError(1)\nValueError: 1\n";
        assert_eq!(brief(traceback), "File \"b.py\", line 7, in g: ValueError: 1");
        assert_eq!(brief("a.rs:3: there is no such port"), "a.rs:3: there is no such port");
        assert_eq!(brief(""), "");
    }
}
