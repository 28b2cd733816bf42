//! Small tools of the engine's parts, which know nothing of packets and switches.

pub(super) mod backoff;
pub(super) mod expected;
pub(super) mod histogram;
pub(super) mod versioned_cache;
