//! Statistics and multipart requests (1.0 §5.3.5, 1.3 §7.3.5).

use maple_wire::msg::stats::{
    AggregateStats, BucketCounter, Desc, FlowStats, FlowStatsRequest, GroupDesc, GroupFeatures, GroupStats, MORE,
    OxmId, PortStats, PropertyKind, TableFeatures, TableProperty, TableStats, TypeId,
};
use maple_wire::msg::{ALL_GROUPS, ALL_METERS};
use maple_wire::msg::{FlowMod, FlowModCommand, ReplyBody, RequestBody, StatsReply, StatsRequest, Text};
use maple_wire::{Field, Instruction, Message, PortNo, Version};

use super::check;
use super::refusal::Refusal;
use super::table::{Rule, Table};
use super::{Switch, SwitchPort};
use crate::time::{Nanoseconds, SECOND};

/// The maximum number of content bytes of one reply, because the length field of the header has 16 bits.
const PAGE: usize = 60_000;
/// The 1.0 wildcard bits that rules may use: all bits.
pub(super) const WILDCARDS10: u32 = 0x3f_ffff;

impl Switch {
    /// Answers a statistics request, with several messages if one would be too long.
    pub(super) fn statistics(&self, now: Nanoseconds, request: StatsRequest) -> Result<Vec<StatsReply>, Refusal> {
        let one = |body| Ok(vec![StatsReply::new(body)]);
        match request.body {
            RequestBody::Desc => one(ReplyBody::Desc(self.description())),
            RequestBody::Flow(asked) => {
                let rules = self.rules_asked_for(asked)?;
                let flows = rules.into_iter().map(|(table, rule)| flow_stats(now, table, rule)).collect();
                Ok(self.pages(flows, ReplyBody::Flow))
            }
            RequestBody::Aggregate(asked) => {
                let rules = self.rules_asked_for(asked)?;
                one(ReplyBody::Aggregate(AggregateStats {
                    packet_count: rules.iter().map(|(_, r)| r.packets).sum(),
                    byte_count: rules.iter().map(|(_, r)| r.bytes).sum(),
                    flow_count: rules.len() as u32,
                }))
            }
            RequestBody::Table => {
                let tables = (0..self.n_tables()).map(|id| self.table_stats(id)).collect();
                Ok(self.pages(tables, ReplyBody::Table))
            }
            RequestBody::Port(port) => {
                let ports = self.ports_named(port).into_iter().map(|port| port_stats(now, port)).collect();
                Ok(self.pages(ports, ReplyBody::Port))
            }
            RequestBody::Queue(asked) => Ok(self.pages(self.queue_stats(now, asked)?, ReplyBody::Queue)),
            RequestBody::Experimenter { .. } => Err(Refusal::BadExperimenter),
            RequestBody::Unknown { .. } => Err(Refusal::BadStats),
            body => self.statistics13(now, body),
        }
    }

    /// Answers the kinds that only 1.3 has.
    fn statistics13(&self, now: Nanoseconds, body: RequestBody) -> Result<Vec<StatsReply>, Refusal> {
        let one = |body| Ok(vec![StatsReply::new(body)]);
        match body {
            RequestBody::PortDesc => {
                let ports = self.ports.values().map(|p| p.description.clone()).collect();
                Ok(self.pages(ports, ReplyBody::PortDesc))
            }
            RequestBody::Group(asked) => Ok(self.pages(self.group_stats(now, asked), ReplyBody::Group)),
            RequestBody::GroupDesc => {
                let desc = |(number, group): (&u32, &super::Group)| GroupDesc {
                    kind: group.kind as u8,
                    group: *number,
                    buckets: group.buckets.clone(),
                };
                Ok(self.pages(self.groups.iter().map(desc).collect(), ReplyBody::GroupDesc))
            }
            RequestBody::GroupFeatures => one(ReplyBody::GroupFeatures(GroupFeatures {
                types: 0b1111,
                // Weights (bit 0) and liveness (bit 1).
                capabilities: 0b11,
                max_groups: [0xffff_ff00; 4],
                actions: [action_bits(); 4],
            })),
            RequestBody::Meter(asked) | RequestBody::MeterConfig(asked)
                if asked != ALL_METERS && !self.meters.contains_key(&asked) =>
            {
                Err(Refusal::UnknownMeter)
            }
            RequestBody::Meter(asked) => Ok(self.pages(self.meter_stats(now, asked), ReplyBody::Meter)),
            RequestBody::MeterConfig(asked) => Ok(self.pages(self.meter_configs(asked), ReplyBody::MeterConfig)),
            RequestBody::MeterFeatures => one(ReplyBody::MeterFeatures(Switch::meter_features())),
            RequestBody::TableFeatures(wanted) if wanted.is_empty() => {
                let tables = (0..self.n_tables()).map(|id| self.table_features(id)).collect();
                Ok(self.pages(tables, ReplyBody::TableFeatures))
            }
            // The tables' features can't be changed.
            RequestBody::TableFeatures(_) => Err(Refusal::FixedTables),
            _ => Err(Refusal::BadStats),
        }
    }

