//! Sessions with a scripted switch, in simulated time.

mod handshake;
mod liveness;
mod ports;
mod questions;
mod roles;
mod rules;
mod streams;
mod tables;

use maple_wire::msg::stats::{Desc, ReplyBody};
use maple_wire::msg::{BundleControl, Features, Hello, HelloElement, PacketIn, StatsReply, SwitchConfig};
use maple_wire::{Match, Port, PortNo};

use super::*;
use crate::framing::StreamPart;
use crate::time::after as later;

/// A session and its outputs.
struct Peer {
    session: Session,
    now: Time,
    out: Vec<Output>,
}

impl Peer {
    fn connect() -> Peer {
        let mut out = Vec::new();
        let session = Session::new(Time(0), Deadlines::default(), &mut out);
        let mut peer = Peer { session, now: Time(0), out };
        assert_eq!(peer.sent().len(), 1, "the hello");
        peer
    }

    /// Creates a session that has negotiated this version.
    fn negotiated(version: Version) -> Peer {
        let mut peer = Peer::connect();
        peer.says(version, 1, &hello(version as u8, None));
        assert!(matches!(peer.sent()[..], [(_, Message::FeaturesRequest)]));
        peer
    }

    /// Creates a session whose handshake is done.
    fn up(version: Version) -> Peer {
        let mut peer = Peer::negotiated(version);
        peer.says(version, 2, &Message::FeaturesReply(features(7, 0)));
        assert!(matches!(peer.out[..], [Output::Claim(Dpid(7))]));
        peer.out.clear();
        peer.session.admit(peer.now, &mut peer.out);
        peer.answer_all();
        assert!(peer.session.is_up());
        peer.out.clear();
        peer
    }

    /// Answers the requests of the handshake that are in `out`.
    fn answer_all(&mut self) {
        self.sent().into_iter().for_each(|(xid, message)| self.answer(xid, message));
    }

    /// Answers a request of the handshake.
    fn answer(&mut self, xid: u32, message: Message) {
        let version = self.session.version();
        match message {
            Message::StatsRequest(request) => {
                let body = match request.body {
                    maple_wire::msg::RequestBody::PortDesc => ReplyBody::PortDesc(vec![port(1)]),
                    _ => ReplyBody::Desc(desc()),
                };
                self.says(version, xid, &Message::StatsReply(StatsReply::new(body)));
            }
            Message::GetConfigRequest => {
                let config = SwitchConfig { flags: 1, miss_send_len: 128 };
                self.says(version, xid, &Message::GetConfigReply(config));
            }
            _ => {}
        }
    }

    fn says(&mut self, version: Version, xid: u32, message: &Message) {
        let bytes = message.to_bytes(version, xid).unwrap();
        self.sends(&bytes);
    }

    fn sends(&mut self, bytes: &[u8]) {
        let header = Header::peek(bytes).unwrap().unwrap();
        self.session.on_message(self.now, header, bytes, &mut self.out);
    }

    fn waits(&mut self, duration: Duration) {
        self.now = later(self.now, duration);
        self.session.on_timer(self.now, &mut self.out);
    }

    /// Reports whether the session rests before the next piece of the rules.
    fn is_at_rest(&self) -> bool {
        self.session.deadline().is_some_and(|at| at <= later(self.now, super::rule_pieces::MIN_REST))
    }

    /// Takes the messages that the session has sent since the last call; other outputs stay.
    fn sent(&mut self) -> Vec<(u32, Message)> {
        let (mut sent, mut rest) = (Vec::new(), Vec::new());
        for output in self.out.drain(..) {
            match output {
                Output::Send { xid, message } => sent.push((xid, message)),
                other => rest.push(other),
            }
        }
        self.out = rest;
        sent
    }

    fn closed(&self) -> Option<&CloseReason> {
        self.out.iter().find_map(|output| match output {
            Output::Close(reason) => Some(reason),
            _ => None,
        })
    }

    /// Returns the error that was sent, and the reason why the session ended.
    fn error_and_end(&mut self) -> (ErrorMsg, CloseReason) {
        let error = self.sent().into_iter().find_map(|(_, message)| match message {
            Message::Error(error) => Some(error),
            _ => None,
        });
        (error.expect("an error"), self.closed().expect("the end").clone())
    }
}

fn hello(version: u8, bitmap: Option<u32>) -> Message {
    let elements = bitmap.into_iter().map(|bits| HelloElement::VersionBitmap(vec![bits])).collect();
    Message::Hello(Hello { version, elements })
}

fn features(dpid: u64, auxiliary_id: u8) -> Features {
    let (n_buffers, n_tables, capabilities, actions) = (0, 254, 0, 0);
    Features { dpid: Dpid(dpid), n_buffers, n_tables, auxiliary_id, capabilities, actions, ports: vec![] }
}

fn port(number: u32) -> maple_wire::Port {
    maple_wire::Port::new(PortNo(number), [2, 0, 0, 0, 0, number as u8], "eth")
}

fn desc() -> Desc {
    let text = |text: &str| text.into();
    Desc {
        manufacturer: text("Nicira"),
        hardware: text("Open vSwitch"),
        software: text("3.1"),
        serial: text(""),
        datapath: text(""),
    }
}

fn packet_in() -> Message {
    Message::PacketIn(PacketIn { total_len: 4, ..PacketIn::new(1, vec![1, 2, 3, 4]) })
}

const BOTH: [Version; 2] = [Version::Of10, Version::Of13];

/// Creates a session that is admitted and has sent its requests.
fn described(version: Version) -> Peer {
    let mut peer = Peer::negotiated(version);
    let mut said = features(7, 0);
    if version == Version::Of10 {
        said.ports = vec![port(1)];
    }
    peer.says(version, 2, &Message::FeaturesReply(said));
    peer.out.clear();
    peer.session.admit(peer.now, &mut peer.out);
    peer
}

fn set_config(flags: u16) -> Message {
    Message::SetConfig(SwitchConfig { flags, miss_send_len: 0xffff })
}
