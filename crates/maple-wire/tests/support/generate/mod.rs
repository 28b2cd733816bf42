//! Random messages of each version: everything that the version can express, and nothing else.

mod action;
mod matching;
mod stats;

pub use action::{action, instructions};
use action::{band, bucket};
use maple_wire::flow::Match;
use maple_wire::msg::*;
use maple_wire::{Dpid, Field, Port, PortNo};
pub use matching::matching;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use stats::{reply, request};

/// Generates any message that `version` has.
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
        (any::<u32>(), any::<u16>(), any::<u16>())
            .prop_map(|(bundle, kind, flags)| { Message::BundleControl(BundleControl { bundle, kind, flags }) }),
        (any::<u32>(), any::<u16>(), bundled()).prop_map(|(bundle, flags, message)| {
            Message::BundleAdd(BundleAdd { bundle, flags, message: Box::new(message) })
        }),
    ]
    .boxed()
}

/// Generates a message that can be in a bundle.
fn bundled() -> impl Strategy<Value = Message> {
    prop_oneof![
        flow_mod(Version::Of13).prop_map(Message::FlowMod),
        packet_out(Version::Of13).prop_map(Message::PacketOut),
        port_mod(Version::Of13).prop_map(Message::PortMod),
    ]
}

fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..max)
}

/// Generates bytes whose number, together with `before` others, is a multiple of 8.
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
