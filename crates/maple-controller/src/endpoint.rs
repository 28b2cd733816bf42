//! Addresses at which the controller is reached, and sockets that listen there.

use std::net::{SocketAddr, TcpListener};

use serde::{Deserialize, Serialize};

/// An address that the controller listens on, or would.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// The address.
    pub address: SocketAddr,
    /// Whether connections begin with TLS there.
    pub has_tls: bool,
}

/// A listening socket that another process has opened.
#[derive(Debug)]
pub struct HandedListener {
    /// The socket.
    pub socket: TcpListener,
    /// Whether its connections begin with TLS.
    pub has_tls: bool,
}
