//! How much of its core this thread used and how long it had to wait for it; what another process used.

use std::io;

/// What the scheduler has counted for this thread, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
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

/// What a process on this machine has used, the controller for instance.
#[derive(Clone, Copy, Debug, Default)]
pub struct Process {
    /// Time of all its threads on cores, in nanoseconds.
    pub ran: u64,
    /// Memory that is resident, in bytes.
    pub resident: u64,
}

impl Process {
    /// So far.
    ///
    /// # Errors
    /// Where there is no such process, or the system does not tell (`/proc` is Linux's).
    pub fn now(pid: u32) -> io::Result<Process> {
        let mut process = Process::default();
        for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
            // A thread that has ended meanwhile is none any more.
            let Ok(text) = std::fs::read_to_string(thread?.path().join("schedstat")) else { continue };
            process.ran += text.split_whitespace().next().and_then(|ran| ran.parse().ok()).unwrap_or(0);
        }
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes: Option<u64> = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        process.resident = kibibytes.unwrap_or(0) * 1024;
        Ok(process)
    }
}