    fn description(&self) -> Desc {
        let text = |text: &str| Text::from(text);
        let (manufacturer, hardware) = match self.options.open_vswitch {
            true => ("Nicira, Inc.", "Open vSwitch"),
            false => ("Maple", "emulated switch"),
        };
        Desc {
            manufacturer: text(manufacturer),
            hardware: text(hardware),
            software: text(env!("CARGO_PKG_VERSION")),
            serial: text("none"),
            datapath: text(&format!("s{}", self.dpid.0)),
        }
    }

    fn rules_asked_for(&self, asked: FlowStatsRequest) -> Result<Vec<(u8, &Rule)>, Refusal> {
        let matching = check::matching(&self.abilities(), &asked.matching)?;
        let request = FlowMod {
            cookie: asked.cookie,
            cookie_mask: if self.version == Version::Of13 { asked.cookie_mask } else { 0 },
            ..FlowMod::new(FlowModCommand::Modify, 0, matching, Vec::new())
        };
        // Tables that 1.0 does not have contain no rules.
        if self.version == Version::Of13 && !self.has_table(asked.table_id) {
            return Err(Refusal::BadRequestTable);
        }
        let mut rules = Vec::new();
        for at in self.used(asked.table_id) {
            let covered = self.tables[at].covered(&request).into_iter();
            let wanted =
                covered.filter(|rule| Instruction::lead_to(&rule.instructions, asked.out_port, asked.out_group));
            rules.extend(wanted.map(|rule| (at as u8, rule)));
        }
        Ok(rules)
    }

    fn table_stats(&self, table_id: u8) -> TableStats {
        let of10 = self.version == Version::Of10;
        let table = self.tables.get(usize::from(table_id));
        TableStats {
            table_id,
            name: Text::from(if of10 { "table0" } else { "" }),
            wildcards: if of10 { WILDCARDS10 } else { 0 },
            max_entries: if of10 { self.options.table_size as u32 } else { 0 },
            active_count: table.map_or(0, |table| table.len() as u32),
            lookup_count: table.map_or(0, |table| table.lookups),
            matched_count: table.map_or(0, |table| table.matches),
        }
    }

    /// Returns the port with this number, if it exists, or all.
    fn ports_named(&self, port: PortNo) -> Vec<&SwitchPort> {
        self.ports.values().filter(|one| port == PortNo::ANY || one.description.number == port).collect()
    }

    fn group_stats(&self, now: Nanoseconds, asked: u32) -> Vec<GroupStats> {
        let uses = |number: u32| {
            let rules = self.tables.iter().flat_map(Table::rules);
            rules.filter(|rule| Instruction::lead_to(&rule.instructions, PortNo::ANY, number)).count() as u32
        };
        let wanted = self.groups.iter().filter(|(number, _)| asked == ALL_GROUPS || **number == asked);
        wanted
            .map(|(number, group)| GroupStats {
                group: *number,
                ref_count: uses(*number),
                packet_count: group.packets,
                byte_count: group.bytes,
                duration_sec: ((now - group.added) / SECOND) as u32,
                duration_nsec: ((now - group.added) % SECOND) as u32,
                buckets: group
                    .bucket_counters
                    .iter()
                    .map(|(packet_count, byte_count)| BucketCounter {
                        packet_count: *packet_count,
                        byte_count: *byte_count,
                    })
                    .collect(),
            })
            .collect()
    }

