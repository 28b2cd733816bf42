//! Carries out with etcd what a member wants.
//!
//! One task owns the member. Each request to etcd is a task of its own, which ends with one event; so is the watch,
//! which goes on until another one takes its place. All events come through one channel, one after the other.
//!
//! ```text
//!   MemberHandle ──► step down, leave ──┐
//!   requests ──► granted, read, … ──────┼──► channel ──► Member::on_event ──► actions ──► requests, watch
//!   watch ──► changed, missed ──────────┘                                         └─────► news for the owner
//! ```

use std::time::Duration;

use maple_etcd::{
    Change as EtcdChange, Client, Compare, EtcdError, KeyValue, Keys, LeaseId, Operation, OperationAnswer, Refusal,
    Transaction, Watch, WatchEvent,
};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use crate::keys::Record;
use crate::member::{Action, Event, Member};
use crate::view::{Change, View};

/// Maximum number of keys of a cluster: more than any has members.
const MAX_KEYS: usize = 1_000;

/// Maximum number of events that wait while the owner is busy. Then requests and the watch wait too. Chosen: changes of
/// members are rare, so the owner is hardly ever that far behind.
const MAIL: usize = 64;
/// The time until a watch that broke off is begun again. Chosen: a member soon sees again who is master, and an etcd
/// that is away gets few attempts.
const RETRY: Duration = Duration::from_millis(200);
/// The time after which a member that waits for nothing is woken. Any long time would do, because events wake it too.
const LONG: Duration = Duration::from_secs(3_600);

/// A message from a member to its owner.
#[derive(Debug)]
pub enum News {
    /// The member is master, in this generation ([`Action::Lead`]).
    Lead(u64),
    /// The member is not master any more.
    Follow,
    /// Somebody has its name ([`Action::NameTaken`]).
    NameTaken,
    /// The master or the members have changed.
    Known(View),
    /// Its lease was granted or renewed; or, with `false`, it may have ended. Where a switch has no generations, the
    /// member may not act then.
    Lease(bool),
    /// Something of etcd went wrong. It is tried again.
    Failed(EtcdError),
}

/// A message of the channel.
#[derive(Debug)]
enum Mail {
    Event(Event),
    /// An event of the watch with this number.
    Watched(u64, Event),
    Failed(EtcdError),
}

/// Steers a member whose task runs. Dropping it changes nothing.
#[derive(Clone, Debug)]
pub struct MemberHandle {
    mail: Sender<Mail>,
}

impl MemberHandle {
    /// Asks a master to let another member become master. The member does nothing if it is not master.
    pub async fn step_down(&self) {
        self.send(Event::StepDown).await;
    }

    /// Tells the member that this one seems to be gone. If that is master, the member takes its place.
    pub async fn suspect(&self, name: &str) {
        self.send(Event::Suspected(name.to_owned())).await;
    }

    /// Asks the member to leave. Its task ends after it has ended its lease, or failed to.
    pub async fn leave(&self) {
        self.send(Event::Leave).await;
    }

    async fn send(&self, event: Event) {
        // A member that has left does nothing more.
        let _ = self.mail.send(Mail::Event(event)).await;
    }
}

/// Makes a member run. Returns what steers it, and the task to spawn or await: it ends when the member has left. News
/// are reported as they come; the task waits meanwhile.
pub fn run_member(member: Member, client: Client, news: impl FnMut(News)) -> (MemberHandle, impl Future<Output = ()>) {
    let (mail, inbox) = channel(MAIL);
    let task = Task {
        member,
        client,
        mail: mail.clone(),
        watch: None,
        watches: 0,
        start: Instant::now(),
        leaving: None,
        has_lease: false,
    };
    (MemberHandle { mail }, task.run(inbox, news))
}

struct Task {
    member: Member,
    client: Client,
    mail: Sender<Mail>,
    /// The handle that ends the current watch.
    watch: Option<AbortHandle>,
    /// The number of the latest watch.
    watches: u64,
    start: Instant,
    /// The lease to end when the member leaves.
    leaving: Option<i64>,
    /// Whether the lease was good when that was reported last.
    has_lease: bool,
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(watch) = self.watch.take() {
            watch.abort();
        }
    }
}

