//! Layouts of many kinds of networks: what people can read, and that nothing moves without need.

use std::collections::{BTreeMap, BTreeSet};

use maple_wire::Dpid;
use proptest::prelude::*;

use super::layout::{MAX_AWAY, MapLayout};
use super::places::{APART, LINK, Point};

/// A network: its switches, and the links between them.
#[derive(Clone, Debug, Default, PartialEq)]
struct Made {
    switches: BTreeSet<Dpid>,
    links: BTreeSet<(Dpid, Dpid)>,
}

impl Made {
    fn new(links: impl IntoIterator<Item = (u64, u64)>) -> Made {
        let mut made = Made::default();
        for (a, b) in links.into_iter().filter(|(a, b)| a != b) {
            made.switches.extend([Dpid(a), Dpid(b)]);
            made.links.insert((Dpid(a.min(b)), Dpid(a.max(b))));
        }
        made
    }

    fn neighbours(&self, of: Dpid) -> BTreeSet<Dpid> {
        let other = |(a, b): &(Dpid, Dpid)| if *a == of { Some(*b) } else { (*b == of).then_some(*a) };
        self.links.iter().filter_map(other).collect()
    }

    fn laid_out(&self) -> MapLayout {
        let mut layout = MapLayout::default();
        layout.update(&self.switches, &self.links, true);
        layout
    }
}

fn line(n: u64) -> Made {
    Made::new((1..n).map(|a| (a, a + 1)))
}

fn ring(n: u64) -> Made {
    Made::new((1..=n).map(|a| (a, a % n + 1)))
}

fn star(n: u64) -> Made {
    Made::new((2..=n).map(|a| (1, a)))
}

fn tree(n: u64, children: u64) -> Made {
    Made::new((2..=n).map(|a| ((a - 2) / children + 1, a)))
}

fn fat_tree(k: u64) -> Made {
    let half = k / 2;
    let core = |group: u64, at: u64| 1 + group * half + at;
    let aggregation = |pod: u64, at: u64| 10_000 + pod * half + at;
    let edge = |pod: u64, at: u64| 20_000 + pod * half + at;
    let mut links = Vec::new();
    for pod in 0..k {
        for a in 0..half {
            links.extend((0..half).map(|at| (core(a, at), aggregation(pod, a))));
            links.extend((0..half).map(|e| (aggregation(pod, a), edge(pod, e))));
        }
    }
    Made::new(links)
}

fn grid(side: u64) -> Made {
    let at = |x: u64, y: u64| 1 + x * side + y;
    let each = (0..side).flat_map(|x| (0..side).map(move |y| (x, y)));
    Made::new(each.flat_map(|(x, y)| {
        let right = (x + 1 < side).then(|| (at(x, y), at(x + 1, y)));
        right.into_iter().chain((y + 1 < side).then(|| (at(x, y), at(x, y + 1))))
    }))
}

/// Creates a connected network with random links.
fn random(n: u64, links: u64, seed: u64) -> Made {
    let mut random = fastrand::Rng::with_seed(seed);
    let tree: Vec<(u64, u64)> = (2..=n).map(|a| (random.u64(1..a), a)).collect();
    let more: Vec<(u64, u64)> = (n..=links).map(|_| (random.u64(1..=n), random.u64(1..=n))).collect();
    Made::new(tree.into_iter().chain(more))
}

/// Creates a random tree: of few branches or of many.
fn random_tree(n: u64, back: u64, seed: u64) -> Made {
    let mut random = fastrand::Rng::with_seed(seed);
    Made::new((2..=n).map(|a| (random.u64(a.saturating_sub(back).max(1)..a), a)))
}

fn places(made: &Made, layout: &MapLayout) -> BTreeMap<Dpid, Point> {
    made.switches.iter().map(|dpid| (*dpid, layout.place(*dpid).expect("each has a place"))).collect()
}

/// Reports whether two links cross that have no switch in common.
fn cross((a, b): (Point, Point), (c, d): (Point, Point)) -> bool {
    let side = |p: Point, q: Point, r: Point| (q.x - p.x) * (r.y - p.y) - (q.y - p.y) * (r.x - p.x);
    side(a, b, c) * side(a, b, d) < 0.0 && side(c, d, a) * side(c, d, b) < 0.0
}

fn crossings(made: &Made, places: &BTreeMap<Dpid, Point>) -> usize {
    let links: Vec<(Dpid, Dpid)> = made.links.iter().copied().collect();
    let ends = |(a, b): (Dpid, Dpid)| (places[&a], places[&b]);
    let pairs = links.iter().enumerate().flat_map(|(at, one)| links[at + 1..].iter().map(move |other| (*one, *other)));
    let apart = pairs.filter(|((a, b), (c, d))| a != c && a != d && b != c && b != d);
    apart.filter(|(one, other)| cross(ends(*one), ends(*other))).count()
}

