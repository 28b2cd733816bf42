//! Generated messages, printed by this crate and by Open vSwitch.
//!
//! Only messages that Open vSwitch accepts are generated: fields with their prerequisites, and actions that fit the
//! match.

use maple_wire::flow::{Action, Constraint, Instruction, Match};
use maple_wire::msg::{FlowMod, FlowModCommand, FlowRemoved, NO_BUFFER, PacketIn, PacketInReason, PacketOut};
use maple_wire::{Field, Message, PortNo, Version, print};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::oracle;

/// Both versions, which express a rule in different words.
const VERSIONS: [Version; 2] = [Version::Of10, Version::Of13];

/// A kind of packets: the values that its packets have, and their further fields.
type Kind = (&'static [(Field, u128)], &'static [Field]);

const KINDS_OF13: [Kind; 10] = [
    (&[], &[]),
    (&[(Field::EthType, 0x88cc)], &[]),
    (&[(Field::EthType, 0x0806)], &[Field::ArpOp, Field::ArpSpa, Field::ArpTpa, Field::ArpSha, Field::ArpTha]),
    (&[(Field::EthType, 0x0800)], &[Field::Ipv4Src, Field::Ipv4Dst, Field::IpDscp, Field::IpEcn]),
    (&[(Field::EthType, 0x0800), (Field::IpProto, 6)], &[Field::Ipv4Src, Field::TcpSrc, Field::TcpDst]),
    (&[(Field::EthType, 0x0800), (Field::IpProto, 1)], &[Field::Ipv4Dst, Field::Icmpv4Type, Field::Icmpv4Code]),
    (&[(Field::EthType, 0x86dd)], &[Field::Ipv6Src, Field::Ipv6Dst, Field::Ipv6Flabel, Field::IpEcn]),
    (&[(Field::EthType, 0x86dd), (Field::IpProto, 17)], &[Field::Ipv6Dst, Field::UdpSrc, Field::UdpDst]),
    (
        &[(Field::EthType, 0x86dd), (Field::IpProto, 58), (Field::Icmpv6Type, 135)],
        &[Field::Ipv6Src, Field::Ipv6NdTarget, Field::Ipv6NdSll],
    ),
    (&[(Field::EthType, 0x8847)], &[Field::MplsLabel, Field::MplsTc, Field::MplsBos]),
];

const KINDS_OF10: [Kind; 5] = [
    (&[], &[]),
    (&[(Field::EthType, 0x0806)], &[Field::ArpOp, Field::ArpSpa, Field::ArpTpa]),
    (&[(Field::EthType, 0x0800)], &[Field::Ipv4Src, Field::Ipv4Dst, Field::IpDscp]),
    (&[(Field::EthType, 0x0800), (Field::IpProto, 17)], &[Field::Ipv4Src, Field::UdpSrc, Field::UdpDst]),
    (&[(Field::EthType, 0x0800), (Field::IpProto, 1)], &[Field::Icmpv4Type, Field::Icmpv4Code]),
];

fn port() -> impl Strategy<Value = PortNo> {
    prop_oneof![
        3 => (1..0xff00_u32).prop_map(PortNo),
        1 => select(vec![PortNo::IN_PORT, PortNo::FLOOD, PortNo::ALL, PortNo::LOCAL, PortNo::NORMAL]),
    ]
}

/// Generates a constraint on `field`, masked only if the version can express that.
fn constraint(version: Version, field: Field) -> BoxedStrategy<Constraint> {
    let exact = any::<u128>().prop_map(move |value| Constraint::exact(field, value));
    let prefix = (any::<u128>(), 1..=field.bits()).prop_map(move |(value, length)| {
        Constraint::masked(field, value, field.full_mask() & !(field.full_mask().checked_shr(length).unwrap_or(0)))
    });
    let masked = (any::<u128>(), any::<u128>())
        .prop_filter("a mask has bits", move |(_, mask)| mask & field.full_mask() != 0)
        .prop_map(move |(value, mask)| Constraint::masked(field, value, mask));
    let is_address = matches!(field, Field::Ipv4Src | Field::Ipv4Dst | Field::ArpSpa | Field::ArpTpa);
    match (version, field) {
        (_, Field::ArpOp) => (0..256_u128).prop_map(move |value| Constraint::exact(field, value)).boxed(),
        (_, Field::InPort) => (1..0xff00_u128).prop_map(move |value| Constraint::exact(field, value)).boxed(),
        (Version::Of10, _) if is_address => prop_oneof![exact, prefix].boxed(),
        (Version::Of13, _) if field.is_maskable() => prop_oneof![2 => exact, 1 => prefix, 1 => masked].boxed(),
        _ => exact.boxed(),
    }
}

