//! The role of this controller at the switch, if it is one of several (`maple-cluster`).
//!
//! ```text
//!   negotiated ─► asks to be slave ─► features ─► claimed ─► Standby ◄───────── not master any more ───────┐
//!                                                               └── master ─► features ─► description ─► Up ┘
//! ```
//!
//! A connection begins with a role that no switch refuses anything (equal), so the request to be slave comes before
//! anything else. A session that is not master is a *standby*: its owner does not know the switch as up, so nobody
//! decides anything for it, and what the switch says is not read. State read while another controller was master may
//! be out of date. So a session that becomes master reads everything again, the features included, as on a new
//! connection; only the datapath id stays claimed. When it is not master any more it says so first
//! ([`RoleNews::Lost`]), and forgets all open requests: their answers mean nothing to the next mastery.
//!
//! The switch's latest word decides ([`Fence`]). A request for a role has a deadline as all others, so a switch that
//! does not answer is disconnected.

use std::collections::VecDeque;
use std::time::Duration;

use maple_cluster::{Fence, FenceChange};
use maple_core::engine::Time;
use maple_wire::msg::{Experimenter, Header};
use maple_wire::{Dpid, Message, Version};

use super::table_sizes::TableSizes;
use super::{Deadlines, Output, Phase, Session};
use crate::time::after;

/// The time after which a controller that leads, and is not master at the switch, asks again. Chosen: a switch that
/// refused a moment ago has its master soon, at a request a second.
const RETRY: Duration = Duration::from_secs(1);

/// The cluster's word about this controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterRole {
    /// The generation in which this controller is the network's master; `None` if it is not.
    pub own_generation: Option<u64>,
    /// The latest generation of a master that is known.
    pub latest: Option<u64>,
    /// Whether its lease is certainly good. A switch of OpenFlow 1.0 has no generations, so there a controller is
    /// master only while its lease is good.
    pub has_lease: bool,
}

impl ClusterRole {
    /// Returns the generation in which the controller may ask to be master at a switch of this version.
    fn leads_at(self, version: Version) -> Option<u64> {
        self.own_generation.filter(|_| version == Version::Of13 || self.has_lease)
    }
}

/// The news of a session about its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleNews {
    /// The switch is claimed. This controller is not its master yet, and may never be.
    Standby,
    /// This controller is not the switch's master any more. [`Output::Up`] follows if it is master again.
    Lost,
    /// The switch has seen this generation, which is later than this controller's own. So it is not master there.
    Overtaken(u64),
    /// The switch has no roles, so it can't be shared by several controllers.
    Unsupported,
}

/// The role of a session of a cluster.
#[derive(Debug, Default)]
pub(super) struct SwitchRole {
    /// The number of `cluster`; later ones have greater numbers.
    number: u64,
    cluster: ClusterRole,
    /// The fence, once the version is known.
    fence: Option<Fence>,
    /// The open requests for a role, oldest first.
    asked: VecDeque<u32>,
    /// The switch, once its claim is granted. Before that the controller does not ask to be master.
    dpid: Option<Dpid>,
    /// The time when to ask again to be master.
    again: Option<Time>,
    /// The news that was reported last. It is reported again only after a mastery.
    reported: Option<RoleNews>,
}

impl SwitchRole {
    /// Returns the switch, once its claim is granted.
    pub fn dpid(&self) -> Option<Dpid> {
        self.dpid
    }

    /// Returns when to ask again to be master.
    pub fn again(&self) -> Option<Time> {
        self.again
    }
}

impl Session {
    /// Creates a session on a newly accepted connection. With a role, the controller is one of several, and the session
    /// is a standby until the cluster says that it leads, and the switch that it is master.
    pub fn with_role(
        now: Time,
        deadlines: Deadlines,
        role: Option<(u64, ClusterRole)>,
        out: &mut Vec<Output>,
    ) -> Session {
        let mut session = Session::new(now, deadlines, out);
        session.role = role.map(|(number, cluster)| Box::new(SwitchRole { number, cluster, ..SwitchRole::default() }));
        session
    }

    /// Reports whether the switch is claimed, and another controller may be its master.
    pub fn is_standby(&self) -> bool {
        self.role.as_ref().is_some_and(|role| role.reported.is_some())
    }

    /// Takes what the cluster says of this controller, with a number that grows, unless something later is known.
    /// Nothing happens in a session of no cluster.
    pub fn set_role(&mut self, now: Time, number: u64, cluster: ClusterRole, out: &mut Vec<Output>) {
        match &mut self.role {
            Some(role) if number > role.number => (role.number, role.cluster) = (number, cluster),
            _ => return,
        }
        self.follow_cluster(now, out);
    }

    /// Asks to be slave, on a connection on which nothing was sent but a hello.
    pub(super) fn begin_role(&mut self, now: Time, out: &mut Vec<Output>) {
        let Some(role) = &mut self.role else { return };
        let (fence, ask) = Fence::new(self.version, role.cluster.latest, None);
        role.fence = Some(fence);
        self.on_role(now, ask, None, out);
    }

    /// Begins to be a standby, once the claim is granted. If the controller leads, it asks to be master.
    pub(super) fn begin_standby(&mut self, now: Time, dpid: Dpid, out: &mut Vec<Output>) {
        let Some(role) = &mut self.role else { return };
        role.dpid = Some(dpid);
        self.phase = Phase::Standby;
        self.report(RoleNews::Standby, out);
        self.follow_cluster(now, out);
    }

