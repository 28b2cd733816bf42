//! Groups: lists of actions that several rules share (1.3 §5.6, §6.5).

use maple_wire::msg::command::{ADD, DELETE, MODIFY};
use maple_wire::msg::{ALL_GROUPS, ANY_GROUP};
use maple_wire::msg::{Bucket, GroupMod};
use maple_wire::{ActionSet, Field, Packet, PortNo};

use super::check::{self, ActionPlace};
use super::pipeline::PacketInSwitch;
use super::refusal::Refusal;
use super::{Lost, Outgoing, Removal, Switch};
use crate::time::Nanoseconds;

/// The maximum depth of groups that watch each other: what watches itself, over others, ends here and is not live.
/// Chosen: as deep as packets may be nested, and no controller builds deeper chains.
const MAX_WATCHED: u8 = 8;

/// The maximum number that a group may have (`OFPG_MAX`).
const MAX_GROUP: u32 = 0xffff_ff00;

/// The rule by which a group chooses its buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum GroupKind {
    /// All buckets, each on a copy.
    All = 0,
    /// One bucket, chosen by a hash of the packet's addresses and ports, and by weight.
    Select = 1,
    /// The only bucket.
    Indirect = 2,
    /// The first bucket whose port is up.
    FastFailover = 3,
}

/// A group.
#[derive(Clone, Debug)]
pub struct Group {
    /// The rule by which it chooses its buckets.
    pub kind: GroupKind,
    /// Its buckets.
    pub buckets: Vec<Bucket>,
    /// Packets and bytes that each bucket took.
    pub bucket_counters: Vec<(u64, u64)>,
    /// Packets that the group took.
    pub packets: u64,
    /// Bytes of these.
    pub bytes: u64,
    pub(super) added: Nanoseconds,
}

impl Switch {
    /// Obeys a group-mod.
    pub(super) fn group_mod(
        &mut self,
        now: Nanoseconds,
        request: GroupMod,
        out: &mut Vec<Outgoing>,
    ) -> Result<(), Refusal> {
        match request.command {
            ADD | MODIFY => {
                let exists = self.groups.contains_key(&request.group);
                let group = self.checked_group(now, request.kind, request.buckets)?;
                match request.command {
                    ADD if request.group > MAX_GROUP => return Err(Refusal::InvalidGroup),
                    ADD if exists => return Err(Refusal::GroupExists),
                    MODIFY if !exists => return Err(Refusal::UnknownGroup),
                    _ => {}
                }
                self.groups.insert(request.group, group);
                Ok(())
            }
            DELETE if !request.buckets.is_empty() => Err(Refusal::InvalidGroup),
            DELETE => {
                let doomed: Vec<u32> = match request.group {
                    ALL_GROUPS => self.groups.keys().copied().collect(),
                    one => self.groups.keys().copied().filter(|g| *g == one).collect(),
                };
                for number in doomed {
                    self.groups.remove(&number);
                    for table in 0..self.tables.len() {
                        for rule in self.tables[table].remove_group_users(number) {
                            self.flow_removed(now, table as u8, rule, Removal::GroupDelete, out);
                        }
                    }
                }
                Ok(())
            }
            // Open vSwitch interprets higher commands as those of 1.5, which need a group.
            3 => Err(Refusal::UnknownGroup),
            _ => Err(Refusal::GroupCommand),
        }
    }

    fn checked_group(&self, now: Nanoseconds, kind: u8, buckets: Vec<Bucket>) -> Result<Group, Refusal> {
        let kind = match kind {
            0 => GroupKind::All,
            1 => GroupKind::Select,
            2 => GroupKind::Indirect,
            3 => GroupKind::FastFailover,
            _ => return Err(Refusal::GroupType),
        };
        if kind == GroupKind::Indirect && buckets.len() != 1 {
            return Err(Refusal::InvalidGroup);
        }
        for bucket in &buckets {
            let watches = is_watching(bucket);
            match kind {
                GroupKind::FastFailover if !watches => return Err(Refusal::InvalidGroup),
                GroupKind::All | GroupKind::Indirect if watches => return Err(Refusal::GroupWatch),
                GroupKind::All | GroupKind::Indirect | GroupKind::FastFailover if bucket.weight != 0 => {
                    return Err(Refusal::InvalidGroup);
                }
                _ => check::actions(&self.abilities(), ActionPlace::Bucket, &bucket.actions)?,
            }
        }
        let bucket_counters = vec![(0, 0); buckets.len()];
        Ok(Group { kind, buckets, bucket_counters, packets: 0, bytes: 0, added: now })
    }

