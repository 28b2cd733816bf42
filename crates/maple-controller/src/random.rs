//! Random bytes from the operating system.

use std::fs::File;
use std::io::{self, Read};

/// Returns `N` cryptographically random bytes.
///
/// # Errors
/// The system's error if `/dev/urandom` can't be read.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
