//! Actions and instructions.

use std::fmt::{Display, Write};

use super::value::{Hex, HexBytes, Impossible, Masked};
use crate::field::Field;
use crate::flow::{Action, Constraint, Instruction};
use crate::msg::Version;
use crate::msg::oxm::{Stated, constraint_in};
use crate::port::PortNo;

/// Returns the actions as text, joined by commas; `drop` if there are none.
pub fn actions(version: Version, actions: &[Action]) -> String {
    if actions.is_empty() {
        return "drop".to_owned();
    }
    let mut out = List(String::new());
    for action in actions {
        out.action(version, action);
    }
    out.0
}

/// Returns the instructions as text, as after `actions=`; `drop` if they do nothing.
///
/// Applied actions appear without a name; the other instructions have names. They appear in the order in which a switch
/// carries them out (1.3 §5.9), whatever the order in which they were sent.
pub fn instructions(version: Version, instructions: &[Instruction]) -> String {
    let mut in_order: Vec<&Instruction> = instructions.iter().collect();
    in_order.sort_by_key(|instruction| instruction.rank());
    let mut out = List(String::new());
    for instruction in in_order {
        out.instruction(version, instruction);
    }
    if out.0.is_empty() { "drop".to_owned() } else { out.0 }
}

struct List(String);

impl List {
    fn put(&mut self, part: impl Display) {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        write!(self.0, "{part}").expect("writing to a string does not fail");
    }

    fn instruction(&mut self, version: Version, instruction: &Instruction) {
        match instruction {
            Instruction::Meter(meter) => self.put(format_args!("meter:{meter}")),
            Instruction::ApplyActions(list) => list.iter().for_each(|action| self.action(version, action)),
            Instruction::ClearActions => self.put("clear_actions"),
            Instruction::WriteActions(list) => {
                self.put(format_args!("write_actions({})", actions(version, list)));
            }
            Instruction::WriteMetadata { metadata, mask: u64::MAX } => {
                self.put(format_args!("write_metadata:{}", Hex(u128::from(*metadata))));
            }
            Instruction::WriteMetadata { metadata, mask } => {
                let (metadata, mask) = (Hex(u128::from(*metadata)), Hex(u128::from(*mask)));
                self.put(format_args!("write_metadata:{metadata}/{mask}"));
            }
            Instruction::GotoTable(table) => self.put(format_args!("goto_table:{table}")),
            Instruction::Experimenter { id, body } => {
                self.put(format_args!("experimenter_instruction(0x{id:08x},0x{})", HexBytes(body)));
            }
            Instruction::Unknown { kind, body } => {
                self.put(format_args!("unknown_instruction({kind},0x{})", HexBytes(body)));
            }
        }
    }

    fn action(&mut self, version: Version, action: &Action) {
        match action {
            Action::Output { port: PortNo::CONTROLLER, max_len } => self.put(format_args!("CONTROLLER:{max_len}")),
            Action::Output { port, .. } if is_named(*port) => self.put(port),
            Action::Output { port, .. } => self.put(format_args!("output:{port}")),
            Action::Group(group) => self.put(format_args!("group:{group}")),
            Action::SetQueue(queue) => self.put(format_args!("set_queue:{queue}")),
            Action::Enqueue { port, queue } => self.put(format_args!("enqueue:{port}:{queue}")),
            Action::SetField(field) => self.set_field(version, field),
            Action::PushVlan(eth_type) => self.put(format_args!("push_vlan:0x{eth_type:04x}")),
            Action::PopVlan if version == Version::Of10 => self.put("strip_vlan"),
            Action::PopVlan => self.put("pop_vlan"),
            Action::PushMpls(eth_type) => self.put(format_args!("push_mpls:0x{eth_type:04x}")),
            Action::PopMpls(eth_type) => self.put(format_args!("pop_mpls:0x{eth_type:04x}")),
            Action::PushPbb(eth_type) => self.put(format_args!("push_pbb:0x{eth_type:04x}")),
            Action::PopPbb => self.put("pop_pbb"),
            Action::SetMplsTtl(ttl) => self.put(format_args!("set_mpls_ttl({ttl})")),
            Action::DecMplsTtl => self.put("dec_mpls_ttl"),
            Action::SetNwTtl(ttl) => self.put(format_args!("mod_nw_ttl:{ttl}")),
            Action::DecNwTtl => self.put("dec_ttl"),
            Action::CopyTtlOut => self.put("copy_ttl_out"),
            Action::CopyTtlIn => self.put("copy_ttl_in"),
            Action::SetVlanVid(vid) => self.put(format_args!("mod_vlan_vid:{vid}")),
            Action::SetVlanPcp(pcp) => self.put(format_args!("mod_vlan_pcp:{pcp}")),
            Action::SetTpSrc(port) => self.put(format_args!("mod_tp_src:{port}")),
            Action::SetTpDst(port) => self.put(format_args!("mod_tp_dst:{port}")),
            Action::Experimenter { id, body } => {
                self.put(format_args!("experimenter(0x{id:08x},0x{})", HexBytes(body)));
            }
            Action::Unknown { kind, body } => match (version, kind, &body[..]) {
                // The byte has bits outside the DSCP.
                (Version::Of10, 8, [tos, ..]) => self.put(format_args!("mod_nw_tos:{tos}")),
                (Version::Of13, 25, oxm) => match first_stated(oxm) {
                    Some(set) => self.put(format_args!("set_field:{}->{}", Impossible(&set), field_name(set.field))),
                    None => self.put(format_args!("unknown({kind},0x{})", HexBytes(body))),
                },
                _ => self.put(format_args!("unknown({kind},0x{})", HexBytes(body))),
            },
        }
    }

