//! Bytes to values and back: OpenFlow 1.0 and 1.3 messages, and packet headers.
//!
//! This crate knows nothing about Maple: no policies, trees or switches' state. It has three parts.
//!
//! * [`msg`]: OpenFlow. One file for each message, with its structure and its form in both versions. Structures are
//!   version-neutral: what both versions can express is represented in the same way, with OpenFlow 1.3's names.
//!   `encode` fails with [`Error::Unsupported`] if the requested version has no form for it. A packet-in can also be
//!   read in place.
//! * [`print`](mod@print): messages, matches, actions and rules as text, in the form of `ovs-ofctl`.
//! * [`packet`]: a lazy view over a raw Ethernet frame, and builders for frames.
//!
//! [`field`] and [`flow`] are the vocabulary that all parts share: OXM fields, matches, actions.
//!
//! No function here panics on input bytes, whatever they contain.

#![warn(missing_debug_implementations)]

mod counted;
mod dpid;
mod number_text;
mod numbers;
mod spelling;
mod version;

pub mod field;
pub mod flow;
pub mod port;

pub mod msg;

pub mod print;

pub mod packet;

mod error;

pub use counted::counted;
pub use dpid::{BadDpid, Dpid};
pub use error::{Error, Result};
pub use field::{Field, FieldSet};
pub use flow::{Action, ActionSet, Constraint, Instruction, Match, MatchField};
pub use msg::{Header, Message};
pub use number_text::{parse_hex, parse_number};
pub use numbers::{eth_type, icmpv6_type, ip_proto};
pub use packet::Packet;
pub use port::{BadPort, Port, PortNo};
pub use spelling::nearest;
pub use version::{UnsupportedVersion, Version};
