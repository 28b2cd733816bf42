"""A bridge of Open vSwitch that takes OpenFlow messages as they are, and says where packets leave it."""

from __future__ import annotations

import re
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from acl_form import Packet
from importer_corpus import frame

LOCAL = 0xFFFFFFFE
# In Open vSwitch's own texts ports have 16 bits.
SHORT_LOCAL = 65534
HELLO, BARRIER_REQUEST, BARRIER_REPLY = 0, 20, 21


def run(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


@contextmanager
def bridge(name: str, ports: list[int]) -> Iterator[Switch]:
    """A new bridge with these ports, which goes when the context ends."""
    add = ["--may-exist", "add-br", name, "--", "set", "bridge", name, "datapath_type=netdev", "protocols=OpenFlow13"]
    add += ["fail_mode=secure"]
    for port in ports:
        if port != LOCAL:
            own = f"{name}-{port}"
            add += [
                "--",
                "add-port",
                name,
                own,
                "--",
                "set",
                "interface",
                own,
                "type=internal",
                f"ofport_request={port}",
            ]
    run("ovs-vsctl", "--timeout=20", *add)
    try:
        for port in ports:
            run("ip", "link", "set", name if port == LOCAL else f"{name}-{port}", "up")
        yield Switch(name)
    finally:
        run("ovs-vsctl", "--timeout=20", "del-br", name)


class Switch:
    """The bridge."""

    def __init__(self, name: str) -> None:
        self.name = name
        shown = run("ovs-appctl", "dpif/show")
        of_bridge = shown[shown.index(f"  {name}:") :]
        self.ports: dict[str, int] = {}
        for number, own in re.findall(rf"^ +{name}\S* (\d+)/(\d+):", of_bridge, re.MULTILINE):
            self.ports[own] = LOCAL if int(number) == SHORT_LOCAL else int(number)

    def take(self, messages: list[bytes]) -> None:
        """Forgets what it had, and takes these messages. What it refuses has no effect, as with any controller."""
        for what in ("flows", "groups", "meters"):
            run("ovs-ofctl", "-O", "OpenFlow13", f"del-{what}", self.name)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10)
            connection.connect(f"/run/openvswitch/{self.name}.mgmt")
            barrier = struct.pack("!BBHI", 4, BARRIER_REQUEST, 8, 0xFFFF)
            connection.sendall(struct.pack("!BBHI", 4, HELLO, 8, 0) + b"".join(messages) + barrier)
            with connection.makefile("rb") as stream:
                while True:
                    _, kind, length, xid = struct.unpack("!BBHI", stream.read(8))
                    stream.read(length - 8)
                    if (kind, xid) == (BARRIER_REPLY, 0xFFFF):
                        return

    def fate(self, packet: Packet) -> str:
        """The ports that a packet leaves by, each with the VLAN id of its tag: `2 3.100`; `none` if it is dropped."""
        port = SHORT_LOCAL if packet.at[1] == LOCAL else packet.at[1]
        shown = run("ovs-appctl", "ofproto/trace", self.name, f"in_port={port}", frame(packet).hex())
        (actions,) = re.findall(r"^Datapath actions: (.*)$", shown, re.MULTILINE)
        tag = packet.vlan
        left = set()
        for action in re.findall(r"[a-z_]+(?:\((?:[^()]|\([^()]*\))*\))?|\d+", actions):
            if action.isdigit():
                left.add((self.ports[action], tag))
            elif action == "pop_vlan":
                tag = None
            elif found := re.match(r"(?:push_vlan|set\(vlan)\(vid=(\d+)", action):
                tag = int(found[1])
            elif action != "drop" and not action.startswith(("userspace", "meter", "set(")):
                raise ValueError(f"{action} in {actions}")
        return (
            " ".join(f"{port}.{vid}" if vid is not None else str(port) for port, vid in sorted(left, key=str)) or "none"
        )
