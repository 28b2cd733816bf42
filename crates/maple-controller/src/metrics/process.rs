//! The system's facts about this process. Values that it does not give are left out.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

/// The position of the user time among the fields of `/proc/self/stat` after the command's name, from 0
/// (proc_pid_stat(5), field 14).
const USER: usize = 11;
/// The position of the system time among these fields (field 15).
const SYSTEM: usize = 12;
/// The position of the time of the start among these fields (field 22).
const START: usize = 19;
/// The position of the number of resident pages among these fields (field 24).
const RESIDENT: usize = 21;

/// The system's facts about this process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Process {
    /// The time when it started, in seconds since 1970.
    pub start: Option<f64>,
    /// The processor time that it used, in seconds.
    pub cpu: Option<f64>,
    /// The resident memory, in bytes.
    pub resident: Option<f64>,
    pub open_fds: Option<f64>,
    pub max_fds: Option<f64>,
}

impl Process {
    /// Reads the figures of this process from the system. Those that it does not give are missing.
    pub fn read() -> Process {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // The name in parentheses may have spaces and parentheses of its own.
        let fields: Vec<&str> = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').collect()).unwrap_or_default();
        let field = |n: usize| fields.get(n)?.trim().parse::<f64>().ok();
        let ticks = clock_ticks_per_second() as f64;
        Process {
            start: field(START).and_then(|start| Some(booted()? + start / ticks)),
            cpu: field(USER).zip(field(SYSTEM)).map(|(user, system)| (user + system) / ticks),
            resident: field(RESIDENT).map(|pages| pages * page_size() as f64),
            open_fds: std::fs::read_dir("/proc/self/fd").ok().map(|all| all.count() as f64),
            max_fds: getrlimit(Resource::Nofile).current.map(|most| most as f64),
        }
    }
}

/// Returns when the system started, in seconds since 1970.
fn booted() -> Option<f64> {
    let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
    let uptime = Duration::try_from_secs_f64(uptime.split(' ').next()?.parse().ok()?).ok()?;
    Some((SystemTime::now().duration_since(UNIX_EPOCH).ok()?).checked_sub(uptime)?.as_secs_f64())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_system_knows_this_process() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        let Process { start, cpu, resident, open_fds, max_fds } = Process::read();
        let age = now - start.expect("it has a start");
        assert!((-1.0..86_400.0).contains(&age), "{age}");
        assert!(cpu.is_some_and(|cpu| (0.0..86_400.0).contains(&cpu)));
        assert!(resident.is_some_and(|bytes| (1e5..1e12).contains(&bytes)));
        assert!(open_fds.zip(max_fds).is_some_and(|(open, most)| open >= 3.0 && most >= open));
    }
}