    /// Tells the fence what has become of the cluster, and sends what it wants.
    fn follow_cluster(&mut self, now: Time, out: &mut Vec<Output>) {
        let version = self.version;
        let Some(role) = self.role.as_mut().filter(|_| !matches!(self.phase, Phase::Closed)) else { return };
        let leads = role.cluster.leads_at(version).filter(|_| role.dpid.is_some());
        let Some(fence) = &mut role.fence else { return };
        let (ask, change) = match leads {
            Some(generation) => fence.lead(generation),
            None => fence.follow(role.cluster.latest),
        };
        self.on_role(now, ask, change, out);
    }

    /// Asks again to be master, if that is due.
    pub(super) fn ask_again(&mut self, now: Time, out: &mut Vec<Output>) {
        let Some(role) = &mut self.role else { return };
        if role.again.take_if(|again| *again <= now).is_some()
            && let Some(fence) = &mut role.fence
        {
            let ask = fence.ask_again();
            self.on_role(now, ask, None, out);
        }
    }

    /// Takes a message about roles. Returns whether it is about nothing else.
    pub(super) fn take_role(&mut self, now: Time, xid: u32, message: &Message, out: &mut Vec<Output>) -> bool {
        let Some(SwitchRole { fence: Some(fence), asked, .. }) = self.role.as_deref_mut() else { return false };
        let is_answer = asked.contains(&xid);
        let is_status = matches!(message, Message::Experimenter(experimenter) if experimenter.id == Experimenter::ONF);
        match message {
            Message::RoleReply(_) | Message::Experimenter(_) | Message::Error(_) if is_answer => {
                // A switch answers in order. What it has not answered before has a deadline.
                if asked.front() != Some(&xid) {
                    return true;
                }
                asked.pop_front();
                self.keepalive.on_answer(xid);
            }
            Message::Error(_) => {}
            _ if is_status => {}
            _ => return false,
        }
        let (ask, change) = fence.on_message(message, is_answer);
        self.on_role(now, ask, change, out);
        is_answer || is_status
    }

    /// Acts on what the fence says: first on what has changed, then it asks.
    fn on_role(&mut self, now: Time, ask: Vec<Message>, change: Option<FenceChange>, out: &mut Vec<Output>) {
        match change {
            Some(FenceChange::Master(_)) => self.begin_mastery(now, out),
            Some(FenceChange::Lost) => self.end_mastery(out),
            Some(FenceChange::Overtaken(generation)) => self.report(RoleNews::Overtaken(generation), out),
            Some(FenceChange::Unsupported) => self.report(RoleNews::Unsupported, out),
            None => {}
        }
        for message in ask {
            let xid = self.request(message, out);
            self.expect(now, xid);
            self.role.iter_mut().for_each(|role| role.asked.push_back(xid));
        }
        if let Some(role) = &mut self.role {
            let is_unseated = role.fence.as_ref().is_some_and(Fence::is_unseated);
            role.again = is_unseated.then(|| role.again.unwrap_or(after(now, RETRY)));
        }
    }

    /// Begins the handshake anew, as master.
    fn begin_mastery(&mut self, now: Time, out: &mut Vec<Output>) {
        if !matches!(self.phase, Phase::Standby) {
            return debug_assert!(false, "only a standby becomes master: {:?}", self.phase);
        }
        self.role.iter_mut().for_each(|role| role.reported = None);
        self.ask_for_features(now, out);
    }

    /// Becomes a standby again.
    fn end_mastery(&mut self, out: &mut Vec<Output>) {
        let was_up = self.is_up();
        self.phase = Phase::Standby;
        self.forget_requests(out);
        if was_up {
            self.report(RoleNews::Lost, out);
        }
    }

    /// Tells the owner something of the role of a switch that it knows, once.
    fn report(&mut self, news: RoleNews, out: &mut Vec<Output>) {
        if let Some(role) = &mut self.role
            && role.dpid.is_some()
            && role.reported.replace(news) != Some(news)
        {
            out.push(Output::Role(news));
        }
    }

    /// Forgets all open requests but those for a role. What the switch answers is not for this session any more.
    fn forget_requests(&mut self, out: &mut Vec<Output>) {
        self.abandon_questions(out);
        (self.reading, self.ports_request, self.config_request) = (None, None, None);
        self.all_rules.clear();
        self.table_sizes = TableSizes::default();
        let asked = self.role.as_ref().map(|role| &role.asked);
        self.keepalive.retain(|xid| asked.is_some_and(|asked| asked.contains(&xid)));
    }

    /// Handles a message of a switch that is another controller's. What it says is for its master, or answers what this
    /// controller asked when it was master.
    pub(super) fn on_standby_message(&mut self, header: Header, message: Message, bytes: &[u8], out: &mut Vec<Output>) {
        match message {
            Message::PacketIn(_)
            | Message::PortStatus(_)
            | Message::FlowRemoved(_)
            | Message::Error(_)
            | Message::StatsReply(_)
            | Message::BarrierReply
            | Message::FeaturesReply(_)
            | Message::GetConfigReply(_)
            | Message::RoleReply(_)
            | Message::BundleControl(_) => {}
            message => self.on_other_message(header, message, bytes, out),
        }
    }
}
