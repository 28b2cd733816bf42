//! Random programs, packets and changes for a network.
//!
//! Domains are small, so that packets meet the same leaves and routes meet at the same switches.

use std::net::{Ipv4Addr, Ipv6Addr};

use maple_core::network::{Location, Mac};
use maple_core::state::Value;
use maple_wire::eth_type::value::{ARP, IPV4, IPV6};
use maple_wire::ip_proto::value::{ICMP, ICMPV6, TCP, UDP};
use maple_wire::{Dpid, Field, PortNo};

use super::super::Random;
use super::packets::{Body, PacketSpec, Tag, Transport};
use super::program::{Answer, Change, Operand, Program, Question, Special, Subject, TABLES, VARS, Who, int};

/// The addresses of a host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostAddresses {
    /// The host's hardware address.
    pub mac: Mac,
    /// The host's IPv4 address.
    pub ipv4: Ipv4Addr,
    /// The host's IPv6 address.
    pub ipv6: Ipv6Addr,
}

/// A network, as programs and packets see it.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    /// The number of switches; their datapath ids are 1, 2, ….
    pub switches: u64,
    /// The links, at least one.
    pub links: Vec<(Location, Location)>,
    /// The ports where hosts can be, at least one.
    pub edges: Vec<Location>,
    /// The hosts, at least one.
    pub hosts: Vec<HostAddresses>,
    /// Whether programs may give [`Special`] answers.
    pub all_answers: bool,
}

/// Random programs.
impl World {
    /// Returns a program of at most this depth.
    pub fn program(&self, random: &mut Random, depth: u32) -> Program {
        if depth == 0 || random.one_in(8) {
            return Program::Answer(self.answer(random, 2));
        }
        match random.below(12) {
            0..7 => self.ask(random, |world, random| world.program(random, depth - 1)),
            7..10 => {
                let subject = self.subject(random);
                let count = 1 + random.below(2);
                let arm = |random: &mut Random| (self.outcome(random, subject), self.program(random, depth - 1));
                let arms = (0..count).map(|_| arm(random)).collect();
                Program::Switch { subject, arms, other: Box::new(self.program(random, depth - 1)) }
            }
            _ => self.writing(random, depth),
        }
    }

