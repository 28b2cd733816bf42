//! Commits of runs, subscriptions to plans, and what follows from both at once.

use std::sync::Arc;
use std::time::Duration;

use super::Context;
use super::uses::EngineStore;
use crate::engine::messages::event::{Effect, ListenerPacket};
use crate::engine::messages::received_packet::ReceivedPacket;
use crate::ids::DependentId;
use crate::network::{Location, Mac, PortKind};
use crate::report::{Report, ReportSubject};
use crate::route::{Absence, OmittedPlace, Resolved, RoutePlan};
use crate::run::Violation;
use crate::state::{Cell, CellValue, Commit, Conflict, ExclusiveCommit, Snapshot, Txn, Writer, Written};
use crate::trace::Source;

impl Context {
    /// Reports whether a packet may enter the network: by a middlebox port, or by an edge port. With host tracking, no
    /// packet of a host that is known or declared to be elsewhere enters by an edge port. One that stands for those of
    /// hosts that are there (`is_source_here`) does.
    pub fn is_admissible(&self, received: &ReceivedPacket, state: &Snapshot, is_source_here: bool) -> bool {
        let kind = state.port(received.at).map(|port| port.kind);
        let source = Mac::from_bits(received.packet().switch_value(maple_wire::Field::EthSrc).unwrap_or_default());
        let known = || state.host(source).map(|host| host.location);
        let elsewhere = || [known(), state.facts().place(source)].into_iter().flatten().any(|at| at != received.at);
        match kind {
            Some(PortKind::Edge) => is_source_here || !(self.options.track_hosts && elsewhere()),
            kind => kind == Some(PortKind::Middlebox),
        }
    }

    /// Returns the record of a write by this writer at the present time.
    pub fn written_by(&self, by: Writer) -> Written {
        Written { by, at: self.options.wall_clock + Duration::from_nanos(self.now.0) }
    }

    /// Gives a packet to the listeners whose bit is set.
    pub fn notify_listeners(&mut self, by: u64, received: &ReceivedPacket) {
        if by != 0 {
            let (at, frame, total_len) = (received.at, Arc::clone(&received.frame), received.total_len);
            self.after.push(Effect::ListenerPacket(ListenerPacket { by, at, frame, total_len }));
        }
    }

    /// Reports what rules of access lists log about a packet.
    pub fn report_logged(&mut self, logged: &[Arc<str>], received: &ReceivedPacket) {
        for what in logged {
            if let Some(unreported) = self.reports.count_logged(self.now, what) {
                let packet = maple_wire::packet::text::summary(&received.packet()).into();
                self.report(Report::AccessLogged { what: Arc::clone(what), packet, at: received.at, unreported });
            }
        }
    }

    /// Reports a packet that was `seen` at a port although its source is `at` another.
    pub fn report_elsewhere(&mut self, mac: Mac, at: Location, seen: Location) {
        if let Some(unreported) = self.reports.count_elsewhere(self.now, seen) {
            self.report(Report::HostElsewhere { mac, at, seen, unreported });
        }
    }

    /// Commits a transaction, within its exclusive turn if it has one.
    pub fn commit_txn(
        &self,
        mut txn: Txn,
        dependent: Option<DependentId>,
        exclusive: Option<ExclusiveCommit<'_>>,
    ) -> Result<Commit, Conflict> {
        if txn.wrote() {
            txn.sign(self.written_by(Writer::Policy(None)));
        }
        match exclusive {
            Some(exclusive) => self.store.commit_alone(&exclusive, txn, dependent),
            None => self.store.commit(txn, dependent),
        }
    }

    /// Forgets parked packets that will never be decided.
    pub fn drop_parked(&mut self, dependents: impl IntoIterator<Item = DependentId>) {
        for dependent in dependents {
            self.store.forget(dependent);
            self.stats.wait_drops += 1;
        }
    }

