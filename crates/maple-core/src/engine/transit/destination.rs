//! Where packets are headed, as far as a match can say it: what one rule of a link can stand for.

use maple_wire::{Constraint, Field, PortNo};

use crate::capabilities::Capabilities;
use crate::compile::Region;
use crate::engine::leaf::from_port;
use crate::trace::{Item, prefix_length};

/// The fields that name a destination of packets of this Ethernet type.
const ROUTED: [(Field, u128); 2] = [(Field::Ipv4Dst, 0x800), (Field::Ipv6Dst, 0x86dd)];

/// All packets that arrive by a link and fit some constraints on where they go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Destination(Vec<Constraint>);

impl Destination {
    /// The destinations that packets with all of `known` in common have, the widest first: by Ethernet address, by that
    /// and the Ethernet type, by IP address or prefix.
    pub fn of(known: &[Constraint]) -> Vec<Destination> {
        let find = |field| known.iter().find(|c| c.field == field).copied();
        let kind = find(Field::EthType).filter(Constraint::is_exact);
        let host = find(Field::EthDst).filter(Constraint::is_exact);
        let mut all = Vec::new();
        if let Some(host) = host {
            all.push(Destination(vec![host]));
            all.extend(kind.map(|kind| Destination(vec![host, kind])));
        }
        for (field, number) in ROUTED {
            let address = find(field).filter(|address| prefix_length(field, address.mask).is_some_and(|len| len > 0));
            if let (Some(address), Some(kind)) = (address, kind.filter(|kind| kind.value == number)) {
                all.push(Destination(vec![kind, address]));
            }
        }
        all
    }

    /// What its packets have in common.
    pub fn constraints(&self) -> &[Constraint] {
        &self.0
    }

    /// The match that takes exactly its packets, if the switch has one.
    pub fn matching(&self, arrives: PortNo, capabilities: &Capabilities) -> Option<Vec<Constraint>> {
        let mut region = Region::any().with(&from_port(arrives))?;
        for constraint in &self.0 {
            region = region.with(constraint)?;
        }
        let matches = region.matches(capabilities)?;
        <[Vec<Constraint>; 1]>::try_from(matches).ok().map(|[one]| one)
    }
}

/// What packets that pass these items have in common for sure, one constraint a field.
pub(super) fn common(items: &[Item]) -> Vec<Constraint> {
    let mut region = Region::any();
    for item in items {
        let narrower = match item {
            Item::Read(constraint) => region.with(constraint),
            Item::Test { cond, outcome: true } => region.and(cond),
            Item::Test { outcome: false, .. } => None,
        };
        region = narrower.unwrap_or(region);
    }
    region.constraints().to_vec()
}

/// Whether no packet can have both in common.
pub(super) fn contradict(a: &[Constraint], b: &[Constraint]) -> bool {
    a.iter().any(|x| b.iter().any(|y| x.field == y.field && (x.value ^ y.value) & x.mask & y.mask != 0))
}
