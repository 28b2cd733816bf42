//! Which MAC address is behind which port: a hash table made for memory's latency.
//!
//! A line is one cache line with eight places: a place's address is spread over three rows of 16 bits, its port is in the
//! fourth; port 0 is an empty place, and full places come before empty ones. Comparing all eight places with an address is
//! a handful of vector instructions without a branch, and what comes out is the port. An address is in its home line, or,
//! where lines were full, in the first line behind it that was not. So looking it up costs one line of memory, and now and
//! then its neighbour. Nothing is written when nothing changes: a table that has learned stays clean in the cache.
//!
//! A table of 100,000 addresses is larger than the caches near a core, and each look-up waits for memory. [`Macs::prefetch`]
//! asks for the home line and waits for nothing: a caller who does that for all addresses of a batch first has all their
//! lines on the way at once, and the look-ups that follow find them near. Lines lie in large pages ([`super::lines`]).
//!
//! A table is one segment that doubles, and from 64 KiB on segments of that size whose number doubles. An address never
//! leaves its segment but when their number grows. So growing needs room for one segment more, not for a second table.
//!
//! Memory: 8 bytes a place, at most 7 of 8 places in use, doubled when full: 9.1 to 18.3 bytes an address, 10.5 for 100,000.
//! Never more than [`Macs::MOST`] addresses: from then on a new one takes the place of another in its home line. The
//! hash has a secret, so that nobody can choose addresses that meet in one line.

use maple_prefetch::prefetch;

use super::lines::{self, Line, Lines};
use crate::random::random;

/// Places in a line.
const PLACES: usize = 8;
/// The row of a line that holds the ports.
const PORTS: usize = 3;
/// Most segments in a table.
const SEGMENTS: usize = 64;
/// The bit of an address's first byte that says multicast.
const MULTICAST: u64 = 1;

/// Ports by MAC address. A port is not 0.
#[derive(Debug)]
pub struct Macs {
    /// Their number is a power of two; none while the table is empty.
    segments: Vec<Segment>,
    secret: Secret,
    len: usize,
    most: usize,
}

/// A part of the table: a power of two of lines.
#[derive(Debug)]
struct Segment {
    lines: Lines,
    /// Places in use.
    len: usize,
}

/// What the hash depends on besides the address.
#[derive(Clone, Copy, Debug)]
struct Secret {
    sum: u64,
    /// Odd.
    factor: u64,
}

/// An address and where it belongs in one table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Key {
    /// The address, its first byte lowest.
    mac: u64,
    hash: u64,
}

/// What [`Macs::learn`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    /// The address was behind this port already.
    Same,
    /// The address was not known.
    New,
    /// The address was behind another port.
    Moved,
}

impl Secret {
    /// The secret that these random bits make.
    fn new(bits: [u64; 2]) -> Secret {
        Secret { sum: bits[0], factor: bits[1] | 1 }
    }

    /// A multiplication by the secret, both halves folded, and half of MurmurHash3's finalizer (public domain): addresses in
    /// a row, or at any stride, spread over all bits.
    #[inline]
    fn hash(self, mac: u64) -> u64 {
        let wide = u128::from(mac ^ self.sum) * u128::from(self.factor);
        let folded = (wide >> 64) as u64 ^ wide as u64;
        let mixed = (folded ^ folded >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ mixed >> 33
    }
}

impl Key {
    /// The address as the number that its six bytes spell.
    pub fn mac(self) -> u64 {
        self.mac.swap_bytes() >> 16
    }

    /// The address as it stands in the rows of a line.
    #[inline]
    fn parts(self) -> [u16; 3] {
        [self.mac as u16, (self.mac >> 16) as u16, (self.mac >> 32) as u16]
    }

    /// Whether it is the address of a group: multicast or broadcast.
    #[inline]
    pub fn is_group(self) -> bool {
        self.mac & MULTICAST != 0
    }

