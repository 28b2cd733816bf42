//! Carries out with etcd what a copy of the tracked state wants.
//!
//! One task owns the copy, and whoever has the state on its thread ([`StateOwner`]). Each request to etcd is a task of
//! its own, which ends with one event; so is the watch. What the member says and what is committed waits in queues of
//! their own, which are empty whenever something else is taken: so all that the owner committed before its gate was
//! shut comes before whatever follows from that.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use maple_etcd::{Client, Compare, EtcdError, Keys, LeaseId, Operation, OperationAnswer, Transaction};
use parking_lot::Mutex;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use crate::etcd::{Seen, follow};
use crate::keys::Record;
use crate::replica::{ChangedRows, CommitRows, Gate, Replica, ReplicaAction, ReplicaEvent, StateBatch};

/// The maximum number of rows that are read. Chosen: a bound on memory; tables of policies have far fewer rows.
const MAX_KEYS: usize = 1_000_000;
/// The maximum number of events that wait while the owner is busy. Then requests and the watch wait too. Chosen: an
/// event has the changes of a whole answer of the watch, so a few are much.
const MAIL: usize = 64;
/// The time after which a copy that waits for nothing is woken. Any long time would do, because events wake it too.
const LONG: Duration = Duration::from_secs(3_600);

/// Whoever has the tracked state.
pub trait StateOwner {
    /// Returns the commits since it was asked last, in order. Whoever commits then says so ([`ReplicaHandle::look`]).
    fn commits(&mut self) -> Vec<CommitRows>;

    /// Has the state hold exactly these rows ([`ReplicaAction::Replace`]).
    ///
    /// # Errors
    /// The reason why they can't be used, for people.
    fn replace(&mut self, rows: BTreeMap<Vec<u8>, Vec<u8>>) -> Result<(), String>;

    /// Changes these rows, all at once ([`ReplicaAction::Apply`]).
    ///
    /// # Errors
    /// The reason why they can't be used, for people.
    fn apply(&mut self, rows: ChangedRows) -> Result<(), String>;

    /// Returns all rows ([`ReplicaAction::Adopt`]).
    fn contents(&mut self) -> BTreeMap<Vec<u8>, Vec<u8>>;

    /// Takes in what else the copy says.
    fn on_news(&mut self, news: StateNews);
}

/// A message to the owner of the tracked state.
#[derive(Debug)]
pub enum StateNews {
    /// The owner has all that was written before, and may lead in this generation ([`ReplicaAction::Ready`]).
    Ready(u64),
    /// Its commits up to this version are in etcd ([`ReplicaAction::Confirmed`]).
    Confirmed(u64),
    /// Its commits up to this version that are not confirmed are given up ([`ReplicaAction::Lost`]).
    Lost(u64),
    /// Whether it may commit. When this returns, nobody commits who may not ([`ReplicaAction::Gate`]).
    Gate(Gate),
    /// The state in etcd can't be used, for this reason ([`ReplicaAction::Unreadable`]).
    Unreadable(String),
    /// Something of etcd went wrong. It is tried again.
    Failed(EtcdError),
}

/// A message of the channel.
#[derive(Debug)]
enum ReplicaMail {
    Event(ReplicaEvent),
    /// An event of the watch with this number.
    Watched(u64, ReplicaEvent),
    Failed(EtcdError),
    /// Something waits elsewhere.
    Look,
}

/// Tells a copy whose task runs what its member says. Dropping it changes nothing.
#[derive(Clone, Debug)]
pub struct ReplicaHandle {
    mail: Sender<ReplicaMail>,
    reported: Arc<Mutex<VecDeque<ReplicaEvent>>>,
}

impl ReplicaHandle {
    /// Tells the copy that its member is master, in this generation.
    pub fn lead(&self, generation: u64) {
        self.notify(ReplicaEvent::Lead(generation));
    }

    /// Tells the copy that its member is not master.
    pub fn follow(&self) {
        self.notify(ReplicaEvent::Follow);
    }

    /// Tells the copy whether etcd answers its member.
    pub fn store_answers(&self, answers: bool) {
        self.notify(ReplicaEvent::StoreAnswers(answers));
    }