impl Task {
    async fn run(mut self, mut inbox: Receiver<Mail>, mut news: impl FnMut(News)) {
        self.on_event(Event::Woken, &mut news);
        loop {
            let ends = self.member.lease_ends().filter(|_| self.has_lease);
            let wakes = self.member.wakes_at().into_iter().chain(ends).min();
            let wakes = wakes.unwrap_or_else(|| self.start.elapsed() + LONG);
            let event = match timeout_at(self.start + wakes, inbox.recv()).await {
                Err(_) => Event::Woken,
                Ok(Some(Mail::Event(event))) => event,
                Ok(Some(Mail::Watched(number, event))) if number == self.watches => event,
                Ok(Some(Mail::Watched(..))) => continue,
                Ok(Some(Mail::Failed(error))) => {
                    news(News::Failed(error));
                    continue;
                }
                Ok(None) => return,
            };
            let leaves = event == Event::Leave;
            self.on_event(event, &mut news);
            if leaves {
                break;
            }
        }
        if let Some(lease) = self.leaving
            && let Err(error) = self.client.revoke(LeaseId(lease)).await
        {
            news(News::Failed(error));
        }
    }

    fn on_event(&mut self, event: Event, news: &mut impl FnMut(News)) {
        let before = self.member.view().clone();
        let is_new = matches!(event, Event::Granted { .. } | Event::Kept { .. });
        let actions = self.member.on_event(self.start.elapsed(), event);
        // Before it is notified that it is master: where only its lease keeps others out, it needs one.
        let has_lease = self.member.lease_ends().is_some_and(|ends| ends > self.start.elapsed());
        if std::mem::replace(&mut self.has_lease, has_lease) != has_lease || is_new && has_lease {
            news(News::Lease(has_lease));
        }
        for action in actions {
            self.act(action, news);
        }
        let view = self.member.view();
        if !view.is_alike(&before) {
            news(News::Known(view.clone()));
        }
    }

    fn act(&mut self, action: Action, news: &mut impl FnMut(News)) {
        let client = self.client.clone();
        match action {
            Action::Grant(time) => self.spawn(async move { grant(&client, time).await }, Event::LeaseFailed),
            Action::KeepAlive(lease) => self.spawn(async move { keep_alive(&client, lease).await }, Event::LeaseFailed),
            Action::Read(prefix) => self.spawn(async move { read(&client, &prefix).await }, Event::Failed),
            Action::Write { key, value, lease, former } => {
                self.spawn(async move { write(&client, key, value, lease, former).await }, Event::Failed);
            }
            Action::Delete { key, former } => {
                self.spawn(async move { delete(&client, key, former).await }, Event::Failed);
            }
            Action::Watch { prefix, from } => self.watch(prefix, from),
            Action::Revoke(lease) => self.leaving = Some(lease),
            Action::Lead(generation) => news(News::Lead(generation)),
            Action::Follow => news(News::Follow),
            Action::NameTaken => news(News::NameTaken),
        }
    }

    /// Asks etcd. If that fails, the member gets this event, and the owner the reason.
    fn spawn(&self, request: impl Future<Output = Result<Event, EtcdError>> + Send + 'static, failed: Event) {
        let mail = self.mail.clone();
        tokio::spawn(async move {
            let (event, error) = match request.await {
                Ok(event) => (event, None),
                Err(error) => (failed, Some(error)),
            };
            for mail_event in error.map(Mail::Failed).into_iter().chain([Mail::Event(event)]) {
                // A member that has left needs nothing.
                let _ = mail.send(mail_event).await;
            }
        });
    }

    fn watch(&mut self, prefix: Vec<u8>, from: u64) {
        if let Some(watch) = self.watch.take() {
            watch.abort();
        }
        self.watches += 1;
        let (number, mail) = (self.watches, self.mail.clone());
        let watch = self.client.watch(Keys::Prefix(prefix), from);
        let task = tokio::spawn(follow(watch, mail, move |seen| match seen {
            Seen::Changed(changes) => Mail::Watched(number, Event::Changed(changes)),
            Seen::Missed => Mail::Watched(number, Event::Missed),
            Seen::Failed(error) => Mail::Failed(error),
        }));
        self.watch = Some(task.abort_handle());
    }
}