    /// The line where it belongs, among this many; a power of two.
    #[inline]
    fn line(self, lines: usize) -> usize {
        (self.hash >> 32) as usize & (lines - 1)
    }
}

/// The port of an address in this line, 0 if it is not here.
#[inline]
fn port_in(line: &Line, mac: [u16; 3]) -> u16 {
    let mut hits = [0u16; PLACES];
    for (place, hit) in hits.iter_mut().enumerate() {
        let same = line[0][place] == mac[0] && line[1][place] == mac[1] && line[2][place] == mac[2];
        *hit = if same { line[PORTS][place] } else { 0 };
    }
    // An address is in one place at most.
    hits.iter().fold(0, |port, hit| port | hit)
}

/// Whether the line has no empty place.
#[inline]
fn is_full(line: &Line) -> bool {
    line[PORTS][PLACES - 1] != 0
}

fn write(line: &mut Line, place: usize, mac: [u16; 3], port: u16) {
    for (row, part) in mac.into_iter().chain([port]).enumerate() {
        line[row][place] = part;
    }
}

impl Segment {
    fn new(lines: usize) -> Segment {
        Segment { lines: Lines::zeroed(lines), len: 0 }
    }

    /// Whether one address more would make look-ups long.
    fn is_crowded(&self) -> bool {
        (self.len + 1) * 8 > self.lines.len() * PLACES * 7
    }

    /// The line that holds the address and its port there, or the first line that is not full, and 0.
    #[inline(always)]
    fn find(&self, key: Key) -> (usize, u16) {
        let at = key.line(self.lines.len());
        let line = &self.lines[at];
        let port = port_in(line, key.parts());
        if port != 0 || !is_full(line) { (at, port) } else { self.find_behind(at, key) }
    }

    /// The same for an address that is not in this line, which is full.
    #[inline(never)]
    fn find_behind(&self, mut at: usize, key: Key) -> (usize, u16) {
        loop {
            at = (at + 1) & (self.lines.len() - 1);
            let line = &self.lines[at];
            let port = port_in(line, key.parts());
            if port != 0 || !is_full(line) {
                return (at, port);
            }
        }
    }

    /// Adds an address that is not there; the segment is not full.
    fn add(&mut self, key: Key, port: u16) {
        let (at, _) = self.find(key);
        let line = &mut self.lines[at];
        let place = line[PORTS].iter().position(|port| *port == 0).unwrap_or_default();
        write(line, place, key.parts(), port);
        self.len += 1;
    }

    /// Gives a known address another port.
    #[cold]
    fn change(&mut self, at: usize, mac: [u16; 3], port: u16) {
        let line = &mut self.lines[at];
        let is_here =
            |place: &usize| line[PORTS][*place] != 0 && [line[0][*place], line[1][*place], line[2][*place]] == mac;
        if let Some(place) = (0..PLACES).find(is_here) {
            line[PORTS][place] = port;
        }
    }

    /// Puts an address in the place of another in its home line; which one is its own choice. If that place is empty
    /// nothing happens.
    fn displace(&mut self, key: Key, port: u16) {
        let at = key.line(self.lines.len());
        let place = (key.hash >> 20) as usize % PLACES;
        let line = &mut self.lines[at];
        if line[PORTS][place] != 0 {
            write(line, place, key.parts(), port);
        }
    }

    /// All addresses with their ports.
    fn entries(&self) -> impl Iterator<Item = (u64, u16)> {
        let places = self.lines.iter().flat_map(|line| (0..PLACES).map(move |place| line.map(|row| row[place])));
        let spelled = |parts: [u16; 3]| parts.iter().rev().fold(0, |mac, part| mac << 16 | u64::from(*part));
        places.filter(|entry| entry[PORTS] != 0).map(move |[a, b, c, port]| (spelled([a, b, c]), port))
    }
}

impl Macs {
    /// Most addresses in one table.
    pub const MOST: usize = 1 << 18;

    /// An empty table. It takes no memory.
    pub fn new() -> Macs {
        // Where the system gives no random bytes, addresses that meet are merely slow.
        let bits = || random().map_or(0x9e37_79b9_7f4a_7c15, u64::from_ne_bytes);
        Macs { segments: Vec::new(), secret: Secret::new([bits(), bits()]), len: 0, most: Macs::MOST }
    }

    /// How many addresses it holds.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes that the places take.
    pub fn memory(&self) -> usize {
        self.segments.iter().map(|segment| size_of_val(&*segment.lines)).sum()
    }

