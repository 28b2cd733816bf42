"""What look-ups cost Open vSwitch's own datapath, in user space: its flows, its processor time, its rate.

Two switches with hosts, all of whom talk with each other under a policy that reads both addresses; by rules for pairs
of hosts (`--look-ups 0`) and by tables that packets are looked up in, in turns. Each turn has a controller and switches
of its own. "A frame": its processor time in the daemon where the datapath has a flow for it; "a first frame": where it
has none, and the daemon asks the tables. Frames a second are those of one pair that arrive.

Needs root, Open vSwitch and Mininet. Run by the system's Python, for Mininet.
"""

import argparse
import ctypes
import os
import re
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests/system"))

from harness import ROOT, Controller, sh, start_openvswitch, the_machine, wait_for  # noqa: E402
from lab import Lab  # noqa: E402
from mininet.topo import LinearTopo  # noqa: E402

LIBC = ctypes.CDLL(None, use_errno=True)
NETWORK_NAMESPACE = 0x40000000
EXPERIMENTAL = struct.pack("!H", 0x88B5)


@contextmanager
def namespace(pid):
    """The block is in the network namespace of a process."""
    with open("/proc/self/ns/net") as before, open(f"/proc/{pid}/ns/net") as other:
        for entered in (other, before):
            if LIBC.setns(entered.fileno(), NETWORK_NAMESPACE):
                raise OSError(ctypes.get_errno(), "setns")
            if entered is other:
                yield


class Traffic:
    """Frames between all pairs of hosts, sent by this process."""

    def __init__(self, lab):
        self.addresses = [bytes.fromhex(host.MAC().replace(":", "")) for host in lab.hosts]
        self.sockets = [self.open(host) for host in lab.hosts]
        count = len(self.sockets)
        # Hosts of both switches by turns, each to a farther one in each round.
        self.pairs = [(one, (one + step) % count) for step in range(1, count) for one in range(count)]

    @staticmethod
    def open(host):
        with namespace(host.pid):
            out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            out.bind((host.defaultIntf().name, 0))
        return out

    def announce(self):
        for address, out in zip(self.addresses, self.sockets, strict=True):
            out.send(b"\xff" * 6 + address + EXPERIMENTAL + bytes(46))

    def send(self, pairs, rate, seconds):
        """Sends frames of these pairs in turn. Returns how many."""
        frames = [(self.sockets[a], self.addresses[b] + self.addresses[a] + EXPERIMENTAL + bytes(46)) for a, b in pairs]
        sent, began = 0, time.monotonic()
        while (now := time.monotonic() - began) < seconds:
            due = min(int(now * rate), sent + 500)
            for number in range(sent, due):
                out, frame = frames[number % len(frames)]
                out.send(frame)
            sent = due
            time.sleep(0.001)
        return sent

    def close(self):
        for out in self.sockets:
            out.close()


def daemon_seconds():
    """The processor time of all threads of the daemon."""
    pid = Path("/var/run/openvswitch/ovs-vswitchd.pid").read_text().strip()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir()) / 1e9


def datapath_flows():
    flows = sh("ovs-appctl", "dpctl/dump-flows", "netdev@ovs-netdev").splitlines()
    return sum("eth_type(0x88b5)" in flow for flow in flows)


def rules():
    told = [sh("ovs-ofctl", "-O", "OpenFlow13", "dump-aggregate", switch) for switch in ("s1", "s2")]
    return [int(re.search(r"flow_count=(\d+)", text)[1]) for text in told]


def arrived(lab):
    """The frames that the hosts' ports have had, by /proc/net/dev."""
    counts = dict(line.split(":") for line in Path("/proc/net/dev").read_text().splitlines()[2:])
    ports = {link.intf2.name for link in lab.links if link.intf1.node in lab.hosts}
    return sum(int(columns.split()[9]) for name, columns in counts.items() if name.strip() in ports)


def at_rest(maple):
    """Waits until no rule has been sent for a second."""

    def is_quiet():
        before = maple.count("flow_mods")
        time.sleep(1)
        return maple.count("flow_mods") == before

    wait_for("rest", is_quiet, timeout=120)


def measure(options, folder, look_ups):
    maple = Controller(options.policy, ["--look-ups", look_ups], folder)
    lab = Lab(LinearTopo(k=2, n=options.hosts // 2), maple.port, "OpenFlow13")
    traffic = None
    try:
        lab.start()
        lab.wait_known(maple)
        traffic = Traffic(lab)
        traffic.announce()
        wait_for("the hosts", lambda: len(maple.hosts()) == len(lab.hosts))
        began = maple.count("packet_ins")
        # What has no rule yet gets one.
        traffic.send(traffic.pairs, options.rate / 4, 2 + 8 * len(traffic.pairs) / options.rate)
        at_rest(maple)
        misses = maple.count("packet_ins") - began
        first, frames, speeds, flows = [], [], [], []
        for _ in range(options.rounds):
            sh("ovs-appctl", "revalidator/purge")
            before, sent = daemon_seconds(), len(traffic.pairs)
            traffic.send(traffic.pairs, options.rate / 4, 4 * sent / options.rate)
            first.append((daemon_seconds() - before) / sent)
            before = daemon_seconds()
            sent = traffic.send(traffic.pairs, options.rate, options.seconds)
            frames.append((daemon_seconds() - before) / sent)
            flows.append(datapath_flows())
            before, began = arrived(lab), time.monotonic()
            traffic.send([(0, len(lab.hosts) - 1)], 1e9, options.seconds)
            speeds.append((arrived(lab) - before) / (time.monotonic() - began))
        return {
            "rules, s1 and s2": " ".join(map(str, rules())),
            "packet-ins": misses,
            "flows of the datapath": max(flows),
            "µs a first frame": 1e6 * statistics.median(first),
            "µs a frame": 1e6 * statistics.median(frames),
            "frames a second": statistics.median(speeds),
        }
    finally:
        if traffic:
            traffic.close()
        lab.stop()
        maple.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hosts", type=int, default=48, help="hosts, half of them at each switch [default: 48]")
    parser.add_argument("--rate", type=int, default=20_000, help="frames a second of all pairs [default: 20000]")
    parser.add_argument("--seconds", type=float, default=3, help="seconds of each measurement [default: 3]")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of a turn [default: 3]")
    parser.add_argument("--turns", type=int, default=4, help="controllers [default: 4]")
    parser.add_argument("--policy", type=Path, default=ROOT / "examples/secure_routing.py")
    options = parser.parse_args()
    if os.geteuid():
        parser.error("must be root")
    found = {0: [], 4: []}
    with ExitStack() as stack:
        stack.enter_context(the_machine())
        for pid in start_openvswitch():
            stack.callback(subprocess.run, ["kill", str(pid)], check=False)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for turn in range(options.turns):
            look_ups = 4 * (turn % 4 in (1, 2))
            found[look_ups].append(measure(options, folder / str(turn), look_ups))
            print(f"{turn + 1} of {options.turns}", file=sys.stderr, flush=True)
    print(f"{options.hosts} hosts, {options.policy.name}: by pairs, by look-ups")
    for name in found[0][0]:
        texts = []
        for all_found in found.values():
            values = [one[name] for one in all_found]
            is_text = isinstance(values[0], str)
            texts.append(values[-1] if is_text else f"{statistics.median(values):,.{2 if name[0] == 'µ' else 0}f}")
        print(f"{name}: {' | '.join(texts)}")


if __name__ == "__main__":
    main()
