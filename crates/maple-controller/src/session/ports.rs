//! Reads the ports of a switch again, if a port that it reported down sends packets. The switch may have reported
//! changes in the wrong order (BOFUSS does, after a port went down and up).
//!
//! One question is open at a time. A switch that never answers is not asked again.

use maple_wire::msg::StatsReply;
use maple_wire::msg::stats::{ReplyBody, RequestBody};
use maple_wire::{Message, Port, Version};

use super::describe::{MAX_PORTS, stats_request};
use super::{Output, ProtocolWarning, Session};

/// The open question about a switch's ports.
#[derive(Debug)]
pub(super) struct PortsRequest {
    xid: u32,
    /// The ports that the switch has reported so far.
    ports: Vec<Port>,
}

impl PortsRequest {
    /// Reports whether an answer with this id belongs to the question.
    pub(super) fn is_answered_by(&self, xid: u32) -> bool {
        self.xid == xid
    }
}

impl Session {
    /// Asks the switch for its ports. [`Output::Ports`] follows, if it answers.
    pub fn ask_for_ports(&mut self, out: &mut Vec<Output>) {
        if self.ports_request.is_some() {
            return;
        }
        let request = match self.version {
            Version::Of10 => Message::FeaturesRequest,
            Version::Of13 => stats_request(RequestBody::PortDesc),
        };
        let xid = self.request(request, out);
        self.ports_request = Some(PortsRequest { xid, ports: Vec::new() });
    }

    /// Handles a part of an answer, or another message that ends the question.
    pub(super) fn on_ports_part(&mut self, message: Message, out: &mut Vec<Output>) {
        let Some(mut request) = self.ports_request.take() else {
            return debug_assert!(false, "an answer belongs to a request");
        };
        let (ports, more) = match message {
            Message::FeaturesReply(features) => (features.ports, false),
            Message::StatsReply(StatsReply { body: ReplyBody::PortDesc(ports), flags }) => {
                (ports, StatsReply { body: ReplyBody::PortDesc(Vec::new()), flags }.more())
            }
            Message::StatsReply(_) => return self.warn(ProtocolWarning::OtherStatistics, out),
            _ => return,
        };
        request.ports.extend(ports);
        if request.ports.len() > MAX_PORTS {
            return;
        }
        if more { self.ports_request = Some(request) } else { out.push(Output::Ports(request.ports)) }
    }
}
