//! A policy and an emulated network in a thread of their own, which sleeps between calls.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use maple_core::check::{self, Examined, Host, Observation, ScopedClaim};
use maple_core::network::{HostInfo, Location, Mac};
use maple_core::policy::Policy;
use maple_core::run::Run;
use maple_core::state::{Commit, Snapshot, Store};
use maple_emulator::Topology;
use maple_emulator::commands::{CommandError, CommandRunner};
use maple_emulator::time::Nanoseconds;
use parking_lot::Mutex;

use crate::costs::costs_of;
use crate::decisions::{CountedPolicy, Decisions};
use crate::merge;
use crate::world::{LaboratoryOptions, World, ended};

/// A policy and a network under it. Dropping the laboratory ends both.
pub struct Laboratory {
    jobs: Mutex<Sender<Job>>,
    store: Arc<Store>,
    topology: Arc<Topology>,
    policy: Arc<CountedPolicy>,
    track_hosts: bool,
}

type Job = Box<dyn FnOnce(&mut World) + Send>;

impl Laboratory {
    /// Starts a network under a policy, and returns when the policy knows its links and ports. The state is that of
    /// `store`, into which the costs of the topology's links are written.
    ///
    /// # Errors
    /// [`CommandError`] if the system refuses a thread, the snooping is invalid, or the controller does not come to
    /// rest.
    pub fn start(
        options: LaboratoryOptions,
        policy: Arc<dyn Policy>,
        store: Arc<Store>,
    ) -> Result<Laboratory, CommandError> {
        let costs = costs_of(&options.topology, &store.snapshot());
        store.update(|_| costs);
        let (topology, track_hosts) = (Arc::new(options.topology.clone()), options.track_hosts);
        let counted = Arc::new(CountedPolicy::new(policy));
        let policy: Arc<dyn Policy> = Arc::clone(&counted) as _;
        let (jobs, inbox) = channel();
        let (ready, reported) = channel();
        let world = (options, Arc::clone(&policy), Arc::clone(&store));
        let thread = std::thread::Builder::new().name("laboratory".into());
        let spawned = thread.spawn(move || {
            let mut work = Some(move || work(world.0, world.1, world.2, &inbox, &ready));
            policy.on_thread(&mut || {
                if let Some(work) = work.take() {
                    work();
                }
            });
        });
        spawned.map_err(|error| CommandError::Failed(format!("no thread to be had: {error}")))?;
        reported.recv().map_err(|_| ended())??;
        Ok(Laboratory { jobs: Mutex::new(jobs), store, topology, policy: counted, track_hosts })
    }

    /// Returns the topology as it was at the beginning.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Returns the state that the policy works on. Pass commits on it to [`Laboratory::committed`].
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Returns the policy's decisions since the beginning, or since [`Laboratory::forget_decisions`].
    pub fn decisions(&self) -> Decisions {
        self.policy.decisions()
    }

    /// Clears the counts of the policy's decisions.
    pub fn forget_decisions(&self) {
        self.policy.forget();
    }

    /// Runs the policy on a frame as if it entered at `at`. The run changes nothing, but counts as a decision.
    pub fn observe(&self, at: Location, frame: &[u8]) -> Observation {
        let run = Run::new(frame.into(), frame.len(), at, self.store.begin(), self.track_hosts);
        Observation::from_run(&*self.policy, &run)
    }

    /// Returns the hosts by name, with their present locations and the addresses that the network knows of them.
    ///
    /// # Errors
    /// [`CommandError`] if the laboratory has ended.
    pub fn hosts(&self) -> Result<Vec<(String, Host)>, CommandError> {
        self.call(|_, world| {
            let one = |host: &maple_emulator::Host| {
                let spec = host.spec();
                let location = Location::new(spec.switch, spec.port);
                let ipv6 = [spec.ipv6, host.link_local()].into();
                (spec.name.clone(), (Mac(spec.mac), HostInfo { location, ipv4: [spec.ipv4].into(), ipv6 }))
            };
            Ok(world.network().hosts().map(one).collect())
        })
    }

    /// Searches for a packet that contradicts a claim, in a copy of the present state.
    ///
    /// If the policy is compared with another one, `other` is the state that loading the other one left. Trying packets
    /// takes the caller's thread, and no simulated time.
    ///
    /// # Errors
    /// [`CommandError`] if the laboratory has ended, or no state fits both policies.
    pub fn examine(
        &self,
        question: ScopedClaim,
        other: Option<&Snapshot>,
        packets: u64,
    ) -> Result<Examined, CommandError> {
        let hosts = self.hosts()?.into_iter().map(|(_, host)| host).collect();
        let store = self.store.copy();
        if let Some(other) = other {
            let also = merge::besides(&store.snapshot(), other, &self.topology)?;
            store.update(|_| also);
        }
        let began = Instant::now();
        let clock = Box::new(move || began.elapsed());
        Ok(check::examine(self.policy.inner(), &store, hosts, self.track_hosts, question, packets, clock))
    }

    /// Reports whether hosts are tracked.
    pub fn tracks_hosts(&self) -> bool {
        self.track_hosts
    }

