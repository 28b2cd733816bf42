"""The cost for Open vSwitch of rules that clear the action set: its daemon's time for a rule and for a packet.

Starts daemons of its own in user space. Packets come by packet-outs to the tables, so the daemon looks up each one as
one for which its datapath has no flow.

    python3 bench/clear_actions/measure.py [--rounds 7] [--rules 3000] [--packets 6000]
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import struct
import subprocess
import tempfile
from pathlib import Path

VERSION, BARRIER_REPLY = 4, 21
HELLO, ECHO_REQUEST, ECHO_REPLY, PACKET_OUT, BARRIER_REQUEST = 0, 2, 3, 13, 20
TO_TABLES = 0xFFFFFFF9


class Switch:
    """A bridge of Open vSwitch with two ports, its daemons, and a connection for OpenFlow."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {**os.environ, "OVS_RUNDIR": str(folder), "OVS_LOGDIR": str(folder), "OVS_DBDIR": str(folder)}
        database = f"unix:{folder}/db.sock"
        self.run("ovsdb-tool", "create", f"{folder}/conf.db", "/usr/share/openvswitch/vswitch.ovsschema")
        self.run("ovsdb-server", f"{folder}/conf.db", f"--remote=p{database}", "--pidfile", "--detach", "--no-chdir")
        self.run("ovs-vsctl", f"--db={database}", "--no-wait", "init")
        self.run(
            "ovs-vswitchd",
            database,
            "--enable-dummy",
            "--pidfile",
            "--detach",
            "--no-chdir",
            f"--log-file={folder}/log",
        )
        ports = [
            ("--", "add-port", "b", f"p{n}", "--", "set", "interface", f"p{n}", "type=dummy", f"ofport_request={n}")
            for n in (1, 2)
        ]
        bridge = (
            "add-br",
            "b",
            "--",
            "set",
            "bridge",
            "b",
            "datapath_type=dummy",
            "protocols=OpenFlow13",
            "fail_mode=secure",
        )
        self.run("ovs-vsctl", f"--db={database}", *bridge, *ports[0], *ports[1])
        self.pids = [int((folder / f"{name}.pid").read_text()) for name in ("ovs-vswitchd", "ovsdb-server")]
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(f"{folder}/b.mgmt")
        self.received = b""
        self.send(HELLO)

    def run(self, *command: str) -> None:
        subprocess.run(command, check=True, env=self.env)

    def send(self, kind: int, body: bytes = b"", xid: int = 1) -> None:
        self.socket.sendall(struct.pack("!BBHI", VERSION, kind, 8 + len(body), xid) + body)

    def wait(self) -> None:
        """Waits until the switch has done all that was sent."""
        self.send(BARRIER_REQUEST)
        while True:
            while len(self.received) < 8 or len(self.received) < struct.unpack("!H", self.received[2:4])[0]:
                self.received += self.socket.recv(1 << 16)
            length = struct.unpack("!H", self.received[2:4])[0]
            message, self.received = self.received[:length], self.received[length:]
            if message[1] == ECHO_REQUEST:
                self.send(ECHO_REPLY, message[8:], struct.unpack("!I", message[4:8])[0])
            elif message[1] == BARRIER_REPLY:
                return

    def seconds(self) -> float:
        """Returns the processor time of all threads of the daemon."""
        threads = Path(f"/proc/{self.pids[0]}/task").iterdir()
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9

    def stop(self) -> None:
        for pid in self.pids:
            os.kill(pid, 15)


def address(number: int) -> bytes:
    return bytes([2, 0, 0, *number.to_bytes(3, "big")])


def packet_out(number: int) -> bytes:
    frame = address(number) + address(1 << 20) + struct.pack("!H", 0x88B5) + bytes(46)
    return struct.pack("!IIH6xHHIH6x", 0xFFFFFFFF, 1, 16, 0, 16, TO_TABLES, 0) + frame


def measure(switch: Switch, rules: int, packets: int, *, clears: bool) -> tuple[float, float]:
    """Returns the microseconds for a rule, and for a packet."""
    lines = ["table=0,priority=0 actions=goto_table:1"]
    for number in range(rules):
        actions = ["output:2"] * (number % 2) + ["clear_actions"] * clears
        lines.append(f"table=1,priority=9,dl_dst={address(number).hex(':')} actions={','.join(actions) or 'drop'}")
    (switch.folder / "flows").write_text("\n".join(lines))
    switch.run("ovs-ofctl", "-O", "OpenFlow13", "del-flows", "b")
    switch.wait()
    begin = switch.seconds()
    switch.run("ovs-ofctl", "-O", "OpenFlow13", "add-flows", "b", f"{switch.folder}/flows")
    switch.wait()
    added = switch.seconds()
    for number in range(packets):
        switch.send(PACKET_OUT, packet_out(number % rules))
    switch.wait()
    return (added - begin) / rules * 1e6, (switch.seconds() - added) / packets * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("rounds", 7), ("rules", 3000), ("packets", 6000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        switch = Switch(Path(folder))
        try:
            found: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
            for turn in range(2 * options.rounds):
                clears = turn % 4 in (1, 2)
                found[clears].append(measure(switch, options.rules, options.packets, clears=clears))
        finally:
            switch.stop()
    for clears, all_found in found.items():
        rule, packet = (sorted(values) for values in zip(*all_found, strict=True))
        texts = [f"{statistics.median(values):.2f} ({values[0]:.2f} to {values[-1]:.2f})" for values in (rule, packet)]
        print(f"{'with' if clears else 'without'} clear_actions: {texts[0]} µs a rule, {texts[1]} µs a packet")


if __name__ == "__main__":
    main()
