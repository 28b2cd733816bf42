//! The switches of this shard.
//!
//! Next on a packet's way: [`crate::engine::decisions::decide`], where f runs.

pub(super) mod audit;
pub(super) mod count_drops;
pub(super) mod count_rule;
pub(super) mod measure;
pub(super) mod packet_out;
pub(super) mod reread;
pub(super) mod traffic;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use maple_wire::{Dpid, Field, Message};
use rustc_hash::FxHashMap;

use crate::capabilities::Capabilities;
use crate::engine::context::Context;
use crate::engine::context::options::Options;
use crate::engine::messages::event::Effect;
use crate::engine::messages::received_packet::{CapturedFields, ReceivedPacket};
use crate::engine::one_switch::Switch;
use crate::engine::one_switch::look_up_tables::WithMetadata;
use crate::engine::one_switch::restoring::Restoring;
use crate::engine::one_switch::tables::Waiter;
use crate::engine::tools::expected::Expected;
use crate::ids::{DependentId, LeafId, ShardId};
use crate::look_ups::SOURCE_IS_HERE;
use crate::network::Mac;
use crate::trace::ReadMetadata;
use measure::Demand;

/// The maximum number of switches that are remembered because they have fewer tables than they announce, or no action
/// sets. Chosen: more than a network has; whoever reaches the controller's port can claim datapath ids.
const MAX_WITH_FEWER_TABLES: usize = 4096;

/// The maximum number of waits for changes of an unreachable switch's rules. A route that changes its path adds one.
/// Chosen: a bound on memory that a network reaches only if paths change for hours.
const MAX_WAITING: usize = 1 << 18;

/// The switches of this shard, in order.
#[derive(Default)]
pub(super) struct Switches {
    all: BTreeMap<Dpid, Box<Switch>>,
    /// Switches that turned out to have fewer tables, each with the number that it announces, and that of the tables in
    /// which it takes rules.
    fewer_tables: BTreeMap<Dpid, (u8, u8)>,
    /// Switches that refuse rules which write or clear action sets.
    without_action_sets: BTreeSet<Dpid>,
    /// The switches of look-ups, by the dependents that these are for the store.
    look_ups: FxHashMap<DependentId, Dpid>,
    /// The number of times that classes were freed, or look-ups lowered. Traces from before may name other classes.
    classes_changed: u64,
    pub demand: Demand,
}

/// Reading the switches works as with any map.
impl Deref for Switches {
    type Target = BTreeMap<Dpid, Box<Switch>>;

    fn deref(&self) -> &BTreeMap<Dpid, Box<Switch>> {
        &self.all
    }
}

impl Switches {
    /// Returns the switch, to be changed, if this shard has it.
    pub fn get_mut(&mut self, dpid: &Dpid) -> Option<&mut Switch> {
        self.all.get_mut(dpid).map(|switch| &mut **switch)
    }

    /// Returns a switch that this shard must have; a debug build panics if it is missing.
    #[track_caller]
    pub fn known(&self, dpid: Dpid) -> Option<&Switch> {
        self.get(&dpid).map(|switch| &**switch).expected()
    }

    /// Returns a switch that this shard must have, to be changed; a debug build panics if it is missing.
    #[track_caller]
    pub fn known_mut(&mut self, dpid: Dpid) -> Option<&mut Switch> {
        self.get_mut(&dpid).expected()
    }

    /// Returns the restore of a switch, if it is being restored.
    pub fn restoring_mut(&mut self, dpid: Dpid) -> Option<&mut Restoring> {
        self.get_mut(&dpid)?.restoring.as_mut()
    }

