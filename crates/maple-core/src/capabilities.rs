//! The abilities of a switch to match and to act, as far as the compiler and the tables need to know them.
//!
//! The compiler never states what a switch can't match, and leaves such packets to the controller. So a set that is too
//! small costs speed. If a set is too large, the switch answers with an error message and lacks the rule.

use maple_wire::eth_type::value::IPV6;
use maple_wire::field::{VLAN_PRESENT, ValueKind};
use maple_wire::msg::stats::Desc;
use maple_wire::msg::{Features, Version};
use maple_wire::{Constraint, Dpid, Field, FieldSet, PortNo};
use serde::{Deserialize, Serialize};

/// The matches that a switch accepts, the number of its tables, and whether it has bundles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The OpenFlow version of the session with the switch.
    pub version: Version,
    /// The fields that the switch can match exactly.
    pub fields: FieldSet,
    /// The subset of `fields` that the switch can match under a mask of leading bits (a prefix).
    pub prefixes: FieldSet,
    /// The subset of `fields` that the switch can match under any mask.
    pub maskable: FieldSet,
    /// Whether a match on a field must state the field's prerequisites (1.3 §7.2.3.6).
    pub prerequisites: bool,
    /// Whether the switch refuses numbers that do not fit its own structures: ports above 16 bits, ARP operations above
    /// 8 bits.
    pub refuses_large_numbers: bool,
    /// The number of tables of the switch, at least 1.
    pub tables: u8,
    /// Whether the switch applies all changes of a bundle together, or none.
    pub bundles: bool,
    /// Whether rules may write the action sets of packets, and clear them.
    pub action_sets: bool,
}

/// The abilities of a switch, as far as rules depend on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchModel {
    /// The OpenFlow version of the session with the switch.
    pub version: Version,
    /// The number of tables of the switch.
    pub tables: u8,
    /// Whether the switch is Open vSwitch.
    pub is_open_vswitch: bool,
    /// Whether the switch has bundles.
    pub has_bundles: bool,
}

impl SwitchModel {
    /// Returns what is remembered of a switch with these capabilities.
    pub(crate) fn from_capabilities(capabilities: &Capabilities) -> SwitchModel {
        let Capabilities { version, tables, refuses_large_numbers, bundles, .. } = *capabilities;
        SwitchModel { version, tables, is_open_vswitch: refuses_large_numbers, has_bundles: bundles }
    }

    /// Returns the capabilities of the remembered switch.
    pub(crate) fn capabilities(self, dpid: Dpid) -> Capabilities {
        let SwitchModel { version, tables, is_open_vswitch, has_bundles } = self;
        let (n_buffers, auxiliary_id, capabilities, actions) = (0, 0, 0, 0);
        let ports = Vec::new();
        let features = Features { dpid, n_buffers, n_tables: tables, auxiliary_id, capabilities, actions, ports };
        let guaranteed = Capabilities::from_features(version, &features).bundles(has_bundles);
        if is_open_vswitch { guaranteed.of_open_vswitch() } else { guaranteed }
    }
}

/// Fields of 1.3 that Open vSwitch doesn't have. [`Capabilities::from_features`] leaves them out.
const OF13_RARE: FieldSet = FieldSet::from_fields(&[Field::InPhyPort, Field::PbbIsid, Field::Ipv6Exthdr]);

/// The manufacturer in Open vSwitch's description of itself.
const OVS_MANUFACTURER: &str = "Nicira, Inc.";
/// The hardware in Open vSwitch's description of itself.
const OVS_HARDWARE: &str = "Open vSwitch";

impl Capabilities {
    /// Returns the capabilities that the version and the switch's features guarantee.
    pub fn from_features(version: Version, features: &Features) -> Capabilities {
        let tables = features.n_tables.max(1);
        match version {
            Version::Of10 => {
                let (fields, prefixes) = (FieldSet::OF10, FieldSet::OF10_PREFIXES);
                let (maskable, prerequisites, refuses_large_numbers) = (FieldSet::EMPTY, true, false);
                Capabilities {
                    version,
                    fields,
                    prefixes,
                    maskable,
                    prerequisites,
                    refuses_large_numbers,
                    tables,
                    bundles: false,
                    action_sets: false,
                }
            }
            Version::Of13 => {
                let (mut fields, mut maskable) = (FieldSet::EMPTY, FieldSet::EMPTY);
                for field in Field::ALL.into_iter().filter(|field| !OF13_RARE.contains(*field)) {
                    fields.insert(field);
                    if field.is_maskable() {
                        maskable.insert(field);
                    }
                }
                let (prefixes, prerequisites, refuses_large_numbers) = (maskable, true, false);
                Capabilities {
                    version,
                    fields,
                    prefixes,
                    maskable,
                    prerequisites,
                    refuses_large_numbers,
                    tables,
                    bundles: false,
                    action_sets: true,
                }
            }
        }
    }

