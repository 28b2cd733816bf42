//! What goes into an engine and comes out of it, and what its shards tell each other. Nothing here has a state.

pub(super) mod cause;
pub(super) mod event;
pub(super) mod mail;
pub(super) mod received_packet;
pub(super) mod trial;
pub(super) mod watched;
