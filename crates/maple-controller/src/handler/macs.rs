//! Which MAC address is behind which port: a hash table made for memory's latency.
//!
//! A bucket is one cache line of eight words, each a MAC address (48 bits) and a port (16 bits); 0 is an empty place, and
//! full places come before empty ones. An address is in its home bucket, or, where buckets were full, in the first bucket
//! behind it that was not. So looking it up costs one line of memory, and now and then its neighbour. Nothing is written
//! when nothing changes: a table that has learned stays clean in the cache.
//!
//! A table of 100,000 addresses is larger than the caches near a core, and each look-up waits for memory. [`Macs::peek`]
//! reads a word of the home bucket and nothing depends on it: a caller who peeks at all addresses of a batch first has all
//! their lines on the way at once, and the look-ups that follow find them near.
//!
//! Memory: 8 bytes a place, at most 7 of 8 places in use, doubled when full: 9.1 to 18.3 bytes an address, 10.5 for 100,000.
//! Never more than [`Macs::MOST`] addresses: from then on a new one takes the place of another in its home bucket. The
//! hash has a secret, so that nobody can choose addresses that meet in one bucket.

use crate::random::random;

/// Places in a bucket.
const PLACES: usize = 8;
/// Bits of a word that hold the port.
const PORT_BITS: u32 = 16;

/// One cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Bucket([u64; PLACES]);

/// Ports by MAC address. An address is the number that its six bytes spell; a port is not 0.
#[derive(Debug)]
pub struct Macs {
    buckets: Vec<Bucket>,
    /// Odd.
    secret: u64,
    len: usize,
    most: usize,
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

impl Bucket {
    /// Where the address is in this bucket. Without a branch: any of eight places is as likely as the next.
    #[inline]
    fn place(&self, mac: u64) -> Option<usize> {
        let mut hits = 0u32;
        for (place, word) in self.0.iter().enumerate() {
            hits |= u32::from(word >> PORT_BITS == mac && *word != 0) << place;
        }
        (hits != 0).then(|| hits.trailing_zeros() as usize)
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.0[PLACES - 1] != 0
    }
}

impl Macs {
    /// Most addresses in one table: 4 MiB.
    pub const MOST: usize = 1 << 18;

    /// An empty table. It takes no memory.
    pub fn new() -> Macs {
        // Where the system gives no random bytes, addresses that meet are merely slow.
        let secret = random().map_or(0x9e37_79b9_7f4a_7c15, u64::from_ne_bytes) | 1;
        Macs { buckets: Vec::new(), secret, len: 0, most: Macs::MOST }
    }

    /// How many addresses it holds.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes that the places take.
    pub fn memory(&self) -> usize {
        self.buckets.capacity() * size_of::<Bucket>()
    }

    /// Brings the place of an address near. Give what comes back to [`std::hint::black_box`], all of a batch together.
    #[inline]
    pub fn peek(&self, mac: u64) -> u64 {
        if self.buckets.is_empty() { 0 } else { self.buckets[self.home(mac)].0[0] }
    }

    /// The port that the address is behind.
    #[inline]
    pub fn get(&self, mac: u64) -> Option<u16> {
        if self.buckets.is_empty() {
            return None;
        }
        let mut at = self.home(mac);
        loop {
            let bucket = &self.buckets[at];
            if let Some(place) = bucket.place(mac) {
                return Some(bucket.0[place] as u16);
            }
            if !bucket.is_full() {
                return None;
            }
            at = self.behind(at);
        }
    }

    /// Remembers that the address is behind this port, which is not 0.
    #[inline]
    pub fn learn(&mut self, mac: u64, port: u16) -> Learned {
        let word = mac << PORT_BITS | u64::from(port);
        if self.buckets.is_empty() {
            return self.insert(word);
        }
        let mut at = self.home(mac);
        loop {
            let bucket = &mut self.buckets[at];
            if let Some(place) = bucket.place(mac) {
                if bucket.0[place] == word {
                    return Learned::Same;
                }
                bucket.0[place] = word;
                return Learned::Moved;
            }
            if !bucket.is_full() {
                return self.insert(word);
            }
            at = self.behind(at);
        }
    }

    /// Forgets all addresses behind this port. Takes as long as the table is large.
    pub fn forget(&mut self, port: u16) {
        let buckets = std::mem::take(&mut self.buckets);
        self.buckets = vec![Bucket::default(); buckets.len()];
        self.len = 0;
        for word in words(&buckets).filter(|word| *word as u16 != port) {
            self.place(word);
        }
    }

    /// The bucket that an address belongs to.
    #[inline]
    fn home(&self, mac: u64) -> usize {
        // The secret, then the finalizer of MurmurHash3 (public domain): addresses in a row spread, whatever the secret is.
        let mut hash = mac.wrapping_mul(self.secret);
        hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        (((hash >> 32) * self.buckets.len() as u64) >> 32) as usize
    }

