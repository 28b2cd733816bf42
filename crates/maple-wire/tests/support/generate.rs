//! Random messages of each version: everything that the version can say, and nothing that it can't.

use maple_wire::flow::{Action, Constraint, Instruction, Match, MatchField};
use maple_wire::msg::stats::*;
use maple_wire::msg::*;
use maple_wire::{Dpid, Field, Port, PortNo};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Any message that `version` has.
pub fn message(version: Version) -> BoxedStrategy<Message> {
    let common = common_message(version);
    match version {
        Version::Of10 => common,
        Version::Of13 => prop_oneof![3 => common, 1 => message13()].boxed(),
    }
}

fn common_message(version: Version) -> BoxedStrategy<Message> {
    prop_oneof![
        hello().prop_map(Message::Hello),
        (any::<u16>(), any::<u16>(), bytes(80)).prop_map(|(kind, code, data)| Message::Error(ErrorMsg {
            kind,
            code,
            data
        })),
        bytes(20).prop_map(Message::EchoRequest),
        bytes(20).prop_map(Message::EchoReply),
        (any::<u32>(), vec(any::<u8>(), 4..30)).prop_map(|(id, body)| Message::Experimenter(Experimenter { id, body })),
        select(vec![
            Message::FeaturesRequest,
            Message::GetConfigRequest,
            Message::BarrierRequest,
            Message::BarrierReply,
        ]),
        features(version).prop_map(Message::FeaturesReply),
        config().prop_map(Message::GetConfigReply),
        config().prop_map(Message::SetConfig),
        packet_in(version).prop_map(Message::PacketIn),
        flow_removed(version).prop_map(Message::FlowRemoved),
        port_status(version).prop_map(Message::PortStatus),
        packet_out(version).prop_map(Message::PacketOut),
        flow_mod(version).prop_map(Message::FlowMod),
        port_mod(version).prop_map(Message::PortMod),
        (any::<u16>(), request(version)).prop_map(|(flags, body)| Message::StatsRequest(StatsRequest { flags, body })),
        (any::<u16>(), reply(version)).prop_map(|(flags, body)| Message::StatsReply(StatsReply { flags, body })),
        port_no(version).prop_map(Message::QueueGetConfigRequest),
        queue_config(version).prop_map(Message::QueueGetConfigReply),
        (30u8.., bytes(20)).prop_map(|(kind, body)| Message::Unknown { kind, body }),
    ]
    .boxed()
}

fn message13() -> BoxedStrategy<Message> {
    let role = || (any::<u32>(), any::<u64>()).prop_map(|(role, generation_id)| Role { role, generation_id });
    let asynchronous = || {
        any::<[[u32; 2]; 3]>().prop_map(|[packet_in, port_status, flow_removed]| AsyncConfig {
            packet_in,
            port_status,
            flow_removed,
        })
    };
    prop_oneof![
        (any::<u16>(), any::<u8>(), any::<u32>(), vec(bucket(), 0..4)).prop_map(|(command, kind, group, buckets)| {
            Message::GroupMod(GroupMod { command, kind, group, buckets })
        }),
        (any::<u8>(), any::<u32>()).prop_map(|(table_id, config)| Message::TableMod(TableMod { table_id, config })),
        role().prop_map(Message::RoleRequest),
        role().prop_map(Message::RoleReply),
        Just(Message::GetAsyncRequest),
        asynchronous().prop_map(Message::GetAsyncReply),
        asynchronous().prop_map(Message::SetAsync),
        (any::<u16>(), any::<u16>(), any::<u32>(), vec(band(), 0..4))
            .prop_map(|(command, flags, meter, bands)| Message::MeterMod(MeterMod { command, flags, meter, bands })),
    ]
    .boxed()
}

fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..max)
}

/// Bytes that together with `before` others make a multiple of 8.
fn aligned(before: usize) -> impl Strategy<Value = Vec<u8>> {
    (0usize..4).prop_flat_map(move |n| vec(any::<u8>(), 8 * n + (8 - before % 8) % 8))
}

