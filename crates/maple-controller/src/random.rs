//! Random bytes from the operating system.

use std::io;

use ring::rand::{SecureRandom as _, SystemRandom};

/// Returns `N` cryptographically random bytes.
///
/// # Errors
/// If the system has none.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("the system gives no random bytes"))?;
    Ok(bytes)
}
