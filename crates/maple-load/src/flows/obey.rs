//! The reaction of a switch to one message of the controller.
//!
//! The connection is that of all switches of this crate ([`answer`]). What concerns rules and packets is the switch's.

use maple_wire::msg::{ErrorMsg, FlowModCommand, Header, RequestBody};
use maple_wire::{Instruction, Message, PortNo};

use super::Counters;
use super::flow_network::FlowNetwork;
use crate::error::LoadError;
use crate::handshake::answer;

/// Obeys a message.
pub(super) fn message(
    flow_network: &mut FlowNetwork,
    switch: usize,
    header: Header,
    bytes: &[u8],
) -> Result<(), LoadError> {
    let (_, message) = Message::decode(bytes).map_err(|error| flow_network.channels[switch].malformed(error))?;
    count(&mut flow_network.counters, &message);
    match &message {
        Message::FeaturesRequest => flow_network.is_known[switch] = true,
        Message::Error(error) if !flow_network.is_known[switch] => {
            return Err(flow_network.channels[switch].closed(&format!("error type {} code {}", error.kind, error.code)));
        }
        _ => {}
    }
    let asks_for_rules = matches!(&message, Message::StatsRequest(it) if matches!(it.body, RequestBody::Flow(_)));
    let reply = if asks_for_rules {
        None
    } else {
        answer(flow_network.options.version, &flow_network.identities[switch], &message)
    };
    match (reply, &message) {
        (Some(reply), _) => flow_network.channels[switch].say(header.xid, &reply),
        (None, Message::StatsRequest(_)) if !asks_for_rules => {
            flow_network.counters.refused += 1;
            let error = ErrorMsg::about(ErrorMsg::BAD_STATS, bytes);
            flow_network.channels[switch].say(header.xid, &Message::Error(error))
        }
        (None, _) => {
            flow_network.links.obey(switch, header.xid, message, bytes, &mut flow_network.seen);
            flow_network.look()
        }
    }
}

/// Counts a message of the controller.
fn count(counters: &mut Counters, message: &Message) {
    match message {
        Message::BarrierRequest => counters.barriers += 1,
        Message::PacketOut(_) => counters.packet_outs += 1,
        Message::GroupMod(_) => counters.group_mods += 1,
        Message::FlowMod(request) => {
            counters.flow_mods += 1;
            if request.command == FlowModCommand::Add {
                counters.adds += 1;
                let is_up = Instruction::lead_to(&request.instructions, PortNo::CONTROLLER, u32::MAX);
                counters.adds_to_controller += u64::from(is_up);
            }
        }
        _ => {}
    }
}