fn matching(version: Version, kind: Kind) -> impl Strategy<Value = Match> {
    let mut fields = vec![Field::InPort, Field::EthSrc, Field::EthDst];
    if version == Version::Of13 {
        fields.extend([Field::Metadata, Field::TunnelId]);
    }
    fields.extend(kind.1);
    let vlan = prop_oneof![
        2 => Just(vec![]),
        1 => Just(vec![Constraint::exact(Field::VlanVid, 0)]),
        1 => (0..4096_u128).prop_map(|vid| vec![Constraint::exact(Field::VlanVid, 0x1000 | vid)]),
        1 => (0..4096_u128, 0..8_u128).prop_map(|(vid, pcp)| {
            vec![Constraint::exact(Field::VlanVid, 0x1000 | vid), Constraint::exact(Field::VlanPcp, pcp)]
        }),
    ];
    let chosen = subsequence(fields.clone(), 0..=fields.len());
    let constraints = chosen.prop_flat_map(move |f| f.into_iter().map(|f| constraint(version, f)).collect::<Vec<_>>());
    (constraints, vlan).prop_map(move |(constraints, vlan)| {
        let kind = kind.0.iter().map(|(field, value)| Constraint::exact(*field, *value));
        Match::from_constraints(kind.chain(constraints).chain(vlan))
    })
}

fn action(version: Version) -> impl Strategy<Value = Action> {
    let set = |field| any::<u128>().prop_map(move |value| Action::SetField(Constraint::exact(field, value)));
    let both = prop_oneof![
        port().prop_map(Action::output),
        any::<u16>().prop_map(|max_len| Action::Output { port: PortNo::CONTROLLER, max_len }),
        set(Field::EthSrc),
        set(Field::EthDst),
    ];
    match version {
        Version::Of10 => prop_oneof![
            2 => both,
            1 => Just(Action::PopVlan),
            1 => (0..4096_u16).prop_map(Action::SetVlanVid),
            1 => (0..8_u8).prop_map(Action::SetVlanPcp),
            1 => (1..0xff00_u32, any::<u32>()).prop_map(|(p, queue)| Action::Enqueue { port: PortNo(p), queue }),
        ]
        .boxed(),
        Version::Of13 => prop_oneof![
            3 => both,
            1 => set(Field::Metadata),
            1 => set(Field::TunnelId),
            1 => (0..0xffff_ff00_u32).prop_map(Action::Group),
            1 => any::<u32>().prop_map(Action::SetQueue),
            1 => select(vec![Action::PushVlan(0x8100), Action::PushVlan(0x88a8)]),
        ]
        .boxed(),
    }
}

fn instructions(version: Version) -> impl Strategy<Value = Vec<Instruction>> {
    let apply = || vec(action(version), 1..5).prop_map(Instruction::ApplyActions);
    if version == Version::Of10 {
        return vec(apply(), 0..=1).boxed();
    }
    let all = (
        proptest::option::of((1..1000_u32).prop_map(Instruction::Meter)),
        proptest::option::of(apply()),
        proptest::option::of(Just(Instruction::ClearActions)),
        proptest::option::of(vec(action(version), 0..4).prop_map(Instruction::WriteActions)),
        proptest::option::of(any::<(u64, u64)>()),
        proptest::option::of((101..254_u8).prop_map(Instruction::GotoTable)),
    );
    all.prop_map(|(meter, apply, clear, write, metadata, goto)| {
        let metadata = metadata.map(|(bits, mask)| Instruction::WriteMetadata { metadata: bits & mask, mask });
        [meter, apply, clear, write, metadata, goto].into_iter().flatten().collect()
    })
    .boxed()
}

fn rule() -> impl Strategy<Value = (Version, Match, Vec<Instruction>)> {
    select(VERSIONS.to_vec()).prop_flat_map(|version| {
        let kinds: &[Kind] = if version == Version::Of10 { &KINDS_OF10 } else { &KINDS_OF13 };
        let matching = select(kinds.to_vec()).prop_flat_map(move |kind| matching(version, kind));
        (Just(version), matching, instructions(version))
    })
}

