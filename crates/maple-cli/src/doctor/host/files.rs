//! Files of a controller: control sockets without a listener, and a state file that it may not write.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::ask_programs::within;
use super::{DoctorReport, Finding, FindingId, Process, Severity};
use maple_controller::control::doctor::quoted;

/// The maximum time for a connection to a socket where many wait already. Chosen: a controller that works accepts
/// within milliseconds, and a person waits for the report.
const TIME_LIMIT: Duration = Duration::from_secs(2);
/// The folder where a service keeps its state.
const SERVICE_FOLDER: &str = "/var/lib/maple";
/// The user that writes it.
const SERVICE_USER: &str = "maple";
/// The remedy for a folder that does not belong to the user.
const OTHER_FOLDER: &str = "maple run POLICY --state /var/lib/maple/state.redb";

/// Finds sockets at these places on which nobody listens.
pub fn look_at_control_sockets(places: &BTreeSet<PathBuf>, report: &mut DoctorReport) {
    for path in places {
        let Ok(found) = std::fs::symlink_metadata(path) else { continue };
        if !found.file_type().is_socket() {
            continue;
        }
        let place = path.clone();
        let connected = within(TIME_LIMIT, move || UnixStream::connect(place));
        match connected.unwrap_or(Err(ErrorKind::TimedOut.into())) {
            Ok(_) => report.add_checked(format!("the control socket {}", path.display())),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                report.add_checked(format!("the control socket {}", path.display()));
                report.add(stale(path));
            }
            Err(error) => report.add_unchecked(format!("the control socket {}", path.display()), error.to_string()),
        }
    }
}

fn stale(path: &Path) -> Finding {
    Finding::new(Severity::Warning, FindingId::StaleSocket, format!("control socket {}", path.display()))
        .what("nobody listens on it: its controller was killed")
        .consequence(
            "`maple show` asks there and not at the socket of the system's controller, and says that there is none",
        )
        .mend(format!("rm {}", quoted(path)))
}

/// Checks whether the controller's user may write its state file. Without a process that is the service's user in the
/// service's folder, and otherwise the current user.
pub fn look_at_state_file(path: &Path, process: Option<&Process>, report: &mut DoctorReport) {
    let what = format!("the state file {}", path.display());
    let user = match process {
        Some(process) => Some(process.user.clone()),
        None if path.starts_with(SERVICE_FOLDER) => service_user(),
        None => Process::read(std::process::id()).map(|own| own.user),
    };
    let Some((user, groups)) = user else {
        return report.add_unchecked(what, "it is not known which user writes it");
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let may = |path: &Path, wanted: u32| std::fs::metadata(path).map(|found| allows(&found, user, &groups, wanted));
    let is_service = path.starts_with(SERVICE_FOLDER);
    let (place, own) = (quoted(folder), quoted(path));
    let (why, mend) = match (may(folder, 0o3), may(path, 0o6)) {
        (Err(error), _) if error.kind() == ErrorKind::NotFound => {
            (format!("there is no folder {}", folder.display()), format!("install -d -m 700 -o {user} {place}"))
        }
        (Err(error), _) => return report.add_unchecked(what, error.to_string()),
        // The ownership of a folder that others use is not changed.
        (Ok(false), _) => (
            format!("user {user} may not make files in {}", folder.display()),
            if is_service { format!("chown {user} {place}") } else { OTHER_FOLDER.to_owned() },
        ),
        (Ok(true), Ok(false)) => (format!("user {user} may not write it"), format!("chown {user} {own}")),
        (Ok(true), Err(error)) if error.kind() != ErrorKind::NotFound => {
            return report.add_unchecked(what, error.to_string());
        }
        (Ok(true), _) => return report.add_checked(what),
    };
    report.add_checked(what);
    report.add(
        Finding::new(Severity::Error, FindingId::StateFile, format!("state file {}", path.display()))
            .what(why)
            .consequence("the controller does not start, or what it decides is not kept over a restart")
            .mend(mend),
    );
}

/// Reports whether a mode gives a user these rights. Root has all.
fn allows(found: &Metadata, user: u32, groups: &[u32], wanted: u32) -> bool {
    let shift = match () {
        () if user == 0 => return true,
        () if found.uid() == user => 6,
        () if groups.contains(&found.gid()) => 3,
        () => 0,
    };
    found.mode() >> shift & wanted == wanted
}

/// Returns the service's user and its group from `/etc/passwd`.
fn service_user() -> Option<(u32, Vec<u32>)> {
    user_of(&std::fs::read_to_string("/etc/passwd").ok()?, SERVICE_USER)
}

fn user_of(passwd: &str, name: &str) -> Option<(u32, Vec<u32>)> {
    let mut fields =
        passwd.lines().map(|line| line.split(':')).find_map(|mut line| (line.next() == Some(name)).then_some(line))?;
    let (user, group) = (fields.nth(1)?, fields.next()?);
    Some((user.parse().ok()?, vec![group.parse().ok()?]))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_socket_without_a_listener_is_stale() {
        let folder = tempfile::tempdir().expect("a folder");
        let [live, old, none] = ["live", "it's old", "none"].map(|name| folder.path().join(name));
        let _listener = UnixListener::bind(&live).expect("a socket");
        drop(UnixListener::bind(&old).expect("a socket"));
        let mut report = DoctorReport::default();
        look_at_control_sockets(&BTreeSet::from([live, old, none]), &mut report);
        let texts: Vec<String> = report.findings().iter().map(|one| one.plain()).collect();
        assert_eq!(texts.len(), 1);
        assert!(texts[0].contains("it'\\''s old'\n"), "{}", texts[0]);
        assert_eq!(report.checked().len(), 2);
    }

    #[test]
    fn rights_are_those_of_the_owner_the_group_or_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let rights = |mode, user, groups: &[u32], wanted| {
            std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).expect("it is ours");
            allows(&std::fs::metadata(&folder).expect("it is there"), user, groups, wanted)
        };
        let owner = std::fs::metadata(&folder).expect("it is there");
        let (user, group, other) = (owner.uid(), owner.gid(), owner.uid() + 1);
        assert!(rights(0o700, user, &[], 0o3) && !rights(0o700, other, &[], 0o3));
        assert!(rights(0o770, other, &[group], 0o3) && !rights(0o750, other, &[group], 0o3));
        assert!(rights(0o777, other, &[], 0o3) && rights(0o000, 0, &[], 0o3));
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).expect("it is ours");
    }

    #[test]
    fn a_folder_that_is_missing_is_an_error() {
        let mut report = DoctorReport::default();
        look_at_state_file(Path::new("/nonexistent/maple/state"), None, &mut report);
        let text = report.findings()[0].plain();
        assert!(text.contains("there is no folder /nonexistent/maple\n"), "{text}");
        assert!(text.contains(" /nonexistent/maple\n  page"), "only that folder is made: {text}");
    }

    #[test]
    fn users_are_found_by_name() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\nmaple:x:998:997::/var/lib/maple:/usr/sbin/nologin\n";
        assert_eq!(user_of(passwd, "maple"), Some((998, vec![997])));
        assert_eq!(user_of(passwd, "nobody"), None);
    }
}