    /// Applies a group to a packet. The packet itself stays unchanged: buckets work on copies.
    pub(super) fn group(&mut self, now: Nanoseconds, passing: &PacketInSwitch, number: u32, out: &mut Vec<Outgoing>) {
        let bytes = passing.flight.frame.len() as u64;
        let Some(group) = self.groups.get(&number) else { return };
        let Some(inside) = passing.inside_group() else {
            self.record.lost.push(Lost::TooDeep);
            return;
        };
        let chosen = match group.kind {
            GroupKind::All | GroupKind::Indirect => (0..group.buckets.len()).collect(),
            GroupKind::Select => self.choose_by_weight(&group.buckets, &passing.flight.frame),
            GroupKind::FastFailover => self.live(&group.buckets).take(1).collect(),
        };
        if chosen.is_empty() {
            self.record.lost.push(Lost::ByRule);
        }
        for at in chosen {
            let Some(group) = self.groups.get_mut(&number) else { return };
            group.bucket_counters[at].0 += 1;
            group.bucket_counters[at].1 += bytes;
            let mut set = ActionSet::default();
            set.write(&group.buckets[at].actions);
            self.apply(now, &mut inside.clone(), &set.in_order(), out);
        }
        if let Some(group) = self.groups.get_mut(&number) {
            group.packets += 1;
            group.bytes += bytes;
        }
    }

    /// Returns the buckets that watch nothing, or something that is up.
    fn live<'a>(&'a self, buckets: &'a [Bucket]) -> impl Iterator<Item = usize> + 'a {
        buckets.iter().enumerate().filter(|(_, bucket)| self.is_live(bucket, MAX_WATCHED)).map(|(at, _)| at)
    }

    fn is_live(&self, bucket: &Bucket, depth: u8) -> bool {
        let is_up = |port: PortNo| self.ports.get(&port).is_some_and(|p| p.description.is_up());
        let group = self.groups.get(&bucket.watch_group).filter(|_| depth > 0);
        let has_live = |group: &Group| group.buckets.iter().any(|bucket| self.is_live(bucket, depth - 1));
        !is_watching(bucket) || is_up(bucket.watch_port) || group.is_some_and(has_live)
    }

    /// Chooses the live bucket whose share of the weights the packet's hash falls into; none if all weights are 0.
    fn choose_by_weight(&self, buckets: &[Bucket], frame: &[u8]) -> Vec<usize> {
        let weight = |at: &usize| u64::from(buckets[*at].weight);
        let live: Vec<usize> = self.live(buckets).collect();
        let total: u64 = live.iter().map(weight).sum();
        if total == 0 {
            return Vec::new();
        }
        let mut at = hash(frame) % total;
        let chosen = live.into_iter().find(|bucket| match at.checked_sub(weight(bucket)) {
            Some(rest) => {
                at = rest;
                false
            }
            None => true,
        });
        chosen.into_iter().collect()
    }
}

fn is_watching(bucket: &Bucket) -> bool {
    bucket.watch_port != PortNo::ANY || bucket.watch_group != ANY_GROUP
}

/// Returns the FNV-1a hash of the fields that distinguish flows, so that all packets of a flow take one path.
fn hash(frame: &[u8]) -> u64 {
    const FLOW: [Field; 12] = [
        Field::EthSrc,
        Field::EthDst,
        Field::VlanVid,
        Field::IpProto,
        Field::Ipv4Src,
        Field::Ipv4Dst,
        Field::Ipv6Src,
        Field::Ipv6Dst,
        Field::TcpSrc,
        Field::TcpDst,
        Field::UdpSrc,
        Field::UdpDst,
    ];
    let packet = Packet::new(frame, 0);
    let bytes = FLOW.into_iter().filter_map(|field| packet.get(field)).flat_map(u128::to_be_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
