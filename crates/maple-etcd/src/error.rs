//! Errors, which say whether a request was carried out, at which server, and why.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::address::Endpoint;

/// The reason why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    /// No server carried the request out: none could be reached, or each said that it can't serve.
    /// One failure for each server that was tried.
    #[error("no server of etcd answers: {}", join(.0))]
    Unreachable(Vec<Failure>),
    /// The request was sent to a server, and what came back does not say whether it was carried
    /// out: no answer, one that makes no sense, or a refusal after which etcd may have done it all
    /// the same ([`FailureReason::NoSpace`]). Only writes have this error.
    #[error("it is not known whether etcd did what it was asked: {0}")]
    Uncertain(Failure),
    /// A watch broke off at this server.
    #[error("the watch ended at {0}")]
    WatchEnded(Failure),
    /// The request was refused by etcd. Nothing was changed.
    #[error("etcd at {endpoint} refuses: {message}")]
    Refused {
        /// The server.
        endpoint: Endpoint,
        /// The reason, as far as programs need it.
        refusal: Refusal,
        /// etcd's own words.
        message: String,
    },
    /// More keys begin so than the caller wants.
    #[error("etcd at {endpoint} has more than {at_most} keys that begin with `{}`", prefix.escape_ascii())]
    TooManyKeys {
        /// The server.
        endpoint: Endpoint,
        /// The prefix of the keys.
        prefix: Vec<u8>,
        /// The maximum that the caller wants.
        at_most: usize,
    },
}

impl EtcdError {
    /// Returns why etcd refused, if it did.
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            EtcdError::Refused { refusal, .. } => Some(*refusal),
            _ => None,
        }
    }
}

fn join(failures: &[Failure]) -> String {
    failures.iter().map(Failure::to_string).collect::<Vec<_>>().join("; ")
}

/// Returns an error's text with those of its causes, which hyper's own lacks.
fn with_causes(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// The failure at one server.
#[derive(Debug, thiserror::Error)]
#[error("{endpoint}: {reason}")]
pub struct Failure {
    /// The server.
    pub endpoint: Endpoint,
    /// The reason.
    pub reason: FailureReason,
}

impl Failure {
    /// Reports whether there is an answer, which is too long.
    pub(crate) fn is_too_long(&self) -> bool {
        matches!(self.reason, FailureReason::TooLong(_))
    }
}

/// The reason why a server gave no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FailureReason {
    /// The server can't be connected to.
    #[error("can't connect: {0}")]
    Connect(std::io::Error),
    /// A file for TLS is not what it should be.
    #[error("{}: {why}", file.display())]
    TlsFile {
        /// The file.
        file: PathBuf,
        /// The problem.
        why: String,
    },
    /// The server's host can't be the name in a certificate.
    #[error("`{0}` can't be in a certificate")]
    TlsName(String),
    /// The server did not answer in this time.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The connection broke.
    #[error("the connection broke: {}", with_causes(.0))]
    Broken(#[from] hyper::Error),
    /// The server closed a stream that should go on.
    #[error("it closed the stream")]
    Ended,
    /// The answer is longer than this number of bytes.
    #[error("its answer is longer than {0} bytes")]
    TooLong(usize),
    /// The answer is not what etcd's documentation says.
    #[error("its answer makes no sense: {0}")]
    Malformed(String),
    /// The server says that it can't serve now: it has no leader, it stops, or something took too long in it.
    #[error("{0}")]
    Unavailable(String),
    /// etcd's quota of bytes is used up. It takes no writes until somebody makes room and disarms the alarm. A write
    /// that is refused for this may be there all the same: the servers agree on it first, and look at the quota then.
    #[error("it has no space left")]
    NoSpace,
}

/// A reason for which etcd refuses a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The revision asked for was compacted.
    Compacted,
    /// The revision asked for is still to come: the server's data are older than what the caller saw.
    FutureRevision,
    /// The lease has ended, or never was.
    NoSuchLease,
    /// The request has more bytes than etcd takes (1.5 MiB by default), or than its gateway does (0.5 MiB more).
    TooLarge,
    /// The transaction has more operations than etcd takes (128 by default).
    TooManyOperations,
    /// User and password are wrong, or missing.
    Credentials,
    /// The user may not do this.
    Permission,
    /// The token has expired. The client asks for a new one by itself.
    Token,
    /// Any other reason.
    Other,
}

