//! The table against the plainest possible one: a list of rules in the order of arrival.

use proptest::prelude::*;

use super::*;

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

/// Generates flow-mods on few matches, priorities and cookies, so that they select rules of each other.
fn request() -> impl Strategy<Value = FlowMod> {
    let command = proptest::sample::select(vec![
        FlowModCommand::Add,
        FlowModCommand::Add,
        FlowModCommand::Add,
        FlowModCommand::Modify,
        FlowModCommand::ModifyStrict,
        FlowModCommand::Delete,
        FlowModCommand::DeleteStrict,
    ]);
    let out_port = proptest::sample::select(vec![PortNo::ANY, PortNo::ANY, PortNo(1)]);
    (command, 0u16..4, conditions(), 1u32..4, (0u64..2, 0u64..2), out_port).prop_map(
        |(command, priority, conditions, port, (cookie, cookie_mask), out_port)| {
            let actions = vec![Instruction::ApplyActions(vec![Action::output(PortNo(port))])];
            let request = FlowMod::new(command, priority, Match::from_constraints(conditions), actions);
            let cookie_mask = if command == FlowModCommand::Add { 0 } else { cookie_mask };
            FlowMod { cookie, cookie_mask, out_port, ..request }
        },
    )
}

/// A table as a list of rules in the order of arrival, each tested against each packet.
#[derive(Default)]
struct PlainTable {
    rules: Vec<FlowMod>,
}

impl PlainTable {
    /// Obeys a flow-mod. Returns the number of rules that it changed or deleted.
    fn obey(&mut self, request: &FlowMod) -> usize {
        let strict = matches!(request.command, FlowModCommand::ModifyStrict | FlowModCommand::DeleteStrict);
        let is_same = |rule: &FlowMod| (rule.priority, &rule.matching) == (request.priority, &request.matching);
        let selects = |rule: &FlowMod| {
            let wide = || {
                let conditions: Vec<Constraint> = rule.matching.constraints().copied().collect();
                request.matching.constraints().all(|wide| implied(&conditions, wide))
            };
            let has_cookie = (rule.cookie ^ request.cookie) & request.cookie_mask == 0;
            has_cookie && if strict { is_same(rule) } else { wide() }
        };
        match request.command {
            FlowModCommand::Add => {
                match self.rules.iter_mut().find(|rule| is_same(rule)) {
                    Some(old) => old.clone_from(request),
                    None => self.rules.push(request.clone()),
                }
                0
            }
            FlowModCommand::Modify | FlowModCommand::ModifyStrict => {
                let chosen = self.rules.iter_mut().filter(|rule| selects(rule));
                chosen.map(|rule| rule.instructions.clone_from(&request.instructions)).count()
            }
            FlowModCommand::Delete | FlowModCommand::DeleteStrict => {
                let before = self.rules.len();
                let leads = |rule: &FlowMod| Instruction::lead_to(&rule.instructions, request.out_port, u32::MAX);
                self.rules.retain(|rule| !(selects(rule) && leads(rule)));
                before - self.rules.len()
            }
        }
    }

    /// Returns the rules, highest priority first, older ones first among equals.
    fn rules(&self) -> Vec<&FlowMod> {
        let mut rules: Vec<&FlowMod> = self.rules.iter().collect();
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.priority));
        rules
    }

    /// Returns the instructions for a packet, and whether another rule of this priority has others.
    fn found(&self, packet: impl Fn(Field) -> u128) -> Option<(Vec<Instruction>, bool)> {
        let mut rules = self.rules();
        rules.retain(|rule| rule.matching.constraints().all(|c| packet(c.field) & c.mask == c.value));
        let first = *rules.first()?;
        let equals = rules.iter().filter(|rule| rule.priority == first.priority);
        let is_ambiguous = equals.into_iter().any(|rule| rule.instructions != first.instructions);
        Some((first.instructions.clone(), is_ambiguous))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn a_table_obeys_and_finds_as_a_list_of_rules_does(
        requests in proptest::collection::vec(request(), 1..40),
        packets in proptest::collection::vec((1u32..4, 0u8..4, 0u8..4), 1..10),
    ) {
        let (mut table, mut plain) = (Table::new(1000), PlainTable::default());
        for request in requests {
            let strict = matches!(request.command, FlowModCommand::ModifyStrict | FlowModCommand::DeleteStrict);
            let changed = match request.command {
                FlowModCommand::Add => {
                    table.add(0, Version::Of13, &request).expect("there is room");
                    0
                }
                FlowModCommand::Modify | FlowModCommand::ModifyStrict => table.modify(Version::Of13, &request, strict),
                FlowModCommand::Delete | FlowModCommand::DeleteStrict => table.delete(&request, strict).len(),
            };
            prop_assert_eq!(changed, plain.obey(&request));
            let rules = table.rules().into_iter().map(|r| (r.priority, &r.matching, &r.instructions[..], r.cookie));
            let wanted = plain.rules().into_iter().map(|r| (r.priority, &r.matching, &r.instructions[..], r.cookie));
            prop_assert_eq!(rules.collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
            prop_assert_eq!(table.len(), plain.rules.len());
        }
        for (port, dst, src) in packets {
            let packet = |field| match field {
                Field::InPort => u128::from(port),
                Field::EthDst => u128::from(dst),
                _ => u128::from(src),
            };
            let found = table.lookup(|field| Some(packet(field)));
            let found = found.map(|found| (found.rule.instructions.to_vec(), found.ambiguous));
            prop_assert_eq!(found, plain.found(packet));
        }
    }
}
