//! The recorder: answers a policy's questions about its packet and writes down what the policy learned.
//!
//! # What
//!
//! Every question of a policy goes through a method here. Each returns what the packet says and appends items to the
//! trace, unless the answer already follows from the items before it (the paper's Algorithm 4; see [`Knowledge`] for
//! what follows from what).
//!
//! # Absent fields
//!
//! A packet has a field exactly if one of the field's prerequisite alternatives holds. So the recorder never asks the
//! packet whether a field is there: it decides that by the prerequisites, and these are in the trace.
//!
//! * A *read* first reads the prerequisite fields, in OXM order, until an alternative is known to hold (then the field
//!   is there, and is read) or each is known to fail (then it is absent). A read of `tcp_dst` of an ARP packet leaves
//!   `read eth_type=0x806`, nothing else.
//! * A *test* is one conjunction for each prerequisite alternative, with IPv4 before IPv6: `tcp_dst == 22` asks
//!   `eth_type=0x800, ip_proto=6, tcp_dst=22`, and if that fails the same with `eth_type=0x86dd`. Alternatives already
//!   known to fail are skipped, and of those that are asked, constraints already known to hold are left out.
//!
//! # Why it is correct
//!
//! Whether and what a method records depends only on its arguments and on the items before (through [`Knowledge`]),
//! never on the packet; and what it returns depends only on these and on the items it records. So by induction a second
//! packet that passes all items makes the same policy ask the same questions and get the same answers: Theorem 2. For
//! the same reason two traces of one policy that agree in their first `n` items, outcomes included, ask the same thing
//! in item `n + 1`: traces form a tree.
//!
//! # Cost
//!
//! A question costs a few hash look-ups in [`Knowledge`] for each alternative, however long the trace.

use std::sync::Arc;

use maple_wire::field::Prerequisite;
use maple_wire::{Constraint, Field};

use super::knowledge::{Knowledge, KnownAnswer};
use super::prerequisites::with_prerequisites;
use super::{Cond, CondList, Fields, Item, ListAnswer, Range, Source, Trace};

/// Answers one run's questions about its packet and records them. All questions must be about the same packet.
#[derive(Debug, Default)]
pub struct Recorder {
    /// The items, and what follows from them.
    known: Knowledge<'static>,
    sources: Vec<Option<Source>>,
    lists: Vec<ListAnswer>,
    read_switch: bool,
    reads_missing_bytes: bool,
    /// Whether packets are abstract headers, which have all fields.
    of_headers: bool,
}

impl Recorder {
    /// Creates a recorder without items.
    pub fn new() -> Recorder {
        Recorder::default()
    }

    /// Creates a recorder for abstract headers, which hold field values themselves: it asks for no prerequisites
    /// ([`crate::Capabilities::of_abstract_headers`]).
    pub fn of_headers() -> Recorder {
        Recorder { of_headers: true, ..Recorder::default() }
    }

    /// Returns the line of the latest item or list whose line is known.
    pub fn last_source(&self) -> Option<Source> {
        let item = self.sources.iter().enumerate().rev().find_map(|(index, source)| Some((index, source.as_ref()?)));
        let list = self.lists.iter().rev().find_map(|answer| Some((answer.after, answer.source.as_ref()?)));
        match (item, list) {
            (Some((index, _)), Some((after, source))) if after > index => Some(source.clone()),
            (None, Some((_, source))) => Some(source.clone()),
            (item, _) => item.map(|(_, source)| source.clone()),
        }
    }

    /// Returns the whole value of a field, if the items so far say it. Nothing is recorded.
    pub fn known(&self, field: Field) -> Option<u128> {
        self.known.value(field, field.full_mask())
    }

    /// Returns the value of `field` under `mask`, or `None` if the packet has no such field.
    ///
    /// With a mask of 0 the answer is `Some(0)` if the field is there; its presence is proved by reads.
    pub fn read<P: Fields + ?Sized>(
        &mut self,
        packet: &P,
        field: Field,
        mask: u128,
        source: Option<Source>,
    ) -> Option<u128> {
        if !self.of_headers && !self.read_presence(packet, field, &source) {
            return None;
        }
        Some(self.read_there(packet, field, mask, source))
    }

