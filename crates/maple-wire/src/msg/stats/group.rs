//! Counters, descriptions and features of groups (1.3 §7.3.5.9 to §7.3.5.11).

use crate::error::Result;
use crate::msg::bytes::{Elements, Layout, Put, exactly, records, u32_at, u64_at};
use crate::msg::group_mod::{Bucket, BucketView};

/// Offsets in a group's counters.
mod offset {
    pub const LENGTH: usize = 0;
    pub const GROUP: usize = 4;
    pub const REF_COUNT: usize = 8;
    pub const PACKET_COUNT: usize = 16;
    pub const BYTE_COUNT: usize = 24;
    pub const DURATION_SEC: usize = 32;
    pub const DURATION_NSEC: usize = 36;
    pub const BUCKETS: usize = 40;
    /// The length of a bucket's counters in bytes.
    pub const BUCKET_LEN: usize = 16;
}

/// Offsets in a group's description.
mod desc_offset {
    pub const LENGTH: usize = 0;
    pub const TYPE: usize = 2;
    pub const GROUP: usize = 4;
    pub const BUCKETS: usize = 8;
}

/// Offsets in the features. Each list has an item for each type of group.
mod features_offset {
    pub const TYPES: usize = 0;
    pub const CAPABILITIES: usize = 4;
    pub const MAX_GROUPS: usize = 8;
    pub const ACTIONS: usize = 24;
    pub const END: usize = 40;
}

const STATS: Layout =
    Layout { what: "group statistics", length_at: offset::LENGTH, min: offset::BUCKETS, multiple: 1, pad_to: 1 };
const DESC: Layout =
    Layout { what: "group", length_at: desc_offset::LENGTH, min: desc_offset::BUCKETS, multiple: 1, pad_to: 1 };

/// The counters of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStats {
    /// The group.
    pub group: u32,
    /// The number of rules and groups that use it.
    pub ref_count: u32,
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

/// The counters of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketCounter {
    /// Packets that the bucket processed.
    pub packet_count: u64,
    /// Bytes that the bucket processed.
    pub byte_count: u64,
}

/// The configuration of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDesc {
    /// `OFPGT_*`: 0 all, 1 select, 2 indirect, 3 fast failover.
    pub kind: u8,
    /// The group.
    pub group: u32,
    /// The group's buckets.
    pub buckets: Vec<Bucket>,
}

/// The abilities of groups. Lists are indexed by type (all, select, indirect, fast failover).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

impl GroupStats {
    /// Reads the body of a reply.
    pub(super) fn parse_list(body: &[u8]) -> Result<Vec<GroupStats>> {
        Elements::new(STATS, body).map(|bytes| GroupStats::parse(bytes?)).collect()
    }

    fn parse(bytes: &[u8]) -> Result<GroupStats> {
        let buckets = records("bucket counters", &bytes[offset::BUCKETS..], offset::BUCKET_LEN)?;
        Ok(GroupStats {
            group: u32_at(bytes, offset::GROUP),
            ref_count: u32_at(bytes, offset::REF_COUNT),
            packet_count: u64_at(bytes, offset::PACKET_COUNT),
            byte_count: u64_at(bytes, offset::BYTE_COUNT),
            duration_sec: u32_at(bytes, offset::DURATION_SEC),
            duration_nsec: u32_at(bytes, offset::DURATION_NSEC),
            buckets: buckets
                .map(|bytes| BucketCounter { packet_count: u64_at(bytes, 0), byte_count: u64_at(bytes, 8) })
                .collect(),
        })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) -> Result<()> {
        out.put_sized(offset::LENGTH, |out| {
            out.put_zeros(4);
            out.put_u32(self.group);
            out.put_u32(self.ref_count);
            out.put_zeros(4);
            out.put_u64(self.packet_count);
            out.put_u64(self.byte_count);
            out.put_u32(self.duration_sec);
            out.put_u32(self.duration_nsec);
            for bucket in &self.buckets {
                out.put_u64(bucket.packet_count);
                out.put_u64(bucket.byte_count);
            }
            Ok(())
        })
    }
}

impl GroupDesc {
    /// Reads the body of a reply.
    pub(super) fn parse_list(body: &[u8]) -> Result<Vec<GroupDesc>> {
        Elements::new(DESC, body).map(|bytes| GroupDesc::parse(bytes?)).collect()
    }

    fn parse(bytes: &[u8]) -> Result<GroupDesc> {
        Ok(GroupDesc {
            kind: bytes[desc_offset::TYPE],
            group: u32_at(bytes, desc_offset::GROUP),
            buckets: BucketView::list(&bytes[desc_offset::BUCKETS..])
                .map(|bucket| Bucket::parse(&bucket?))
                .collect::<Result<_>>()?,
        })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) -> Result<()> {
        out.put_sized(desc_offset::LENGTH, |out| {
            out.put_u16(0);
            out.put_u8(self.kind);
            out.put_zeros(1);
            out.put_u32(self.group);
            self.buckets.iter().try_for_each(|bucket| bucket.emit(out))
        })
    }
}

impl GroupFeatures {
    /// Reads the body of a reply.
    pub(super) fn parse(body: &[u8]) -> Result<GroupFeatures> {
        exactly("group features", body, features_offset::END)?;
        let four = |at: usize| [0, 4, 8, 12].map(|n| u32_at(body, at + n));
        Ok(GroupFeatures {
            types: u32_at(body, features_offset::TYPES),
            capabilities: u32_at(body, features_offset::CAPABILITIES),
            max_groups: four(features_offset::MAX_GROUPS),
            actions: four(features_offset::ACTIONS),
        })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) -> Result<()> {
        out.put_u32(self.types);
        out.put_u32(self.capabilities);
        [self.max_groups, self.actions].as_flattened().iter().for_each(|word| out.put_u32(*word));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::stats::{ReplyBody, StatsReply};
    use crate::msg::test::{check, check_truncated, hex};
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
        check_truncated(bytes);
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
        check_truncated(bytes);
    }

    #[test]
    fn features_have_an_entry_for_each_type() {
        let features = GroupFeatures { types: 15, capabilities: 7, max_groups: [1, 2, 3, 4], actions: [5, 6, 7, 8] };
        let bytes = "04 13 0038 00000001 0008 0000 00000000 0000000f 00000007
            00000001 00000002 00000003 00000004 00000005 00000006 00000007 00000008";
        check(Version::Of13, bytes, reply(ReplyBody::GroupFeatures(features)));
        check_truncated(bytes);
    }

    #[test]
    fn groups_of_length_zero_are_refused() {
        assert!(Message::decode(&hex("04 13 0018 00000001 0007 0000 00000000 0000 03 00 00000007")).is_err());
    }
}
