//! Messages that Open vSwitch's own tools and switch sent, kept with the project. They decode and re-encode to equal
//! bytes, and standard OpenFlow in them is not merely kept as something unknown.

use maple_wire::{Message, Version};

/// Words in a line that indicate Nicira extensions, which are kept unchanged.
const EXTENSIONS: [&str; 5] = ["resubmit", "reg0", "multipath", "ct_state", "nw_frag"];
/// Texts in a line that indicate further extensions.
const MORE_EXTENSIONS: [&str; 4] = ["encap", "learn", "tcp,tp_dst=0x400/0xfc00", "255.255.255.0->ip_src"];

fn check(line: &str) -> Result<(), String> {
    let mut parts = line.split(" | ");
    let (Some(version), Some(what), Some(digits)) = (parts.next(), parts.next(), parts.next()) else {
        return Err("a line has three parts".to_string());
    };
    let version = if version == "1.0" { Version::Of10 } else { Version::Of13 };
    let bytes = hex(digits);
    let (header, message) = Message::decode(&bytes).map_err(|error| error.to_string())?;
    let again = message.to_bytes(version, header.xid).map_err(|error| error.to_string())?;
    if again != bytes {
        return Err(format!("{message:?}\nwrites {again:02x?}\n   not {bytes:02x?}"));
    }
    let extends = EXTENSIONS.iter().chain(&MORE_EXTENSIONS).any(|word| what.contains(word));
    let unknown = format!("{message:?}").contains("Unknown");
    if unknown && !extends { Err(format!("not understood: {message:?}")) } else { Ok(()) }
}

fn check_all(lines: &str) {
    let lines = lines.lines().filter(|line| !line.starts_with('#'));
    let failures: Vec<String> = lines.filter_map(|line| check(line).err().map(|e| format!("{line}\n  {e}"))).collect();
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

#[test]
fn messages_of_ovs_ofctl_come_back_as_they_were() {
    check_all(include_str!("data/ovs-ofctl.txt"));
}

#[test]
fn messages_of_open_vswitch_come_back_as_they_were() {
    check_all(include_str!("data/ovs-switch.txt"));
}