    fn set_field(&mut self, version: Version, set: &Constraint) {
        match of10_name(version, set.field) {
            Some("mod_nw_tos") => self.put(format_args!("mod_nw_tos:{}", set.value << 2)),
            Some(name) => self.put(format_args!("{name}:{}", Masked(set))),
            None => self.put(format_args!("set_field:{}->{}", Masked(set), field_name(set.field))),
        }
    }
}

/// Reads the first entry in these bytes.
fn first_stated(oxm: &[u8]) -> Option<Stated> {
    let (header, rest) = oxm.split_first_chunk::<4>()?;
    let header = u32::from_be_bytes(*header);
    constraint_in(header, rest.get(..(header & 0xff) as usize)?)
}

/// Reports whether Open vSwitch prints an output to this port as its name only.
fn is_named(port: PortNo) -> bool {
    port >= PortNo::IN_PORT
}

/// Returns the name of OpenFlow 1.0's action that sets `field`, if there is one.
fn of10_name(version: Version, field: Field) -> Option<&'static str> {
    match field {
        _ if version != Version::Of10 => None,
        Field::EthSrc => Some("mod_dl_src"),
        Field::EthDst => Some("mod_dl_dst"),
        Field::Ipv4Src => Some("mod_nw_src"),
        Field::Ipv4Dst => Some("mod_nw_dst"),
        Field::IpDscp => Some("mod_nw_tos"),
        Field::VlanPcp => Some("mod_vlan_pcp"),
        Field::TcpSrc | Field::UdpSrc | Field::SctpSrc => Some("mod_tp_src"),
        Field::TcpDst | Field::UdpDst | Field::SctpDst => Some("mod_tp_dst"),
        _ => None,
    }
}

