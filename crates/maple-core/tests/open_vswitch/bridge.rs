//! A bridge of a real Open vSwitch, and a controller's connection to it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use maple_wire::msg::{ErrorMsg, Features, FlowMod, FlowModCommand, Header, Hello};
use maple_wire::{Match, Message, Version};

use crate::skip::missing;

/// The time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A bridge in user space with one port, number 1, which is deleted when it is dropped.
pub struct Bridge {
    name: String,
    connection: UnixStream,
    version: Version,
    xid: u32,
    received: Vec<u8>,
}

impl Drop for Bridge {
    fn drop(&mut self) {
        run("ovs-vsctl", &["--timeout=30", "--if-exists", "del-br", &self.name]);
    }
}

impl Bridge {
    /// Makes the bridge and connects in this version. Without an Open vSwitch that this user may configure, prints that
    /// and returns `None`.
    pub fn new(name: &str, version: Version) -> Option<Bridge> {
        if run("ovs-vsctl", &["--timeout=30", "show"]).is_none() {
            missing("an Open vSwitch that this user may configure");
            return None;
        }
        let port = format!("{name}-1");
        #[rustfmt::skip]
        let arguments = [
            "--timeout=30", "--if-exists", "del-br", name, "--", "add-br", name, "--", "set", "bridge", name,
            "datapath_type=netdev", "fail_mode=secure", "protocols=OpenFlow10,OpenFlow13", "--", "add-port", name,
            &port, "--", "set", "interface", &port, "type=internal", "ofport_request=1",
        ];
        run("ovs-vsctl", &arguments).expect("the bridge is made");
        let folder =
            std::env::var_os("OVS_RUNDIR").map_or_else(|| PathBuf::from("/var/run/openvswitch"), PathBuf::from);
        let connection = UnixStream::connect(folder.join(format!("{name}.mgmt"))).expect("the bridge listens");
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut bridge = Bridge { name: name.to_owned(), connection, version, xid: 0, received: Vec::new() };
        bridge.send(&Message::Hello(Hello::offering(version as u8, &[version as u8])));
        Some(bridge)
    }

    /// Returns the switch's features.
    pub fn features(&mut self) -> Features {
        let xid = self.send(&Message::FeaturesRequest);
        loop {
            if let (header, Message::FeaturesReply(features)) = self.receive() {
                assert_eq!(header.xid, xid);
                return features;
            }
        }
    }

    /// Sends flow-mods and waits for a barrier. Returns the errors, each with the index of its flow-mod.
    pub fn flow_mods(&mut self, flow_mods: &[FlowMod]) -> Vec<(usize, ErrorMsg)> {
        let first = self.xid + 1;
        for flow_mod in flow_mods {
            self.send(&Message::FlowMod(flow_mod.clone()));
        }
        let barrier = self.send(&Message::BarrierRequest);
        let mut errors = Vec::new();
        loop {
            match self.receive() {
                (header, Message::BarrierReply) if header.xid == barrier => return errors,
                (header, Message::Error(error)) => errors.push(((header.xid - first) as usize, error)),
                _ => {}
            }
        }
    }

    /// Replaces all rules by these, which must be accepted. Returns the cookie of the rule that takes this frame in a
    /// trace; `None` if no rule takes it.
    pub fn cookie_of(&mut self, rules: &[FlowMod], frame: &[u8]) -> Option<u64> {
        let clear = FlowMod::new(FlowModCommand::Delete, 0, Match::default(), Vec::new());
        let all: Vec<FlowMod> = [clear].into_iter().chain(rules.iter().cloned()).collect();
        assert_eq!(self.flow_mods(&all), [], "{rules:?}");
        let hex: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
        let trace = run("ovs-appctl", &["ofproto/trace", &self.name, "in_port=1", &hex]).expect("a trace");
        let line = trace.lines().find(|line| line.starts_with(" 0. ")).unwrap_or_else(|| panic!("{trace}"));
        let (_, cookie) = line.split_once("cookie 0x")?;
        Some(u64::from_str_radix(cookie, 16).expect("a cookie"))
    }

    fn send(&mut self, message: &Message) -> u32 {
        self.xid += 1;
        let mut bytes = Vec::new();
        message.encode(self.version, self.xid, &mut bytes).unwrap_or_else(|error| panic!("{error}: {message:?}"));
        self.connection.write_all(&bytes).expect("the bridge reads");
        self.xid
    }

    fn receive(&mut self) -> (Header, Message) {
        loop {
            if let Ok(Some(header)) = Header::peek(&self.received)
                && self.received.len() >= usize::from(header.length)
            {
                let rest = self.received.split_off(usize::from(header.length));
                let bytes = std::mem::replace(&mut self.received, rest);
                return Message::decode(&bytes).expect("what the switch sends is read");
            }
            let mut buffer = [0; 4096];
            let count = self.connection.read(&mut buffer).expect("an answer");
            assert_ne!(count, 0, "the bridge hung up");
            self.received.extend_from_slice(&buffer[..count]);
        }
    }
}

/// Returns the output of a program, if it succeeds.
fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
