//! An allocator of cache lines in large pages, for tables of addresses.
//!
//! A processor's TLB holds some 2,000 pages. At 4 KiB a page that is less than the tables of ten switches with 100,000
//! addresses each. Then nearly every look-up first walks the page table. A page of 2 MiB covers 512 times as much. One
//! table is smaller than such a page, so tables share pages. Memory comes from the system in blocks that may be large
//! pages. Tables take chunks of these blocks; a chunk is a power of two of cache lines.
//!
//! Freed chunks are reused, and halved where a smaller one is needed (a buddy allocator that never merges). They never
//! go back to the system, so the pool holds at most the largest amount that was in use. Tables grow chunk by chunk
//! ([`crate::mac_table`]), so little memory lies idle.
//!
//! All shards share the pool. Its lock is taken when a table grows or is dropped, never for a packet. It needs no
//! `unsafe`: a block lives as long as the process, so its chunks are plain slices, split off with `split_at_mut`.

use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;
use parking_lot::{Mutex, MutexGuard};

/// One cache line: four rows of eight numbers, aligned to its length.
pub(crate) type Line = [[u16; 8]; 4];

/// The maximum number of lines of a chunk: 64 KiB.
pub(crate) const MAX_LINES: usize = 1 << (SIZE_CLASSES - 1);

/// The number of chunk sizes: 1, 2, 4, … [`MAX_LINES`] lines.
const SIZE_CLASSES: usize = 11;
/// The size of a large page, in bytes: that of x86-64 and of 64-bit Arm with pages of 4 KiB.
const PAGE: usize = 2 << 20;
/// The size of one request to the system, in bytes. Chosen: few requests; pages that are never touched take no memory.
const BLOCK: usize = 16 * PAGE;

/// A chunk of lines with one owner, which returns to the pool when dropped.
#[derive(Debug)]
pub(crate) struct Lines(&'static mut [Line]);

/// The memory that is not in use.
struct Pool {
    /// Freed chunks, by the logarithm of their size.
    free: [Vec<&'static mut [Line]>; SIZE_CLASSES],
    /// Memory that was never handed out; all zero.
    fresh: &'static mut [Line],
}

static POOL: Mutex<Pool> = Mutex::new(Pool { free: [const { Vec::new() }; SIZE_CLASSES], fresh: &mut [] });

impl Lines {
    /// Takes `count` lines of zeros. `count` is a power of two, at most [`MAX_LINES`].
    pub fn zeroed(count: usize) -> Lines {
        debug_assert!(count.is_power_of_two() && count <= MAX_LINES);
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
        pool().free[size_class(lines.len())].push(lines);
    }
}

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock()
}

/// Returns the size class of this many lines, rounded down.
fn size_class(count: usize) -> usize {
    count.ilog2() as usize
}

impl Pool {
    fn take(&mut self, count: usize) -> &'static mut [Line] {
        let class = size_class(count);
        let Some(larger) = (class..SIZE_CLASSES).find(|class| !self.free[*class].is_empty()) else {
            return self.take_fresh(count);
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

    /// Takes a chunk of memory that was never handed out.
    fn take_fresh(&mut self, count: usize) -> &'static mut [Line] {
        if self.fresh.len() < count {
            let mut rest = std::mem::replace(&mut self.fresh, block());
            while !rest.is_empty() {
                let (chunk, after) = rest.split_at_mut(1 << size_class(rest.len()));
                self.free[size_class(chunk.len())].push(chunk);
                rest = after;
            }
        }
        let (lines, rest) = std::mem::take(&mut self.fresh).split_at_mut(count);
        self.fresh = rest;
        lines
    }
}

/// Returns a block of zeros from the system, in large pages where it has them.
fn block() -> &'static mut [Line] {
    let Ok(memory) = MmapMut::map_anon(BLOCK + PAGE) else {
        // The global allocator may still succeed. If it fails too, it ends the process as usual.
        return Box::leak(vec![Line::default(); BLOCK / size_of::<Line>()].into_boxed_slice());
    };
    #[cfg(target_os = "linux")]
    if let Err(error) = memory.advise(memmap2::Advice::HugePage) {
        tracing::debug!(%error, "no large pages for tables of addresses");
    }
    let memory: &'static mut MmapMut = Box::leak(Box::new(memory));
    let start = memory.as_ptr().align_offset(PAGE);
    bytemuck::cast_slice_mut(&mut memory[start..start + BLOCK])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_zero_disjoint_and_reused() {
        let mut chunks: Vec<Lines> = (0..400).map(|n| Lines::zeroed(1 << (n % SIZE_CLASSES))).collect();
        for (n, chunk) in chunks.iter_mut().enumerate() {
            assert!(chunk.iter().flatten().flatten().all(|number| *number == 0));
            chunk.fill([[n as u16 + 1; 8]; 4]);
        }
        for (n, chunk) in chunks.iter().enumerate() {
            assert!(chunk.iter().flatten().flatten().all(|number| *number == n as u16 + 1));
        }
        drop(chunks);
        let again = Lines::zeroed(MAX_LINES / 2);
        assert_eq!(again.len(), MAX_LINES / 2);
        assert!(again.iter().all(|line| *line == Line::default()));
    }

    #[test]
    fn lines_are_aligned_to_cache_lines() {
        let chunks: Vec<Lines> = (0..7).map(|n| Lines::zeroed(1 << (n % 3))).collect();
        assert!(chunks.iter().all(|chunk| chunk.as_ptr().align_offset(64) == 0));
    }

    #[test]
    fn a_chunk_is_halved_when_a_smaller_one_is_needed() {
        let mut pool = Pool { free: [const { Vec::new() }; SIZE_CLASSES], fresh: &mut [] };
        pool.free[3].push(Box::leak(vec![[[7; 8]; 4]; 8].into_boxed_slice()));
        assert_eq!((pool.take(1).len(), pool.take(4).len(), pool.take(2).len(), pool.take(1).len()), (1, 4, 2, 1));
        assert!(pool.free.iter().all(Vec::is_empty));
    }
}
