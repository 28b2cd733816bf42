//! A condition on fields, as conditions that state the prerequisites of these fields.
//!
//! A packet fits if it has all fields and they are as the condition says. Some fields have several alternatives of
//! prerequisites (`tcp_dst`: IPv4 or IPv6), so the result is one condition for each choice of alternatives that agree
//! with each other and with the condition, IPv4 before IPv6. A packet that fits one of them fits the condition.

use maple_wire::Constraint;
use maple_wire::field::{Field, Prerequisite};

use super::recorder::constraint_of;
use super::{Cond, Range};

/// Returns the conditions that state `cond` with its prerequisites, in the order in which they are to be asked; none if
/// no packet can fit.
pub(super) fn with_prerequisites(
    cond: &Cond,
    prerequisites: impl Fn(Field) -> &'static [&'static [Prerequisite]],
) -> Vec<Cond> {
    let mut choices: Vec<Cond> = plain(cond).into_iter().collect();
    let fields = cond.constraints.iter().map(|c| c.field).chain(cond.ranges.iter().map(|r| r.field));
    for field in fields {
        let with_alternatives = |choice: &Cond| -> Vec<Cond> {
            let alternatives = prerequisites(field).iter();
            alternatives
                .filter_map(|all| all.iter().try_fold(choice.clone(), |cond, part| meet(cond, constraint_of(part))))
                .collect()
        };
        choices = choices.iter().flat_map(with_alternatives).collect();
    }
    let mut conds: Vec<Cond> = Vec::new();
    for cond in choices.into_iter().filter_map(settled) {
        if !conds.contains(&cond) {
            conds.push(cond);
        }
    }
    conds
}

/// Returns the condition with each value masked and each range within its field; `None` if no value fits.
pub(super) fn plain(cond: &Cond) -> Option<Cond> {
    let mut plain = Cond::default();
    for c in &cond.constraints {
        if c.value & !c.field.full_mask() != 0 {
            return None;
        }
        plain = plain.and(Constraint::masked(c.field, c.value, c.mask));
    }
    for range in &cond.ranges {
        let hi = range.hi.min(range.field.full_mask());
        if range.lo > hi {
            return None;
        }
        plain = plain.within(Range { hi, ..*range });
    }
    Some(plain)
}

/// Adds a constraint to what the condition says of the field; `None` if they contradict each other.
pub(super) fn meet(cond: Cond, with: Constraint) -> Option<Cond> {
    let stated = cond.constraints.iter().find(|c| c.field == with.field).copied();
    let Some(stated) = stated else { return Some(cond.and(with)) };
    let agree = (stated.value ^ with.value) & stated.mask & with.mask == 0;
    let Constraint { field, .. } = with;
    agree.then(|| cond.and(Constraint { field, value: stated.value | with.value, mask: stated.mask | with.mask }))
}

/// Removes constraints that say nothing. Merges a constraint on leading bits and a range of the same field into one of
/// the two. Returns `None` if no packet fits.
fn settled(cond: Cond) -> Option<Cond> {
    let Cond { constraints: all, ranges } = cond;
    let mut settled = Cond { constraints: all.into_iter().filter(|c| c.mask != 0).collect(), ranges: Vec::new() };
    for range in ranges {
        let Range { field, lo, hi } = range;
        let leading = |c: &Constraint| c.field == field && field.prefix_length(c.mask).is_some();
        let Some(at) = settled.constraints.iter().position(leading) else {
            settled.ranges.push(range);
            continue;
        };
        let (first, last) = (
            settled.constraints[at].value,
            settled.constraints[at].value | (field.full_mask() & !settled.constraints[at].mask),
        );
        let (lo, hi) = (lo.max(first), hi.min(last));
        if lo > hi {
            return None;
        }
        if (lo, hi) != (first, last) {
            settled.constraints.remove(at);
            settled.ranges.push(Range { field, lo, hi });
        }
    }
    Some(settled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cond_texts(cond: Cond) -> Vec<String> {
        with_prerequisites(&cond, Field::prerequisites).iter().map(ToString::to_string).collect()
    }

    fn ports(field: Field, lo: u128, hi: u128) -> Cond {
        Cond::default().within(Range { field, lo, hi })
    }

    #[test]
    fn each_alternative_of_the_prerequisites_yields_a_condition() {
        let ssh = Cond::default().and(Constraint::exact(Field::TcpDst, 22));
        let wanted = ["eth_type=0x800, ip_proto=6, tcp_dst=22", "eth_type=0x86dd, ip_proto=6, tcp_dst=22"];
        assert_eq!(cond_texts(ssh.clone()), wanted);
        let from = Constraint::masked(Field::Ipv4Src, 10 << 24, 0xff00_0000);
        assert_eq!(cond_texts(ssh.clone().and(from)), ["eth_type=0x800, ip_proto=6, ipv4_src=10.0.0.0/8, tcp_dst=22"]);
        assert_eq!(cond_texts(ssh.clone().and(Constraint::exact(Field::IpProto, 17))), [""; 0]);
        let both = ports(Field::TcpSrc, 1024, 2047).and(Constraint::exact(Field::TcpDst, 22));
        assert_eq!(cond_texts(both).len(), 2);
    }

    #[test]
    fn a_range_and_what_the_field_must_be_besides_become_one() {
        let tagged = |lo, hi| ports(Field::VlanVid, lo, hi).and(Constraint::exact(Field::VlanPcp, 3));
        assert_eq!(cond_texts(tagged(0x1001, 0x100a)), ["vlan_pcp=3, vlan_vid=1..10"]);
        assert_eq!(cond_texts(tagged(0, 0x1005)), ["vlan_pcp=3, vlan_vid=0..5"]);
        assert_eq!(cond_texts(tagged(0, 0x1fff)), ["vlan_vid=0x1000/0x1000, vlan_pcp=3"]);
        assert_eq!(cond_texts(tagged(1, 0xfff)), [""; 0]);
        let proto = ports(Field::IpProto, 6, 17).and(Constraint::exact(Field::UdpDst, 53));
        assert_eq!(cond_texts(proto)[0], "eth_type=0x800, ip_proto=17, udp_dst=53");
    }

    #[test]
    fn impossible_values_fit_no_packet() {
        assert_eq!(cond_texts(ports(Field::TcpDst, 5, 4)), [""; 0]);
        assert_eq!(
            cond_texts(Cond::default().and(Constraint { field: Field::IpDscp, value: 64, mask: 0x7f })),
            [""; 0]
        );
        let there = Cond::default().and(Constraint { field: Field::ArpOp, value: 0, mask: 0 });
        assert_eq!(cond_texts(there), ["eth_type=0x806"]);
    }
}
