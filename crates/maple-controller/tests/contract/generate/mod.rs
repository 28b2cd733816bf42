//! Random cases: topologies, policies, packets and events, all from one seed.

mod steps;

use std::net::{Ipv4Addr, Ipv6Addr};

use maple_core::Mac;
use maple_core::oracles::Strategy;
use maple_emulator::Random;
use maple_emulator::time::{MICROSECOND, MILLISECOND, Time};
use maple_emulator::topology::addresses;
use maple_wire::{Dpid, Field, PortNo, Version};

use crate::case::{Case, Link, host_mac, place};
use crate::packets::{Body, PacketSpec, Transport};
use crate::program::{Answer, Change, Operand, Program, Question, Subject, TABLES, VARS, Who, int};

/// Which events a case has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Only state that changes: nothing may be lost.
    Soft,
    /// Also links, ports, hosts, switches and control channels.
    Hard,
    /// Only state that changes, but the tables of the switches are too small.
    Tight,
}

/// The case of a seed.
pub fn case(seed: u64, flavour: Flavour) -> Case {
    let mut dice = Dice { random: Random::new(seed) };
    let switches = 2 + dice.below(4);
    let mut case = Case {
        version: if dice.one_in(3) { Version::Of10 } else { Version::Of13 },
        tables: dice.tables(flavour),
        open_vswitch: dice.one_in(2),
        shards: 1 + dice.below(3) as u8,
        track_hosts: !dice.one_in(10),
        compiler: Strategy::Maple,
        room: (None, None),
        busy: dice.span(200 * MICROSECOND),
        mail: dice.span(300 * MICROSECOND),
        seed: dice.random.number(),
        switches,
        hosts: Vec::new(),
        links: Vec::new(),
        program: Program::Answer(Answer::Drop),
        packets: Vec::new(),
        jitter: dice.span(MILLISECOND),
        steps: Vec::new(),
        trace: false,
    };
    dice.topology(&mut case);
    let depth = 2 + dice.below(4) as u32;
    case.program = if dice.one_in(4) { dice.by_ingress(&case, depth) } else { dice.program(&case, depth) };
    let packets = if dice.one_in(4) { 20 } else { 8 };
    for _ in 0..3 + dice.below(packets) {
        let packet = dice.packet(&case);
        case.packets.push(packet);
    }
    dice.steps(&mut case, flavour);
    if dice.one_in(5) {
        case.compiler = Strategy::Paper;
    }
    if flavour == Flavour::Tight && dice.one_in(4) {
        case.room.0 = Some(12 + dice.below(30) as usize);
    }
    if flavour == Flavour::Tight && dice.one_in(4) {
        case.room.1 = Some(1 + dice.below(5) as usize);
    }
    case
}