    fn table_features(&self, table_id: u8) -> TableFeatures {
        let later: Vec<u8> = (table_id + 1..self.n_tables()).collect();
        let types = |kinds: &[u16]| kinds.iter().map(|kind| TypeId { kind: *kind, body: Vec::new() }).collect();
        let fields = |settable: bool| -> Vec<OxmId> {
            let wanted = Field::ALL.into_iter().filter(|f| check::can_match(*f) && (!settable || check::can_set(*f)));
            wanted.map(|field| oxm_id(field, settable)).collect()
        };
        // The bits stand for goto, write-metadata, write-actions, apply-actions, clear-actions and meter (1.3 §7.2.4);
        // the last table can't go to another one.
        let first = usize::from(later.is_empty());
        let mut properties =
            vec![TableProperty::Instructions { miss: false, ids: types(&[1, 2, 3, 4, 5, 6][first..]) }];
        properties.push(TableProperty::NextTables { miss: false, tables: later });
        for kind in [PropertyKind::WRITE_ACTIONS, PropertyKind::APPLY_ACTIONS] {
            properties.push(TableProperty::Actions { kind, ids: types(ACTIONS) });
        }
        for kind in [PropertyKind::MATCH, PropertyKind::WILDCARDS] {
            properties.push(TableProperty::Fields { kind, ids: fields(false) });
        }
        for kind in [PropertyKind::WRITE_SET_FIELD, PropertyKind::APPLY_SET_FIELD] {
            properties.push(TableProperty::Fields { kind, ids: fields(true) });
        }
        TableFeatures {
            table_id,
            name: Text::from(format!("table{table_id}").as_str()),
            metadata_match: u64::MAX,
            metadata_write: u64::MAX,
            config: 0,
            max_entries: self.options.table_size as u32,
            properties,
        }
    }

    /// Distributes items over as many replies as their lengths need.
    fn pages<T>(&self, items: Vec<T>, body: fn(Vec<T>) -> ReplyBody) -> Vec<StatsReply>
    where
        T: Clone,
    {
        let mut pages = vec![Vec::new()];
        let mut used = 0;
        for item in items {
            let mut bytes = Vec::new();
            let alone = Message::StatsReply(StatsReply::new(body(vec![item.clone()])));
            if alone.encode(self.version, 0, &mut bytes).is_err() {
                // A rule from before another version has no form in this one. Open vSwitch shows what is nearest to it.
                continue;
            }
            if used + bytes.len() > PAGE {
                pages.push(Vec::new());
                used = 0;
            }
            used += bytes.len();
            pages.last_mut().expect("there is always a page").push(item);
        }
        let mut replies: Vec<_> = pages.into_iter().map(|page| StatsReply { flags: MORE, body: body(page) }).collect();
        if let Some(last) = replies.last_mut() {
            last.flags = 0;
        }
        replies
    }
}

/// The actions of 1.3 that the switch has, `OFPAT_*`: output, TTLs, tags, queue, group, set-field.
const ACTIONS: &[u16] = &[0, 11, 12, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25];

fn action_bits() -> u32 {
    ACTIONS.iter().fold(0, |bits, kind| bits | 1 << kind)
}

fn oxm_id(field: Field, settable: bool) -> OxmId {
    // Class 0x8000, field, whether it can be masked, payload length (1.3 §7.2.3.2).
    let masked = field.is_maskable() && !settable;
    let length = field.bytes() as u32 * if masked { 2 } else { 1 };
    let header = 0x8000 << 16 | u32::from(field.oxm()) << 9 | u32::from(masked) << 8 | length;
    OxmId { header, experimenter: None }
}

fn flow_stats(now: Nanoseconds, table_id: u8, rule: &Rule) -> FlowStats {
    FlowStats {
        table_id,
        duration_sec: ((now - rule.added) / SECOND) as u32,
        duration_nsec: ((now - rule.added) % SECOND) as u32,
        priority: rule.priority,
        idle_timeout: rule.idle_timeout,
        hard_timeout: rule.hard_timeout,
        flags: rule.flags,
        cookie: rule.cookie,
        packet_count: rule.packets,
        byte_count: rule.bytes,
        matching: rule.matching.clone(),
        instructions: rule.instructions.to_vec(),
    }
}

fn port_stats(now: Nanoseconds, port: &SwitchPort) -> PortStats {
    let c = port.counters;
    PortStats {
        port: port.description.number,
        rx_packets: c.rx_packets,
        tx_packets: c.tx_packets,
        rx_bytes: c.rx_bytes,
        tx_bytes: c.tx_bytes,
        rx_dropped: c.rx_dropped,
        tx_dropped: c.tx_dropped,
        rx_errors: 0,
        tx_errors: 0,
        rx_frame_err: 0,
        rx_over_err: 0,
        rx_crc_err: 0,
        collisions: 0,
        duration_sec: ((now - port.added) / SECOND) as u32,
        duration_nsec: ((now - port.added) % SECOND) as u32,
    }
}
