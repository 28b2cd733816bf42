//! Cases from one seed: their scenarios, and how fast everything is.

use maple_emulator::time::{MICROSECOND, MILLISECOND, Nanoseconds};
use maple_sim::Choices;
use maple_sim::cases::{Driver, Kind, Scenario, Step, Theme};
use maple_sim::oracles::Strategy;
use maple_wire::Version;

use crate::contract::case::Case;

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

/// Returns what whole controllers with an emulated network can do: all that happens outside of a controller, at given
/// times.
fn driver(random: &mut Choices, flavour: Flavour, declares_places: bool) -> Driver {
    use Kind::*;
    let mut mix = vec![(650, Send), (333, Stream), (1200, Wait), (130, Slow), (62, Declare)];
    mix.extend(match flavour {
        Flavour::Soft | Flavour::Tight => {
            [(40, Invalidate), (40, InvalidateHost), (40, InvalidatePort), (80, Cost), (208, Write)]
        }
        Flavour::Hard => [(16, Invalidate), (14, InvalidateHost), (14, InvalidatePort), (27, Cost), (72, Write)],
    });
    if flavour == Flavour::Hard {
        mix.extend([(42, LinkDown), (42, LinkUp), (62, Port), (42, Move), (22, Restart), (25, LoseRule)]);
        mix.extend([(20, LoseConnection), (10, HalfOpen), (21, RegainConnection)]);
    }
    // If everything is thrown away again and again, nothing gets old enough to be wrong.
    if random.one_in(2) {
        mix.push((540, Volley));
    }
    Driver {
        switches: 5,
        links: 8,
        makes_ports: true,
        all_answers: false,
        any_packets: true,
        declares_places,
        false_facts: flavour == Flavour::Hard,
        packets: (3, if random.one_in(4) { 22 } else { 10 }),
        steps: (19, 64),
        steps_of_flows: (19, 64),
        mix,
    }
}

/// Makes the case of a seed.
pub fn case(seed: u64, flavour: Flavour) -> Case {
    let random = &mut Choices::new(seed);
    let track_hosts = !random.one_in(10);
    let driver = driver(random, flavour, track_hosts);
    let theme = *random.pick(&[
        Theme::RoutesThatMeet,
        Theme::RoutesThatMeet,
        Theme::ManyFlows,
        Theme::Any,
        Theme::Any,
        Theme::Any,
        Theme::Any,
        Theme::Any,
    ]);
    let mut scenario = Scenario::generate(random, &driver, theme);
    let world = scenario.network.world(driver.all_answers);
    let costs: Vec<Step> = (0..random.below(6)).map(|_| Step::Write(world.cost(random))).collect();
    scenario.steps.splice(0..0, costs);
    let is_tight = flavour == Flavour::Tight;
    let few = |random: &mut Choices, least: usize, more: usize| {
        (is_tight && random.one_in(4)).then(|| least + random.below(more))
    };
    Case {
        scenario,
        version: if random.one_in(3) { Version::Of10 } else { Version::Of13 },
        tables: (
            if random.one_in(6) { 1 + random.below(2) as u8 } else { 8 },
            if is_tight { 6 + random.below(20) } else { 65_536 },
        ),
        open_vswitch: random.one_in(2),
        shards: 1 + random.below(3) as u8,
        track_hosts,
        compiler: if random.one_in(5) { Strategy::Paper } else { Strategy::Maple },
        room: (few(random, 12, 30), few(random, 1, 5)),
        busy: span(random, 200 * MICROSECOND),
        mail: span(random, 300 * MICROSECOND),
        jitter: span(random, MILLISECOND),
        seed: random.number(),
        trace: false,
    }
}

/// Returns mostly nothing, sometimes up to `most`.
fn span(random: &mut Choices, most: Nanoseconds) -> Nanoseconds {
    if random.one_in(2) { 0 } else { random.below(most as usize) as Nanoseconds }
}
