//! Bounds-checked big-endian loads.

/// Reads the byte at `at`, if it is within `bytes`.
#[inline]
pub(super) fn u8_at(bytes: &[u8], at: usize) -> Option<u8> {
    bytes.get(at).copied()
}

/// Reads the 16-bit number at `at`.
#[inline]
pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    chunk(bytes, at).map(u16::from_be_bytes)
}

/// Reads the 32-bit number at `at`.
#[inline]
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    chunk(bytes, at).map(u32::from_be_bytes)
}

/// Reads the 48-bit number at `at`, such as a hardware address.
#[inline]
pub(super) fn u48_at(bytes: &[u8], at: usize) -> Option<u64> {
    let [a, b, c, d, e, f] = chunk(bytes, at)?;
    // Two loads are faster than putting eight bytes together one by one.
    Some(u64::from(u32::from_be_bytes([a, b, c, d])) << 16 | u64::from(u16::from_be_bytes([e, f])))
}

/// Reads the 128-bit number at `at`.
#[inline]
pub(super) fn u128_at(bytes: &[u8], at: usize) -> Option<u128> {
    chunk(bytes, at).map(u128::from_be_bytes)
}

/// Returns `N` bytes from `at` on. Offsets are those of headers, so the sum cannot overflow.
#[inline]
pub(super) fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.first_chunk().copied()
}
