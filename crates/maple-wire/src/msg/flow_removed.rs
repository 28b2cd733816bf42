//! Flow-removed: the report that a rule was removed (1.0 §5.4.2, 1.3 §7.4.2).

use serde::{Deserialize, Serialize};

use super::Version;
use super::bytes::{Put, Reader};
use super::matching;
use super::wire::Wire;
use crate::error::Result;
use crate::flow::Match;

/// Reports that a rule was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowRemoved {
    /// The rule's cookie.
    pub cookie: u64,
    /// The rule's priority.
    pub priority: u16,
    /// The reason: 0 idle timeout, 1 hard timeout, 2 delete, 3 group delete.
    pub reason: u8,
    /// The rule's table; 0 in OpenFlow 1.0.
    pub table_id: u8,
    /// Seconds for which the rule existed.
    pub duration_sec: u32,
    /// Nanoseconds beyond `duration_sec`.
    pub duration_nsec: u32,
    /// The rule's idle timeout in seconds.
    pub idle_timeout: u16,
    /// The rule's hard timeout in seconds; 0 in OpenFlow 1.0, which does not report it.
    pub hard_timeout: u16,
    /// Packets that the rule took.
    pub packet_count: u64,
    /// Bytes that the rule took.
    pub byte_count: u64,
    /// The rule's match.
    pub matching: Match,
}

impl Wire for FlowRemoved {
    const MIN: [usize; 2] = [80, 40];

    fn read(reader: &mut Reader<'_>) -> Result<FlowRemoved> {
        reader.need(Self::MIN)?;
        // The match comes first in 1.0 and last in 1.3. 1.0 has padding in place of table and hard timeout.
        let first: Option<Match> = reader.only_10()?;
        let in13 = !reader.is_10();
        Ok(FlowRemoved {
            cookie: reader.u64()?,
            priority: reader.u16()?,
            reason: reader.u8()?,
            table_id: reader.u8().map(|table| if in13 { table } else { 0 })?,
            duration_sec: reader.u32()?,
            duration_nsec: reader.u32()?,
            idle_timeout: reader.u16()?,
            hard_timeout: reader.u16().map(|timeout| if in13 { timeout } else { 0 })?,
            packet_count: reader.u64()?,
            byte_count: reader.u64()?,
            matching: first.map_or_else(|| Match::read(reader), Ok)?,
        })
    }

    /// Appends the message without its header. 1.0 leaves out table and hard timeout.
    fn write(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        let in13 = version == Version::Of13;
        if !in13 {
            matching::write_reported(&self.matching, version, out)?;
        }
        out.put_u64(self.cookie);
        out.put_u16(self.priority);
        out.put_u8(self.reason);
        out.put_u8(if in13 { self.table_id } else { 0 });
        out.put_u32(self.duration_sec);
        out.put_u32(self.duration_nsec);
        out.put_u16(self.idle_timeout);
        out.put_u16(if in13 { self.hard_timeout } else { 0 });
        out.put_u64(self.packet_count);
        out.put_u64(self.byte_count);
        if in13 { matching::write_reported(&self.matching, version, out) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Field;
    use crate::msg::Message;
    use crate::msg::test::check;

    fn removed(table_id: u8, hard_timeout: u16) -> Message {
        Message::FlowRemoved(FlowRemoved {
            cookie: 0x1122,
            priority: 100,
            reason: 2,
            table_id,
            duration_sec: 10,
            duration_nsec: 5,
            idle_timeout: 60,
            hard_timeout,
            packet_count: 7,
            byte_count: 700,
            matching: Match::any().exact(Field::InPort, 3),
        })
    }

    #[test]
    fn a_1_0_flow_removed_has_its_match_first() {
        let bytes = "01 0b 0058 00000001
            003820fe 0003 000000000000 000000000000 0000 00 00 0000 00 00 0000 00000000 00000000 0000 0000
            0000000000001122 0064 02 00 0000000a 00000005 003c 0000 0000000000000007 00000000000002bc";
        check(Version::Of10, bytes, removed(0, 0));
    }

    #[test]
    fn a_1_3_flow_removed_has_its_match_last() {
        let bytes = "04 0b 0040 00000001
            0000000000001122 0064 02 04 0000000a 00000005 003c 0078 0000000000000007 00000000000002bc
            0001 000c 80000004 00000003 00000000";
        check(Version::Of13, bytes, removed(4, 120));
    }
}