/// Returns the name of a field in `set_field`: OXM's name, unless Open vSwitch has another.
pub(super) fn field_name(field: Field) -> &'static str {
    match field {
        Field::IpEcn => "nw_ecn",
        Field::IpProto => "nw_proto",
        Field::Ipv4Src => "ip_src",
        Field::Ipv4Dst => "ip_dst",
        Field::Icmpv4Type => "icmp_type",
        Field::Icmpv4Code => "icmp_code",
        Field::Ipv6Flabel => "ipv6_label",
        Field::Ipv6NdTarget => "nd_target",
        Field::Ipv6NdSll => "nd_sll",
        Field::Ipv6NdTll => "nd_tll",
        Field::TunnelId => "tun_id",
        other => other.name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(field: Field, value: u128) -> Action {
        Action::SetField(Constraint::exact(field, value))
    }

    fn check(version: Version, list: &[Action], text: &str) {
        assert_eq!(actions(version, list), text);
    }

    #[test]
    fn outputs_to_reserved_ports_are_names() {
        let ports = [1, 0, 0xffff_fff8, 0xffff_fff9, 0xffff_fffa, 0xffff_fffb, 0xffff_fffc, 0xffff_fffe];
        let mut list: Vec<Action> = ports.map(|p| Action::output(PortNo(p))).to_vec();
        list.push(Action::to_controller());
        list.push(Action::Output { port: PortNo::CONTROLLER, max_len: 0 });
        check(
            Version::Of13,
            &list,
            "output:1,output:0,IN_PORT,TABLE,NORMAL,FLOOD,ALL,LOCAL,CONTROLLER:65535,CONTROLLER:0",
        );
        check(Version::Of13, &[], "drop");
    }

    #[test]
    fn set_field_uses_the_names_of_open_vswitch() {
        let list = [
            set(Field::EthSrc, 1),
            set(Field::VlanVid, 0x1005),
            set(Field::IpDscp, 8),
            set(Field::IpEcn, 1),
            set(Field::Ipv4Dst, 1),
            set(Field::Ipv6Src, 1),
            set(Field::Ipv6Flabel, 8),
            set(Field::TcpDst, 80),
            set(Field::Metadata, 0),
            set(Field::TunnelId, 5),
            set(Field::Ipv6NdSll, 2),
        ];
        check(
            Version::Of13,
            &list,
            "set_field:00:00:00:00:00:01->eth_src,set_field:4101->vlan_vid,set_field:8->ip_dscp,\
             set_field:1->nw_ecn,set_field:0.0.0.1->ip_dst,set_field:::1->ipv6_src,set_field:0x8->ipv6_label,\
             set_field:80->tcp_dst,set_field:0->metadata,set_field:0x5->tun_id,set_field:00:00:00:00:00:02->nd_sll",
        );
    }

    #[test]
    fn openflow_1_0_has_an_action_for_each_field() {
        let list = [
            Action::SetVlanVid(5),
            Action::SetVlanPcp(5),
            Action::PopVlan,
            set(Field::EthSrc, 1),
            set(Field::EthDst, 2),
            set(Field::Ipv4Src, 0x0102_0304),
            set(Field::IpDscp, 8),
            Action::SetTpSrc(80),
            Action::Enqueue { port: PortNo(1), queue: 2 },
            Action::Enqueue { port: PortNo::LOCAL, queue: 2 },
        ];
        check(
            Version::Of10,
            &list,
            "mod_vlan_vid:5,mod_vlan_pcp:5,strip_vlan,mod_dl_src:00:00:00:00:00:01,mod_dl_dst:00:00:00:00:00:02,\
             mod_nw_src:1.2.3.4,mod_nw_tos:32,mod_tp_src:80,enqueue:1:2,enqueue:LOCAL:2",
        );
    }

    #[test]
    fn headers_are_pushed_and_popped_by_ethernet_type() {
        let list = [
            Action::Group(5),
            Action::SetQueue(5),
            Action::PushVlan(0x88a8),
            Action::PopVlan,
            Action::PushMpls(0x8847),
            Action::PopMpls(0x0800),
            Action::SetMplsTtl(5),
            Action::DecMplsTtl,
            Action::SetNwTtl(7),
            Action::DecNwTtl,
        ];
        check(
            Version::Of13,
            &list,
            "group:5,set_queue:5,push_vlan:0x88a8,pop_vlan,push_mpls:0x8847,pop_mpls:0x0800,set_mpls_ttl(5),\
             dec_mpls_ttl,mod_nw_ttl:7,dec_ttl",
        );
    }

    #[test]
    fn unknown_actions_are_printed_as_hex() {
        let list = [
            Action::Unknown { kind: 99, body: vec![0, 1, 2, 3] },
            Action::Experimenter { id: 0x2320, body: vec![0, 18] },
            Action::PushPbb(0x88e7),
            Action::PopPbb,
            Action::CopyTtlIn,
        ];
        check(
            Version::Of13,
            &list,
            "unknown(99,0x00010203),experimenter(0x00002320,0x0012),push_pbb:0x88e7,pop_pbb,copy_ttl_in",
        );
    }

    #[test]
    fn values_that_a_field_can_not_have_are_printed_as_fields() {
        let unknown = |kind, body: &[u8]| Action::Unknown { kind, body: body.to_vec() };
        let list = [
            unknown(25, &[0x80, 0, 0x10, 1, 64, 0, 0, 0]),
            unknown(25, &[0x80, 0, 0x17, 8, 10, 0, 0, 1, 255, 0, 0, 0]),
            unknown(25, &[0, 1, 0x3e, 4, 1, 2, 3, 4]),
            unknown(25, &[0x80]),
        ];
        check(
            Version::Of13,
            &list,
            "set_field:64->ip_dscp,set_field:10.0.0.1/8->ip_src,unknown(25,0x00013e0401020304),unknown(25,0x80)",
        );
        check(Version::Of10, &[unknown(8, &[67, 0, 0, 0]), unknown(8, &[])], "mod_nw_tos:67,unknown(8,0x)");
    }

    #[test]
    fn instructions_come_in_the_order_in_which_a_switch_obeys_them() {
        let list = [
            Instruction::GotoTable(3),
            Instruction::WriteMetadata { metadata: 5, mask: 0xff },
            Instruction::WriteActions(vec![Action::output(PortNo(3)), Action::Group(1)]),
            Instruction::ClearActions,
            Instruction::ApplyActions(vec![Action::output(PortNo(1))]),
            Instruction::Meter(1),
        ];
        assert_eq!(
            instructions(Version::Of13, &list),
            "meter:1,output:1,clear_actions,write_actions(output:3,group:1),write_metadata:0x5/0xff,goto_table:3"
        );
        assert_eq!(instructions(Version::Of13, &[]), "drop");
        assert_eq!(instructions(Version::Of13, &[Instruction::ApplyActions(vec![])]), "drop");
        assert_eq!(instructions(Version::Of13, &[Instruction::WriteActions(vec![])]), "write_actions(drop)");
        let all = Instruction::WriteMetadata { metadata: 5, mask: u64::MAX };
        assert_eq!(instructions(Version::Of13, &[all]), "write_metadata:0x5");
    }
}