    /// Returns the value of a field under `mask`, 0 if the packet lacks it.
    ///
    /// Earlier items must state the field's prerequisites, unless packets are abstract headers, which hold field values
    /// themselves ([`crate::Capabilities::of_abstract_headers`]).
    pub fn read_there<P: Fields + ?Sized>(
        &mut self,
        packet: &P,
        field: Field,
        mask: u128,
        source: Option<Source>,
    ) -> u128 {
        let mask = mask & field.full_mask();
        if let Some(value) = self.known.value(field, mask) {
            return value;
        }
        let value = self.look(packet, field) & mask;
        self.push(Item::Read(Constraint { field, value, mask }), source);
        value
    }

    /// Records a part of the packet's metadata, which the packet does not say itself: the class of what a look-up
    /// found.
    pub(crate) fn read_class(&mut self, class: Constraint, source: Option<Source>) {
        if self.known.value(class.field, class.mask).is_none() {
            self.push(Item::Read(class), source);
        }
    }

    /// Returns the value that the packet has in a field that is there, without recording it.
    pub(crate) fn peek<P: Fields + ?Sized>(&mut self, packet: &P, field: Field) -> u128 {
        self.look(packet, field)
    }

    /// Reports whether the packet has `field`, and `field & mask == value & mask`.
    ///
    /// Bits of `value` outside `mask` don't count, but a value wider than the field fits no packet. A mask of 0 asks
    /// whether the field is there.
    pub fn equals<P: Fields + ?Sized>(
        &mut self,
        packet: &P,
        field: Field,
        value: u128,
        mask: u128,
        source: Option<Source>,
    ) -> bool {
        if value & !field.full_mask() != 0 {
            return false;
        }
        let constraint = Constraint::masked(field, value, mask);
        if constraint.mask == 0 {
            return self.present(packet, field, source);
        }
        self.any_alternative(packet, field, Some(constraint), None, source)
    }

    /// Reports whether the packet has `field` and `lo <= field <= hi`. An empty range fits no packet.
    pub fn in_range<P: Fields + ?Sized>(
        &mut self,
        packet: &P,
        field: Field,
        lo: u128,
        hi: u128,
        source: Option<Source>,
    ) -> bool {
        let hi = hi.min(field.full_mask());
        if lo > hi {
            return false;
        }
        match block(field, lo, hi) {
            Some(block) if block.mask == 0 => self.present(packet, field, source),
            Some(block) => self.any_alternative(packet, field, Some(block), None, source),
            None => self.any_alternative(packet, field, None, Some(Range { field, lo, hi }), source),
        }
    }

    /// Reports whether the packet has `field`.
    pub fn present<P: Fields + ?Sized>(&mut self, packet: &P, field: Field, source: Option<Source>) -> bool {
        self.any_alternative(packet, field, None, None, source)
    }

    /// Reports whether the packet has all fields of a condition, with values that fit. Asks one test for each way to
    /// have the fields: the condition together with their prerequisites. A constraint with a mask of 0 asks whether the
    /// field is there. A value that is wider than its field, or an empty range, fits no packet.
    pub fn matches<P: Fields + ?Sized>(&mut self, packet: &P, cond: &Cond, source: Option<Source>) -> bool {
        let conds = with_prerequisites(cond, |field| self.prerequisites(field));
        conds.into_iter().any(|cond| self.fits(packet, &Arc::new(cond), source.clone()))
    }

