//! A hash table from MAC addresses to ports, made for the latency of memory.
//!
//! A bucket is one cache line with eight slots. A slot's address is spread over three rows of 16 bits; its port is in
//! the fourth row. Port 0 marks an empty slot, and full slots come before empty ones. Comparing all eight slots with an
//! address takes a few vector instructions without a branch, and yields the port. An address is in its home line or,
//! where that line was full, in the first line after it that was not. So a look-up reads one line of memory, and
//! sometimes its neighbour. Nothing is written when nothing changes, so a table that has learned stays clean in the
//! cache.
//!
//! A table of 100,000 addresses does not fit into the caches of a core, so each look-up waits for memory.
//! [`MacTable::prefetch`] requests the home line without waiting. A caller that prefetches all addresses of a batch has
//! all their lines at the same time. Lines are in large pages ([`crate::cache_lines`]).
//!
//! A small table is one segment that doubles. From 64 KiB on, the number of segments doubles instead. Addresses change
//! their segment only when that number grows, so growing needs memory for one more segment, not for a second table.
//!
//! Memory: 8 bytes a slot, at most 7 of 8 slots in use, doubled when full. A table holds at most
//! [`MacTable::MAX_ADDRESSES`]; then a new address replaces another one in its home line. The hash is keyed with a
//! secret, so that an attacker cannot choose addresses that collide.

use std::hash::{BuildHasher, RandomState};

use maple_prefetch::prefetch;

use crate::cache_lines::{Line, Lines, MAX_LINES};

/// The number of slots of a line: with four rows of 16 bits for each they fill 64 bytes.
const SLOTS: usize = 8;
/// The row of a line that holds the ports.
const PORTS: usize = 3;
/// The maximum number of segments of a table: of 64 KiB each, they have twice as many slots as there may be addresses.
const SEGMENTS: usize = 64;
/// The bit of an address's first byte that marks multicast (IEEE 802, §8.2).
const MULTICAST: u64 = 1;

/// Ports by MAC address. A port is never 0.
#[derive(Debug)]
pub(crate) struct MacTable {
    /// The segments, a power of two in number; none while the table is empty.
    segments: Vec<Segment>,
    secret: Secret,
    len: usize,
    /// The maximum number of addresses that the table holds.
    limit: usize,
}

/// A part of the table. Its number of lines is a power of two.
#[derive(Debug)]
struct Segment {
    lines: Lines,
    /// Slots in use.
    len: usize,
}

/// The key of the hash.
#[derive(Clone, Copy, Debug)]
struct Secret {
    sum: u64,
    /// The multiplier, an odd number.
    factor: u64,
}

/// An address with its hash in one table.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Key {
    /// The address, its first byte in the lowest bits.
    mac: u64,
    hash: u64,
}

/// The result of [`MacTable::learn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Learned {
    /// The address was known at this port.
    Same,
    /// The address was not known.
    New,
    /// The address was known at another port.
    Moved,
}

impl Secret {
    /// Makes a key from random bits.
    fn new(bits: [u64; 2]) -> Secret {
        Secret { sum: bits[0], factor: bits[1] | 1 }
    }

    /// Multiplies by the secret, folds both halves, and applies half of MurmurHash3's finalizer (public domain). So
    /// consecutive addresses, at any stride, spread over all bits.
    #[inline]
    fn hash(self, mac: u64) -> u64 {
        let wide = u128::from(mac ^ self.sum) * u128::from(self.factor);
        let folded = (wide >> 64) as u64 ^ wide as u64;
        let mixed = (folded ^ folded >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ mixed >> 33
    }
}

impl Key {
    /// Returns the address as a big-endian number.
    pub fn mac(self) -> u64 {
        self.mac.swap_bytes() >> 16
    }

    /// Returns the address as the rows of a line store it.
    #[inline]
    fn parts(self) -> [u16; 3] {
        [self.mac as u16, (self.mac >> 16) as u16, (self.mac >> 32) as u16]
    }

    /// Reports whether this is a multicast or broadcast address.
    #[inline]
    pub fn is_group(self) -> bool {
        self.mac & MULTICAST != 0
    }

