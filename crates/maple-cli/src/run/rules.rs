//! The rules of switches with what they are for, as text.

use maple_controller::Handle;
use maple_wire::print::flow_line;

/// The rules of every switch: a line each as `ovs-ofctl dump-flows --no-stats` prints it, under a comment that says
/// which lines of the policy decided.
pub fn of_all(handle: &Handle) -> String {
    let mut text = String::new();
    for switch in handle.switches() {
        let rules = handle.rules(switch.dpid);
        text.push_str(&format!("switch {}: {} rules\n", switch.dpid, rules.len()));
        let mut last = String::new();
        for rule in rules {
            if rule.why != last {
                text.push_str(&format!("  # {}\n", rule.why));
                last = rule.why;
            }
            let line = flow_line(
                switch.version,
                rule.table_id,
                rule.rule.priority,
                rule.rule.cookie,
                &rule.rule.matching,
                &rule.rule.instructions,
            );
            text.push_str(&format!("  {}\n", line.trim_start()));
        }
    }
    text
}
