//! Group-mod: changes a group (1.3 §7.3.4.2).

use super::Version;
use super::action::{self, ActionView};
use super::bytes::{Elements, Layout, Put, at_least, u16_at, u32_at};
use crate::error::Result;
use crate::flow::Action;
use crate::port::PortNo;

mod offset {
    pub const COMMAND: usize = 8;
    pub const TYPE: usize = 10;
    pub const GROUP: usize = 12;
    pub const BUCKETS: usize = 16;
}

mod bucket_offset {
    pub const LENGTH: usize = 0;
    pub const WEIGHT: usize = 2;
    pub const WATCH_PORT: usize = 4;
    pub const WATCH_GROUP: usize = 8;
    pub const ACTIONS: usize = 16;
}

const BUCKET: Layout =
    Layout { what: "bucket", length_at: bucket_offset::LENGTH, min: bucket_offset::ACTIONS, multiple: 8, pad_to: 1 };

/// Changes a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMod {
    /// `OFPGC_*`: 0 add, 1 modify, 2 delete.
    pub command: u16,
    /// `OFPGT_*`: 0 all, 1 select, 2 indirect, 3 fast failover.
    pub kind: u8,
    /// The group's number; 0xffff_fffc means all groups when deleting.
    pub group: u32,
    /// The action lists of the group.
    pub buckets: Vec<Bucket>,
}

/// One of the action lists of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The bucket's share of the packets in a select group, relative to the other buckets.
    pub weight: u16,
    /// The port whose state decides whether the bucket is live; [`PortNo::ANY`] means none.
    pub watch_port: PortNo,
    /// The group whose state decides whether the bucket is live; 0xffff_ffff means none.
    pub watch_group: u32,
    /// The actions for a packet.
    pub actions: Vec<Action>,
}

/// A view of a group-mod.
#[derive(Clone, Copy, Debug)]
pub struct GroupModView<'a> {
    bytes: &'a [u8],
}

impl<'a> GroupModView<'a> {
    /// Creates a view of the group-mod that takes all of `bytes`, header included.
    ///
    /// # Errors
    /// [`Error::Truncated`](crate::Error::Truncated) if `bytes` ends within the fixed part.
    pub fn new_checked(bytes: &'a [u8]) -> Result<GroupModView<'a>> {
        at_least("group-mod", bytes, offset::BUCKETS)?;
        Ok(GroupModView { bytes })
    }

    /// Returns the command, `OFPGC_*`.
    pub fn command(&self) -> u16 {
        u16_at(self.bytes, offset::COMMAND)
    }

    /// Returns the type, `OFPGT_*`.
    pub fn kind(&self) -> u8 {
        self.bytes[offset::TYPE]
    }

    /// Returns the group's number.
    pub fn group(&self) -> u32 {
        u32_at(self.bytes, offset::GROUP)
    }

    /// Iterates over the action lists of the group. The first error is the last item.
    pub fn buckets(&self) -> impl Iterator<Item = Result<BucketView<'a>>> {
        BucketView::list(&self.bytes[offset::BUCKETS..])
    }
}

/// A view of one bucket.
#[derive(Clone, Copy, Debug)]
pub struct BucketView<'a> {
    bytes: &'a [u8],
}

impl<'a> BucketView<'a> {
    /// Iterates over the buckets that lie one after the other in `bytes`; the first error is the last item.
    pub fn list(bytes: &'a [u8]) -> impl Iterator<Item = Result<BucketView<'a>>> {
        Elements::new(BUCKET, bytes).map(|bytes| bytes.map(|bytes| BucketView { bytes }))
    }

    /// Returns the bucket's share of the packets in a select group.
    pub fn weight(&self) -> u16 {
        u16_at(self.bytes, bucket_offset::WEIGHT)
    }

    /// Returns the port whose state decides whether the bucket is live.
    pub fn watch_port(&self) -> PortNo {
        PortNo(u32_at(self.bytes, bucket_offset::WATCH_PORT))
    }

    /// Returns the group whose state decides whether the bucket is live.
    pub fn watch_group(&self) -> u32 {
        u32_at(self.bytes, bucket_offset::WATCH_GROUP)
    }

    /// Iterates over the actions for a packet; the first error is the last item.
    pub fn actions(&self) -> impl Iterator<Item = Result<ActionView<'a>>> {
        ActionView::list(Version::Of13, &self.bytes[bucket_offset::ACTIONS..])
    }
}

impl GroupMod {
    /// Reads the owned form.
    ///
    /// # Errors
    /// The error of the first bucket or action that is malformed.
    pub fn parse(view: &GroupModView<'_>) -> Result<GroupMod> {
        Ok(GroupMod {
            command: view.command(),
            kind: view.kind(),
            group: view.group(),
            buckets: view.buckets().map(|bucket| Bucket::parse(&bucket?)).collect::<Result<_>>()?,
        })
    }

    /// Appends the message without its header.
    ///
    /// # Errors
    /// An error about lengths if a bucket is too long.
    pub fn emit(&self, out: &mut Vec<u8>) -> Result<()> {
        out.put_u16(self.command);
        out.put_u8(self.kind);
        out.put_zeros(1);
        out.put_u32(self.group);
        self.buckets.iter().try_for_each(|bucket| bucket.emit(out))
    }
}

impl Bucket {
    /// Reads the owned form.
    ///
    /// # Errors
    /// The error of the first action that is malformed.
    pub fn parse(view: &BucketView<'_>) -> Result<Bucket> {
        Ok(Bucket {
            weight: view.weight(),
            watch_port: view.watch_port(),
            watch_group: view.watch_group(),
            actions: view.actions().map(|action| action?.to_action()).collect::<Result<_>>()?,
        })
    }

    /// Appends the bucket.
    ///
    /// # Errors
    /// An error about lengths if the bucket is too long.
    pub fn emit(&self, out: &mut Vec<u8>) -> Result<()> {
        out.put_sized(bucket_offset::LENGTH, |out| {
            out.put_u16(0);
            out.put_u16(self.weight);
            out.put_u32(self.watch_port.0);
            out.put_u32(self.watch_group);
            out.put_zeros(4);
            action::emit_list(&self.actions, Version::Of13, out)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::Message;
    use crate::msg::test::{check, check_truncated, check_unsupported, hex};

    #[test]
    fn a_select_group_has_weighted_buckets() {
        let bucket = |weight, port| Bucket {
            weight,
            watch_port: PortNo::ANY,
            watch_group: 0xffff_ffff,
            actions: vec![Action::output(PortNo(port))],
        };
        let group_mod = Message::GroupMod(GroupMod {
            command: 0,
            kind: 1,
            group: 7,
            buckets: vec![bucket(100, 1), bucket(200, 2)],
        });
        let bytes = "04 0f 0050 00000001 0000 01 00 00000007
            0020 0064 ffffffff ffffffff 00000000 0000 0010 00000001 0000 000000000000
            0020 00c8 ffffffff ffffffff 00000000 0000 0010 00000002 0000 000000000000";
        check(Version::Of13, bytes, group_mod.clone());
        check_truncated(bytes);
        check_unsupported(Version::Of10, group_mod);
    }

    #[test]
    fn buckets_too_short_or_of_length_zero_are_refused() {
        for length in ["0000", "0008", "000f", "0018"] {
            let bytes = format!("04 0f 0020 00000001 0000 01 00 00000007 {length} 0064 ffffffff ffffffff 00000000");
            assert!(Message::decode(&hex(&bytes)).is_err(), "{length}");
        }
    }
}
