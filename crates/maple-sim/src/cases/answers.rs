//! Random answers of programs.

use maple_wire::{Dpid, Field, PortNo};

use super::super::Choices;
use super::domain::{Domain, FIELDS, port};
use super::program::{Answer, Special, TABLES};

/// Random answers.
impl Domain {
    pub(super) fn answer(&self, random: &mut Choices, depth: u32) -> Answer {
        let by_costs = random.one_in(2);
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
                Answer::Path { to: self.who(random), by_costs, otherwise: Box::new(otherwise) }
            }
            10 => Answer::PathFromHere { to: self.who(random), by_costs, otherwise: Box::new(Answer::Flood) },
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

    fn special(&self, random: &mut Choices, depth: u32) -> Special {
        let inside = |random: &mut Choices, depth| Box::new(self.answer(random, depth));
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
    fn hops(&self, random: &mut Choices) -> Vec<(Dpid, PortNo)> {
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