    /// Runs `f` in the laboratory's thread. The channel delivers the result when `f` is done; the channel closes if the
    /// laboratory has ended.
    pub fn ask<R: Send + 'static>(
        &self,
        f: impl FnOnce(&CommandRunner, &mut World) -> Result<R, CommandError> + Send + 'static,
    ) -> Receiver<Result<R, CommandError>> {
        let (answer, answered) = channel();
        let topology = Arc::clone(&self.topology);
        let job: Job = Box::new(move |world| {
            // The asker may have stopped waiting.
            let _ = answer.send(f(&CommandRunner::new((*topology).clone()), world));
        });
        // If no thread takes the job, the result's channel closes, which the caller sees.
        let _ = self.jobs.lock().send(job);
        answered
    }

    /// Runs `f` in the laboratory's thread, and waits for its result.
    ///
    /// # Errors
    /// The error of `f`, or [`CommandError::Failed`] if the laboratory has ended.
    pub fn call<R: Send + 'static>(
        &self,
        f: impl FnOnce(&CommandRunner, &mut World) -> Result<R, CommandError> + Send + 'static,
    ) -> Result<R, CommandError> {
        self.ask(f).recv().unwrap_or_else(|_| Err(ended()))
    }

    /// Makes the policy's rules follow a commit on its store. This takes two milliseconds of simulated time, enough for
    /// some round trips of barriers.
    pub fn committed(&self, commit: Commit) -> Receiver<Result<(), CommandError>> {
        self.ask(move |_, world| world.committed(commit))
    }
}

/// Runs the laboratory's thread: does jobs until the laboratory is dropped.
fn work(
    options: LaboratoryOptions,
    policy: Arc<dyn Policy>,
    store: Arc<Store>,
    inbox: &Receiver<Job>,
    ready: &Sender<Result<(), CommandError>>,
) {
    let mut world = match World::new(&options, policy, Arc::clone(&store)) {
        Ok(world) => world,
        Err(error) => return drop(ready.send(Err(error))),
    };
    let known = world.until_known(&options.topology, &store);
    if ready.send(known).is_err() {
        return;
    }
    while let Ok(job) = inbox.recv() {
        job(&mut world);
    }
}

/// Converts seconds to a time span in nanoseconds.
///
/// # Errors
/// [`CommandError::Wrong`] unless `seconds` is a number from 0 to 86400 (a day).
pub fn seconds(seconds: f64) -> Result<Nanoseconds, CommandError> {
    let span = Duration::try_from_secs_f64(seconds).ok().filter(|span| span.as_secs() <= 86_400);
    let wrong = || CommandError::Wrong(format!("{seconds} is not a number of seconds from 0 to 86400"));
    span.map(|span| span.as_nanos() as Nanoseconds).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use maple_controller::snoop::Snooping;
    use maple_core::policy::{Net, PacketHandle};
    use maple_core::route::Route;
    use maple_emulator::commands::Ground;
    use maple_emulator::time::SECOND;
    use maple_wire::Version;

    use super::*;

    fn shortest(pkt: &PacketHandle, net: &Net) -> Route {
        if pkt.is_multicast() {
            return Route::flood();
        }
        match (net.locate(pkt.eth_src()), net.locate(pkt.eth_dst())) {
            (Some(src), Some(dst)) => net.shortest_path(src, dst),
            _ => Route::flood(),
        }
    }

    fn laboratory(topology: &str, version: Version) -> Laboratory {
        let topology = Topology::parse(topology).unwrap();
        let options = LaboratoryOptions {
            topology,
            version,
            tables: 254,
            seed: 1,
            track_hosts: true,
            snooping: Snooping::default(),
        };
        Laboratory::start(options, Arc::new(shortest), Store::new()).unwrap()
    }

    fn say(lab: &Laboratory, lines: &[&str]) -> Vec<String> {
        let one = |line: &&str| {
            let line = line.to_string();
            lab.call(move |runner, world| runner.line(world, &line)).unwrap_or_else(|error| format!("error: {error}"))
        };
        lines.iter().map(one).collect()
    }

    #[test]
    fn a_lesson_in_simulated_time_is_the_same_each_time() {
        let lesson = [
            "h1 ping h3 2",
            "pingall",
            "link s1 s2 down",
            "wait 500ms",
            "h1 ping h2",
            "switch s3 restart",
            "wait 1s",
            "h4 ping h3",
            "link s1 s4 loss 30%",
            "h1 iperf h4 1s 1mbit",
            "show losses",
        ];
        for version in [Version::Of10, Version::Of13] {
            let reported = say(&laboratory("ring:4", version), &lesson);
            assert!(reported.iter().all(|line| !line.starts_with("error")), "{reported:?}");
            assert_eq!(reported[1], "pingall: 12 of 12 answered");
            assert_eq!(reported, say(&laboratory("ring:4", version), &lesson));
        }
    }

    #[test]
    fn a_day_passes_at_once_and_hosts_are_still_found() {
        let lab = laboratory("linear:2", Version::Of13);
        assert!(say(&lab, &["h1 ping h2"])[0].contains("answered in"));
        lab.call(|_, world| world.pass(seconds(3600.0)?)).unwrap();
        assert!(say(&lab, &["h1 ping h2"])[0].contains("answered in"));
        assert!(lab.call(|_, world| Ok(world.now())).unwrap() > 3600 * SECOND);
    }

    #[test]
    fn a_frame_can_be_followed() {
        let lab = laboratory("ring:4", Version::Of13);
        say(&lab, &["pingall"]);
        let journey = lab.call(|_, world| Ok(world.last_journey("h1", "h3", 0))).unwrap().unwrap();
        let [copy] = &journey.copies[..] else { panic!("{journey:?}") };
        assert_eq!((copy.end.as_deref(), copy.path.len()), (Ok("h3"), 3));
    }
}
