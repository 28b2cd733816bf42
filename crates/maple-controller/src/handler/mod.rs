//! Handlers: the second programming level, beside policies. A handler is one switch's own program.
//!
//! ```text
//!  packet-ins of one read ──► Handler::packet_ins ──┐
//!  port-status, flow-removed, replies, time ────────┼──► Replies ──► the switch's socket
//!  switch up, down ─────────────────────────────────┘
//! ```
//!
//! A [`HandlerFactory`] makes one [`Handler`] for each switch when it comes up. From then on only the switch's shard
//! calls it, so its state needs no lock; where a switch moves to another shard, its handler goes along. A handler never
//! sends: it appends messages to [`Replies`], which are written to the switch when the handler has returned. It sees and
//! says OpenFlow as it is; nothing is traced, no rules are compiled, and the rules that are in the switch when it comes up
//! stay as they are.
//!
//! Packet-ins come in batches, as many as one read of the socket brought (at most [`BATCH`]). A handler with a table that
//! does not fit into the processor's caches implements [`Handler::packet_ins`], touches all entries of the batch first,
//! and so waits for memory once a batch instead of once a packet.
//!
//! * [`LearningSwitch`]: the exact-match learning switch, in [`learning`].
//! * [`Hub`]: every packet to everybody.

mod complaints;
mod replies;

mod exact;
mod hub;
pub mod learning;
mod lines;
mod macs;

#[cfg(test)]
pub(crate) mod testing;

pub use complaints::Complaints;
pub use hub::{Hub, ask_for_packets};
pub use learning::LearningSwitch;
pub use replies::{Replies, Tally};

use maple_wire::Message;
use maple_wire::msg::{FlowRemoved, PacketInView, PortStatus};

use crate::session::SwitchInfo;

/// Most packet-ins in one call of [`Handler::packet_ins`].
pub const BATCH: usize = 64;

/// One switch's program. Between two calls it may go to another thread; it is never in two. Every method has a default that
/// does nothing, but for [`Handler::packet_in`].
pub trait Handler: Send {
    /// The switch finished its handshake. The first call; what it appends goes out before all else.
    fn switch_up(&mut self, switch: &SwitchInfo, out: &mut Replies) {
        let _ = (switch, out);
    }

    /// The switch sent a packet.
    fn packet_in(&mut self, packet: &PacketInView<'_>, out: &mut Replies);

    /// The switch sent these packets, oldest first. By default [`Handler::packet_in`] gets one after the other.
    fn packet_ins(&mut self, batch: &[PacketInView<'_>], out: &mut Replies) {
        for packet in batch {
            self.packet_in(packet, out);
        }
    }

    /// A port came, went or changed.
    fn port_status(&mut self, status: &PortStatus, out: &mut Replies) {
        let _ = (status, out);
    }

    /// A rule is gone.
    fn flow_removed(&mut self, removed: &FlowRemoved, out: &mut Replies) {
        let _ = (removed, out);
    }

    /// An error, a barrier reply or statistics, in answer to what [`Replies::request`] gave this transaction id.
    fn reply(&mut self, xid: u32, message: &Message, out: &mut Replies) {
        let _ = (xid, message, out);
    }

    /// The time that [`Replies::wake_after`] asked for has come.
    fn timer(&mut self, out: &mut Replies) {
        let _ = out;
    }

    /// The connection is gone. The last call.
    fn switch_down(&mut self) {}
}

/// Makes a handler for each switch that comes up, in the thread that will run it. A closure will do.
pub trait HandlerFactory: Send + Sync {
    /// The handler of this switch. What goes wrong in it, and is not to be the switch's trouble, goes to `complaints`.
    fn handler(&self, switch: &SwitchInfo, complaints: Complaints) -> Box<dyn Handler>;

    /// Runs `worker`, which is all that a thread does that runs handlers of this factory. Bindings to languages that
    /// keep books about threads enter the thread there once, instead of for each batch.
    fn on_thread(&self, worker: &mut (dyn FnMut() + Send)) {
        worker();
    }
}

impl<H: Handler + 'static, F: Fn(&SwitchInfo) -> H + Send + Sync> HandlerFactory for F {
    fn handler(&self, switch: &SwitchInfo, _: Complaints) -> Box<dyn Handler> {
        Box::new(self(switch))
    }
}
