//! An Open vSwitch of the test's own, in user space and without privileges: its database, its daemons, and a bridge
//! whose ports are Unix sockets. It meets no other Open vSwitch of the machine.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use maple_wire::msg::{ErrorMsg, Features, FlowMod, FlowModCommand, Header, Hello};
use maple_wire::{Match, Message, Version};

use crate::skip::missing;

/// The time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The scheme of the database.
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// The number of ports of a bridge.
pub const PORTS: u32 = 4;

/// The daemons, which end when this is dropped.
pub struct Daemons {
    folder: PathBuf,
    children: Vec<Child>,
}

impl Drop for Daemons {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Daemons {
    /// Starts the daemons. Without an Open vSwitch on this machine, prints that and returns `None`.
    pub fn start() -> Option<Daemons> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("maple-switch-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut daemons = Daemons { folder, children: Vec::new() };
        let database = daemons.path("conf.db");
        if !Path::new(SCHEMA).exists() || daemons.run("ovsdb-tool", &["create", &database, SCHEMA]).is_none() {
            missing("Open vSwitch, to compare with");
            return None;
        }
        let remote = format!("--remote=punix:{}", daemons.path("db.sock"));
        daemons.spawn("ovsdb-server", &[&database, &remote, "--unixctl", &daemons.path("db.ctl")], "db.sock");
        let socket = format!("unix:{}", daemons.path("db.sock"));
        daemons.vsctl(&["--no-wait", "init"]);
        let dummy = ["--enable-dummy=override", "--disable-system", "--unixctl", &daemons.path("vs.ctl"), &socket];
        daemons.spawn("ovs-vswitchd", &dummy, "vs.ctl");
        Some(daemons)
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).to_string_lossy().into_owned()
    }