    /// Returns the home line among `lines`, a power of two.
    #[inline]
    fn line(self, lines: usize) -> usize {
        (self.hash >> 32) as usize & (lines - 1)
    }
}

/// Returns the port of an address in this line; 0 if the address is not in it.
#[inline]
fn port_in(line: &Line, mac: [u16; 3]) -> u16 {
    let mut hits = [0u16; SLOTS];
    for (slot, hit) in hits.iter_mut().enumerate() {
        let same = line[0][slot] == mac[0] && line[1][slot] == mac[1] && line[2][slot] == mac[2];
        *hit = if same { line[PORTS][slot] } else { 0 };
    }
    // An address is in at most one slot.
    hits.iter().fold(0, |port, hit| port | hit)
}

/// Reports whether the line has no empty slot.
#[inline]
fn is_full(line: &Line) -> bool {
    line[PORTS][SLOTS - 1] != 0
}

fn write(line: &mut Line, slot: usize, mac: [u16; 3], port: u16) {
    for (row, part) in mac.into_iter().chain([port]).enumerate() {
        line[row][slot] = part;
    }
}

impl Segment {
    fn new(lines: usize) -> Segment {
        Segment { lines: Lines::zeroed(lines), len: 0 }
    }

    /// Reports whether one more address would make look-ups long.
    fn is_crowded(&self) -> bool {
        (self.len + 1) * 8 > self.lines.len() * SLOTS * 7
    }

    /// Returns the line of the address and its port; for an unknown address the first line with an empty slot, and 0.
    #[inline(always)]
    fn find(&self, key: Key) -> (usize, u16) {
        let at = key.line(self.lines.len());
        let line = &self.lines[at];
        let port = port_in(line, key.parts());
        if port != 0 || !is_full(line) { (at, port) } else { self.find_after(at, key) }
    }

    /// Continues [`Segment::find`] after the home line, which is full.
    #[inline(never)]
    fn find_after(&self, mut at: usize, key: Key) -> (usize, u16) {
        loop {
            at = (at + 1) & (self.lines.len() - 1);
            let line = &self.lines[at];
            let port = port_in(line, key.parts());
            if port != 0 || !is_full(line) {
                return (at, port);
            }
        }
    }

    /// Adds an unknown address to a segment that has an empty slot.
    fn add(&mut self, key: Key, port: u16) {
        let (at, _) = self.find(key);
        let line = &mut self.lines[at];
        let slot = line[PORTS].iter().position(|port| *port == 0).unwrap_or_default();
        write(line, slot, key.parts(), port);
        self.len += 1;
    }

    /// Changes the port of a known address.
    #[cold]
    fn change(&mut self, at: usize, mac: [u16; 3], port: u16) {
        let line = &mut self.lines[at];
        let is_key = |slot: &usize| line[PORTS][*slot] != 0 && [line[0][*slot], line[1][*slot], line[2][*slot]] == mac;
        if let Some(slot) = (0..SLOTS).find(is_key) {
            line[PORTS][slot] = port;
        }
    }

    /// Replaces another address in the home line; the new address's hash chooses the slot. Does nothing if that slot is
    /// empty.
    fn displace(&mut self, key: Key, port: u16) {
        let at = key.line(self.lines.len());
        let slot = (key.hash >> 20) as usize % SLOTS;
        let line = &mut self.lines[at];
        if line[PORTS][slot] != 0 {
            write(line, slot, key.parts(), port);
        }
    }

    /// Iterates over all addresses with their ports.
    fn entries(&self) -> impl Iterator<Item = (u64, u16)> {
        let slots = self.lines.iter().flat_map(|line| (0..SLOTS).map(move |slot| line.map(|row| row[slot])));
        let spelled = |parts: [u16; 3]| parts.iter().rev().fold(0, |mac, part| mac << 16 | u64::from(*part));
        slots.filter(|entry| entry[PORTS] != 0).map(move |[a, b, c, port]| (spelled([a, b, c]), port))
    }
}

impl MacTable {
    /// The maximum number of addresses of a table, which bounds its memory to 4 MiB: hosts choose their addresses.
    pub const MAX_ADDRESSES: usize = 1 << 18;