    /// Reports whether the packet fits a conjunction, asked as one test (the paper's assertion of several conditions,
    /// §6.1).
    ///
    /// The condition must state the prerequisites of its fields, unless earlier items do: a field that is not there is
    /// taken for 0. The condition is shared with the trace if nothing in it is known already.
    pub fn fits<P: Fields + ?Sized>(&mut self, packet: &P, cond: &Arc<Cond>, source: Option<Source>) -> bool {
        match self.known.cond(cond) {
            KnownAnswer::Holds => return true,
            KnownAnswer::Fails => return false,
            KnownAnswer::Open => {}
        }
        if let Some(outcome) = self.lists.iter().find_map(|answer| answer.decides(cond)) {
            return outcome;
        }
        let cond =
            if self.known.states_any(cond) { Arc::new(self.known.reduce((**cond).clone())) } else { cond.clone() };
        let outcome = self.look_at(packet, &cond);
        self.push(Item::Test { cond, outcome }, source);
        outcome
    }

    /// Returns the place of the first condition of a list that the packet fits. `source` gives the line of a place.
    pub fn first_of<P: Fields + ?Sized>(
        &mut self,
        packet: &P,
        list: &Arc<CondList>,
        source: impl FnOnce(usize) -> Option<Source>,
    ) -> Option<usize> {
        let (first, is_missing) = list.first_looking(packet);
        self.reads_missing_bytes |= is_missing;
        let place = first.unwrap_or(list.conds().len());
        if let Some(cond) = first.map(|first| &list.conds()[first]) {
            self.known.suppose(cond);
        }
        self.lists.push(ListAnswer {
            after: self.sources.len(),
            list: Arc::clone(list),
            first: place,
            source: source(place),
        });
        first
    }

    /// Notes that the run asked for the switch.
    pub fn read_switch(&mut self) {
        self.read_switch = true;
    }

    /// Returns the items so far.
    pub fn items(&self) -> &[Item] {
        self.known.items()
    }

    /// Returns the trace as it is now.
    pub fn so_far(&self) -> Trace {
        let (items, lists) = (self.known.items().to_vec(), self.lists.clone());
        let sources = Arc::new(self.sources.clone());
        Trace {
            items,
            lists,
            sources,
            read_switch: self.read_switch,
            reads_missing_bytes: self.reads_missing_bytes,
            needs_controller: false,
        }
    }

    /// Ends the recording, and returns the whole trace.
    pub fn finish(self) -> Trace {
        let Recorder { known, sources, lists, read_switch, reads_missing_bytes, .. } = self;
        Trace {
            items: known.into_items(),
            lists,
            sources: Arc::new(sources),
            read_switch,
            reads_missing_bytes,
            needs_controller: false,
        }
    }

    /// Reports whether the packet has `field`, decided by reading the fields of its prerequisites.
    fn read_presence<P: Fields + ?Sized>(&mut self, packet: &P, field: Field, source: &Option<Source>) -> bool {
        loop {
            match self.known.presence(field) {
                KnownAnswer::Holds => return true,
                KnownAnswer::Fails => return false,
                KnownAnswer::Open => {}
            }
            let Some(next) = self.known.open_prerequisite(field) else {
                unreachable!("presence is open, so a prerequisite is");
            };
            // Prerequisites are about fields with smaller numbers, so this ends; and it decides `next`.
            self.read(packet, next.field, next.mask, source.clone());
        }
    }

    fn prerequisites(&self, field: Field) -> &'static [&'static [Prerequisite]] {
        if self.of_headers { &[&[]] } else { field.prerequisites() }
    }

    /// Asks one test for each alternative of `field`'s prerequisites until one holds.
    fn any_alternative<P: Fields + ?Sized>(
        &mut self,
        packet: &P,
        field: Field,
        constraint: Option<Constraint>,
        range: Option<Range>,
        source: Option<Source>,
    ) -> bool {
        for alternative in self.prerequisites(field) {
            let all = alternative.iter().map(constraint_of).chain(constraint).collect();
            if self.fits(
                packet,
                &Arc::new(Cond { constraints: all, ranges: range.into_iter().collect() }),
                source.clone(),
            ) {
                return true;
            }
        }
        false
    }

    /// Looks at the fields in OXM order, up to the first that fails: prerequisites come first, so every field that is
    /// looked at is there.
    fn look_at<P: Fields + ?Sized>(&mut self, packet: &P, cond: &Cond) -> bool {
        cond.constraints.iter().all(|c| c.holds(self.look(packet, c.field)))
            && cond.ranges.iter().all(|r| r.holds(self.look(packet, r.field)))
    }

    /// Returns the value of a field whose prerequisites hold.
    fn look<P: Fields + ?Sized>(&mut self, packet: &P, field: Field) -> u128 {
        self.reads_missing_bytes |= !packet.is_captured(field);
        packet.value(field).unwrap_or(0)
    }

    fn push(&mut self, item: Item, source: Option<Source>) {
        self.known.learn(item);
        self.sources.push(source);
    }
}

