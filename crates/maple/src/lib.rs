//! Program an OpenFlow network with one function of a packet. The network behaves as if the function ran afresh on
//! every packet that enters it.
//!
//! ```no_run
//! use maple::prelude::*;
//!
//! fn secure_routing(pkt: &Packet, net: &Net) -> Route {
//!     if pkt.is_multicast() {
//!         return net.flood();
//!     }
//!     let (Some(src), Some(dst)) = (net.locate(pkt.eth_src()), net.locate(pkt.eth_dst())) else {
//!         return net.flood();
//!     };
//!     if pkt.tcp_dst() == 22 { net.path(src, dst, "secure") } else { net.shortest_path(src, dst) }
//! }
//!
//! fn main() -> Result<(), maple::Error> {
//!     App::new(secure_routing).link_cost("secure", 1, 2, 10).run()
//! }
//! ```
//!
//! * [`App`] puts a [`Policy`] and what it needs together, and starts the [`controller`].
//! * A policy reads its [`Packet`] and the [`Net`], and answers with a [`Route`]. Maple records what it observed, and
//!   installs rules for all packets that would get the same answer. [`field`] lists what each question records.
//! * [`state`] is what policies and programs share: tables, variables, counters, and queries of them. A policy that
//!   read it decides again when it changes.
//! * [`compose`] makes policies of policies: tiers, rewrites, restrictions, slices. [`guard`] constrains their routes.
//! * [`listener`] is for programs besides a policy that hear what happens in the network.
//! * [`testing`] runs policies without a network.
//! * [`handlers`] is the second way to program a network: a program for each switch, which works with OpenFlow
//!   messages.
//!
//! [`prelude`] has the names that most policies need.
//!
//! The crate `maple-cli` gives such a program the options of `maple run`: `maple_cli::run(app)`.

#![warn(missing_debug_implementations, clippy::missing_panics_doc, clippy::must_use_candidate)]

mod app;
mod packet;

pub mod compose;
pub mod field;
pub mod guard;
pub mod net;
pub mod policy;
pub mod route;
pub mod state;

pub mod controller;
pub mod listener;
pub mod snoop;

#[cfg(feature = "parallel-paths")]
pub mod paths;
pub mod testing;

pub mod bindings;
pub mod handlers;
pub mod prelude;

/// OpenFlow messages, for handlers, and packet headers.
///
/// ```
/// use maple::wire::packet::Frame;
/// use maple::wire::{Field, Packet};
///
/// let frame = Frame::ethernet([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(1024, 22).build();
/// assert_eq!(Packet::new(&frame, 1).get(Field::TcpDst), Some(22));
/// ```
pub use maple_wire as wire;

/// Access lists: read from files, checked, compared. [`compose::access_lists`] makes policies of them.
///
/// ```
/// let list = maple::acl::List::read("version: 1\nrules: [{action: deny, service: tcp/23}]", "a.yaml")?;
/// assert!(list.findings().is_empty());
/// # Ok::<(), maple::acl::AclError>(())
/// ```
pub use maple_acl as acl;

/// The crates that this one is made of, for types that programs rarely name.
///
/// ```
/// use maple::crates::maple_core::state::Snapshot;
///
/// fn switches(controller: &maple::controller::Handle) -> usize {
///     let now: std::sync::Arc<Snapshot> = controller.snapshot();
///     now.switches().count()
/// }
/// ```
pub mod crates {
    pub use {maple_acl, maple_controller, maple_core, maple_handlers, maple_wire};
}

pub use app::{App, Error, StartHook};
pub use net::Net;
pub use packet::Packet;
pub use policy::Policy;
pub use route::Route;
