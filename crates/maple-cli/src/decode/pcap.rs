//! Packet captures: the classic pcap file format, in both byte orders, with microseconds or nanoseconds.

use anyhow::bail;

use super::segment::LinkType;

const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const MAGIC_PCAPNG: u32 = 0x0a0d_0d0a;
const FILE_HEADER_LEN: usize = 24;
const RECORD_HEADER_LEN: usize = 16;

/// No packet is longer; a larger length means that the file is broken.
const MAX_RECORD_LEN: u32 = 256 * 1024 * 1024;

/// Whether the bytes start like a capture, a pcapng one included.
pub(super) fn is_capture(bytes: &[u8]) -> bool {
    byte_order(bytes).is_some() || magic(bytes) == Some(MAGIC_PCAPNG)
}

/// A capture that is being read.
#[derive(Debug)]
pub(super) struct Capture<'a> {
    rest: &'a [u8],
    offset: usize,
    order: ByteOrder,
    link_type: LinkType,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByteOrder {
    Big,
    Little,
}

impl<'a> Capture<'a> {
    /// Reads the file's header.
    pub(super) fn new(bytes: &'a [u8]) -> anyhow::Result<Capture<'a>> {
        let Some(order) = byte_order(bytes) else {
            if magic(bytes) == Some(MAGIC_PCAPNG) {
                bail!("a pcapng capture, which is not supported; `editcap -F pcap IN OUT` converts it");
            }
            bail!("not a pcap capture: it starts with {:02x?}", &bytes[..bytes.len().min(4)]);
        };
        if bytes.len() < FILE_HEADER_LEN {
            bail!("pcap header: {} bytes, {FILE_HEADER_LEN} needed", bytes.len());
        }
        // The upper bits say how long the frame check sequence is.
        let number = order.u32_at(bytes, 20) & 0x0fff_ffff;
        let Some(link_type) = LinkType::from_number(number) else {
            bail!("pcap header: link type {number} is not supported (Ethernet, Linux cooked, raw IP and loopback are)");
        };
        Ok(Capture { rest: &bytes[FILE_HEADER_LEN..], offset: FILE_HEADER_LEN, order, link_type })
    }

    /// What the captured packets start with.
    pub(super) fn link_type(&self) -> LinkType {
        self.link_type
    }

    /// The next packet, as far as it was captured. An error is the last item.
    pub(super) fn next_record(&mut self) -> Option<anyhow::Result<&'a [u8]>> {
        if self.rest.is_empty() {
            return None;
        }
        let record = self.read_record();
        if record.is_err() {
            self.rest = &[];
        }
        Some(record)
    }

    fn read_record(&mut self) -> anyhow::Result<&'a [u8]> {
        let Capture { rest, offset, order, .. } = *self;
        if rest.len() < RECORD_HEADER_LEN {
            bail!("capture offset {offset}: {} bytes behind the last packet", rest.len());
        }
        let length = order.u32_at(rest, 8);
        let end = RECORD_HEADER_LEN + length as usize;
        if length > MAX_RECORD_LEN || rest.len() < end {
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
    fn u32_at(self, bytes: &[u8], at: usize) -> u32 {
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
