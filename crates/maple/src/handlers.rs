//! The second way to program a network: a handler is the program of one switch, and works with OpenFlow messages.
//!
//! ```no_run
//! use maple::App;
//! use maple::handlers::{Handler, Replies, SwitchInfo, install_table_miss};
//! use maple::wire::msg::{NO_BUFFER, PacketInView, PacketOut};
//! use maple::wire::{Action, Message, PortNo};
//!
//! struct Hub;
//!
//! impl Handler for Hub {
//!     fn switch_up(&mut self, _: &SwitchInfo, out: &mut Replies) {
//!         install_table_miss(out);
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

/// A program that handles the OpenFlow messages of one switch itself.
///
/// ```
/// use maple::handlers::{Handler, Replies, SwitchInfo, install_table_miss};
/// use maple::wire::Version;
/// use maple::wire::msg::PacketInView;
///
/// #[derive(Default)]
/// struct Count(u64);
///
/// impl Handler for Count {
///     fn switch_up(&mut self, _: &SwitchInfo, out: &mut Replies) {
///         install_table_miss(out);
///     }
///
///     fn packet_in(&mut self, _: &PacketInView<'_>, _: &mut Replies) {
///         self.0 += 1;
///     }
///
///     fn switch_down(&mut self) {
///         println!("{} packets", self.0);
///     }
/// }
///
/// let packet = [1, 10, 0, 18, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0, 0];
/// let mut count = Count::default();
/// count.packet_in(&PacketInView::new_checked(Version::Of10, &packet)?, &mut Replies::default());
/// assert_eq!(count.0, 1);
/// # Ok::<(), maple::wire::Error>(())
/// ```
#[doc(inline)]
pub use maple_handlers::Handler;

/// A program that makes a handler for each switch.
///
/// ```
/// use maple::handlers::{Handler, HandlerFactory, Replies, SwitchInfo};
///
/// struct Deaf;
///
/// impl Handler for Deaf {
///     fn packet_in(&mut self, _: &maple::wire::msg::PacketInView<'_>, _: &mut Replies) {}
/// }
///
/// fn factory() -> impl HandlerFactory {
///     |_: &SwitchInfo| Deaf
/// }
/// ```
#[doc(inline)]
pub use maple_handlers::HandlerFactory;

/// The messages that a handler sends to its switch.
///
/// ```
/// use maple::handlers::Replies;
/// use maple::wire::Message;
///
/// let mut out = Replies::default();
/// let xid = out.request(&Message::BarrierRequest);
/// assert_eq!(out.counts().messages, 1);
/// ```
#[doc(inline)]
pub use maple_handlers::Replies;

/// The facts about a switch that are known when its handler is made.
///
/// ```
/// fn hello(switch: &maple::handlers::SwitchInfo) -> String {
///     format!("{} has {} ports", switch.features.dpid, switch.ports.len())
/// }
/// ```
#[doc(inline)]
pub use maple_controller::session::SwitchInfo;

/// Installs the rule by which a switch sends packets without a rule to its handler.
///
/// ```
/// use maple::handlers::{Replies, install_table_miss};
///
/// let mut out = Replies::default();
/// install_table_miss(&mut out);
/// assert_ne!(out.counts().messages, 0);
/// ```
#[doc(inline)]
pub use maple_handlers::install_table_miss;
