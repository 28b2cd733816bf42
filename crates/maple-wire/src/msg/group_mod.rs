//! Group-mod: changes a group (1.3 §7.3.4.2).

use serde::{Deserialize, Serialize};

use super::bytes::Element;
use super::wire::{After, Padded, layout};
use crate::flow::Action;
use crate::port::PortNo;

const BUCKET: Element = Element { multiple: 8, ..Element::new("bucket", 0) };

layout! {
    /// Changes a group.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct GroupMod {
        /// `OFPGC_*`: 0 add, 1 modify, 2 delete.
        pub command: u16,
        /// `OFPGT_*`: 0 all, 1 select, 2 indirect, 3 fast failover.
        pub kind: u8 as Padded<1>,
        /// The group's number; 0xffff_fffc means all groups when deleting.
        pub group: u32,
        /// The action lists of the group.
        pub buckets: Vec<Bucket>,
    }
}

layout! {
    /// One of the action lists of a group.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Bucket: BUCKET {
        /// The bucket's share of the packets in a select group, relative to the other buckets.
        pub weight: u16 as After<2>,
        /// The port whose state decides whether the bucket is live; [`PortNo::ANY`] means none.
        pub watch_port: PortNo as Padded<2, 0>,
        /// The group whose state decides whether the bucket is live; 0xffff_ffff means none.
        pub watch_group: u32 as Padded<4>,
        /// The actions for a packet.
        pub actions: Vec<Action>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::test::{check, check_unsupported, hex};
    use crate::msg::{Message, Version};

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