    /// Tells the copy that its owner has committed. Any thread may do so; it does not wait.
    pub fn look(&self) {
        // If the channel is full, the task looks anyway when it takes what is there. One that has ended needs nothing.
        let _ = self.mail.try_send(ReplicaMail::Look);
    }

    fn notify(&self, event: ReplicaEvent) {
        self.reported.lock().push_back(event);
        self.look();
    }
}

/// Makes a copy run. Returns the sender of news about its member, and the task to spawn: it ends when it is aborted.
pub fn run_replica<O: StateOwner>(
    replica: Replica,
    client: Client,
    owner: O,
) -> (ReplicaHandle, impl Future<Output = ()>) {
    let (mail, inbox) = channel(MAIL);
    let handle = ReplicaHandle { mail: mail.clone(), reported: Arc::default() };
    let reported = Arc::clone(&handle.reported);
    let start = Instant::now();
    let task = ReplicaTask { replica, client, owner, mail, reported, watch: None, watches: 0, start };
    (handle, task.run(inbox))
}

struct ReplicaTask<O> {
    replica: Replica,
    client: Client,
    owner: O,
    mail: Sender<ReplicaMail>,
    reported: Arc<Mutex<VecDeque<ReplicaEvent>>>,
    /// The handle that ends the current watch.
    watch: Option<AbortHandle>,
    /// The number of the latest watch.
    watches: u64,
    start: Instant,
}

impl<O> Drop for ReplicaTask<O> {
    fn drop(&mut self) {
        if let Some(watch) = self.watch.take() {
            watch.abort();
        }
    }
}

impl<O: StateOwner> ReplicaTask<O> {
    async fn run(mut self, mut inbox: Receiver<ReplicaMail>) {
        self.notify(ReplicaEvent::Woken);
        loop {
            while let Some(event) = self.next_event() {
                self.notify(event);
            }
            let wakes = self.replica.wakes_at().unwrap_or_else(|| self.start.elapsed() + LONG);
            match timeout_at(self.start + wakes, inbox.recv()).await {
                Err(_) | Ok(Some(ReplicaMail::Look)) => self.notify(ReplicaEvent::Woken),
                Ok(Some(ReplicaMail::Event(event))) => self.notify(event),
                Ok(Some(ReplicaMail::Watched(number, event))) if number == self.watches => self.notify(event),
                Ok(Some(ReplicaMail::Watched(..))) => {}
                Ok(Some(ReplicaMail::Failed(error))) => self.owner.on_news(StateNews::Failed(error)),
                Ok(None) => return,
            }
        }
    }

    fn next_event(&self) -> Option<ReplicaEvent> {
        self.reported.lock().pop_front()
    }

    /// Tells the copy something, after all that was committed before.
    fn notify(&mut self, event: ReplicaEvent) {
        for commit in self.owner.commits() {
            self.notify_now(ReplicaEvent::Committing(commit));
        }
        self.notify_now(event);
    }

    fn notify_now(&mut self, event: ReplicaEvent) {
        for action in self.replica.on_event(self.start.elapsed(), event) {
            self.act(action);
        }
    }

    fn act(&mut self, action: ReplicaAction) {
        let client = self.client.clone();
        match action {
            ReplicaAction::ReadAll(prefix) => self.spawn(async move { read_all(&client, &prefix).await }),
            ReplicaAction::ReadHead(key) => self.spawn(async move { read_head(&client, key).await }),
            ReplicaAction::Write(batch) => self.spawn(async move { write(&client, batch).await }),
            ReplicaAction::Watch { prefix, from } => self.watch(prefix, from),
            ReplicaAction::Unwatch => self.unwatch(),
            ReplicaAction::Replace(rows) => {
                let held = held(self.owner.replace(rows));
                self.notify_now(held);
            }
            ReplicaAction::Apply(rows) => {
                let held = held(self.owner.apply(rows));
                self.notify_now(held);
            }
            ReplicaAction::Adopt => {
                let rows = self.owner.contents();
                self.notify_now(ReplicaEvent::Contents(rows));
            }
            ReplicaAction::Ready(generation) => self.owner.on_news(StateNews::Ready(generation)),
            ReplicaAction::Confirmed(version) => self.owner.on_news(StateNews::Confirmed(version)),
            ReplicaAction::Lost(version) => self.owner.on_news(StateNews::Lost(version)),
            ReplicaAction::Gate(gate) => self.owner.on_news(StateNews::Gate(gate)),
            ReplicaAction::Unreadable(why) => self.owner.on_news(StateNews::Unreadable(why)),
        }
    }

