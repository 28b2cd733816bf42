//! Groups: lists of actions that several rules share (1.3 §5.6, §6.5). Groups in groups are not supported.

use maple_wire::msg::{Bucket, GroupMod};
use maple_wire::{Action, Field, Packet, PortNo};

use super::check;
use super::pipeline::Flight;
use super::refusal::Refusal;
use super::{Lost, Outgoing, Switch};
use crate::time::Time;

const ADD: u16 = 0;
const MODIFY: u16 = 1;
const DELETE: u16 = 2;

/// The greatest number that a group may have.
const MAX_GROUP: u32 = 0xffff_ff00;
/// `OFPG_ALL`.
const ALL_GROUPS: u32 = 0xffff_fffc;
/// `OFPG_ANY`, as a watched group: none.
const NO_GROUP: u32 = 0xffff_ffff;

/// Which of its buckets a group does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum GroupKind {
    /// All of them, each on a copy.
    All = 0,
    /// One, chosen by a hash of the packet's addresses and ports, and by weight.
    Select = 1,
    /// The only one.
    Indirect = 2,
    /// The first whose port is up.
    FastFailover = 3,
}

/// A group.
#[derive(Clone, Debug)]
pub struct Group {
    /// Which of its buckets it does.
    pub kind: GroupKind,
    /// Its capabilities.
    pub buckets: Vec<Bucket>,
    /// Packets and bytes that each bucket took.
    pub bucket_counters: Vec<(u64, u64)>,
    /// Packets that came to it.
    pub packets: u64,
    /// Bytes of these.
    pub bytes: u64,
    pub(super) added: Time,
}

impl Switch {
    /// Obeys a group-mod.
    pub(super) fn group_mod(&mut self, now: Time, request: GroupMod, out: &mut Vec<Outgoing>) -> Result<(), Refusal> {
        match request.command {
            ADD if self.groups.contains_key(&request.group) => Err(Refusal::GroupExists),
            MODIFY if !self.groups.contains_key(&request.group) => Err(Refusal::UnknownGroup),
            ADD | MODIFY => {
                let group = self.checked_group(now, request.group, request.kind, request.buckets)?;
                self.groups.insert(request.group, group);
                Ok(())
            }
            DELETE => {
                let doomed: Vec<u32> = match request.group {
                    ALL_GROUPS => self.groups.keys().copied().collect(),
                    one => self.groups.keys().copied().filter(|g| *g == one).collect(),
                };
                for number in doomed {
                    self.groups.remove(&number);
                    for table in 0..self.tables.len() {
                        for (rule, why) in self.tables[table].remove_group_users(number) {
                            self.flow_removed(now, table as u8, rule, why, out);
                        }
                    }
                }
                Ok(())
            }
            _ => Err(Refusal::GroupCommand),
        }
    }

    fn checked_group(&self, now: Time, number: u32, kind: u8, buckets: Vec<Bucket>) -> Result<Group, Refusal> {
        let kind = match kind {
            0 => GroupKind::All,
            1 => GroupKind::Select,
            2 => GroupKind::Indirect,
            3 => GroupKind::FastFailover,
            _ => return Err(Refusal::GroupType),
        };
        if number > MAX_GROUP || (kind == GroupKind::Indirect && buckets.len() != 1) {
            return Err(Refusal::InvalidGroup);
        }
        for bucket in &buckets {
            if bucket.actions.iter().any(|a| matches!(a, Action::Group(_))) {
                return Err(Refusal::GroupChaining);
            }
            if bucket.watch_group != NO_GROUP && kind == GroupKind::FastFailover {
                return Err(Refusal::GroupBucket);
            }
            check::actions(&self.abilities(), None, &bucket.actions, false)?;
        }
        let bucket_counters = vec![(0, 0); buckets.len()];
        Ok(Group { kind, buckets, bucket_counters, packets: 0, bytes: 0, added: now })
    }

    /// Applies a group to a packet. The packet itself stays unchanged: buckets work on copies.
    pub(super) fn group(&mut self, now: Time, flight: &Flight, number: u32, out: &mut Vec<Outgoing>) {
        let bytes = flight.frame.len() as u64;
        let Some(group) = self.groups.get(&number) else { return };
        let chosen = match group.kind {
            GroupKind::All | GroupKind::Indirect => (0..group.buckets.len()).collect(),
            GroupKind::Select => choose_by_weight(&group.buckets, &flight.frame),
            GroupKind::FastFailover => self.first_live(&group.buckets),
        };
        if chosen.is_empty() {
            self.record.lost.push(Lost::ByRule);
        }
        for at in chosen {
            let Some(group) = self.groups.get_mut(&number) else { return };
            group.bucket_counters[at].0 += 1;
            group.bucket_counters[at].1 += bytes;
            let mut set = super::action_set::ActionSet::default();
            set.write(&group.buckets[at].actions);
            self.apply(now, &mut flight.clone(), &set.in_order(), out);
        }
        if let Some(group) = self.groups.get_mut(&number) {
            group.packets += 1;
            group.bytes += bytes;
        }
    }

    fn first_live(&self, buckets: &[Bucket]) -> Vec<usize> {
        let is_up = |port: PortNo| self.ports.get(&port).is_some_and(|p| p.description.is_up());
        buckets.iter().position(|b| is_up(b.watch_port)).into_iter().collect()
    }
}

/// The bucket whose share of the weights the packet's hash falls into; none if all weights are 0.
fn choose_by_weight(buckets: &[Bucket], frame: &[u8]) -> Vec<usize> {
    let total: u64 = buckets.iter().map(|b| u64::from(b.weight)).sum();
    if total == 0 {
        return Vec::new();
    }
    let mut at = hash(frame) % total;
    let mut chosen = 0;
    for (i, bucket) in buckets.iter().enumerate() {
        chosen = i;
        match at.checked_sub(u64::from(bucket.weight)) {
            Some(rest) => at = rest,
            None => break,
        }
    }
    vec![chosen]
}

/// FNV-1a over the fields that distinguish flows, so that all packets of a flow take one path.
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
