//! OpenFlow messages: one file each, with its view, its owned form and its codec.
//!
//! [`Message::decode`] reads one whole message, and [`Message::encode`] appends one to a buffer. The version comes from
//! the header or from the caller, and values are version-neutral. A `View` borrows the bytes and reads a value when it
//! is asked for. `new_checked` ensures that the fixed part is present, and lists check each length as they proceed.
//! Views of whole messages count offsets from the header on, as the specification does.
//!
//! A value that a version can't express is refused ([`crate::Error::Unsupported`]) if leaving it out would change the
//! effect. Reports from a switch (packet-in, flow-removed, statistics) leave out values for which 1.0 has no place.

pub mod header;
pub mod stream;

pub mod async_config;
pub mod bundle;
pub mod config;
pub mod error;
pub mod experimenter;
pub mod features;
pub mod flow_mod;
pub mod flow_removed;
pub mod group_mod;
pub mod hello;
pub mod meter_mod;
pub mod packet_in;
pub mod packet_out;
pub mod port_mod;
pub mod port_status;
pub mod queue_config;
pub mod role;
pub mod stats;
pub mod table_mod;

pub mod action;
pub mod instruction;
pub mod matching;
pub mod oxm;
pub mod port_desc;
pub mod text;

mod bytes;
mod codec;

pub use async_config::AsyncConfig;
pub use bundle::{BundleAdd, BundleControl};
pub use config::SwitchConfig;
pub use error::ErrorMsg;
pub use experimenter::Experimenter;
pub use features::Features;
pub use flow_mod::{FlowMod, FlowModCommand, FlowModView};
pub use flow_removed::FlowRemoved;
pub use group_mod::{Bucket, GroupMod};
pub use header::{Header, kind};
pub use hello::{Hello, HelloElement};
pub use meter_mod::{Band, BandKind, MeterMod};
pub use packet_in::{PacketIn, PacketInReason, PacketInView};
pub use packet_out::PacketOut;
pub use port_mod::PortMod;
pub use port_status::{PortReason, PortStatus};
pub use queue_config::{QueueConfig, QueueDesc, QueueProperty};
pub use role::Role;
pub use stats::{ReplyBody, RequestBody, StatsReply, StatsRequest};
pub use stream::Frames;
pub use table_mod::TableMod;
pub use text::Text;

pub use crate::version::Version;

/// The buffer id of a packet that is not buffered: the message contains its bytes.
pub const NO_BUFFER: u32 = 0xffff_ffff;

/// One OpenFlow message without its header, independent of a version's format.
///
/// ```
/// use maple_wire::{Message, Version};
///
/// let mut bytes = Vec::new();
/// Message::EchoRequest(b"hi".to_vec()).encode(Version::Of13, 7, &mut bytes).unwrap();
/// let (header, message) = Message::decode(&bytes).unwrap();
/// assert_eq!((header.xid, message), (7, Message::EchoRequest(b"hi".to_vec())));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Message {
    /// Opens a connection.
    Hello(Hello),
    /// Reports that a request could not be done.
    Error(ErrorMsg),
    /// Asks for an echo reply. The bytes are arbitrary.
    EchoRequest(Vec<u8>),
    /// Answers an echo request, with its bytes.
    EchoReply(Vec<u8>),
    /// An experimenter's (1.0: vendor's) own message.
    Experimenter(Experimenter),
    /// Opens, closes, commits or discards a bundle, or is the answer (1.3).
    BundleControl(BundleControl),
    /// Adds a message to a bundle (1.3).
    BundleAdd(BundleAdd),
    /// Asks for the switch's features.
    FeaturesRequest,
    /// The switch's features.
    FeaturesReply(Features),
    /// Asks for the switch's configuration.
    GetConfigRequest,
    /// The switch's configuration.
    GetConfigReply(SwitchConfig),
    /// Sets the switch's configuration.
    SetConfig(SwitchConfig),
    /// A packet for the controller.
    PacketIn(PacketIn),
    /// Reports that a rule was removed.
    FlowRemoved(FlowRemoved),
    /// Reports that a port was added, removed or changed.
    PortStatus(PortStatus),
    /// Makes the switch send a packet.
    PacketOut(PacketOut),
    /// Adds, changes or deletes rules.
    FlowMod(FlowMod),
    /// Changes a group (1.3).
    GroupMod(GroupMod),
    /// Changes a port.
    PortMod(PortMod),
    /// Configures a table (1.3).
    TableMod(TableMod),
    /// Asks for statistics.
    StatsRequest(StatsRequest),
    /// Statistics.
    StatsReply(StatsReply),
    /// Makes the switch finish all earlier messages first.
    BarrierRequest,
    /// Confirms a barrier request.
    BarrierReply,
    /// Asks for the queues of this port; [`crate::PortNo::ANY`] asks for all ports (1.3).
    QueueGetConfigRequest(crate::PortNo),
    /// The queues of a port.
    QueueGetConfigReply(QueueConfig),
    /// Asks for this role (1.3).
    RoleRequest(Role),
    /// The role that the controller has (1.3).
    RoleReply(Role),
    /// Asks which messages the switch sends without a request (1.3).
    GetAsyncRequest,
    /// The messages that the switch sends without a request (1.3).
    GetAsyncReply(AsyncConfig),
    /// Sets the messages that the switch sends without a request (1.3).
    SetAsync(AsyncConfig),
    /// Changes a meter (1.3).
    MeterMod(MeterMod),
    /// A message of a type that the version does not have, kept unchanged.
    Unknown {
        /// The number of its type.
        kind: u8,
        /// The bytes after the header.
        body: Vec<u8>,
    },
}

#[cfg(test)]
mod test;
