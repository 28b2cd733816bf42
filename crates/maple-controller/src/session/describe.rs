//! The last phase of the handshake: the switch's description, its ports, its configuration, and whether it has bundles.
//!
//! OpenFlow 1.3 has no bit that says whether a switch has bundles. So the session opens one and discards it, before it
//! asks for anything else. A switch that has answered all later requests, and has not confirmed that the bundle is
//! open, counts as one without bundles, whether it sent an error or nothing.

use maple_core::engine::Time;
use maple_wire::msg::bundle::{ATOMIC, ORDERED};
use maple_wire::msg::stats::{Desc, ReplyBody, RequestBody};
use maple_wire::msg::{
    BundleControl, Features, Header, PortReason, PortStatus, StatsReply, StatsRequest, SwitchConfig,
};
use maple_wire::{Dpid, Message, Port, Version};

use super::{CloseReason, Output, Phase, ProtocolWarning, Session, SwitchInfo};
use crate::time::after;

/// The `miss_send_len` that requests whole packets, `OFPCML_NO_BUFFER` in 1.3 (1.0 §5.3.2, 1.3 §7.3.2).
const WHOLE_PACKETS: u16 = 0xffff;
/// The flag `OFPC_FRAG_NORMAL`: fragments are handled like other packets (1.0 §5.3.2, 1.3 §7.3.2).
const FRAGMENTS_NORMAL: u16 = 0;
/// The maximum number of ports of a switch. Chosen: as many as OpenFlow 1.0 can number with 16 bits; a 1.3 switch could
/// claim 2^32.
pub(super) const MAX_PORTS: usize = 1 << 16;
/// The number of the bundle that is opened to see whether the switch has bundles. The engine counts its bundles from 1
/// and does not get there.
const PROBE: u32 = u32::MAX;

/// The open requests, and the answers so far.
#[derive(Debug)]
pub(super) struct DescriptionRequests {
    features: Features,
    ports: Vec<Port>,
    description: Desc,
    deadline: Time,
    /// The open requests.
    pending: Vec<(u32, DescriptionItem)>,
    /// The requests that open and discard a bundle.
    probes: Vec<u32>,
    /// Whether the switch has opened the bundle.
    has_bundles: bool,
}

/// The subject of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DescriptionItem {
    Ports,
    Description,
}

impl DescriptionRequests {
    /// Creates the requests to a switch with these features, none of which is sent yet.
    pub(super) fn new(mut features: Features) -> DescriptionRequests {
        let ports = std::mem::take(&mut features.ports);
        DescriptionRequests {
            features,
            ports,
            description: Desc::default(),
            deadline: Time(u64::MAX),
            pending: Vec::new(),
            probes: Vec::new(),
            has_bundles: false,
        }
    }

    /// Sends all requests at once.
    pub(super) fn begin(&mut self, session: &mut Session, now: Time, out: &mut Vec<Output>) {
        self.deadline = after(now, session.deadlines.handshake);
        let version = session.version;
        if version == Version::Of13 {
            for kind in [BundleControl::OPEN, BundleControl::DISCARD] {
                let probe = BundleControl { bundle: PROBE, kind, flags: ATOMIC | ORDERED };
                self.probes.push(session.request(Message::BundleControl(probe), out));
            }
        }
        let mut send = |item, message| {
            let xid = session.request(message, out);
            self.pending.push((xid, item));
        };
        if version == Version::Of13 {
            send(DescriptionItem::Ports, stats_request(RequestBody::PortDesc));
        }
        send(DescriptionItem::Description, stats_request(RequestBody::Desc));
        // A 1.0 switch is not asked for its configuration: `cbench` answers with a header in host byte order.
        match version {
            Version::Of10 => session.configure(FRAGMENTS_NORMAL, out),
            Version::Of13 => session.config_request = Some(session.request(Message::GetConfigRequest, out)),
        }
    }

    pub(super) fn deadline(&self) -> Time {
        self.deadline
    }

    pub(super) fn dpid(&self) -> Dpid {
        self.features.dpid
    }

