//! Random constraints around random policies, and a plain judge of their meaning.
//!
//! The judge reads the frame, the hosts and the resolved route directly. It shares no code with `guard/`.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use maple_core::guard::{HostGroup, Member, Requirement, RouteConstraint};
use maple_core::network::{LinkName, Location};
use maple_core::policy::{Net, PacketHandle, Policy, PolicyError};
use maple_core::route::{Resolved, Route, rewritten};
use maple_core::state::{Cell, CellValue, Snapshot, Value};
use maple_core::trace::Cond;
use maple_sim::Choices;
use maple_sim::cases::{Domain, VARS};
use maple_wire::{Constraint as FieldIs, Dpid, Field, Packet, PortNo};

/// A constraint, as data.
#[derive(Clone, Debug)]
pub enum Guard {
    Waypoint(Vec<Member>, Vec<Member>, BTreeSet<Dpid>),
    Isolate(Vec<Member>, Vec<Member>),
    Never(Location, Vec<Member>),
    MaxHops(usize, Vec<Member>),
    Avoid(LinkName, Vec<Member>),
    OnlyWithin(BTreeSet<Dpid>, Vec<Member>),
    /// A user's constraint: at most this many deliveries, unless a variable is 1.
    FewDeliveries(usize),
    /// A user's constraint that fails for TCP.
    FailsOnTcp,
}

/// [`Guard::FewDeliveries`] as a function.
struct FewDeliveries(usize);

impl Policy for FewDeliveries {
    fn decide(&self, pkt: &PacketHandle, net: &Net) -> Result<Route, PolicyError> {
        let view = pkt.judged_route().expect("a constraint has a route");
        let is_open = net.read(Cell::Var(VARS[0].into())) == CellValue::Value(Some(Value::Int(1)));
        if view.deliveries.len() <= self.0 || is_open {
            Ok(Route::pass())
        } else {
            Err(PolicyError::Violates("too many deliveries".into()))
        }
    }
}

/// [`Guard::FailsOnTcp`] as a function.
struct FailsOnTcp;

impl Policy for FailsOnTcp {
    fn decide(&self, pkt: &PacketHandle, _: &Net) -> Result<Route, PolicyError> {
        let goes = pkt.judged_route().is_some_and(|view| !view.hops.is_empty());
        if goes && pkt.is(Field::IpProto, 6) {
            Err(PolicyError::Exception("on purpose".into()))
        } else {
            Ok(Route::pass())
        }
    }
}

/// The judgement of a packet's route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The route is taken.
    Allowed,
    /// The packet is dropped; the frames of f's own are sent.
    Refused,
    /// The run has failed.
    Failed,
}

/// Returns some constraints for a network.
pub fn guards(random: &mut Choices, world: &Domain) -> Vec<Guard> {
    (0..1 + random.below(3)).map(|_| guard(random, world)).collect()
}

fn guard(random: &mut Choices, world: &Domain) -> Guard {
    let group = |random: &mut Choices| group(random, world);
    let switch = |random: &mut Choices| Dpid(1 + random.below(world.switches as usize) as u64);
    match random.below(15) {
        0..4 => Guard::Waypoint(group(random), group(random), [switch(random)].into()),
        4..7 => Guard::Isolate(group(random), group(random)),
        7 => Guard::Never(*random.pick(&world.edges), group(random)),
        8 => Guard::MaxHops(1 + random.below(3), group(random)),
        9..11 => {
            let (a, b) = *random.pick(&world.links);
            let link = if random.chance(50) { LinkName::Port(a) } else { LinkName::Switches(b.switch, a.switch) };
            Guard::Avoid(link, group(random))
        }
        11..13 => Guard::OnlyWithin((0..1 + random.below(3)).map(|_| switch(random)).collect(), group(random)),
        13 => Guard::FewDeliveries(random.below(3)),
        _ => Guard::FailsOnTcp,
    }
}

fn group(random: &mut Choices, world: &Domain) -> Vec<Member> {
    if random.chance(30) {
        return vec![Member::Fits(Cond::default())];
    }
    let member = |random: &mut Choices| {
        let host = random.pick(&world.hosts);
        match random.below(5) {
            0 => Member::Mac(host.mac),
            1 => Member::Ip(IpAddr::V4(host.ipv4), *random.pick(&[32, 31, 30])),
            2 => Member::Ip(IpAddr::V6(host.ipv6), *random.pick(&[128, 127])),
            3 => Member::Place(*random.pick(&world.edges)),
            _ => {
                let field = *random.pick(&[Field::EthType, Field::EthSrc, Field::IpProto]);
                Member::Fits(Cond::default().and(FieldIs::exact(field, world.value(random, field))))
            }
        }
    };
    (0..1 + random.below(2)).map(|_| member(random)).collect()
}

