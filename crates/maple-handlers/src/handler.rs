//! Handlers: the second programming level, besides policies. A handler is a program for one switch.
//!
//! ```text
//!  packet-ins of one read ──► Handler::packet_ins ──┐
//!  port-status, flow-removed, replies, time ────────┼──► Replies ──► the switch's socket
//!  switch up, down ─────────────────────────────────┘
//! ```
//!
//! A [`HandlerFactory`] makes one [`Handler`] for each switch that connects. Only the switch's shard calls it, so its
//! state needs no lock. If a switch migrates to another shard, its handler goes with it. A handler never writes to a
//! socket. It appends messages to [`Replies`], and the shard writes them after the handler has returned. A handler
//! works with plain OpenFlow: nothing is traced, no rules are compiled, and the rules that a switch has when it
//! connects stay.
//!
//! Packet-ins come in batches: all those of one socket read, at most [`BATCH`]. A handler whose table exceeds the
//! processor's caches implements [`Handler::packet_ins`] and prefetches all entries of a batch first. Then it waits for
//! memory once for each batch instead of once for each packet.

use maple_controller::program::ErrorReporter;
use maple_controller::session::SwitchInfo;
use maple_wire::msg::{FlowMod, FlowModCommand, FlowRemoved, PacketInView, PortStatus};
use maple_wire::{Action, Instruction, Match, Message, Version};

use crate::replies::Replies;

/// The maximum number of packet-ins in one call of [`Handler::packet_ins`]. Chosen: enough for reads of memory to
/// overlap, and few enough that what they read stays in the first cache.
pub const BATCH: usize = 64;

/// A program for one switch. It may move to another thread between two calls. Every method except
/// [`Handler::packet_in`] has a default, which does nothing.
pub trait Handler: Send {
    /// Handles the end of the handshake. This is the first call, and its messages are sent first.
    fn switch_up(&mut self, switch: &SwitchInfo, out: &mut Replies) {
        let _ = (switch, out);
    }

    /// Handles a packet that the switch sent.
    fn packet_in(&mut self, packet: &PacketInView<'_>, out: &mut Replies);

    /// Handles packets that the switch sent, oldest first. The default calls [`Handler::packet_in`] for each.
    fn packet_ins(&mut self, batch: &[PacketInView<'_>], out: &mut Replies) {
        for packet in batch {
            self.packet_in(packet, out);
        }
    }

    /// Handles a port that was added, deleted or changed.
    fn port_status(&mut self, status: &PortStatus, out: &mut Replies) {
        let _ = (status, out);
    }

    /// Handles a rule that the switch removed.
    fn flow_removed(&mut self, removed: &FlowRemoved, out: &mut Replies) {
        let _ = (removed, out);
    }

    /// Handles the answer to the message to which [`Replies::request`] gave this transaction id: an error, a barrier
    /// reply or statistics.
    fn reply(&mut self, xid: u32, message: &Message, out: &mut Replies) {
        let _ = (xid, message, out);
    }

    /// Handles the timer that [`Replies::wake_after`] set, when it is due.
    fn timer(&mut self, out: &mut Replies) {
        let _ = out;
    }

    /// Handles the end of the connection. This is the last call.
    fn switch_down(&mut self) {}
}

/// Makes a handler for each switch that connects, in the thread that will run it. Closures implement this trait.
pub trait HandlerFactory: Send + Sync {
    /// Makes the handler of this switch. It can report errors to `errors`.
    fn handler(&self, switch: &SwitchInfo, errors: ErrorReporter) -> Box<dyn Handler>;

    /// Runs `worker`, the whole work of a thread that runs handlers of this factory. Bindings to languages that track
    /// threads can attach the thread here once, instead of for each batch.
    fn on_thread(&self, worker: &mut (dyn FnMut() + Send)) {
        worker();
    }
}

impl<H: Handler + 'static, F: Fn(&SwitchInfo) -> H + Send + Sync> HandlerFactory for F {
    fn handler(&self, switch: &SwitchInfo, _: ErrorReporter) -> Box<dyn Handler> {
        Box::new(self(switch))
    }
}

/// Installs the table-miss rule, which has the switch send unmatched packets whole to the controller. A 1.0 switch does
/// that without a rule; a 1.3 switch drops them.
pub fn install_table_miss(out: &mut Replies) {
    if out.version() == Version::Of13 {
        let to_controller = vec![Instruction::ApplyActions(vec![Action::to_controller()])];
        out.request(&Message::FlowMod(FlowMod::new(FlowModCommand::Add, 0, Match::any(), to_controller)));
    }
}
