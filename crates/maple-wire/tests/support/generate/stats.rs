//! Random statistics: requests and replies.

use maple_wire::msg::stats::*;
use maple_wire::msg::*;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::action::{band, bucket};
use super::{bytes, instructions, matching, port, port_no, text};

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

pub(super) fn request(version: Version) -> BoxedStrategy<RequestBody> {
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

pub(super) fn reply(version: Version) -> BoxedStrategy<ReplyBody> {
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
