//! The model of an OpenFlow switch: messages and frames in, messages and frames out.
//!
//! [`Switch`] has no sockets and no clock: its caller says what time it is. The crate depends on the wire format and on
//! nothing else of Maple, so it cannot share a mistake of the compiler.
//!
//! ```
//! use maple_switch::{Lost, Switch, SwitchOptions};
//! use maple_wire::{Dpid, PortNo, Version};
//!
//! let mut switch = Switch::new(Dpid(1), Version::Of13, SwitchOptions::default());
//! switch.add_port(0, PortNo(1));
//! let frame = maple_wire::packet::Frame::ethernet([0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, 1]).raw(0x88b5, b"hello");
//! assert!(switch.receive(0, PortNo(1), frame).is_empty());
//! assert_eq!(switch.record().lost, [Lost::NoRule]);
//! ```

pub mod time;

mod switch;

pub use switch::{
    ControllerId, Group, GroupKind, Lost, Meter, Outgoing, PassedTable, PortCounters, Queue, QueueCounters, QueueRates,
    Record, Refusal, Removal, Rule, Switch, SwitchCounters, SwitchOptions, SwitchPort, Table,
};
