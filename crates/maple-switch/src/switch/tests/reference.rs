//! The table against the plainest possible one: a list of rules in the order of arrival.

use proptest::prelude::*;

use super::*;

/// A rule as the reference keeps it: priority, conditions, output port.
type Plain = (u16, Vec<Constraint>, u32);

/// The semantics of OpenFlow for a list of rules, written independently of the table's code.
#[derive(Default)]
struct Reference {
    rules: Vec<Plain>,
}

impl Reference {
    fn add(&mut self, new: Plain) {
        match self.rules.iter_mut().find(|old| old.0 == new.0 && old.1 == new.1) {
            Some(old) => old.2 = new.2,
            None => self.rules.push(new),
        }
    }

    fn delete(&mut self, conditions: &[Constraint]) {
        self.rules.retain(|rule| !conditions.iter().all(|wide| implied(&rule.1, wide)));
    }

    /// Returns the output of the first matching rule with the highest priority.
    fn output(&self, packet: impl Fn(Field) -> u128) -> Option<u32> {
        let fits = |rule: &&Plain| rule.1.iter().all(|c| packet(c.field) & c.mask == c.value);
        let matching: Vec<&Plain> = self.rules.iter().filter(fits).collect();
        let best = matching.iter().map(|r| r.0).max()?;
        matching.into_iter().find(|r| r.0 == best).map(|r| r.2)
    }
}

/// Reports whether all packets that fulfil the conditions also fulfil `wide`.
fn implied(conditions: &[Constraint], wide: &Constraint) -> bool {
    conditions.iter().any(|c| c.field == wide.field && c.mask & wide.mask == wide.mask && wide.holds(c.value))
}

/// Generates conditions on few values and masks, so that rules overlap and contain each other.
fn conditions() -> impl Strategy<Value = Vec<Constraint>> {
    let field = |field: Field, masks: &'static [u128]| {
        prop_oneof![
            1 => Just(None),
            2 => (0u128..4, proptest::sample::select(masks))
                .prop_map(move |(value, mask)| Some(Constraint::masked(field, value, mask)))
        ]
    };
    let src = field(Field::EthSrc, &[0xffff_ffff_ffff, 1, 2]);
    let dst = field(Field::EthDst, &[0xffff_ffff_ffff, 1, 2]);
    let port = field(Field::InPort, &[0xffff_ffff]);
    (port, dst, src).prop_map(|(port, dst, src)| [port, dst, src].into_iter().flatten().collect())
}

#[derive(Clone, Debug)]
enum Step {
    Add(u16, Vec<Constraint>, u32),
    Delete(Vec<Constraint>),
    Packet(u32, u8, u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u16..4, conditions(), 5u32..9).prop_map(|(p, c, out)| Step::Add(p, c, out)),
        1 => conditions().prop_map(Step::Delete),
        6 => (1u32..4, 0u8..4, 0u8..4).prop_map(|(port, dst, src)| Step::Packet(port, dst, src)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn the_table_does_what_the_plain_list_does(steps in proptest::collection::vec(step(), 1..60)) {
        let mut bench = Bench::new(Version::Of13);
        (5..9).for_each(|port| { bench.switch.add_port(0, PortNo(port)); });
        let mut reference = Reference::default();
        for step in steps {
            match step {
                Step::Add(priority, conditions, out) => {
                    let matching = Match::from_constraints(conditions.clone());
                    let actions = vec![Instruction::ApplyActions(vec![Action::output(PortNo(out))])];
                    bench.say(Message::FlowMod(FlowMod::new(FlowModCommand::Add, priority, matching, actions)));
                    reference.add((priority, conditions, out));
                }
                Step::Delete(conditions) => {
                    let matching = Match::from_constraints(conditions.clone());
                    bench.say(Message::FlowMod(FlowMod::new(FlowModCommand::Delete, 0, matching, vec![])));
                    reference.delete(&conditions);
                }
                Step::Packet(port, dst, src) => {
                    let frame = Frame::ethernet([0, 0, 0, 0, 0, dst], [0, 0, 0, 0, 0, src]).raw(0x88b5, &[0; 46]);
                    let expected = reference.output(|field| match field {
                        Field::InPort => u128::from(port),
                        Field::EthDst => u128::from(dst),
                        _ => u128::from(src),
                    });
                    let expected: Vec<String> = expected.iter().map(u32::to_string).collect();
                    prop_assert_eq!(bench.send(port, &frame), expected);
                }
            }
        }
    }
}
