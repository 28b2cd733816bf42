//! Packet captures: the classic pcap file format, in both byte orders, with microseconds or nanoseconds; pcapng is
//! [another file](super::pcapng).

use anyhow::bail;

use super::pcapng::{Blocks, is_pcapng};
use super::segment::LinkType;

/// The first four bytes of a capture with times in microseconds (draft-ietf-opsawg-pcap, §4).
const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
/// The first four bytes of a capture with times in nanoseconds (draft-ietf-opsawg-pcap, §4).
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
/// The length of the header of a capture, in bytes (draft-ietf-opsawg-pcap, §4).
const FILE_HEADER_LEN: usize = 24;
/// The length of the header of a packet in a capture, in bytes (draft-ietf-opsawg-pcap, §5).
const RECORD_HEADER_LEN: usize = 16;

/// The maximum length of a packet, in bytes. A larger length means that the file is corrupt. Chosen: twice the longest
/// that libpcap allows for any kind of link, 128 MiB for D-Bus.
pub(super) const MAX_PACKET_LEN: u32 = 256 * 1024 * 1024;

/// Reports whether the bytes start like a capture, pcapng included.
pub(super) fn is_capture(bytes: &[u8]) -> bool {
    byte_order(bytes).is_some() || is_pcapng(bytes)
}

/// A capture that is being read.
#[derive(Debug)]
pub(super) enum Capture<'a> {
    Pcap(Records<'a>),
    Pcapng(Blocks<'a>),
    /// The file is at its end, or cannot be read further.
    Over,
}

impl<'a> Capture<'a> {
    /// Reads the file's header.
    pub(super) fn new(bytes: &'a [u8]) -> anyhow::Result<Capture<'a>> {
        if is_pcapng(bytes) {
            return Ok(Capture::Pcapng(Blocks::new(bytes)));
        }
        Records::new(bytes).map(Capture::Pcap)
    }

    /// Returns the captured part of the next packet, and its link type. An error is the last item.
    pub(super) fn next_packet(&mut self) -> Option<anyhow::Result<(LinkType, &'a [u8])>> {
        let packet = match self {
            Capture::Pcap(records) => records.next_packet(),
            Capture::Pcapng(blocks) => blocks.next_packet(),
            Capture::Over => Ok(None),
        };
        if packet.is_err() {
            *self = Capture::Over;
        }
        packet.transpose()
    }
}

/// The packets of a pcap file that are still to be read.
#[derive(Debug)]
pub(super) struct Records<'a> {
    rest: &'a [u8],
    offset: usize,
    order: ByteOrder,
    link_type: LinkType,
}

/// The byte order of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Big,
    Little,
}

impl<'a> Records<'a> {
    fn new(bytes: &'a [u8]) -> anyhow::Result<Records<'a>> {
        let Some(order) = byte_order(bytes) else {
            bail!("not a capture: it starts with {:02x?}", &bytes[..bytes.len().min(4)]);
        };
        if bytes.len() < FILE_HEADER_LEN {
            bail!("pcap header: {} bytes, {FILE_HEADER_LEN} needed", bytes.len());
        }
        // The upper bits are the length of the frame check sequence.
        let link_type = LinkType::of_capture(order.u32_at(bytes, 20) & 0x0fff_ffff)?;
        Ok(Records { rest: &bytes[FILE_HEADER_LEN..], offset: FILE_HEADER_LEN, order, link_type })
    }

    fn next_packet(&mut self) -> anyhow::Result<Option<(LinkType, &'a [u8])>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let link_type = self.link_type;
        self.read_record().map(|packet| Some((link_type, packet)))
    }

    fn read_record(&mut self) -> anyhow::Result<&'a [u8]> {
        let Records { rest, offset, order, .. } = *self;
        if rest.len() < RECORD_HEADER_LEN {
            bail!("capture offset {offset}: {} bytes after the last packet", rest.len());
        }
        let length = order.u32_at(rest, 8);
        let end = RECORD_HEADER_LEN + length as usize;
        if length > MAX_PACKET_LEN || rest.len() < end {
            bail!(
                "capture offset {offset}: a packet of {length} bytes, but {} are left",
                rest.len() - RECORD_HEADER_LEN
            );
        }
        self.rest = &rest[end..];
        self.offset += end;
        Ok(&rest[RECORD_HEADER_LEN..end])
    }
}

impl ByteOrder {
    pub(super) fn u16_at(self, bytes: &[u8], at: usize) -> u16 {
        let bytes = [bytes[at], bytes[at + 1]];
        match self {
            ByteOrder::Big => u16::from_be_bytes(bytes),
            ByteOrder::Little => u16::from_le_bytes(bytes),
        }
    }

    pub(super) fn u32_at(self, bytes: &[u8], at: usize) -> u32 {
        let bytes = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        match self {
            ByteOrder::Big => u32::from_be_bytes(bytes),
            ByteOrder::Little => u32::from_le_bytes(bytes),
        }
    }
}

fn byte_order(bytes: &[u8]) -> Option<ByteOrder> {
    match magic(bytes)? {
        MAGIC_MICROSECONDS | MAGIC_NANOSECONDS => Some(ByteOrder::Big),
        magic if matches!(magic.swap_bytes(), MAGIC_MICROSECONDS | MAGIC_NANOSECONDS) => Some(ByteOrder::Little),
        _ => None,
    }
}

fn magic(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}
