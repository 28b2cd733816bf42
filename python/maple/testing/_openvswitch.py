"""Tests of policies on Open vSwitch: bridges in user space, hosts in network namespaces, a controller in a process.

An emulated network goes along: it says what the policy decides, and explores it. What arrives is judged by what the
hosts' sockets get.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from maple._emulate import Journey, Ping
from maple.testing._controller import Controller, State, sh, wait_for, wait_for_caches
from maple.testing._names import AnyHost, AnySwitch, Place
from maple.testing._network import Network, OnlySimulated, Topology
from maple.testing._packets import Addresses, frame_of
from maple.testing._received import Received, of_policy
from maple.testing._sockets import Sniffer

# How long a frame may take to come to its receivers, in seconds, and how long others are waited for.
PATIENCE, QUIET = 5.0, 0.3
# The same for a frame that should not come.
IMPATIENCE = 1.0
# How long the network takes to follow a fault.
FOLLOWED = 1.0

_numbers = itertools.count(1)


def missing() -> str | None:
    """Why tests can't run on Open vSwitch here; ``None`` if they can."""
    if os.geteuid() != 0:
        return "--maple-ovs needs root, for bridges and network namespaces"
    for program in ("ovs-vsctl", "ip"):
        if shutil.which(program) is None:
            return f"--maple-ovs needs the program {program}"
    if subprocess.run(["ovs-vsctl", "--timeout=5", "show"], capture_output=True, check=False).returncode != 0:
        return "--maple-ovs needs Open vSwitch's daemons to run (ovs-ctl start)"
    return None


