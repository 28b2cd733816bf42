//! Why there is no report.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// An option that makes no sense.
    #[error("{0}")]
    Wrong(&'static str),
    /// A file for TLS is not what it should be.
    #[error("{}: {why}", file.display())]
    Tls {
        /// The file.
        file: PathBuf,
        /// The problem.
        why: String,
    },
    /// The controller cannot be reached.
    #[error("switch {switch} can't connect to {address}: {error}")]
    Connect {
        /// Which switch, from 1.
        switch: u32,
        /// The controller.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// Some switches never finished their handshake.
    #[error("{missing} of {switches} switches were not asked for their features within {within:?}")]
    Handshake {
        /// The number of them.
        missing: usize,
        /// The number of all.
        switches: u32,
        /// The time that they waited.
        within: Duration,
    },
    /// The controller closed a connection.
    #[error("the controller closed the connection of switch {switch}: {why}")]
    Closed {
        /// Which switch, from 1.
        switch: u64,
        /// The bytes of it.
        why: String,
    },
    /// The controller sent bytes that are no OpenFlow.
    #[error("switch {switch} got a message that does not hold together: {error}")]
    Malformed {
        /// Which switch, from 1.
        switch: u64,
        /// The problem.
        error: maple_wire::Error,
    },
    /// The system refused something.
    #[error(transparent)]
    System(#[from] io::Error),
}
