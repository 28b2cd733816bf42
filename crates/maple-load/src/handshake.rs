//! The answers of a switch to the requests of a controller.

use maple_wire::msg::stats::Desc;
use maple_wire::msg::{ErrorMsg, Features, Hello, ReplyBody, RequestBody, Role, StatsReply, SwitchConfig};
use maple_wire::{Dpid, Message, Port, PortNo, Version};

/// The number of buffers that a switch announces: more than any window of unanswered packet-ins.
const BUFFERS: u32 = 1 << 20;

/// Builds the hello of a switch that supports only this version.
pub(crate) fn hello(version: Version) -> Message {
    Message::Hello(Hello { version: version as u8, elements: Vec::new() })
}

/// The description of a switch.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub dpid: u64,
    pub ports: Vec<u32>,
    pub tables: u8,
}

/// Returns the answer to a message, if it has one.
pub(crate) fn answer(version: Version, switch: &Identity, message: &Message) -> Option<Message> {
    Some(match message {
        Message::FeaturesRequest => Message::FeaturesReply(features(version, switch)),
        Message::EchoRequest(data) => Message::EchoReply(data.clone()),
        Message::GetConfigRequest => Message::GetConfigReply(SwitchConfig { flags: 0, miss_send_len: 128 }),
        Message::BarrierRequest => Message::BarrierReply,
        Message::RoleRequest(role) => Message::RoleReply(Role { ..*role }),
        Message::StatsRequest(request) => Message::StatsReply(StatsReply::new(match request.body {
            RequestBody::Desc => ReplyBody::Desc(Desc { manufacturer: "maple load".into(), ..Desc::default() }),
            RequestBody::PortDesc => ReplyBody::PortDesc(ports(switch)),
            RequestBody::Flow(_) => ReplyBody::Flow(Vec::new()),
            _ => return None,
        })),
        Message::Experimenter(_) | Message::BundleControl(_) | Message::BundleAdd(_) => {
            Message::Error(ErrorMsg::about(ErrorMsg::BAD_EXPERIMENTER, &[]))
        }
        _ => return None,
    })
}

fn features(version: Version, switch: &Identity) -> Features {
    Features {
        dpid: Dpid(switch.dpid),
        n_buffers: BUFFERS,
        n_tables: switch.tables,
        auxiliary_id: 0,
        capabilities: 0,
        actions: 0xfff,
        ports: if version == Version::Of10 { ports(switch) } else { Vec::new() },
    }
}

fn ports(switch: &Identity) -> Vec<Port> {
    switch.ports.iter().map(|number| port(switch, *number)).collect()
}

/// Returns the description of a port.
pub(crate) fn port(switch: &Identity, number: u32) -> Port {
    let [.., a, b, c] = switch.dpid.to_be_bytes();
    Port::new(PortNo(number), [0x0a, a, b, c, (number >> 8) as u8, number as u8], &format!("p{number}"))
}
