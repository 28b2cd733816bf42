//! Packet captures in the pcapng format: sections of blocks, each section with its own byte order.
//!
//! Section headers, interfaces and packets are read. Other blocks, such as names and statistics, are skipped.

use anyhow::bail;

use super::pcap::{ByteOrder, MAX_PACKET_LEN};
use super::segment::LinkType;

/// The type of the block that begins a section (draft-ietf-opsawg-pcapng, §4.1). It reads alike in both byte orders.
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
/// The type of a block that describes an interface (draft-ietf-opsawg-pcapng, §4.2).
const INTERFACE: u32 = 1;
/// The type of a block with a packet alone (draft-ietf-opsawg-pcapng, §4.4).
const SIMPLE_PACKET: u32 = 3;
/// The type of a block with a packet, its interface and its time (draft-ietf-opsawg-pcapng, §4.3).
const ENHANCED_PACKET: u32 = 6;
/// The number that says in which byte order a section is (draft-ietf-opsawg-pcapng, §4.1).
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// The length of type and length before a block's body, and of the repeated length after it, in bytes
/// (draft-ietf-opsawg-pcapng, §3.1).
const BLOCK_FRAME_LEN: usize = 12;

/// Reports whether the bytes start like a pcapng capture.
pub(super) fn is_pcapng(bytes: &[u8]) -> bool {
    bytes.starts_with(&SECTION_HEADER.to_be_bytes())
}

/// The blocks that are still to be read.
#[derive(Debug)]
pub(super) struct Blocks<'a> {
    rest: &'a [u8],
    offset: usize,
    order: ByteOrder,
    /// The numbers of the link types of the section's interfaces.
    interfaces: Vec<u32>,
}

impl<'a> Blocks<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Blocks<'a> {
        Blocks { rest: bytes, offset: 0, order: ByteOrder::Big, interfaces: Vec::new() }
    }

    /// Returns the captured part of the next packet, and its link type. `None` at the end.
    ///
    /// After an error no further block can be read.
    pub(super) fn next_packet(&mut self) -> anyhow::Result<Option<(LinkType, &'a [u8])>> {
        while !self.rest.is_empty() {
            let offset = self.offset;
            let (kind, body) = self.next_block()?;
            let found = match kind {
                INTERFACE if body.len() >= 8 => {
                    self.interfaces.push(u32::from(self.order.u16_at(body, 0)));
                    continue;
                }
                ENHANCED_PACKET if body.len() >= 20 => {
                    let length = self.order.u32_at(body, 12) as usize;
                    (self.order.u32_at(body, 0), body[20..].get(..length))
                }
                SIMPLE_PACKET if body.len() >= 4 => {
                    let length = self.order.u32_at(body, 0) as usize;
                    (0, body[4..].get(..length.min(body.len() - 4)))
                }
                INTERFACE | ENHANCED_PACKET | SIMPLE_PACKET => bail!("capture offset {offset}: a block is too short"),
                _ => continue,
            };
            let (interface, Some(packet)) = found else {
                bail!("capture offset {offset}: a packet is longer than its block");
            };
            let Some(number) = self.interfaces.get(interface as usize) else {
                bail!("capture offset {offset}: interface {interface} is not described");
            };
            return Ok(Some((LinkType::of_capture(*number)?, packet)));
        }
        Ok(None)
    }

    /// Returns a block's type and body. Remembers the byte order of a section's header.
    fn next_block(&mut self) -> anyhow::Result<(u32, &'a [u8])> {
        let Blocks { rest, offset, .. } = *self;
        if rest.len() < BLOCK_FRAME_LEN {
            bail!("capture offset {offset}: {} bytes after the last block", rest.len());
        }
        if is_pcapng(rest) {
            self.order = match ByteOrder::Big.u32_at(rest, 8) {
                BYTE_ORDER_MAGIC => ByteOrder::Big,
                magic if magic.swap_bytes() == BYTE_ORDER_MAGIC => ByteOrder::Little,
                magic => bail!("capture offset {offset}: {magic:#010x} is not the byte order of a section"),
            };
            self.interfaces.clear();
        }
        let kind = self.order.u32_at(rest, 0);
        let length = self.order.u32_at(rest, 4);
        let end = length as usize;
        if length > MAX_PACKET_LEN || end < BLOCK_FRAME_LEN || !end.is_multiple_of(4) || rest.len() < end {
            bail!("capture offset {offset}: a block of {length} bytes, but {} are left", rest.len());
        }
        self.rest = &rest[end..];
        self.offset += end;
        Ok((kind, &rest[8..end - 4]))
    }
}
