//! Shortest paths between all switches, computed on several cores in parallel (McNettle's demo, "deterministic parallel
//! programming"). The feature `parallel-paths`, which is on by default, has this module and its dependency rayon.
//!
//! # What it computes
//! For each destination a breadth-first search gives the distance of every switch. The next hop of a switch is the
//! lowest port that leads one step nearer. Destinations are independent of each other. A pool (`rayon`) divides them
//! among its threads, and the results are put together in the order of the destinations.
//!
//! # Why it is correct
//! The answer is a function of the links alone: no thread writes what another reads, and `collect` keeps the order. So
//! any number of threads gives one answer (a property test), and it equals that of `net.shortest_path`, the oracle.
//!
//! # Cost
//! O(switches · links) in all, divided by the threads; 8 bytes for each pair of switches.
//!
//! # Who may call
//! Policies, from any worker. The pool's threads run on the cores of the thread that made it, and each worker is pinned
//! to one core. So make the pool before the controller starts.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use maple_core::network::{Hop, Location};
use maple_core::route::Route;
use maple_core::trace::Source;
use maple_wire::{Dpid, PortNo};
use parking_lot::Mutex;
use rayon::prelude::*;

use crate::net::{Net, Place};

/// A link, as a pair of its ends.
///
/// ```
/// use maple::net::{Dpid, Location, PortNo};
///
/// let link: maple::paths::Link = (Location::new(Dpid(1), PortNo(2)), Location::new(Dpid(2), PortNo(1)));
/// assert_eq!(link.0.switch, Dpid(1));
/// ```
pub type Link = (Location, Location);

/// The reason why there are no threads for computing paths: the system refused to create them.
///
/// ```
/// use maple::paths::{ParallelPaths, ThreadsError};
///
/// fn paths() -> Result<ParallelPaths, ThreadsError> {
///     ParallelPaths::new(2)
/// }
/// assert!(paths().is_ok());
/// ```
#[derive(Debug, thiserror::Error)]
#[error("cannot create the threads for computing paths: {0}")]
pub struct ThreadsError(#[source] rayon::ThreadPoolBuildError);

/// Shortest paths of the network, recomputed in parallel when a link comes or goes.
///
/// ```
/// use maple::paths::ParallelPaths;
/// use maple::testing::*;
///
/// let paths = ParallelPaths::new(2)?;
/// let policy = move |pkt: &Packet, net: &Net| match (net.locate(pkt.eth_src()), net.locate(pkt.eth_dst())) {
///     (Some(src), Some(dst)) => paths.shortest_path(net, src, dst),
///     _ => net.flood(),
/// };
/// let bench = Bench::new().switch(1, 1..=2).switch(2, 1..=2).link((1, 2), (2, 2));
/// let (a, b) = (bench.port(1, 1), bench.port(2, 1));
/// let bench = bench.host("00:00:00:00:00:01", a).host("00:00:00:00:00:02", b);
/// assert_eq!(bench.decide(&policy, &tcp(1024, 80), a).exits(), [b]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ParallelPaths {
    pool: rayon::ThreadPool,
    /// The links of the last computation, and the paths over them. They cache a pure function, so they are not state.
    last: Mutex<Option<(Vec<Link>, Arc<AllPaths>)>>,
}

impl fmt::Debug for ParallelPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParallelPaths").field("threads", &self.pool.current_num_threads()).finish_non_exhaustive()
    }
}

/// The next hops from every switch to every other.
///
/// ```
/// use maple::net::Dpid;
/// use maple::paths::AllPaths;
///
/// assert_eq!(AllPaths::over(&[]).hops(Dpid(1), Dpid(2)), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllPaths {
    switches: Vec<Dpid>,
    /// The next steps, by destination, then by switch.
    steps: Vec<Box<[Option<Step>]>>,
}

/// One step: a port, and the switch that it leads to, as a position in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    port: PortNo,
    next: u32,
}

