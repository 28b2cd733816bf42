//! Program an OpenFlow network with one function of a packet. The network behaves as if the function ran afresh on every
//! packet that enters it.
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
//!     App::new(secure_routing).weight("secure", 1, 2, 10).run()
//! }
//! ```
//!
//! * [`App`] puts a [`Policy`] and what it needs together, and starts the controller.
//! * A policy asks its [`Packet`] and the [`Net`] what it needs to know, and answers with a [`Route`]. Maple records what it
//!   asked, and installs rules for all packets that would get the same answer. [`field`] says what each question records.
//! * [`Table`], [`Var`] and [`Counter`] are state: a policy that read it decides again when it changes. [`Query`] is a function
//!   of state whose answer is remembered.
//! * [`testing`] tries policies without a network.
//! * [`handlers`] is the second way to program a network: a program for each switch, which speaks OpenFlow.
//!
//! The crate `maple-cli` gives such a program the options of `maple run`: `maple_cli::run(app)`.

mod app;

mod policy;

pub mod field;
mod packet;
mod prefix;

pub mod net;
mod query;

pub mod handlers;
pub mod paths;
pub mod prelude;
pub mod testing;

pub use maple_controller::control::transactions::ChangeError;
pub use maple_controller::listen::{Happening, Listener, Listening, listen};
pub use maple_controller::snoop::{Snooping, SnoopingError};
pub use maple_controller::{Controller, ControllerOptions, Handle, StartError, Stopped};
pub use maple_core::network::{Hop, LinkName, Location, Mac, UTILISATION};
pub use maple_core::policy::{Load, PolicyError};
pub use maple_core::query::QueryError;
pub use maple_core::route::Route;
pub use maple_core::snooped::{Group, Lease};
pub use maple_core::state::{Access, Attempt, Counter, Read, Stop, Store, Stored, Table, Tx, Value, Var};
pub use maple_core::trace::{Cond, Range, Source};
pub use maple_wire as wire;
pub use maple_wire::{Constraint, Dpid, Field, PortNo};

pub use app::{App, Error, Started, Tracked};
pub use field::PacketField;
pub use net::Net;
pub use packet::Packet;
pub use policy::{IntoRoute, Policy};
pub use prefix::{Prefix, PrefixError};
pub use query::Query;