pub(super) fn constraint_of(condition: &Prerequisite) -> Constraint {
    Constraint { field: condition.field, value: condition.value, mask: condition.mask }
}

/// Returns the range as one masked value, if it is an aligned block. The whole field is the block with mask 0.
fn block(field: Field, lo: u128, hi: u128) -> Option<Constraint> {
    let differ = lo ^ hi;
    let aligned = differ & differ.wrapping_add(1) == 0 && lo & differ == 0;
    aligned.then(|| Constraint { field, value: lo, mask: field.full_mask() & !differ })
}

#[cfg(test)]
mod tests {
    use maple_wire::Packet;
    use maple_wire::packet::Frame;

    use super::*;

    /// Returns an IPv4 packet with TCP from port 1000 to port 22.
    fn ssh() -> Vec<u8> {
        let (alice, bob) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        Frame::ethernet(bob, alice).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(1000, 22).build()
    }

    fn item_texts(recorder: Recorder) -> Vec<String> {
        recorder.finish().items.iter().map(|item| item.to_string()).collect()
    }

    fn read(recorder: &mut Recorder, frame: &[u8], field: Field) -> Option<u128> {
        recorder.read(&Packet::new(frame, 1), field, field.full_mask(), None)
    }

    fn is(recorder: &mut Recorder, frame: &[u8], field: Field, value: u128) -> bool {
        recorder.equals(&Packet::new(frame, 1), field, value, field.full_mask(), None)
    }

    #[test]
    fn conditions_that_a_list_has_answered_are_not_recorded_again() {
        let (frame, mut recorder) = (ssh(), Recorder::new());
        let packet = Packet::new(&frame, 1);
        let port = |port| Cond::default().and(Constraint::exact(Field::TcpDst, port));
        let conds = [80, 22, 443].iter().flat_map(|number| CondList::with_prerequisites(&port(*number))).map(Arc::new);
        let list = Arc::new(CondList::new(conds));
        assert_eq!(recorder.first_of(&packet, &list, |_| None), Some(2));
        assert!(!is(&mut recorder, &frame, Field::TcpDst, 80) && is(&mut recorder, &frame, Field::TcpDst, 22));
        assert!(!recorder.matches(&packet, &port(80), None));
        assert_eq!(item_texts(recorder), [""; 0]);

        let mut recorder = Recorder::new();
        let other = Arc::new(CondList::new(CondList::with_prerequisites(&port(80)).into_iter().map(Arc::new)));
        assert_eq!(recorder.first_of(&packet, &other, |_| None), None);
        assert!(!is(&mut recorder, &frame, Field::TcpDst, 80) && !is(&mut recorder, &frame, Field::TcpDst, 443));
        assert_eq!(item_texts(recorder).len(), 2, "only what the list does not tell: port 443, by IPv4 and by IPv6");
    }

    #[test]
    fn known_facts_are_not_recorded_again() {
        let (frame, mut recorder) = (ssh(), Recorder::new());
        assert_eq!(read(&mut recorder, &frame, Field::TcpDst), Some(22));
        assert!(is(&mut recorder, &frame, Field::TcpDst, 22));
        assert!(!is(&mut recorder, &frame, Field::TcpDst, 80));
        assert!(!is(&mut recorder, &frame, Field::UdpDst, 22));
        assert_eq!(read(&mut recorder, &frame, Field::ArpOp), None);
        assert!(recorder.in_range(&Packet::new(&frame, 1), Field::TcpDst, 1, 1023, None));
        assert!(recorder.present(&Packet::new(&frame, 1), Field::Ipv4Src, None));
        assert_eq!(item_texts(recorder), ["read eth_type=0x800", "read ip_proto=6", "read tcp_dst=22"]);
    }

