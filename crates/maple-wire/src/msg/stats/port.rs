//! Statistics of ports (1.0 §5.3.5, 1.3 §7.3.5.6).

use serde::{Deserialize, Serialize};

use crate::msg::wire::{Only13, Padded, layout};
use crate::port::PortNo;

layout! {
    /// The counters of a port. A counter that a switch does not have is all ones. 1.0 leaves out the duration.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
    pub struct PortStats {
        /// The port.
        pub port: PortNo as Padded<6, 4>,
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
        pub duration_sec: u32 as Only13,
        /// Nanoseconds beyond `duration_sec` (1.3).
        pub duration_nsec: u32 as Only13,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::stats::{ReplyBody, StatsReply};
    use crate::msg::test::check;
    use crate::msg::{Message, Version};

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
        (stats.duration_sec, stats.duration_nsec) = (13, 14);
        let of13 = format!("04 13 0080 00000001 0004 0000 00000000 00000003 00000000 {counters} 0000000d 0000000e");
        check(Version::Of13, &of13, reply(stats));
    }
}
