//! Abilities of the simulation as a driver of scenarios, and properties of its switches.

use maple_core::trace::Cond;
use maple_sim::Choices;
use maple_sim::cases::{CaseNetwork, Domain, Driver, Kind, Theme};
use maple_wire::{Constraint, Field, Version};

/// The number of ports for links at every switch.
pub const LINK_PORTS: u32 = 3;

/// Returns what the simulation can do: all that happens inside of a controller, at any moment.
pub fn driver() -> Driver {
    use Kind::*;
    let mix = vec![
        (232, Send),
        (8, Forge),
        (8, LinkDown),
        (12, LinkUp),
        (8, Move),
        (36, Write),
        (16, Invalidate),
        (4, Reconnect),
        (5, Flap),
        (5, LoseRule),
        (4, Shrink),
        (3, RemovePort),
        (6, AddPort),
        (8, Settle),
        (51, Rest),
    ];
    Driver {
        switches: 4,
        links: LINK_PORTS,
        makes_ports: false,
        all_answers: true,
        any_packets: false,
        declares_places: false,
        false_facts: false,
        packets: (1, 6),
        steps: (4, 14),
        steps_of_flows: (12, 31),
        mix,
    }
}

/// The properties of the switches of a case.
#[derive(Clone, Debug)]
pub struct Shape {
    pub versions: Vec<Version>,
    /// The number of tables of each switch.
    pub tables: Vec<u8>,
    /// The first table for which switches accept no rules, if there is one, and whether they accept rules that write
    /// metadata.
    pub refused: (Option<u8>, bool),
    pub shards: u8,
    /// The number of bytes of a packet that switches send to the controller, and whether they keep the rest; `None` for
    /// whole packets.
    pub capture: Option<(usize, bool)>,
    /// The conditions of the packets that handlers want.
    pub heard: Vec<Cond>,
    /// Whether switches accept meters.
    pub takes_meters: bool,
}

impl Shape {
    /// Returns the shape of a network. Some switches have few tables, or send partial packets.
    pub fn any(random: &mut Choices, network: &CaseNetwork, theme: Theme) -> Shape {
        let versions = versions(random, network.switches, theme);
        let tables = tables(random, &versions);
        let capture = random.chance(8).then(|| (20 + random.below(50), random.chance(50)));
        let refused = (random.chance(4).then(|| 1 + random.below(3) as u8), !random.chance(6));
        let takes_meters = random.chance(90);
        let shards = 1 + random.below(2) as u8;
        let heard = if random.chance(12) { wanted(random, &network.world(true)) } else { Vec::new() };
        Shape { versions, tables, refused, shards, capture, heard, takes_meters }
    }

    /// Returns the shape with switches that speak both versions.
    pub fn of_mixed_versions(self, random: &mut Choices) -> Shape {
        let mut versions: Vec<Version> = self.versions.iter().map(|_| any_version(random)).collect();
        if let [first, .., last] = &mut versions[..]
            && first == last
        {
            *last = other_version(*first);
        }
        Shape { tables: tables(random, &versions), versions, ..self }
    }
}

/// Returns the versions of switches: mostly 1.3 where labels are to be used, and otherwise often one for all.
fn versions(random: &mut Choices, switches: u64, theme: Theme) -> Vec<Version> {
    let only = match random.below(10) {
        0..6 => Some(Version::Of13),
        6..8 => Some(Version::Of10),
        _ => None,
    };
    let version = |_| match theme {
        Theme::Any => only.unwrap_or_else(|| any_version(random)),
        Theme::RoutesThatMeet | Theme::ManyFlows if random.chance(5) => Version::Of10,
        Theme::RoutesThatMeet | Theme::ManyFlows => Version::Of13,
    };
    (0..switches).map(version).collect()
}

/// Returns the conditions of the packets that handlers want.
fn wanted(random: &mut Choices, world: &Domain) -> Vec<Cond> {
    const FIELDS: [Field; 5] = [Field::InPort, Field::EthDst, Field::EthType, Field::Ipv4Src, Field::TcpDst];
    let cond = |random: &mut Choices| {
        let field = *random.pick(&FIELDS);
        let exact = Constraint::exact(field, world.value(random, field));
        if random.chance(10) { Cond::default() } else { Cond::default().and(exact) }
    };
    (0..1 + random.below(2)).map(|_| cond(random)).collect()
}

/// Returns the number of tables of each switch.
fn tables(random: &mut Choices, versions: &[Version]) -> Vec<u8> {
    let number = |version: &Version| match version {
        Version::Of10 => 1,
        Version::Of13 if random.chance(20) => 1 + random.below(7) as u8,
        Version::Of13 => 254,
    };
    versions.iter().map(number).collect()
}

fn any_version(random: &mut Choices) -> Version {
    if random.one_in(2) { Version::Of10 } else { Version::Of13 }
}

/// Returns the version that a switch of this one does not speak.
pub fn other_version(version: Version) -> Version {
    if version == Version::Of10 { Version::Of13 } else { Version::Of10 }
}
