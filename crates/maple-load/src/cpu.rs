//! How much of its core this thread used, and how long it had to wait for it.

use std::io;

/// What the scheduler has counted for this thread, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cpu {
    /// On a core.
    pub ran: u64,
    /// Ready to run, while others had the core.
    pub waited: u64,
}

impl Cpu {
    /// So far, of the calling thread.
    ///
    /// # Errors
    /// Where the system does not tell (`/proc/thread-self/schedstat` is Linux's).
    pub fn now() -> io::Result<Cpu> {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
        let mut numbers = text.split_whitespace().map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(ran)), Some(Ok(waited))) => Ok(Cpu { ran, waited }),
            _ => Err(io::Error::other(format!("/proc/thread-self/schedstat says {text:?}"))),
        }
    }

    /// Since `before`.
    pub fn since(self, before: Cpu) -> Cpu {
        Cpu { ran: self.ran.saturating_sub(before.ran), waited: self.waited.saturating_sub(before.waited) }
    }
}
