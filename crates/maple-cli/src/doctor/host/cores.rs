//! The controller's cores: whether each worker has one, and its share of it.

use std::collections::BTreeMap;
use std::path::Path;

use maple_wire::parse_hex;

use super::{DoctorReport, Finding, FindingId, Process, Severity};

/// The folder of control groups (version 2).
const GROUPS: &str = "/sys/fs/cgroup";

/// Checks the cores of a controller with this number of workers. `busy`: a mask of cores that Open vSwitch occupies.
pub fn look(process: Option<&Process>, workers: usize, busy: Option<&str>, report: &mut DoctorReport) {
    let Some(process) = process else { return };
    report.add_checked(format!(
        "the cores of the controller, which has {workers} {}",
        if workers == 1 { "worker" } else { "workers" }
    ));
    report.extend(shared(process, workers));
    report.extend(busy.and_then(|mask| polled(process, mask)));
    match process.cgroup.as_deref() {
        Some(group) if Path::new(GROUPS).join(group.trim_start_matches('/')).is_dir() => {
            report.extend(quota(Path::new(GROUPS), group).and_then(|cores| limited(cores, workers)));
        }
        _ => report.add_unchecked("the quota of processor time", "the control group of the controller can't be read"),
    }
}

/// Finds workers that may only run on the same core, or more workers than cores.
fn shared(process: &Process, workers: usize) -> Option<Finding> {
    let mut pinned: BTreeMap<usize, usize> = BTreeMap::new();
    for cores in &process.shards {
        if let [core] = cores[..] {
            *pinned.entry(core).or_default() += 1;
        }
    }
    let cores = &process.cores;
    let crowded = pinned.iter().find(|(_, count)| **count > 1);
    let what = match crowded {
        Some((core, count)) => format!("{count} of its {workers} workers stay on core {core}"),
        None if workers > cores.len() && !cores.is_empty() => {
            format!("its {workers} workers have {} cores", cores.len())
        }
        None => return None,
    };
    Some(
        Finding::new(Severity::Warning, FindingId::CoresShared, "the controller")
            .what(what)
            .consequence("workers wait for each other's turns, and packets of their switches with them")
            .mend(format!("maple run POLICY --workers {}", cores.len().max(1))),
    )
}

/// Finds workers on cores that polling threads of Open vSwitch never leave.
fn polled(process: &Process, mask: &str) -> Option<Finding> {
    let busy = cores_of(mask)?;
    let is_lost = |cores: &Vec<usize>| !cores.is_empty() && cores.iter().all(|core| busy.contains(core));
    let lost = process.shards.iter().filter(|cores| is_lost(cores)).count();
    let free: Vec<String> = process.cores.iter().filter(|core| !busy.contains(core)).map(ToString::to_string).collect();
    (lost > 0).then(|| {
        Finding::new(Severity::Warning, FindingId::CoresShared, "the controller")
            .what(format!(
                "{lost} of its workers stay on cores that Open vSwitch polls all the time (pmd-cpu-mask {mask})"
            ))
            .consequence("they have half of a core at best, and packets wait")
            .mend(format!("maple run POLICY --cores {}", if free.is_empty() { "N".to_owned() } else { free.join(",") }))
    })
}

/// Returns the numbers of the bits that are set in a mask of hex digits.
fn cores_of(mask: &str) -> Option<Vec<usize>> {
    let bits = parse_hex::<u128>(mask.trim_start_matches("0x"))?;
    Some((0..128).filter(|bit| bits >> bit & 1 == 1).collect())
}

/// Returns the maximum processor time, in cores, that a control group and its ancestors may use.
fn quota(root: &Path, group: &str) -> Option<f64> {
    let folders = Path::new(group.trim_start_matches('/')).ancestors();
    let read_quota = |folder: &Path| parse_quota(&std::fs::read_to_string(root.join(folder).join("cpu.max")).ok()?);
    folders.filter_map(read_quota).min_by(f64::total_cmp)
}

/// Parses `200000 100000`, which means two cores. `max` means no limit.
fn parse_quota(text: &str) -> Option<f64> {
    let mut numbers = text.split_whitespace().map(str::parse::<f64>);
    let (quota, period) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    (period > 0.0).then(|| quota / period)
}

fn limited(cores: f64, workers: usize) -> Option<Finding> {
    (cores < workers as f64).then(|| {
        Finding::new(Severity::Warning, FindingId::CpuQuota, "the controller")
            .what(format!("it may use {cores:.1} cores' time, and has {workers} workers"))
            .consequence(
                "when they are busy, the kernel stops all of them for some hundredths of a second, again and again",
            )
            .mend(format!("systemctl set-property maple CPUQuota={}%", workers * 100))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_and_masks_are_read() {
        assert_eq!(parse_quota("150000 100000\n"), Some(1.5));
        assert_eq!(parse_quota("max 100000\n"), None);
        assert_eq!(cores_of("0x6"), Some(vec![1, 2]));
        assert_eq!(cores_of("f0"), Some(vec![4, 5, 6, 7]));
        assert_eq!(cores_of("all"), None);
        assert!(limited(1.5, 2).is_some() && limited(2.0, 2).is_none());
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        std::fs::create_dir_all(root.join("system.slice/maple.service")).expect("a folder");
        std::fs::write(root.join("system.slice/cpu.max"), "50000 100000\n").expect("a file");
        std::fs::write(root.join("system.slice/maple.service/cpu.max"), "max 100000\n").expect("a file");
        assert_eq!(quota(root, "/system.slice/maple.service"), Some(0.5), "that of the group around it");
        assert_eq!(quota(root, "/other"), None);
    }
}
