//! Prints messages, rules, matches and actions in the form of Open vSwitch's `ovs-ofctl`.
//!
//! * [`message()`] prints a message as `ovs-ofctl ofp-print` does, but **on one line**: every run of white space in
//!   what Open vSwitch prints, line ends included, is one space here, and there is none at either end.
//! * [`flow_line`] and [`FlowLine`] print a rule as `ovs-ofctl dump-flows --no-stats` does.
//! * [`matching()`], [`actions`] and [`instructions`] print the parts of a rule, [`frame()`] prints a packet.
//!
//! Open vSwitch has no text for fields, actions and instructions that it does not support, for unknown ones, and for
//! numbers without a name. These are printed here in the same style, with OpenFlow's own names, or numbers and hex.
//!
//! The text of a match or an action depends on the version that it is for: a packet without a VLAN tag is
//! `vlan_tci=0x0000` in OpenFlow 1.0 and `vlan_tci=0x0000/0x1fff` in 1.3, a new Ethernet source is `mod_dl_src:…` in
//! 1.0 and `set_field:…->eth_src` in 1.3. So everything here takes a [`Version`].

mod message;

mod bundle;
mod control;
mod flow_mod;
mod group_meter;
mod packet;
mod port;
mod session;
mod stats;
mod table;

mod flow;

mod frame;

mod action;
mod matching;

mod error_names;
mod value;

pub use action::{actions, instructions};
pub use flow::{FlowLine, flow_line};
pub use frame::frame;
pub use matching::matching;
pub use message::{header, message};
pub use session::error_name;

#[cfg(doc)]
use crate::msg::Version;