impl ParallelPaths {
    /// Creates a pool of this many threads for computing paths. 0 means one for each core.
    ///
    /// ```
    /// assert!(maple::paths::ParallelPaths::new(2).is_ok());
    /// ```
    ///
    /// # Errors
    /// [`ThreadsError`] if the system refuses to create the threads.
    pub fn new(threads: usize) -> Result<ParallelPaths, ThreadsError> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("paths-{index}"))
            .build()
            .map_err(ThreadsError)?;
        Ok(ParallelPaths { pool, last: Mutex::new(None) })
    }

    /// Returns the path with the fewest hops from `src`'s switch out of `dst`, or an unreachable route where
    /// [`Net::shortest_path`] returns one. Depends on all links.
    ///
    /// ```
    /// # let bench = maple::testing::Bench::new().switch(1, 1..=2);
    /// # let (a, b) = (bench.port(1, 1), bench.port(1, 2));
    /// let paths = maple::paths::ParallelPaths::new(2)?;
    /// # bench.run(|_, net| {
    /// assert_eq!(paths.shortest_path(net, a, b).explicit_hops().count(), 1);
    /// # });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn shortest_path(&self, net: &Net, src: impl Place, dst: impl Place) -> Route {
        let (Some(src), Some(dst)) = (src.start(), dst.place()) else { return Route::unreachable() };
        let absent = net.handle().path_to_absent(src, dst);
        absent.unwrap_or_else(|| self.for_links(net.links()).route(src, dst))
    }

    /// Returns all paths over these links. They are computed only if the links have changed; other callers wait for
    /// that.
    ///
    /// ```
    /// use maple::paths::ParallelPaths;
    /// use maple::net::{Dpid, Location, PortNo};
    ///
    /// let at = |switch, port| Location::new(Dpid(switch), PortNo(port));
    /// let paths = ParallelPaths::new(2)?.for_links(vec![(at(1, 2), at(2, 1)), (at(2, 2), at(3, 1))]);
    /// assert_eq!(paths.hops(Dpid(1), Dpid(3)).unwrap().len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn for_links(&self, links: Vec<Link>) -> Arc<AllPaths> {
        let mut last = self.last.lock();
        if let Some((known, paths)) = &*last
            && *known == links
        {
            return paths.clone();
        }
        let paths = Arc::new(self.pool.install(|| AllPaths::over(&links)));
        *last = Some((links, paths.clone()));
        paths
    }
}

impl AllPaths {
    /// Computes the paths over these links, in the threads of the current pool.
    ///
    /// ```
    /// use maple::net::Dpid;
    /// use maple::paths::AllPaths;
    ///
    /// assert_eq!(AllPaths::over(&[]).hops(Dpid(1), Dpid(1)), Some(Vec::new()));
    /// ```
    #[must_use]
    pub fn over(links: &[Link]) -> AllPaths {
        let switches: BTreeSet<Dpid> = links.iter().flat_map(|(a, b)| [a.switch, b.switch]).collect();
        let switches: Vec<Dpid> = switches.into_iter().collect();
        let place: BTreeMap<Dpid, u32> = switches.iter().copied().zip(0..).collect();
        let mut neighbours: Vec<Vec<Step>> = vec![Vec::new(); switches.len()];
        for (a, b) in links {
            for (near, far) in [(a, b), (b, a)] {
                let step = Step { port: near.port, next: place[&far.switch] };
                neighbours[place[&near.switch] as usize].push(step);
            }
        }
        neighbours.iter_mut().for_each(|steps| steps.sort_by_key(|step| step.port));
        let steps = (0..switches.len()).into_par_iter().map(|to| steps_towards(to, &neighbours)).collect();
        AllPaths { switches, steps }
    }

    /// Returns the hops of the path from one switch to another. `None` if there is no path.
    ///
    /// ```
    /// use maple::paths::ParallelPaths;
    /// use maple::net::{Dpid, Location, PortNo};
    ///
    /// let at = |switch, port| Location::new(Dpid(switch), PortNo(port));
    /// let paths = ParallelPaths::new(2)?.for_links(vec![(at(1, 2), at(2, 1)), (at(2, 2), at(3, 1))]);
    /// assert_eq!(paths.hops(Dpid(1), Dpid(4)), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn hops(&self, from: Dpid, to: Dpid) -> Option<Vec<Hop>> {
        if from == to {
            return Some(Vec::new());
        }
        let place = |dpid| self.switches.binary_search(&dpid).ok();
        let (mut at, to) = (place(from)?, place(to)?);
        let mut hops = Vec::new();
        while at != to {
            let step = self.steps[to][at]?;
            hops.push(Hop::new(self.switches[at], step.port));
            at = step.next as usize;
        }
        Some(hops)
    }

    /// Returns the route from `src`'s switch out of `dst`, or an unreachable one.
    ///
    /// ```
    /// use maple::paths::ParallelPaths;
    /// use maple::net::{Dpid, Location, PortNo};
    ///
    /// let at = |switch, port| Location::new(Dpid(switch), PortNo(port));
    /// let paths = ParallelPaths::new(2)?.for_links(vec![(at(1, 2), at(2, 1)), (at(2, 2), at(3, 1))]);
    /// assert_eq!(paths.route(at(1, 1), at(3, 2)).explicit_hops().count(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn route(&self, src: Location, dst: Location) -> Route {
        let end = Hop::new(dst.switch, dst.port);
        let route = self.hops(src.switch, dst.switch).map(|hops| Route::hops(hops.into_iter().chain([end])));
        route.unwrap_or_else(Route::unreachable).from_line(Some(Source::here()))
    }
}