/// Checks that no two switches are too near. Returns the mean length of links, and of all pairs.
fn lengths(made: &Made, places: &BTreeMap<Dpid, Point>) -> (f64, f64) {
    let all: Vec<Point> = places.values().copied().collect();
    let (mut sum, mut count) = (0.0, 0.0);
    for (at, one) in all.iter().enumerate() {
        for other in &all[at + 1..] {
            let length = one.to(*other);
            assert!(length >= APART, "{one:?} and {other:?} are too near");
            (sum, count) = (sum + length, count + 1.0);
        }
    }
    let links: f64 = made.links.iter().map(|(a, b)| places[a].to(places[b])).sum();
    (links / made.links.len() as f64, sum / count)
}

#[test]
fn networks_without_circles_have_no_crossings() {
    let seeds = [fastrand::u64(..), fastrand::u64(..)];
    let mut all = vec![line(2), line(60), star(3), star(200), tree(120, 2), tree(300, 7)];
    for seed in seeds {
        all.extend([random_tree(150, 150, seed), random_tree(200, 4, seed), random_tree(100, 1 + seed % 20, seed)]);
    }
    for made in all {
        let places = places(&made, &made.laid_out());
        lengths(&made, &places);
        assert_eq!(crossings(&made, &places), 0, "{seeds:?}: {made:?}");
    }
}

#[test]
fn a_ring_is_a_circle() {
    for n in [3, 8, 40, 100] {
        let made = ring(n);
        let places = places(&made, &made.laid_out());
        let (links, _) = lengths(&made, &places);
        assert_eq!(crossings(&made, &places), 0, "{n} switches");
        assert!(links < 1.6 * LINK, "{links}");
    }
}

#[test]
fn neighbours_are_near() {
    let seed = fastrand::u64(..);
    for (name, made, most) in [
        ("fat tree of 4", fat_tree(4), 0.75),
        ("fat tree of 8", fat_tree(8), 0.75),
        ("grid", grid(8), 0.3),
        ("random, few links", random(150, 200, seed), 0.5),
        ("random, many links", random(150, 450, seed), 0.75),
    ] {
        let places = places(&made, &made.laid_out());
        let (links, all) = lengths(&made, &places);
        assert!(links < most * all, "{name}, seed {seed}: links have {links}, pairs {all}");
    }
    let made = grid(8);
    assert_eq!(crossings(&made, &places(&made, &made.laid_out())), 0, "a grid is flat");
}

#[test]
fn parts_of_a_network_and_lone_switches_lie_side_by_side() {
    let mut made = Made::new(ring(12).links.iter().map(|(a, b)| (a.0, b.0)));
    made.links.extend(star(9).links.iter().map(|(a, b)| (Dpid(a.0 + 100), Dpid(b.0 + 100))));
    made.switches.extend((1..=9).map(|n| Dpid(n + 100)));
    made.switches.extend((0..7).map(|n| Dpid(n + 1000)));
    let places = places(&made, &made.laid_out());
    lengths(&made, &places);
    assert_eq!(crossings(&made, &places), 0);
    let reach = |of: &dyn Fn(u64) -> bool| {
        let xs: Vec<Point> = places.iter().filter(|(dpid, _)| of(dpid.0)).map(|(_, at)| *at).collect();
        let least = |of: fn(&Point) -> f64| xs.iter().map(of).fold(f64::INFINITY, f64::min);
        let most = |of: fn(&Point) -> f64| xs.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
        (least(|at| at.x), most(|at| at.x), least(|at| at.y), most(|at| at.y))
    };
    let parts = [reach(&|n| n < 100), reach(&|n| (100..1000).contains(&n)), reach(&|n| n >= 1000)];
    for (at, one) in parts.iter().enumerate() {
        for other in &parts[at + 1..] {
            let is_apart = one.1 < other.0 || other.1 < one.0 || one.3 < other.2 || other.3 < one.2;
            assert!(is_apart, "{one:?} and {other:?}");
        }
    }
}

#[test]
fn a_switch_that_comes_back_is_where_it_was() {
    let made = fat_tree(4);
    let mut layout = made.laid_out();
    let before = places(&made, &layout);
    let mut without = made.clone();
    let gone: BTreeSet<Dpid> = made.switches.iter().copied().step_by(3).collect();
    without.switches.retain(|dpid| !gone.contains(dpid));
    without.links.retain(|(a, b)| !gone.contains(a) && !gone.contains(b));
    layout.update(&without.switches, &without.links, true);
    let mut others = without.clone();
    others.switches.extend((0..20).map(|n| Dpid(n + 500)));
    layout.update(&others.switches, &others.links, true);
    layout.update(&made.switches, &made.links, true);
    assert_eq!(places(&made, &layout), before);
}

#[test]
fn the_places_of_those_that_are_away_are_bounded() {
    let mut layout = MapLayout::default();
    let some = |from: u64| (from..from + 200).map(Dpid).collect::<BTreeSet<Dpid>>();
    for round in 0..10 {
        layout.update(&some(round * 200), &BTreeSet::new(), true);
    }
    let known = (0..2000).filter(|n| layout.place(Dpid(*n)).is_some()).count();
    assert_eq!(known, 200 + MAX_AWAY);
    assert!(
        layout.place(Dpid(0)).is_none() && layout.place(Dpid(1999)).is_some(),
        "those that went first are forgotten"
    );
}