fn flow_mod() -> impl Strategy<Value = (Version, FlowMod)> {
    let commands = vec![
        FlowModCommand::Add,
        FlowModCommand::Modify,
        FlowModCommand::ModifyStrict,
        FlowModCommand::Delete,
        FlowModCommand::DeleteStrict,
    ];
    let numbers =
        (prop_oneof![Just(0), any::<u64>()], any::<u64>(), 0..=100_u8, prop_oneof![Just(0x8000), any::<u16>()]);
    let options = (any::<[bool; 3]>(), any::<u16>(), 0..4_u16, prop_oneof![Just(NO_BUFFER), any::<u32>()]);
    let out_port = prop_oneof![Just(PortNo::ANY), port()];
    (rule(), select(commands), numbers, options, out_port).prop_map(
        |((version, matching, instructions), command, n, o, p)| {
            let of13 = version == Version::Of13;
            let mut flow_mod = FlowMod::new(command, n.3, matching, instructions);
            flow_mod.cookie = n.0;
            flow_mod.cookie_mask = if of13 && command != FlowModCommand::Add { n.1 } else { 0 };
            flow_mod.table_id = if of13 { n.2 } else { 0 };
            flow_mod.idle_timeout = if o.0[0] { o.1 } else { 0 };
            flow_mod.hard_timeout = if o.0[1] { o.1 } else { 0 };
            flow_mod.flags = o.2;
            flow_mod.buffer_id = o.3;
            flow_mod.out_port = p;
            (version, flow_mod)
        },
    )
}

/// Compares both texts of the message. Open vSwitch may refuse some messages (a third VLAN tag); too many refusals fail
/// the test.
fn check(version: Version, message: &Message) -> Result<(), TestCaseError> {
    let bytes = message.to_bytes(version, 0x1234).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let (header, decoded) = Message::decode(&bytes).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let should = oracle::text(&bytes);
    prop_assume!(!oracle::refuses(&should));
    prop_assert_eq!(print::message(&header, &decoded), should);
    Ok(())
}

/// Generates a frame that is well-formed or not: headers of some kind, with bytes after them.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    const STARTS: [&[u8]; 9] = [
        &[0x08, 0x00, 0x45, 0, 0, 40, 0, 1, 0, 0, 64, 6, 0, 0],
        &[0x08, 0x00, 0x45, 0, 0, 28, 0, 1, 0x20, 0, 64, 17, 0, 0],
        &[0x08, 0x00, 0x45, 0, 0, 32, 0, 1, 0, 0, 64, 1, 0, 0],
        &[0x81, 0x00, 0x60, 0x05, 0x08, 0x00, 0x45, 0, 0, 32, 0, 1, 0, 0, 64, 132, 0, 0],
        &[0x88, 0xa8, 0x60, 0x05, 0x81, 0x00, 0x00, 0x07, 0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 2],
        &[0x86, 0xdd, 0x60, 0, 0, 5, 0, 20, 6, 64],
        &[0x86, 0xdd, 0x60, 0, 0, 5, 0, 32, 58, 255],
        &[0x88, 0x47],
        &[0x88, 0xcc],
    ];
    let rest = vec(any::<u8>(), 0..90);
    (any::<[u8; 12]>(), select(STARTS.to_vec()), rest)
        .prop_map(|(addresses, start, rest)| [&addresses[..], start, &rest].concat())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        max_global_rejects: 30,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn flow_mods_are_printed_as_open_vswitch_prints_them((version, flow_mod) in flow_mod()) {
        if oracle::is_there() {
            check(version, &Message::FlowMod(flow_mod))?;
        }
    }

    #[test]
    fn packets_are_printed_as_open_vswitch_prints_them(frame in frame(), is_in in any::<bool>(), port in 1..0xff00_u32) {
        if !oracle::is_there() {
            return Ok(());
        }
        let data = frame;
        let total_len = data.len() as u16;
        let pipeline = Match::any().exact(Field::InPort, port.into());
        let (buffer_id, reason) = (NO_BUFFER, PacketInReason::NoMatch);
        let message = if is_in {
            Message::PacketIn(PacketIn { buffer_id, total_len, reason, table_id: 3, cookie: 7, pipeline, data })
        } else {
            Message::PacketOut(PacketOut { buffer_id, in_port: PortNo(port), actions: vec![Action::to_controller()], data })
        };
        check(Version::Of13, &message)?;
    }

    #[test]
    fn flow_removed_messages_are_printed_as_open_vswitch_prints_them(
        (version, matching, _) in rule(),
        (cookie, packet_count, byte_count) in any::<(u64, u64, u64)>(),
        (priority, reason, duration_sec, duration_nsec) in (any::<u16>(), 0..3_u8, any::<u32>(), 0..1_000_000_000_u32),
    ) {
        if oracle::is_there() {
            let (table_id, idle_timeout, hard_timeout) = (0, priority / 2, 0);
            let removed = FlowRemoved {
                cookie, priority, reason, table_id, duration_sec, duration_nsec, idle_timeout, hard_timeout,
                packet_count, byte_count, matching,
            };
            check(version, &Message::FlowRemoved(removed))?;
        }
    }
}
