//! The interface to a service manager such as systemd: sd_notify(3), sd_listen_fds(3).

use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anyhow::Context as _;
use listenfd::ListenFd;
use maple_controller::{HandedListener, Handle};
use sd_notify::NotifyState;

/// The time after which shards that did not answer in time are asked again. It must be a small part of the period of a
/// service manager's watchdog, which is 30 s in the unit that Maple has.
const RETRY: Duration = Duration::from_millis(100);

/// Notifies the service manager, if there is one: `READY=1`. A failed notification is ignored.
pub fn notify(state: &str) {
    if let Err(error) = sd_notify::notify(&[NotifyState::Custom(state)]) {
        tracing::warn!(%error, "can't tell the service manager");
    }
}

/// Returns the sockets that the service manager has opened for this program. Connections to those with the name `tls`
/// (`FileDescriptorName=`) begin with TLS. They replace `--listen`.
///
/// # Errors
/// If one is not a listening TCP socket.
pub fn listeners() -> anyhow::Result<Vec<HandedListener>> {
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let mut given = ListenFd::from_env();
    let count = given.len();
    let mut take = |index| {
        let socket = given.take_tcp_listener(index).context("a socket of the service manager")?;
        let socket = socket.context("a socket of the service manager is missing")?;
        Ok(HandedListener { socket, has_tls: names.next() == Some("tls") })
    };
    (0..count).map(&mut take).collect()
}

/// Returns the path of a file in the folder that this variable names, such as `$STATE_DIRECTORY`. If it names several,
/// the first is used.
pub fn in_folder(variable: &str, file: &str) -> Option<PathBuf> {
    let folders = std::env::var(variable).ok()?;
    let first = folders.split(':').next().filter(|folder| !folder.is_empty())?;
    Some(PathBuf::from(first).join(file))
}

/// Returns the state file of a service.
pub fn state_file() -> Option<PathBuf> {
    in_folder("STATE_DIRECTORY", "state.redb")
}

/// Notifies the service manager regularly that the program is alive, as long as all shards answer.
pub struct Watchdog {
    /// The end of the channel whose closing ends the thread.
    _end: Option<Sender<()>>,
}

impl Watchdog {
    /// Starts, if the service manager has a watchdog.
    pub fn start(handle: &Handle) -> Watchdog {
        let Some(period) = period() else { return Watchdog { _end: None } };
        let ((end, ended), handle) = (channel::<()>(), handle.clone());
        let watch = move || {
            let mut wait = period;
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                // A shard may only be slow: it is asked again soon.
                wait = if handle.operations().is_alive() { period } else { period.min(RETRY) };
                if wait == period {
                    notify("WATCHDOG=1");
                }
            }
        };
        match std::thread::Builder::new().name("watchdog".into()).spawn(watch) {
            Ok(_) => Watchdog { _end: Some(end) },
            Err(error) => {
                tracing::error!(%error, "can't serve the watchdog");
                Watchdog { _end: None }
            }
        }
    }
}

/// Returns half of the time after which the service manager would end the program.
fn period() -> Option<Duration> {
    sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero()).map(|limit| limit / 2)
}