    #[test]
    fn a_test_that_failed_fails_again_and_so_does_what_it_implies() {
        let (frame, mut recorder) = (ssh(), Recorder::new());
        let packet = Packet::new(&frame, 1);
        assert!(!recorder.in_range(&packet, Field::TcpDst, 80, 443, None));
        assert!(!recorder.in_range(&packet, Field::TcpDst, 80, 443, None));
        assert!(is(&mut recorder, &frame, Field::IpProto, 6));
        assert!(!recorder.in_range(&packet, Field::TcpDst, 80, 443, None));
        assert!(!is(&mut recorder, &frame, Field::EthSrc, 1));
        assert!(!is(&mut recorder, &frame, Field::EthSrc, 1));
        let wanted = [
            "test eth_type=0x800, ip_proto=6, tcp_dst=80..443: no",
            "test eth_type=0x86dd, ip_proto=6, tcp_dst=80..443: no",
            "test eth_type=0x800, ip_proto=6: yes",
            "test eth_src=00:00:00:00:00:01: no",
        ];
        assert_eq!(item_texts(recorder), wanted);
    }

    #[test]
    fn values_inside_an_excluded_range_are_known_to_differ() {
        let (frame, mut recorder) = (ssh(), Recorder::new());
        let packet = Packet::new(&frame, 1);
        read(&mut recorder, &frame, Field::IpProto);
        assert!(!recorder.in_range(&packet, Field::TcpDst, 80, 443, None));
        assert!(!is(&mut recorder, &frame, Field::TcpDst, 443));
        assert!(!recorder.in_range(&packet, Field::TcpDst, 444, 65535, None));
        assert!(recorder.in_range(&packet, Field::TcpDst, 0, 79, None));
        let items = item_texts(recorder);
        assert_eq!(items[2..], ["test tcp_dst=80..443: no", "test tcp_dst=444..65535: no"]);
    }

    #[test]
    fn degenerate_questions_are_the_plain_ones_that_they_mean() {
        let (frame, mut recorder) = (ssh(), Recorder::new());
        let packet = Packet::new(&frame, 1);
        assert!(recorder.in_range(&packet, Field::InPort, 0, u128::MAX, None), "every packet has a port");
        assert!(!is(&mut recorder, &frame, Field::InPort, 1 << 40), "no port is that wide");
        assert!(!recorder.in_range(&packet, Field::InPort, 5, 4, None), "nothing lies in an empty range");
        assert!(recorder.items().is_empty());
        assert!(recorder.equals(&packet, Field::TcpDst, 7, 0, None), "no bit counts, but the field is there");
        assert!(recorder.in_range(&packet, Field::TcpDst, 22, 22, None));
        assert!(recorder.in_range(&packet, Field::TcpSrc, 512, 1023, None));
        let wanted = ["test eth_type=0x800, ip_proto=6: yes", "test tcp_dst=22: yes", "test tcp_src=512/0xfe00: yes"];
        assert_eq!(item_texts(recorder), wanted);
    }

    #[test]
    fn a_field_beyond_the_captured_bytes_is_0_and_marks_the_trace() {
        let frame = &ssh()[..34];
        let mut recorder = Recorder::new();
        assert_eq!(read(&mut recorder, frame, Field::Ipv4Src), Some(0x0a000001));
        assert!(!recorder.reads_missing_bytes);
        assert_eq!(read(&mut recorder, frame, Field::TcpDst), Some(0));
        assert!(recorder.finish().reads_missing_bytes);
    }

    #[test]
    fn fields_behind_a_part_that_fails_are_not_missed() {
        let frame = &ssh()[..14];
        let mut recorder = Recorder::new();
        assert!(!is(&mut recorder, frame, Field::ArpOp, 1));
        assert!(!recorder.finish().reads_missing_bytes);
    }
}