    /// Returns what the switch's daemon has said.
    fn log(&self) -> String {
        std::fs::read_to_string(self.path("ovs-vswitchd.log")).unwrap_or_default()
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        for folder in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
            command.env(folder, &self.folder);
        }
        command
    }

    /// Returns the output of a program of Open vSwitch, which finds these daemons, if it succeeds.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Option<String> {
        let output = self.command(program, arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Starts a daemon, and waits until its socket is there.
    #[allow(clippy::disallowed_methods, reason = "a test of the core, which has no clock, has this file too")]
    fn spawn(&mut self, program: &str, arguments: &[&str], socket: &str) {
        let log = std::fs::File::create(self.folder.join(format!("{program}.log"))).expect("a log");
        let child = self.command(program, arguments).stdout(Stdio::null()).stderr(log).spawn().expect("a daemon");
        self.children.push(child);
        let deadline = Instant::now() + PATIENCE;
        while !self.folder.join(socket).exists() {
            assert!(Instant::now() < deadline, "{program} does not start");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Changes or reads the configuration, by `ovs-vsctl`. Returns its output.
    pub fn vsctl(&self, arguments: &[&str]) -> String {
        let database = format!("--db=unix:{}", self.path("db.sock"));
        let all: Vec<&str> = ["--timeout=30", &database].into_iter().chain(arguments.iter().copied()).collect();
        self.run("ovs-vsctl", &all).unwrap_or_else(|| panic!("ovs-vsctl {arguments:?}"))
    }

    /// Makes a bridge with ports from 1 to [`PORTS`], and connects to it as a controller of this version.
    pub fn bridge(&self, name: &str, version: Version) -> Bridge<'_> {
        let protocol = if version == Version::Of10 { "protocols=OpenFlow10" } else { "protocols=OpenFlow13" };
        let bridge = ["add-br", name, "--", "set", "bridge", name, "datapath_type=dummy", "fail_mode=secure", protocol];
        self.vsctl(&bridge);
        let socket = |number| self.path(&format!("{name}-{number}.sock"));
        for number in 1..=PORTS {
            let port = format!("{name}-{number}");
            let (request, options) =
                (format!("ofport_request={number}"), format!("options:pstream=punix:{}", socket(number)));
            let set = ["--", "set", "interface", &port, "type=dummy", &request, &options];
            self.vsctl(&[&["add-port", name, &port], &set[..]].concat());
        }
        let connect = |path: String| {
            let stream = UnixStream::connect(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
            stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
            stream
        };
        let ports = (1..=PORTS).map(|number| connect(socket(number))).collect();
        let connection = Connection::new(connect(self.path(&format!("{name}.mgmt"))), version);
        let control = connect(self.path("vs.ctl"));
        Bridge { daemons: self, name: name.to_owned(), control, connection, ports, version }
    }
}

/// A controller's connection.
pub struct Connection {
    stream: UnixStream,
    version: Version,
    xid: u32,
    received: Vec<u8>,
}

impl Connection {
    /// Begins a connection with a hello.
    fn new(stream: UnixStream, version: Version) -> Connection {
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let mut connection = Connection { stream, version, xid: 0, received: Vec::new() };
        connection.send(&Message::Hello(Hello::offering(version as u8, &[version as u8])));
        connection
    }

    /// Sends a message. Returns its transaction id.
    pub fn send(&mut self, message: &Message) -> u32 {
        self.xid += 1;
        let bytes = message.to_bytes(self.version, self.xid).unwrap_or_else(|error| panic!("{error}: {message:?}"));
        self.stream.write_all(&bytes).expect("the bridge reads");
        self.xid
    }

    /// Waits for the next message.
    pub fn receive(&mut self) -> (Header, Message) {
        loop {
            if let Ok(Some(header)) = Header::peek(&self.received)
                && self.received.len() >= usize::from(header.length)
            {
                let rest = self.received.split_off(usize::from(header.length));
                let bytes = std::mem::replace(&mut self.received, rest);
                return Message::decode(&bytes).expect("what the switch sends is read");
            }
            let mut buffer = [0; 1 << 16];
            let count = self.stream.read(&mut buffer).expect("an answer");
            assert_ne!(count, 0, "the bridge hung up");
            self.received.extend_from_slice(&buffer[..count]);
        }
    }
}

/// A bridge.
pub struct Bridge<'a> {
    daemons: &'a Daemons,
    name: String,
    /// The daemon's control socket.
    control: UnixStream,
    connection: Connection,
    ports: Vec<UnixStream>,
    version: Version,
}

impl Bridge<'_> {
    /// Sends a message. Returns its transaction id.
    pub fn send(&mut self, message: &Message) -> u32 {
        self.connection.send(message)
    }

    /// Waits for the next message.
    pub fn receive(&mut self) -> (Header, Message) {
        self.connection.receive()
    }

    /// Connects as one more controller.
    pub fn connect(&self) -> Connection {
        self.connect_in(self.version)
    }

    /// Connects as one more controller, in a version that the bridge has.
    pub fn connect_in(&self, version: Version) -> Connection {
        let path = self.daemons.path(&format!("{}.mgmt", self.name));
        Connection::new(UnixStream::connect(&path).unwrap_or_else(|error| panic!("{path}: {error}")), version)
    }

    /// Returns the switch's features.
    pub fn features(&mut self) -> Features {
        self.send(&Message::FeaturesRequest);
        loop {
            if let (_, Message::FeaturesReply(features)) = self.receive() {
                return features;
            }
        }
    }

    /// Waits until the messages before are obeyed. Returns the errors, each with the id of the message that it is
    /// about.
    pub fn errors(&mut self) -> Vec<(u32, ErrorMsg)> {
        let barrier = self.send(&Message::BarrierRequest);
        let mut errors = Vec::new();
        loop {
            match self.receive() {
                (header, Message::BarrierReply) if header.xid == barrier => return errors,
                (header, Message::Error(error)) => errors.push((header.xid, error)),
                _ => {}
            }
        }
    }

    /// Replaces all rules by these, which must be accepted. Returns the cookie of the rule that takes this frame in a
    /// trace; `None` if no rule takes it.
    pub fn cookie_of(&mut self, rules: &[FlowMod], frame: &[u8]) -> Option<u64> {
        self.send(&Message::FlowMod(FlowMod::new(FlowModCommand::Delete, 0, Match::default(), Vec::new())));
        for rule in rules {
            self.send(&Message::FlowMod(rule.clone()));
        }
        assert_eq!(self.errors(), [], "{rules:?}");
        let hex: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
        let target = self.daemons.path("vs.ctl");
        let trace = ["--target", &target, "ofproto/trace", &self.name, "in_port=1", &hex];
        let trace = self.daemons.run("ovs-appctl", &trace).expect("a trace");
        let line = trace.lines().find(|line| line.starts_with(" 0. ")).unwrap_or_else(|| panic!("{trace}"));
        let (_, cookie) = line.split_once("cookie 0x")?;
        Some(u64::from_str_radix(cookie, 16).expect("a cookie"))
    }

    /// Sends frames into a port, at once.
    pub fn transmit(&mut self, port: u32, frames: &[&[u8]]) {
        let mut bytes = Vec::new();
        for frame in frames {
            bytes.extend((frame.len() as u16).to_be_bytes());
            bytes.extend_from_slice(frame);
        }
        self.ports[port as usize - 1].write_all(&bytes).expect("the port reads");
    }

    /// Waits for the next frame that leaves by a port.
    pub fn arrival(&mut self, port: u32) -> Vec<u8> {
        let stream = &mut self.ports[port as usize - 1];
        let mut length = [0; 2];
        stream.read_exact(&mut length).expect("a frame");
        let mut frame = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut frame).expect("a frame");
        frame
    }

    /// Lets the datapath forget how it has treated frames. Open vSwitch 3.1 does not remember all frames apart that it
    /// treats differently: for example, it takes a frame for one with another label or another priority in its tag.
    pub fn forget(&mut self) {
        let request = br#"{"id":0,"method":"dpctl/del-flows","params":["dummy@ovs-dummy"]}"#;
        self.control.write_all(request).expect("the daemon reads");
        let mut answer = Vec::new();
        while answer.last() != Some(&b'}') {
            let mut buffer = [0; 256];
            let count = self.control.read(&mut buffer).expect("an answer");
            assert_ne!(count, 0, "Open vSwitch has ended: {}", self.daemons.log());
            answer.extend_from_slice(&buffer[..count]);
        }
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.contains(r#""error":null"#), "{answer}");
    }
}
