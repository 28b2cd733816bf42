//! The handshake of OpenFlow, over TLS.

#[path = "handshake.rs"]
mod handshake;
