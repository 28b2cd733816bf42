"""What system tests are made of: a controller process, a Mininet network, and views of both."""

import functools
import json
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

from mininet.net import Mininet
from mininet.node import OVSSwitch, RemoteController

ROOT = Path(__file__).resolve().parents[2]
MAPLE = os.environ.get("MAPLE", str(ROOT / ".venv/bin/maple"))


def sh(*command, check=True):
    """Output of a command on this machine."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def start_openvswitch():
    """Starts the daemons if there are none; gives the pids of those it started."""
    if subprocess.run(["ovs-vsctl", "--timeout=5", "show"], capture_output=True, check=False).returncode == 0:
        return []
    ctl = "/usr/share/openvswitch/scripts/ovs-ctl"
    sh(ctl, "--no-mlockall", "--system-id=random", "start")
    run = Path("/var/run/openvswitch")
    return [int((run / f"{name}.pid").read_text()) for name in ("ovs-vswitchd", "ovsdb-server")]


def wait_for(what, condition, timeout=20.0):
    """Waits until `condition()` is true and gives its value; fails naming `what` and what was last seen."""
    end = time.monotonic() + timeout
    while True:
        seen = condition()
        if seen:
            return seen
        if time.monotonic() > end:
            raise AssertionError(f"after {timeout} s still waiting for {what}; last seen: {seen!r}")
        time.sleep(0.1)


def free_port():
    """A TCP port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Controller:
    """A running `maple run`."""

    def __init__(self, policy, arguments, folder):
        folder.mkdir()
        self.port = free_port()
        self.control = folder / "control.sock"
        self.log = folder / "log"
        command = [MAPLE, "run", str(policy), "--listen", f"127.0.0.1:{self.port}", "--control", str(self.control)]
        with self.log.open("w") as log:
            self.process = subprocess.Popen([*command, *map(str, arguments)], stdout=log, stderr=log, cwd=ROOT)
        wait_for("the control socket", self.answers)

    def answers(self):
        if self.process.poll() is not None:
            raise AssertionError(f"maple run ended with {self.process.returncode}:\n{self.text()}")
        return self.control.exists()

    def text(self):
        """What it printed so far."""
        return self.log.read_text()

    def show(self, what, *arguments):
        """`maple show WHAT --json`, decoded."""
        return json.loads(sh(MAPLE, "show", what, *arguments, "--control", str(self.control), "--json"))

    def rules(self, dpid):
        """The rules that it believes are on a switch, as text, sorted."""
        text = sh(MAPLE, "show", "rules", f"{dpid:016x}", "--control", str(self.control))
        return sorted(line.strip() for line in text.splitlines() if "actions=" in line)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError("maple run did not end 10 s after an interrupt") from None


class Lab:
    """A Mininet network of user-space Open vSwitch bridges."""

    def __init__(self, topology, controller, protocols):
        options = {"datapath": "user"} | ({"protocols": protocols} if protocols else {})
        self.controller = controller
        self.net = Mininet(
            topo=topology,
            switch=functools.partial(OVSSwitch, **options),
            controller=lambda name: RemoteController(name, ip="127.0.0.1", port=controller.port),
            autoSetMacs=True,
        )
        self.protocol = (protocols or "OpenFlow13").split(",")[-1]

    def start(self):
        """Starts it, and waits until the controller knows all switches and links."""
        self.net.start()
        for host in self.net.hosts:
            # Neighbour discovery of idle hosts would disturb counters.
            host.cmd("sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1")
        self.wait_links()

    def wait_links(self, down=0):
        """Waits until both directions of all links but `down` of them are known."""
        names = {switch.name for switch in self.net.switches}
        between = [link for link in self.net.links if {link.intf1.node.name, link.intf2.node.name} <= names]
        wanted = 2 * (len(between) - down)
        wait_for(f"{wanted} links", lambda: len(self.controller.show("links")) == wanted)
        wait_for("all switches", lambda: len(self.controller.show("switches")) == len(names))
        ports = len(self.net.hosts)
        wait_for(f"{ports} edge ports", lambda: self.edge_ports() >= ports)

    def edge_ports(self):
        return sum(port["kind"] == "edge" for switch in self.controller.show("switches") for port in switch["ports"])

    def stop(self):
        self.net.stop()
        left = set(sh("ovs-vsctl", "list-br").split()) & {switch.name for switch in self.net.switches}
        for bridge in left:
            sh("ovs-vsctl", "--if-exists", "del-br", bridge)

    def __getitem__(self, name):
        return self.net.get(name)

    def ping_all(self):
        """Loss in percent over all pairs."""
        return self.net.pingAll(timeout=2)

    def ping(self, a, b, count=3, interval=0.2):
        """How many of `count` pings from a to b are answered."""
        text = self[a].cmd(f"ping -n -c {count} -i {interval} -W 2 {self[b].IP()}")
        found = re.search(r"(\d+) received", text)
        if found is None:
            raise AssertionError(f"ping said: {text}")
        return int(found.group(1))

    def tcp(self, a, b, port):
        """Opens a TCP connection from a to b, sends a line and gives the echo."""
        server = (
            f"import socket as s; l=s.create_server(('', {port})); l.settimeout(10); print('up', flush=True); "
            "c,_=l.accept(); c.sendall(c.recv(99)); c.close()"
        )
        process = self[b].popen(["python3", "-c", server], stdout=subprocess.PIPE, text=True)
        try:
            process.stdout.readline()
            client = (
                f"import socket as s; c=s.create_connection(('{self[b].IP()}', {port}), timeout=8); "
                "c.sendall(b'hello'); print(c.recv(99).decode())"
            )
            text, _ = self[a].popen(["python3", "-c", client], stdout=subprocess.PIPE, text=True).communicate()
            return text.strip()
        finally:
            process.kill()
            process.wait()

    def flows(self, switch):
        """The rules on a switch as Open vSwitch prints them, sorted."""
        text = sh("ovs-ofctl", "-O", self.protocol, "dump-flows", "--no-stats", switch)
        return sorted(line.strip() for line in text.splitlines() if "actions=" in line)

    def flow_packets(self, switch, containing):
        """Packets counted by the switch's rules whose text contains all of `containing`."""
        text = sh("ovs-ofctl", "-O", self.protocol, "dump-flows", switch)
        lines = [line for line in text.splitlines() if all(part in line for part in containing)]
        return sum(int(re.search(r"n_packets=(\d+)", line).group(1)) for line in lines)
