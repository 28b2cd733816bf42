//! Peers that break the protocol, flood, are slow, or do not read, over TLS: they harm only themselves.

#[path = "hostile.rs"]
mod hostile;
