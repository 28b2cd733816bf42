"""The cost of a restart of the controller and a reload of its policy for the traffic of a network on Open vSwitch.

Three bridges in a row, two hosts at each. Hosts make decisions, one for each of many connections of UDP. Then 20 pairs
of hosts ping every 10 ms, and a stream of TCP crosses the network, while

* the controller is killed with `kill -9` and started again;
* another controller takes over from it, while new connections begin every 20 ms;
* its policy is reloaded, with one of its 200 lines changed.

The same restart under os-ken's learning switch, if `--os-ken PYTHON` names a Python that has os-ken, and under Faucet,
if `--faucet PROGRAM` names it.

Needs root, Open vSwitch, Mininet, and iperf3. Run by the system's Python, for Mininet.
"""

import argparse
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests/system"))

from harness import MAPLE, Controller, free_port, start_openvswitch, the_machine, wait_for  # noqa: E402
from lab import Lab  # noqa: E402
from mininet.topo import Topo  # noqa: E402

PAIRS = 20
# How long the controller is away, and what is seen before and after.
AWAY, BEFORE, AFTER = 2.0, 4.0, 12.0
# Sends one datagram from each of some ports; to the 250 first ports in turn.
SENDER = """
import socket, sys, time
address, first, count, rate = sys.argv[1], *map(int, sys.argv[2:])
start = time.monotonic()
for number in range(count):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("", first + number))
        one.sendto(b"x", (address, 1 + number % 250))
    time.sleep(max(0, start + number / rate - time.monotonic()))
"""


class Row(Topo):
    """s1 - s2 - s3, two hosts at each."""

    def build(self):
        switches = [self.addSwitch(f"s{i}") for i in (1, 2, 3)]
        for i, switch in enumerate(switches, 1):
            self.addLink(self.addHost(f"h{i}"), switch)
            self.addLink(self.addHost(f"g{i}"), switch)
        for a, b in itertools.pairwise(switches):
            self.addLink(a, b)


class Pings:
    """One host pings another every 10 ms. Pings that were lost, with the time when they were sent."""

    def __init__(self, lab, a, b):
        # At such intervals `ping` waits in a loop that takes all the time of a core; this one sleeps.
        command = ["stdbuf", "-oL", "fping", "-l", "-p", "10", "-t", "1000", "-D", lab[b].IP()]
        self.process = lab[a].popen(command, stdout=subprocess.PIPE, text=True)
        self.answers = {}
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            if found := re.match(r"\[([\d.]+)\] \S+ : \[(\d+)\], \d+ bytes, ([\d.]+) ms", line):
                at, number, took = found.groups()
                self.answers[int(number)] = float(at) - float(took) / 1000

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()

    def lost(self):
        """The times when the lost ones were sent, by those of the nearest that were answered."""
        numbers = sorted(self.answers)
        lost = []
        for a, b in itertools.pairwise(numbers):
            step = (self.answers[b] - self.answers[a]) / (b - a)
            lost += [self.answers[a] + step * (number - a) for number in range(a + 1, b)]
        return lost

    def sent(self):
        return max(self.answers) - min(self.answers) + 1


