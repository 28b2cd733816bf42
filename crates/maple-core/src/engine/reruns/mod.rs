//! Packets that f decides again: all leaves under another policy, and those that an earlier run of the controller
//! remembered.

pub(super) mod comparison;
pub(super) mod differences;
pub(super) mod reload;
pub(super) mod restore;
