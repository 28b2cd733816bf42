//! Memory for tables of addresses: cache lines in large pages, handed out in pieces.
//!
//! A processor remembers where some 2,000 pages lie. At 4 KiB a page that covers 8 MiB, less than the tables of ten switches
//! with 100,000 addresses each, and then nearly every look-up first walks the page table, in a virtual machine two of them.
//! A page of 2 MiB covers 512 times as much. One table is smaller than that, so tables share pages: memory comes from the
//! system in blocks that may be large pages, and tables take pieces of them, a power of two of cache lines each.
//!
//! Pieces that come back are given out again, halved where a smaller one is wanted, and never go back to the system: what
//! is held is at most what was in use at once. Tables grow piece by piece ([`super::macs`]), so little lies about.
//!
//! The pool is shared by all shards and locked when a table grows or goes, never for a packet. It needs no `unsafe`: a
//! block lives as long as the process, so its pieces are plain slices, split off with `split_at_mut`.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use memmap2::MmapMut;

/// One cache line: four rows of eight numbers. It starts at a multiple of its length.
pub(super) type Line = [[u16; 8]; 4];

/// Most lines in a piece: 64 KiB.
pub(super) const MOST: usize = 1 << (CLASSES - 1);

/// Sizes of pieces: 1, 2, 4, … [`MOST`] lines.
const CLASSES: usize = 11;
/// A large page.
const PAGE: usize = 2 << 20;
/// Bytes asked of the system at once. What is not touched takes no memory.
const BLOCK: usize = 16 * PAGE;

/// A piece: lines that are its owner's alone. They go back to the pool when it is dropped.
#[derive(Debug)]
pub(super) struct Lines(&'static mut [Line]);

/// What is not in use.
struct Pool {
    /// Pieces that came back, by the logarithm of their size.
    free: [Vec<&'static mut [Line]>; CLASSES],
    /// What was never given out; all zero.
    fresh: &'static mut [Line],
}

static POOL: Mutex<Pool> = Mutex::new(Pool { free: [const { Vec::new() }; CLASSES], fresh: &mut [] });

impl Lines {
    /// This many lines of zeros: a power of two, at most [`MOST`].
    pub fn zeroed(count: usize) -> Lines {
        debug_assert!(count.is_power_of_two() && count <= MOST);
        Lines(pool().take(count))
    }
}

impl Deref for Lines {
    type Target = [Line];

    #[inline]
    fn deref(&self) -> &[Line] {
        self.0
    }
}

impl DerefMut for Lines {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Line] {
        self.0
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let lines = std::mem::take(&mut self.0);
        pool().free[class(lines.len())].push(lines);
    }
}

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where pieces of this size are kept; the largest size not above it, where it is no power of two.
fn class(count: usize) -> usize {
    count.ilog2() as usize
}

impl Pool {
    fn take(&mut self, count: usize) -> &'static mut [Line] {
        let class = class(count);
        let Some(larger) = (class..CLASSES).find(|class| !self.free[*class].is_empty()) else {
            return self.cut(count);
        };
        let mut lines = self.free[larger].pop().unwrap_or_default();
        for half in (class..larger).rev() {
            let (kept, rest) = lines.split_at_mut(1 << half);
            self.free[half].push(rest);
            lines = kept;
        }
        lines.fill(Line::default());
        lines
    }

    /// Takes a piece of what was never given out.
    fn cut(&mut self, count: usize) -> &'static mut [Line] {
        if self.fresh.len() < count {
            let mut rest = std::mem::replace(&mut self.fresh, block());
            while !rest.is_empty() {
                let (piece, behind) = rest.split_at_mut(1 << class(rest.len()));
                self.free[class(piece.len())].push(piece);
                rest = behind;
            }
        }
        let (lines, rest) = std::mem::take(&mut self.fresh).split_at_mut(count);
        self.fresh = rest;
        lines
    }
}

/// A block of zeros from the system, in large pages if it has any.
fn block() -> &'static mut [Line] {
    let Ok(memory) = MmapMut::map_anon(BLOCK + PAGE) else {
        // The allocator may know other ways; where it does not either, it ends the process as it always does.
        return Box::leak(vec![Line::default(); BLOCK / size_of::<Line>()].into_boxed_slice());
    };
    #[cfg(target_os = "linux")]
    if let Err(error) = memory.advise(memmap2::Advice::HugePage) {
        tracing::debug!(%error, "tables have no large pages");
    }
    let memory: &'static mut MmapMut = Box::leak(Box::new(memory));
    let start = memory.as_ptr().align_offset(PAGE);
    bytemuck::cast_slice_mut(&mut memory[start..start + BLOCK])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_zero_apart_and_given_out_again() {
        let mut pieces: Vec<Lines> = (0..400).map(|n| Lines::zeroed(1 << (n % CLASSES))).collect();
        for (n, piece) in pieces.iter_mut().enumerate() {
            assert!(piece.iter().flatten().flatten().all(|number| *number == 0));
            piece.fill([[n as u16 + 1; 8]; 4]);
        }
        for (n, piece) in pieces.iter().enumerate() {
            assert!(piece.iter().flatten().flatten().all(|number| *number == n as u16 + 1));
        }
        drop(pieces);
        let again = Lines::zeroed(MOST / 2);
        assert_eq!(again.len(), MOST / 2);
        assert!(again.iter().all(|line| *line == Line::default()));
    }

    #[test]
    fn lines_start_where_cache_lines_do() {
        let pieces: Vec<Lines> = (0..7).map(|n| Lines::zeroed(1 << (n % 3))).collect();
        assert!(pieces.iter().all(|piece| piece.as_ptr().align_offset(64) == 0));
    }

    #[test]
    fn a_piece_is_halved_when_a_smaller_one_is_wanted() {
        let mut pool = Pool { free: [const { Vec::new() }; CLASSES], fresh: &mut [] };
        pool.free[3].push(Box::leak(vec![[[7; 8]; 4]; 8].into_boxed_slice()));
        assert_eq!((pool.take(1).len(), pool.take(4).len(), pool.take(2).len(), pool.take(1).len()), (1, 4, 2, 1));
        assert!(pool.free.iter().all(Vec::is_empty));
    }
}