    /// Creates an empty table, which takes no memory.
    pub fn new() -> MacTable {
        // A new state of the standard library has random keys, so its hash of anything is random.
        let random = || RandomState::new().hash_one(());
        let secret = Secret::new([random(), random()]);
        MacTable { segments: Vec::new(), secret, len: 0, limit: MacTable::MAX_ADDRESSES }
    }

    /// Returns the number of addresses.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the memory of the slots in bytes.
    pub fn memory(&self) -> usize {
        self.segments.iter().map(|segment| size_of_val(&*segment.lines)).sum()
    }

    /// Returns the key of an address.
    #[inline]
    pub fn key(&self, address: [u8; 6]) -> Key {
        let [a, b, c, d, e, f] = address;
        self.key_of(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
    }

    #[inline]
    fn key_of(&self, mac: u64) -> Key {
        Key { mac, hash: self.secret.hash(mac) }
    }

    /// Requests the home line of an address from memory, without waiting.
    #[inline]
    pub fn prefetch(&self, key: Key) {
        if let Some(segment) = self.segment(key) {
            prefetch(&segment.lines[key.line(segment.lines.len())]);
        }
    }

    /// Returns the port of an address.
    #[inline]
    pub fn get(&self, key: Key) -> Option<u16> {
        let (_, port) = self.segment(key)?.find(key);
        (port != 0).then_some(port)
    }

    /// Remembers the port of an address. The port is not 0.
    #[inline]
    pub fn learn(&mut self, key: Key, port: u16) -> Learned {
        let Some(segment) = self.segment(key) else { return self.insert(key, port) };
        match segment.find(key) {
            (_, known) if known == port => Learned::Same,
            (_, 0) => self.insert(key, port),
            (line, _) => {
                let at = self.home(key);
                self.segments[at].change(line, key.parts(), port);
                Learned::Moved
            }
        }
    }

    /// Forgets all addresses of a port. The time is linear in the size of the table.
    pub fn forget(&mut self, port: u16) {
        self.len = 0;
        for segment in &mut self.segments {
            let old = std::mem::replace(segment, Segment::new(segment.lines.len()));
            for (mac, port) in old.entries().filter(|(_, known)| *known != port) {
                let key = Key { mac, hash: self.secret.hash(mac) };
                segment.add(key, port);
            }
            self.len += segment.len;
        }
    }

    /// Returns the index of an address's segment. It means nothing while the table has no segment.
    #[inline]
    fn home(&self, key: Key) -> usize {
        key.hash as usize & self.segments.len().wrapping_sub(1)
    }

    #[inline]
    fn segment(&self, key: Key) -> Option<&Segment> {
        self.segments.get(self.home(key))
    }

    /// Adds an unknown address.
    #[cold]
    fn insert(&mut self, key: Key, port: u16) -> Learned {
        while self.len < self.limit && self.segment(key).is_none_or(Segment::is_crowded) {
            if self.segments.len() == SEGMENTS {
                // Only colliding addresses could lead here, and the secret keeps anyone from choosing such.
                self.limit = self.len;
            } else {
                self.grow();
            }
        }
        let (home, is_full) = (self.home(key), self.len >= self.limit);
        let segment = &mut self.segments[home];
        if is_full {
            segment.displace(key, port);
        } else {
            segment.add(key, port);
            self.len += 1;
        }
        Learned::New
    }

    /// Doubles the table.
    fn grow(&mut self) {
        let lines = match &self.segments[..] {
            [] => return self.segments.push(Segment::new(1)),
            [only] => (only.lines.len() * 2).min(MAX_LINES),
            _ => MAX_LINES,
        };
        let number = self.segments.len();
        if self.segments[0].lines.len() == lines {
            self.segments.resize_with(number * 2, || Segment::new(lines));
        }
        for at in 0..number {
            let old = std::mem::replace(&mut self.segments[at], Segment::new(lines));
            for (mac, port) in old.entries() {
                let key = self.key_of(mac);
                let home = self.home(key);
                self.segments[home].add(key, port);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn key(macs: &MacTable, mac: u64) -> Key {
        let [_, _, address @ ..] = mac.to_be_bytes();
        macs.key(address)
    }

    #[derive(Clone, Debug)]
    enum Step {
        Learn(u64, u16),
        Forget(u16),
    }

    fn step() -> impl Strategy<Value = Step> {
        // There are few addresses, so that they repeat; some are at the ends of the range.
        let mac = prop_oneof![4 => 0u64..200, 1 => (1u64 << 48) - 100..1 << 48];
        prop_oneof![30 => (mac, 1u16..6).prop_map(|(mac, port)| Step::Learn(mac, port)), 1 => (1u16..6).prop_map(Step::Forget)]
    }

    proptest! {
        #[test]
        fn the_table_agrees_with_a_plain_map(steps in prop::collection::vec(step(), 0..600), secret: [u64; 2]) {
            let mut macs = MacTable { secret: Secret::new(secret), ..MacTable::new() };
            let mut map: HashMap<u64, u16> = HashMap::new();
            for step in steps {
                match step {
                    Step::Learn(mac, port) => {
                        let expected = match map.insert(mac, port) {
                            None => Learned::New,
                            Some(before) if before == port => Learned::Same,
                            Some(_) => Learned::Moved,
                        };
                        prop_assert_eq!(macs.learn(key(&macs, mac), port), expected);
                    }
                    Step::Forget(port) => {
                        macs.forget(port);
                        map.retain(|_, p| *p != port);
                    }
                }
                prop_assert_eq!(macs.len(), map.len());
            }
            for mac in (0..200).chain((1 << 48) - 100..1 << 48) {
                prop_assert_eq!(macs.get(key(&macs, mac)), map.get(&mac).copied());
            }
        }
    }

    #[test]
    fn a_hundred_thousand_addresses_take_a_mebibyte() {
        let mut macs = MacTable::new();
        for mac in 0..100_000u64 {
            macs.learn(key(&macs, mac << 8 | 0x0100_0000_0000), 1);
        }
        assert_eq!((macs.len(), macs.memory()), (100_000, 1 << 20));
    }

    #[test]
    fn consecutive_addresses_spread_over_the_lines() {
        let strides = [1u64, 1 << 8, 1 << 16, 1 << 24, 1 << 32];
        let secrets = [[0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344], [0xa409_3822_299f_31d0, 0x082e_fa98_ec4e_6c89]];
        for (stride, secret) in strides.into_iter().flat_map(|stride| secrets.map(|secret| (stride, secret))) {
            let mut macs = MacTable { secret: Secret::new(secret), ..MacTable::new() };
            let all: Vec<Key> = (0..50_000).map(|n| key(&macs, (n * stride) & 0xffff_ffff_ffff)).collect();
            for key in &all {
                macs.learn(*key, 1);
            }
            let away = all.iter().filter(|key| {
                let lines = &macs.segments[macs.home(**key)].lines;
                port_in(&lines[key.line(lines.len())], key.parts()) == 0
            });
            assert!(
                away.count() < 10_000,
                "a fifth or more is not in its home line at stride {stride:#x}, secret {secret:x?}"
            );
        }
    }

    #[test]
    fn a_full_table_replaces_addresses_and_does_not_grow() {
        let mut macs = MacTable { limit: 1000, ..MacTable::new() };
        for mac in 1..=5000u64 {
            macs.learn(key(&macs, mac), 2);
        }
        let known = (1..=5000).filter(|mac| macs.get(key(&macs, *mac)).is_some()).count();
        assert_eq!((macs.len(), known), (1000, 1000));
        assert!(
            (4000..=5000).filter(|mac| macs.get(key(&macs, *mac)).is_some()).count() > 300,
            "new addresses are learned"
        );
    }

    #[test]
    fn the_address_zero_is_an_ordinary_address() {
        let mut macs = MacTable::new();
        assert_eq!(macs.get(key(&macs, 0)), None);
        assert_eq!(macs.learn(key(&macs, 0), 3), Learned::New);
        assert_eq!((macs.get(key(&macs, 0)), macs.learn(key(&macs, 0), 3)), (Some(3), Learned::Same));
    }
}