    #[inline]
    fn behind(&self, at: usize) -> usize {
        if at + 1 == self.buckets.len() { 0 } else { at + 1 }
    }

    /// Adds an address that is not there.
    #[cold]
    fn insert(&mut self, word: u64) -> Learned {
        if self.len == self.most {
            let home = self.home(word >> PORT_BITS);
            // The address itself chooses whose place it takes. Its home bucket may be empty in a table at its limit.
            let victim = &mut self.buckets[home].0[(word >> PORT_BITS) as usize % PLACES];
            if *victim != 0 {
                *victim = word;
            }
            return Learned::New;
        }
        if (self.len + 1) * 8 > self.buckets.len() * PLACES * 7 {
            self.grow();
        }
        self.place(word);
        Learned::New
    }

    fn grow(&mut self) {
        let buckets = std::mem::take(&mut self.buckets);
        self.buckets = vec![Bucket::default(); (buckets.len() * 2).max(1)];
        self.len = 0;
        for word in words(&buckets) {
            self.place(word);
        }
    }

    /// Puts a word into the first empty place from its home on; there is one.
    fn place(&mut self, word: u64) {
        let mut at = self.home(word >> PORT_BITS);
        loop {
            if let Some(place) = self.buckets[at].0.iter_mut().find(|place| **place == 0) {
                *place = word;
                self.len += 1;
                return;
            }
            at = self.behind(at);
        }
    }
}

/// The places in use.
fn words(buckets: &[Bucket]) -> impl Iterator<Item = u64> {
    buckets.iter().flat_map(|bucket| bucket.0).filter(|word| *word != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

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
        fn it_says_what_a_plain_map_says(steps in prop::collection::vec(step(), 0..600), secret: u64) {
            let mut macs = Macs { secret: secret | 1, ..Macs::new() };
            let mut map: HashMap<u64, u16> = HashMap::new();
            for step in steps {
                match step {
                    Step::Learn(mac, port) => {
                        let expected = match map.insert(mac, port) {
                            None => Learned::New,
                            Some(before) if before == port => Learned::Same,
                            Some(_) => Learned::Moved,
                        };
                        prop_assert_eq!(macs.learn(mac, port), expected);
                    }
                    Step::Forget(port) => {
                        macs.forget(port);
                        map.retain(|_, p| *p != port);
                    }
                }
                prop_assert_eq!(macs.len(), map.len());
            }
            for mac in (0..200).chain((1 << 48) - 100..1 << 48) {
                prop_assert_eq!(macs.get(mac), map.get(&mac).copied());
            }
        }
    }

    #[test]
    fn a_hundred_thousand_addresses_take_a_mebibyte() {
        let mut macs = Macs::new();
        for mac in 0..100_000u64 {
            macs.learn(mac << 8 | 0x0100_0000_0000, 1);
        }
        assert_eq!((macs.len(), macs.memory()), (100_000, 1 << 20));
    }

    #[test]
    fn addresses_in_a_row_spread_over_the_buckets() {
        let strides = [1u64, 1 << 8, 1 << 16, 1 << 24, 1 << 32];
        for (stride, secret) in strides.into_iter().flat_map(|stride| [1, 3, u64::MAX].map(|secret| (stride, secret))) {
            let mut macs = Macs { secret, ..Macs::new() };
            for n in 0..50_000 {
                macs.learn((n * stride) & 0xffff_ffff_ffff, 1);
            }
            let crowded = (0..50_000).filter(|n| {
                let mac = (n * stride) & 0xffff_ffff_ffff;
                macs.buckets[macs.home(mac)].place(mac).is_none()
            });
            assert!(crowded.count() < 10_000, "a fifth or more is not at home at stride {stride}, secret {secret}");
        }
    }

    #[test]
    fn a_full_table_forgets_others_and_stays_as_large_as_it_is() {
        let mut macs = Macs { most: 1000, ..Macs::new() };
        for mac in 1..=5000u64 {
            macs.learn(mac, 2);
        }
        let known = (1..=5000).filter(|mac| macs.get(*mac).is_some()).count();
        assert_eq!((macs.len(), known), (1000, 1000));
        assert!((4000..=5000).filter(|mac| macs.get(*mac).is_some()).count() > 300, "new addresses are learned");
    }

    #[test]
    fn the_address_zero_is_one_like_others() {
        let mut macs = Macs::new();
        assert_eq!(macs.get(0), None);
        assert_eq!(macs.learn(0, 3), Learned::New);
        assert_eq!((macs.get(0), macs.learn(0, 3)), (Some(3), Learned::Same));
    }
}
