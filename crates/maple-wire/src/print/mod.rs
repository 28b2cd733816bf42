//! Prints matches, actions, rules and messages in the form of Open vSwitch's `ovs-ofctl`.
//!
//! Rules are printed as `ovs-ofctl dump-flows --no-stats` prints them ([`FlowLine`], [`flow_line`]).
//!
//! What Open vSwitch has no text for (fields, actions and instructions that it does not support or that nobody
//! knows) is printed in the same style with OpenFlow's own names, or as numbers and hex.
//!
//! The text of a match or an action depends on the version that it is for: a VLAN-less packet is
//! `vlan_tci=0x0000` in OpenFlow 1.0 and `vlan_tci=0x0000/0x1fff` in 1.3, a new Ethernet source is `mod_dl_src:…` in
//! 1.0 and `set_field:…->eth_src` in 1.3. So everything here takes a [`Version`].

mod action;
mod flow;
mod matching;
mod value;

pub use action::{actions, instructions};
pub use flow::{FlowLine, flow_line};
pub use matching::matching;

#[cfg(doc)]
use crate::msg::Version;
