//! One member of a cluster: its lease, its key, and its campaign for mastership.
//!
//! ```text
//!   no lease ── grant ──► lease ── register ──► registered ── claim, where there is no master ──► master
//!      ▲                    │                       │                                               │
//!      └──── it has ended ──┴───────────────────────┴─── somebody else is master ◄── follow ────────┘
//! ```
//!
//! At most one request for the store is open at a time, besides one for the lease. After one whose outcome is not known
//! the member reads everything: what is there under its own lease is its own, whichever request made it. So no answer
//! may be lost for good, and none is waited for for ever: each request ends with an event, if only with
//! [`Event::Failed`].
//!
//! A master stays master until it sees that another one is, or until it steps down. It does not step down when its
//! lease ends or the store is away: switches would have nobody. It claims again under a new lease, in a new generation.

use std::collections::VecDeque;
use std::time::Duration;

use crate::keys::{ClusterKeys, Record};
use crate::view::{Change, View};

/// A moment, as the time since some fixed one. The member never asks what time it is.
pub type Time = Duration;

/// The number of its leases that a member knows. Chosen: an earlier one ends within the time of a lease, in which few
/// more can be granted.
const MAX_OWN_LEASES: usize = 8;

/// The options of a member.
#[derive(Clone, Debug)]
pub struct MemberOptions {
    /// The cluster's name.
    pub cluster: String,
    /// The member's own name, which no other member has.
    pub name: String,
    /// The address at which other members reach it, if they do.
    pub address: Option<String>,
    /// The time of the lease, in whole seconds: how long nobody takes over after the master has died.
    pub lease: Duration,
    /// The time until a request that failed is repeated.
    pub retry: Duration,
    /// The time that a master that steps down leaves the others to become master, before it claims again.
    pub step_down: Duration,
}

/// A request of a member to its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Create a lease of this time. [`Event::Granted`] or [`Event::LeaseFailed`] follows.
    Grant(Duration),
    /// Renew a lease. [`Event::Kept`], [`Event::LeaseEnded`] or [`Event::LeaseFailed`] follows.
    KeepAlive(i64),
    /// Read all keys with a prefix. [`Event::Read`] or [`Event::Failed`] follows.
    Read(Vec<u8>),
    /// Watch all keys with a prefix from this revision on; a former watch ends. [`Event::Changed`] follows for each
    /// change, and [`Event::Missed`] if changes can't be had any more.
    Watch {
        /// The prefix.
        prefix: Vec<u8>,
        /// The first revision.
        from: u64,
    },
    /// If the key was written last at this revision, write it under a lease; otherwise read it. Revision 0 means that
    /// there is no such key. [`Event::Written`], [`Event::NoSuchLease`] or [`Event::Failed`] follows.
    Write {
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
        /// The lease.
        lease: i64,
        /// The revision.
        former: u64,
    },
    /// Delete a key, if it was written last at this revision. [`Event::Deleted`] or [`Event::Failed`] follows.
    Delete {
        /// The key.
        key: Vec<u8>,
        /// The revision.
        former: u64,
    },
    /// End a lease, because the member leaves. Nothing follows.
    Revoke(i64),
    /// This member is master, in this generation. Switches are to be asked for mastership with it. If it was master in
    /// a former generation, others may have been in between, of whom it has not heard: what it knows is to be read
    /// anew, as after [`Action::Follow`].
    Lead(u64),
    /// This member is not master.
    Follow,
    /// Another process has this member's name, or a former life of this one has it until its lease ends. The member
    /// goes on when that lease has ended.
    NameTaken,
}

