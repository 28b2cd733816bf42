//! Statistics of queues (1.0 §5.3.5, 1.3 §7.3.5.8).

use crate::error::Result;
use crate::msg::Version;
use crate::msg::bytes::{Put, exactly, records, u32_at, u64_at};
use crate::msg::port_desc::{emit_number, number_at};
use crate::port::PortNo;

/// Offsets in a record. A request consists of its first two fields.
mod offset {
    pub const PORT: usize = 0;
    pub const QUEUE: usize = 4;
    pub const END_OF_REQUEST: usize = 8;
    pub const TX_BYTES: usize = 8;
    pub const TX_PACKETS: usize = 16;
    pub const TX_ERRORS: usize = 24;
    pub const DURATION_SEC: usize = 32;
    pub const DURATION_NSEC: usize = 36;
    pub const END_10: usize = 32;
    pub const END_13: usize = 40;
}

/// The queues that a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueStatsRequest {
    /// The port. [`PortNo::ALL`] in 1.0 and [`PortNo::ANY`] in 1.3 mean all ports.
    pub port: PortNo,
    /// The queue; 0xffff_ffff means all.
    pub queue: u32,
}

/// The counters of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct QueueStats {
    /// The queue's port.
    pub port: PortNo,
    /// The queue's number on that port.
    pub queue: u32,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Packets lost in an overrun of the queue.
    pub tx_errors: u64,
    /// Seconds for which the queue has existed (1.3).
    pub duration_sec: u32,
    /// Nanoseconds beyond `duration_sec` (1.3).
    pub duration_nsec: u32,
}

impl QueueStatsRequest {
    /// Reads the body of a request.
    pub(super) fn parse(version: Version, body: &[u8]) -> Result<QueueStatsRequest> {
        exactly("queue statistics request", body, offset::END_OF_REQUEST)?;
        Ok(QueueStatsRequest { port: number_at(version, body, offset::PORT), queue: u32_at(body, offset::QUEUE) })
    }

    pub(super) fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        emit_number(self.port, version, 4, out)?;
        out.put_u32(self.queue);
        Ok(())
    }
}

impl QueueStats {
    /// Reads the body of a reply.
    pub(super) fn parse_list(version: Version, body: &[u8]) -> Result<Vec<QueueStats>> {
        let size = if version == Version::Of10 { offset::END_10 } else { offset::END_13 };
        Ok(records("queue statistics", body, size)?.map(|bytes| QueueStats::parse(version, bytes)).collect())
    }

    fn parse(version: Version, bytes: &[u8]) -> QueueStats {
        let duration = |at| if version == Version::Of10 { 0 } else { u32_at(bytes, at) };
        QueueStats {
            port: number_at(version, bytes, offset::PORT),
            queue: u32_at(bytes, offset::QUEUE),
            tx_bytes: u64_at(bytes, offset::TX_BYTES),
            tx_packets: u64_at(bytes, offset::TX_PACKETS),
            tx_errors: u64_at(bytes, offset::TX_ERRORS),
            duration_sec: duration(offset::DURATION_SEC),
            duration_nsec: duration(offset::DURATION_NSEC),
        }
    }

    /// Appends the record. 1.0 leaves out the duration.
    pub(super) fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        emit_number(self.port, version, 4, out)?;
        out.put_u32(self.queue);
        out.put_u64(self.tx_bytes);
        out.put_u64(self.tx_packets);
        out.put_u64(self.tx_errors);
        if version == Version::Of13 {
            out.put_u32(self.duration_sec);
            out.put_u32(self.duration_nsec);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::Message;
    use crate::msg::stats::{ReplyBody, RequestBody, StatsReply, StatsRequest};
    use crate::msg::test::{check, check_truncated};

    #[test]
    fn queues_are_asked_for_by_port_and_number() {
        let request = |port| {
            let body = QueueStatsRequest { port, queue: 0xffff_ffff };
            Message::StatsRequest(StatsRequest::new(RequestBody::Queue(body)))
        };
        check(Version::Of10, "01 10 0014 00000001 0005 0000 fffc 0000 ffffffff", request(PortNo::ALL));
        check(Version::Of13, "04 12 0018 00000001 0005 0000 00000000 ffffffff ffffffff", request(PortNo::ANY));
    }

    #[test]
    fn a_queue_has_three_counters() {
        let mut stats =
            QueueStats { port: PortNo(3), queue: 9, tx_bytes: 1, tx_packets: 2, tx_errors: 3, ..QueueStats::default() };
        let reply = |stats| Message::StatsReply(StatsReply::new(ReplyBody::Queue(vec![stats])));
        let counters = "0000000000000001 0000000000000002 0000000000000003";
        check(Version::Of10, &format!("01 11 002c 00000001 0005 0000 0003 0000 00000009 {counters}"), reply(stats));
        (stats.duration_sec, stats.duration_nsec) = (4, 5);
        let of13 = format!("04 13 0038 00000001 0005 0000 00000000 00000003 00000009 {counters} 00000004 00000005");
        check(Version::Of13, &of13, reply(stats));
        check_truncated(&of13);
    }
}
