//! Processor time of this thread, its waits for its core, and the resources of another process.

use std::io;

/// The scheduler's counters of this thread, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    /// Time on a core, in nanoseconds.
    pub ran: u64,
    /// Time ready to run while other threads used the core, in nanoseconds.
    pub waited: u64,
}

impl Cpu {
    /// Reads the counters of the calling thread.
    ///
    /// # Errors
    /// If the system does not provide it (`/proc/thread-self/schedstat` is part of Linux).
    pub fn now() -> io::Result<Cpu> {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
        let mut numbers = text.split_whitespace().map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(ran)), Some(Ok(waited))) => Ok(Cpu { ran, waited }),
            _ => Err(io::Error::other(format!("/proc/thread-self/schedstat says {text:?}"))),
        }
    }

    /// Returns the differences from `before`.
    pub fn since(self, before: Cpu) -> Cpu {
        Cpu { ran: self.ran.saturating_sub(before.ran), waited: self.waited.saturating_sub(before.waited) }
    }
}

/// The use of resources by a process on this machine, for example the controller.
#[derive(Clone, Copy, Debug, Default)]
pub struct Process {
    /// Time of all its threads on cores, in nanoseconds.
    pub ran: u64,
    /// Memory that is resident, in bytes.
    pub resident: u64,
}

impl Process {
    /// Reads the use of resources so far.
    ///
    /// # Errors
    /// If there is no such process, or the system does not provide it (`/proc` is part of Linux).
    pub fn now(pid: u32) -> io::Result<Process> {
        let mut process = Process::default();
        for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
            // A thread that has ended is left out.
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
