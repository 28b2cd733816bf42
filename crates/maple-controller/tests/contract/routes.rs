//! Whether a route can be taken, and where its packets leave the network, as the documentation of routes says.

use std::collections::{BTreeMap, BTreeSet};

use maple_core::network::{Location, PortKind};
use maple_wire::{Dpid, Field, PortNo, Version};

use crate::oracle::Arrival;
use crate::state::State;

/// Hops that are treated alike.
#[derive(Clone, Debug, Default)]
pub struct Branch {
    hops: BTreeSet<(Dpid, PortNo)>,
    /// What is rewritten where the packet leaves.
    pub rewrites: BTreeMap<Field, u128>,
}

/// Where packets leave a switch.
#[derive(Clone, Debug, Default)]
pub struct Exits {
    /// The ports.
    pub ports: BTreeSet<PortNo>,
    /// The links by which they go on to other switches.
    pub links: BTreeSet<PortNo>,
    /// What is rewritten before.
    pub rewrites: BTreeMap<Field, u128>,
}

impl Branch {
    /// Along these hops, without rewriting.
    pub fn along(hops: impl IntoIterator<Item = (Dpid, PortNo)>) -> Branch {
        Branch { hops: hops.into_iter().collect(), rewrites: BTreeMap::new() }
    }
}

/// Where packets leave each switch that the route reaches, or why it can't be taken.
pub fn resolve(branches: &[Branch], state: &State, arrival: Arrival) -> Result<BTreeMap<Dpid, Exits>, &'static str> {
    let mut hops = BTreeMap::new();
    for branch in branches {
        hops.extend(branch.hops.iter().map(|hop| (*hop, &branch.rewrites)));
    }
    let starts: BTreeSet<Dpid> = hops.keys().map(|(dpid, _)| *dpid).collect();
    let mut reached = BTreeMap::new();
    visit(arrival.at.switch, &hops, &starts, state, &mut reached)?;
    if !starts.iter().all(|dpid| reached.contains_key(dpid))
        || !starts.is_empty() && !starts.contains(&arrival.at.switch)
    {
        return Err("a hop is not reached");
    }
    for (dpid, exits) in &reached {
        let version = state.switches.get(dpid).copied().unwrap_or(Version::Of13);
        let pushes_tag = exits.rewrites.get(&Field::VlanVid).is_some_and(|vid| *vid != 0);
        for (field, value) in &exits.rewrites {
            if value & !field.full_mask() != 0 || !settable(*field, version) {
                return Err("a field can't be set so");
            }
            let comes_with_tag = *field == Field::VlanVid || *field == Field::VlanPcp && pushes_tag;
            if !comes_with_tag && arrival.get(*field).is_none() {
                return Err("the packet lacks a field to set");
            }
        }
    }
    Ok(reached)
}

fn visit(
    at: Dpid,
    hops: &BTreeMap<(Dpid, PortNo), &BTreeMap<Field, u128>>,
    starts: &BTreeSet<Dpid>,
    state: &State,
    reached: &mut BTreeMap<Dpid, Exits>,
) -> Result<(), &'static str> {
    if reached.insert(at, Exits::default()).is_some() {
        return Err("the route comes to a switch again");
    }
    for ((_, port), rewrites) in hops.iter().filter(|((dpid, _), _)| *dpid == at) {
        let place = Location::new(at, *port);
        match state.kind(place) {
            None => return Err("no such port"),
            Some(PortKind::New | PortKind::Shared { .. }) => {}
            Some(PortKind::Edge | PortKind::Middlebox) => {
                let exits = reached.get_mut(&at).expect("it was put in above");
                if !exits.ports.is_empty() && exits.rewrites != **rewrites {
                    return Err("different rewrites at one switch");
                }
                exits.ports.insert(*port);
                exits.rewrites.clone_from(rewrites);
            }
            Some(PortKind::Link(_)) => match state.peer(place) {
                None => {}
                Some(far) if !starts.contains(&far.switch) => return Err("the route ends at a link"),
                Some(far) => {
                    reached.get_mut(&at).expect("it was put in above").links.insert(*port);
                    visit(far.switch, hops, starts, state, reached)?;
                }
            },
        }
    }
    Ok(())
}

/// The fields that switches can rewrite.
fn settable(field: Field, version: Version) -> bool {
    use Field::*;
    match version {
        Version::Of10 => matches!(
            field,
            EthDst | EthSrc | VlanVid | VlanPcp | IpDscp | Ipv4Src | Ipv4Dst | TcpSrc | TcpDst | UdpSrc | UdpDst
        ),
        Version::Of13 => !matches!(field, InPort | InPhyPort | Metadata | EthType | IpProto | Ipv6Exthdr | MplsBos),
    }
}