    /// Returns a program that decides equal packets differently depending on where they enter, so that their routes
    /// need labels on links.
    pub fn program_by_ingress(&self, random: &mut Random, depth: u32) -> Program {
        let in_port = Subject::Field { field: Field::InPort, mask: Field::InPort.full_mask() };
        let below = |random: &mut Random| match random.below(10) {
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
    pub fn program_of_filters(&self, random: &mut Random) -> Program {
        let to_somewhere = |random: &mut Random| match random.below(12) {
            0 => Answer::Drop,
            1 => self.answer(random, 1),
            2 => {
                let otherwise = Box::new(Answer::Drop);
                Answer::PathFromHere { to: Who::Host(self.host(random)), weighted: false, otherwise }
            }
            3 => Answer::ToPort(*random.pick(&self.edges)),
            _ => Answer::Path { to: Who::Destination, weighted: random.one_in(5), otherwise: Box::new(Answer::Flood) },
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
    pub fn program_of_look_ups(&self, random: &mut Random, depth: u32) -> Program {
        let (table, key) = (*random.pick(&TABLES), Operand::Field(*random.pick(&KEYS)));
        if depth == 0 || random.one_in(8) {
            let otherwise = Box::new(Answer::Drop);
            return Program::Answer(match random.below(8) {
                0..3 => Answer::ToStored { table, key, otherwise },
                3..6 => Answer::ToPort(*random.pick(&self.edges)),
                6 => Answer::Path { to: Who::Destination, weighted: false, otherwise },
                _ => Answer::Drop,
            });
        }
        let question = match random.below(8) {
            0..3 => Question::TableIs { table, key, value: small(random, 3) },
            3..6 => Question::Contains { table, key },
            6 => Question::VarIs { name: random.pick::<&str>(&VARS), value: small(random, 3) },
            _ => self.question_of_packet(random),
        };
        let [yes, no] = [(); 2].map(|()| Box::new(self.program_of_look_ups(random, depth - 1)));
        Program::Ask { question, yes, no }
    }

    /// Returns a program whose answer depends on what two tables have for a packet's source and destination together, and
    /// sometimes on a variable.
    pub fn program_of_pairs(&self, random: &mut Random) -> Program {
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

    /// Returns a program whose answer depends on where a packet's source is, and on what a table has for its destination.
    pub fn program_of_sources(&self, random: &mut Random) -> Program {
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

    /// Returns a program that gives each combination of answers an answer of its own.
    fn by_all(&self, random: &mut Random, questions: &[Vec<Question>]) -> Program {
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

    /// Returns writes that change what [`World::program_of_pairs`] and [`World::program_of_sources`] read for a packet,
    /// mostly all of it.
    pub fn writes_to_pair(random: &mut Random, packet: &PacketSpec) -> Vec<Change> {
        let value = |random: &mut Random| Operand::Constant(small(random, 3));
        let key = |mac| Operand::Constant(int(Mac(mac).bits()));
        let mut all = vec![
            Change::Put { table: TABLES[0], key: key(packet.src), value: value(random) },
            Change::Put { table: TABLES[1], key: key(packet.dst), value: value(random) },
            Change::Set { name: VARS[0], value: value(random) },
        ];
        if random.one_in(4) {
            all[0] = Change::Take { table: TABLES[0], key: key(packet.src) };
        }
        all.retain(|_| !random.one_in(4));
        all
    }

    fn ask(&self, random: &mut Random, next: impl Fn(&World, &mut Random) -> Program) -> Program {
        let question = self.question(random);
        Program::Ask { question, yes: Box::new(next(self, random)), no: Box::new(next(self, random)) }
    }

    /// Returns a write. It is mostly under a test of its effect, so that it happens once for each value.
    fn writing(&self, random: &mut Random, depth: u32) -> Program {
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
    fn either(&self, random: &mut Random, then: Box<Program>) -> Program {
        let first = (0..1 + random.below(2)).map(|_| self.change(random)).collect();
        let second = (0..random.below(2)).map(|_| self.change(random)).collect();
        Program::Either { first, waits: !random.one_in(4), second, then }
    }

    fn question(&self, random: &mut Random) -> Question {
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

    fn question_of_packet(&self, random: &mut Random) -> Question {
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

    fn subject(&self, random: &mut Random) -> Subject {
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

    fn outcome(&self, random: &mut Random, subject: Subject) -> Option<u128> {
        match subject {
            Subject::Field { .. } if random.one_in(5) => None,
            Subject::Field { field, mask } => Some(self.value(random, field) & mask),
            Subject::Ingress => Some(self.dpid(random).0.into()),
            _ => Some(random.below(5) as u128),
        }
    }

    fn operand(&self, random: &mut Random) -> Operand {
        if random.one_in(2) {
            return Operand::Constant(small(random, 3));
        }
        let fields = [Field::EthSrc, Field::EthDst, Field::TcpDst, Field::InPort, Field::IpProto];
        Operand::Field(*random.pick(&fields))
    }

    fn who(&self, random: &mut Random) -> Who {
        match random.below(6) {
            0 => Who::Source,
            1..5 => Who::Destination,
            _ => Who::Host(self.host(random)),
        }
    }
}

/// Random answers.
impl World {
    fn answer(&self, random: &mut Random, depth: u32) -> Answer {
        let weighted = random.one_in(2);
        if self.all_answers && depth > 0 && random.one_in(5) {
            return Answer::Special(self.special(random, depth));
        }
        match random.below(if depth == 0 { 14 } else { 19 }) {
            0 => Answer::Drop,
            1..3 => Answer::Flood,
            3 => Answer::To((0..1 + random.below(2)).map(|_| port(random)).collect()),
            4 => {
                let (table, key) = (*random.pick(&TABLES), self.operand(random));
                Answer::ToStored { table, key, otherwise: Box::new(Answer::Flood) }
            }
            5..10 => {
                let otherwise = random.pick(&[Answer::Flood, Answer::Flood, Answer::Drop]).clone();
                Answer::Path { to: self.who(random), weighted, otherwise: Box::new(otherwise) }
            }
            10 => Answer::PathFromHere { to: self.who(random), weighted, otherwise: Box::new(Answer::Flood) },
            11 => Answer::Hops(self.hops(random)),
            12 => Answer::ToEdges(1 + random.below(2)),
            13 => Answer::ToPort(*random.pick(&self.edges)),
            14..16 => Answer::Union((0..2 + random.below(2)).map(|_| self.answer(random, depth - 1)).collect()),
            _ => {
                let field = *random.pick(&SETTABLE);
                let value = match field {
                    Field::VlanVid => *random.pick(&[0, 1, 2, 7]),
                    field => self.value(random, field),
                };
                Answer::Set { field, value, route: Box::new(self.answer(random, depth - 1)) }
            }
        }
    }

    fn special(&self, random: &mut Random, depth: u32) -> Special {
        let inside = |random: &mut Random, depth| Box::new(self.answer(random, depth));
        match random.below(10) {
            0 => Special::Back,
            1 => Special::ToAddress(random.pick(&self.hosts).ipv4),
            2 => {
                let to = random.one_in(2).then(|| self.location(random));
                Special::Own { to, route: inside(random, 0) }
            }
            3..6 => Special::Limited { name: random.below(3) as u8, route: inside(random, 0) },
            6..8 => {
                let less = random.below(2) as u32;
                Special::Copy { to: self.location(random), route: inside(random, depth - less) }
            }
            _ => {
                let routes = (0..1 + random.below(3)).map(|_| self.answer(random, 0)).collect();
                Special::OneOf { routes, by: (0..1 + random.below(2)).map(|_| *random.pick(&FIELDS)).collect() }
            }
        }
    }

    /// Returns mostly a walk over links to a host's port; sometimes a meaningless list.
    fn hops(&self, random: &mut Random) -> Vec<(Dpid, PortNo)> {
        let mut at = self.dpid(random);
        let mut hops = Vec::new();
        for _ in 0..random.below(4) {
            let ends = self.links.iter().flat_map(|(a, b)| [(*a, *b), (*b, *a)]);
            let from_here: Vec<_> = ends.filter(|(near, _)| near.switch == at).collect();
            if from_here.is_empty() {
                break;
            }
            let (near, far) = *random.pick(&from_here);
            hops.push((near.switch, near.port));
            at = far.switch;
        }
        hops.push((at, port(random)));
        hops
    }
}

/// Random changes of the state.
impl World {
    /// Returns a change that a program makes.
    pub fn change(&self, random: &mut Random) -> Change {
        let (table, name) = (*random.pick(&TABLES), *random.pick(&VARS));
        match random.below(12) {
            0..4 => Change::Put { table, key: self.operand(random), value: Operand::Constant(small(random, 3)) },
            4 => Change::Put { table, key: self.operand(random), value: Operand::Field(Field::InPort) },
            5 => Change::Take { table, key: self.operand(random) },
            6..8 => Change::Set { name, value: Operand::Constant(small(random, 3)) },
            8 => Change::Count { name },
            9..11 => self.cost(random),
            _ => {
                let field = *random.pick(&FIELDS);
                Change::Invalidate { field, value: self.value(random, field) }
            }
        }
    }

    /// Returns a write that needs no packet: [`Change::event`] makes it.
    pub fn outside_write(&self, random: &mut Random) -> Change {
        let constant = |value| Operand::Constant(value);
        match self.change(random) {
            Change::Put { table, value: Operand::Field(_), .. } => {
                let key = constant(self.key(random));
                Change::Put { table, key, value: constant(small(random, 4)) }
            }
            Change::Put { table, value, .. } => Change::Put { table, key: constant(self.key(random)), value },
            Change::Take { table, .. } => Change::Take { table, key: constant(self.key(random)) },
            Change::Count { name } | Change::Set { name, .. } => {
                Change::Set { name, value: constant(small(random, 3)) }
            }
            Change::Invalidate { .. } => Change::Set { name: VARS[0], value: constant(small(random, 3)) },
            change => change,
        }
    }

    /// Returns a write to what programs of look-ups read.
    pub fn write_to_looked_up(&self, random: &mut Random) -> Change {
        let constant = |value| Operand::Constant(value);
        let (table, field) = (*random.pick(&TABLES), *random.pick(&KEYS));
        let key = constant(int(self.value(random, field)));
        match random.below(8) {
            0..5 => Change::Put { table, key, value: constant(int(random.below(6) as u128)) },
            5..7 => Change::Take { table, key },
            _ => Change::Set { name: random.pick::<&str>(&VARS), value: constant(small(random, 3)) },
        }
    }

    /// Returns a change of the cost of a link in one direction.
    pub fn cost(&self, random: &mut Random) -> Change {
        let (a, b) = *random.pick(&self.links);
        let (from, to) = *random.pick(&[(a, b), (b, a)]);
        Change::Cost { from: from.switch, to: to.switch, cost: *random.pick(&[0, 1, 2, 5, 9]) }
    }

    /// Returns a key that can be computed from packets.
    fn key(&self, random: &mut Random) -> Value {
        let field = *random.pick(&[Field::EthSrc, Field::TcpDst, Field::InPort]);
        int(self.value(random, field))
    }
}

/// Random packets.
impl World {
    /// Returns a packet; often one that resembles an earlier one, from another host.
    pub fn packet(&self, random: &mut Random, earlier: &[PacketSpec]) -> PacketSpec {
        if !earlier.is_empty() && random.one_in(3) {
            let from = random.below(self.hosts.len());
            return PacketSpec { from, src: self.hosts[from].mac.0, ..random.pick(earlier).clone() };
        }
        self.new_packet(random)
    }

    fn new_packet(&self, random: &mut Random) -> PacketSpec {
        let from = random.below(self.hosts.len());
        let src = match random.below(20) {
            0 => self.host(random).0,
            1 => *random.pick(&[[1, 0, 0, 0, 0, 9], [0; 6], [2, 0, 0, 0, 0, 9]]),
            _ => self.hosts[from].mac.0,
        };
        let dst = match random.below(10) {
            0 => [0xff; 6],
            1 => *random.pick(&[[1, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 8], [2, b'm', b'a', b'p', b'l', b'e']]),
            // Addresses of the two kinds that bridges never forward, and a neighbour of each.
            2 => *random.pick(&[
                [1, 0x80, 0xc2, 0, 0, 2],
                [1, 0x80, 0xc2, 0, 0, 0x10],
                [1, 0, 0xc, 0xcc, 0xcc, 0xcd],
                [1, 0, 0xc, 0xcc, 0xcc, 0xce],
            ]),
            _ => self.host(random).0,
        };
        // Some of the VLAN ids are also those of labels.
        let count = *random.pick(&[0, 0, 0, 0, 0, 0, 0, 1, 1, 2]);
        let tag = |random: &mut Random| Tag {
            service: random.one_in(4),
            vid: *random.pick(&[1, 2, 7, 8]),
            pcp: *random.pick(&[0, 3]),
        };
        let tags = (0..count).map(|_| tag(random)).collect();
        let body = self.body(random, from);
        let cut = random.one_in(20).then(|| 14 + random.below(40));
        PacketSpec { from, src, dst, tags, body, cut }
    }

    fn body(&self, random: &mut Random, from: usize) -> Body {
        let (own, other) = (self.hosts[from], *random.pick(&self.hosts));
        let elsewhere = *random.pick(&[Ipv4Addr::new(10, 0, 1, 7), Ipv4Addr::new(11, 0, 0, 1)]);
        let (src, dst) = match random.below(6) {
            0 => (own.ipv4, elsewhere),
            1 => (elsewhere, other.ipv4),
            _ => (own.ipv4, other.ipv4),
        };
        let dscp = *random.pick(&[0, 0, 10, 46]);
        match random.below(16) {
            0..2 => Body::Arp { op: *random.pick(&[1, 2]), spa: src, tpa: dst },
            2..11 => {
                let fragment = random.one_in(8).then(|| *random.pick(&[(0, true), (3, true), (3, false)]));
                Body::V4 { src, dst, dscp, fragment, transport: transport(random, false) }
            }
            11..14 => {
                let dst = if random.one_in(4) { Ipv6Addr::from((1u128 << 120) | 1) } else { other.ipv6 };
                Body::V6 { src: own.ipv6, dst, dscp, transport: transport(random, true) }
            }
            14 => random.pick(&[Body::Mpls(16), Body::Lldp]).clone(),
            _ => Body::Other(*random.pick(&[0x88b5, 0x88b6])),
        }
    }

    /// Returns a value that packets have, or one next to it.
    pub fn value(&self, random: &mut Random, field: Field) -> u128 {
        let host = *random.pick(&self.hosts);
        let (mac, ipv4) = (host.mac.bits(), u128::from(u32::from(host.ipv4)));
        let values: &[u128] = match field {
            Field::InPort => &[1, 2, 3, 4, 5],
            Field::EthSrc | Field::EthDst => &[mac, mac, mac, 0xffff_ffff_ffff],
            Field::EthType => &[IPV4, ARP, IPV6, 0x88b5],
            Field::VlanVid => &[0, 0x1001, 0x1002, 0x1007],
            Field::VlanPcp => &[0, 3],
            Field::IpDscp => &[0, 10, 46],
            Field::IpProto => &[ICMP, TCP, UDP, 47, ICMPV6],
            Field::Ipv4Src | Field::Ipv4Dst | Field::ArpSpa | Field::ArpTpa => &[ipv4, ipv4, 0x0a00_0100, 0x0b00_0001],
            Field::TcpSrc | Field::TcpDst | Field::UdpSrc | Field::UdpDst => &[22, 80, 1023, 1024, 5000],
            Field::Icmpv4Type => &[0, 8],
            Field::Icmpv6Type => &[128, 129],
            Field::ArpOp => &[1, 2],
            Field::Ipv6Src | Field::Ipv6Dst => &[u128::from(host.ipv6), 1],
            _ => &[0, 1],
        };
        *random.pick(values)
    }

    fn host(&self, random: &mut Random) -> Mac {
        random.pick(&self.hosts).mac
    }

    fn dpid(&self, random: &mut Random) -> Dpid {
        Dpid(1 + random.below(self.switches as usize) as u64)
    }

    /// Returns a port of a switch, which may not exist.
    fn location(&self, random: &mut Random) -> Location {
        Location::new(self.dpid(random), port(random))
    }
}

fn transport(random: &mut Random, v6: bool) -> Transport {
    let (src, dst) = (*random.pick(&[1023, 1024, 5000]), *random.pick(&[22, 80, 1024, 5000]));
    match random.below(8) {
        0..4 => Transport::Tcp(src, dst),
        4..6 => Transport::Udp(src, dst),
        6 => Transport::Icmp(*random.pick(if v6 { &[128, 129] } else { &[0, 8] })),
        _ => Transport::Proto(47),
    }
}

fn mask(random: &mut Random, field: Field) -> u128 {
    let full = field.full_mask();
    if random.one_in(3) {
        return random.pick(&[1, 2, 0x1000, 0x101]) & full;
    }
    let prefix = u128::MAX.checked_shl(random.below(field.bits() as usize) as u32).unwrap_or(0);
    full & prefix
}

fn port(random: &mut Random) -> PortNo {
    PortNo(1 + random.below(5) as u32)
}

/// Returns one of the first few integers, as tables and variables hold it.
fn small(random: &mut Random, bound: usize) -> Value {
    int(random.below(bound) as u128)
}

/// The fields by which programs look something up.
const KEYS: [Field; 4] = [Field::EthSrc, Field::EthDst, Field::TcpDst, Field::InPort];

/// The fields that programs ask for.
const FIELDS: [Field; 24] = [
    Field::EthSrc,
    Field::EthDst,
    Field::EthDst,
    Field::EthType,
    Field::EthType,
    Field::VlanVid,
    Field::VlanPcp,
    Field::IpDscp,
    Field::IpProto,
    Field::Ipv4Src,
    Field::Ipv4Dst,
    Field::Ipv4Dst,
    Field::TcpSrc,
    Field::TcpDst,
    Field::TcpDst,
    Field::TcpDst,
    Field::UdpSrc,
    Field::UdpDst,
    Field::Icmpv4Type,
    Field::Icmpv6Type,
    Field::ArpOp,
    Field::ArpSpa,
    Field::Ipv6Dst,
    Field::InPort,
];

/// The fields that programs set.
const SETTABLE: [Field; 10] = [
    Field::EthSrc,
    Field::EthDst,
    Field::EthDst,
    Field::VlanVid,
    Field::VlanVid,
    Field::VlanPcp,
    Field::IpDscp,
    Field::Ipv4Dst,
    Field::TcpDst,
    Field::UdpDst,
];
