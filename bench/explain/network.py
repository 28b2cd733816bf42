"""A ring of Open vSwitch bridges in user space, joined by patch ports, with hosts that are bare interfaces.

Open vSwitch follows a traced packet over patch ports by itself, so one trace shows its way through all bridges.
"""

import json
import os
import re
import socket
import struct
import subprocess
import time
from pathlib import Path

RUN = Path("/var/run/openvswitch")


def sh(*command, check=True):
    """Output of a command."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


class Host:
    """A host at a port of a bridge: an interface on which frames are sent."""

    def __init__(self, number, bridge, port):
        self.number, self.bridge, self.port = number, bridge, port
        self.mac = bytes([0, 0, 0, 0, 0, number])
        self.ip = bytes([10, 0, 0, number])
        self.near, self.far = f"mxh{number}", f"mxp{number}"

    def open(self):
        """Opens the socket that its frames go out by."""
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        self.socket.bind((self.near, 0))

    def announce(self):
        """Says by ARP which address it has."""
        arp = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + self.mac + self.ip + bytes(6) + self.ip
        self.socket.send(b"\xff" * 6 + self.mac + b"\x08\x06" + arp + bytes(18))


class Ring:
    """`size` bridges in a ring, `hosts` at each. A context: its bridges and interfaces are gone at the end."""

    def __init__(self, size, hosts, controller_port):
        self.names = [f"mx{n}" for n in range(1, size + 1)]
        self.per_bridge, self.port = hosts, controller_port
        self.hosts = []
        self.trace_socket = None

    def __enter__(self):
        try:
            self._build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _build(self):
        for number, name in enumerate(self.names, 1):
            sh(
                *("ovs-vsctl", "--may-exist", "add-br", name, "--", "set", "bridge", name, "datapath_type=netdev"),
                *("fail_mode=secure", "protocols=OpenFlow13", f"other-config:datapath-id={number:016x}"),
            )
        for at, name in enumerate(self.names):
            after = self.names[(at + 1) % len(self.names)]
            for bridge, other, port in ((name, after, 1), (after, name, 2)):
                sh(
                    *("ovs-vsctl", "add-port", bridge, f"{bridge}-{other}", "--", "set", "interface"),
                    *(f"{bridge}-{other}", "type=patch", f"options:peer={other}-{bridge}", f"ofport_request={port}"),
                )
            for offset in range(self.per_bridge):
                host = Host(len(self.hosts) + 1, name, 3 + offset)
                sh("ip", "link", "add", host.near, "type", "veth", "peer", "name", host.far)
                for interface in (host.near, host.far):
                    Path(f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6").write_text("1")
                    sh("ip", "link", "set", interface, "up")
                request = f"ofport_request={host.port}"
                sh("ovs-vsctl", "add-port", name, host.far, "--", "set", "interface", host.far, request)
                host.open()
                self.hosts.append(host)
        for name in self.names:
            sh("ovs-vsctl", "set-controller", name, f"tcp:127.0.0.1:{self.port}")
            sh("ovs-vsctl", "set", "controller", name, "max_backoff=1000")

    def __exit__(self, *_):
        for name in self.names:
            sh("ovs-vsctl", "--if-exists", "del-br", name, check=False)
        for host in self.hosts:
            sh("ip", "link", "del", host.near, check=False)

    def trace(self, bridge, port, frame):
        """What Open vSwitch says it does with a frame: for each bridge on the way the rules, as (bridge, table,
        priority, cookie); sorted."""
        text = self._appctl("ofproto/trace", bridge, f"in_port={port}", frame.hex())
        rules, at = [], bridge
        for line in text.splitlines():
            if found := re.match(r'\s*bridge\("(.+)"\)', line):
                at = found[1]
            elif found := re.match(r"\s*(\d+)\. (?:.*, )?priority (\d+)(?:, cookie (0x[0-9a-f]+))?", line):
                rules.append((self.names.index(at) + 1, int(found[1]), int(found[2]), int(found[3] or "0", 16)))
        return sorted(rules), text

    def actions(self, rules):
        """Rules as `trace` gives them, with their actions in the place of their cookies; sorted."""
        there = {}
        for number, bridge in enumerate(self.names, 1):
            for line in sh("ovs-ofctl", "-O", "OpenFlow13", "dump-flows", bridge).splitlines():
                if found := re.match(r" cookie=(0x[0-9a-f]+), .*table=(\d+), .*priority=(\d+).* actions=(.*)$", line):
                    there.setdefault((number, int(found[2]), int(found[3]), int(found[1], 16)), set()).add(found[4])
        return sorted((*rule[:3], sorted(there.get(rule, {"no rule"}))) for rule in rules)

    def _appctl(self, method, *parameters):
        if self.trace_socket is None:
            pid = (RUN / "ovs-vswitchd.pid").read_text().strip()
            self.trace_socket = socket.socket(socket.AF_UNIX)
            self.trace_socket.connect(str(RUN / f"ovs-vswitchd.{pid}.ctl"))
        request = {"method": method, "params": list(parameters), "id": 0}
        self.trace_socket.sendall(json.dumps(request).encode())
        decoder, text = json.JSONDecoder(), ""
        while True:
            text += self.trace_socket.recv(1 << 20).decode()
            try:
                answer, _ = decoder.raw_decode(text)
            except ValueError:
                continue
            if answer.get("error"):
                raise RuntimeError(f"{method} {parameters}: {answer['error']}")
            return answer["result"]


class Controller:
    """A `maple run` for the ring."""

    def __init__(self, maple, policy, port, folder, arguments=(), environment=None):
        self.control = Path(folder) / "control.sock"
        self.control.unlink(missing_ok=True)
        self.log = (Path(folder) / "log").open("w")
        command = [maple, "run", str(policy), "--listen", f"127.0.0.1:{port}", "--control", str(self.control)]
        self.process = subprocess.Popen(
            [*command, *arguments], stdout=self.log, stderr=self.log, env=os.environ | (environment or {})
        )
        end = time.monotonic() + 30
        while not self.control.exists():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"maple run does not answer: {Path(self.log.name).read_text()}")
            time.sleep(0.05)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(self.control))
        self.reader = self.socket.makefile()

    def ask(self, request):
        """The answer to a request."""
        self.socket.sendall(json.dumps(request).encode() + b"\n")
        answer = json.loads(self.reader.readline())
        if "error" in answer:
            raise RuntimeError(f"{request}: {answer['error']}")
        return answer["ok"]

    def counts(self):
        """The counts of engine and controller."""
        stats = self.ask({"show": "stats"})
        return stats["engine"] | stats["controller"]

    def at_rest(self):
        """Waits until no packet comes to the controller and no rule is sent."""
        before, end = None, time.monotonic() + 20
        while time.monotonic() < end:
            counts = self.counts()
            now = tuple(counts[name] for name in ("packet_ins", "flow_mods", "runs") if name in counts)
            if now == before:
                return
            before = now
            time.sleep(0.15)

    def stop(self):
        """Ends it."""
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
