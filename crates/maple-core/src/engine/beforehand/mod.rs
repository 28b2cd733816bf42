//! Packets that f decides before they come: those that an access list names, and those that known hosts could send.

pub(super) mod explore;
pub(super) mod samples;
