//! Random programs for a network.

use maple_wire::{Dpid, Field};

use super::super::Choices;
use super::domain::{Domain, FIELDS, KEYS, small};
use super::program::{Answer, Change, Operand, Program, Question, Subject, TABLES, VARS, Who, int};

/// The fields with the addresses that hosts are asked about.
const ADDRESSES: [Field; 5] = [Field::Ipv4Src, Field::Ipv4Src, Field::ArpSpa, Field::Ipv4Dst, Field::Ipv6Src];

/// Random programs.
impl Domain {
    /// Returns a program of at most this depth.
    pub fn program(&self, random: &mut Choices, depth: u32) -> Program {
        if depth == 0 || random.one_in(8) {
            return Program::Answer(self.answer(random, 2));
        }
        match random.below(12) {
            0..7 => self.ask(random, |world, random| world.program(random, depth - 1)),
            7..10 => {
                let subject = self.subject(random);
                let count = 1 + random.below(2);
                let arm = |random: &mut Choices| (self.outcome(random, subject), self.program(random, depth - 1));
                let arms = (0..count).map(|_| arm(random)).collect();
                Program::Switch { subject, arms, other: Box::new(self.program(random, depth - 1)) }
            }
            _ => self.writing(random, depth),
        }
    }

    /// Returns a program that decides equal packets differently depending on where they enter, so that their routes
    /// need labels on links.
    pub fn program_by_ingress(&self, random: &mut Choices, depth: u32) -> Program {
        let in_port = Subject::Field { field: Field::InPort, mask: Field::InPort.full_mask() };
        let below = |random: &mut Choices| match random.below(10) {
            0..2 => self.program(random, depth.min(2)),
            2..5 if depth > 0 => self.program_by_ingress(random, depth - 1),
            2..5 => {
                let route = Box::new(Answer::ToPort(*random.pick(&self.edges)));
                Program::Answer(Answer::Set { field: Field::Ipv4Src, value: 0x0a00_0063, route })
            }
            _ => Program::Answer(Answer::ToPort(*random.pick(&self.edges))),
        };
        if random.one_in(6) {
            let question = self.question(random);
            return Program::Ask { question, yes: Box::new(below(random)), no: Box::new(below(random)) };
        }
        let subject = *random.pick(&[Subject::Ingress, Subject::Ingress, in_port]);
        let arms = (1..=2).map(|n| (Some(n), below(random))).collect();
        Program::Switch { subject, arms, other: Box::new(below(random)) }
    }

    /// Returns a list of filters, the first match of which counts. Their routes mostly depend on the packet.
    pub fn program_of_filters(&self, random: &mut Choices) -> Program {
        let to_somewhere = |random: &mut Choices| match random.below(12) {
            0 => Answer::Drop,
            1 => self.answer(random, 1),
            2 => {
                let otherwise = Box::new(Answer::Drop);
                Answer::PathFromHere { to: Who::Host(self.host(random)), by_costs: false, otherwise }
            }
            3 => Answer::ToPort(*random.pick(&self.edges)),
            _ => Answer::Path { to: Who::Destination, by_costs: random.one_in(5), otherwise: Box::new(Answer::Flood) },
        };
        let mut program = Program::Answer(to_somewhere(random));
        for _ in 0..1 + random.below(6) {
            let no = Box::new(program);
            let yes = Box::new(Program::Answer(to_somewhere(random)));
            program = if random.one_in(8) {
                let arms = vec![(Some(self.dpid(random).0.into()), *yes)];
                Program::Switch { subject: Subject::Ingress, arms, other: no }
            } else {
                Program::Ask { question: self.question_of_packet(random), yes, no }
            };
        }
        program
    }

