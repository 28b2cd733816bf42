//! A process, as `/proc` describes it.

use procfs::process::{self, LimitValue, Status};

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// The effective user, and its groups.
    pub user: (u32, Vec<u32>),
    /// The maximum number of files that it may have open, if that can be read.
    pub open_files: Option<u64>,
    /// The cores that the process may use.
    pub cores: Vec<usize>,
    /// The cores that each shard's thread may use.
    pub shards: Vec<Vec<usize>>,
    /// Its control group (version 2).
    pub cgroup: Option<String>,
}

impl Process {
    /// Reads the process; `None` if it does not exist, or is hidden.
    pub fn read(pid: u32) -> Option<Process> {
        let process = process::Process::new(i32::try_from(pid).ok()?).ok()?;
        let status = process.status().ok()?;
        let open_files = process.limits().ok().map(|limits| match limits.max_open_files.soft_limit {
            LimitValue::Unlimited => u64::MAX,
            LimitValue::Value(number) => number,
        });
        let threads = process.tasks().into_iter().flatten().flatten().filter_map(|thread| thread.status().ok());
        let shards = threads.filter(|status| status.name.starts_with("shard-")).map(|status| allowed(&status));
        let groups = process.cgroups().map_or(Vec::new(), |groups| groups.0);
        Some(Process {
            cores: allowed(&status),
            open_files,
            shards: shards.collect(),
            cgroup: groups.into_iter().find(|group| group.hierarchy == 0).map(|group| group.pathname),
            user: (status.euid, [vec![status.egid], status.groups].concat()),
        })
    }
}

/// Returns the cores that a process or thread may use.
fn allowed(status: &Status) -> Vec<usize> {
    let ranges = status.cpus_allowed_list.iter().flatten();
    ranges.flat_map(|(first, last)| *first as usize..=*last as usize).collect()
}

#[cfg(test)]
mod tests {
    use rustix::process::{Resource, getegid, geteuid, getrlimit};

    use super::*;

    #[test]
    fn this_process_is_read_and_no_other_number() {
        let own = Process::read(std::process::id()).expect("it is there");
        assert_eq!((own.user.0, own.user.1[0]), (geteuid().as_raw(), getegid().as_raw()));
        assert_eq!(own.open_files, Some(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)));
        assert_eq!(own.cores.len(), std::thread::available_parallelism().expect("some").get());
        assert!(own.shards.is_empty());
        assert!(Process::read(u32::MAX).is_none());
    }

    #[test]
    fn ranges_of_cores_are_read() {
        let mut status = process::Process::myself().and_then(|own| own.status()).expect("it is there");
        status.cpus_allowed_list = Some(vec![(0, 2), (5, 5)]);
        assert_eq!(allowed(&status), [0, 1, 2, 5]);
    }
}
