//! Sums over rules (1.0 §5.3.5, 1.3 §7.3.5.3). The request has the form of a request for single rules.

use serde::{Deserialize, Serialize};

use crate::msg::wire::{Padded, layout};

layout! {
    /// The sums of the counters of rules.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct AggregateStats {
        /// Packets.
        pub packet_count: u64,
        /// Bytes.
        pub byte_count: u64,
        /// The number of rules.
        pub flow_count: u32 as Padded<4>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::stats::{ReplyBody, StatsReply};
    use crate::msg::test::check;
    use crate::msg::{Message, Version};

    #[test]
    fn sums_are_the_same_in_both_versions() {
        let sums = AggregateStats { packet_count: 7, byte_count: 700, flow_count: 3 };
        let reply = Message::StatsReply(StatsReply::new(ReplyBody::Aggregate(sums)));
        let body = "0000000000000007 00000000000002bc 00000003 00000000";
        check(Version::Of10, &format!("01 11 0024 00000001 0002 0000 {body}"), reply.clone());
        check(Version::Of13, &format!("04 13 0028 00000001 0002 0000 00000000 {body}"), reply);
    }
}
