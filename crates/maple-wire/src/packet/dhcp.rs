//! DHCP for IPv4 (RFC 2131, RFC 2132): the parts of messages that leases need.

use std::net::Ipv4Addr;

use super::bytes::{chunk, u8_at, u16_at, u32_at};
use super::{NetworkKind, Packet, transport};
use crate::field::Field;

/// The UDP port of servers.
pub const SERVER_PORT: u16 = 67;
/// The UDP port of clients.
pub const CLIENT_PORT: u16 = 68;

/// The offset of the options, which follow the magic number.
const OPTIONS: usize = 240;
const MAGIC: [u8; 4] = [99, 130, 83, 99];
/// The length in bytes of the shortest message that every client accepts (RFC 1542 §2.1).
const SHORTEST: usize = 300;
const SNAME: std::ops::Range<usize> = 44..108;
const FILE: std::ops::Range<usize> = 108..236;
const BROADCAST: u16 = 0x8000;

const REQUESTED: u8 = 50;
const LEASE: u8 = 51;
const OVERLOAD: u8 = 52;
const KIND: u8 = 53;
const SERVER: u8 = 54;
const RENEWAL: u8 = 58;
const END: u8 = 255;

/// The purpose of a message: option 53.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are those of RFC 2132")]
pub enum DhcpMessageKind {
    Discover = 1,
    Offer,
    Request,
    Decline,
    Ack,
    Nak,
    Release,
    Inform,
}

/// The parts of a message that matter for leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dhcp {
    /// Whether the message goes from a server to a client (operation 2), and not in the other direction (1).
    pub is_reply: bool,
    /// The message's purpose.
    pub kind: DhcpMessageKind,
    /// The client's number for its request.
    pub xid: u32,
    /// Whether the client wants answers by broadcast.
    pub broadcast: bool,
    /// The address that the client uses.
    pub ciaddr: Ipv4Addr,
    /// The address that the client gets.
    pub yiaddr: Ipv4Addr,
    /// The relay between client and server; 0.0.0.0 if there is none.
    pub giaddr: Ipv4Addr,
    /// The client's hardware address.
    pub chaddr: [u8; 6],
    /// The address that the client requests (option 50).
    pub requested: Option<Ipv4Addr>,
    /// The duration of the lease in seconds (option 51); `u32::MAX` means for ever.
    pub lease: Option<u32>,
    /// The server's address (option 54).
    pub server: Option<Ipv4Addr>,
    /// The time in seconds after which the client should renew the lease (option 58).
    pub renewal: Option<u32>,
}

/// Reads the message in an IPv4 packet. `None` if the packet goes to no DHCP port, is cut off, or is not a DHCP
/// message.
pub fn read(packet: &Packet) -> Option<Dhcp> {
    let port = packet.get(Field::UdpDst)?;
    let network = packet.network();
    let is_ours = port == u128::from(SERVER_PORT) || port == u128::from(CLIENT_PORT);
    let is_whole = network.kind() == NetworkKind::V4 && !network.is_fragment();
    if !is_ours || !is_whole || packet.frame().len() < network.end() {
        return None;
    }
    let len = usize::from(u16_at(packet.frame(), network.transport() + 4)?);
    let message = network.transport() + transport::UDP_LEN..network.transport() + len;
    if message.end > network.end() { None } else { Dhcp::parse(packet.frame().get(message)?) }
}

impl Dhcp {
    /// Reads a message from the operation on. Only Ethernet's hardware addresses are supported.
    pub fn parse(bytes: &[u8]) -> Option<Dhcp> {
        let is_reply = match bytes.get(..3)? {
            [1, 1, 6] => false,
            [2, 1, 6] => true,
            _ => return None,
        };
        if chunk(bytes, OPTIONS - MAGIC.len())? != MAGIC {
            return None;
        }
        let address = |at| u32_at(bytes, at).map(Ipv4Addr::from);
        let options = Options::read(bytes)?;
        Some(Dhcp {
            is_reply,
            kind: options.kind?,
            xid: u32_at(bytes, 4)?,
            broadcast: u16_at(bytes, 10)? & BROADCAST != 0,
            ciaddr: address(12)?,
            yiaddr: address(16)?,
            giaddr: address(24)?,
            chaddr: chunk(bytes, 28)?,
            requested: options.requested,
            lease: options.lease,
            server: options.server,
            renewal: options.renewal,
        })
    }

