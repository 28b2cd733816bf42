//! `ovs-ofctl ofp-print`, with each run of white space as one space.

use std::process::Command;

use crate::skip::missing;

/// Reports whether Open vSwitch 3.1 is installed, and prints a message if not.
pub fn is_there() -> bool {
    let version = Command::new("ovs-ofctl").arg("--version").output();
    let found = version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("(Open vSwitch) 3.1"));
    if !found {
        missing("ovs-ofctl of Open vSwitch 3.1, to compare with");
    }
    found
}

/// Returns the text that Open vSwitch prints for a message.
pub fn text(message: &[u8]) -> String {
    let hex: String = message.iter().map(|byte| format!("{byte:02x}")).collect();
    let output = Command::new("ovs-ofctl").args(["ofp-print", &hex]).output().expect("ovs-ofctl runs");
    let text = String::from_utf8_lossy(&output.stdout);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Reports whether Open vSwitch could not read the message.
pub fn refuses(text: &str) -> bool {
    text.contains("***decode error")
}
