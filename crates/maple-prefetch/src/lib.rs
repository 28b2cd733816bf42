//! Tells the processor which memory will be read soon.
//!
//! A look-up in a table larger than the caches waits some hundred nanoseconds for each cache line, and the processor
//! looks only a few hundred instructions ahead. So code with many look-ups first prefetches what all of them will read.
//! By the time of the look-ups the lines have arrived. An ordinary read cannot replace a prefetch. The instructions
//! after it cannot retire until its value is there, so the processor soon starts no further ones.
//!
//! A prefetch changes only the caches, even if its address is invalid. So [`prefetch`] is safe to call. The `unsafe`
//! that Rust requires for the instruction is in this crate, and in none that uses it.

#![no_std]

/// The size of a cache line, in bytes: that of all processors that this crate knows.
const LINE: usize = 64;

/// Brings the cache line in which `place` starts close to the processor's core. On a processor that this crate doesn't
/// know, it does nothing. It costs one instruction, and never waits.
#[inline(always)]
pub fn prefetch<T: ?Sized>(place: &T) {
    start_reading(core::ptr::from_ref(place).cast());
}

/// Prefetches every cache line that `place` may occupy, as [`prefetch`] does for its first one.
#[inline(always)]
pub fn prefetch_all<T: ?Sized>(place: &T) {
    let (start, size) = (core::ptr::from_ref(place).cast::<i8>(), size_of_val(place));
    for at in (0..size).step_by(LINE) {
        start_reading(start.wrapping_add(at));
    }
    // It starts anywhere on its first line, and so may end on one more.
    if size > 1 {
        start_reading(start.wrapping_add(size - 1));
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
#[allow(unsafe_code, reason = "prefetching is an intrinsic")]
fn start_reading(place: *const i8) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: the instruction reads nothing that the program could see, writes nothing, and raises no exception
    // whatever the address is (Intel SDM, volume 2, PREFETCHh). Every x86-64 processor has it.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(place) };
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
#[inline(always)]
#[allow(unsafe_code, reason = "prefetching is an intrinsic")]
fn start_reading(place: *const i8) {
    // SAFETY: a hint, which raises no exception whatever the address is (Arm ARM, C6.2, PRFM); it uses no stack and no
    // flags.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
#[inline(always)]
fn start_reading(_: *const i8) {}

#[cfg(test)]
mod tests {
    use super::{prefetch, prefetch_all};

    #[test]
    fn anything_may_be_prefetched() {
        let numbers = [1u64, 2, 3];
        prefetch(&numbers);
        prefetch(&numbers[3..]);
        prefetch(&());
        prefetch("text");
        prefetch_all(&[0u64; 100]);
        prefetch_all("");
        assert_eq!(numbers, [1, 2, 3]);
    }
}