/// An event that a member handles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The time that [`Member::wakes_at`] said has come.
    Woken,
    /// The lease was granted.
    Granted {
        /// Its number.
        lease: i64,
        /// The time for which it holds, from when it was asked for.
        good_for: Duration,
    },
    /// The lease was renewed.
    Kept {
        /// The time for which it holds, from when it was asked for.
        good_for: Duration,
    },
    /// The lease has ended.
    LeaseEnded,
    /// A request about the lease failed, and may have been carried out or not.
    LeaseFailed,
    /// All keys that were to be read, as they were at a revision.
    Read {
        /// The keys.
        records: Vec<Record>,
        /// The revision.
        revision: u64,
    },
    /// The key that was to be written, as it is at a revision: written, or as it was before.
    Written {
        /// The key, if it is there.
        record: Option<Record>,
        /// The revision.
        revision: u64,
    },
    /// The key was deleted, or was not there as it was to be deleted.
    Deleted {
        /// The revision of the store afterwards.
        revision: u64,
    },
    /// A request failed, and may have been carried out or not.
    Failed,
    /// The lease under which a key was to be written has ended. Nothing was written.
    NoSuchLease,
    /// The watch reports changes.
    Changed(Vec<Change>),
    /// The watch has ended, and changes can't be had any more.
    Missed,
    /// The member of this name, if it is master, seems to be gone: for example, the connection to it has ended. Whoever
    /// is notified takes its place at once. If it is there all the same, nothing is lost, since switches obey only one.
    Suspected(String),
    /// Somebody wants that another member becomes master.
    StepDown,
    /// The member is to leave the cluster.
    Leave,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lease {
    /// Without a lease; one is asked for at this time.
    None(Time),
    /// A lease was asked for at this time.
    Asked(Time),
    /// A lease is good until `ends`. It is renewed at `renew`; an open request for that was sent at `asked`.
    Held { lease: i64, ends: Time, renew: Time, asked: Option<Time> },
}

/// The request that the store has not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Read,
    Register,
    /// To be master where nobody is.
    Claim,
    /// To be master in place of one that seems to be gone.
    Depose,
    StepDown,
}

/// One member of a cluster.
#[derive(Clone, Debug)]
pub struct Member {
    options: MemberOptions,
    keys: ClusterKeys,
    lease: Lease,
    /// The latest leases that it was granted. A key under an earlier one is still its own, and goes with that lease.
    own_leases: VecDeque<i64>,
    view: View,
    /// Whether the view is without gaps: everything was read, and the watch goes on from there.
    is_current: bool,
    /// The open request, with the lease that the member had when it was sent.
    open: Option<(Request, Option<i64>)>,
    /// The earliest time of the next request, after one failed.
    quiet_until: Time,
    /// The generation in which this member is master, since it was announced.
    own_generation: Option<u64>,
    /// The generation of a master that seems to be gone.
    suspect: Option<u64>,
    /// Whether it is to give the mastership up.
    steps_down: bool,
    /// The time until which others may become master first.
    yields_until: Time,
    /// Whether it was reported that the name is taken.
    is_name_taken: bool,
    /// Whether the member has left.
    has_left: bool,
}

impl Member {
    /// Creates a member. It begins with the first event, which is [`Event::Woken`].
    pub fn new(options: MemberOptions) -> Member {
        let keys = ClusterKeys::new(&options.cluster);
        Member {
            options,
            keys,
            lease: Lease::None(Time::ZERO),
            own_leases: VecDeque::new(),
            view: View::default(),
            is_current: false,
            open: None,
            quiet_until: Time::ZERO,
            own_generation: None,
            suspect: None,
            steps_down: false,
            yields_until: Time::ZERO,
            is_name_taken: false,
            has_left: false,
        }
    }

    /// Returns what the member knows.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Returns the generation in which it is master by the store, as far as it knows.
    pub fn own_generation(&self) -> Option<u64> {
        self.own_generation
    }

    /// Returns until when its lease is certainly good. Where a switch has no generations, the member may act only until
    /// then.
    pub fn lease_ends(&self) -> Option<Time> {
        match self.lease {
            Lease::Held { ends, .. } => Some(ends),
            Lease::None(_) | Lease::Asked(_) => None,
        }
    }

    /// Returns when [`Event::Woken`] is due, if nothing comes before.
    pub fn wakes_at(&self) -> Option<Time> {
        if self.has_left {
            return None;
        }
        let lease = match self.lease {
            Lease::None(at) => Some(at),
            Lease::Held { renew, asked: None, .. } => Some(renew),
            Lease::Asked(_) | Lease::Held { .. } => None,
        };
        let moments = [self.quiet_until, self.quiet_until.max(self.yields_until)];
        let request = moments.into_iter().find(|at| self.open.is_none() && self.next_request(*at).is_some());
        lease.into_iter().chain(request).min()
    }

