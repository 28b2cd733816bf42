//! A few thousand damaged messages and frames, sent through the entry points of the fuzz targets, on any toolchain.
//!
//! The test is deterministic: each run does the same damage.

use maple_wire::{Message, Version};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use crate::support::{entry, generate};

const SEEDS: usize = 150;
const MUTANTS_OF_EACH: usize = 40;

/// Values of lengths and counts that often reveal faults.
const NASTY: [u16; 10] = [0, 1, 3, 4, 7, 8, 0x7fff, 0x8000, 0xfffe, 0xffff];

/// A small generator of pseudo-random numbers (xorshift), so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// Does one kind of damage to `bytes`.
    fn damage(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len());
        match self.below(6) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
            1 if !bytes.is_empty() => bytes[at] = self.next() as u8,
            2 if at + 2 <= bytes.len() => {
                bytes[at..at + 2].copy_from_slice(&NASTY[self.below(NASTY.len())].to_be_bytes());
            }
            3 => bytes.truncate(at),
            4 => bytes.insert(at, self.next() as u8),
            _ => {
                let end = (at + self.below(24)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                let to = self.below(bytes.len());
                bytes.splice(to..to, piece);
            }
        }
    }
}

fn seeds(version: Version) -> Vec<Vec<u8>> {
    let mut runner = TestRunner::deterministic();
    let strategy = generate::message(version);
    let mut encode = || {
        let message: Message = strategy.new_tree(&mut runner).expect("generators do not fail").current();
        message.to_bytes(version, 1).expect("generated messages can be written")
    };
    (0..SEEDS).map(|_| encode()).collect()
}

fn for_each_mutant(seeds: &[Vec<u8>], mut check: impl FnMut(&[u8])) {
    let mut random = Random(0x6d61706c65);
    for seed in seeds {
        for _ in 0..MUTANTS_OF_EACH {
            let mut bytes = seed.clone();
            for _ in 0..=random.below(4) {
                random.damage(&mut bytes);
            }
            check(&bytes);
        }
    }
}

#[test]
fn damaged_1_0_messages_do_no_harm() {
    for_each_mutant(&seeds(Version::Of10), |bytes| entry::message(Version::Of10, bytes));
}

#[test]
fn damaged_1_3_messages_do_no_harm() {
    for_each_mutant(&seeds(Version::Of13), |bytes| entry::message(Version::Of13, bytes));
}

#[test]
fn damaged_hellos_do_no_harm() {
    let seed = [6, 0, 0, 32, 0, 0, 0, 1, 0, 1, 0, 12, 0, 0, 0, 114, 0, 0, 0, 1, 0, 0, 0, 0, 0, 9, 0, 5, 7, 0, 0, 0];
    for_each_mutant(&vec![seed.to_vec(); 100], entry::hello);
}

#[test]
fn damaged_frames_do_no_harm() {
    // Ethernet, 802.1Q, IPv4 with options, TCP; and Ethernet, IPv6 with a hop-by-hop header, ICMPv6 solicitation.
    let tcp = "020000000002 020000000001 8100 2005 0800 46000030 00000000 40060000 0a000001 0a000002 01010100
        1f90 0050 00000001 00000000 50020000 00000000 aabb";
    let solicitation = "3333ff000001 020000000001 86dd 60000000 00283aff fe800000000000000000000000000001
        ff0200000000000000000001ff000001 3a00050200000000 87000000 00000000 fe800000000000000000000000000001
        0101020000000001";
    let lldp = "0180c200000e 020000000001 88cc 0207 04 020000000001 0403 070001 0602 0078 0000";
    let frames: Vec<Vec<u8>> = [tcp, solicitation, lldp].map(hex).into_iter().cycle().take(90).collect();
    for_each_mutant(&frames, entry::packet);
}

#[test]
fn streams_of_damaged_messages_do_no_harm() {
    let pieces = seeds(Version::Of13);
    let streams: Vec<Vec<u8>> = pieces.chunks(3).map(<[Vec<u8>]>::concat).collect();
    for_each_mutant(&streams, entry::stream);
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}