    /// Reports the absent places that a route leaves out, each once.
    pub fn report_left_out(&mut self, left_out: Vec<OmittedPlace>, made_at: Option<&Source>) {
        for OmittedPlace { at, why } in left_out {
            let key = match why {
                Absence::Switch => at.switch.to_string(),
                Absence::Port(_) | Absence::Link(_) => at.to_string(),
            };
            let place = made_at.map_or_else(|| "in the policy".into(), |line| line.to_string().into());
            let report = Report::PlaceAbsent { at, why, place };
            self.report_once(ReportSubject::Policy, &key, report);
        }
    }

    /// Counts routes that constraints refused. Each is reported once for its constraint and line.
    pub fn report_violations(&mut self, violations: Vec<Violation>, at: Location) {
        for Violation { constraint, why, place } in violations {
            self.stats.violations += 1;
            let place: Arc<str> = place.map_or_else(|| "in the policy".into(), |line| line.to_string().into());
            if self.reports.count_violation((Arc::clone(&constraint), Arc::clone(&place))) {
                self.report(Report::ConstraintViolated { constraint, why, place, at });
            }
        }
    }

    /// Subscribes `dependent` to what `read` reads: the store will name it when that changes. Returns what was read. As
    /// with runs of f, an attempt that lost too often has the store to itself.
    pub fn subscribe<T>(&self, dependent: DependentId, read: impl Fn(&mut Txn) -> T) -> T {
        let store = Arc::clone(self.store.shared());
        let is_replayed = self.store.is_replayed();
        for lost in 0.. {
            let has_lost = lost >= self.options.max_reruns;
            let exclusive = has_lost.then(|| EngineStore::turn(&store, is_replayed)).flatten();
            let mut txn = self.store.begin_txn();
            let value = read(&mut txn);
            if self.commit_txn(txn, Some(dependent), exclusive).is_ok() {
                return value;
            }
        }
        unreachable!("an attempt that has the store to itself does not lose")
    }

    /// Resolves a plan, and subscribes `dependent` to the result. Returns `None` if there is no such route.
    pub fn subscribe_to_plan(&self, dependent: DependentId, plan: &RoutePlan) -> Option<Arc<Resolved>> {
        let CellValue::Route(Ok(resolved)) = self.subscribe(dependent, |txn| txn.read(Cell::Route(plan.clone())))
        else {
            self.store.forget(dependent);
            return None;
        };
        Some(resolved)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell as Counter;
    use std::sync::mpsc;

    use super::super::options::Options;
    use super::*;
    use crate::ids::ShardId;
    use crate::state::{Store, Value, Write};

    fn write(store: &Store, value: u32) {
        store.change(vec![Write::Var { name: "x".into(), value: Some(Value::from(i64::from(value))) }]).unwrap();
    }

    #[test]
    fn a_subscription_that_lost_too_often_has_the_store_to_itself() {
        let (store, attempts) = (Arc::new(Store::new()), Counter::new(0));
        let context = Context::new(ShardId(0), Arc::clone(&store), Options { max_reruns: 3, ..Options::default() });
        let (done, is_done) = mpsc::channel();
        let read = context.subscribe(DependentId(1), |txn| {
            attempts.set(attempts.get() + 1);
            let value = txn.read(Cell::Var("x".into()));
            if attempts.get() <= 3 {
                write(&store, attempts.get());
            } else {
                let (store, done) = (Arc::clone(&store), done.clone());
                std::thread::spawn(move || {
                    write(&store, 4);
                    done.send(()).unwrap();
                });
                let waited = is_done.recv_timeout(Duration::from_millis(50));
                assert_eq!(waited, Err(mpsc::RecvTimeoutError::Timeout), "others can't write meanwhile");
            }
            value
        });
        assert_eq!((attempts.get(), read), (4, CellValue::Value(Some(Value::from(3)))));
        is_done.recv().expect("others write as soon as it is subscribed");
    }
}
