//! Takes over from another controller, and hands over to one (`takeover/`).

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant, SystemTime};

use maple_core::engine::{Event, ShardId};
use maple_core::memory::{Surroundings, Witness};
use maple_core::state::{Commit, Name, Store, Write, Writer, Written};
use maple_wire::Dpid;
use rustc_hash::FxHashMap;

use super::start::{CheckedOptions, EarlierRun, StartingController, listeners};
use super::{Controller, ControllerOptions, StartError};
use crate::priority;
use crate::shard::mailbox::{ReleasedSockets, ShardMessage};
use crate::storage::takeover::{CopiedSwitch, Copy, HandedOver, Successor, Takeover, names_of, place};
use crate::storage::{
    Archived, Departed, KnownSwitches, Persistence, PersistenceError, Release, Restart, departed, next_epoch,
};
use crate::time::Clock;

/// The time that a shard may take to stop before its connections are handed over. It must exceed a turn and what the
/// shard still writes then, half a second.
const HAND_OVER: Duration = Duration::from_secs(5);
/// The time that f may take to decide all remembered packets beforehand. Chosen: half of the time that the new process
/// may take to get ready; what is left is decided after the take-over.
const PREPARATION_TIMEOUT: Duration = Duration::from_secs(60);
/// The time between two checks whether f has decided all of them. Chosen: it adds nothing noticeable to the take-over,
/// and a check costs little.
const CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// A controller that prepares to take over.
struct PreparingTakeover {
    starting: StartingController,
    known: Option<KnownSwitches>,
    /// The way to report that the state file is free. Without that report the file is not opened.
    release: Sender<Release>,
    /// The surroundings according to the copy: links, edge ports and hosts.
    surroundings: Surroundings,
    /// The shard of each announced switch.
    announced: FxHashMap<Dpid, ShardId>,
}

impl Controller {
    /// Starts a controller in the place of another one. It takes over that one's connections, which need not reconnect;
    /// its listening sockets, in the place of [`OpenFlowOptions::listen`](crate::OpenFlowOptions::listen); and its
    /// tables and variables. The other controller goes on until this one is ready.
    ///
    /// # Errors
    /// [`StartError`], as [`Controller::start`]; also if the other controller ends or keeps its state elsewhere. Until
    /// the sockets are requested, the other controller goes on after an error.
    pub fn take_over(options: ControllerOptions, takeover: Takeover) -> Result<Controller, StartError> {
        if options.openflow.in_cluster {
            return Err(StartError::TakeOverInCluster);
        }
        let began = Instant::now();
        let store = Arc::clone(&options.store);
        let (mut preparing, switches) = PreparingTakeover::new(CheckedOptions::new(options)?, &takeover.copy)?;
        // Rows that have to be made in another form are not made twice.
        let can_prepare = preparing.known.is_some() && store.uses_declared_versions();
        if can_prepare {
            drop(store.adopt_versions(false)?);
            preparing.starting.run_shards(Vec::new())?;
            preparing.announce(switches);
        }
        tracing::debug!(took = ?began.elapsed(), is_prepared = can_prepare, "ready to take over");
        let (handed, released) = takeover.finish().map_err(StartError::TakeOver)?;
        // If the receiver is gone, there is no file.
        drop(preparing.release.send(Box::new(released)));
        tracing::debug!(took = ?began.elapsed(), connections = handed.connections.len(), "sockets have come");
        preparing.continue_with(&store, handed, can_prepare)
    }

