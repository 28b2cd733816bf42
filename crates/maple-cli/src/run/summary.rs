//! What came of a run, in numbers.

use maple_controller::Handle;
use maple_emulator::driver::Stats;

use super::check::Verdicts;
use crate::say;

/// Prints what a controller without an emulated network has done; its exit status.
pub fn of_controller(handle: &Handle) -> u8 {
    let engine = handle.stats().total.engine;
    say(format_args!(
        "{} packet-ins, {} decided by the policy, {} flow-mods",
        engine.packet_ins, engine.misses, engine.flow_mods
    ));
    if engine.policy_errors > 0 {
        say(format_args!("the policy failed on {} packets; they were dropped", engine.policy_errors));
    }
    0
}

/// Prints what became of the traffic on an emulated network.
pub fn of_network(handle: &Handle, network: &Stats, verdicts: Option<&Verdicts>) {
    let engine = handle.stats().total.engine;
    let sent: u64 = network.hosts.iter().map(|host| host.sent).sum();
    let rules: usize = network.switches.iter().map(|switch| switch.rules).sum();
    let line = |name: &str, value: u64| say(format_args!("  {name:<34}{value:>9}"));
    say("summary");
    line("packets sent by hosts", sent);
    if let Some(verdicts) = verdicts {
        line("  delivered as f says", verdicts.right);
        line("  lost", verdicts.lost.count);
        line("  delivered otherwise than f says", verdicts.wrong.count);
        if verdicts.unchecked > 0 {
            line("  before their port was known", verdicts.unchecked);
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
    }
    for (what, tally) in verdicts.iter().flat_map(|v| [("lost", &v.lost), ("wrong", &v.wrong)]) {
        for example in &tally.examples {
            say(format_args!("{what}: {example}"));
        }
    }
}
