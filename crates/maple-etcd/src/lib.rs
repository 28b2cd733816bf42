//! A client of etcd: keys, transactions, leases and watches, over the JSON gateway that every etcd has since 3.4.
//!
//! The gateway speaks HTTP/1.1 and JSON on the same port as gRPC, so this needs neither protocol buffers nor HTTP/2,
//! but only what the controller has already: hyper, tokio and rustls. A client is used from one task or many of one
//! runtime. It is asynchronous because a member of a cluster waits for several things at once (a watch, a lease, an
//! answer), and gives some of them up when their time is over: dropping the future is what ends them.
//!
//! # What became of a request
//!
//! The one thing that a client of a replicated store must not blur is whether a write happened. So an error says one of
//! three things ([`EtcdError`]):
//!
//! | error | the request |
//! | --- | --- |
//! | [`EtcdError::Unreachable`] | reached no endpoint; nothing happened |
//! | [`EtcdError::Refused`] | was refused; nothing happened |
//! | [`EtcdError::Uncertain`] | was sent, and what came back, if anything, does not say whether it was carried out |
//!
//! Requests that only read, and those that renew a lease, are sent to the next endpoint in every case where no answer
//! came. A write goes to the next endpoint only if it is certain that it did not happen at the one before.
//!
//! Where etcd has no space, a write may be there though the answer is that there is none. Such a write is uncertain.
//! So is one whose future is dropped before it has ended. Whoever drops a request and asks again begins at the next
//! endpoint.
//!
//! # What the gateway does otherwise than gRPC
//!
//! Keys and values are base64, 64-bit numbers are strings, and whatever is zero, empty or false is absent. Answers to
//! streams are lines of `{"result":…}` or `{"error":…}`. A stream takes one request only, because the server reads the
//! whole body before it answers. Therefore a lease is kept by one request at a time, and a watch can't be asked how far
//! it is. Errors have another shape in 3.6 than before. A server that asks clients for certificates calls itself with
//! its own one, so that certificate must be valid for clients too, and names in clients' certificates mean nothing: who
//! needs a role gives a user and a password.
//!
//! # Bounds
//!
//! A call tries each endpoint once, for at most `connect + request` with everything that belongs to it: waiting for a
//! token, asking for one, connecting. So it takes at most `endpoints × (connect + request)`. [`Client::all`] calls once
//! for each page, and with smaller pages where one is longer than the limit. An answer is read up to [`Limits::answer`]
//! bytes, and so is a line of a watch.

mod address;
mod client;
mod config;
mod connection;
mod error;
mod json;
mod keys;
mod lease;
mod status;
mod token;
mod transaction;
mod watch;

pub use address::{Address, AddressError, Endpoint};
pub use client::Client;
pub use config::{Config, Credentials, Limits, TlsFiles};
pub use error::{EtcdError, Failure, FailureReason, Refusal};
pub use keys::{Deleted, KeyValue, Keys, Range, Written};
pub use lease::{LeaseId, LeaseTime};
pub use status::Status;
pub use transaction::{Compare, Operation, OperationAnswer, Transaction, TransactionAnswer};
pub use watch::{Change, Watch, WatchEvent};