/// The generator.
struct Dice {
    random: Random,
}

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize].clone()
    }

    /// Mostly nothing, sometimes up to `most`.
    fn span(&mut self, most: Time) -> Time {
        if self.one_in(2) { 0 } else { self.below(most) }
    }

    fn tables(&mut self, flavour: Flavour) -> (u8, usize) {
        let count = if self.one_in(6) { 1 + self.below(2) as u8 } else { 8 };
        let size = if flavour == Flavour::Tight { 6 + self.below(20) as usize } else { 65_536 };
        (count, size)
    }

    fn topology(&mut self, case: &mut Case) {
        let n = case.switches;
        let mut used = vec![0u32; n as usize + 1];
        let mut next = |switch: u64| {
            used[switch as usize] += 1;
            place(switch, used[switch as usize])
        };
        for switch in 1..=n {
            for _ in 0..1 + self.below(2) {
                case.hosts.push(next(switch));
            }
        }
        let mut pairs: Vec<(u64, u64)> = (2..=n).map(|switch| (1 + self.below(switch - 1), switch)).collect();
        for _ in 0..self.below(n) {
            let (a, b) = (1 + self.below(n), 1 + self.below(n));
            let known = pairs.contains(&(a, b)) || pairs.contains(&(b, a));
            if a != b && (!known || self.one_in(3)) {
                pairs.push((a, b));
            }
        }
        for (a, b) in pairs {
            let delay = if self.one_in(4) { self.below(2 * MILLISECOND) } else { 10 * MICROSECOND };
            case.links.push(Link { a: next(a), b: next(b), delay });
        }
    }

    fn program(&mut self, case: &Case, depth: u32) -> Program {
        if depth == 0 || self.one_in(8) {
            return Program::Answer(self.answer(case, 2));
        }
        match self.below(12) {
            0..7 => Program::Ask {
                question: self.question(case),
                yes: Box::new(self.program(case, depth - 1)),
                no: Box::new(self.program(case, depth - 1)),
            },
            7..10 => {
                let subject = self.subject(case);
                let count = 1 + self.below(2);
                let arms = (0..count).map(|_| (self.outcome(case, subject), self.program(case, depth - 1))).collect();
                Program::Switch { subject, arms, other: Box::new(self.program(case, depth - 1)) }
            }
            _ => self.writing(case, depth),
        }
    }

    /// A program that treats equal packets in different ways, by where they enter.
    fn by_ingress(&mut self, case: &Case, depth: u32) -> Program {
        let in_port = Subject::Field { field: Field::InPort, mask: Field::InPort.full_mask() };
        let subject = self.pick(&[Subject::Ingress, Subject::Ingress, in_port]);
        let arms = (1..=2).map(|n| (Some(n), self.program(case, depth.min(2)))).collect();
        Program::Switch { subject, arms, other: Box::new(self.program(case, depth.min(1))) }
    }

    /// A write, mostly one that is done once for each thing: under a test of its effect.
    fn writing(&mut self, case: &Case, depth: u32) -> Program {
        let rest = Box::new(self.program(case, depth - 1));
        if self.one_in(4) {
            return Program::Write { change: self.change(case), then: rest };
        }
        if self.one_in(4) {
            return self.either(case, rest);
        }
        let (table, key) = (self.pick(&TABLES), self.operand());
        if self.one_in(2) {
            let change = Change::Put { table, key: key.clone(), value: Operand::Field(Field::InPort) };
            let write = Program::Write { change, then: rest.clone() };
            Program::Ask { question: Question::Contains { table, key }, yes: rest, no: Box::new(write) }
        } else {
            let value = int(self.below(3).into());
            let change = Change::Put { table, key: key.clone(), value: Operand::Constant(value.clone()) };
            let write = Program::Write { change, then: rest.clone() };
            Program::Ask { question: Question::TableIs { table, key, value }, yes: rest, no: Box::new(write) }
        }
    }

    /// Changes that are taken back or not, and others instead; sometimes none.
    fn either(&mut self, case: &Case, then: Box<Program>) -> Program {
        let first = (0..1 + self.below(2)).map(|_| self.change(case)).collect();
        let second = (0..self.below(2)).map(|_| self.change(case)).collect();
        Program::Either { first, waits: !self.one_in(4), second, then }
    }

    fn question(&mut self, case: &Case) -> Question {
        let (field, dpid) = (self.field(), self.dpid(case));
        let value = self.value(case, field);
        match self.below(22) {
            0..6 => Question::Equals { field, value, mask: field.full_mask() },
            6..8 => Question::Equals { field, value, mask: self.mask(field) },
            8..11 => {
                let other = self.value(case, field);
                Question::InRange { field, lo: value.min(other), hi: value.max(other) }
            }
            11 => Question::Present(field),
            12 => Question::Located(self.who(case)),
            13 => Question::LocatedAt(self.who(case), dpid),
            14 => {
                Question::TableIs { table: self.pick(&TABLES), key: self.operand(), value: int(self.below(3).into()) }
            }
            15 => Question::Contains { table: self.pick(&TABLES), key: self.operand() },
            16 => Question::AnyEntry { table: self.pick(&TABLES), value: int(self.below(3).into()) },
            17 => Question::VarIs { name: self.pick(&VARS), value: int(self.below(3).into()) },
            18 => Question::Linked(dpid, self.dpid(case)),
            19..21 => {
                let (table, value) = (self.pick(&TABLES), int(self.below(3).into()));
                Question::ManyEntries { table, value, least: 1 + self.below(3) }
            }
            _ => Question::Equals { field: Field::InPort, value: 1 + u128::from(self.below(3)), mask: u128::MAX >> 96 },
        }
    }

    fn subject(&mut self, case: &Case) -> Subject {
        let field = self.field();
        match self.below(11) {
            0..5 => Subject::Field { field, mask: field.full_mask() },
            5 => Subject::Field { field, mask: self.mask(field) },
            6 => Subject::Ingress,
            7 => Subject::TableLen(self.pick(&TABLES)),
            8 => Subject::EdgePortCount(self.dpid(case)),
            9 => Subject::Degree(self.dpid(case)),
            _ => self.pick(&[Subject::HostCount, Subject::SwitchCount]),
        }
    }

    fn outcome(&mut self, case: &Case, subject: Subject) -> Option<u128> {
        match subject {
            Subject::Field { .. } if self.one_in(5) => None,
            Subject::Field { field, mask } => Some(self.value(case, field) & mask),
            Subject::Ingress => Some(self.dpid(case).0.into()),
            _ => Some(self.below(5).into()),
        }
    }

    fn answer(&mut self, case: &Case, depth: u32) -> Answer {
        let weighted = self.one_in(2);
        match self.below(if depth == 0 { 12 } else { 17 }) {
            0 => Answer::Drop,
            1..3 => Answer::Flood,
            3 => Answer::To((0..1 + self.below(2)).map(|_| self.port()).collect()),
            4 => {
                Answer::ToStored { table: self.pick(&TABLES), key: self.operand(), otherwise: Box::new(Answer::Flood) }
            }
            5..10 => {
                let otherwise = Box::new(self.pick(&[Answer::Flood, Answer::Flood, Answer::Drop]));
                Answer::Path { to: self.who(case), weighted, otherwise }
            }
            10 => Answer::PathFromHere { to: self.who(case), weighted, otherwise: Box::new(Answer::Flood) },
            11 => Answer::Hops(self.hops(case)),
            12..14 => Answer::Union((0..2 + self.below(2)).map(|_| self.answer(case, depth - 1)).collect()),
            _ => {
                let field = self.pick(&SETTABLE);
                let value = match field {
                    Field::VlanVid => self.pick(&[0, 1, 2]),
                    field => self.value(case, field),
                };
                Answer::Set { field, value, route: Box::new(self.answer(case, depth - 1)) }
            }
        }
    }

    /// Mostly a walk over links to a host's port; sometimes nonsense.
    fn hops(&mut self, case: &Case) -> Vec<(Dpid, PortNo)> {
        let mut at = self.dpid(case);
        let mut hops = Vec::new();
        for _ in 0..self.below(4) {
            let ends = case.links.iter().flat_map(|link| [(link.a, link.b), (link.b, link.a)]);
            let from_here: Vec<_> = ends.filter(|(near, _)| near.switch == at).collect();
            if from_here.is_empty() {
                break;
            }
            let (near, far) = self.pick(&from_here);
            hops.push((near.switch, near.port));
            at = far.switch;
        }
        hops.push((at, self.port()));
        hops
    }

    fn change(&mut self, case: &Case) -> Change {
        let (table, name) = (self.pick(&TABLES), self.pick(&VARS));
        match self.below(12) {
            0..4 => Change::Put { table, key: self.operand(), value: Operand::Constant(int(self.below(3).into())) },
            4 => Change::Put { table, key: self.operand(), value: Operand::Field(Field::InPort) },
            5 => Change::Take { table, key: self.operand() },
            6..8 => Change::Set { name, value: Operand::Constant(int(self.below(3).into())) },
            8 => Change::Count { name },
            9..11 => self.cost(case),
            _ => {
                let field = self.field();
                Change::Invalidate { field, value: self.value(case, field) }
            }
        }
    }

    /// What a link costs in one direction.
    fn cost(&mut self, case: &Case) -> Change {
        let link = self.pick(&case.links);
        let (from, to) = self.pick(&[(link.a, link.b), (link.b, link.a)]);
        Change::Cost { from: from.switch, to: to.switch, cost: self.pick(&[0, 1, 2, 5, 9]) }
    }

    fn operand(&mut self) -> Operand {
        if self.one_in(2) {
            Operand::Constant(int(self.below(3).into()))
        } else {
            Operand::Field(self.pick(&[Field::EthSrc, Field::EthDst, Field::TcpDst, Field::InPort, Field::IpProto]))
        }
    }

    fn who(&mut self, case: &Case) -> Who {
        match self.below(6) {
            0 => Who::Source,
            1..5 => Who::Destination,
            _ => Who::Host(self.host(case)),
        }
    }

    fn host(&mut self, case: &Case) -> Mac {
        host_mac(self.below(case.hosts.len() as u64) as usize)
    }

    fn dpid(&mut self, case: &Case) -> Dpid {
        Dpid(1 + self.below(case.switches))
    }

    fn port(&mut self) -> PortNo {
        PortNo(1 + self.below(4) as u32)
    }

    fn field(&mut self) -> Field {
        self.pick(&FIELDS)
    }

    /// A value that packets have, or a neighbour of one.
    fn value(&mut self, case: &Case, field: Field) -> u128 {
        let host = self.below(case.hosts.len() as u64) as u32 + 1;
        let (mac, ipv4, ipv6) = addresses(host);
        let mac = Mac(mac).bits();
        let values: &[u128] = match field {
            Field::InPort => &[1, 2, 3, 4],
            Field::EthSrc | Field::EthDst => &[mac, mac, mac, 0xffff_ffff_ffff],
            Field::EthType => &[0x800, 0x806, 0x86dd, 0x88b5],
            Field::VlanVid => &[0, 0x1001, 0x1002],
            Field::VlanPcp => &[0, 3],
            Field::IpDscp => &[0, 10, 46],
            Field::IpProto => &[1, 6, 17, 47, 58],
            Field::Ipv4Src | Field::Ipv4Dst | Field::ArpSpa | Field::ArpTpa => {
                &[u32::from(ipv4) as u128, u32::from(ipv4) as u128, 0x0a00_0100, 0x0b00_0001]
            }
            Field::TcpSrc | Field::TcpDst | Field::UdpSrc | Field::UdpDst => &[22, 80, 1023, 1024, 5000],
            Field::Icmpv4Type => &[0, 8],
            Field::Icmpv6Type => &[128, 129],
            Field::ArpOp => &[1, 2],
            Field::Ipv6Src | Field::Ipv6Dst => &[u128::from(ipv6), 1],
            _ => &[0, 1],
        };
        self.pick(values)
    }

    fn mask(&mut self, field: Field) -> u128 {
        let full = field.full_mask();
        if self.one_in(3) {
            return self.pick(&[1, 2, 0x1000, 0x101]) & full;
        }
        let prefix = u128::MAX.checked_shl(self.below(u64::from(field.bits())) as u32).unwrap_or(0);
        full & prefix
    }

    /// A packet; often one that is like an earlier one, from another host.
    fn packet(&mut self, case: &Case) -> PacketSpec {
        if !case.packets.is_empty() && self.one_in(3) {
            let from = self.below(case.hosts.len() as u64) as usize;
            return PacketSpec { from, src: host_mac(from).0, ..self.pick(&case.packets) };
        }
        self.new_packet(case)
    }

    fn new_packet(&mut self, case: &Case) -> PacketSpec {
        let from = self.below(case.hosts.len() as u64) as usize;
        let src = match self.below(20) {
            0 => self.host(case).0,
            1 => self.pick(&[[1, 0, 0, 0, 0, 9], [0; 6], [2, 0, 0, 0, 0, 9]]),
            _ => host_mac(from).0,
        };
        let dst = match self.below(10) {
            0 => [0xff; 6],
            1 => self.pick(&[[1, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 8], [2, b'm', b'a', b'p', b'l', b'e']]),
            _ => self.host(case).0,
        };
        let vlan = self.one_in(4).then(|| (self.pick(&[1, 2]), self.pick(&[0, 3])));
        let body = self.body(case, from);
        let cut = self.one_in(20).then(|| 14 + self.below(40) as usize);
        PacketSpec { from, src, dst, vlan, body, cut }
    }

    fn body(&mut self, case: &Case, from: usize) -> Body {
        let own = addresses(from as u32 + 1);
        let other = addresses(self.below(case.hosts.len() as u64) as u32 + 1);
        let elsewhere = self.pick(&[Ipv4Addr::new(10, 0, 1, 7), Ipv4Addr::new(11, 0, 0, 1)]);
        let (src, dst) = match self.below(6) {
            0 => (own.1, elsewhere),
            1 => (elsewhere, other.1),
            _ => (own.1, other.1),
        };
        let dscp = self.pick(&[0, 0, 10, 46]);
        match self.below(16) {
            0..2 => Body::Arp { op: self.pick(&[1, 2]), spa: src, tpa: dst },
            2..11 => {
                let fragment = self.one_in(8).then(|| self.pick(&[(0, true), (3, true), (3, false)]));
                Body::V4 { src, dst, dscp, fragment, transport: self.transport(false) }
            }
            11..14 => {
                let dst = if self.one_in(4) { Ipv6Addr::from(1u128 << 120 | 1) } else { other.2 };
                Body::V6 { src: own.2, dst, dscp, transport: self.transport(true) }
            }
            14 => self.pick(&[Body::Mpls(16), Body::Lldp]),
            _ => Body::Other(self.pick(&[0x88b5, 0x88b6])),
        }
    }

    fn transport(&mut self, v6: bool) -> Transport {
        let (src, dst) = (self.pick(&[1023, 1024, 5000]), self.pick(&[22, 80, 1024, 5000]));
        match self.below(8) {
            0..4 => Transport::Tcp(src, dst),
            4..6 => Transport::Udp(src, dst),
            6 => Transport::Icmp(if v6 { self.pick(&[128, 129]) } else { self.pick(&[0, 8]) }),
            _ => Transport::Proto(47),
        }
    }
}

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