class Traffic:
    """20 pairs that ping, and a stream of TCP of limited rate."""

    def __init__(self, lab, rate):
        self.lab, self.rate = lab, rate
        self.pings, self.stream, self.server = [], None, None

    def __enter__(self):
        pairs = [(a, b) for a in self.lab.hosts for b in self.lab.hosts if a is not b]
        for a, b in pairs[:PAIRS]:
            self.pings.append(Pings(self.lab, a.name, b.name))
        self.server = self.lab["g3"].popen(["iperf3", "--server", "--one-off"], stdout=subprocess.DEVNULL)
        time.sleep(0.5)
        command = ["iperf3", "--client", self.lab["g3"].IP(), "--bitrate", self.rate, "--time", "120"]
        command += ["--interval", "0.1", "--forceflush", "--format", "k"]
        self.stream = self.lab["g1"].popen(command, stdout=subprocess.PIPE, text=True)
        self.intervals = []
        self.reader = threading.Thread(target=self.read)
        self.reader.start()
        wait_for("the stream", lambda: len(self.intervals) > 10)
        return self

    def read(self):
        for line in self.stream.stdout:
            if found := re.search(r"([\d.]+) Kbits/sec +\d+ ", line):
                self.intervals.append((time.time(), float(found.group(1)) / 1000))

    def __exit__(self, *_):
        for pings in self.pings:
            pings.stop()
        for process in (self.stream, self.server):
            process.kill()
            process.wait()
        self.reader.join()
        self.stream.stdout.close()

    def figures(self, at):
        """The loss from the moment `at` on, and how slow the stream was then, against before."""
        # Answers of the last second may be on their way.
        end = time.time() - 1
        lost = sorted(sent for pings in self.pings for sent in pings.lost() if at <= sent < end)
        lost_before = [sent for pings in self.pings for sent in pings.lost() if at - BEFORE <= sent < at]
        before = [rate for then, rate in self.intervals if at - BEFORE <= then < at]
        since = [rate for then, rate in self.intervals if then >= at]
        return {
            "sent": sum(pings.sent() for pings in self.pings),
            "lost": len(lost),
            "lost_before": len(lost_before),
            "lost_at": [round(sent - at, 2) for sent in sorted(lost_before) + lost],
            "stream_before": round(statistics.median(before), 1),
            "stream_least_before": round(min(before), 1),
            "stream_least": round(min(since), 1),
            "stream": [(round(then - at, 2), round(rate, 1)) for then, rate in self.intervals],
        }


# A datagram of a new connection each time, with its number and when it was sent; and how long each took.
NEW_FLOWS = """
import socket, struct, sys, time
address, rate, first, number = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), 0
while True:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("", 20000 + (first + number) % 40000))
        one.sendto(struct.pack("!Qd", number, time.time()), (address, 300))
    number += 1
    time.sleep(1 / rate)
"""
NEW_FLOWS_ARRIVE = """
import socket, struct, time
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as port:
    port.bind(("", 300))
    while True:
        number, sent = struct.unpack("!Qd", port.recv(100))
        print(number, sent, time.time() - sent, flush=True)
"""


class NewFlows:
    """A new connection of UDP every 20 ms, each of which is decided: from the `first` of some ports on."""

    def __init__(self, lab, first):
        self.lab, self.first = lab, first

    def __enter__(self):
        to = self.lab["g3"]
        arrive = [sys.executable, "-u", "-c", NEW_FLOWS_ARRIVE]
        self.receiver = to.popen(arrive, stdout=subprocess.PIPE, text=True)
        time.sleep(0.5)
        self.sender = self.lab["h1"].popen([sys.executable, "-c", NEW_FLOWS, to.IP(), "50", str(self.first)])
        self.arrived = []
        self.reader = threading.Thread(target=self.read)
        self.reader.start()
        return self

    def read(self):
        for line in self.receiver.stdout:
            number, sent, took = line.split()
            self.arrived.append((int(number), float(sent), float(took)))

    def __exit__(self, *_):
        for process in (self.sender, self.receiver):
            process.kill()
            process.wait()
        self.reader.join()
        self.receiver.stdout.close()

    def figures(self, at):
        """The time that the first packets of connections took from the moment `at` on, against before."""
        known = list(self.arrived)
        since = [took for _, sent, took in known if sent >= at - 0.1]
        before = [took for _, sent, took in known if sent < at - 0.1]
        # When those before the lost ones were sent.
        pairs = itertools.pairwise(sorted(known))
        lost = [round(a[1] - at, 2) for a, b in pairs for _ in range(a[0] + 1, b[0])]
        return {
            "new_flows": len(known),
            "new_flows_lost": len(lost),
            "new_flows_lost_at": lost,
            "new_flow_longest_before": round(max(before), 3),
            "new_flow_longest": round(max(since), 3),
            "new_flows_slow_at": [round(sent - at, 2) for _, sent, took in known if took > 0.05 and sent >= at - 0.1],
            "new_flows_over_50_ms": sum(took > 0.05 for took in since),
        }


