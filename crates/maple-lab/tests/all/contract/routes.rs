//! Whether a route can be taken, and where its packets leave the network, as the documentation of routes says.

use std::collections::{BTreeMap, BTreeSet};

use maple_core::network::{Location, PortKind};
use maple_wire::{Dpid, Field, PortNo, Version};

use crate::contract::oracle::Arrival;
use crate::contract::state::State;

/// The answer of a program.
#[derive(Clone, Debug, Default)]
pub struct Routed {
    /// The branches, each with hops that are treated alike.
    pub branches: Vec<Branch>,
    /// Whether it may send nothing because all its places are absent.
    pub may_be_empty: bool,
}

/// Hops that are treated alike.
#[derive(Clone, Debug, Default)]
pub struct Branch {
    hops: BTreeSet<(Dpid, PortNo)>,
    /// Places where packets leave the network.
    ends: BTreeSet<(Dpid, PortNo)>,
    /// The fields that are rewritten where the packet leaves.
    pub rewrites: BTreeMap<Field, u128>,
}

/// The ports by which packets leave a switch.
#[derive(Clone, Debug, Default)]
pub struct Exits {
    /// The ports.
    pub ports: BTreeSet<PortNo>,
    /// The links by which they go on to other switches.
    pub links: BTreeSet<PortNo>,
    /// The fields that are rewritten before.
    pub rewrites: BTreeMap<Field, u128>,
}

impl Branch {
    /// Creates a branch along these hops, without rewriting.
    pub fn along(hops: impl IntoIterator<Item = (Dpid, PortNo)>) -> Branch {
        Branch { hops: hops.into_iter().collect(), ..Branch::default() }
    }

    /// Lets the branch leave the network at these places.
    pub fn to(self, ends: impl IntoIterator<Item = (Dpid, PortNo)>) -> Branch {
        Branch { ends: ends.into_iter().collect(), ..self }
    }
}

impl From<Branch> for Routed {
    fn from(branch: Branch) -> Routed {
        Routed { branches: vec![branch], may_be_empty: false }
    }
}

type Hops<'a> = BTreeMap<(Dpid, PortNo), &'a BTreeMap<Field, u128>>;

/// Returns the hops of a route, without those to absent places and those that lead nowhere for that reason.
fn present<'a>(routed: &'a Routed, state: &State, ingress: Dpid) -> Result<Hops<'a>, &'static str> {
    let (mut hops, mut absent) = (Hops::new(), BTreeSet::new());
    for branch in &routed.branches {
        let hops_of_it = branch.hops.iter().map(|hop| (*hop, false));
        for ((dpid, port), is_end) in hops_of_it.chain(branch.ends.iter().map(|end| (*end, true))) {
            match state.kind(Location::new(dpid, port)) {
                None => drop(absent.insert(dpid)),
                Some(PortKind::Link(_)) if is_end => drop(absent.insert(dpid)),
                Some(_) => drop(hops.insert((dpid, port), &branch.rewrites)),
            }
        }
    }
    let far = |(dpid, port): (Dpid, PortNo)| state.peer(Location::new(dpid, port)).map(|far| far.switch);
    while let Some(useless) = hops
        .keys()
        .copied()
        .find(|hop| far(*hop).is_some_and(|next| absent.contains(&next) && hops.keys().all(|(dpid, _)| *dpid != next)))
    {
        hops.remove(&useless);
        absent.insert(useless.0);
    }
    if !absent.is_empty() {
        let mut reached = BTreeSet::from([ingress]);
        let mut next = vec![ingress];
        while let Some(at) = next.pop() {
            let onward = hops.keys().filter(|(dpid, _)| *dpid == at).filter_map(|hop| far(*hop));
            next.extend(onward.filter(|far| reached.insert(*far)));
        }
        hops.retain(|(dpid, _), _| reached.contains(dpid));
        if hops.is_empty() && !routed.may_be_empty {
            return Err("all places are absent");
        }
    }
    Ok(hops)
}

/// Returns where packets leave each switch that the route reaches, or why it can't be taken.
pub fn resolve(routed: &Routed, state: &State, arrival: Arrival) -> Result<BTreeMap<Dpid, Exits>, &'static str> {
    let hops = present(routed, state, arrival.at.switch)?;
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
    hops: &Hops,
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
            None => unreachable!("it was left out"),
            Some(PortKind::New | PortKind::Shut { .. }) => {}
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

/// Reports whether switches can rewrite a field.
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