class OpenVSwitchNetwork(Network):
    """A network of Open vSwitch bridges under a policy."""

    def __init__(self, topology: Topology, policy: str | Path, *, known_hosts: bool = True, **options: Any) -> None:
        if not isinstance(policy, (str, Path)):
            raise OnlySimulated("on Open vSwitch a policy is a file: a controller in another process loads it")
        super().__init__(topology, policy, known_hosts=known_hosts, **options)
        self._undo: list[Callable[[], object]] = []
        self._prefix = f"mk{os.getpid() % 0x10000:x}n{next(_numbers) % 0x100:x}"
        try:
            self._build(str(self._loaded.file), options.get("version", "1.3"), self._costs(topology))
            if known_hosts:
                self._introduce()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Removes bridges, namespaces and the controller, whatever has failed before."""
        failures: list[Exception] = []
        for undo in reversed(self.__dict__.pop("_undo", [])):
            try:
                undo()
            except (OSError, RuntimeError, subprocess.SubprocessError) as error:
                failures.append(error)
        super().close()
        if failures:
            raise RuntimeError(f"not all of the network could be removed: {failures[0]}")

    # How it is built.

    def _costs(self, topology: Topology) -> dict[str, list[dict[str, Any]]]:
        """The costs in the topology's link attributes, as ``maple run --costs`` reads them."""
        if isinstance(topology, (str, Path)):
            shape, _, rest = str(topology).partition(":")
            if shape == "ring":
                closing = int(rest.split(",")[0])
                return {"secure": [{"a": "1", "b": f"{closing:x}", "cost": closing}]}
            if not str(topology).endswith(".json"):
                return {}
            said = json.loads((self._folder / topology).read_text(encoding="utf-8"))
        else:
            said = dict(topology)
        dpids = {switch.name: switch.dpid for switch in self.switches}
        costs: dict[str, list[dict[str, Any]]] = {}
        for link in said.get("links", []):
            for name, value in link.get("attributes", {}).items():
                ends = {"a": f"{dpids[link['a']]:x}", "b": f"{dpids[link['b']]:x}"}
                costs.setdefault(name, []).append({**ends, "cost": max(1, math.ceil(value))})
        return costs

    def _build(self, policy: str, version: str, costs: dict[str, list[dict[str, Any]]]) -> None:
        folder = Path(sh("mktemp", "-d", "--tmpdir", f"{self._prefix}-XXXX").strip())
        self._undo.append(lambda: shutil.rmtree(folder, ignore_errors=True))
        self._controller = Controller(policy, folder, costs)
        self._undo.append(self._controller.stop)
        self._bridges = {switch.name: f"{self._prefix}{number:x}" for number, switch in enumerate(self.switches, 1)}
        for switch in self.switches:
            self._add_bridge(switch.name, switch.dpid, "OpenFlow10" if version == "1.0" else "OpenFlow13")
        self._sniffer = Sniffer()
        self._undo.append(self._sniffer.close)
        for number, link in enumerate(self.links):
            self._add_link(number, link.a, link.b)
        for number, place in enumerate(self._names.hosts.values()):
            self._add_host(number, place)
        self.state = State(self._loaded.place, self._controller)
        links, hosts = len(self.links), len(self._names.hosts)
        wait_for("the controller to know the network", lambda: self._controller.knows(len(self.switches), links, hosts))

    def _add_bridge(self, name: str, dpid: int, protocol: str) -> None:
        bridge = self._bridges[name]
        self._undo.append(lambda: sh("ovs-vsctl", "--timeout=20", "--if-exists", "del-br", bridge))
        settings = ["datapath_type=netdev", "fail_mode=secure", f"protocols={protocol}"]
        settings += [f"other_config:datapath-id={dpid:016x}", "other_config:disable-in-band=true"]
        target = f"tcp:127.0.0.1:{self._controller.port}"
        made = ["--", "set", "bridge", bridge, *settings, "--", "set-controller", bridge, target]
        sh("ovs-vsctl", "--timeout=20", "add-br", bridge, *made)

    def _add_link(self, number: int, a: tuple[str, int], b: tuple[str, int]) -> None:
        ends = [f"{self._prefix}l{number:x}{side}" for side in "ab"]
        self._add_pair(ends[0], ends[1])
        for end, (switch, port) in zip(ends, (a, b), strict=True):
            self._plug(end, switch, port)
        self._sniffer.watch_link(ends[0], b[0], a[0])
        self._sniffer.watch_link(ends[1], a[0], b[0])

    def _add_host(self, number: int, place: Place) -> None:
        space, outside, inside = (f"{self._prefix}{kind}{number:x}" for kind in "nop")
        sh("ip", "netns", "add", space)
        self._undo.append(lambda: sh("ip", "netns", "del", space))
        self._add_pair(outside, inside)
        sh("ip", "link", "set", inside, "netns", space, "address", place.mac, "name", "eth0")
        within = ("ip", "netns", "exec", space)
        sh(*within, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
        # Without an IP address the host says nothing by itself: what it sends are the frames of the test.
        sh("ip", "-n", space, "link", "set", "eth0", "up")
        self._plug(outside, self._names.switch(place.dpid), place.port)
        self._sniffer.watch_host(str(place.name), space, "eth0")

    def _add_pair(self, one: str, other: str) -> None:
        sh("ip", "link", "add", one, "type", "veth", "peer", "name", other)

        def remove() -> None:
            # The other end may have ended with its namespace.
            subprocess.run(["ip", "link", "del", one], capture_output=True, timeout=60, check=False)

        self._undo.append(remove)
        for end in (one, other):
            sh("ip", "link", "set", end, "up")

    def _plug(self, interface: str, switch: str, port: int) -> None:
        wanted = ["--", "set", "interface", interface, f"ofport_request={port}"]
        sh("ovs-vsctl", "--timeout=20", "add-port", self._bridges[switch], interface, *wanted)
        got = sh("ovs-vsctl", "--timeout=20", "get", "interface", interface, "ofport").strip()
        if got != str(port):
            raise RuntimeError(f"port {port} of {switch} got the number {got} in Open vSwitch")
        self._plugged = {**self.__dict__.get("_plugged", {}), (switch, port): interface}

    def _introduce(self) -> None:
        for place in self._names.hosts.values():
            announcement = frame_of(place, Addresses(place.mac, place.ipv4, place.ipv6), {"arp_op": 1}, None)
            self._sniffer.send(str(place.name), announcement)
        macs = {place.mac for place in self._names.hosts.values()}
        if self._loaded.policy.track_hosts:
            wait_for("the controller to know the hosts", lambda: macs <= self._controller.hosts())
        time.sleep(QUIET)
        self._sniffer.forget()

    # The words that are another thing here.

    def _deliver(self, sender: Place, frame: bytes, *, comes: bool = True) -> Journey:
        super()._deliver(sender, frame, comes=comes)
        name = str(sender.name)
        start = self._names.switch(sender.dpid)
        return Journey(
            self,
            name,
            frame,
            self._sniffer.journey(name, start, frame, self._at, PATIENCE if comes else IMPATIENCE, QUIET),
        )

    def _at(self, host: str) -> str:
        return self._names.switch(self._names.hosts[host].dpid)

    def ping(self, src: AnyHost, dst: AnyHost, count: int = 1) -> Ping:
        raise OnlySimulated("ping() is answered by emulated hosts; use assert_delivered() here")

    def open(self, src: AnyHost, dst: AnyHost, **_: Any) -> Any:
        raise OnlySimulated("open() is answered by emulated hosts; use assert_delivered() here")

    def received(self, host: AnyHost) -> list[Received]:
        """The frames that a host got since the last call, or since the beginning, without the controller's own.

        Unlike in emulated networks, what the hosts announced before the test began is among them.
        """
        frames = self._sniffer.received(str(self._names.host(host).name))
        return of_policy((frame, []) for frame in frames)

    def move(self, host: AnyHost, switch: AnySwitch, port: int | None = None) -> None:
        raise OnlySimulated("hosts move in emulated networks only")

    def switch_down(self, switch: AnySwitch) -> None:
        raise OnlySimulated("switches go down in emulated networks only; take their links down")

    def switch_up(self, switch: AnySwitch) -> None:
        raise OnlySimulated("switches go down in emulated networks only; take their links down")

    def link_down(self, a: AnySwitch, b: AnySwitch) -> None:
        """Takes the links between two switches down, and lets the network follow."""
        super().link_down(a, b)
        self._set_links(a, b, "down")

    def link_up(self, a: AnySwitch, b: AnySwitch) -> None:
        """Takes the links between two switches up, and lets the network follow."""
        super().link_up(a, b)
        self._set_links(a, b, "up")

    def _set_links(self, a: AnySwitch, b: AnySwitch, state: str) -> None:
        ends = {self._names.switch(a), self._names.switch(b)}
        for link in self.links:
            if {link.a[0], link.b[0]} == ends:
                sh("ip", "link", "set", self._plugged[link.a], state)
        up = sum(link.is_up for link in self.links)
        wait_for("the controller to follow the links", lambda: self._controller.links() == up)
        time.sleep(FOLLOWED)
        wait_for_caches()

    def port_down(self, switch: AnySwitch, port: int | None = None) -> None:
        """Takes a port down, as its switch's operator would."""
        super().port_down(switch, port)
        self._set_port(switch, port, "down")

    def port_up(self, switch: AnySwitch, port: int | None = None) -> None:
        """Takes a port up."""
        super().port_up(switch, port)
        self._set_port(switch, port, "up")

    def _set_port(self, switch: AnySwitch, port: int | None, state: str) -> None:
        name, number = self._names.port(switch, port)
        interface = self._plugged[(name, number)]
        sh("ovs-ofctl", "-O", "OpenFlow10,OpenFlow13", "mod-port", self._bridges[name], interface, state)
        time.sleep(FOLLOWED)
        wait_for_caches()

    def advance(self, seconds: float) -> None:
        """Lets this much time pass, here and in the emulated network that goes along."""
        super().advance(seconds)
        if "_controller" in self.__dict__ and seconds < FOLLOWED:
            time.sleep(seconds)

    def rules(self, switch: AnySwitch, table: int | None = None) -> list[str]:
        """The rules that the controller believes a switch has, without cookies; of one table if that is given."""
        from maple.testing import _rules

        name = self._names.switch(switch)
        dpid = next(one.dpid for one in self.switches if one.name == name)
        return _rules.of(self._controller.rules(dpid), table)
