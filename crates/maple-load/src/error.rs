//! Errors of a load.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The reason why a load has no report.
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
        /// The switch's number, from 1.
        switch: u32,
        /// The controller.
        address: SocketAddr,
        /// The reason.
        error: io::Error,
    },
    /// Some switches did not finish their handshake in time.
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
        /// The switch's number, from 1.
        switch: u64,
        /// The bytes of it.
        why: String,
    },
    /// The controller sent bytes that are not OpenFlow.
    #[error("switch {switch} got a message that does not hold together: {error}")]
    Malformed {
        /// The switch's number, from 1.
        switch: u64,
        /// The problem.
        error: maple_wire::Error,
    },
    /// The process may not have this many connections.
    #[error(
        "{connections} connections need {files} open files, and this process may have {limit}: raise the hard limit \
         (ulimit -Hn)"
    )]
    Descriptors {
        /// The number of connections.
        connections: u64,
        /// The number of files that they need.
        files: u64,
        /// The limit.
        limit: u64,
    },
    /// The system refused something.
    #[error(transparent)]
    System(#[from] io::Error),
}
