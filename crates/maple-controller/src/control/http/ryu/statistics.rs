//! Statistics of switches as Ryu's `ofctl_rest` has them: the switch is asked, and its answer translated.

use axum::http::StatusCode;
use maple_wire::msg::stats::{
    FlowStats, FlowStatsRequest, GroupDesc, GroupStats, MeterStats, PortStats, QueueStats, QueueStatsRequest,
    ReplyBody, RequestBody, StatsReply, TableStats,
};
use maple_wire::msg::{Role, Text};
use maple_wire::{Dpid, Message, PortNo, Version};
use serde_json::{Value, json};

use super::rules::{action, instructions, matching, port};
use super::{InPath, group, meter, table, topology};
use crate::control::Handle;
use crate::control::http::problem::Problem;
use crate::session::{SwitchAnswer, SwitchQuestion};

/// The number of all queues, `OFPQ_ALL` (1.3 §7.2.2).
const ALL_QUEUES: u32 = 0xffff_ffff;
/// The number of all groups, `OFPG_ALL` (1.3 §7.3.4.2).
const ALL_GROUPS: u32 = 0xffff_fffc;
/// The number of all meters, `OFPM_ALL` (1.3 §7.3.4.4).
const ALL_METERS: u32 = 0xffff_ffff;
/// The number of bytes of a reply before its first rule: the header and that of a multipart reply (1.3 §7.3.5).
const REPLY_HEAD: usize = 16;

/// A switch that was asked.
struct Asked {
    dpid: Dpid,
    version: Version,
    parts: Vec<ReplyBody>,
}

impl Asked {
    /// Asks the switch of a path.
    fn statistics(handle: &Handle, in_path: &InPath, body: RequestBody) -> Result<Asked, Problem> {
        let (dpid, version) = topology::switch(handle, in_path)?;
        match ask(handle, dpid, SwitchQuestion::Statistics(body))? {
            SwitchAnswer::Statistics(parts) => Ok(Asked { dpid, version, parts }),
            _ => Err(unsupported()),
        }
    }

