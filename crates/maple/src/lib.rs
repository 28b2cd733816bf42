//! Program an OpenFlow network with one function of a packet.
//!
//! ```no_run
//! use maple::{App, Field, Net, PacketHandle, Route};
//!
//! fn secure_routing(pkt: &PacketHandle, net: &Net) -> Route {
//!     if pkt.is_multicast() {
//!         return Route::flood();
//!     }
//!     let (Some(dst), Some(src)) = (net.locate(pkt.eth_dst()), net.locate(pkt.eth_src())) else {
//!         return Route::flood();
//!     };
//!     if pkt.is(Field::TcpDst, 22) { net.path(src, dst, "secure") } else { net.shortest_path(src, dst) }
//! }
//!
//! fn main() -> Result<(), maple::Error> {
//!     App::new(secure_routing).weight("secure", 1, 2, 10).run()
//! }
//! ```
//!
//! `maple_cli::run` of the crate `maple-cli` gives such a program the options of `maple run`.

mod app;
pub mod paths;

pub use app::{App, Error, Started};
pub use maple_controller::control::transactions::{ChangeError, Waiting};
pub use maple_controller::handler::ask_for_packets;
pub use maple_controller::listen::{self, Listening};
pub use maple_controller::session::SwitchInfo;
pub use maple_controller::snoop::{Snooping, SnoopingError};
pub use maple_controller::{
    Controller, ControllerOptions, Handle, Handler, HandlerFactory, Replies, StartError, Stopped,
};
pub use maple_core::network::{Hop, LinkName, Location, Mac, UTILISATION};
pub use maple_core::policy::{Load, Net, PacketHandle, Policy, PolicyError};
pub use maple_core::query::{Query, QueryError};
pub use maple_core::route::Route;
pub use maple_core::run::Observe;
pub use maple_core::state::{Access, Attempt, Counter, Read, Stop, Store, Stored, Table, Tx, Value, Var, Write};
pub use maple_core::trace::{Cond, Range};
pub use maple_wire::msg;
pub use maple_wire::msg::PacketInView;
pub use maple_wire::{Action, Constraint, Dpid, Field, Instruction, Match, Message, Packet, PortNo};
