//! Tests of policies in Rust: an emulated network under a policy, in simulated time, and assertions about it.
//!
//! ```
//! use maple::prelude::*;
//! use maple_testing::{Network, with};
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
//! let mut net = Network::new("ring:4", f);
//! net.assert_delivered("h1", "h2", with().tcp_dst(80).via([1, 2]).only());
//! net.assert_dropped("h1", "h2", with().tcp_dst(23));
//! net.link_down("s1", "s2");
//! net.assert_delivered("h1", "h2", with().via([1, 4, 3, 2]));
//! ```
//!
//! The assertions have the names of `maple.testing` in Python, and mean the same. This crate is not a part of `maple`,
//! because programs that run policies depend on `maple` and must not carry an emulator along.

mod explore;
mod network;
mod packet;

pub use explore::Explored;
pub use maple_laboratory::{Copy, Journey};
pub use network::Network;
pub use packet::{With, with};