    /// Ends in favour of another process. That process gets the sockets at once, and then everything else is closed.
    /// Returns the number of connections that were handed over.
    ///
    /// # Errors
    /// An error if a shard does not answer in time, or that process has gone. Everything is closed in that case, too.
    pub fn hand_over(mut self, mut successor: Successor) -> io::Result<usize> {
        // The other controller opens its own. Packets are served meanwhile.
        self.control.take();
        self.metrics.take();
        self.http.take();
        self.timeline.take();
        let mut handed = HandedOver::default();
        let mailboxes = &self.handle.shared().mailboxes;
        // All shards stop reading first, so that nothing comes for one that has given up its sockets.
        let (to, finished) = crossbeam_channel::unbounded();
        for mailbox in mailboxes {
            mailbox.send(ShardMessage::Finish(to.clone()));
        }
        drop(to);
        for _ in mailboxes {
            finished.recv_timeout(HAND_OVER).map_err(io::Error::other)?;
        }
        let (to, released) = crossbeam_channel::unbounded();
        for mailbox in mailboxes {
            mailbox.send(ShardMessage::HandOver(to.clone()));
        }
        drop(to);
        for _ in mailboxes {
            let ReleasedSockets { listeners, connections } =
                released.recv_timeout(HAND_OVER).map_err(io::Error::other)?;
            handed.listeners.extend(listeners);
            handed.connections.extend(connections);
        }
        if self.snooper.is_some() {
            // It writes what it has heard until the shards have ended.
            self.join();
        }
        let store = self.handle.store();
        handed.names = names_of(store);
        handed.state = store.snapshot().changes_since(&successor.base);
        if let Some(archive) = &self.handle.shared().kept.archive {
            handed.leaves = archive.journal.end_copy().unwrap_or_default();
            handed.surroundings = Some(archive.surroundings());
        }
        let connections = handed.connections.len();
        let sent = successor.send(&handed);
        priority::lower_for_end();
        drop(handed);
        self.end();
        sent.map(|()| connections)
    }
}

impl PreparingTakeover {
    /// Takes over what the other controller knows. Returns its switches.
    fn new(basics: CheckedOptions, copy: &Copy) -> Result<(PreparingTakeover, Vec<CopiedSwitch>), StartError> {
        let options = &basics.options;
        if options.openflow.tls.is_some() && !copy.listening.iter().any(|endpoint| endpoint.has_tls) {
            return Err(StartError::NoSocketWithTls);
        }
        let clock = Clock::start();
        let (release, released) = channel::<Release>();
        let memory = match (&options.memory.state_file, &copy.state_file) {
            (Some(ours), Some(theirs)) if is_same(ours, theirs) => {
                check_kept(ours, options, copy)?;
                take_state(&options.store, &copy.names, copy.state.clone());
                let files = &options.memory.files;
                let epoch = copy.remembered.as_ref().map(|remembered| next_epoch(remembered.epoch));
                let persistence = Persistence::open_later(ours, &options.store, &copy.kept, epoch, released, files)?;
                match (&copy.remembered, epoch) {
                    (Some(remembered), Some(epoch)) if options.memory.remember => {
                        EarlierRun::from_persistence(persistence, epoch, restart(&clock, options, remembered, copy))?
                    }
                    _ => EarlierRun::none(Some(persistence))?,
                }
            }
            (Some(ours), Some(theirs)) => {
                return Err(StartError::OtherStateFile { ours: ours.clone(), theirs: theirs.clone() });
            }
            _ => {
                let memory = EarlierRun::open(options, clock.now())?;
                take_state(&options.store, &copy.names, copy.state.clone());
                memory
            }
        };
        let known = memory.known.clone();
        let starting = StartingController::new(basics, copy.listening.clone(), clock, memory, Some(copy.probe_key))?;
        let surroundings = copy.remembered.as_ref().map(|all| all.surroundings.clone()).unwrap_or_default();
        let preparing = PreparingTakeover { starting, known, release, surroundings, announced: FxHashMap::default() };
        Ok((preparing, copy.switches.clone()))
    }

