//! The second way to program a network: a handler is one switch's own program, which hears and says OpenFlow as it is.
//!
//! ```no_run
//! use maple::App;
//! use maple::handlers::{Handler, Replies, SwitchInfo, ask_for_packets};
//! use maple::wire::msg::{NO_BUFFER, PacketInView, PacketOut};
//! use maple::wire::{Action, Message, PortNo};
//!
//! struct Hub;
//!
//! impl Handler for Hub {
//!     fn switch_up(&mut self, _: &SwitchInfo, out: &mut Replies) {
//!         ask_for_packets(out);
//!     }
//!
//!     fn packet_in(&mut self, packet: &PacketInView<'_>, out: &mut Replies) {
//!         let Some(in_port) = packet.in_port() else { return };
//!         let (actions, data) = (vec![Action::output(PortNo::FLOOD)], packet.data().to_vec());
//!         out.request(&Message::PacketOut(PacketOut { buffer_id: NO_BUFFER, in_port, actions, data }));
//!     }
//! }
//!
//! fn main() -> Result<(), maple::Error> {
//!     App::handlers(|_: &SwitchInfo| Hub).run()
//! }
//! ```

pub use maple_controller::handler::ask_for_packets;
pub use maple_controller::session::SwitchInfo;
pub use maple_controller::{Handler, HandlerFactory, Replies};