    /// Creates a server's answer to this message: an offer, an acknowledgement, or a refusal, whose `address` is
    /// 0.0.0.0. `lease` is in seconds.
    #[must_use]
    pub fn answer(&self, kind: DhcpMessageKind, address: Ipv4Addr, server: Ipv4Addr, lease: Option<u32>) -> Dhcp {
        let (requested, renewal) = (None, lease.map(|lease| lease / 2));
        let (is_reply, server) = (true, Some(server));
        Dhcp { is_reply, kind, yiaddr: address, server, lease, requested, renewal, ..self.clone() }
    }

    /// Returns the bytes of the message, for UDP.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; OPTIONS];
        bytes[..3].copy_from_slice(&[if self.is_reply { 2 } else { 1 }, 1, 6]);
        bytes[4..8].copy_from_slice(&self.xid.to_be_bytes());
        bytes[10..12].copy_from_slice(&if self.broadcast { BROADCAST } else { 0 }.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.ciaddr.octets());
        bytes[16..20].copy_from_slice(&self.yiaddr.octets());
        bytes[24..28].copy_from_slice(&self.giaddr.octets());
        bytes[28..34].copy_from_slice(&self.chaddr);
        bytes[OPTIONS - MAGIC.len()..].copy_from_slice(&MAGIC);
        bytes.extend([KIND, 1, self.kind as u8]);
        let words = [
            (SERVER, self.server.map(u32::from)),
            (LEASE, self.lease),
            (RENEWAL, self.renewal),
            (REQUESTED, self.requested.map(u32::from)),
        ];
        for (option, word) in words {
            if let Some(word) = word {
                bytes.extend([option, 4]);
                bytes.extend(word.to_be_bytes());
            }
        }
        bytes.push(END);
        bytes.resize(bytes.len().max(SHORTEST), 0);
        bytes
    }
}

#[derive(Default)]
struct Options {
    kind: Option<DhcpMessageKind>,
    requested: Option<Ipv4Addr>,
    lease: Option<u32>,
    server: Option<Ipv4Addr>,
    renewal: Option<u32>,
    overload: u8,
}

impl Options {
    /// Reads all options, including those in the fields that may contain some (option 52). `None` if one is cut off.
    fn read(bytes: &[u8]) -> Option<Options> {
        let mut options = Options::default();
        options.add(bytes.get(OPTIONS..)?)?;
        if options.overload & 1 != 0 {
            options.add(bytes.get(FILE)?)?;
        }
        if options.overload & 2 != 0 {
            options.add(bytes.get(SNAME)?)?;
        }
        Some(options)
    }

    fn add(&mut self, mut rest: &[u8]) -> Option<()> {
        while let [option, after @ ..] = rest {
            match option {
                0 => rest = after,
                &END => break,
                _ => {
                    let (len, after) = after.split_first()?;
                    let value = after.get(..usize::from(*len))?;
                    self.take(*option, value);
                    rest = &after[value.len()..];
                }
            }
        }
        Some(())
    }

    /// Takes an option over. The first option of a kind counts, and one of a wrong length is ignored.
    fn take(&mut self, option: u8, value: &[u8]) {
        let word = || <[u8; 4]>::try_from(value).ok().map(u32::from_be_bytes);
        let byte = || if value.len() == 1 { u8_at(value, 0) } else { None };
        match option {
            REQUESTED => self.requested = self.requested.or_else(|| word().map(Ipv4Addr::from)),
            LEASE => self.lease = self.lease.or_else(word),
            SERVER => self.server = self.server.or_else(|| word().map(Ipv4Addr::from)),
            RENEWAL => self.renewal = self.renewal.or_else(word),
            KIND => self.kind = self.kind.or_else(|| byte().and_then(kind)),
            OVERLOAD if self.overload == 0 => self.overload = byte().unwrap_or(0),
            _ => {}
        }
    }
}

