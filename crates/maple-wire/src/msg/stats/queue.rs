//! Statistics of queues (1.0 §5.3.5, 1.3 §7.3.5.8).

use serde::{Deserialize, Serialize};

use crate::msg::wire::{Only13, Padded, layout};
use crate::port::PortNo;

layout! {
    /// The queues that a request is about.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct QueueStatsRequest {
        /// The port. [`PortNo::ALL`] in 1.0 and [`PortNo::ANY`] in 1.3 mean all ports.
        pub port: PortNo as Padded<2, 0>,
        /// The queue; 0xffff_ffff means all.
        pub queue: u32,
    }
}

layout! {
    /// The counters of a queue. 1.0 leaves out the duration.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
    pub struct QueueStats {
        /// The queue's port.
        pub port: PortNo as Padded<2, 0>,
        /// The queue's number on that port.
        pub queue: u32,
        /// Bytes sent.
        pub tx_bytes: u64,
        /// Packets sent.
        pub tx_packets: u64,
        /// Packets lost in an overrun of the queue.
        pub tx_errors: u64,
        /// Seconds for which the queue has existed (1.3).
        pub duration_sec: u32 as Only13,
        /// Nanoseconds beyond `duration_sec` (1.3).
        pub duration_nsec: u32 as Only13,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::stats::{ReplyBody, RequestBody, StatsReply, StatsRequest};
    use crate::msg::test::check;
    use crate::msg::{Message, Version};

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
    }
}
