//! Packets that f decides without being asked: samples and made-up packets beforehand, all leaves again under another
//! policy, and those that an earlier run of the controller remembered.

pub(super) mod comparison;
pub(super) mod differences;
pub(super) mod explore;
pub(super) mod reload;
pub(super) mod restore;
pub(super) mod samples;
