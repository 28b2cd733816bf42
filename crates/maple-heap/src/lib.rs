//! The allocator of Maple's programs, [mimalloc](https://github.com/microsoft/mimalloc), and counters of the bytes they
//! hold.
//!
//! Trees and tables consist of many small pieces, which come and go with every trace. mimalloc keeps pieces of one size
//! next to each other and without headers. It finds a free piece in a few instructions, and takes back what another
//! thread frees without a lock. A program selects it like this:
//!
//! ```
//! #[global_allocator]
//! static HEAP: maple_heap::Heap = maple_heap::Heap;
//! # fn main() {
//! let (numbers, bytes) = maple_heap::bytes_kept(|| vec![0u64; 1000]);
//! assert!(bytes.is_some_and(|bytes| (8000..9000).contains(&bytes)));
//! # drop(numbers);
//! # }
//! ```

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};

use libmimalloc_sys as mi;

/// The allocator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heap;

/// The number of calls of [`bytes_kept`] under way, plus one for [`count_all`]. While it is 0, nothing is counted.
static ASKERS: AtomicUsize = AtomicUsize::new(0);

/// Whether [`count_all`] was called.
static COUNTS_ALL: AtomicBool = AtomicBool::new(false);
/// The bytes that all threads have allocated since, less what they freed.
static ALL: AtomicIsize = AtomicIsize::new(0);

thread_local! {
    /// The bytes that this thread allocated, less what it freed, while a caller measured.
    static BYTES: Cell<isize> = const { Cell::new(0) };
    /// Whether this thread has used [`Heap`], which shows that it is the program's allocator.
    static IS_USED: Cell<bool> = const { Cell::new(false) };
}

/// Returns the result of `make`, and the number of bytes by which this thread's share of the heap grew meanwhile, as
/// the allocator rounds them; 0 if it shrank. Allocations and frees of other threads are not counted, even on behalf of
/// this one. The number is `None` if [`Heap`] is not the program's allocator.
pub fn bytes_kept<T>(make: impl FnOnce() -> T) -> (T, Option<usize>) {
    struct Asks;
    impl Drop for Asks {
        fn drop(&mut self) {
            ASKERS.fetch_sub(1, Ordering::Relaxed);
        }
    }
    ASKERS.fetch_add(1, Ordering::Relaxed);
    let _asks = Asks;
    drop(black_box(Box::new(0u8)));
    let before = BYTES.get();
    let made = make();
    let more = BYTES.get() - before;
    (made, IS_USED.get().then(|| usize::try_from(more).unwrap_or(0)))
}

