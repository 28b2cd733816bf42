"""A Mininet network of Open vSwitch bridges, seen from outside: what its hosts receive, what its switches count."""

import functools
import itertools
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from harness import sh, vsctl, wait_for, wait_for_caches
from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.node import Host, OVSSwitch, RemoteController

TOOL = [sys.executable, "-u", str(Path(__file__).with_name("hosttool.py"))]

setLogLevel("error")


class QuietHost(Host):
    """Sends no packets unasked: without IPv6 there is no neighbour discovery, which would disturb counters."""

    def startShell(self, *args, **kwargs):
        super().startShell(*args, **kwargs)
        self.cmd("sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1")


class Remote(RemoteController):
    """A controller elsewhere, which may come later."""

    def checkListening(self):
        pass


class Lab:
    """A running network. `port` is where its controller listens, if it has one."""

    def __init__(self, topology, port, protocols=None, quiet=True):
        options = {"datapath": "user"} | ({"protocols": protocols} if protocols else {})
        self.protocol = (protocols or "OpenFlow13").split(",")[-1]
        self.net = None
        self.net = Mininet(
            topo=topology,
            host=QuietHost if quiet else Host,
            switch=functools.partial(OVSSwitch, **options),
            controller=(lambda name: Remote(name, ip="127.0.0.1", port=port)) if port else None,
            autoSetMacs=True,
        )

    @property
    def switches(self):
        return self.net.switches

    @property
    def hosts(self):
        return self.net.hosts

    @property
    def links(self):
        return self.net.links

    def start(self):
        self.net.start()
        for host in self.hosts:
            for interface in host.intfList():
                # A user-space switch sees the checksums that the host leaves to its (virtual) hardware.
                sh("nsenter", f"--net=/proc/{host.pid}/ns/net", "ethtool", "-K", interface.name, "tx", "off")

    def stop(self):
        names = [switch.name for switch in self.switches]
        try:
            self.net.stop()
        finally:
            for bridge in set(vsctl("list-br").split()) & set(names):
                vsctl("--if-exists", "del-br", bridge)

    def __getitem__(self, name):
        return self.net.get(name)

    # What the controller knows.

    def wait_known(self, controller, down=0):
        """Waits until the controller knows all switches, all links but `down` of them, and the hosts' ports."""
        names = {switch.name for switch in self.switches}
        between = [link for link in self.links if {link.intf1.node.name, link.intf2.node.name} <= names]
        edges = len(self.links) - len(between)
        wanted = {"switches": len(names), "links": len(between) - down, "edge ports": edges}

        def seen():
            switches = controller.connected()
            edges = [port for switch in switches for port in switch["ports"] if port["kind"] == "edge" and port["up"]]
            return {"switches": len(switches), "links": len(controller.show("links")), "edge ports": len(edges)}

        wait_for(f"the controller to know {wanted}", lambda: seen() == wanted or None)

    def wait_answers(self):
        """Waits until every host answers every other: rules follow a moment after the controller knows of a link."""
        wait_for("all answers", lambda: self.ping_all()[0] == 0 or None)

    def wait_agreement(self, controller):
        """Waits until exploration is at its end and every switch has exactly the rules that the controller believes it
        has."""
        wait_for("the exploration", controller.is_explored)
        for switch in self.switches:
            number = int(switch.dpid, 16)

            def agrees(bridge=switch.name, number=number):
                return self.dump(bridge) == controller.rules(number)

            try:
                wait_for("agreement", agrees, timeout=8)
            except AssertionError:
                assert self.dump(switch.name) == controller.rules(number)

    def settle(self):
        """Waits until switches forward by the rules that they have, and by none that they had."""
        wait_for_caches()

    @contextmanager
    def link_down(self, a, b):
        """The link between two switches is down for the block."""
        self.net.configLinkStatus(self[a].name, self[b].name, "down")
        try:
            yield
        finally:
            self.net.configLinkStatus(self[a].name, self[b].name, "up")

    # What hosts see.

    def ping_all(self):
        """Every host pings every other once: how many of how many were lost, and the median time in ms."""
        times, lost = [], 0
        for a in self.hosts:
            for b in self.hosts:
                if a is not b:
                    text = a.cmd(f"ping -n -c 1 -W 2 {b.IP()}")
                    found = re.search(r"time=([\d.]+) ms", text)
                    lost += found is None
                    times += [float(found.group(1))] if found else []
        total = lost + len(times)
        return lost, total, round(statistics.median(times), 2) if times else None

    def ping(self, a, b, count=1, timeout=1):
        """How many of `count` pings from a to b, a host or an address, are answered."""
        address = b if "." in b else self[b].IP()
        text = self[a].cmd(f"ping -n -c {count} -i 0.1 -W {timeout} {address}")
        found = re.search(r"(\d+) received", text)
        if found is None:
            raise AssertionError(f"ping said: {text}")
        return int(found.group(1))

    @contextmanager
    def running(self, host, *command):
        """A program on a host; it ends with the block."""
        process = self[host].popen(list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    @contextmanager
    def serving(self, host, *ports):
        """A host with an echo server on these TCP ports."""
        with self.running(host, *TOOL, "serve", *map(str, ports)) as server:
            assert server.stdout.readline() == "ready\n"
            yield

    def tcp(self, a, b, port, timeout=5):
        """Whether a reaches the server of b."""
        said = self.tool(a, "tcp", self[b].IP(), port, timeout)
        assert said in ("hello", "timed out"), said
        return said == "hello"

    def udp(self, host, address, port, text):
        """A host sends a datagram."""
        assert self.tool(host, "udp", address, port, self[host].IP(), text) == ""

    def tool(self, host, *arguments):
        command = [*TOOL, *map(str, arguments)]
        process = self[host].popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return process.communicate(timeout=30)[0].strip()

    # What switches have.

    def flows(self, switch):
        """The rules on a switch as Open vSwitch prints them, sorted."""
        return self.dump(self[switch].name)

    def dump(self, bridge):
        text = sh("ovs-ofctl", "-O", self.protocol, "dump-flows", "--no-stats", bridge)
        return sorted(line.strip() for line in text.splitlines() if "actions=" in line)

    def decisions(self, switch, *containing, src=None, dst=None, stats=False):
        """The rules of decisions at a switch that packets between these hosts may meet, as Open vSwitch prints them.

        Such a rule matches the addresses of the hosts, or what look-ups find for these. Without a host, any will do.
        """
        flags = [] if stats else ["--no-stats"]
        text = sh("ovs-ofctl", "-O", self.protocol, "dump-flows", *flags, self[switch].name)
        lines = [line.strip() for line in text.splitlines() if "actions=" in line]
        macs = {"dl_src": src and self[src].MAC(), "dl_dst": dst and self[dst].MAC()}
        return [line for line in decisions(lines, macs) if all(part in line for part in containing)]

    def flow_packets(self, switch, *containing, without=None, src=None, dst=None):
        """Packets counted by the rules of decisions between these hosts with these texts, and not `without`."""
        lines = self.decisions(switch, *containing, src=src, dst=dst, stats=True)
        lines = [line for line in lines if without is None or without not in line]
        return sum(int(re.search(r"n_packets=(\d+)", line).group(1)) for line in lines)

    def passing(self, switch):
        """Packets that a switch passed from switch to switch: by rules for labels that let none out."""
        text = sh("ovs-ofctl", "-O", self.protocol, "dump-flows", self[switch].name)
        lines = [
            line for line in text.splitlines() if is_label_rule(line) and not re.search("pop_vlan|strip_vlan", line)
        ]
        return sum(int(re.search(r"n_packets=(\d+)", line).group(1)) for line in lines)

    def outputs(self, switch, *containing, src=None, dst=None):
        """The ports that decisions between these hosts whose rules contain these texts send packets to."""
        rules = self.flows(switch)
        lines = self.decisions(switch, *containing, src=src, dst=dst)
        # A rule may lead to its route's, in the table of routes.
        routes = {route for line in lines for route in re.findall(r"write_metadata:(0x[0-9a-f]+)", line)}
        lines += [line for line in rules if any(f"metadata={route} " in line for route in routes)]
        return {int(port) for line in lines for port in re.findall(r"output:(\d+)", line)}

    def port_packets(self, switch, port):
        """Packets that a switch sent out of a port."""
        text = sh("ovs-ofctl", "-O", self.protocol, "dump-ports", self[switch].name, str(port))
        return int(re.search(r"tx pkts=(\d+)", text).group(1))

    def port_towards(self, a, b):
        """The OpenFlow port of switch a that leads to b."""
        for link in self.links:
            ends = {link.intf1.node: link.intf1, link.intf2.node: link.intf2}
            if set(ends) == {self[a], self[b]}:
                return self[a].ports[ends[self[a]]]
        raise KeyError(f"no link {a}-{b}")


def is_label_rule(line):
    """Whether a rule, as Open vSwitch prints it, is for packets that carry a label."""
    return bool(re.search(r"priority=6502[01],.*dl_vlan=\d+", line))


def is_route_rule(line):
    """Whether a rule, as Open vSwitch prints it, is a route's, which the rules of decisions lead to."""
    return bool(re.search(r"table=\d+,.*[ ,]metadata=0x[0-9a-f]+ actions", line))


def is_own_rule(line):
    """Whether a rule, as Open vSwitch prints it, belongs to no decision: of hosts, ports and keys of look-ups."""
    return bool(re.search(r"cookie=0x\w+f{10}, ", line))


def decisions(lines, macs):
    """The rules of decisions among these that may match packets with these values of fields, if they are known."""
    keys = [line for line in lines if is_own_rule(line) and "write_metadata" in line]
    found, unknown = 0, 0
    for line in keys:
        value, mask = (int(number, 16) for number in re.search(r"write_metadata:(\w+)/(\w+)", line).groups())
        matched = dict(re.findall(r"(dl_src|dl_dst)=([0-9a-f:]+)", line))
        if not matched or not all(macs.get(field) for field in matched):
            unknown |= mask
        elif all(macs[field] == mac for field, mac in matched.items()):
            found |= value

    def bits(address):
        return int(address.replace(":", ""), 16)

    def may_match(line):
        metadata = re.search(r"metadata=(\w+)/(\w+)", line)
        value, mask = (int(number, 16) for number in metadata.groups()) if metadata else (0, 0)
        addresses = re.findall(r"(dl_src|dl_dst)=([0-9a-f:]{17})(?:/([0-9a-f:]{17}))?", line)
        fits = [
            (bits(macs[field]) ^ bits(address)) & bits(mask or "ff:ff:ff:ff:ff:ff") == 0
            for field, address, mask in addresses
            if macs.get(field)
        ]
        return (value ^ found) & mask & ~unknown == 0 and all(fits)

    others = [line for line in lines if not (is_own_rule(line) or is_label_rule(line) or is_route_rule(line))]
    return [line for line in others if may_match(line)]


class Part(Lab):
    """One of several networks in one Mininet: the nodes whose names begin with a prefix, which its tests leave out.

    Its switches have no controller but that which `follow` gives them.
    """

    def __init__(self, whole, prefix, protocols):
        self.net, self.prefix = whole.net, prefix
        self.protocol = protocols or "OpenFlow13"

    @property
    def switches(self):
        return [switch for switch in self.net.switches if switch.name.startswith(self.prefix)]

    @property
    def hosts(self):
        return [host for host in self.net.hosts if host.name.startswith(self.prefix)]

    @property
    def links(self):
        return [link for link in self.net.links if link.intf1.node.name.startswith(self.prefix)]

    def __getitem__(self, name):
        return self.net.get(self.prefix + name)

    def follow(self, controller):
        """Forgets everything, and waits until this controller knows the network."""
        for host in self.hosts:
            host.cmd("ip neigh flush all")
        for switch in self.switches:
            sh("ovs-ofctl", "-O", self.protocol, "del-flows", switch.name)
            vsctl("set-controller", switch.name, f"tcp:127.0.0.1:{controller.port}")
        self.wait_known(controller)

    def stop(self):
        """Follows no controller any more; the nodes stay."""
        for switch in self.switches:
            vsctl("del-controller", switch.name)


class Ears:
    """Counts, at some hosts at once, the frames that come in with a mark in them."""

    def __init__(self, lab, hosts, mark):
        self.lab, self.hosts, self.mark = lab, hosts, mark
        self.processes = {}

    def __enter__(self):
        for name in self.hosts:
            host = self.lab[name]
            command = [*TOOL, "count", host.defaultIntf().name, self.mark]
            self.processes[name] = host.popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for process in self.processes.values():
            assert process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            process.kill()
            process.communicate()

    def heard(self):
        """Host: number of frames."""
        counts = {}
        for name, process in self.processes.items():
            process.stdin.write("\n")
            process.stdin.flush()
            counts[name] = int(process.stdout.readline())
        return counts


def line_of(process, timeout=20):
    """The next line that a process says. It is ended if it says nothing within `timeout`."""
    timer = threading.Timer(timeout, process.kill)
    timer.start()
    line = process.stdout.readline()
    timer.cancel()
    assert line, f"{process.args} says nothing for {timeout} s"
    return line


class Pinger:
    """Pings every 10 ms while it is open; says what was lost, and for how long answers were missing."""

    def __init__(self, lab, a, b):
        command = ["stdbuf", "-oL", "ping", "-n", "-D", "-i", "0.01", lab[b].IP()]
        self.process = lab[a].popen(command, stdout=subprocess.PIPE, text=True)
        self.answers = []
        self.told = []
        self.reader = threading.Thread(target=self.read)

    def __enter__(self):
        self.reader.start()
        wait_for("answers to pings", lambda: len(self.answers) >= 5)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()

    def read(self):
        for line in self.process.stdout:
            self.told.append(line)
            if found := re.match(r"\[([\d.]+)\] \d+ bytes", line):
                self.answers.append(float(found.group(1)))

    def end(self):
        """Ends, but goes on for a moment first: what it watched may be quick, and what follows counts too. How many
        were lost, and how many it sent. The last ones do not count: their answers may be on the way."""
        time.sleep(0.5)
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        self.reader.join()
        told = "".join(self.told)
        sent = int(re.search(r"(\d+) packets transmitted", told).group(1)) - 30
        assert sent > 5 and "DUP" not in told, told
        answered = {int(number) for number in re.findall(r"icmp_seq=(\d+) ", told)}
        return len(set(range(1, sent + 1)) - answered), sent

    def gap(self, after):
        """Waits for answers; the longest time in s between two of them since `after` (seconds of the epoch)."""
        now = time.time()
        wait_for("answers again", lambda: sum(at > now for at in self.answers) >= 5)
        return max(b - a for a, b in itertools.pairwise(self.answers) if b > after)