fn text(max: usize) -> impl Strategy<Value = Text> {
    vec(1u8.., 0..=max).prop_map(Text)
}

fn hello() -> impl Strategy<Value = Hello> {
    let element = prop_oneof![
        vec(any::<u32>(), 0..4).prop_map(HelloElement::VersionBitmap),
        (2u16.., bytes(12)).prop_map(|(kind, body)| HelloElement::Unknown { kind, body }),
    ];
    (any::<u8>(), vec(element, 0..4)).prop_map(|(version, elements)| Hello { version, elements })
}

fn port_no(version: Version) -> BoxedStrategy<PortNo> {
    match version {
        Version::Of10 => any::<u16>().prop_map(PortNo::from_of10).boxed(),
        Version::Of13 => prop_oneof![any::<u32>().prop_map(PortNo), (0u32..50).prop_map(PortNo)].boxed(),
    }
}

fn port(version: Version) -> impl Strategy<Value = Port> {
    (port_no(version), any::<[u8; 6]>(), any::<[u8; 16]>(), any::<[u32; 8]>()).prop_map(
        move |(number, hw_addr, name_raw, words)| Port {
            number,
            hw_addr,
            name_raw,
            config: words[0],
            state: words[1],
            curr: words[2],
            advertised: words[3],
            supported: words[4],
            peer: words[5],
            curr_speed: if version == Version::Of13 { words[6] } else { 0 },
            max_speed: if version == Version::Of13 { words[7] } else { 0 },
        },
    )
}

fn features(version: Version) -> impl Strategy<Value = Features> {
    let of13 = version == Version::Of13;
    let ports = vec(port(version), if of13 { 0..1 } else { 0..4 });
    (any::<u64>(), any::<u32>(), any::<[u8; 2]>(), any::<[u32; 2]>(), ports).prop_map(
        move |(dpid, n_buffers, [n_tables, auxiliary_id], [capabilities, actions], ports)| Features {
            dpid: Dpid(dpid),
            n_buffers,
            n_tables,
            auxiliary_id: if of13 { auxiliary_id } else { 0 },
            capabilities,
            actions,
            ports,
        },
    )
}

fn config() -> impl Strategy<Value = SwitchConfig> {
    (any::<u16>(), any::<u16>()).prop_map(|(flags, miss_send_len)| SwitchConfig { flags, miss_send_len })
}

fn packet_in(version: Version) -> BoxedStrategy<PacketIn> {
    let of13 = version == Version::Of13;
    let pipeline = if of13 {
        matching(version)
    } else {
        port_no(version).prop_map(|port| Match::any().exact(Field::InPort, port.0.into())).boxed()
    };
    (any::<u32>(), any::<u16>(), any::<u8>(), any::<u8>(), any::<u64>(), pipeline, bytes(70))
        .prop_map(move |(buffer_id, total_len, reason, table_id, cookie, pipeline, data)| PacketIn {
            buffer_id,
            total_len,
            reason: PacketInReason::from_wire(reason),
            table_id: if of13 { table_id } else { 0 },
            cookie: if of13 { cookie } else { u64::MAX },
            pipeline,
            data,
        })
        .boxed()
}

fn flow_removed(version: Version) -> impl Strategy<Value = FlowRemoved> {
    let of13 = version == Version::Of13;
    (any::<[u64; 3]>(), any::<[u16; 3]>(), any::<[u8; 2]>(), any::<[u32; 2]>(), matching(version)).prop_map(
        move |(longs, shorts, [reason, table_id], [duration_sec, duration_nsec], matching)| FlowRemoved {
            cookie: longs[0],
            priority: shorts[0],
            reason,
            table_id: if of13 { table_id } else { 0 },
            duration_sec,
            duration_nsec,
            idle_timeout: shorts[1],
            hard_timeout: if of13 { shorts[2] } else { 0 },
            packet_count: longs[1],
            byte_count: longs[2],
            matching,
        },
    )
}

fn port_status(version: Version) -> impl Strategy<Value = PortStatus> {
    (any::<u8>(), port(version)).prop_map(|(reason, port)| PortStatus { reason: PortReason::from_wire(reason), port })
}

