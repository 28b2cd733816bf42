//! Matches and instructions of rules as Ryu writes them.

use std::net::{Ipv4Addr, Ipv6Addr};

use maple_core::network::Mac;
use maple_wire::field::VLAN_PRESENT;
use maple_wire::flow::{Action, Constraint, Instruction, Match};
use maple_wire::{Field, PortNo, Version};
use serde_json::{Map, Value, json};

/// Writes a match. Fields that this program does not know are left out.
pub(super) fn matching(version: Version, matching: &Match) -> Value {
    let mut all = Map::new();
    for constraint in matching.constraints() {
        let (name, value) = match version {
            Version::Of10 => (name_10(constraint.field), value_10(constraint)),
            Version::Of13 => (name_13(constraint.field), value_13(constraint)),
        };
        all.entry(name).or_insert(value);
        if version == Version::Of10 && is_untagged(constraint) {
            // Switches say so with the priority that no tag has.
            all.insert("dl_vlan_pcp".to_owned(), 0.into());
        }
    }
    all.into()
}

/// Reports whether a constraint says that packets have no tag.
fn is_untagged(constraint: &Constraint) -> bool {
    constraint.field == Field::VlanVid && constraint.is_exact() && constraint.value & VLAN_PRESENT == 0
}

/// Returns Ryu's name of a field, which is often that of 1.0.
fn name_13(field: Field) -> &'static str {
    match field {
        Field::EthSrc => "dl_src",
        Field::EthDst => "dl_dst",
        Field::EthType => "dl_type",
        Field::VlanVid => "dl_vlan",
        Field::Ipv4Src => "nw_src",
        Field::Ipv4Dst => "nw_dst",
        Field::IpProto => "nw_proto",
        Field::TcpSrc | Field::UdpSrc => "tp_src",
        Field::TcpDst | Field::UdpDst => "tp_dst",
        other => other.name(),
    }
}

/// Returns the name of a field in a match of 1.0, which has the fields of ARP and ICMP in those of IP.
fn name_10(field: Field) -> &'static str {
    match field {
        Field::VlanPcp => "dl_vlan_pcp",
        Field::IpDscp => "nw_tos",
        Field::ArpOp => "nw_proto",
        Field::ArpSpa => "nw_src",
        Field::ArpTpa => "nw_dst",
        Field::SctpSrc | Field::Icmpv4Type => "tp_src",
        Field::SctpDst | Field::Icmpv4Code => "tp_dst",
        other => name_13(other),
    }
}

fn value_13(constraint: &Constraint) -> Value {
    let Constraint { field, value, mask } = *constraint;
    match field {
        Field::VlanVid if !constraint.is_exact() => format!("0x{value:04x}/0x{mask:04x}").into(),
        Field::VlanVid if value & VLAN_PRESENT != 0 => (value & !VLAN_PRESENT).to_string().into(),
        Field::VlanVid => format!("0x{value:04x}").into(),
        Field::InPort => port(PortNo(value as u32)),
        _ if constraint.is_exact() => plain(field, value),
        _ => format!("{}/{}", text(field, value), text(field, mask)).into(),
    }
}

fn value_10(constraint: &Constraint) -> Value {
    let Constraint { field, value, mask } = *constraint;
    match field {
        // Without a tag.
        Field::VlanVid if value & VLAN_PRESENT == 0 => 0xffff.into(),
        Field::VlanVid => ((value & !VLAN_PRESENT) as u64).into(),
        Field::IpDscp => ((value << 2) as u64).into(),
        Field::Ipv4Src | Field::Ipv4Dst | Field::ArpSpa | Field::ArpTpa if !constraint.is_exact() => {
            format!("{}/{}", text(field, value), mask.count_ones()).into()
        }
        Field::InPort => port(PortNo(value as u32)),
        _ => plain(field, value),
    }
}

/// Writes a port: a reserved one by its name.
pub(super) fn port(port: PortNo) -> Value {
    match port.to_string().parse::<u32>() {
        Ok(number) => number.into(),
        Err(_) => port.to_string().into(),
    }
}

/// Writes a value as a number, or as text if people write it so.
fn plain(field: Field, value: u128) -> Value {
    match u64::try_from(value) {
        Ok(number) if text(field, value) == number.to_string() => number.into(),
        _ => text(field, value).into(),
    }
}

fn text(field: Field, value: u128) -> String {
    match field {
        Field::EthSrc | Field::EthDst | Field::ArpSha | Field::ArpTha | Field::Ipv6NdSll | Field::Ipv6NdTll => {
            Mac::from_bits(value).to_string()
        }
        Field::Ipv4Src | Field::Ipv4Dst | Field::ArpSpa | Field::ArpTpa => Ipv4Addr::from(value as u32).to_string(),
        Field::Ipv6Src | Field::Ipv6Dst | Field::Ipv6NdTarget => Ipv6Addr::from(value).to_string(),
        _ => value.to_string(),
    }
}

