//! Packets that arrived at a switch over a link, and that the switch sent to the controller.
//!
//! Such a packet is not new: f has decided it at its ingress, and its label says what to do with it. So nothing is
//! learned from it, and f does not run. It comes to the controller because a switch's datapath lags behind what the
//! switch has confirmed. If the label is known, in quarantine or not, the packet gets what the label's rule does.
//! Otherwise it is dropped and counted: it was in flight for longer than labels are kept, or it was never decided.

use maple_wire::{Field, Instruction};

use super::Topology;
use crate::engine::fabric::Fabric;
use crate::engine::messages::cause::DropCause;
use crate::engine::messages::received_packet::ReceivedPacket;
use crate::forwarding::TAG_PRESENT;

impl Topology {
    /// Handles a packet from a link port.
    pub fn on_link_packet_in(fabric: &mut Fabric, received: &ReceivedPacket) {
        fabric.ctx.stats.link_packet_ins += 1;
        let vlan = received.packet().switch_value(Field::VlanVid).unwrap_or_default() as u16;
        let switch = fabric.switches.get(&received.at.switch).filter(|_| vlan & TAG_PRESENT != 0);
        let answer = switch.and_then(|switch| switch.paths.labels.answer(received.at.port, vlan & !TAG_PRESENT));
        let Some([Instruction::ApplyActions(actions)]) = answer else {
            fabric.ctx.stats.link_drops += 1;
            fabric.switches.drop_packet(&mut fabric.ctx, received, DropCause::UnknownLabel);
            Topology::on_host_at_link(fabric, received.at, &received.packet());
            return;
        };
        let actions = actions.clone();
        let effect = fabric.switches.packet_out(&mut fabric.ctx, received, actions);
        fabric.ctx.add_all_after_rules(effect);
    }
}