    /// Announces these switches to the engines, so that f decides the remembered packets.
    fn announce(&mut self, switches: Vec<CopiedSwitch>) {
        let Some(KnownSwitches { restart, .. }) = &self.known else { return };
        for switch in switches.into_iter().filter(|switch| restart.knows(switch.info.features.dpid)) {
            let (dpid, shard) = (switch.info.features.dpid, self.starting.assign());
            self.announced.insert(dpid, shard);
            self.send(shard, ShardMessage::Announce(Box::new(switch)));
        }
        let (store, began) = (restart.store(), Instant::now());
        let is_ready = || restart.has_restored(self.announced.keys()) && store.has_restored_earlier();
        while !is_ready() && began.elapsed() < PREPARATION_TIMEOUT {
            std::thread::sleep(CHECK_INTERVAL);
        }
    }

    /// Continues with the connections of the other controller.
    fn continue_with(mut self, store: &Store, handed: HandedOver, is_prepared: bool) -> Result<Controller, StartError> {
        priority::usual();
        let HandedOver { listeners: sockets, connections, names, state, leaves, surroundings } = handed;
        for commit in change(store, state) {
            // `Controller::wait` reports a shard that has ended.
            drop(self.starting.controller.handle.operations().committed(commit));
        }
        if let Some(now) = surroundings {
            self.learn(&now, leaves.into_iter().filter_map(|(row, leaf)| Some((row, leaf?))).collect());
        }
        if !is_prepared {
            drop(store.adopt_versions(false)?);
            self.starting.run_shards(Vec::new())?;
        }
        tracing::debug!(new = names.len(), "what has changed is known");
        self.starting.controller.taken = connections.len();
        for connection in connections {
            let announced = self.announced.get(&connection.dpid).copied();
            let shard = announced.unwrap_or_else(|| self.starting.assign());
            self.send(shard, ShardMessage::Resume(connection));
        }
        for mailbox in &self.starting.mailboxes {
            mailbox.send(ShardMessage::AllResumed);
        }
        let sockets = listeners(self.starting.options(), sockets)?;
        self.send(ShardId(0), ShardMessage::Listen(sockets));
        self.starting.serve_clients()
    }

    /// Tells the engines the differences from the copy, and the leaves that have come since.
    fn learn(&mut self, now: &Surroundings, leaves: Vec<(u64, Witness)>) {
        let Some(KnownSwitches { restart, journal }) = self.known.clone() else { return };
        let later = restart.learn(leaves, now.clone());
        let events = corrections(&self.surroundings, now);
        for event in events {
            self.send(ShardId(0), ShardMessage::Event(Box::new(event)));
        }
        for (dpid, Departed { leaves: witnesses, rows, surroundings }) in later {
            let Some(shard) = self.announced.get(&dpid).copied() else { continue };
            journal.outdate(rows);
            let event = Event::Restore { dpid, rules: None, witnesses, earlier: Arc::new(surroundings) };
            self.send(shard, ShardMessage::Event(Box::new(event)));
        }
    }

    fn send(&self, shard: ShardId, message: ShardMessage) {
        if let Some(mailbox) = self.starting.mailboxes.get(usize::from(shard.0)) {
            mailbox.send(message);
        }
    }
}

/// Returns the events that lead from the presumed surroundings to the present ones.
fn corrections(presumed: &Surroundings, now: &Surroundings) -> Vec<Event> {
    let mut events = Vec::new();
    let is_there = |a, b| now.links.contains(&(a, b)) || now.links.contains(&(b, a));
    let links = presumed.links.iter().filter(|(a, b)| !is_there(*a, *b));
    events.extend(links.map(|(a, b)| Event::LinkDown { a: *a, b: *b }));
    let edges: std::collections::BTreeSet<_> = now.edges.iter().collect();
    let gone = presumed.edges.iter().filter(|at| !edges.contains(at));
    events.extend(gone.map(|at| Event::PortIsNew { port: *at }));
    let hosts: std::collections::BTreeMap<_, _> = now.hosts.iter().map(|(mac, info)| (mac, info)).collect();
    let others = presumed.hosts.iter().filter(|(mac, info)| hosts.get(mac) != Some(&info));
    let gone: Vec<Write> = others.map(|(mac, _)| Write::Host { mac: *mac, info: None }).collect();
    if !gone.is_empty() {
        events.push(Event::Write(gone));
    }
    // Unknown things take the place of those that went.
    if presumed != now {
        events.push(Event::Presume { earlier: Arc::new(now.clone()), switches: Default::default() });
    }
    events
}

