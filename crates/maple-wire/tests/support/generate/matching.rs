//! Random matches and their fields.

use maple_wire::Field;
use maple_wire::flow::{Constraint, Match, MatchField};
use maple_wire::msg::*;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::{bytes, port_no};

/// Generates any match that `version` can express; in 1.0 in canonical order, as it is read.
pub fn matching(version: Version) -> BoxedStrategy<Match> {
    match version {
        Version::Of10 => matching10(),
        Version::Of13 => vec(match_field(), 0..6).prop_map(|fields| Match { fields }).boxed(),
    }
}

fn match_field() -> impl Strategy<Value = MatchField> {
    let experimenter =
        (prop_oneof![0u32..0x8000, Just(0xffff)], any::<u8>(), bytes(20)).prop_map(|(class, field, body)| {
            MatchField::Unknown { header: class << 16 | u32::from(field) << 8 | body.len() as u32, body }
        });
    prop_oneof![
        4 => exact().prop_map(MatchField::Known),
        2 => (any_field(), any::<u128>(), any::<u128>())
            .prop_map(|(field, value, mask)| MatchField::Known(Constraint::masked(field, value, mask))),
        1 => experimenter,
    ]
}

fn any_field() -> impl Strategy<Value = Field> {
    select(Field::ALL.to_vec())
}

pub(super) fn exact() -> impl Strategy<Value = Constraint> {
    (any_field(), any::<u128>()).prop_map(|(field, value)| Constraint::exact(field, value))
}

fn matching10() -> BoxedStrategy<Match> {
    let layer2 = vec(exact_of(&[Field::EthSrc, Field::EthDst]), 0..3);
    let in_port = proptest::option::of(port_no(Version::Of10));
    let vlan = prop_oneof![
        Just(vec![]),
        Just(vec![Constraint::exact(Field::VlanVid, 0)]),
        (0u128..4096).prop_map(|vid| vec![Constraint::exact(Field::VlanVid, 0x1000 | vid)]),
        exact_of(&[Field::VlanPcp]).prop_map(|pcp| vec![pcp]),
        (0u128..4096, 0u128..8).prop_map(|(v, p)| vec![
            Constraint::exact(Field::VlanVid, 0x1000 | v),
            Constraint::exact(Field::VlanPcp, p)
        ]),
    ];
    (layer2, in_port, vlan, upper10())
        .prop_map(|(layer2, in_port, vlan, upper)| {
            let in_port = in_port.map(|port| Constraint::exact(Field::InPort, port.0.into()));
            Match::from_constraints(layer2.into_iter().chain(in_port).chain(vlan).chain(upper))
        })
        .boxed()
}

/// Generates the conditions above Ethernet that a 1.0 match can express, with their prerequisites.
fn upper10() -> BoxedStrategy<Vec<Constraint>> {
    use Field::*;
    let extended = |base: Vec<Constraint>, more: BoxedStrategy<Vec<Constraint>>| {
        more.prop_map(move |more| base.iter().copied().chain(more).collect()).boxed()
    };
    let ip = || Constraint::exact(EthType, 0x800);
    let arp = prop_oneof![prefix(&[ArpSpa, ArpTpa]), (0u128..256).prop_map(|op| Constraint::exact(ArpOp, op)),];
    let ports = |proto: u128, fields: [Field; 2]| {
        let base = vec![ip(), Constraint::exact(IpProto, proto)];
        extended(base, vec(exact_of(&fields), 0..3).boxed())
    };
    prop_oneof![
        Just(vec![]),
        exact_of(&[EthType]).prop_map(|eth_type| vec![eth_type]),
        extended(vec![Constraint::exact(EthType, 0x806)], vec(arp, 0..4).boxed()),
        extended(vec![ip()], vec(prop_oneof![prefix(&[Ipv4Src, Ipv4Dst]), exact_of(&[IpDscp, IpProto])], 0..5).boxed()),
        ports(1, [Icmpv4Type, Icmpv4Code]),
        ports(6, [TcpSrc, TcpDst]),
        ports(17, [UdpSrc, UdpDst]),
        ports(132, [SctpSrc, SctpDst]),
    ]
    .boxed()
}

pub(super) fn exact_of(fields: &[Field]) -> BoxedStrategy<Constraint> {
    (select(fields.to_vec()), any::<u128>()).prop_map(|(field, value)| Constraint::exact(field, value)).boxed()
}

fn prefix(fields: &[Field]) -> BoxedStrategy<Constraint> {
    (select(fields.to_vec()), any::<u128>(), 0u32..32)
        .prop_map(|(field, value, wild)| Constraint::masked(field, value, u128::MAX << wild))
        .boxed()
}