/// Writes instructions: what is applied and what comes next stand in one list.
pub(super) fn instructions(version: Version, all: &[Instruction]) -> Vec<Value> {
    let mut written = Vec::new();
    for instruction in all {
        match instruction {
            Instruction::ApplyActions(actions) => written.extend(actions.iter().map(|one| action(version, one).into())),
            Instruction::WriteActions(actions) => {
                let actions: Vec<String> = actions.iter().map(|one| action(version, one)).collect();
                if !actions.is_empty() {
                    written.push(json!({ "WRITE_ACTIONS": actions }));
                }
            }
            Instruction::ClearActions => written.push("CLEAR_ACTIONS".into()),
            Instruction::GotoTable(table) => {
                written.push(format!("GOTO_TABLE:{}", plain_text(&super::table(*table))).into())
            }
            Instruction::WriteMetadata { metadata, mask: 0 } => {
                written.push(format!("WRITE_METADATA:0x{metadata:x}").into());
            }
            Instruction::WriteMetadata { metadata, mask } => {
                written.push(format!("WRITE_METADATA:0x{metadata:x}/0x{mask:x}").into());
            }
            Instruction::Meter(meter) => written.push(format!("METER:{}", plain_text(&super::meter(*meter))).into()),
            Instruction::Experimenter { .. } | Instruction::Unknown { .. } => {}
        }
    }
    written
}

/// Writes an action.
pub(super) fn action(version: Version, action: &Action) -> String {
    let to = |at: PortNo| plain_text(&port(at));
    match action {
        Action::Output { port, .. } => format!("OUTPUT:{}", to(*port)),
        Action::Group(group) => format!("GROUP:{}", plain_text(&super::group(*group))),
        Action::SetQueue(queue) => format!("SET_QUEUE:{queue}"),
        Action::Enqueue { port, queue } => format!("ENQUEUE:{}:{queue}", to(*port)),
        Action::SetField(Constraint { field, value, .. }) if version == Version::Of10 => set_10(*field, *value),
        Action::SetField(Constraint { field, value, .. }) => {
            format!("SET_FIELD: {{{}:{}}}", field.name(), text(*field, *value))
        }
        Action::PushVlan(kind) => format!("PUSH_VLAN:{kind}"),
        Action::PopVlan if version == Version::Of10 => "STRIP_VLAN".to_owned(),
        Action::PopVlan => "POP_VLAN".to_owned(),
        Action::PushMpls(kind) => format!("PUSH_MPLS:{kind}"),
        Action::PopMpls(kind) => format!("POP_MPLS:{kind}"),
        Action::PushPbb(kind) => format!("PUSH_PBB:{kind}"),
        Action::PopPbb => "POP_PBB".to_owned(),
        Action::SetMplsTtl(ttl) => format!("SET_MPLS_TTL:{ttl}"),
        Action::DecMplsTtl => "DEC_MPLS_TTL".to_owned(),
        Action::SetNwTtl(ttl) => format!("SET_NW_TTL:{ttl}"),
        Action::DecNwTtl => "DEC_NW_TTL".to_owned(),
        Action::CopyTtlOut => "COPY_TTL_OUT".to_owned(),
        Action::CopyTtlIn => "COPY_TTL_IN".to_owned(),
        Action::SetVlanVid(vid) => format!("SET_VLAN_VID:{vid}"),
        Action::SetVlanPcp(pcp) => format!("SET_VLAN_PCP:{pcp}"),
        Action::SetTpSrc(number) => format!("SET_TP_SRC:{number}"),
        Action::SetTpDst(number) => format!("SET_TP_DST:{number}"),
        Action::Experimenter { .. } if version == Version::Of10 => "VENDOR".to_owned(),
        Action::Experimenter { id, body } => format!("EXPERIMENTER: {{experimenter:{id}, data:{}}}", base64(body)),
        Action::Unknown { .. } => "UNKNOWN".to_owned(),
    }
}

/// Writes an action of 1.0 that sets a field.
fn set_10(field: Field, value: u128) -> String {
    let name = match field {
        Field::EthSrc => "SET_DL_SRC",
        Field::EthDst => "SET_DL_DST",
        Field::Ipv4Src => "SET_NW_SRC",
        Field::Ipv4Dst => "SET_NW_DST",
        Field::IpDscp => return format!("SET_NW_TOS:{}", value << 2),
        Field::VlanVid => return format!("SET_VLAN_VID:{}", value & !VLAN_PRESENT),
        Field::VlanPcp => "SET_VLAN_PCP",
        _ => return "UNKNOWN".to_owned(),
    };
    format!("{name}:{}", text(field, value))
}

fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn base64(bytes: &[u8]) -> String {
    /// The digits of base64 (RFC 4648 §4).
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let all = part.iter().enumerate().fold(0u32, |all, (at, byte)| all | u32::from(*byte) << (16 - 8 * at));
        for at in 0..4 {
            let digit = DIGITS[(all >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= part.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(field: Field, value: u128) -> Constraint {
        Constraint::exact(field, value)
    }

    #[test]
    fn matches_are_written_as_ryu_wrote_them() {
        let of_13 = Match::any()
            .exact(Field::InPort, 0xffff_fffe)
            .with(Constraint::masked(Field::EthDst, 0x0100_0000_0000, 0x0100_0000_0000))
            .exact(Field::EthType, 0x800)
            .exact(Field::VlanVid, 0x1014)
            .exact(Field::IpProto, 6)
            .with(Constraint::masked(Field::Ipv4Dst, 0x0a00_0000, 0xff00_0000))
            .exact(Field::TcpDst, 22)
            .with(Constraint::masked(Field::Metadata, 5, 7));
        let expected = json!({
            "in_port": "LOCAL", "dl_dst": "01:00:00:00:00:00/01:00:00:00:00:00", "dl_type": 2048, "dl_vlan": "20",
            "nw_proto": 6, "nw_dst": "10.0.0.0/255.0.0.0", "tp_dst": 22, "metadata": "5/7",
        });
        assert_eq!(matching(Version::Of13, &of_13), expected);
        let untagged = |vlan| Match::any().with(vlan);
        assert_eq!(matching(Version::Of13, &untagged(exact(Field::VlanVid, 0))), json!({ "dl_vlan": "0x0000" }));
        let any_tag = Constraint::masked(Field::VlanVid, VLAN_PRESENT, VLAN_PRESENT);
        assert_eq!(matching(Version::Of13, &untagged(any_tag)), json!({ "dl_vlan": "0x1000/0x1000" }));
        let of_10 = Match::any()
            .exact(Field::InPort, 3)
            .exact(Field::VlanVid, 0)
            .exact(Field::EthSrc, 7)
            .exact(Field::IpDscp, 2)
            .with(Constraint::masked(Field::Ipv4Src, 0x0a00_0000, 0xff00_0000))
            .exact(Field::Icmpv4Type, 8);
        let expected = json!({
            "in_port": 3, "dl_vlan": 65535, "dl_vlan_pcp": 0, "dl_src": "00:00:00:00:00:07", "nw_tos": 8,
            "nw_src": "10.0.0.0/8", "tp_src": 8,
        });
        assert_eq!(matching(Version::Of10, &of_10), expected);
    }

    #[test]
    fn instructions_are_written_as_ryu_wrote_them() {
        let all = [
            Instruction::ApplyActions(vec![
                Action::PushVlan(0x8100),
                Action::SetField(exact(Field::VlanVid, 0x1002)),
                Action::output(PortNo(2)),
                Action::output(PortNo::CONTROLLER),
                Action::Group(7),
                Action::Experimenter { id: 9, body: vec![1, 2, 3, 4] },
            ]),
            Instruction::WriteActions(vec![Action::PopVlan]),
            Instruction::WriteMetadata { metadata: 0x1f, mask: 0xff },
            Instruction::GotoTable(5),
            Instruction::Meter(3),
            Instruction::ClearActions,
        ];
        let expected = json!([
            "PUSH_VLAN:33024", "SET_FIELD: {vlan_vid:4098}", "OUTPUT:2", "OUTPUT:CONTROLLER", "GROUP:7",
            "EXPERIMENTER: {experimenter:9, data:AQIDBA==}", { "WRITE_ACTIONS": ["POP_VLAN"] },
            "WRITE_METADATA:0x1f/0xff", "GOTO_TABLE:5", "METER:3", "CLEAR_ACTIONS",
        ]);
        assert_eq!(Value::from(instructions(Version::Of13, &all)), expected);
        let of_10 = [Instruction::ApplyActions(vec![
            Action::SetField(exact(Field::EthDst, 7)),
            Action::SetVlanVid(5),
            Action::PopVlan,
            Action::Enqueue { port: PortNo(1), queue: 2 },
        ])];
        let expected = json!(["SET_DL_DST:00:00:00:00:00:07", "SET_VLAN_VID:5", "STRIP_VLAN", "ENQUEUE:1:2"]);
        assert_eq!(Value::from(instructions(Version::Of10, &of_10)), expected);
    }
}