/// Collects the switches of the other controller, which wait for each other.
fn restart(clock: &Clock, options: &ControllerOptions, remembered: &Archived, copy: &Copy) -> Restart {
    let switches = departed(remembered.leaves.iter().cloned(), remembered.surroundings.clone());
    let connected = copy.switches.iter().map(|switch| switch.info.features.dpid).collect();
    Restart::from_departed(clock.now(), Arc::clone(&options.store), switches, connected)
}

/// Reports whether two paths are of the same file.
fn is_same(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

/// Checks that what the state file keeps has the declared types. Otherwise the other controller had better go on.
fn check_kept(path: &Path, options: &ControllerOptions, copy: &Copy) -> Result<(), StartError> {
    let (state, is_kept) = (options.store.snapshot(), |name: &Name| copy.kept.contains(name));
    let kept = copy.state.iter().filter(|write| match write {
        Write::Table { table: name, .. } | Write::Var { name, .. } => is_kept(name),
        _ => false,
    });
    for write in kept {
        let file = |mismatch| PersistenceError::Type { path: path.to_owned(), mismatch };
        state.normalise(write).map_err(file)?;
    }
    Ok(())
}

/// Takes over the tables and variables of another process, in the place of what the policy wrote while it was loaded.
/// The policy may have declared one of them differently.
fn take_state(store: &Store, names: &[Name], state: Vec<Write>) {
    store.load_kept(names, Vec::new());
    change(store, state);
}

/// Makes the writes of another process. Returns the commits.
fn change(store: &Store, state: Vec<Write>) -> Vec<Commit> {
    let written = Written { by: Writer::TakeOver, at: SystemTime::now() };
    if let Ok(commit) = store.change_as(state.clone(), written.clone()) {
        return vec![commit];
    }
    // One of the writes is invalid, so each is tried alone.
    let one = |write: Write| {
        let written_place = place(&write);
        let done = store.change_as(vec![write], written.clone());
        done.map_err(|error| tracing::warn!(of = ?written_place, "not taken over: {error}")).ok()
    };
    state.into_iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use maple_core::network::{HostInfo, Location, Mac};
    use maple_wire::PortNo;

    use super::*;

    #[test]
    fn departures_and_moves_since_the_copy_are_reported_before_arrivals() {
        let at = |switch, port| Location::new(Dpid(switch), PortNo(port));
        let host = |location| HostInfo { location, ipv4: [].into(), ipv6: [].into() };
        let (one, two) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
        let presumed = Surroundings {
            links: vec![(at(1, 1), at(2, 1)), (at(1, 2), at(2, 2))],
            edges: vec![at(1, 3), at(2, 3)],
            hosts: vec![(one, host(at(1, 3))), (two, host(at(2, 3)))],
            ..Surroundings::default()
        };
        assert!(corrections(&presumed, &presumed).is_empty());
        let now = Surroundings {
            links: vec![(at(2, 1), at(1, 1))],
            edges: vec![at(1, 3)],
            hosts: vec![(one, host(at(1, 3))), (two, host(at(1, 3)))],
            ..Surroundings::default()
        };
        let reported: Vec<String> = corrections(&presumed, &now).iter().map(|event| format!("{event:?}")).collect();
        assert!(reported[0].starts_with("LinkDown") && reported[0].contains("2"), "{reported:?}");
        assert!(reported[1].starts_with("PortIsNew"), "{reported:?}");
        assert!(reported[2].starts_with("Write") && !reported[2].contains("Some"), "{reported:?}");
        assert!(reported[3].starts_with("Presume") && reported.len() == 4, "{reported:?}");
    }
}
