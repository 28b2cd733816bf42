//! A process, as `/proc` describes it.

use std::path::PathBuf;

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    status: String,
    limits: Option<String>,
    cgroup: Option<String>,
    /// The cores that each shard's thread may use.
    shards: Vec<Vec<usize>>,
}

impl Process {
    /// Reads the process; `None` if it does not exist, or is hidden.
    pub fn read(pid: u32) -> Option<Process> {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let file = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
        let status = file("status")?;
        let threads = std::fs::read_dir(folder.join("task")).into_iter().flatten().flatten();
        let thread = |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("status")).ok();
        let is_shard = |status: &String| value(status, "Name").is_some_and(|name| name.starts_with("shard-"));
        let shards = threads.filter_map(thread).filter(is_shard).map(|status| allowed(&status)).collect();
        Some(Process { status, limits: file("limits"), cgroup: file("cgroup"), shards })
    }

    /// The maximum number of files that it may have open.
    pub fn open_files(&self) -> Option<u64> {
        open_files(self.limits.as_ref()?)
    }

    /// The effective user, and its groups.
    pub fn user(&self) -> Option<(u32, Vec<u32>)> {
        let numbers = |name| -> Option<Vec<u32>> {
            Some(value(&self.status, name)?.split_whitespace().filter_map(|number| number.parse().ok()).collect())
        };
        // In each of these lines the second number is the effective one.
        let (user, group) = (*numbers("Uid")?.get(1)?, *numbers("Gid")?.get(1)?);
        Some((user, [vec![group], numbers("Groups").unwrap_or_default()].concat()))
    }

    /// The cores that the process may use.
    pub fn cores(&self) -> Vec<usize> {
        allowed(&self.status)
    }

    /// The cores that each shard may use.
    pub fn shards(&self) -> &[Vec<usize>] {
        &self.shards
    }

    /// Its control group (version 2).
    pub fn cgroup(&self) -> Option<&str> {
        self.cgroup.as_ref()?.lines().find_map(|line| line.strip_prefix("0::"))
    }
}

/// Returns the soft limit of open files in `/proc/PID/limits`.
fn open_files(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

fn allowed(status: &str) -> Vec<usize> {
    value(status, "Cpus_allowed_list").map(core_list).unwrap_or_default()
}

fn value<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let (_, value) = status.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| *key == name)?;
    Some(value.trim())
}

/// Parses `0-3,8`.
fn core_list(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tmaple\nUmask:\t0022\nUid:\t0\t998\t998\t998\nGid:\t0\t997\t997\t997\nGroups:\t10 20 \n\
                          Cpus_allowed:\tf\nCpus_allowed_list:\t0-2,5\n";

    #[test]
    fn the_user_the_cores_and_the_limits_are_read() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max processes             7823                 7823                 processes \n\
                      Max open files            1024                 524288               files     \n";
        let cgroup = Some("1:name=x:/old\n0::/system.slice/maple.service\n".to_owned());
        let process = Process { status: STATUS.into(), limits: Some(limits.into()), cgroup, ..Process::default() };
        assert_eq!(process.user(), Some((998, vec![997, 10, 20])));
        assert_eq!(process.cores(), [0, 1, 2, 5]);
        assert_eq!(process.open_files(), Some(1024));
        assert_eq!(process.cgroup(), Some("/system.slice/maple.service"));
        assert_eq!(open_files("Max open files  unlimited  unlimited  files"), Some(u64::MAX));
        assert_eq!(Process::default().user(), None);
    }

    #[test]
    fn this_process_is_there_and_no_other_number() {
        let own = Process::read(std::process::id()).expect("it is there");
        assert!(own.open_files().is_some() && own.user().is_some() && !own.cores().is_empty());
        assert!(Process::read(u32::MAX).is_none());
    }
}