impl Guard {
    /// Returns the guard as a constraint of `guard/`.
    pub fn constraint(&self) -> RouteConstraint<Arc<dyn Policy>> {
        let group = |members: &Vec<Member>| HostGroup::new(members.clone());
        let rule = match self.clone() {
            Guard::Waypoint(src, dst, via) => Requirement::Waypoint { src: group(&src), dst: group(&dst), via },
            Guard::Isolate(a, b) => Requirement::Isolate(group(&a), group(&b)),
            Guard::Never(port, src) => Requirement::Never { port, src: group(&src) },
            Guard::MaxHops(most, of) => Requirement::MaxHops { max: most, src: group(&of) },
            Guard::Avoid(link, of) => Requirement::Avoid { link, src: group(&of) },
            Guard::OnlyWithin(switches, of) => Requirement::OnlyWithin { switches, src: group(&of) },
            Guard::FewDeliveries(most) => Requirement::Custom(Arc::new(FewDeliveries(most)) as Arc<dyn Policy>),
            Guard::FailsOnTcp => Requirement::Custom(Arc::new(FailsOnTcp) as Arc<dyn Policy>),
        };
        RouteConstraint::new(format!("{self:?}"), None, rule)
    }
}

/// The subject of a guard: a frame that came in, and its route.
pub struct Judged<'a> {
    pub frame: &'a [u8],
    pub total_len: usize,
    pub came_in: Location,
    pub state: &'a Snapshot,
    pub track_hosts: bool,
    pub route: &'a Resolved,
}

