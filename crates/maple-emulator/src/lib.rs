//! OpenFlow switches, hosts, links and load: a network without hardware, for tests and for demonstrations.
//!
//! The crate depends on the wire format and the model of a switch, and on nothing else of Maple, so it cannot share a
//! mistake of the compiler. It has two layers.
//!
//! * A simulation without I/O, clocks and threads. [`Switch`] takes messages and frames and returns messages and
//!   frames; [`Host`] likewise; [`EmulatedNetwork`] joins them over links in simulated time and keeps a
//!   [`emulated::DeliveryLog`] of what became of every frame. One topology, one seed and one sequence of calls give one
//!   run.
//! * [`driver`]: the same network in real time, each switch connected over TCP to a controller's address.
//!
//! On either of them [`commands`] runs commands such as `h1 ping h2`.
//!
//! ```
//! use maple_emulator::{EmulatedNetwork, Topology};
//! use maple_wire::{PortNo, Version};
//!
//! let mut network = EmulatedNetwork::new(&Topology::parse("linear:2").unwrap(), Version::Of13);
//! let s1 = network.dpids().next().unwrap();
//! let frame = maple_wire::packet::Frame::ethernet([0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, 1]).raw(0x88b5, b"hello");
//! let id = network.inject(s1, PortNo(1), frame).unwrap();
//! network.run_for(maple_emulator::time::SECOND);
//! assert!(network.log().egress(id).is_empty(), "a 1.3 switch without rules drops everything");
//! ```

pub use maple_switch as switch;
pub use maple_switch::time;

pub mod quantity;

pub mod topology;

pub mod host;

mod pairs;

pub mod emulated;

pub mod traffic;

pub mod driver;

pub mod commands;

mod random;

pub use driver::{Emulation, EmulationOptions};
pub use emulated::{EmulatedNetwork, NetworkOptions};
pub use host::Host;
pub use maple_switch::time::Nanoseconds;
pub use maple_switch::{Outgoing, Switch};
pub use random::Random;
pub use topology::Topology;
