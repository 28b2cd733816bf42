//! A policy on an emulated network in simulated time, and the words of tests about it.
//!
//! ```
//! use maple::prelude::*;
//! use maple_lab::{TestNetwork, with};
//!
//! fn f(pkt: &Packet, net: &Net) -> Route {
//!     if pkt.tcp_dst() == 23 {
//!         return Route::drop();
//!     }
//!     match (net.locate(pkt.eth_src()), net.locate(pkt.eth_dst())) {
//!         (Some(src), Some(dst)) => net.shortest_path(src, dst),
//!         _ => net.flood(),
//!     }
//! }
//!
//! let mut net = TestNetwork::new("ring:4", f);
//! net.assert_delivered("h1", "h2", with().tcp_dst(80).via([1, 2]).only());
//! net.assert_dropped("h1", "h2", with().tcp_dst(23));
//! net.link_down("s1", "s2");
//! net.assert_delivered("h1", "h2", with().via([1, 4, 3, 2]));
//! ```
//!
//! The assertions have the names of `maple.testing` in Python, and mean the same. This crate is not a part of `maple`,
//! because programs that run policies depend on `maple` and must not carry an emulator along.
//!
//! What runs here is the product: a shard with its sessions, discovery and engine, which takes the same turns as behind
//! sockets (`maple_controller::simulation`), and the emulator's switches and hosts. Connections in memory join them
//! ([`control`]). One topology, one policy, one seed and one sequence of calls give one run, as long as f reads only
//! packets and tracked state. [`TestNetwork`] has the words of tests; below it, [`Laboratory`] takes the commands of a
//! console.

mod costs;
mod decisions;
mod merge;
mod snoop;

pub mod control;
mod world;

mod laboratory;

mod explore;
mod packet;
mod test_network;

pub use costs::costs_of;
pub use decisions::{Decisions, TestCounts, TestKey};
pub use explore::Explored;
pub use laboratory::{Laboratory, seconds};
pub use packet::{PacketExpectation, with};
pub use test_network::TestNetwork;
pub use world::{FrameCopy, FrameFate, LaboratoryOptions, World, is_known, with_names_of};