    /// Takes an event. Returns what is to be done, in this order.
    pub fn on_event(&mut self, now: Time, event: Event) -> Vec<Action> {
        let mut out = Vec::new();
        if self.has_left {
            return out;
        }
        match event {
            Event::Woken => {}
            Event::Granted { lease, good_for } => self.on_granted(now, lease, good_for),
            Event::Kept { good_for } => self.on_kept(now, good_for),
            Event::LeaseEnded => self.lease = Lease::None(now),
            Event::LeaseFailed => self.on_lease_failed(now),
            Event::Read { records, revision } => self.on_read(records, revision, &mut out),
            Event::Written { record, revision } => self.on_written(record, revision),
            Event::Deleted { revision } => self.on_deleted(revision),
            Event::NoSuchLease => {
                let used = self.open.take().and_then(|(_, lease)| lease);
                // There may be another one by now.
                if used == self.lease() {
                    self.lease = Lease::None(now);
                }
            }
            Event::Failed => {
                self.open = None;
                self.is_current = false;
                self.quiet_until = now + self.options.retry;
            }
            Event::Changed(changes) => {
                for change in changes {
                    self.view.on_change(&self.keys, change);
                }
            }
            Event::Missed => self.is_current = false,
            Event::Suspected(name) => {
                let master = self
                    .view
                    .master()
                    .filter(|master| master.name == name && Some(master.generation) != self.own_generation);
                self.suspect = master.map(|master| master.generation).or(self.suspect);
            }
            Event::StepDown => {
                self.steps_down = self.own_generation.is_some();
            }
            Event::Leave => return self.leave(),
        }
        self.judge(now, &mut out);
        self.work(now, &mut out);
        out
    }

    fn on_granted(&mut self, now: Time, lease: i64, good_for: Duration) {
        // It is good from when it was asked for, as far as this member can know.
        let Lease::Asked(asked) = self.lease else { return };
        if self.own_leases.len() == MAX_OWN_LEASES {
            self.own_leases.pop_front();
        }
        self.own_leases.push_back(lease);
        self.hold(now, lease, asked, good_for);
    }

    fn on_kept(&mut self, now: Time, good_for: Duration) {
        if let Lease::Held { lease, asked: Some(asked), .. } = self.lease {
            self.hold(now, lease, asked, good_for);
        }
    }

    fn hold(&mut self, now: Time, lease: i64, asked: Time, good_for: Duration) {
        let renew = (asked + good_for / 3).max(now);
        self.lease = Lease::Held { lease, ends: asked + good_for, renew, asked: None };
    }

    fn on_lease_failed(&mut self, now: Time) {
        let again = now + self.options.retry;
        self.lease = match self.lease {
            Lease::Held { lease, ends, .. } => Lease::Held { lease, ends, renew: again, asked: None },
            Lease::None(_) | Lease::Asked(_) => Lease::None(again),
        };
    }

    fn on_read(&mut self, records: Vec<Record>, revision: u64, out: &mut Vec<Action>) {
        self.open = None;
        self.is_current = true;
        self.view.on_read(&self.keys, records, revision);
        out.push(Action::Watch { prefix: self.keys.of_members(), from: revision + 1 });
    }

    fn on_written(&mut self, record: Option<Record>, revision: u64) {
        match self.open.take().map(|(request, _)| request) {
            Some(Request::Claim | Request::Depose) => self.view.on_master(record, revision),
            Some(Request::Register) => self.view.on_member(&self.options.name.clone(), record, revision),
            Some(Request::Read | Request::StepDown) | None => {}
        }
    }

    fn on_deleted(&mut self, revision: u64) {
        self.open = None;
        // The watch will say whether another member has the key now.
        if self.view.master().is_some_and(|master| Some(master.generation) == self.own_generation) {
            self.view.on_master(None, revision);
        }
    }

    /// Ends the lease, and with it everything that this member has in the store.
    fn leave(&mut self) -> Vec<Action> {
        self.has_left = true;
        let lease = match self.lease {
            Lease::Held { lease, .. } => Some(Action::Revoke(lease)),
            Lease::None(_) | Lease::Asked(_) => None,
        };
        let follows = self.own_generation.take().map(|_| Action::Follow);
        follows.into_iter().chain(lease).collect()
    }