    /// Returns a program that mostly asks what tables have at fields of the packet.
    pub fn program_of_look_ups(&self, random: &mut Choices, depth: u32) -> Program {
        let (table, key) = (*random.pick(&TABLES), Operand::Field(*random.pick(&KEYS)));
        if depth == 0 || random.one_in(8) {
            let otherwise = Box::new(Answer::Drop);
            return Program::Answer(match random.below(8) {
                0..3 => Answer::ToStored { table, key, otherwise },
                3..6 => Answer::ToPort(*random.pick(&self.edges)),
                6 => Answer::Path { to: Who::Destination, by_costs: false, otherwise },
                _ => Answer::Drop,
            });
        }
        let question = match random.below(9) {
            0..3 => Question::TableIs { table, key, value: small(random, 3) },
            3..6 => Question::Contains { table, key },
            6 => {
                Question::Bound(*random.pick(&[Field::EthSrc, Field::EthSrc, Field::EthDst]), *random.pick(&ADDRESSES))
            }
            7 => Question::VarIs { name: random.pick::<&str>(&VARS), value: small(random, 3) },
            _ => self.question_of_packet(random),
        };
        let [yes, no] = [(); 2].map(|()| Box::new(self.program_of_look_ups(random, depth - 1)));
        Program::Ask { question, yes, no }
    }

    /// Returns a program whose answer depends on what two tables have for a packet's source and destination together,
    /// and sometimes on a variable.
    pub fn program_of_pairs(&self, random: &mut Choices) -> Program {
        let asks =
            |table, field, value: u128| Question::TableIs { table, key: Operand::Field(field), value: int(value) };
        let mut questions = Vec::new();
        for (table, field) in TABLES.into_iter().zip([Field::EthSrc, Field::EthDst]) {
            questions.push(vec![asks(table, field, 0), asks(table, field, 1)]);
        }
        if random.one_in(2) {
            questions.push(vec![Question::VarIs { name: VARS[0], value: int(0) }]);
        }
        if random.one_in(2) {
            questions.swap(0, 1);
        }
        self.by_all(random, &questions)
    }

    /// Returns a program whose answer depends on where a packet's source is, and on what a table has for its
    /// destination.
    pub fn program_of_sources(&self, random: &mut Choices) -> Program {
        let asks =
            |value: u128| Question::TableIs { table: TABLES[1], key: Operand::Field(Field::EthDst), value: int(value) };
        let mut places = vec![Question::Located(Who::Source)];
        places.extend((1..=self.switches).map(|dpid| Question::LocatedAt(Who::Source, Dpid(dpid))));
        places.truncate(1 + random.below(3));
        let mut questions = vec![places, vec![asks(0), asks(1)]];
        if random.one_in(2) {
            questions.push(vec![Question::VarIs { name: VARS[0], value: int(0) }]);
        }
        if random.one_in(2) {
            questions.swap(0, 1);
        }
        self.by_all(random, &questions)
    }

    /// Returns a program whose answer depends on whether a packet's source has the IP address that it sends from, and
    /// sometimes on what a table has for its destination.
    pub fn program_of_bindings(&self, random: &mut Choices) -> Program {
        let bound = |field| vec![Question::Bound(Field::EthSrc, field)];
        let mut questions = vec![bound(Field::Ipv4Src)];
        if random.one_in(2) {
            questions.push(bound(Field::ArpSpa));
        }
        if random.one_in(2) {
            let (table, key) = (TABLES[1], Operand::Field(Field::EthDst));
            questions.push(vec![Question::TableIs { table, key, value: int(0) }]);
        }
        if random.one_in(3) {
            questions.push(vec![Question::Located(Who::Source)]);
        }
        let first = random.below(questions.len());
        questions.swap(0, first);
        self.by_all(random, &questions)
    }

    /// Returns a program that gives each combination of answers an answer of its own.
    fn by_all(&self, random: &mut Choices, questions: &[Vec<Question>]) -> Program {
        let Some((first, rest)) = questions.split_first() else {
            return Program::Answer(Answer::ToPort(*random.pick(&self.edges)));
        };
        let mut program = self.by_all(random, rest);
        for question in first.iter().rev() {
            let yes = Box::new(self.by_all(random, rest));
            program = Program::Ask { question: question.clone(), yes, no: Box::new(program) };
        }
        program
    }

    fn ask(&self, random: &mut Choices, next: impl Fn(&Domain, &mut Choices) -> Program) -> Program {
        let question = self.question(random);
        Program::Ask { question, yes: Box::new(next(self, random)), no: Box::new(next(self, random)) }
    }

