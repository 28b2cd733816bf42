//! Counters, descriptions and features of groups (1.3 §7.3.5.9 to §7.3.5.11).

use serde::{Deserialize, Serialize};

use crate::msg::bytes::Element;
use crate::msg::group_mod::Bucket;
use crate::msg::wire::{After, Padded, layout};

const GROUP_STATS: Element = Element::new("group statistics", 0);
const GROUP: Element = Element::new("group", 0);

layout! {
    /// The counters of a group.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct GroupStats: GROUP_STATS {
        /// The group.
        pub group: u32 as After<4>,
        /// The number of rules and groups that use it.
        pub ref_count: u32 as Padded<4>,
        /// Packets that the group processed.
        pub packet_count: u64,
        /// Bytes that the group processed.
        pub byte_count: u64,
        /// Seconds for which the group has existed.
        pub duration_sec: u32,
        /// Nanoseconds beyond `duration_sec`.
        pub duration_nsec: u32,
        /// The counters of each bucket.
        pub buckets: Vec<BucketCounter>,
    }
}

layout! {
    /// The counters of a bucket.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct BucketCounter {
        /// Packets that the bucket processed.
        pub packet_count: u64,
        /// Bytes that the bucket processed.
        pub byte_count: u64,
    }
}

layout! {
    /// The configuration of a group.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct GroupDesc: GROUP {
        /// `OFPGT_*`: 0 all, 1 select, 2 indirect, 3 fast failover.
        pub kind: u8 as After<2, Padded<1>>,
        /// The group.
        pub group: u32,
        /// The group's buckets.
        pub buckets: Vec<Bucket>,
    }
}

layout! {
    /// The abilities of groups. Lists are indexed by type (all, select, indirect, fast failover).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct GroupFeatures {
        /// Bits of `1 << OFPGT_*`.
        pub types: u32,
        /// Bits of `OFPGFC_*`.
        pub capabilities: u32,
        /// The maximum number of groups of each type.
        pub max_groups: [u32; 4],
        /// Bits of `1 << OFPAT_*` for each type.
        pub actions: [u32; 4],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::stats::{ReplyBody, StatsReply};
    use crate::msg::test::{check, hex};
    use crate::msg::{Message, Version};
    use crate::{Action, PortNo};

    fn reply(body: ReplyBody) -> Message {
        Message::StatsReply(StatsReply::new(body))
    }

    #[test]
    fn a_group_counts_its_buckets_apart() {
        let stats = GroupStats {
            group: 7,
            ref_count: 2,
            packet_count: 3,
            byte_count: 300,
            duration_sec: 4,
            duration_nsec: 5,
            buckets: vec![BucketCounter { packet_count: 1, byte_count: 100 }],
        };
        let bytes = "04 13 0048 00000001 0006 0000 00000000
            0038 0000 00000007 00000002 00000000 0000000000000003 000000000000012c 00000004 00000005
            0000000000000001 0000000000000064";
        check(Version::Of13, bytes, reply(ReplyBody::Group(vec![stats])));
    }

    #[test]
    fn a_group_is_described_with_its_buckets() {
        let bucket = Bucket {
            weight: 1,
            watch_port: PortNo(2),
            watch_group: 0xffff_ffff,
            actions: vec![Action::output(PortNo(2))],
        };
        let bytes = "04 13 0038 00000001 0007 0000 00000000 0028 03 00 00000007
            0020 0001 00000002 ffffffff 00000000 0000 0010 00000002 0000 000000000000";
        let desc = GroupDesc { kind: 3, group: 7, buckets: vec![bucket] };
        check(Version::Of13, bytes, reply(ReplyBody::GroupDesc(vec![desc])));
    }

    #[test]
    fn features_have_an_entry_for_each_type() {
        let features = GroupFeatures { types: 15, capabilities: 7, max_groups: [1, 2, 3, 4], actions: [5, 6, 7, 8] };
        let bytes = "04 13 0038 00000001 0008 0000 00000000 0000000f 00000007
            00000001 00000002 00000003 00000004 00000005 00000006 00000007 00000008";
        check(Version::Of13, bytes, reply(ReplyBody::GroupFeatures(features)));
    }

    #[test]
    fn groups_of_length_zero_are_refused() {
        assert!(Message::decode(&hex("04 13 0018 00000001 0007 0000 00000000 0000 03 00 00000007")).is_err());
    }
}