fn packet_out(version: Version) -> impl Strategy<Value = PacketOut> {
    (any::<u32>(), port_no(version), vec(action(version), 0..5), bytes(70))
        .prop_map(|(buffer_id, in_port, actions, data)| PacketOut { buffer_id, in_port, actions, data })
}

fn flow_mod(version: Version) -> impl Strategy<Value = FlowMod> {
    let of13 = version == Version::Of13;
    let numbers = (any::<[u64; 2]>(), any::<[u16; 4]>(), any::<[u32; 2]>(), any::<u8>(), 0u16..5);
    (numbers, port_no(version), matching(version), instructions(version)).prop_map(
        move |((longs, shorts, words, table_id, command), out_port, matching, instructions)| FlowMod {
            cookie: longs[0],
            cookie_mask: if of13 { longs[1] } else { 0 },
            table_id: if of13 { table_id } else { 0 },
            command: FlowModCommand::from_wire(command).expect("0 to 4 are commands"),
            idle_timeout: shorts[0],
            hard_timeout: shorts[1],
            priority: shorts[2],
            buffer_id: words[0],
            out_port,
            out_group: if of13 { words[1] } else { u32::MAX },
            flags: shorts[3],
            matching,
            instructions,
        },
    )
}

fn port_mod(version: Version) -> impl Strategy<Value = PortMod> {
    (port_no(version), any::<[u8; 6]>(), any::<[u32; 3]>())
        .prop_map(|(port, hw_addr, [config, mask, advertise])| PortMod { port, hw_addr, config, mask, advertise })
}

fn queue_config(version: Version) -> impl Strategy<Value = QueueConfig> {
    let property = prop_oneof![
        any::<u16>().prop_map(QueueProperty::MinRate),
        any::<u16>().prop_map(QueueProperty::MaxRate),
        (3u16.., vec(any::<u8>(), 4..20)).prop_map(|(kind, body)| QueueProperty::Unknown { kind, body }),
    ];
    let queue = (any::<u32>(), port_no(version), vec(property, 0..4));
    (port_no(version), vec(queue, 0..4)).prop_map(move |(port, queues)| {
        let of_port = |own| if version == Version::Of10 { port } else { own };
        let queues = queues.into_iter().map(|(id, own, properties)| QueueDesc { id, port: of_port(own), properties });
        QueueConfig { port, queues: queues.collect() }
    })
}

/// Any match that `version` can say; in 1.0 in canonical order, as it is read.
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