fn kind(number: u8) -> Option<DhcpMessageKind> {
    let all = [
        DhcpMessageKind::Discover,
        DhcpMessageKind::Offer,
        DhcpMessageKind::Request,
        DhcpMessageKind::Decline,
        DhcpMessageKind::Ack,
        DhcpMessageKind::Nak,
        DhcpMessageKind::Release,
        DhcpMessageKind::Inform,
    ];
    all.into_iter().find(|kind| *kind as u8 == number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packet::Frame;

    fn request() -> Dhcp {
        Dhcp {
            is_reply: false,
            kind: DhcpMessageKind::Request,
            xid: 0x1234_5678,
            broadcast: true,
            ciaddr: Ipv4Addr::UNSPECIFIED,
            yiaddr: Ipv4Addr::UNSPECIFIED,
            giaddr: Ipv4Addr::UNSPECIFIED,
            chaddr: [2, 0, 0, 0, 0, 1],
            requested: Some([10, 0, 0, 5].into()),
            lease: None,
            server: None,
            renewal: None,
        }
    }

    fn frame(message: &Dhcp) -> Vec<u8> {
        let (from, to) = if message.is_reply { (SERVER_PORT, CLIENT_PORT) } else { (CLIENT_PORT, SERVER_PORT) };
        let ip = Frame::ethernet([0xff; 6], message.chaddr).ipv4([0, 0, 0, 0], [255, 255, 255, 255]);
        ip.udp(from, to).payload(&message.to_bytes())
    }

    #[test]
    fn dhcp_messages_are_read_back_in_both_directions() {
        let request = request();
        let server = Ipv4Addr::new(10, 0, 0, 1);
        let nak = request.answer(DhcpMessageKind::Nak, Ipv4Addr::UNSPECIFIED, server, None);
        let ack = request.answer(DhcpMessageKind::Ack, [10, 0, 0, 5].into(), server, Some(3600));
        assert_eq!((ack.renewal, ack.xid), (Some(1800), request.xid));
        for message in [request, nak, ack] {
            let frame = frame(&message);
            assert_eq!(read(&Packet::new(&frame, 1)), Some(message));
            assert_eq!(read(&Packet::new(&frame[..frame.len() - 1], 1)), None, "cut off");
        }
    }

    #[test]
    fn options_are_found_in_the_file_field_too_and_cut_ones_void_the_message() {
        let mut bytes = request().to_bytes();
        bytes.truncate(OPTIONS);
        bytes.extend([KIND, 1, 5, OVERLOAD, 1, 1, END]);
        bytes[FILE.start..FILE.start + 7].copy_from_slice(&[LEASE, 4, 0, 0, 0, 9, END]);
        let read = Dhcp::parse(&bytes).unwrap();
        assert_eq!((read.kind, read.lease), (DhcpMessageKind::Ack, Some(9)));
        bytes.truncate(OPTIONS);
        bytes.extend([KIND, 1, 5, LEASE, 4, 0]);
        assert_eq!(Dhcp::parse(&bytes), None);
    }

    proptest! {
        #[test]
        fn no_options_make_it_panic(options in prop::collection::vec(any::<u8>(), 0..64), cut in 0..400usize) {
            let mut bytes = request().to_bytes();
            bytes.truncate(OPTIONS);
            bytes.extend(options);
            if let Some(read) = Dhcp::parse(&bytes) {
                prop_assert_eq!(Dhcp::parse(&read.to_bytes()), Some(read));
            }
            bytes.truncate(cut);
            Dhcp::parse(&bytes);
        }
    }
}