    /// Returns all switches, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Switch> {
        self.all.values_mut().map(|switch| &mut **switch)
    }

    /// Creates the dependent that a look-up of a switch is. It takes no number that a leaf would get: those of leaves
    /// are in cookies, and do not depend on when f looks something up.
    pub fn add_look_up(&mut self, shard: ShardId, dpid: Dpid, is_taken: impl Fn(DependentId) -> bool) -> DependentId {
        let mut ids = (0..=u32::MAX).rev().map(|number| DependentId(u64::from(shard.0) << 32 | u64::from(number)));
        let id = ids.find(|id| !self.look_ups.contains_key(id) && !is_taken(*id)).unwrap_or(DependentId(u64::MAX));
        self.look_ups.insert(id, dpid);
        id
    }

    /// Removes a dependent that was a look-up.
    pub fn forget_look_up(&mut self, dependent: DependentId) {
        self.look_ups.remove(&dependent);
    }

    /// Returns the switch of a dependent that is a look-up.
    pub fn of_look_up(&self, dependent: DependentId) -> Option<Dpid> {
        self.look_ups.get(&dependent).copied()
    }

    /// Notes that a switch takes no rules in this table, although it announces it. Returns how many tables are used
    /// from now on; `None` if that is not new. A layout with several tables has at least three.
    pub fn note_fewer_tables(&mut self, dpid: Dpid, refused: u8) -> Option<u8> {
        let announced = self.get(&dpid).map(|switch| switch.capabilities().tables).expected()?;
        let tables = if refused < 3 { 1 } else { refused };
        let known = self.fewer_tables.get(&dpid).filter(|(before, _)| *before == announced);
        if known.is_some_and(|(_, known)| *known <= tables) {
            return None;
        }
        if self.fewer_tables.len() >= MAX_WITH_FEWER_TABLES {
            self.fewer_tables.pop_first();
        }
        self.fewer_tables.insert(dpid, (announced, tables));
        Some(tables)
    }

    /// Notes that a switch refuses rules which write or clear action sets. Returns whether that is new.
    pub fn note_no_action_sets(&mut self, dpid: Dpid) -> bool {
        if self.without_action_sets.len() >= MAX_WITH_FEWER_TABLES {
            self.without_action_sets.pop_first();
        }
        self.without_action_sets.insert(dpid)
    }

    /// Forgets that a switch has fewer tables than it announces, or no action sets.
    pub fn forget_fewer_tables(&mut self, dpid: Dpid) {
        self.fewer_tables.remove(&dpid);
        self.without_action_sets.remove(&dpid);
    }

    /// Returns what a switch can do: what it announces, unless it has shown that it has fewer tables, or no action
    /// sets.
    pub fn effective_capabilities(&self, dpid: Dpid, announced: Capabilities) -> Capabilities {
        let action_sets = announced.action_sets && !self.without_action_sets.contains(&dpid);
        let announced = Capabilities { action_sets, ..announced };
        match self.fewer_tables.get(&dpid) {
            Some((before, tables)) if *before == announced.tables => Capabilities { tables: *tables, ..announced },
            _ => announced,
        }
    }

    /// Notes that classes were freed at a switch, or a look-up lowered.
    pub fn note_classes_changed(&mut self) {
        self.classes_changed += 1;
    }

    /// Returns how often that was noted.
    pub fn classes_changed(&self) -> u64 {
        self.classes_changed
    }

    /// Copies the switches for a rehearsal ([`Switch::copy`]).
    pub fn copy(&self, options: &Options) -> Switches {
        let all = self.all.iter().map(|(dpid, switch)| (*dpid, Box::new(switch.copy(options)))).collect();
        Switches { all, look_ups: self.look_ups.clone(), ..Switches::default() }
    }

    /// Adds a switch.
    pub fn insert(&mut self, dpid: Dpid, switch: Switch) {
        self.all.insert(dpid, Box::new(switch));
    }

    /// Removes and returns a switch.
    pub fn remove(&mut self, dpid: &Dpid) -> Option<Switch> {
        self.all.remove(dpid).map(|switch| *switch)
    }

    /// Returns all switches with their ids, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&Dpid, &mut Switch)> {
        self.all.iter_mut().map(|(dpid, switch)| (dpid, &mut **switch))
    }

    /// Lets something wait until a switch has confirmed its next update.
    pub fn wait(&mut self, dpid: Dpid, waiter: Waiter) {
        if let Some(switch) = self.get_mut(&dpid) {
            switch.tables.wait(waiter);
        }
    }

    /// Builds the effect that sends a message.
    pub(super) fn effect(&mut self, dpid: Dpid, message: Message) -> Option<Effect> {
        let xid = self.get_mut(&dpid)?.tables.take_xid();
        Some(Effect::Send { dpid, xid, message })
    }

    /// Sends a message after the rules of this batch.
    pub(super) fn send(&mut self, ctx: &mut Context, dpid: Dpid, message: Message) {
        ctx.add_all_after_rules(self.effect(dpid, message));
    }

    /// Returns the leaf whose trace a packet passes at its ingress.
    pub fn find_leaf(&self, received: &ReceivedPacket) -> Option<LeafId> {
        self.find_leaf_with(received, ReadMetadata::default())
    }

    /// Returns the leaf whose trace a packet passes at its ingress, if it has these bits of the metadata.
    pub fn find_leaf_with(&self, received: &ReceivedPacket, assumed: ReadMetadata) -> Option<LeafId> {
        let switch = self.get(&received.at.switch)?;
        let fields = CapturedFields::new(received);
        let source = received.packet().switch_value(Field::EthSrc).map(Mac::from_bits);
        let is_here = source.is_some_and(|mac| switch.ports.host_rules.is_present(received.at.port, mac));
        let found = switch.ingress.look_ups.metadata(&fields, is_here);
        // All that it looks up may be assumed.
        let found = found.or((assumed.mask & !SOURCE_IS_HERE != 0).then_some(0))?;
        let metadata = found & !assumed.mask | assumed.value;
        let leaf = switch.tree().search(&WithMetadata { packet: &fields, metadata });
        leaf.filter(|_| !fields.read_uncaptured.get())
    }

    /// Returns the unreachable switches for which too much waits. They count as gone.
    pub fn with_too_many_waits(&self) -> Vec<Dpid> {
        let is_full = |switch: &Switch| switch.is_unreachable() && switch.tables.count_waiters() > MAX_WAITING;
        self.values().filter(|switch| is_full(switch)).map(|switch| switch.dpid()).collect()
    }

    /// Reports whether this shard has the switch, and the switch has no connection.
    pub fn is_unreachable(&self, dpid: Dpid) -> bool {
        self.get(&dpid).is_some_and(|switch| switch.is_unreachable())
    }

    /// Reports whether some shard has the switch, and the switch has no connection.
    pub fn is_unreachable_anywhere(ctx: &Context, dpid: Dpid) -> bool {
        ctx.store.restoring(|all| all.unreachable.contains(&dpid))
    }
}