    /// Asks etcd. If that fails, the copy is notified, and the owner gets the reason.
    fn spawn(&self, request: impl Future<Output = Result<ReplicaEvent, EtcdError>> + Send + 'static) {
        let mail = self.mail.clone();
        tokio::spawn(async move {
            let (event, error) = match request.await {
                Ok(event) => (event, None),
                Err(error) => (ReplicaEvent::Failed, Some(error)),
            };
            for mail_event in error.map(ReplicaMail::Failed).into_iter().chain([ReplicaMail::Event(event)]) {
                // A task that has ended needs nothing.
                let _ = mail.send(mail_event).await;
            }
        });
    }

    fn unwatch(&mut self) {
        self.watches += 1;
        if let Some(watch) = self.watch.take() {
            watch.abort();
        }
    }

    fn watch(&mut self, prefix: Vec<u8>, from: u64) {
        self.unwatch();
        let (number, mail) = (self.watches, self.mail.clone());
        let watch = self.client.watch(Keys::Prefix(prefix), from);
        let task = tokio::spawn(follow(watch, mail, move |seen| match seen {
            Seen::Changed(changes) => ReplicaMail::Watched(number, ReplicaEvent::Changed(changes)),
            Seen::Missed => ReplicaMail::Watched(number, ReplicaEvent::Missed),
            Seen::Failed(error) => ReplicaMail::Failed(error),
        }));
        self.watch = Some(task.abort_handle());
    }
}

fn held(outcome: Result<(), String>) -> ReplicaEvent {
    outcome.map_or_else(ReplicaEvent::Unusable, |()| ReplicaEvent::Held)
}

async fn read_all(client: &Client, prefix: &[u8]) -> Result<ReplicaEvent, EtcdError> {
    let all = client.all(prefix, MAX_KEYS).await?;
    Ok(ReplicaEvent::Read { records: all.keys.into_iter().map(Record::from).collect(), revision: all.revision })
}

async fn read_head(client: &Client, key: Vec<u8>) -> Result<ReplicaEvent, EtcdError> {
    let mut range = client.range(&Keys::One(key), 1).await?;
    Ok(ReplicaEvent::Head { record: range.keys.pop().map(Record::from), revision: range.revision })
}

async fn write(client: &Client, batch: StateBatch) -> Result<ReplicaEvent, EtcdError> {
    let StateBatch { master, head, value, clears, rows } = batch;
    let operation = |(key, value)| match value {
        Some(value) => Operation::Put { key, value, lease: LeaseId::NONE },
        None => Operation::Delete(Keys::One(key)),
    };
    let all = clears.map(|prefix| Operation::Delete(Keys::Prefix(prefix)));
    let says = Operation::Put { key: head.key.clone(), value, lease: LeaseId::NONE };
    let transaction = Transaction {
        compare: [&master, &head].map(|at| Compare::ModifiedAt(at.key.clone(), at.revision)).into(),
        then: all.into_iter().chain([says]).chain(rows.into_iter().map(operation)).collect(),
        otherwise: vec![Operation::Range(Keys::One(master.key)), Operation::Range(Keys::One(head.key))],
    };
    let answer = client.transact(&transaction).await?;
    if answer.succeeded {
        return Ok(ReplicaEvent::Committed(answer.revision));
    }
    let mut found = answer.answers.into_iter().map(|answer| match answer {
        OperationAnswer::Range(mut range) => range.keys.pop(),
        OperationAnswer::Put(_) | OperationAnswer::Delete(_) => None,
    });
    let master = found.next().flatten().map_or(0, |key| key.mod_revision);
    Ok(ReplicaEvent::Refused { master, head: found.next().flatten().map(Record::from) })
}