fn exact() -> impl Strategy<Value = Constraint> {
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

/// What a 1.0 match can say above Ethernet, with its prerequisites.
fn upper10() -> BoxedStrategy<Vec<Constraint>> {
    use Field::*;
    let with = |base: Vec<Constraint>, more: BoxedStrategy<Vec<Constraint>>| {
        more.prop_map(move |more| base.iter().copied().chain(more).collect()).boxed()
    };
    let ip = || Constraint::exact(EthType, 0x800);
    let arp = prop_oneof![prefix(&[ArpSpa, ArpTpa]), (0u128..256).prop_map(|op| Constraint::exact(ArpOp, op)),];
    let ports = |proto: u128, fields: [Field; 2]| {
        let base = vec![ip(), Constraint::exact(IpProto, proto)];
        with(base, vec(exact_of(&fields), 0..3).boxed())
    };
    prop_oneof![
        Just(vec![]),
        exact_of(&[EthType]).prop_map(|eth_type| vec![eth_type]),
        with(vec![Constraint::exact(EthType, 0x806)], vec(arp, 0..4).boxed()),
        with(vec![ip()], vec(prop_oneof![prefix(&[Ipv4Src, Ipv4Dst]), exact_of(&[IpDscp, IpProto])], 0..5).boxed()),
        ports(1, [Icmpv4Type, Icmpv4Code]),
        ports(6, [TcpSrc, TcpDst]),
        ports(17, [UdpSrc, UdpDst]),
        ports(132, [SctpSrc, SctpDst]),
    ]
    .boxed()
}

fn exact_of(fields: &[Field]) -> BoxedStrategy<Constraint> {
    (select(fields.to_vec()), any::<u128>()).prop_map(|(field, value)| Constraint::exact(field, value)).boxed()
}

fn prefix(fields: &[Field]) -> BoxedStrategy<Constraint> {
    (select(fields.to_vec()), any::<u128>(), 0u32..32)
        .prop_map(|(field, value, wild)| Constraint::masked(field, value, u128::MAX << wild))
        .boxed()
}

/// Any action of `version`.
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

/// Any instructions of `version`; in 1.0 none, or one apply-actions that is not empty.
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

fn bucket() -> impl Strategy<Value = Bucket> {
    (any::<u16>(), any::<u32>(), any::<u32>(), vec(action(Version::Of13), 0..4)).prop_map(
        |(weight, watch_port, watch_group, actions)| Bucket {
            weight,
            watch_port: PortNo(watch_port),
            watch_group,
            actions,
        },
    )
}

fn band() -> impl Strategy<Value = Band> {
    let kind = prop_oneof![
        Just(BandKind::Drop),
        any::<u8>().prop_map(BandKind::DscpRemark),
        (any::<u32>(), bytes(12)).prop_map(|(id, body)| BandKind::Experimenter { id, body }),
    ];
    (any::<u32>(), any::<u32>(), kind).prop_map(|(rate, burst, kind)| Band { rate, burst, kind })
}

fn flow_request(version: Version) -> impl Strategy<Value = FlowStatsRequest> {
    let of13 = version == Version::Of13;
    (any::<u8>(), port_no(version), any::<u32>(), any::<[u64; 2]>(), matching(version)).prop_map(
        move |(table_id, out_port, out_group, [cookie, cookie_mask], matching)| FlowStatsRequest {
            table_id,
            out_port,
            out_group: if of13 { out_group } else { u32::MAX },
            cookie: if of13 { cookie } else { 0 },
            cookie_mask: if of13 { cookie_mask } else { 0 },
            matching,
        },
    )
}

fn request(version: Version) -> BoxedStrategy<RequestBody> {
    let queue = (port_no(version), any::<u32>()).prop_map(|(port, queue)| QueueStatsRequest { port, queue });
    let common = prop_oneof![
        Just(RequestBody::Desc),
        flow_request(version).prop_map(RequestBody::Flow),
        flow_request(version).prop_map(RequestBody::Aggregate),
        Just(RequestBody::Table),
        port_no(version).prop_map(RequestBody::Port),
        queue.prop_map(RequestBody::Queue),
        (any::<u32>(), vec(any::<u8>(), 4..20)).prop_map(|(id, body)| RequestBody::Experimenter { id, body }),
        (14u16..0xffff, bytes(20)).prop_map(|(kind, body)| RequestBody::Unknown { kind, body }),
    ];
    let of13 = prop_oneof![
        select(vec![
            RequestBody::GroupDesc,
            RequestBody::GroupFeatures,
            RequestBody::MeterFeatures,
            RequestBody::PortDesc,
        ]),
        any::<u32>().prop_map(RequestBody::Group),
        any::<u32>().prop_map(RequestBody::Meter),
        any::<u32>().prop_map(RequestBody::MeterConfig),
        vec(table_features(), 0..3).prop_map(RequestBody::TableFeatures),
    ];
    if version == Version::Of10 { common.boxed() } else { prop_oneof![common, of13].boxed() }
}

fn reply(version: Version) -> BoxedStrategy<ReplyBody> {
    let desc = (text(256), text(256), text(256), text(32), text(256)).prop_map(
        |(manufacturer, hardware, software, serial, datapath)| Desc {
            manufacturer,
            hardware,
            software,
            serial,
            datapath,
        },
    );
    let aggregate = (any::<u64>(), any::<u64>(), any::<u32>())
        .prop_map(|(packet_count, byte_count, flow_count)| AggregateStats { packet_count, byte_count, flow_count });
    let common = prop_oneof![
        desc.prop_map(ReplyBody::Desc),
        vec(flow_stats(version), 0..4).prop_map(ReplyBody::Flow),
        aggregate.prop_map(ReplyBody::Aggregate),
        vec(table_stats(version), 0..4).prop_map(ReplyBody::Table),
        vec(port_stats(version), 0..4).prop_map(ReplyBody::Port),
        vec(queue_stats(version), 0..4).prop_map(ReplyBody::Queue),
        (any::<u32>(), vec(any::<u8>(), 4..20)).prop_map(|(id, body)| ReplyBody::Experimenter { id, body }),
        (14u16..0xffff, bytes(20)).prop_map(|(kind, body)| ReplyBody::Unknown { kind, body }),
    ];
    if version == Version::Of10 { common.boxed() } else { prop_oneof![common, reply13()].boxed() }
}

fn reply13() -> BoxedStrategy<ReplyBody> {
    let group_desc = (any::<u8>(), any::<u32>(), vec(bucket(), 0..3)).prop_map(|(kind, group, buckets)| GroupDesc {
        kind,
        group,
        buckets,
    });
    let group_features =
        (any::<[u32; 2]>(), any::<[[u32; 4]; 2]>()).prop_map(|([types, capabilities], [max_groups, actions])| {
            GroupFeatures { types, capabilities, max_groups, actions }
        });
    let meter_config = (any::<u16>(), any::<u32>(), vec(band(), 0..3)).prop_map(|(flags, meter, bands)| MeterConfig {
        flags,
        meter,
        bands,
    });
    let meter_features = (any::<[u32; 3]>(), any::<[u8; 2]>()).prop_map(
        |([max_meter, band_types, capabilities], [max_bands, max_color])| MeterFeatures {
            max_meter,
            band_types,
            capabilities,
            max_bands,
            max_color,
        },
    );
    prop_oneof![
        vec(group_stats(), 0..3).prop_map(ReplyBody::Group),
        vec(group_desc, 0..3).prop_map(ReplyBody::GroupDesc),
        group_features.prop_map(ReplyBody::GroupFeatures),
        vec(meter_stats(), 0..3).prop_map(ReplyBody::Meter),
        vec(meter_config, 0..3).prop_map(ReplyBody::MeterConfig),
        meter_features.prop_map(ReplyBody::MeterFeatures),
        vec(table_features(), 0..3).prop_map(ReplyBody::TableFeatures),
        vec(port(Version::Of13), 0..3).prop_map(ReplyBody::PortDesc),
    ]
    .boxed()
}

fn flow_stats(version: Version) -> impl Strategy<Value = FlowStats> {
    let numbers = (any::<u8>(), any::<[u32; 2]>(), any::<[u16; 4]>(), any::<[u64; 3]>());
    (numbers, matching(version), instructions(version)).prop_map(
        move |((table_id, [duration_sec, duration_nsec], shorts, longs), matching, instructions)| FlowStats {
            table_id,
            duration_sec,
            duration_nsec,
            priority: shorts[0],
            idle_timeout: shorts[1],
            hard_timeout: shorts[2],
            flags: if version == Version::Of13 { shorts[3] } else { 0 },
            cookie: longs[0],
            packet_count: longs[1],
            byte_count: longs[2],
            matching,
            instructions,
        },
    )
}

fn table_stats(version: Version) -> impl Strategy<Value = TableStats> {
    let of10 = version == Version::Of10;
    (any::<u8>(), text(32), any::<[u32; 3]>(), any::<[u64; 2]>()).prop_map(move |(table_id, name, words, longs)| {
        TableStats {
            table_id,
            name: if of10 { name } else { Text::default() },
            wildcards: if of10 { words[0] } else { 0 },
            max_entries: if of10 { words[1] } else { 0 },
            active_count: words[2],
            lookup_count: longs[0],
            matched_count: longs[1],
        }
    })
}

fn port_stats(version: Version) -> impl Strategy<Value = PortStats> {
    let of13 = u32::from(version == Version::Of13);
    (port_no(version), any::<[u64; 12]>(), any::<[u32; 2]>()).prop_map(move |(port, c, duration)| PortStats {
        port,
        rx_packets: c[0],
        tx_packets: c[1],
        rx_bytes: c[2],
        tx_bytes: c[3],
        rx_dropped: c[4],
        tx_dropped: c[5],
        rx_errors: c[6],
        tx_errors: c[7],
        rx_frame_err: c[8],
        rx_over_err: c[9],
        rx_crc_err: c[10],
        collisions: c[11],
        duration_sec: duration[0] * of13,
        duration_nsec: duration[1] * of13,
    })
}

fn queue_stats(version: Version) -> impl Strategy<Value = QueueStats> {
    let of13 = u32::from(version == Version::Of13);
    (port_no(version), any::<u32>(), any::<[u64; 3]>(), any::<[u32; 2]>()).prop_map(
        move |(port, queue, [tx_bytes, tx_packets, tx_errors], duration)| QueueStats {
            port,
            queue,
            tx_bytes,
            tx_packets,
            tx_errors,
            duration_sec: duration[0] * of13,
            duration_nsec: duration[1] * of13,
        },
    )
}

fn group_stats() -> impl Strategy<Value = GroupStats> {
    let counter =
        (any::<u64>(), any::<u64>()).prop_map(|(packet_count, byte_count)| BucketCounter { packet_count, byte_count });
    (any::<[u32; 4]>(), any::<[u64; 2]>(), vec(counter, 0..4)).prop_map(
        |([group, ref_count, duration_sec, duration_nsec], [packet_count, byte_count], buckets)| GroupStats {
            group,
            ref_count,
            packet_count,
            byte_count,
            duration_sec,
            duration_nsec,
            buckets,
        },
    )
}

fn meter_stats() -> impl Strategy<Value = MeterStats> {
    let counter =
        (any::<u64>(), any::<u64>()).prop_map(|(packet_count, byte_count)| BandCounter { packet_count, byte_count });
    (any::<[u32; 4]>(), any::<[u64; 2]>(), vec(counter, 0..4)).prop_map(
        |([meter, flow_count, duration_sec, duration_nsec], [packet_in_count, byte_in_count], bands)| MeterStats {
            meter,
            flow_count,
            packet_in_count,
            byte_in_count,
            duration_sec,
            duration_nsec,
            bands,
        },
    )
}

fn table_features() -> impl Strategy<Value = TableFeatures> {
    let numbers = (any::<u8>(), any::<[u64; 2]>(), any::<[u32; 2]>());
    (numbers, text(32), vec(table_property(), 0..5)).prop_map(
        |((table_id, [metadata_match, metadata_write], [config, max_entries]), name, properties)| TableFeatures {
            table_id,
            name,
            metadata_match,
            metadata_write,
            config,
            max_entries,
            properties,
        },
    )
}

fn table_property() -> BoxedStrategy<TableProperty> {
    let ids = || vec((any::<u16>(), bytes(10)).prop_map(|(kind, body)| TypeId { kind, body }), 0..4);
    let oxm = prop_oneof![
        (0u32..0xffff_0000).prop_map(|header| OxmId { header, experimenter: None }),
        (0xffff_0000u32.., any::<u32>()).prop_map(|(header, id)| OxmId { header, experimenter: Some(id) }),
    ];
    prop_oneof![
        (any::<bool>(), ids()).prop_map(|(miss, ids)| TableProperty::Instructions { miss, ids }),
        (any::<bool>(), bytes(20)).prop_map(|(miss, tables)| TableProperty::NextTables { miss, tables }),
        (4u16..8, ids()).prop_map(|(kind, ids)| TableProperty::Actions { kind, ids }),
        (select(vec![8u16, 10, 12, 13, 14, 15]), vec(oxm, 0..4))
            .prop_map(|(kind, ids)| TableProperty::Fields { kind, ids }),
        (prop_oneof![Just(9u16), Just(11), 16u16..], bytes(20))
            .prop_map(|(kind, body)| TableProperty::Unknown { kind, body }),
    ]
    .boxed()
}