@contextmanager
def priority_of_openvswitch():
    """Lets Open vSwitch's priority hold against all programs, as it is meant to.

    Debian starts it with nice -10. Where Linux groups programs by session (autogroup), that holds in its session only.
    """
    pid = int(Path("/var/run/openvswitch/ovs-vswitchd.pid").read_text())
    group = Path(f"/proc/{pid}/autogroup")
    try:
        before = group.read_text().split()[-1]
        group.write_text(str(os.getpriority(os.PRIO_PROCESS, pid)))
    except OSError:
        # There are no such groups here.
        yield
        return
    try:
        yield
    finally:
        group.write_text(before)


@contextmanager
def network(protocols, port, topology=Row):
    lab = Lab(topology(), port, protocols)
    try:
        lab.start()
        lab.net.staticArp()
        yield lab
    finally:
        lab.stop()


def decide(lab, count):
    """Lets the network decide this number of connections."""
    each, started = -(-count // 3), []
    for number, (a, b) in enumerate((("h1", "g3"), ("h2", "g1"), ("h3", "g2"))):
        command = [sys.executable, "-c", SENDER, lab[b].IP(), str(1024 + number), str(each), "700"]
        started.append(lab[a].popen(command))
    for process in started:
        if process.wait():
            raise RuntimeError("a sender failed")


def settle(maple):
    """Waits until the network decides nothing any more."""

    def is_at_rest():
        before = maple.count("leaves"), maple.count("flow_mods")
        time.sleep(1)
        return (maple.count("leaves"), maple.count("flow_mods")) == before

    wait_for("rest", is_at_rest, timeout=120)


def processor_seconds(pid):
    """The time for which a process has had a processor."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def write_list(file, denied):
    """An access list of 200 lines, of which some deny a port of UDP."""
    lines = [f"  - {{action: {'deny' if port in denied else 'pass'}, service: udp/{port}}}" for port in range(1, 201)]
    file.write_text("\n".join(["version: 1", "default: pass", "rules:", *lines, ""]))


def take_over(maple, lab, rate, number, command, environment, tell):
    """Another process takes over from this controller, while new connections begin."""
    before = {switch.name: set(lab.flows(switch.name)) for switch in lab.switches}
    with Traffic(lab, rate) as traffic, NewFlows(lab, 4000 * number) as flows:
        time.sleep(BEFORE)
        at, old = time.time(), maple.process
        with maple.log.open("a") as log:
            maple.process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | environment)
        old.wait(30)
        ended = time.time() - at
        wait_for("the switches", lambda: maple.control.exists() and len(maple.show("switches")) == 3)
        time.sleep(AFTER)
        figures = traffic.figures(at) | flows.figures(at)
    figures |= {"old_ended": round(ended, 3), "flow_mods": maple.count("flow_mods")}
    figures |= {"connections": maple.count("of_connections")}
    # The new connections have new rules.
    figures["rules_gone"] = sum(len(before[switch.name] - set(lab.flows(switch.name))) for switch in lab.switches)
    tell(f"take-over: { {k: v for k, v in figures.items() if k != 'stream'} }")
    settle(maple)
    return figures


def under_maple(options, folder, tell):
    leaves, rate, protocols, take_overs = options.leaves, options.rate, options.protocols, options.take_overs
    file = folder / "list.yaml"
    write_list(file, range(1, 21))
    environment = {"LIST": str(file)}
    arguments = ["--state", folder / "state"]
    policy = HERE / "connections.py"
    maple = Controller(policy, arguments, folder / "first", environment=environment)
    results = {}
    try:
        with network(protocols, maple.port) as lab:
            lab.wait_known(maple)
            lab.ping_all()
            decide(lab, leaves)
            settle(maple)
            lab.ping_all()
            settle(maple)
            rules = sum(len(lab.flows(switch.name)) for switch in lab.switches)
            tell(f"{maple.count('leaves')} decisions, {rules} rules")
            # The state file is written twice a second.
            time.sleep(2)
            first = {switch.name: set(lab.flows(switch.name)) for switch in lab.switches}
            with Traffic(lab, rate) as traffic:
                time.sleep(BEFORE)
                at = time.time()
                maple.process.kill()
                maple.process.wait()
                time.sleep(AWAY)
                port, maple = maple.port, None
                began = time.time()
                maple = Controller(policy, arguments, folder / "second", port=port, environment=environment)
                wait_for("the switches", lambda: len(maple.show("switches")) == 3)
                time.sleep(AFTER)
                restart = traffic.figures(at)
            restart |= {"flow_mods": maple.count("flow_mods"), "rules": rules, "decisions": maple.count("leaves")}
            restart["after_start"] = round(time.time() - began - AFTER, 2)
            results["restart"] = restart
            tell(f"restart: {restart['lost']} of {restart['sent']} lost, {restart['flow_mods']} flow-mods")
            restart["differing"] = sum(len(first[switch.name] ^ set(lab.flows(switch.name))) for switch in lab.switches)
            settle(maple)
            time.sleep(2)
            command = [MAPLE, "run", policy, *arguments, "--control", maple.control, "--takeover"]
            results["take-overs"] = [
                take_over(maple, lab, rate, number, command, environment, tell) for number in range(take_overs)
            ]
            before = {switch.name: set(lab.flows(switch.name)) for switch in lab.switches}
            with Traffic(lab, rate) as traffic:
                time.sleep(BEFORE)
                write_list(file, range(1, 20))
                mods, busy, at = maple.count("flow_mods"), processor_seconds(maple.process.pid), time.time()
                done = subprocess.run(
                    [MAPLE, "reload", "--json", "--control", str(maple.control)],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                took, busy = time.time() - at, processor_seconds(maple.process.pid) - busy
                if done.returncode:
                    raise RuntimeError(done.stderr)
                time.sleep(3)
                reload = traffic.figures(at)
            after = {switch.name: set(lab.flows(switch.name)) for switch in lab.switches}
            changed = sum(len(after[name] ^ before[name]) for name in after)
            answer = json.loads(done.stdout)
            reload |= {"flow_mods": maple.count("flow_mods") - mods, "differing": changed}
            reload |= {"seconds": round(took, 3), "processor_seconds": round(busy, 3)}
            reload |= {"answer": answer}
            results["reload"] = reload
            tell(f"reload: {reload['seconds']} s, {reload['lost']} lost, {reload['flow_mods']} flow-mods: {answer}")
            write_list(file, range(1, 21))
            at = time.time()
            subprocess.run([MAPLE, "reload", "--control", str(maple.control)], capture_output=True, check=True)
            results["reload without traffic"] = {"seconds": round(time.time() - at, 3)}
            tell(f"reload without traffic: {results['reload without traffic']['seconds']} s")
    finally:
        if maple:
            maple.stop()
    return results


def start_os_ken(program, port, _folder):
    """os-ken's learning switch."""
    script = HERE.parent / "peers" / "os_ken_simple_switch.py"
    return [program, script, str(port)], {}


def start_faucet(program, port, folder):
    """Faucet with one VLAN on the three switches."""
    interfaces = "{1: {native_vlan: 100}, 2: {native_vlan: 100}, 3: {native_vlan: 100}, 4: {native_vlan: 100}}"
    dps = [f"  s{i}: {{dp_id: {i}, hardware: Open vSwitch, interfaces: {interfaces}}}" for i in (1, 2, 3)]
    config = folder / "faucet.yaml"
    config.write_text("\n".join(["vlans: {100: {}}", "dps:", *dps, ""]))
    # It runs osken-manager, which lies beside it.
    environment = {"PATH": f"{Path(program).parent}:{os.environ['PATH']}", "FAUCET_CONFIG": str(config)}
    environment |= {"FAUCET_PROMETHEUS_ADDR": "127.0.0.1", "FAUCET_PROMETHEUS_PORT": str(free_port())}
    environment |= {"FAUCET_LOG": str(folder / "faucet.log"), "FAUCET_EXCEPTION_LOG": str(folder / "exceptions.log")}
    listen = ["--ryu-ofp-listen-host", "127.0.0.1", "--ryu-ofp-tcp-listen-port", str(port)]
    return [program, *listen], environment


def under_peer(name, of, program, protocols, rate, folder, tell):
    """Measures the restart of another controller, without decisions about UDP: its rules are for hosts."""
    port = free_port()
    command, environment = of(program, port, folder)

    def start():
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(command, env=os.environ | environment, **quiet)

    process = start()
    try:
        with network(protocols, port) as lab:
            wait_for(f"pings that are answered under {name}", lambda: lab.ping_all()[0] == 0, timeout=60)
            with Traffic(lab, rate) as traffic:
                time.sleep(BEFORE)
                at = time.time()
                process.kill()
                process.wait()
                time.sleep(AWAY)
                process = start()
                time.sleep(AFTER)
                restart = traffic.figures(at)
            tell(f"{name}: {restart['lost']} of {restart['sent']} lost")
            return restart
    finally:
        process.kill()
        process.wait()


def plot(results, file):
    """Lost pings and the stream over time, one column for each controller."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    shown = {"restart": "Maple", "Faucet": "Faucet", "os-ken": "os-ken's learning switch"}
    shown = {name: title for name, title in shown.items() if name in results}
    figure, axes = pyplot.subplots(2, len(shown), figsize=(4 * len(shown), 5), sharex=True, sharey="row", squeeze=False)
    bins = [n / 10 for n in range(int(-10 * BEFORE), int(10 * (AWAY + AFTER)))]
    for column, (name, title) in enumerate(shown.items()):
        one, (above, below) = results[name], axes[:, column]
        above.hist(one["lost_at"], bins=bins, color="tab:red")
        above.set_title(f"{title}: {one['lost']} of {one['sent']:,} lost")
        below.plot(*zip(*one["stream"], strict=True), color="tab:blue", linewidth=0.8)
        below.set(xlabel="seconds after kill -9", ylim=(0, None), xlim=(bins[0], bins[-1]))
        for axis in (above, below):
            axis.axvspan(0, AWAY, color="lightgrey", label="no controller")
    axes[0, 0].set_ylabel("lost pings in 100 ms")
    axes[1, 0].set_ylabel("stream, Mbit/s")
    axes[0, 0].legend(loc="upper right")
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})


def without_stream(figures):
    """The figures without the stream's hundreds of rates."""
    if isinstance(figures, list):
        return [without_stream(one) for one in figures]
    return {name: figure for name, figure in figures.items() if name != "stream"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--leaves", type=int, default=10_000, help="decisions [default: 10000]")
    parser.add_argument("--rate", default="50M", help="bit/s of the stream, as iperf3 has it [default: 50M]")
    parser.add_argument("--protocols", default="OpenFlow13")
    parser.add_argument("--take-overs", type=int, default=1, help="number of them, one after the other [default: 1]")
    parser.add_argument("--os-ken", help="a Python that has os-ken")
    parser.add_argument("--faucet", help="the program faucet")
    parser.add_argument("--plot", type=Path, help="draw losses and the stream over time into a file (SVG)")
    parser.add_argument("--json", type=Path, help="write all figures into a file")
    options = parser.parse_args()
    if os.geteuid():
        parser.error("must be root")

    def tell(text):
        print(text, file=sys.stderr, flush=True)

    with ExitStack() as stack:
        stack.enter_context(the_machine())
        for pid in start_openvswitch():
            stack.callback(subprocess.run, ["kill", str(pid)], check=False)
        stack.enter_context(priority_of_openvswitch())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        results = under_maple(options, folder, tell)
        peers = [("Faucet", start_faucet, options.faucet, "OpenFlow13")]
        peers.append(("os-ken", start_os_ken, options.os_ken, "OpenFlow10"))
        for name, of, program, protocols in peers:
            if program:
                results[name] = under_peer(name, of, program, protocols, options.rate, folder, tell)
    if options.plot:
        plot(results, options.plot)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    print(json.dumps({name: without_stream(one) for name, one in results.items()}, indent=1))


if __name__ == "__main__":
    main()