    /// Returns the capabilities for policies on abstract headers, whose fields have no prerequisites: any mask on any
    /// field. No switch can do that. Such rules are only for counting and viewing.
    pub fn of_abstract_headers() -> Capabilities {
        let all = FieldSet::from_fields(&Field::ALL);
        Capabilities {
            version: Version::Of13,
            fields: all,
            prefixes: all,
            maskable: all,
            prerequisites: false,
            refuses_large_numbers: false,
            tables: 1,
            bundles: false,
            action_sets: false,
        }
    }

    /// Adds what a switch with this description can do besides.
    #[must_use]
    pub fn described(self, desc: &Desc) -> Capabilities {
        let is_open_vswitch = desc.manufacturer == OVS_MANUFACTURER.into() && desc.hardware == OVS_HARDWARE.into();
        if is_open_vswitch { self.of_open_vswitch() } else { self }
    }

    /// Adjusts these capabilities to Open vSwitch (3.1). From 1.3 on it accepts masks on transport ports, so that
    /// ranges of ports become a few masked matches. 1.0 messages can't express that.
    #[must_use]
    pub fn of_open_vswitch(mut self) -> Capabilities {
        self.refuses_large_numbers = true;
        if self.version == Version::Of13 {
            // 1.3 forbids masks on transport ports, but Open vSwitch accepts any.
            for field in Field::ALL.into_iter().filter(|field| field.kind() == ValueKind::TransportPort) {
                self.maskable.insert(field);
                self.prefixes.insert(field);
            }
        }
        self
    }

    /// Records whether the switch has bundles.
    #[must_use]
    pub fn bundles(self, bundles: bool) -> Capabilities {
        Capabilities { bundles, ..self }
    }

    /// Reports whether the switch can match `constraint` in a rule with the constraints `all` (in OXM order). Under 1.3
    /// §7.2.3.6, `all` must state the field's prerequisites.
    pub fn can_match(&self, constraint: &Constraint, all: &[Constraint]) -> bool {
        self.fields.contains(constraint.field)
            && self.can_mask(constraint)
            && (!self.prerequisites || states_prerequisites(constraint.field, all))
            && (self.version != Version::Of10 || of10_can_say(constraint, all))
            && (!self.refuses_large_numbers || fits_open_vswitch(constraint))
    }

    /// Reports whether the switch can match all of these constraints together.
    pub fn can_match_all(&self, all: &[Constraint]) -> bool {
        all.iter().all(|constraint| self.can_match(constraint, all))
    }

    /// Reports whether the switch accepts the mask of this constraint on its field.
    pub(crate) fn can_mask(&self, constraint: &Constraint) -> bool {
        let Constraint { field, mask, .. } = *constraint;
        constraint.is_exact()
            || self.maskable.contains(field)
            || self.prefixes.contains(field) && field.prefix_length(mask).is_some()
    }
}

/// Reports whether `all` implies one of the field's prerequisite alternatives.
fn states_prerequisites(field: Field, all: &[Constraint]) -> bool {
    field.prerequisites().iter().any(|alternative| {
        alternative.iter().all(|need| {
            all.iter()
                .any(|c| c.field == need.field && c.mask & need.mask == need.mask && c.value & need.mask == need.value)
        })
    })
}

/// Reports whether `ofp_match` of 1.0 can express this constraint. Its limits go beyond its set of fields.
fn of10_can_say(constraint: &Constraint, all: &[Constraint]) -> bool {
    let ipv6 = || all.iter().any(|c| c.field == Field::EthType && c.value == IPV6);
    match constraint.field {
        // The network and transport fields of 1.0 mean IPv4 or ARP.
        Field::IpDscp | Field::IpProto | Field::TcpSrc | Field::TcpDst | Field::UdpSrc | Field::UdpDst => !ipv6(),
        // The low eight bits are in nw_proto. Larger operations read as 0, so 0 is not one single operation.
        Field::ArpOp => (1..=0xff).contains(&constraint.value),
        Field::InPort => PortNo(constraint.value as u32).to_of10().is_some(),
        // No tag, or a VLAN id with the bit that marks a tag; an id without that bit can't be matched.
        Field::VlanVid => constraint.value == 0 || constraint.value & VLAN_PRESENT != 0,
        _ => true,
    }
}