    /// Returns a write. It is mostly under a test of its effect, so that it happens once for each value.
    fn writing(&self, random: &mut Choices, depth: u32) -> Program {
        let rest = Box::new(self.program(random, depth - 1));
        if random.one_in(4) {
            return Program::Write { change: self.change(random), then: rest };
        }
        if random.one_in(4) {
            return self.either(random, rest);
        }
        let (table, key) = (*random.pick(&TABLES), self.operand(random));
        if random.one_in(2) {
            let change = Change::Put { table, key: key.clone(), value: Operand::Field(Field::InPort) };
            let write = Program::Write { change, then: rest.clone() };
            Program::Ask { question: Question::Contains { table, key }, yes: rest, no: Box::new(write) }
        } else {
            let value = small(random, 3);
            let change = Change::Put { table, key: key.clone(), value: Operand::Constant(value.clone()) };
            let write = Program::Write { change, then: rest.clone() };
            Program::Ask { question: Question::TableIs { table, key, value }, yes: rest, no: Box::new(write) }
        }
    }

    /// Returns changes that may be taken back, and others in their place, sometimes none.
    fn either(&self, random: &mut Choices, then: Box<Program>) -> Program {
        let first = (0..1 + random.below(2)).map(|_| self.change(random)).collect();
        let second = (0..random.below(2)).map(|_| self.change(random)).collect();
        Program::Either { first, waits: !random.one_in(4), second, then }
    }

    fn question(&self, random: &mut Choices) -> Question {
        let (table, value) = (*random.pick(&TABLES), small(random, 3));
        match random.below(24) {
            0..11 => self.question_of_packet(random),
            11 => Question::Present(*random.pick(&FIELDS)),
            12 => Question::Located(self.who(random)),
            13 => Question::LocatedAt(self.who(random), self.dpid(random)),
            14 => Question::TableIs { table, key: self.operand(random), value },
            15 => Question::Contains { table, key: self.operand(random) },
            16 => Question::AnyEntry { table, value },
            17 => Question::VarIs { name: random.pick::<&str>(&VARS), value },
            18 => Question::Linked(self.dpid(random), self.dpid(random)),
            19..21 => Question::ManyEntries { table, value, least: 1 + random.below(3) as u64 },
            21 => Question::LocatedUp(self.who(random)),
            22 => Question::Up(self.location(random)),
            _ => {
                let (field, mask) = (Field::InPort, Field::InPort.full_mask());
                Question::Equals { field, value: self.value(random, field), mask }
            }
        }
    }

    fn question_of_packet(&self, random: &mut Choices) -> Question {
        let field = *random.pick(&FIELDS);
        let value = self.value(random, field);
        match random.below(11) {
            0..6 => Question::Equals { field, value, mask: field.full_mask() },
            6..8 => Question::Equals { field, value, mask: mask(random, field) },
            _ => {
                let other = self.value(random, field);
                Question::InRange { field, lo: value.min(other), hi: value.max(other) }
            }
        }
    }

    fn subject(&self, random: &mut Choices) -> Subject {
        let field = *random.pick(&FIELDS);
        match random.below(11) {
            0..5 => Subject::Field { field, mask: field.full_mask() },
            5 => Subject::Field { field, mask: mask(random, field) },
            6 => Subject::Ingress,
            7 => Subject::TableLen(random.pick::<&str>(&TABLES)),
            8 => Subject::EdgePortCount(self.dpid(random)),
            9 => Subject::Degree(self.dpid(random)),
            _ => *random.pick(&[Subject::HostCount, Subject::SwitchCount]),
        }
    }

    fn outcome(&self, random: &mut Choices, subject: Subject) -> Option<u128> {
        match subject {
            Subject::Field { .. } if random.one_in(5) => None,
            Subject::Field { field, mask } => Some(self.value(random, field) & mask),
            Subject::Ingress => Some(self.dpid(random).0.into()),
            _ => Some(random.below(5) as u128),
        }
    }
}

fn mask(random: &mut Choices, field: Field) -> u128 {
    let full = field.full_mask();
    if random.one_in(3) {
        return random.pick(&[1, 2, 0x1000, 0x101]) & full;
    }
    let prefix = u128::MAX.checked_shl(random.below(field.bits() as usize) as u32).unwrap_or(0);
    full & prefix
}
