//! Random policies over a handful of fields, and random packets for them.
//!
//! The values of each field are few, so that packets often agree with each other and with the questions of policies.

use std::collections::BTreeMap;

use maple_core::{Fields, LeafAction, Recorder, Rule, Trace};
use maple_wire::{Action, Field, Instruction, PortNo};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// A packet as a set of values. The fields' prerequisites determine which of them it has.
#[derive(Clone, Debug)]
pub struct Headers(pub BTreeMap<Field, u128>);

impl Fields for Headers {
    fn value(&self, field: Field) -> Option<u128> {
        let raw = |field| self.0.get(&field).copied().unwrap_or(0);
        let mut alternatives = field.prerequisites().iter();
        let has = alternatives
            .any(|all| all.iter().all(|c| self.value(c.field).is_some_and(|value| value & c.mask == c.value)));
        has.then(|| raw(field))
    }

    fn is_captured(&self, _: Field) -> bool {
        true
    }
}

/// A question of a policy.
#[derive(Clone, Debug)]
pub enum Question {
    Equals { field: Field, value: u128, mask: u128 },
    InRange { field: Field, lo: u128, hi: u128 },
    Present { field: Field },
}

/// A policy: a decision tree.
#[derive(Clone, Debug)]
pub enum Program {
    Answer(u32),
    /// Reads and continues with the arm for the value: absent fields take the first arm.
    Read {
        field: Field,
        mask: u128,
        arms: Vec<Program>,
    },
    Ask {
        question: Question,
        yes: Box<Program>,
        no: Box<Program>,
    },
}

/// The answer that stands for [`LeafAction::Controller`].
pub const CONTROLLER: u32 = 5;

impl Program {
    /// Returns the answer from the packet's values alone.
    pub fn eval(&self, packet: &Headers) -> u32 {
        let mut at = self;
        loop {
            at = match at {
                Program::Answer(answer) => return *answer,
                Program::Read { field, mask, arms } => arm(arms, packet.value(*field).map(|value| value & mask)),
                Program::Ask { question, yes, no } => {
                    if question.eval(packet) {
                        yes
                    } else {
                        no
                    }
                }
            }
        }
    }

    /// Returns the answer and the trace of a run with a recorder.
    pub fn run(&self, packet: &Headers) -> (u32, Trace) {
        let mut recorder = Recorder::new();
        let mut at = self;
        loop {
            at = match at {
                Program::Answer(answer) => return (*answer, recorder.finish()),
                Program::Read { field, mask, arms } => arm(arms, recorder.read(packet, *field, *mask, None)),
                Program::Ask { question, yes, no } => {
                    if question.ask(&mut recorder, packet) {
                        yes
                    } else {
                        no
                    }
                }
            }
        }
    }

    /// Reports whether any question is about one of these fields.
    pub fn mentions(&self, fields: &[Field]) -> bool {
        match self {
            Program::Answer(_) => false,
            Program::Read { field, arms, .. } => fields.contains(field) || arms.iter().any(|arm| arm.mentions(fields)),
            Program::Ask { question, yes, no } => {
                fields.contains(&question.field()) || yes.mentions(fields) || no.mentions(fields)
            }
        }
    }
}

impl Question {
    fn field(&self) -> Field {
        match self {
            Question::Equals { field, .. } | Question::InRange { field, .. } | Question::Present { field } => *field,
        }
    }

    fn eval(&self, packet: &Headers) -> bool {
        let value = packet.value(self.field());
        match *self {
            Question::Equals { value: wanted, mask, .. } => value.is_some_and(|v| v & mask == wanted & mask),
            Question::InRange { lo, hi, .. } => value.is_some_and(|v| lo <= v && v <= hi),
            Question::Present { .. } => value.is_some(),
        }
    }

    fn ask(&self, recorder: &mut Recorder, packet: &Headers) -> bool {
        match *self {
            Question::Equals { field, value, mask } => recorder.equals(packet, field, value, mask, None),
            Question::InRange { field, lo, hi } => recorder.in_range(packet, field, lo, hi, None),
            Question::Present { field } => recorder.present(packet, field, None),
        }
    }
}

fn arm(arms: &[Program], value: Option<u128>) -> &Program {
    &arms[value.map_or(0, |value| (value % 7) as usize % arms.len())]
}

