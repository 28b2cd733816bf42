//! etcd servers for tests: real ones, each at a loopback address of its own.

use std::fs::File;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use maple_etcd::{Client, Config, Endpoint, Limits};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::skip;

/// The time that a test waits for what has to come.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// The time that a whole test may take: one that waits for what never comes fails.
const WHOLE: Duration = Duration::from_secs(600);
/// The ports of all servers. Their addresses differ.
const PORTS: [u16; 2] = [2379, 2380];

/// Returns the program: that of the system, or the one that `MAPLE_ETCD` names.
fn program() -> PathBuf {
    std::env::var_os("MAPLE_ETCD").map_or_else(|| "etcd".into(), PathBuf::from)
}

/// Reports whether there are etcd and its tool here. In CI there have to be.
pub fn is_here() -> bool {
    let runs = |mut command: Command| command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    let mut server = Command::new(program());
    server.arg("--version");
    let mut tool = Command::new("etcdctl");
    tool.env("ETCDCTL_API", "3").arg("version");
    for (name, command) in [("etcd", server), ("etcdctl", tool)] {
        if !runs(command) {
            skip::missing(name);
            return false;
        }
    }
    true
}

/// Runs a test on a thread of tokio's own.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    runtime().block_on(async { timeout(WHOLE, test).await }).expect("the test waits for what does not come")
}

pub fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Returns an address that no other server here has: it is made of the low 16 bits of the process's
/// number and of a count.
fn address() -> Ipv4Addr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    assert!(next < 64, "more servers than there are addresses for one process");
    let number = ((std::process::id() & 0xffff) << 6) + next;
    let [_, high, middle, low] = number.to_be_bytes();
    // Bit 22 keeps clear of 127.0.0.1.
    Ipv4Addr::new(127, high | 0x40, middle, low)
}

/// Some servers that are one etcd.
pub struct Etcd {
    pub servers: Vec<Server>,
    _folder: TempDir,
}

/// One server.
pub struct Server {
    pub endpoint: Endpoint,
    arguments: Vec<String>,
    log: PathBuf,
    child: Option<Child>,
}

impl Etcd {
    /// Starts this number of servers.
    pub fn start(count: usize) -> Etcd {
        Etcd::start_with(count, "http", |_, _| Vec::new())
    }

    /// Starts this number of servers, each with the arguments that `more` returns for its number and address.
    pub fn start_with(count: usize, scheme: &str, more: impl Fn(usize, Ipv4Addr) -> Vec<String>) -> Etcd {
        let folder = tempfile::tempdir().expect("a folder");
        let addresses: Vec<_> = (0..count).map(|_| address()).collect();
        let [client, peer] = PORTS;
        let cluster: Vec<_> = (0..count).map(|n| format!("n{n}=http://{}:{peer}", addresses[n])).collect();
        let server = |n: usize| {
            let (at, data) = (addresses[n], folder.path().join(format!("n{n}")));
            let mut arguments = vec![
                format!("--name=n{n}"),
                format!("--data-dir={}", data.display()),
                format!("--listen-client-urls={scheme}://{at}:{client}"),
                format!("--advertise-client-urls={scheme}://{at}:{client}"),
                format!("--listen-peer-urls=http://{at}:{peer}"),
                format!("--initial-advertise-peer-urls=http://{at}:{peer}"),
                format!("--initial-cluster={}", cluster.join(",")),
                "--max-request-bytes=1572864".into(),
            ];
            arguments.extend(more(n, at));
            let log = folder.path().join(format!("n{n}.log"));
            Server { endpoint: Endpoint { host: at.to_string(), port: client }, arguments, log, child: None }
        };
        let mut etcd = Etcd { servers: (0..count).map(server).collect(), _folder: folder };
        etcd.servers.iter_mut().for_each(Server::start);
        etcd
    }

    /// Returns the configuration for a client that begins with this server.
    pub fn config(&self, first: usize) -> Config {
        let mut endpoints: Vec<_> = self.servers.iter().map(|server| server.endpoint.clone()).collect();
        endpoints.rotate_left(first);
        Config { limits: Limits { request: Duration::from_secs(20), ..Limits::default() }, ..Config::new(endpoints) }
    }

    /// Creates a client that begins with the first server, when the servers have a leader.
    pub async fn client(&self) -> Client {
        let client = Client::new(self.config(0));
        until(async || client.get(b"ready").await.is_ok()).await;
        client
    }

    /// Runs etcd's own tool.
    pub fn control(&self, arguments: &[&str]) {
        let endpoint = format!("--endpoints={}", self.servers[0].endpoint);
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").arg(endpoint).arg("--command-timeout=60s").args(arguments);
        let output = command.output().expect("etcdctl is of Debian's etcd-client");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
}

impl Server {
    pub fn start(&mut self) {
        let log = File::options().create(true).append(true).open(&self.log).expect("a log");
        let errors = log.try_clone().expect("a log");
        // A test that is killed does not leave it running.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(program());
        command.args(&self.arguments).stdout(log).stderr(errors).stdin(Stdio::null());
        self.child = Some(command.spawn().expect("etcd starts"));
    }

    /// Kills the server, and waits until it is gone.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("it is ours");
        child.wait().expect("it ends");
    }

    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    pub fn wake(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("it runs");
        kill_process(Pid::from_child(child), signal).expect("it is ours");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}: {}", self.endpoint, std::fs::read_to_string(&self.log).unwrap_or_default());
        }
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself. A panic here would hide the test's own.
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}

/// Waits until something holds.
pub async fn until(mut holds: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < end, "it has not come within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