    fn lease(&self) -> Option<i64> {
        match self.lease {
            Lease::Held { lease, .. } => Some(lease),
            Lease::None(_) | Lease::Asked(_) => None,
        }
    }

    /// Reports whether this member has its name in the store, under its own lease.
    fn is_registered(&self) -> bool {
        let record = self.view.member(&self.options.name);
        record.is_some_and(|record| Some(record.lease) == self.lease())
    }

    /// Judges who is master.
    fn judge(&mut self, now: Time, out: &mut Vec<Action>) {
        let Some(master) = self.view.master() else {
            if std::mem::take(&mut self.steps_down) {
                self.yields_until = now + self.options.step_down;
            }
            return;
        };
        self.suspect = self.suspect.filter(|suspect| *suspect == master.generation);
        let (generation, is_own) = (master.generation, Some(master.lease) == self.lease());
        match self.own_generation {
            Some(own) if own >= generation => {}
            _ if is_own => {
                self.own_generation = Some(generation);
                out.push(Action::Lead(generation));
            }
            Some(_) => {
                (self.own_generation, self.steps_down) = (None, false);
                out.push(Action::Follow);
            }
            None => {}
        }
    }

    /// Asks for what is due.
    fn work(&mut self, now: Time, out: &mut Vec<Action>) {
        match self.lease {
            Lease::None(at) if at <= now => {
                self.lease = Lease::Asked(now);
                out.push(Action::Grant(self.options.lease));
            }
            Lease::Held { lease, ends, renew, asked: None } if renew <= now => {
                self.lease = Lease::Held { lease, ends, renew, asked: Some(now) };
                out.push(Action::KeepAlive(lease));
            }
            Lease::None(_) | Lease::Asked(_) | Lease::Held { .. } => {}
        }
        let is_other = |record: &Record| !self.own_leases.contains(&record.lease);
        let is_taken = self.lease().is_some() && self.view.member(&self.options.name).is_some_and(is_other);
        if is_taken && self.is_current && !self.is_name_taken {
            out.push(Action::NameTaken);
        }
        self.is_name_taken = is_taken && (self.is_current || self.is_name_taken);
        if self.open.is_none()
            && now >= self.quiet_until
            && let Some(request) = self.next_request(now)
        {
            self.open = Some((request, self.lease()));
            out.push(self.action(request));
        }
    }

    /// Returns what the store is to be asked next, as of this time.
    fn next_request(&self, now: Time) -> Option<Request> {
        if !self.is_current {
            return Some(Request::Read);
        }
        self.lease()?;
        if !self.is_registered() {
            // Another process has the name, or an earlier lease of its own: wait until it is free.
            return self.view.member(&self.options.name).is_none().then_some(Request::Register);
        }
        match self.view.master() {
            None if now >= self.yields_until => Some(Request::Claim),
            Some(master) if self.steps_down && Some(master.generation) == self.own_generation => {
                Some(Request::StepDown)
            }
            Some(master) if self.suspect == Some(master.generation) => Some(Request::Depose),
            None | Some(_) => None,
        }
    }

    fn action(&self, request: Request) -> Action {
        let name = self.options.name.as_bytes().to_vec();
        let lease = self.lease().unwrap_or_default();
        match request {
            Request::Read => Action::Read(self.keys.of_members()),
            Request::Register => {
                let address = self.options.address.iter().map(|address| format!("\n{address}").into_bytes());
                let value = std::iter::once(name).chain(address).flatten().collect();
                Action::Write { key: self.keys.member(&self.options.name), value, lease, former: 0 }
            }
            Request::Claim => Action::Write { key: self.keys.master(), value: name, lease, former: 0 },
            Request::Depose => {
                let former = self.suspect.unwrap_or_default();
                Action::Write { key: self.keys.master(), value: name, lease, former }
            }
            Request::StepDown => {
                Action::Delete { key: self.keys.master(), former: self.own_generation.unwrap_or_default() }
            }
        }
    }
}

#[cfg(test)]
mod tests;
