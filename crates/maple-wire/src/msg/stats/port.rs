//! Statistics of ports (1.0 §5.3.5, 1.3 §7.3.5.6).

use crate::error::Result;
use crate::msg::Version;
use crate::msg::bytes::{Put, records, u32_at, u64_at};
use crate::msg::port_desc::{emit_number, number_at};
use crate::port::PortNo;

mod offset {
    pub const NUMBER: usize = 0;
    pub const COUNTERS: usize = 8;
    pub const DURATION_SEC: usize = 104;
    pub const DURATION_NSEC: usize = 108;
    pub const END_10: usize = 104;
    pub const END_13: usize = 112;
}

/// The counters of a port. A counter that a switch does not have is all ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PortStats {
    /// The port.
    pub port: PortNo,
    /// Packets received.
    pub rx_packets: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Received packets dropped.
    pub rx_dropped: u64,
    /// Outgoing packets dropped.
    pub tx_dropped: u64,
    /// Receive errors, of all kinds.
    pub rx_errors: u64,
    /// Send errors, of all kinds.
    pub tx_errors: u64,
    /// Frames with an alignment error.
    pub rx_frame_err: u64,
    /// Packets lost in a receive overrun.
    pub rx_over_err: u64,
    /// Frames with a checksum error.
    pub rx_crc_err: u64,
    /// Collisions.
    pub collisions: u64,
    /// Seconds for which the port has existed (1.3).
    pub duration_sec: u32,
    /// Nanoseconds beyond `duration_sec` (1.3).
    pub duration_nsec: u32,
}

/// A view of a port's statistics.
#[derive(Clone, Copy, Debug)]
pub struct PortStatsView<'a> {
    version: Version,
    bytes: &'a [u8],
}

impl<'a> PortStatsView<'a> {
    /// Iterates over the records that lie one after the other in `bytes`.
    ///
    /// # Errors
    /// [`Error::Truncated`](crate::Error::Truncated) if the last record is cut off.
    pub fn list(version: Version, bytes: &'a [u8]) -> Result<impl Iterator<Item = PortStatsView<'a>>> {
        let size = if version == Version::Of10 { offset::END_10 } else { offset::END_13 };
        Ok(records("port statistics", bytes, size)?.map(move |bytes| PortStatsView { version, bytes }))
    }

    /// Returns the port.
    pub fn port(&self) -> PortNo {
        number_at(self.version, self.bytes, offset::NUMBER)
    }

    /// Reads the owned form.
    pub fn to_stats(&self) -> PortStats {
        let counter = |n: usize| u64_at(self.bytes, offset::COUNTERS + 8 * n);
        let duration = |at| if self.version == Version::Of10 { 0 } else { u32_at(self.bytes, at) };
        PortStats {
            port: self.port(),
            rx_packets: counter(0),
            tx_packets: counter(1),
            rx_bytes: counter(2),
            tx_bytes: counter(3),
            rx_dropped: counter(4),
            tx_dropped: counter(5),
            rx_errors: counter(6),
            tx_errors: counter(7),
            rx_frame_err: counter(8),
            rx_over_err: counter(9),
            rx_crc_err: counter(10),
            collisions: counter(11),
            duration_sec: duration(offset::DURATION_SEC),
            duration_nsec: duration(offset::DURATION_NSEC),
        }
    }
}

impl PortStats {
    /// Reads the body of a reply.
    pub(super) fn parse_list(version: Version, body: &[u8]) -> Result<Vec<PortStats>> {
        Ok(PortStatsView::list(version, body)?.map(|port| port.to_stats()).collect())
    }

    /// Appends the record. 1.0 leaves out the duration.
    pub(super) fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        emit_number(self.port, version, offset::COUNTERS, out)?;
        for counter in [
            self.rx_packets,
            self.tx_packets,
            self.rx_bytes,
            self.tx_bytes,
            self.rx_dropped,
            self.tx_dropped,
            self.rx_errors,
            self.tx_errors,
            self.rx_frame_err,
            self.rx_over_err,
            self.rx_crc_err,
            self.collisions,
        ] {
            out.put_u64(counter);
        }
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
    use crate::msg::stats::{ReplyBody, StatsReply};
    use crate::msg::test::{check, check_truncated};

    #[test]
    fn a_port_has_twelve_counters() {
        let mut stats = PortStats {
            port: PortNo(3),
            rx_packets: 1,
            tx_packets: 2,
            rx_bytes: 3,
            tx_bytes: 4,
            rx_dropped: 5,
            tx_dropped: 6,
            rx_errors: 7,
            tx_errors: 8,
            rx_frame_err: 9,
            rx_over_err: 10,
            rx_crc_err: 11,
            collisions: 12,
            ..PortStats::default()
        };
        let reply = |stats| Message::StatsReply(StatsReply::new(ReplyBody::Port(vec![stats])));
        let counters: String = (1..=12).map(|n: u64| format!("{n:016x}")).collect();
        let of10 = format!("01 11 0074 00000001 0004 0000 0003 000000000000 {counters}");
        check(Version::Of10, &of10, reply(stats));
        check_truncated(&of10);
        (stats.duration_sec, stats.duration_nsec) = (13, 14);
        let of13 = format!("04 13 0080 00000001 0004 0000 00000000 00000003 00000000 {counters} 0000000d 0000000e");
        check(Version::Of13, &of13, reply(stats));
        check_truncated(&of13);
    }
}
