//! Messages of bundles.

use std::fmt::{self, Write};

use super::message::nested;
use super::value::BitNames;
use crate::msg::{BundleAdd, BundleControl, Header};

/// The kinds of control messages, by number.
const KINDS: [&str; 8] = [
    "OPEN_REQUEST",
    "OPEN_REPLY",
    "CLOSE_REQUEST",
    "CLOSE_REPLY",
    "COMMIT_REQUEST",
    "COMMIT_REPLY",
    "DISCARD_REQUEST",
    "DISCARD_REPLY",
];

/// Prints the bundle and the command.
pub(super) fn control(out: &mut String, control: &BundleControl) -> fmt::Result {
    let kind = KINDS.get(usize::from(control.kind)).copied().unwrap_or_default();
    write!(out, "\n bundle_id={:#x} type={kind} flags={}", control.bundle, flags(control.flags))
}

/// Prints the bundle and the added message, which has the header's version and transaction id.
pub(super) fn add(out: &mut String, header: &Header, add: &BundleAdd, depth: u32) -> fmt::Result {
    write!(out, "\n bundle_id={:#x} flags={}\n", add.bundle, flags(add.flags))?;
    out.push_str(&nested(header, &add.message, depth));
    Ok(())
}

fn flags(bits: u16) -> BitNames<'static> {
    BitNames { bits: bits.into(), names: &["atomic", "ordered"], zero: "0", shows_nameless: true }
}