/// Returns what a switch does for an answer.
pub fn action(answer: u32) -> LeafAction {
    match answer {
        CONTROLLER => LeafAction::Controller,
        0 => LeafAction::Apply(Vec::new()),
        port => LeafAction::Apply(vec![Instruction::ApplyActions(vec![Action::output(PortNo(port))])]),
    }
}

/// Returns what a table does with a packet, as an answer, by a linear scan. Rules of equal priority must agree.
pub fn scan(rules: &[Rule], packet: &Headers) -> u32 {
    let fitting = || rules.iter().filter(|rule| rule.matching.holds(|field| packet.value(field)));
    let Some(first) = fitting().max_by_key(|rule| rule.priority) else { return CONTROLLER };
    for rule in fitting().filter(|rule| rule.priority == first.priority) {
        assert_eq!(rule.instructions, first.instructions, "{rule:?} and {first:?} overlap at one priority");
    }
    match &first.instructions[..] {
        [] => 0,
        [Instruction::ApplyActions(actions)] => match actions.as_slice() {
            [Action::Output { port, .. }] if *port == PortNo::CONTROLLER => CONTROLLER,
            [Action::Output { port, .. }] => port.0,
            other => panic!("no policy answers {other:?}"),
        },
        other => panic!("no policy answers {other:?}"),
    }
}

/// Returns the values of a field that packets have and policies ask for.
fn domain(field: Field) -> &'static [u128] {
    match field {
        Field::InPort => &[1, 2, 3],
        Field::EthSrc | Field::EthDst => &[1, 2, 0x0100_0000_0001],
        Field::EthType => &[0x800, 0x800, 0x86dd, 0x806, 0x1234],
        Field::VlanVid => &[0, 0x1001, 0x1002],
        Field::VlanPcp => &[0, 3],
        Field::IpDscp => &[0, 1, 46],
        Field::IpEcn => &[0, 3],
        Field::IpProto => &[6, 6, 17, 1, 58],
        Field::Ipv4Src | Field::Ipv4Dst => &[0x0a00_0001, 0x0a00_0002, 0x0a00_0102, 0x0b00_0001],
        Field::TcpSrc | Field::TcpDst | Field::UdpDst => &[20, 21, 22, 80, 1023, 1024, 5000, 65535],
        Field::ArpOp => &[0, 1, 2, 256],
        Field::ArpSpa => &[0x0a00_0001, 0x0a00_0002],
        Field::Ipv6Src => &[1, 2, 1 << 127],
        Field::Icmpv4Type => &[0, 8],
        _ => &[],
    }
}

fn fields() -> Vec<Field> {
    Field::ALL.into_iter().filter(|field| !domain(*field).is_empty()).collect()
}

fn mask(field: Field) -> BoxedStrategy<u128> {
    let full = field.full_mask();
    let prefix = (0..=field.bits()).prop_map(move |rest| full & (u128::MAX.checked_shl(rest).unwrap_or(0)));
    prop_oneof![6 => Just(full), 2 => prefix, 1 => select(vec![1, 2, 0x1000, 0x0101]).prop_map(move |m| m & full)]
        .boxed()
}

fn question() -> impl Strategy<Value = Question> {
    select(fields()).prop_flat_map(|field| {
        let value = || select(domain(field));
        prop_oneof![
            4 => (value(), mask(field)).prop_map(move |(value, mask)| Question::Equals { field, value, mask }),
            3 => (value(), value()).prop_map(move |(a, b)| Question::InRange { field, lo: a.min(b), hi: a.max(b) }),
            1 => Just(Question::Present { field }),
        ]
    })
}

/// Generates random policies.
pub fn programs() -> impl Strategy<Value = Program> {
    let answer = prop_oneof![6 => 0..CONTROLLER, 1 => Just(CONTROLLER)].prop_map(Program::Answer);
    answer.prop_recursive(7, 60, 3, |inner| {
        let read = select(fields()).prop_flat_map(|field| (Just(field), mask(field)));
        prop_oneof![
            2 => (read, vec(inner.clone(), 1..4)).prop_map(|((field, mask), arms)| Program::Read { field, mask, arms }),
            3 => (question(), inner.clone(), inner).prop_map(|(question, yes, no)| {
                Program::Ask { question, yes: Box::new(yes), no: Box::new(no) }
            }),
        ]
    })
}

/// Generates random packets.
pub fn packets() -> impl Strategy<Value = Headers> {
    let fields = fields();
    let values: Vec<_> = fields.iter().map(|field| select(domain(*field))).collect();
    values.prop_map(move |values| Headers(fields.iter().copied().zip(values).collect()))
}
