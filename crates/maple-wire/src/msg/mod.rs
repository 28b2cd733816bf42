//! OpenFlow messages: one file each, with its view, its owned form, its codec and its printed form.
//!
//! [`Message::decode`] reads one whole message; [`Message::encode`] appends one to a buffer. Both take the version
//! from the caller or the header and give version-neutral values.

use std::fmt;

pub mod error;
pub mod features;
pub mod flow_mod;
pub mod flow_removed;
pub mod hello;
pub mod packet_in;
pub mod packet_out;
pub mod port_status;
pub mod stats;

pub use error::ErrorMsg;
pub use features::Features;
pub use flow_mod::{FlowMod, FlowModCommand};
pub use flow_removed::FlowRemoved;
pub use hello::Hello;
pub use packet_in::{PacketIn, PacketInReason};
pub use packet_out::PacketOut;
pub use port_status::{PortReason, PortStatus};
pub use stats::{StatsReply, StatsRequest};

/// A version of OpenFlow that this codec speaks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Version {
    /// OpenFlow 1.0.
    Of10 = 1,
    /// OpenFlow 1.3.
    Of13 = 4,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Version::Of10 => "1.0",
            Version::Of13 => "1.3",
        })
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The eight bytes that every message starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The version byte as it stands; it may be one that this codec does not speak.
    pub version: u8,
    /// The type byte.
    pub kind: u8,
    /// Length of the whole message in bytes, at least 8.
    pub length: u16,
    /// Transaction id.
    pub xid: u32,
}

/// The buffer id that says "no buffer, the packet's bytes are here".
pub const NO_BUFFER: u32 = 0xffff_ffff;

/// One OpenFlow message without its header, in no version's format.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Message {
    /// Opens a connection.
    Hello(Hello),
    /// A request could not be done.
    Error(ErrorMsg),
    /// Are you there? With any bytes.
    EchoRequest(Vec<u8>),
    /// Yes: the same bytes.
    EchoReply(Vec<u8>),
    /// What are you?
    FeaturesRequest,
    /// This is what I am.
    FeaturesReply(Features),
    /// A packet for the controller.
    PacketIn(PacketIn),
    /// A rule is gone.
    FlowRemoved(FlowRemoved),
    /// A port came, went or changed.
    PortStatus(PortStatus),
    /// Send this packet.
    PacketOut(PacketOut),
    /// Change the tables.
    FlowMod(FlowMod),
    /// Ask for statistics.
    StatsRequest(StatsRequest),
    /// Statistics.
    StatsReply(StatsReply),
    /// Finish everything before this first.
    BarrierRequest,
    /// Done.
    BarrierReply,
}
