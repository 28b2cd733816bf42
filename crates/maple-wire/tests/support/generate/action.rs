//! Random actions, instructions, buckets and bands.

use maple_wire::flow::{Action, Instruction};
use maple_wire::msg::*;
use maple_wire::{Field, PortNo};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::matching::{exact, exact_of};
use super::{aligned, bytes, port_no};

/// Generates any action of `version`.
pub fn action(version: Version) -> BoxedStrategy<Action> {
    let common = prop_oneof![
        (port_no(version), any::<u16>()).prop_map(|(port, max_len)| Action::Output { port, max_len }),
        Just(Action::PopVlan),
        (any::<u32>(), aligned(8)).prop_map(|(id, body)| Action::Experimenter { id, body }),
        (100u16..0xffff, aligned(4)).prop_map(|(kind, body)| Action::Unknown { kind, body }),
    ];
    match version {
        Version::Of10 => prop_oneof![common, action10()].boxed(),
        Version::Of13 => prop_oneof![common, action13()].boxed(),
    }
}

fn action10() -> BoxedStrategy<Action> {
    use Field::*;
    prop_oneof![
        (port_no(Version::Of10), any::<u32>()).prop_map(|(port, queue)| Action::Enqueue { port, queue }),
        exact_of(&[EthSrc, EthDst, Ipv4Src, Ipv4Dst, IpDscp]).prop_map(Action::SetField),
        any::<u16>().prop_map(Action::SetVlanVid),
        any::<u8>().prop_map(Action::SetVlanPcp),
        any::<u16>().prop_map(Action::SetTpSrc),
        any::<u16>().prop_map(Action::SetTpDst),
    ]
    .boxed()
}

fn action13() -> BoxedStrategy<Action> {
    prop_oneof![
        exact().prop_map(Action::SetField),
        any::<u32>().prop_map(Action::Group),
        any::<u32>().prop_map(Action::SetQueue),
        any::<u16>().prop_map(Action::PushVlan),
        any::<u16>().prop_map(Action::PushMpls),
        any::<u16>().prop_map(Action::PopMpls),
        any::<u16>().prop_map(Action::PushPbb),
        any::<u8>().prop_map(Action::SetMplsTtl),
        any::<u8>().prop_map(Action::SetNwTtl),
        select(vec![Action::PopPbb, Action::DecMplsTtl, Action::DecNwTtl, Action::CopyTtlOut, Action::CopyTtlIn,]),
    ]
    .boxed()
}

/// Generates any instructions of `version`; in 1.0 none, or one apply-actions that is not empty.
pub fn instructions(version: Version) -> BoxedStrategy<Vec<Instruction>> {
    match version {
        Version::Of10 => prop_oneof![
            Just(vec![]),
            vec(action(version), 1..5).prop_map(|actions| vec![Instruction::ApplyActions(actions)]),
        ]
        .boxed(),
        Version::Of13 => vec(instruction(), 0..4).boxed(),
    }
}

fn instruction() -> BoxedStrategy<Instruction> {
    let actions = || vec(action(Version::Of13), 0..4);
    prop_oneof![
        any::<u8>().prop_map(Instruction::GotoTable),
        (any::<u64>(), any::<u64>()).prop_map(|(metadata, mask)| Instruction::WriteMetadata { metadata, mask }),
        actions().prop_map(Instruction::WriteActions),
        actions().prop_map(Instruction::ApplyActions),
        Just(Instruction::ClearActions),
        any::<u32>().prop_map(Instruction::Meter),
        (any::<u32>(), aligned(8)).prop_map(|(id, body)| Instruction::Experimenter { id, body }),
        (100u16..0xffff, aligned(4)).prop_map(|(kind, body)| Instruction::Unknown { kind, body }),
    ]
    .boxed()
}

pub(super) fn bucket() -> impl Strategy<Value = Bucket> {
    (any::<u16>(), any::<u32>(), any::<u32>(), vec(action(Version::Of13), 0..4)).prop_map(
        |(weight, watch_port, watch_group, actions)| Bucket {
            weight,
            watch_port: PortNo(watch_port),
            watch_group,
            actions,
        },
    )
}

pub(super) fn band() -> impl Strategy<Value = Band> {
    let kind = prop_oneof![
        Just(BandKind::Drop),
        any::<u8>().prop_map(BandKind::DscpRemark),
        (any::<u32>(), bytes(12)).prop_map(|(id, body)| BandKind::Experimenter { id, body }),
    ];
    (any::<u32>(), any::<u32>(), kind).prop_map(|(rate, burst, kind)| Band { rate, burst, kind })
}
