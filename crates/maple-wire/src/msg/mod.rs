//! OpenFlow messages: one file each, with its structure, its form in bytes and tests with real bytes.
//!
//! [`Message::decode`] reads one whole message, and [`Message::encode`] appends one to a buffer. The version comes from
//! the header or from the caller, and values are version-neutral. `message.rs` is the table of all messages, and
//! `wire.rs` says how structures lie in bytes. Only [`PacketInView`] reads a message in place.
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
pub mod text;

mod message;
mod port_desc;

mod bytes;
mod numbered;
mod wire;

pub use async_config::AsyncConfig;
pub use bundle::{BundleAdd, BundleControl};
pub use config::SwitchConfig;
pub use error::ErrorMsg;
pub use experimenter::Experimenter;
pub use features::Features;
pub use flow_mod::{FlowMod, FlowModCommand};
pub use flow_removed::FlowRemoved;
pub use group_mod::{Bucket, GroupMod};
pub use header::{Header, kind};
pub use hello::{Hello, HelloElement};
pub use message::Message;
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
/// All tables (`OFPTT_ALL`).
pub const ALL_TABLES: u8 = 0xff;
/// All groups (`OFPG_ALL`).
pub const ALL_GROUPS: u32 = 0xffff_fffc;
/// Any group, or none (`OFPG_ANY`).
pub const ANY_GROUP: u32 = 0xffff_ffff;
/// All meters (`OFPM_ALL`).
pub const ALL_METERS: u32 = 0xffff_ffff;

/// The commands of group-mods and meter-mods (`OFPGC_*`, `OFPMC_*`).
pub mod command {
    /// Adds a group or meter.
    pub const ADD: u16 = 0;
    /// Changes one.
    pub const MODIFY: u16 = 1;
    /// Deletes one, or all.
    pub const DELETE: u16 = 2;
}

#[cfg(test)]
mod test;