    /// Translates what each part has, and puts it under the switch's number. Each item becomes text at once: a switch
    /// may have many rules.
    ///
    /// # Errors
    /// [`Problem`] if a part is of another kind than was asked for.
    fn list<'a, T: 'a>(
        &'a self,
        items: impl Fn(&'a ReplyBody) -> Option<&'a [T]>,
        one: impl Fn(&'a T) -> Value,
    ) -> Result<String, Problem> {
        let parts: Option<Vec<&[T]>> = self.parts.iter().map(items).collect();
        let mut text = format!("{{\"{}\":[", self.dpid.0);
        for (number, item) in parts.ok_or_else(|| self.other_kind())?.into_iter().flatten().enumerate() {
            if number > 0 {
                text.push(',');
            }
            text += &one(item).to_string();
        }
        text += "]}";
        Ok(text)
    }

    fn other_kind(&self) -> Problem {
        let text = format!("switch {} answers with other statistics than it was asked for", self.dpid);
        Problem::new(StatusCode::BAD_GATEWAY, text)
    }
}

fn ask(handle: &Handle, dpid: Dpid, question: SwitchQuestion) -> Result<SwitchAnswer, Problem> {
    match handle.ask_switch(dpid, question)? {
        None => Err(Problem::busy("the switch does not answer in time")),
        Some(SwitchAnswer::TooMuch) => Err(Problem::busy("the switch has too much to answer")),
        Some(SwitchAnswer::Unsupported) => Err(unsupported()),
        Some(answer) => Ok(answer),
    }
}

fn unsupported() -> Problem {
    Problem::new(StatusCode::NOT_IMPLEMENTED, "the switch, or its version of OpenFlow, does not answer this")
}

/// Returns a number of the path; `default` without it, or if it is `ALL`.
fn number(in_path: &InPath, name: &str, default: u32) -> Result<u32, Problem> {
    match in_path.get(name).map(String::as_str) {
        None | Some("ALL") => Ok(default),
        Some(text) => {
            let wrong = || Problem::field(StatusCode::BAD_REQUEST, name, format!("{name}: {text:?} is not a number"));
            topology::number(text).and_then(|number| u32::try_from(number).ok()).ok_or_else(wrong)
        }
    }
}

/// Returns the port of the path, which may be a reserved one: `LOCAL`, `OFPP_LOCAL`; any without it.
fn port_in(in_path: &InPath) -> Result<PortNo, Problem> {
    let named = in_path.get("port").and_then(|text| text.strip_prefix("OFPP_").unwrap_or(text).parse().ok());
    match named.filter(|port: &PortNo| *port != PortNo::ALL) {
        Some(port) => Ok(port),
        None => number(in_path, "port", PortNo::ANY.0).map(PortNo),
    }
}

/// Answers with the switch's description of itself.
pub(super) fn description(handle: &Handle, in_path: &InPath) -> Result<String, Problem> {
    Asked::statistics(handle, in_path, RequestBody::Desc)?.description()
}

fn text(text: &Text) -> String {
    text.to_string()
}

/// Answers with all rules.
pub(super) fn flows(handle: &Handle, in_path: &InPath) -> Result<String, Problem> {
    Asked::statistics(handle, in_path, RequestBody::Flow(FlowStatsRequest::all()))?.flows()
}

/// Answers in Ryu's form.
impl Asked {
    fn description(&self) -> Result<String, Problem> {
        let desc = self.parts.iter().find_map(|part| match part {
            ReplyBody::Desc(desc) => Some(json!({
                "mfr_desc": text(&desc.manufacturer), "hw_desc": text(&desc.hardware), "sw_desc": text(&desc.software),
                "serial_num": text(&desc.serial), "dp_desc": text(&desc.datapath),
            })),
            _ => None,
        });
        desc.map(|desc| topology::of_switch(self.dpid, desc)).ok_or_else(|| self.other_kind())
    }

    fn flows(&self) -> Result<String, Problem> {
        self.list(
            |part| if let ReplyBody::Flow(all) = part { Some(all.as_slice()) } else { None },
            |flow| rule(self.version, flow),
        )
    }

    fn aggregate(&self) -> Result<String, Problem> {
        self.list(
            |part| if let ReplyBody::Aggregate(one) = part { Some(std::slice::from_ref(one)) } else { None },
            |sum| json!({ "packet_count": sum.packet_count, "byte_count": sum.byte_count, "flow_count": sum.flow_count }),
        )
    }

    fn tables(&self) -> Result<String, Problem> {
        self.list(
            |part| if let ReplyBody::Table(all) = part { Some(all.as_slice()) } else { None },
            |one| table_counters(self.version, one),
        )
    }

    fn ports(&self) -> Result<String, Problem> {
        self.list(
            |part| if let ReplyBody::Port(all) = part { Some(all.as_slice()) } else { None },
            |one| port_counters(self.version, one),
        )
    }

    fn queues(&self) -> Result<String, Problem> {
        self.list(
            |part| if let ReplyBody::Queue(all) = part { Some(all.as_slice()) } else { None },
            |one: &QueueStats| {
                let mut all = json!({
                    "port_no": one.port.0, "queue_id": one.queue, "tx_bytes": one.tx_bytes, "tx_errors": one.tx_errors,
                    "tx_packets": one.tx_packets,
                });
                if self.version == Version::Of13 {
                    all["duration_sec"] = one.duration_sec.into();
                    all["duration_nsec"] = one.duration_nsec.into();
                }
                all
            },
        )
    }

    fn groups(&self) -> Result<String, Problem> {
        self.list(
            |part| if let ReplyBody::Group(all) = part { Some(all.as_slice()) } else { None },
            |one: &GroupStats| {
                let buckets = one.buckets.iter();
                let buckets: Value = buckets
                    .map(|one| json!({ "packet_count": one.packet_count, "byte_count": one.byte_count }))
                    .collect();
                json!({
                    "group_id": group(one.group), "length": 40 + 16 * one.buckets.len(), "ref_count": one.ref_count,
                    "packet_count": one.packet_count, "byte_count": one.byte_count, "duration_sec": one.duration_sec,
                    "duration_nsec": one.duration_nsec, "bucket_stats": buckets,
                })
            },
        )
    }

    fn group_descriptions(&self) -> Result<String, Problem> {
        const KINDS: [&str; 4] = ["ALL", "SELECT", "INDIRECT", "FF"];
        self.list(|part| if let ReplyBody::GroupDesc(all) = part { Some(all.as_slice()) } else { None }, |one: &GroupDesc| {
            let bucket = |one: &maple_wire::msg::Bucket| {
                let actions: Vec<String> = one.actions.iter().map(|one| action(self.version, one)).collect();
                json!({
                    "weight": one.weight, "watch_port": one.watch_port.0, "watch_group": one.watch_group, "actions": actions,
                })
            };
            let buckets: Value = one.buckets.iter().map(bucket).collect();
            json!({ "type": KINDS.get(usize::from(one.kind)), "group_id": group(one.group), "buckets": buckets })
        })
    }

    fn meters(&self) -> Result<String, Problem> {
        self.list(
            |part| if let ReplyBody::Meter(all) = part { Some(all.as_slice()) } else { None },
            |one: &MeterStats| {
                let bands = one.bands.iter();
                let bands: Value = bands
                    .map(|one| json!({ "packet_band_count": one.packet_count, "byte_band_count": one.byte_count }))
                    .collect();
                json!({
                    "meter_id": meter(one.meter), "len": 40 + 16 * one.bands.len(), "flow_count": one.flow_count,
                    "packet_in_count": one.packet_in_count, "byte_in_count": one.byte_in_count,
                    "duration_sec": one.duration_sec, "duration_nsec": one.duration_nsec, "band_stats": bands,
                })
            },
        )
    }
}

fn rule(version: Version, flow: &FlowStats) -> Value {
    let mut all = json!({
        "priority": flow.priority, "cookie": flow.cookie, "idle_timeout": flow.idle_timeout,
        "hard_timeout": flow.hard_timeout, "byte_count": flow.byte_count, "packet_count": flow.packet_count,
        "duration_sec": flow.duration_sec, "duration_nsec": flow.duration_nsec,
        "actions": instructions(version, &flow.instructions), "match": matching(version, &flow.matching),
        "table_id": table(flow.table_id),
    });
    if version == Version::Of13 {
        all["flags"] = flow.flags.into();
        // It was received, so it can be sent.
        let reply = Message::StatsReply(StatsReply::new(ReplyBody::Flow(vec![flow.clone()])));
        let mut bytes = Vec::new();
        let length = reply.encode(version, 0, &mut bytes).map(|()| bytes.len().saturating_sub(REPLY_HEAD));
        all["length"] = length.ok().into();
    }
    all
}

/// Answers with the sums over all rules.
pub(super) fn aggregate(handle: &Handle, in_path: &InPath) -> Result<String, Problem> {
    Asked::statistics(handle, in_path, RequestBody::Aggregate(FlowStatsRequest::all()))?.aggregate()
}

/// Answers with the counters of all tables.
pub(super) fn tables(handle: &Handle, in_path: &InPath) -> Result<String, Problem> {
    Asked::statistics(handle, in_path, RequestBody::Table)?.tables()
}

fn table_counters(version: Version, one: &TableStats) -> Value {
    /// The names that Ryu finds in wildcards of 1.0. It takes values of bits, shifts and masks for numbers of bits.
    const WILDCARDS: [(u32, &str); 7] = [
        (1, "IN_PORT"),
        (2, "DL_VLAN"),
        (4, "DL_SRC"),
        (8, "NW_SRC_SHIFT"),
        (16, "DL_TYPE"),
        (6, "NW_DST_BITS"),
        (14, "NW_DST_SHIFT"),
    ];
    let mut all = json!({
        "table_id": table(one.table_id), "active_count": one.active_count, "lookup_count": one.lookup_count,
        "matched_count": one.matched_count,
    });
    if version == Version::Of10 {
        let wildcards = WILDCARDS.iter().filter(|(bit, _)| one.wildcards >> bit & 1 == 1).map(|(_, name)| *name);
        all["wildcards"] = wildcards.collect::<Vec<&str>>().into();
        all["name"] = text(&one.name).into();
        all["max_entries"] = one.max_entries.into();
    }
    all
}

/// Answers with the counters of all ports, or of one.
pub(super) fn ports(handle: &Handle, in_path: &InPath) -> Result<String, Problem> {
    let port = port_in(in_path)?;
    Asked::statistics(handle, in_path, RequestBody::Port(port))?.ports()
}

fn port_counters(version: Version, one: &PortStats) -> Value {
    let mut all = json!({
        "port_no": port(one.port), "rx_packets": one.rx_packets, "tx_packets": one.tx_packets,
        "rx_bytes": one.rx_bytes, "tx_bytes": one.tx_bytes, "rx_dropped": one.rx_dropped,
        "tx_dropped": one.tx_dropped, "rx_errors": one.rx_errors, "tx_errors": one.tx_errors,
        "rx_frame_err": one.rx_frame_err, "rx_over_err": one.rx_over_err, "rx_crc_err": one.rx_crc_err,
        "collisions": one.collisions,
    });
    if version == Version::Of13 {
        all["duration_sec"] = one.duration_sec.into();
        all["duration_nsec"] = one.duration_nsec.into();
    }
    all
}

/// Answers with the counters of queues.
pub(super) fn queues(handle: &Handle, in_path: &InPath) -> Result<String, Problem> {
    let port = port_in(in_path)?;
    let queue = number(in_path, "queue", ALL_QUEUES)?;
    // OpenFlow 1.0 has another number for all ports here.
    let (_, version) = topology::switch(handle, in_path)?;
    let port = if version == Version::Of10 && port == PortNo::ANY { PortNo::ALL } else { port };
    Asked::statistics(handle, in_path, RequestBody::Queue(QueueStatsRequest { port, queue }))?.queues()
}

/// Answers with the counters of groups.
pub(super) fn groups(handle: &Handle, in_path: &InPath) -> Result<String, Problem> {
    let body = RequestBody::Group(number(in_path, "group", ALL_GROUPS)?);
    Asked::statistics(handle, in_path, body)?.groups()
}

/// Answers with what groups do.
pub(super) fn group_descriptions(handle: &Handle, in_path: &InPath) -> Result<String, Problem> {
    Asked::statistics(handle, in_path, RequestBody::GroupDesc)?.group_descriptions()
}

/// Answers with the counters of meters.
pub(super) fn meters(handle: &Handle, in_path: &InPath) -> Result<String, Problem> {
    let body = RequestBody::Meter(number(in_path, "meter", ALL_METERS)?);
    Asked::statistics(handle, in_path, body)?.meters()
}

/// Answers with the role that the switch gives this controller.
pub(super) fn role(handle: &Handle, in_path: &InPath) -> Result<String, Problem> {
    let (dpid, _) = topology::switch(handle, in_path)?;
    let SwitchAnswer::Role(said) = ask(handle, dpid, SwitchQuestion::Role)? else { return Err(unsupported()) };
    Ok(role_of(dpid, &said))
}

fn role_of(dpid: Dpid, said: &Role) -> String {
    let name = match said.role {
        Role::NOCHANGE => json!("NOCHANGE"),
        Role::EQUAL => json!("EQUAL"),
        Role::MASTER => json!("MASTER"),
        Role::SLAVE => json!("SLAVE"),
        other => json!(other),
    };
    topology::of_switch(dpid, json!([{ "role": name, "generation_id": said.generation_id }]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes messages of a switch.
    fn decoded(case: &Value) -> Vec<Message> {
        let bytes = case["messages"].as_array().expect("messages").iter().map(|one| hex::decode(text_of(one)));
        bytes.map(|bytes| Message::decode(&bytes.expect("hex")).expect("a switch has sent it").1).collect()
    }

    fn text_of(value: &Value) -> &str {
        value.as_str().expect("a text")
    }

    /// Answers a path of Ryu's from what the switch has said.
    fn answered(version: Version, path: &str, said: Vec<Message>) -> String {
        let (dpid, mut parts) = (Dpid(1), Vec::new());
        for message in said {
            match message {
                Message::StatsReply(reply) => parts.push(reply.body),
                Message::FeaturesReply(features) if path.starts_with("/stats/portdesc") => {
                    return topology::ports_described(dpid, version, &features.ports);
                }
                Message::RoleReply(role) => return role_of(dpid, &role),
                other => panic!("{path}: {other:?}"),
            }
        }
        if let [ReplyBody::PortDesc(ports)] = &*parts {
            return topology::ports_described(dpid, version, ports);
        }
        let asked = Asked { dpid, version, parts };
        let answer = match path.trim_start_matches("/stats/").split('/').next() {
            Some("desc") => asked.description(),
            Some("flow") => asked.flows(),
            Some("aggregateflow") => asked.aggregate(),
            Some("table") => asked.tables(),
            Some("port") => asked.ports(),
            Some("queue") => asked.queues(),
            Some("group") => asked.groups(),
            Some("groupdesc") => asked.group_descriptions(),
            Some("meter") => asked.meters(),
            _ => panic!("{path} is new"),
        };
        answer.unwrap_or_else(|problem| panic!("{path}: {problem:?}"))
    }

    #[test]
    fn statistics_of_switches_are_answered_as_ryu_answered_them() {
        let recorded = include_str!("../../../../tests/recorded/ryu-4.34.json");
        let recorded: Value = serde_json::from_str(recorded).expect("JSON");
        let (mut count, mut others) = (0, Vec::new());
        for (name, version) in [("1.0", Version::Of10), ("1.3", Version::Of13)] {
            for case in recorded[name].as_array().expect("cases") {
                let path = text_of(&case["path"]);
                let answer: Value = serde_json::from_str(&answered(version, path, decoded(case))).expect("JSON");
                if answer != case["answer"] {
                    others.push(format!("{path} of {name}: {answer} in the place of {}", case["answer"]));
                }
                count += 1;
            }
        }
        assert_eq!((count, others.join("\n").as_str()), (26, ""));
    }

    #[test]
    fn a_port_has_a_number_or_the_name_of_a_reserved_one() {
        let port = |text: &str| port_in(&InPath::from([("port".to_owned(), text.to_owned())]));
        for (text, expected) in [
            ("3", PortNo(3)),
            ("0x1f", PortNo(31)),
            ("LOCAL", PortNo::LOCAL),
            ("OFPP_LOCAL", PortNo::LOCAL),
            ("ALL", PortNo::ANY),
            ("4294967294", PortNo::LOCAL),
        ] {
            assert_eq!(port(text), Ok(expected), "{text}");
        }
        assert_eq!(port_in(&InPath::new()), Ok(PortNo::ANY));
        for wrong in ["x", "OFPP_", "OFPP_OTHER", "-1", "4294967296"] {
            assert!(port(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn other_statistics_than_were_asked_for_are_no_empty_answer() {
        let ports = |parts: Vec<ReplyBody>| {
            let asked = Asked { dpid: Dpid(7), version: Version::Of13, parts };
            asked.list(
                |part| if let ReplyBody::Port(all) = part { Some(all.as_slice()) } else { None },
                |one| port_counters(Version::Of13, one),
            )
        };
        assert_eq!(ports(vec![ReplyBody::Port(Vec::new())]).as_deref(), Ok("{\"7\":[]}"));
        let refused =
            ports(vec![ReplyBody::Port(Vec::new()), ReplyBody::Table(Vec::new())]).expect_err("a part of another kind");
        assert_eq!(refused.status, StatusCode::BAD_GATEWAY);
        assert!(refused.detail().contains("other statistics"), "{}", refused.detail());
    }
}
