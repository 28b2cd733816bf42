//! Input and output of an engine, and messages between its shards. Nothing here has a state.

pub(super) mod cause;
pub(super) mod event;
pub(super) mod mail;
pub(super) mod received_packet;
pub(super) mod trial;
pub(super) mod watched;