#[test]
fn a_network_that_is_being_found_is_laid_out_once_it_is_known() {
    let made = tree(40, 3);
    let mut layout = MapLayout::default();
    let found: Vec<Dpid> = made.switches.iter().copied().collect();
    for count in [5, 20, 40] {
        layout.update(&found[..count].iter().copied().collect(), &made.links, false);
    }
    lengths(&made, &places(&made, &layout));
    layout.update(&made.switches, &made.links, true);
    let at = places(&made, &layout);
    lengths(&made, &at);
    assert_eq!(crossings(&made, &at), 0);
}

#[test]
fn a_new_switch_comes_near_its_neighbour() {
    let mut made = fat_tree(4);
    let mut layout = made.laid_out();
    let before = places(&made, &layout);
    for new in 0..8 {
        let neighbour = 20_000 + new;
        made.switches.insert(Dpid(30_000 + new));
        made.links.insert((Dpid(neighbour), Dpid(30_000 + new)));
    }
    layout.update(&made.switches, &made.links, true);
    let after = places(&made, &layout);
    assert!(before.iter().all(|(dpid, at)| after[dpid] == *at), "nothing else moves");
    let (_, all) = lengths(&made, &after);
    for new in 0..8 {
        assert!(after[&Dpid(20_000 + new)].to(after[&Dpid(30_000 + new)]) < 0.75 * all);
    }
}

/// A change of a network.
#[derive(Clone, Debug)]
enum Happens {
    LinkFlaps(prop::sample::Index),
    LinkComes(u64, u64),
    SwitchGoes(u64),
    SwitchComes(u64),
}

fn happens(n: u64) -> impl Strategy<Value = Happens> {
    prop_oneof![
        6 => any::<prop::sample::Index>().prop_map(Happens::LinkFlaps),
        1 => (1..=n, 1..=n).prop_map(|(a, b)| Happens::LinkComes(a, b)),
        1 => (1..=n).prop_map(Happens::SwitchGoes),
        1 => (1..=n + 5).prop_map(Happens::SwitchComes),
    ]
}

/// Returns the network as it is at this moment, of the links that it may have.
fn now(all: &Made, down: &BTreeSet<(Dpid, Dpid)>) -> Made {
    let mut now = all.clone();
    now.links.retain(|link| !down.contains(link) && all.switches.contains(&link.0) && all.switches.contains(&link.1));
    now
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn events_move_no_switch_whose_neighbours_stay_the_same(
        seed: u64, n in 2u64..40, events in prop::collection::vec(happens(40), 1..60),
    ) {
        let mut all = random(n, n + n / 2, seed);
        let mut down = BTreeSet::new();
        let (mut layout, mut same) = (all.laid_out(), all.laid_out());
        let mut before = all.clone();
        for event in events {
            match event {
                Happens::LinkFlaps(at) => {
                    let links: Vec<_> = all.links.iter().copied().collect();
                    let link = *at.get(&links);
                    if !down.remove(&link) { down.insert(link); }
                }
                Happens::LinkComes(a, b) if a != b => drop(all.links.insert((Dpid(a.min(b)), Dpid(a.max(b))))),
                Happens::LinkComes(..) => {}
                Happens::SwitchGoes(dpid) => drop(all.switches.remove(&Dpid(dpid))),
                Happens::SwitchComes(dpid) => drop(all.switches.insert(Dpid(dpid))),
            }
            let after = now(&all, &down);
            let old = layout.clone();
            layout.update(&after.switches, &after.links, true);
            same.update(&after.switches, &after.links, true);
            let at = places(&after, &layout);
            prop_assert_eq!(&at, &places(&after, &same), "the same events lead to the same places");
            if at.len() > 1 && !after.links.is_empty() { lengths(&after, &at); }
            for dpid in after.switches.intersection(&before.switches) {
                if before.neighbours(*dpid) == after.neighbours(*dpid) {
                    prop_assert_eq!(layout.place(*dpid), old.place(*dpid), "{}", dpid);
                }
            }
            before = after;
        }
    }
}

#[test]
fn a_thousand_flaps_move_nothing() {
    let seed = fastrand::u64(..);
    let made = random(120, 300, seed);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut layout = made.laid_out();
    let before = places(&made, &layout);
    let (links, mut down) = (Vec::from_iter(made.links.iter().copied()), BTreeSet::new());
    for _ in 0..1000 {
        let link = links[random.usize(..links.len())];
        if !down.remove(&link) {
            down.insert(link);
        }
        let now = now(&made, &down);
        layout.update(&now.switches, &now.links, true);
        assert_eq!(places(&made, &layout), before, "seed {seed}");
    }
}