/// The codes of gRPC (google/rpc/code.proto) that this client distinguishes.
pub(crate) mod code {
    pub const CANCELLED: u32 = 1;
    pub const UNKNOWN: u32 = 2;
    pub const DEADLINE_EXCEEDED: u32 = 4;
    pub const ABORTED: u32 = 10;
    pub const INTERNAL: u32 = 13;
    pub const UNAVAILABLE: u32 = 14;
    pub const DATA_LOSS: u32 = 15;
}

/// The meaning of an error of etcd for the request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The request was refused.
    Refused(Refusal),
    /// The request was not begun, because the server has no leader, or no vote.
    NotBegun,
    /// The request may have been carried out.
    Unknown,
    /// The request may have been carried out, though there is no space for it.
    NoSpace,
}

/// Judges an error by etcd's words, and by gRPC's code where they are unknown.
pub(crate) fn judge(grpc: u32, message: &str) -> Verdict {
    let words = message.trim_start_matches("rpc error: ").rsplit("desc = ").next().unwrap_or(message);
    let refusal = match words.trim_start_matches("etcdserver: ") {
        "no leader" | "rpc not supported for learner" => return Verdict::NotBegun,
        "mvcc: database space exceeded" => return Verdict::NoSpace,
        "mvcc: required revision has been compacted" => Refusal::Compacted,
        "mvcc: required revision is a future revision" => Refusal::FutureRevision,
        "requested lease not found" => Refusal::NoSuchLease,
        "request is too large" => Refusal::TooLarge,
        // gRPC's own limit, which is greater than etcd's.
        _ if words.starts_with("grpc: received message larger than max") => Refusal::TooLarge,
        "too many operations in txn request" => Refusal::TooManyOperations,
        "authentication failed, invalid user ID or password" | "user name is empty" => Refusal::Credentials,
        "permission denied" => Refusal::Permission,
        // The second one: roles were changed since the token was made.
        "invalid auth token" | "revision of auth store is old" => Refusal::Token,
        _ => match grpc {
            code::CANCELLED
            | code::UNKNOWN
            | code::DEADLINE_EXCEEDED
            | code::ABORTED
            | code::INTERNAL
            | code::UNAVAILABLE
            | code::DATA_LOSS => return Verdict::Unknown,
            _ => Refusal::Other,
        },
    };
    Verdict::Refused(refusal)
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Compacted => "the revision was compacted",
            Refusal::FutureRevision => "the revision is still to come",
            Refusal::NoSuchLease => "the lease has ended",
            Refusal::TooLarge => "the request is too large",
            Refusal::TooManyOperations => "the transaction has too many operations",
            Refusal::Credentials => "user and password are wrong or missing",
            Refusal::Permission => "the user may not do this",
            Refusal::Token => "the token has expired",
            Refusal::Other => "etcd refuses",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_etcd_surely_did_not_do_counts_as_refused() {
        assert_eq!(judge(code::UNAVAILABLE, "etcdserver: no leader"), Verdict::NotBegun);
        assert_eq!(judge(code::UNAVAILABLE, "etcdserver: request timed out"), Verdict::Unknown);
        assert_eq!(judge(code::UNAVAILABLE, "etcdserver: leader changed"), Verdict::Unknown);
        assert_eq!(judge(code::DEADLINE_EXCEEDED, "context deadline exceeded"), Verdict::Unknown);
        assert_eq!(judge(code::UNAVAILABLE, "etcdserver: rpc not supported for learner"), Verdict::NotBegun);
        assert_eq!(judge(8, "etcdserver: mvcc: database space exceeded"), Verdict::NoSpace);
        let large = "grpc: received message larger than max (2500010 vs. 2097152)";
        assert_eq!(judge(8, large), Verdict::Refused(Refusal::TooLarge));
        assert_eq!(judge(3, "unexpected EOF"), Verdict::Refused(Refusal::Other));
        assert_eq!(judge(5, "etcdserver: requested lease not found"), Verdict::Refused(Refusal::NoSuchLease));
        let wrapped = "rpc error: code = PermissionDenied desc = etcdserver: permission denied";
        assert_eq!(judge(code::UNKNOWN, wrapped), Verdict::Refused(Refusal::Permission));
    }
}