/// Returns the next step of each switch towards one. `None` for that switch itself, and for switches without a path.
fn steps_towards(to: usize, neighbours: &[Vec<Step>]) -> Box<[Option<Step>]> {
    let mut distance = vec![u32::MAX; neighbours.len()];
    distance[to] = 0;
    let mut queue = VecDeque::from([to]);
    while let Some(at) = queue.pop_front() {
        for step in &neighbours[at] {
            let next = step.next as usize;
            if distance[next] == u32::MAX {
                distance[next] = distance[at] + 1;
                queue.push_back(next);
            }
        }
    }
    let nearer = |at: usize| {
        let here = distance[at];
        let leads = |step: &&Step| here != u32::MAX && distance[step.next as usize].checked_add(1) == Some(here);
        neighbours[at].iter().find(leads).copied()
    };
    (0..neighbours.len()).map(nearer).collect()
}

#[cfg(test)]
mod tests {
    use maple_core::ShardId;
    use maple_core::network::{PortInfo, PortKind, graph};
    use maple_core::state::{Store, SwitchInfo, Write};
    use maple_wire::Version;
    use proptest::prelude::*;

    use super::*;

    /// Returns links between switches 1 to n. Each end has its own port.
    fn network(pairs: &[(u64, u64)]) -> Vec<Link> {
        let mut ports: BTreeMap<u64, u32> = BTreeMap::new();
        let mut end = |switch: u64| {
            let port = ports.entry(switch).or_default();
            *port += 1;
            Location::new(Dpid(switch), PortNo(*port))
        };
        let mut links: Vec<Link> = pairs.iter().map(|(a, b)| (end(*a), end(*b))).collect();
        links.iter_mut().filter(|(a, b)| b < a).for_each(|(a, b)| std::mem::swap(a, b));
        links.sort();
        links
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_number_of_threads_gives_the_paths_that_the_network_gives(
            pairs in proptest::collection::vec((1..12u64, 1..12u64).prop_filter("a loop", |(a, b)| a != b), 0..30),
            threads in 1..6usize,
        ) {
            let links = network(&pairs);
            let store = Store::new();
            let info = SwitchInfo { shard: ShardId(0), version: Version::Of13 };
            let port = |at, peer| Write::Port { at, info: Some(PortInfo { up: true, kind: PortKind::Link(peer) }) };
            store.update(|_| (1..12).map(|n| Write::Switch { dpid: Dpid(n), info: Some(info) }).collect());
            store.update(|_| links.iter().flat_map(|(a, b)| [port(*a, *b), port(*b, *a)]).collect());
            let paths = ParallelPaths::new(threads).expect("threads").for_links(links.clone());
            prop_assert_eq!(&*paths, &AllPaths::over(&links));
            for (from, to) in (1..12).flat_map(|a| (1..12).map(move |b| (Dpid(a), Dpid(b)))) {
                prop_assert_eq!(paths.hops(from, to), graph::path(&*store.snapshot(), from, to, None));
            }
        }
    }

    #[test]
    fn a_link_that_goes_changes_the_paths_and_the_same_links_are_not_computed_again() {
        let paths = ParallelPaths::new(2).expect("threads");
        let ring = network(&[(1, 2), (2, 3), (3, 4), (4, 1)]);
        let first = paths.for_links(ring.clone());
        assert!(Arc::ptr_eq(&first, &paths.for_links(ring.clone())));
        assert_eq!(first.hops(Dpid(1), Dpid(2)).map(|hops| hops.len()), Some(1));
        let cut = paths.for_links(ring[1..].to_vec());
        assert_eq!(cut.hops(Dpid(1), Dpid(2)).map(|hops| hops.len()), Some(3));
        assert_eq!(cut.hops(Dpid(1), Dpid(9)), None);
    }
}