/// The news that a watch has of its keys.
pub enum Seen {
    Changed(Vec<Change>),
    /// The store does not know all changes any more, so the watch ends.
    Missed,
    Failed(EtcdError),
}

/// Sends on what a watch sees, until changes were missed or nobody receives it.
pub async fn follow<M>(mut watch: Watch, mail: Sender<M>, to_mail: impl Fn(Seen) -> M) {
    loop {
        let seen = match watch.next().await {
            Ok(WatchEvent::Progress(_)) => continue,
            Ok(WatchEvent::Changes(changes)) => Seen::Changed(changes.into_iter().map(Change::from).collect()),
            Ok(WatchEvent::Missed) => Seen::Missed,
            Err(error) => {
                tokio::time::sleep(RETRY).await;
                Seen::Failed(error)
            }
        };
        let is_over = matches!(seen, Seen::Missed);
        if mail.send(to_mail(seen)).await.is_err() || is_over {
            return;
        }
    }
}

async fn grant(client: &Client, time: Duration) -> Result<Event, EtcdError> {
    let granted = client.grant(u32::try_from(time.as_secs()).unwrap_or(u32::MAX)).await?;
    Ok(Event::Granted { lease: granted.lease.0, good_for: granted.left })
}

async fn keep_alive(client: &Client, lease: i64) -> Result<Event, EtcdError> {
    let kept = client.keep_alive(LeaseId(lease)).await?;
    Ok(kept.map_or(Event::LeaseEnded, |kept| Event::Kept { good_for: kept.left }))
}

async fn read(client: &Client, prefix: &[u8]) -> Result<Event, EtcdError> {
    let all = client.all(prefix, MAX_KEYS).await?;
    Ok(Event::Read { records: all.keys.into_iter().map(Record::from).collect(), revision: all.revision })
}

async fn write(client: &Client, key: Vec<u8>, value: Vec<u8>, lease: i64, former: u64) -> Result<Event, EtcdError> {
    let lease = LeaseId(lease);
    let transaction = Transaction {
        compare: vec![Compare::ModifiedAt(key.clone(), former)],
        then: vec![Operation::Put { key: key.clone(), value: value.clone(), lease }],
        otherwise: vec![Operation::Range(Keys::One(key.clone()))],
    };
    let answer = match client.transact(&transaction).await {
        Ok(answer) => answer,
        Err(error) if error.refusal() == Some(Refusal::NoSuchLease) => return Ok(Event::NoSuchLease),
        Err(error) => return Err(error),
    };
    let revision = answer.revision;
    let record = match answer.answers.into_iter().next() {
        _ if answer.succeeded => Some(Record { key, value, revision, lease: lease.0 }),
        Some(OperationAnswer::Range(mut range)) => range.keys.pop().map(Record::from),
        _ => None,
    };
    Ok(Event::Written { record, revision })
}

async fn delete(client: &Client, key: Vec<u8>, former: u64) -> Result<Event, EtcdError> {
    let transaction = Transaction {
        compare: vec![Compare::ModifiedAt(key.clone(), former)],
        then: vec![Operation::Delete(Keys::One(key))],
        otherwise: Vec::new(),
    };
    let answer = client.transact(&transaction).await?;
    Ok(Event::Deleted { revision: answer.revision })
}

impl From<KeyValue> for Record {
    fn from(kv: KeyValue) -> Record {
        Record { key: kv.key, value: kv.value, revision: kv.mod_revision, lease: kv.lease.0 }
    }
}

impl From<EtcdChange> for Change {
    fn from(reported: EtcdChange) -> Change {
        match reported {
            EtcdChange::Put(kv) => Change::Put { revision: kv.mod_revision, record: kv.into() },
            EtcdChange::Delete { key, revision } => Change::Delete { key, revision },
        }
    }
}