impl Judged<'_> {
    /// Returns the verdict of all constraints together.
    pub fn verdict(&self, guards: &[Guard]) -> Judgement {
        let refuse = || guards.iter().filter(|guard| self.is_refused(guard));
        match refuse().any(|guard| matches!(guard, Guard::FailsOnTcp)) {
            true => Judgement::Failed,
            false if refuse().next().is_some() => Judgement::Refused,
            false => Judgement::Allowed,
        }
    }

    fn is_refused(&self, guard: &Guard) -> bool {
        if self.edges().is_empty() && self.links().is_empty() {
            return false;
        }
        let deliveries = self.deliveries();
        match guard {
            Guard::Waypoint(src, dst, via) => {
                let misses = |at: &Location| via.iter().all(|switch| !self.way(at.switch).contains(switch));
                self.sends(src) && self.watched(dst, &deliveries).any(|at| misses(&at))
            }
            Guard::Isolate(a, b) => {
                let meets = |from: &[Member], to: &[Member]| {
                    let all = self.addresses(to);
                    self.sends(from) && deliveries.iter().any(|at| all || self.is_at(to, *at))
                };
                meets(a, b) || meets(b, a)
            }
            Guard::Never(port, src) => {
                self.sends(src) && (deliveries.contains(port) || self.links().iter().any(|(from, _)| from == port))
            }
            Guard::MaxHops(most, of) => self.sends(of) && deliveries.iter().any(|at| self.way(at.switch).len() > *most),
            Guard::Avoid(link, of) => {
                let is_avoided = |(from, to): &(Location, Location)| match link {
                    LinkName::Port(at) => [from, to].contains(&at),
                    LinkName::Switches(a, b) => BTreeSet::from([a, b]) == BTreeSet::from([&from.switch, &to.switch]),
                };
                self.sends(of) && self.links().iter().any(is_avoided)
            }
            Guard::OnlyWithin(switches, of) => {
                let used =
                    self.route.switches.iter().filter(|(_, hops)| !hops.edges.is_empty() || !hops.links.is_empty());
                self.sends(of) && used.clone().any(|(switch, _)| !switches.contains(switch))
            }
            Guard::FewDeliveries(most) => deliveries.len() > *most && self.state.var(VARS[0]) != Some(&Value::Int(1)),
            Guard::FailsOnTcp => self.packet(self.frame, |packet| packet.get(Field::IpProto) == Some(6)),
        }
    }

    /// Reports whether the packet must pass the switches of its route: a waypoint lies between the ends, or a function
    /// has judged.
    pub fn must_follow_hops(&self, guards: &[Guard]) -> bool {
        guards.iter().any(|guard| match guard {
            Guard::Waypoint(src, dst, via) => {
                let is_between = |at: Location| !via.contains(&self.came_in.switch) && !via.contains(&at.switch);
                self.sends(src) && self.watched(dst, &self.deliveries()).any(is_between)
            }
            Guard::FewDeliveries(_) | Guard::FailsOnTcp => !self.links().is_empty(),
            _ => false,
        })
    }

    /// Returns the deliveries that a waypoint before this group watches.
    fn watched(&self, dst: &[Member], deliveries: &[Location]) -> impl Iterator<Item = Location> {
        let mut leaving = self.route.switches.values().filter(|hops| !hops.edges.is_empty());
        let is_new = leaving.any(|hops| hops.treatment.rewrites.contains_key(&Field::EthDst));
        let (said, named): (Vec<Member>, Vec<Member>) =
            dst.iter().cloned().partition(|member| matches!(member, Member::Fits(_)));
        let is_for_many = self.frame[0] & 1 == 1 && !is_new;
        let all = self.addresses(&said) || !is_for_many && self.addresses(&named);
        deliveries.iter().copied().filter(move |at| all || self.is_at(dst, *at))
    }

    fn packet<T>(&self, frame: &[u8], ask: impl FnOnce(&Packet<'_>) -> T) -> T {
        ask(&Packet::with_wire_len(frame, self.came_in.port.0, self.total_len))
    }

    fn edges(&self) -> Vec<Location> {
        let edges = |(switch, hops): (&Dpid, &maple_core::route::SwitchHops)| {
            hops.edges.iter().map(|port| Location::new(*switch, *port)).collect::<Vec<_>>()
        };
        self.route.switches.iter().flat_map(edges).collect()
    }

    fn links(&self) -> Vec<(Location, Location)> {
        let links = |(switch, hops): (&Dpid, &maple_core::route::SwitchHops)| {
            hops.links.iter().map(|(port, far)| (Location::new(*switch, *port), *far)).collect::<Vec<_>>()
        };
        self.route.switches.iter().flat_map(links).collect()
    }

    /// Returns the edge ports where the packet leaves. The port where it came in counts only if the
    /// route sends it back by name.
    fn deliveries(&self) -> Vec<Location> {
        let edges = self.edges();
        let named = edges.iter().any(|at| at.port == PortNo::IN_PORT);
        let place = |at: Location| if at.port == PortNo::IN_PORT { self.came_in } else { at };
        edges.into_iter().map(place).filter(|at| named || *at != self.came_in).collect()
    }

    /// Returns the switches on the way to one of them.
    fn way(&self, to: Dpid) -> Vec<Dpid> {
        let mut way = vec![to];
        while let Some((from, _)) = self.links().iter().find(|(_, far)| far.switch == way[way.len() - 1]) {
            way.push(from.switch);
        }
        way
    }

    fn sends(&self, group: &[Member]) -> bool {
        self.packet(self.frame, |packet| {
            let value = |field| packet.switch_value(field);
            group.iter().any(|member| match member {
                Member::Mac(mac) => value(Field::EthSrc) == Some(mac.bits()),
                Member::Ip(net, bits) => [Field::Ipv4Src, Field::ArpSpa, Field::Ipv6Src].iter().any(|field| {
                    is_v4(*field) == net.is_ipv4() && value(*field).is_some_and(|ip| is_in(ip, *net, *bits))
                }),
                Member::Place(at) => *at == self.came_in,
                Member::Fits(cond) => cond.holds(packet),
            })
        })
    }

    /// Reports whether the packet is addressed to a group, as it came in or as it leaves somewhere.
    fn addresses(&self, group: &[Member]) -> bool {
        let leaving = self.route.switches.values().filter(|hops| !hops.edges.is_empty());
        let mut forms = vec![self.frame.to_vec()];
        forms.extend(leaving.filter_map(|hops| rewritten(self.frame, &hops.treatment.rewrites, hops.tagged)));
        let to = |packet: &Packet<'_>| {
            let value = |field| packet.switch_value(field);
            group.iter().any(|member| match member {
                Member::Mac(mac) => value(Field::EthDst) == Some(mac.bits()),
                Member::Ip(net, bits) => [Field::Ipv4Dst, Field::ArpTpa, Field::Ipv6Dst].iter().any(|field| {
                    is_v4(*field) == net.is_ipv4() && value(*field).is_some_and(|ip| is_in(ip, *net, *bits))
                }),
                Member::Place(_) => false,
                Member::Fits(cond) => cond.holds(packet),
            })
        };
        forms.iter().any(|form| self.packet(form, to))
    }

    /// Reports whether a member is at a place.
    fn is_at(&self, group: &[Member], at: Location) -> bool {
        group.iter().any(|member| match member {
            Member::Place(place) => *place == at,
            Member::Fits(_) => false,
            _ if !self.track_hosts => false,
            Member::Mac(mac) => self.state.host(*mac).is_some_and(|host| host.location == at),
            Member::Ip(net, bits) => self.state.hosts().any(|(_, host)| {
                let number = |ip: IpAddr| match ip {
                    IpAddr::V4(ip) => u128::from(u32::from(ip)),
                    IpAddr::V6(ip) => u128::from(ip),
                };
                let is_member = |ip: IpAddr| ip.is_ipv4() == net.is_ipv4() && is_in(number(ip), *net, *bits);
                let v4 = host.ipv4.iter().copied().map(IpAddr::from);
                host.location == at && v4.chain(host.ipv6.iter().copied().map(Into::into)).any(is_member)
            }),
        })
    }
}

fn is_v4(field: Field) -> bool {
    field != Field::Ipv6Src && field != Field::Ipv6Dst
}

fn is_in(ip: u128, net: IpAddr, bits: u8) -> bool {
    match net {
        IpAddr::V4(net) => ip >> (32 - bits) == u128::from(u32::from(net)) >> (32 - bits),
        IpAddr::V6(net) => ip >> (128 - bits) == u128::from(net) >> (128 - bits),
    }
}
