//! Access control for the control socket: its folder, its mode, and the users that it talks to.
//!
//! Under `/tmp` anyone could create a socket or a folder with the name that Maple uses. So the default place is a
//! folder that only this user can enter. The folder's owner and mode are checked, and a symbolic link is refused. The
//! socket is created in a private folder and then moved, so it never exists with a mode that others could use. Both
//! ends also check the other's user: they talk only to the same user and to root.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use rustix::process::geteuid;

/// Returns the default folder of control sockets: `maple` in `$XDG_RUNTIME_DIR`; without that, `/run/maple` for root
/// and `/tmp/maple-UID` for other users.
pub(super) fn folder() -> PathBuf {
    let user = geteuid();
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder).join("maple"),
        None if user.is_root() => PathBuf::from("/run/maple"),
        None => PathBuf::from(format!("/tmp/maple-{}", user.as_raw())),
    }
}

/// Creates a folder that only this user can enter. An existing folder is checked instead.
///
/// # Errors
/// The system's; or `PermissionDenied` if it is not a folder, belongs to another user, or is open to others.
pub(super) fn create_private_folder(folder: &Path) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = std::fs::symlink_metadata(folder)?;
    let refuse = |why| Err(io::Error::new(ErrorKind::PermissionDenied, format!("{} {why}", folder.display())));
    if !found.file_type().is_dir() {
        return refuse("is not a folder".to_owned());
    }
    if found.uid() != geteuid().as_raw() {
        return refuse(format!("belongs to user {}", found.uid()));
    }
    if found.mode() & 0o077 != 0 {
        return refuse(format!("is open to other users (mode {:03o})", found.mode() & 0o777));
    }
    Ok(())
}

/// Creates a socket at `path` that only this user can ever use. Replaces a socket that is there.
///
/// # Errors
/// The system's; or `AlreadyExists` if something other than a socket is there.
pub(super) fn bind(path: &Path) -> io::Result<UnixListener> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(io::Error::new(ErrorKind::AlreadyExists, "it exists and is not a socket"));
        }
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let temporary = TemporaryFolder::new(parent)?;
    let socket = temporary.0.join("s");
    let listener = UnixListener::bind(&socket)?;
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o600))?;
    std::fs::rename(&socket, path)?;
    Ok(listener)
}

/// A private folder that exists while a socket is created.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new(parent: &Path) -> io::Result<TemporaryFolder> {
        let own = std::process::id();
        for n in 0u8..=u8::MAX {
            let folder = parent.join(format!(".maple-{own}-{n}"));
            match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => return Ok(TemporaryFolder(folder)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::debug!(path = %self.0.display(), %error, "can't remove a folder");
        }
    }
}

/// The process at the other end of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PeerProcess {
    /// The process id. A process in another container has the id 0 here.
    pub pid: u32,
    /// The user's id.
    pub user: u32,
}

impl PeerProcess {
    /// Reads the process at the other end of a socket.
    ///
    /// # Errors
    /// The system's error if the socket does not report it.
    pub fn from_socket(socket: impl AsFd) -> io::Result<PeerProcess> {
        // rustix takes the process id 0 for an error.
        let peer = getsockopt(&socket, PeerCredentials)?;
        Ok(PeerProcess { pid: peer.pid().unsigned_abs(), user: peer.uid() })
    }

    /// Reports whether the process belongs to this user or to root.
    pub fn is_trusted(self) -> bool {
        is_trusted(self.user, geteuid().as_raw())
    }
}

/// Returns the user at the other end of a socket, if it is neither this user nor root.
///
/// # Errors
/// The system's error if the socket does not report its peer.
pub(super) fn untrusted_peer(socket: impl AsFd) -> io::Result<Option<u32>> {
    let peer = PeerProcess::from_socket(socket)?;
    Ok((!peer.is_trusted()).then_some(peer.user))
}

/// Returns the id of the process that listens on a socket, as it is numbered here.
///
/// # Errors
/// The system's error if the socket does not report its peer.
pub(super) fn peer_process(socket: impl AsFd) -> io::Result<u32> {
    Ok(PeerProcess::from_socket(socket)?.pid)
}

/// The folder of the control socket of a controller that the system runs.
pub(super) const SYSTEM_FOLDER: &str = "/run/maple";

/// Reports whether this user runs the system's controller, and root asks. Only root can have made the folder for that
/// user.
pub(super) fn is_system_service(socket: &Path, user: u32) -> bool {
    let folder = Path::new(SYSTEM_FOLDER);
    let owner = |path: &Path| std::fs::symlink_metadata(path).ok().filter(|found| found.is_dir());
    let is_roots = |found: std::fs::Metadata| found.uid() == 0 && found.mode() & 0o022 == 0;
    geteuid().is_root()
        && socket.parent() == Some(folder)
        && folder.parent().and_then(owner).is_some_and(is_roots)
        && owner(folder).is_some_and(|found| found.uid() == user)
}

fn is_trusted(peer: u32, own: u32) -> bool {
    peer == own || peer == 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn a_folder_is_created_for_its_owner_alone_or_reused() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("own");
        create_private_folder(&own).unwrap();
        assert_eq!(mode(&own), 0o700);
        create_private_folder(&own).unwrap();
    }

    #[test]
    fn a_folder_of_another_user_or_open_to_others_or_a_link_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (open, link, file) = (folder.path().join("open"), folder.path().join("link"), folder.path().join("file"));
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o750)).unwrap();
        create_private_folder(&folder.path().join("own")).unwrap();
        symlink(folder.path().join("own"), &link).unwrap();
        std::fs::write(&file, "").unwrap();
        let mut refused =
            vec![(open, "is open to other users (mode 750)"), (link, "is not a folder"), (file, "is not a folder")];
        if geteuid().is_root() {
            let foreign = folder.path().join("foreign");
            create_private_folder(&foreign).unwrap();
            std::os::unix::fs::chown(&foreign, Some(12345), None).unwrap();
            refused.push((foreign, "belongs to user 12345"));
        } else {
            refused.push((PathBuf::from("/root"), "belongs to user 0"));
        }
        for (path, why) in refused {
            let error = create_private_folder(&path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::PermissionDenied);
            assert!(error.to_string().ends_with(why), "{error}");
        }
    }

    #[test]
    fn a_socket_is_private_and_replaces_only_a_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        drop(bind(&path).unwrap());
        let listener = bind(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
        let client = UnixStream::connect(&path).unwrap();
        assert_eq!(
            (untrusted_peer(&client).unwrap(), untrusted_peer(listener.accept().unwrap().0).unwrap()),
            (None, None)
        );
        let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["control.sock"], "no temporary folder is left");
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "kept").unwrap();
        symlink(&file, &link).unwrap();
        for other in [&file, &link] {
            assert_eq!(bind(other).unwrap_err().kind(), ErrorKind::AlreadyExists);
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
    }

    #[test]
    fn only_the_same_user_and_root_are_spoken_with() {
        let trusted =
            [(1000, 1000), (0, 1000), (0, 0), (1000, 0), (1001, 1000)].map(|(peer, own)| is_trusted(peer, own));
        assert_eq!(trusted, [true, true, true, false, false]);
    }
}