/// Starts counting the bytes that all threads hold, for [`held`]. This makes each allocation a little slower.
pub fn count_all() {
    if !COUNTS_ALL.swap(true, Ordering::Relaxed) {
        ASKERS.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns by how many bytes the heap of all threads has grown since [`count_all`], as the allocator rounds them.
/// `None` if that was not called, or if [`Heap`] is not the program's allocator.
pub fn held() -> Option<usize> {
    drop(black_box(Box::new(0u8)));
    let counts = COUNTS_ALL.load(Ordering::Relaxed) && IS_USED.get();
    counts.then(|| usize::try_from(ALL.load(Ordering::Relaxed)).unwrap_or(0))
}

/// Counts bytes that this thread allocates (positive) or frees (negative).
#[cold]
fn count(bytes: isize) {
    if COUNTS_ALL.load(Ordering::Relaxed) {
        ALL.fetch_add(bytes, Ordering::Relaxed);
    }
    IS_USED.set(true);
    BYTES.set(BYTES.get() + bytes);
}

/// The alignment in bytes that mimalloc gives to pieces of at least this size without being asked
/// (`MI_MAX_ALIGN_SIZE`).
const ALIGNED: usize = 16;

/// Reports whether a piece gets its alignment without being asked for it. Asking takes longer.
#[inline]
fn is_aligned_anyway(size: usize, align: usize) -> bool {
    align <= ALIGNED && align <= size
}

/// Counts an allocated piece, and returns it.
#[inline]
#[allow(unsafe_code, reason = "implementing an allocator is unsafe")]
fn count_taken(piece: *mut u8) -> *mut u8 {
    if ASKERS.load(Ordering::Relaxed) > 0 {
        // SAFETY: each caller has this piece from mimalloc, or none, which has no bytes.
        count(unsafe { mi::mi_usable_size(piece.cast()) } as isize);
    }
    piece
}

/// Counts a piece that is about to be freed.
#[inline]
#[allow(unsafe_code, reason = "implementing an allocator is unsafe")]
fn count_given_back(piece: *mut u8) {
    if ASKERS.load(Ordering::Relaxed) > 0 {
        // SAFETY: each caller got this piece from its own caller, and that one from this allocator, so from mimalloc.
        count(-(unsafe { mi::mi_usable_size(piece.cast()) } as isize));
    }
}

// SAFETY: pieces come from mimalloc and go back there. It returns null, or memory that nothing else uses, with the size
// and the alignment that were asked for. If no alignment is asked for, mimalloc guarantees the required one
// (`is_aligned_anyway`). Counting neither allocates nor panics: its cells are made with the thread and have nothing to
// drop.
#[allow(unsafe_code, reason = "implementing an allocator is unsafe")]
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: any size is allowed, and any alignment that is a power of two, as a layout's is.
        let piece = unsafe {
            if is_aligned_anyway(size, align) { mi::mi_malloc(size) } else { mi::mi_malloc_aligned(size, align) }
        };
        count_taken(piece.cast())
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: as above.
        let piece = unsafe {
            if is_aligned_anyway(size, align) { mi::mi_zalloc(size) } else { mi::mi_zalloc_aligned(size, align) }
        };
        count_taken(piece.cast())
    }

    #[inline]
    unsafe fn dealloc(&self, piece: *mut u8, _: Layout) {
        count_given_back(piece);
        // SAFETY: the caller has the piece from this allocator, and gives it up.
        unsafe { mi::mi_free(piece.cast()) };
    }

    #[inline]
    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_given_back(piece);
        let align = layout.align();
        // SAFETY: the caller has the piece from this allocator, and gives it up for the returned one, if that is not
        // null.
        let moved = unsafe {
            if is_aligned_anyway(size, align) {
                mi::mi_realloc(piece.cast(), size)
            } else {
                mi::mi_realloc_aligned(piece.cast(), size, align)
            }
        };
        if moved.is_null() {
            // The piece stays as it was.
            count_taken(piece);
        }
        count_taken(moved.cast())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    #[global_allocator]
    static HEAP: Heap = Heap;

    /// Waits until no other test runs: some tests count what all threads hold.
    fn alone() -> MutexGuard<'static, ()> {
        static TEST: Mutex<()> = Mutex::new(());
        TEST.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn kept_bytes_are_counted_and_freed_bytes_are_not() {
        let _alone = alone();
        let make = || {
            let mut kept: Vec<Vec<u8>> = (0..1000).map(|_| Vec::with_capacity(10)).collect();
            // Most pieces are moved.
            kept.iter_mut().for_each(|piece| piece.reserve_exact(1000));
            drop(vec![1u8; 5_000_000]);
            (kept, vec![0u8; 10_000_000])
        };
        let (_kept, bytes) = bytes_kept(make);
        assert!(bytes.is_some_and(|bytes| (11_000_000..12_000_000).contains(&bytes)), "{bytes:?}");
    }

    #[test]
    fn other_threads_change_nothing_in_what_this_one_holds() {
        let _alone = alone();
        let theirs = vec![1u8; 10_000_000];
        let (kept, bytes) = bytes_kept(|| {
            // The threads start here, which takes some bytes. They free ten million and keep twenty.
            let freed = std::thread::spawn(move || drop(theirs));
            let kept = std::thread::spawn(|| vec![1u8; 20_000_000]);
            freed.join().unwrap();
            (kept.join().unwrap(), vec![1u8; 1_000_000])
        });
        assert!(bytes.is_some_and(|bytes| (1_000_000..1_100_000).contains(&bytes)), "{bytes:?}");
        // What this thread frees counts as its own, whichever thread allocated it.
        let ((), bytes) = bytes_kept(|| drop(kept));
        assert_eq!(bytes, Some(0));
    }

    #[test]
    fn pieces_are_aligned_as_they_are_asked_to_be() {
        let _alone = alone();
        #[derive(Clone)]
        #[repr(align(4096))]
        struct Page([u8; 4096]);
        let pages = vec![Page([7; 4096]); 10];
        assert!(pages.iter().all(|page| std::ptr::from_ref(page).addr() % 4096 == 0 && page.0 == [7; 4096]));
        // Pieces of all sizes, when they are allocated and when they grow.
        let mut kept: Vec<Vec<u128>> = Vec::new();
        for size in 1..2000 {
            let mut numbers = vec![u128::MAX; size];
            numbers.reserve_exact(size % 7);
            assert_eq!(numbers.as_ptr().addr() % align_of::<u128>(), 0);
            kept.push(numbers);
        }
        assert!(kept.iter().flatten().all(|number| *number == u128::MAX));
    }

    #[test]
    fn bytes_that_another_thread_holds_are_counted() {
        let _alone = alone();
        assert_eq!(held(), None, "no measurement runs");
        count_all();
        let before = held().expect("this program uses the allocator");
        let kept = std::thread::spawn(|| vec![1u8; 64 << 20]).join().expect("it ends");
        let with = held().expect("it counts");
        assert!(with.abs_diff(before + kept.len()) < 1 << 20, "{before} {with}");
        drop(kept);
        assert!(held().expect("it counts").abs_diff(before) < 1 << 20);
    }
}