    /// Returns the name of a missing answer, for the log.
    pub(super) fn waiting_for(&self) -> &'static str {
        match self.pending.first() {
            Some((_, DescriptionItem::Ports)) => "port description",
            Some((_, DescriptionItem::Description)) => "switch description",
            None => "description",
        }
    }

    /// Records an answer to the request with this id. The request stays open if `more` parts follow.
    fn on_answer(&mut self, xid: u32, more: bool) -> Option<DescriptionItem> {
        let at = self.pending.iter().position(|(pending, _)| *pending == xid)?;
        Some(if more { self.pending[at].1 } else { self.pending.remove(at).1 })
    }

    fn is_pending(&self, xid: u32) -> bool {
        self.pending.iter().any(|(pending, _)| *pending == xid)
    }

    fn into_info(self, version: Version) -> SwitchInfo {
        let DescriptionRequests { features, ports, description, has_bundles, .. } = self;
        SwitchInfo { version, features, ports, description, has_bundles }
    }
}

impl Session {
    /// Handles a message between the features and the end of the handshake.
    pub(super) fn describe(&mut self, header: Header, message: Message, bytes: &[u8], out: &mut Vec<Output>) {
        let (Phase::Claimed(describe) | Phase::Describe(describe)) = &mut self.phase else {
            return debug_assert!(false, "there is no description in another phase");
        };
        match message {
            Message::PortStatus(status) => apply_port_status(&mut describe.ports, status),
            Message::StatsReply(reply) if describe.is_pending(header.xid) => self.on_statistics(header.xid, reply, out),
            Message::BundleControl(BundleControl { bundle: PROBE, kind, .. }) => {
                describe.has_bundles |= kind == BundleControl::OPENED;
            }
            Message::Error(_) if describe.probes.contains(&header.xid) => {}
            Message::Error(error) => {
                describe.on_answer(header.xid, false);
                self.warn(ProtocolWarning::Refused(error.kind, error.code), out);
            }
            message => return self.on_other_message(header, message, bytes, out),
        }
        self.finish_if_complete(out);
    }

    /// Handles a part of an answer.
    fn on_statistics(&mut self, xid: u32, reply: StatsReply, out: &mut Vec<Output>) {
        let Phase::Describe(describe) = &mut self.phase else {
            return debug_assert!(false, "nothing is pending in another phase");
        };
        describe.on_answer(xid, reply.more());
        match reply.body {
            ReplyBody::PortDesc(ports) if describe.ports.len() + ports.len() <= MAX_PORTS => {
                describe.ports.extend(ports);
            }
            ReplyBody::PortDesc(_) => self.end(CloseReason::TooMany("ports", MAX_PORTS), out),
            ReplyBody::Desc(desc) => describe.description = desc,
            _ => self.warn(ProtocolWarning::OtherStatistics, out),
        }
    }

    /// Handles the configuration: requests whole packets and keeps the handling of fragments. A switch that refuses to
    /// report its configuration gets the default one.
    pub(super) fn on_config(&mut self, message: &Message, out: &mut Vec<Output>) {
        self.config_request = None;
        match message {
            Message::GetConfigReply(config) => self.configure(config.flags, out),
            Message::Error(error) => {
                self.warn(ProtocolWarning::Refused(error.kind, error.code), out);
                self.configure(FRAGMENTS_NORMAL, out);
            }
            _ => {}
        }
    }

    /// Requests whole packets.
    fn configure(&mut self, flags: u16, out: &mut Vec<Output>) {
        self.request(Message::SetConfig(SwitchConfig { flags, miss_send_len: WHOLE_PACKETS }), out);
    }

    fn finish_if_complete(&mut self, out: &mut Vec<Output>) {
        if matches!(&self.phase, Phase::Describe(describe) if describe.pending.is_empty())
            && let Phase::Describe(describe) = std::mem::replace(&mut self.phase, Phase::Up)
        {
            out.push(Output::Up(Box::new(describe.into_info(self.version))));
            let early = self.early.take().into_iter().flatten();
            out.extend(early.map(|(xid, message)| Output::Deliver { xid, message }));
        }
    }
}

/// Applies a change to a list of ports.
pub fn apply_port_status(ports: &mut Vec<Port>, status: PortStatus) {
    ports.retain(|port| port.number != status.port.number);
    if status.reason != PortReason::Delete && ports.len() < MAX_PORTS {
        ports.push(status.port);
        ports.sort_by_key(|port| port.number);
    }
}

/// Creates a request for statistics.
pub(super) fn stats_request(body: RequestBody) -> Message {
    Message::StatsRequest(StatsRequest::new(body))
}