/// Reports whether the value fits Open vSwitch's structures.
fn fits_open_vswitch(constraint: &Constraint) -> bool {
    match constraint.field {
        Field::InPort => PortNo(constraint.value as u32).to_of10().is_some(),
        Field::ArpOp => constraint.value <= 0xff,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capabilities(version: Version) -> Capabilities {
        let features = Features::new(Dpid(1), 0);
        Capabilities::from_features(version, &features)
    }

    fn eth_type(value: u128) -> Constraint {
        Constraint::exact(Field::EthType, value)
    }

    #[test]
    fn of10_transport_fields_mean_ipv4() {
        let tcp = |eth_type| vec![eth_type, Constraint::exact(Field::IpProto, 6), Constraint::exact(Field::TcpDst, 22)];
        let of10 = capabilities(Version::Of10);
        assert!(of10.can_match_all(&tcp(eth_type(0x800))));
        assert!(!of10.can_match_all(&tcp(eth_type(0x86dd))));
        assert!(of10.can_match_all(&[eth_type(0x86dd)]));
        assert!(capabilities(Version::Of13).can_match_all(&tcp(eth_type(0x86dd))));
    }

    #[test]
    fn of10_takes_prefixes_of_addresses_and_no_other_mask() {
        let masked = |mask| [eth_type(0x800), Constraint::masked(Field::Ipv4Src, 0x0a000000, mask)];
        let of10 = capabilities(Version::Of10);
        assert!(of10.can_match_all(&masked(0xff000000)));
        assert!(!of10.can_match_all(&masked(0xff0000ff)));
        assert!(!of10.can_match_all(&[Constraint::masked(Field::EthDst, 1 << 40, 1 << 40)]));
        assert!(capabilities(Version::Of13).can_match_all(&masked(0xff0000ff)));
    }

    #[test]
    fn of10_names_only_operations_and_ports_that_its_bits_hold() {
        let of10 = capabilities(Version::Of10);
        let arp = |op| [eth_type(0x806), Constraint::exact(Field::ArpOp, op)];
        assert_eq!([0, 1, 255, 256].map(|op| of10.can_match_all(&arp(op))), [false, true, true, false]);
        let port = |port| [Constraint::exact(Field::InPort, port)];
        let ports = [1, 0xfeff, 0xff00, 0xffff_fffe].map(|number| of10.can_match_all(&port(number)));
        assert_eq!(ports, [true, true, false, true]);
        let vlan = |vid| [Constraint::exact(Field::VlanVid, vid)];
        assert_eq!([0, 5, 0x1005].map(|vid| of10.can_match_all(&vlan(vid))), [true, false, true]);
    }

    #[test]
    fn open_vswitch_has_no_room_for_large_ports_and_operations() {
        let strict = capabilities(Version::Of13);
        for all in [
            vec![Constraint::exact(Field::InPort, 0x10000)],
            vec![eth_type(0x806), Constraint::exact(Field::ArpOp, 256)],
        ] {
            assert!(strict.can_match_all(&all));
            assert!(!strict.clone().of_open_vswitch().can_match_all(&all));
        }
    }

    #[test]
    fn a_field_is_matched_only_beside_its_prerequisites() {
        let of13 = capabilities(Version::Of13);
        assert!(!of13.can_match_all(&[Constraint::exact(Field::TcpDst, 22)]));
        assert!(!of13.can_match_all(&[Constraint::exact(Field::VlanPcp, 1)]));
        let tagged = Constraint::masked(Field::VlanVid, VLAN_PRESENT, VLAN_PRESENT);
        assert!(of13.can_match_all(&[tagged, Constraint::exact(Field::VlanPcp, 1)]));
    }

    #[test]
    fn abstract_headers_have_their_fields_by_themselves() {
        let all = [Constraint::masked(Field::TcpDst, 0x16, 0x1f), Constraint::exact(Field::VlanPcp, 1)];
        assert!(Capabilities::of_abstract_headers().can_match_all(&all));
    }

    #[test]
    fn masks_on_ports_are_for_switches_that_say_so() {
        let all =
            [eth_type(0x800), Constraint::exact(Field::IpProto, 6), Constraint::masked(Field::TcpDst, 1024, 0xfc00)];
        let takes = |capabilities: Capabilities| capabilities.can_match_all(&all);
        assert!(!takes(capabilities(Version::Of13)));
        let describe =
            |hardware: &str| Desc { manufacturer: "Nicira, Inc.".into(), hardware: hardware.into(), ..Desc::default() };
        assert!(takes(capabilities(Version::Of13).described(&describe("Open vSwitch"))));
        assert!(!takes(capabilities(Version::Of13).described(&describe("Something else"))));
        assert!(!takes(capabilities(Version::Of10).described(&describe("Open vSwitch"))));
        assert_eq!(capabilities(Version::Of10).tables, 1, "every switch has a table");
    }
}