    /// The key of the address that these six bytes spell.
    #[inline]
    pub fn key(&self, address: [u8; 6]) -> Key {
        let [a, b, c, d, e, f] = address;
        self.key_of(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
    }

    #[inline]
    fn key_of(&self, mac: u64) -> Key {
        Key { mac, hash: self.secret.hash(mac) }
    }

    /// Brings the place of an address near.
    #[inline]
    pub fn prefetch(&self, key: Key) {
        if let Some(segment) = self.segment(key) {
            prefetch(&segment.lines[key.line(segment.lines.len())]);
        }
    }

    /// The port that the address is behind.
    #[inline]
    pub fn get(&self, key: Key) -> Option<u16> {
        let (_, port) = self.segment(key)?.find(key);
        (port != 0).then_some(port)
    }

    /// Remembers that the address is behind this port, which is not 0.
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

    /// Forgets all addresses behind this port. Takes as long as the table is large.
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

    /// The number of the segment that an address belongs to, where there is any.
    #[inline]
    fn home(&self, key: Key) -> usize {
        key.hash as usize & self.segments.len().wrapping_sub(1)
    }

    #[inline]
    fn segment(&self, key: Key) -> Option<&Segment> {
        self.segments.get(self.home(key))
    }

    /// Adds an address that is not there.
    #[cold]
    fn insert(&mut self, key: Key, port: u16) -> Learned {
        while self.len < self.most && self.segment(key).is_none_or(Segment::is_crowded) {
            if self.segments.len() == SEGMENTS {
                // Only addresses that all meet could come here, and the secret keeps anyone from choosing such.
                self.most = self.len;
            } else {
                self.grow();
            }
        }
        let (home, is_full) = (self.home(key), self.len >= self.most);
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
            [only] => (only.lines.len() * 2).min(lines::MOST),
            _ => lines::MOST,
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

    fn key(macs: &Macs, mac: u64) -> Key {
        let [_, _, address @ ..] = mac.to_be_bytes();
        macs.key(address)
    }

    #[derive(Clone, Debug)]
    enum Step {
        Learn(u64, u16),
        Forget(u16),
    }

    fn step() -> impl Strategy<Value = Step> {
        // Few addresses, so that they come again; some at the ends of the range.
        let mac = prop_oneof![4 => 0u64..200, 1 => (1u64 << 48) - 100..1 << 48];
        prop_oneof![30 => (mac, 1u16..6).prop_map(|(mac, port)| Step::Learn(mac, port)), 1 => (1u16..6).prop_map(Step::Forget)]
    }

    proptest! {
        #[test]
        fn it_says_what_a_plain_map_says(steps in prop::collection::vec(step(), 0..600), secret: [u64; 2]) {
            let mut macs = Macs { secret: Secret::new(secret), ..Macs::new() };
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
        let mut macs = Macs::new();
        for mac in 0..100_000u64 {
            macs.learn(key(&macs, mac << 8 | 0x0100_0000_0000), 1);
        }
        assert_eq!((macs.len(), macs.memory()), (100_000, 1 << 20));
    }

    #[test]
    fn addresses_in_a_row_spread_over_the_lines() {
        let strides = [1u64, 1 << 8, 1 << 16, 1 << 24, 1 << 32];
        let secrets = [[0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344], [0xa409_3822_299f_31d0, 0x082e_fa98_ec4e_6c89]];
        for (stride, secret) in strides.into_iter().flat_map(|stride| secrets.map(|secret| (stride, secret))) {
            let mut macs = Macs { secret: Secret::new(secret), ..Macs::new() };
            let all: Vec<Key> = (0..50_000).map(|n| key(&macs, (n * stride) & 0xffff_ffff_ffff)).collect();
            for key in &all {
                macs.learn(*key, 1);
            }
            let away = all.iter().filter(|key| {
                let lines = &macs.segments[macs.home(**key)].lines;
                port_in(&lines[key.line(lines.len())], key.parts()) == 0
            });
            assert!(away.count() < 10_000, "a fifth or more is not at home at stride {stride:#x}, secret {secret:x?}");
        }
    }

    #[test]
    fn a_full_table_forgets_others_and_stays_as_large_as_it_is() {
        let mut macs = Macs { most: 1000, ..Macs::new() };
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
    fn the_address_zero_is_one_like_others() {
        let mut macs = Macs::new();
        assert_eq!(macs.get(key(&macs, 0)), None);
        assert_eq!(macs.learn(key(&macs, 0), 3), Learned::New);
        assert_eq!((macs.get(key(&macs, 0)), macs.learn(key(&macs, 0), 3)), (Some(3), Learned::Same));
    }
}
