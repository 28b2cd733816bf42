//! Random cases from one seed: their networks and events. Programs and packets are those of all random cases.

mod steps;

use maple_emulator::time::{MICROSECOND, MILLISECOND, Time};
use maple_sim::Random;
use maple_sim::cases::{self, Answer, Program};
use maple_sim::oracles::Strategy;
use maple_wire::Version;

use crate::contract::case::{Case, Link, place};

/// The kinds of events that a case has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Only the state changes: nothing may be lost.
    Soft,
    /// Links, ports, hosts, switches and control channels change too.
    Hard,
    /// Only the state changes, but the tables of the switches are too small.
    Tight,
}

/// Makes the case of a seed.
pub fn case(seed: u64, flavour: Flavour) -> Case {
    let mut dice = Dice { random: Random(seed) };
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
    let (world, random) = (case.world(), &mut dice.random);
    let depth = 2 + random.below(4) as u32;
    case.program = match random.below(8) {
        0..2 => world.program_by_ingress(random, depth),
        2 => world.program_of_filters(random),
        _ => world.program(random, depth),
    };
    let packets = if random.one_in(4) { 20 } else { 8 };
    for _ in 0..3 + random.below(packets) {
        let packet = world.packet(random, &case.packets);
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

/// The generator of random choices.
struct Dice {
    random: Random,
}

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound as usize) as u64
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize].clone()
    }

    /// Returns mostly nothing, sometimes up to `most`.
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
        let pairs = cases::links(&mut self.random, n, n as usize - 1);
        for (a, b) in pairs {
            let delay = if self.one_in(4) { self.below(2 * MILLISECOND) } else { 10 * MICROSECOND };
            case.links.push(Link { a: next(a), b: next(b), delay });
        }
    }
}
