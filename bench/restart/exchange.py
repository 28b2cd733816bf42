"""All rules of a switch are exchanged for others while packets flow, on Open vSwitch.

One bridge with three hosts. The first sends one datagram for each of many connections of UDP, so that the switch has a
rule for each, which leads to the second host. Then a reload exchanges every rule for one with another match, which
leads to the third host, while the first host goes on sending over all connections. Each datagram has a number: it must
reach exactly one of the two hosts.

Needs root, Open vSwitch and Mininet. Run by the system's Python, for Mininet.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests/system"))

from harness import MAPLE, Controller, start_openvswitch, the_machine, wait_for  # noqa: E402
from lab import Lab  # noqa: E402
from mininet.topo import Topo  # noqa: E402

# Destination ports of the connections of one source port.
WIDTH = 500
# Sends numbered datagrams over connections, in order or in a fixed disorder, at a given rate.
SENDER = f"""
import socket, struct, sys, time
address, connections, first, count, rate, stride = sys.argv[1], *map(int, sys.argv[2:])
sockets = {{}}
start = time.monotonic()
for number in range(first, first + count):
    one = number * stride % connections
    source = 1024 + one // {WIDTH}
    if source not in sockets:
        sockets[source] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sockets[source].bind(("", source))
    sockets[source].sendto(struct.pack("!Q", number), (address, 1 + one % {WIDTH}))
    time.sleep(max(0, start + (number - first) / rate - time.monotonic()))
"""
# Prints the number of each datagram that arrives, and when, whatever its port.
RECEIVER = """
import socket, struct, sys, time
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
link.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)  # SO_RCVBUFFORCE
print("ready", flush=True)
while True:
    frame = link.recv(2048)
    if frame[23] == 17 and len(frame) >= 50:
        print(struct.unpack("!Q", frame[42:50])[0], time.time())
"""


class Star(Topo):
    """Three hosts at one switch."""

    def build(self):
        switch = self.addSwitch("s1")
        for number in (1, 2, 3):
            self.addLink(self.addHost(f"h{number}"), switch)


def send(lab, connections, first, count, rate, stride):
    arguments = [lab["h2"].IP(), *map(str, (connections, first, count, rate, stride))]
    return lab["h1"].popen([sys.executable, "-c", SENDER, *arguments])


def rules(lab):
    """The number of rules of the switch."""
    told = subprocess.run(
        ["ovs-ofctl", "-O", lab.protocol, "dump-aggregate", "s1"], capture_output=True, text=True, check=True
    ).stdout
    return int(told.split("flow_count=")[1])


def exchange(options, folder, tell):
    os.environ["WAY"] = "2"
    maple = Controller(HERE / "one_rule_each.py", ["--track-hosts", "off"], folder / "run")
    count, results = options.rules, {"protocol": options.protocols}
    lab = Lab(Star(), maple.port, options.protocols)
    try:
        lab.start()
        lab.net.staticArp()
        wait_for("the switch", lambda: len(maple.show("switches")) == 1)
        time.sleep(3)
        first = 0
        while rules(lab) < count:
            # In order at first; what the network has no rules for then again.
            sender = send(lab, count, first, count, options.rate, 1)
            while sender.poll() is None:
                tell(f"{rules(lab):,} rules")
                time.sleep(5)
            time.sleep(2)
            first += count
        results["rules"] = rules(lab)
        tell(f"{results['rules']:,} rules")
        receivers = []
        for name in ("h2", "h3"):
            file = (folder / name).open("w")
            receivers.append(lab[name].popen([sys.executable, "-u", "-c", RECEIVER], stdout=file))
        wait_for("receivers", lambda: all("ready" in (folder / name).read_text() for name in ("h2", "h3")))
        total = options.probes * options.seconds
        sender = send(lab, count, first, total, options.probes, 7919)
        time.sleep(3)
        # The same policy, but for the other way.
        policy = folder / "other.py"
        policy.write_text((HERE / "one_rule_each.py").read_text().replace('os.environ["WAY"]', '"3"'))
        mods, began = maple.count("flow_mods"), time.time()
        done = subprocess.run(
            [MAPLE, "reload", str(policy), "--json", "--control", str(maple.control)], capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(done.stderr)
        results["reload_seconds"] = round(time.time() - began, 2)
        tell(f"reload: {done.stdout.strip()}")
        sender.wait()
        time.sleep(2)
        for receiver in receivers:
            receiver.kill()
            receiver.wait()
        results["flow_mods"], results["rules_after"] = maple.count("flow_mods") - mods, rules(lab)
        results["errors"] = maple.show("errors")
    finally:
        lab.stop()
        maple.stop()
    return results | judge(folder, first, total, began)


def judge(folder, first, total, began):
    """Where each datagram arrived."""
    arrived = {"h2": {}, "h3": {}}
    times = []
    for name, numbers in arrived.items():
        for line in (folder / name).read_text().splitlines()[1:]:
            number, at = line.split()
            numbers.setdefault(int(number), []).append(float(at))
            times.append(float(at))
    wanted = range(first, first + total)
    both = [n for n in wanted if n in arrived["h2"] and n in arrived["h3"]]
    twice = [n for n in wanted for numbers in arrived.values() if len(numbers.get(n, ())) > 1]
    lost = [n for n in wanted if n not in arrived["h2"] and n not in arrived["h3"]]
    old = [n for n in wanted if n in arrived["h2"]]
    new = [n for n in wanted if n in arrived["h3"]]
    times.sort()
    pause, at = max(((b - a, a) for a, b in itertools.pairwise(times)), default=(0, 0))
    return {
        "sent": total,
        "old": len(old),
        "new": len(new),
        "both": len(both),
        "twice": len(twice),
        "lost": len(lost),
        "first_new": round(min(t for n in new for t in arrived["h3"][n]) - began, 2) if new else None,
        "last_old": round(max(t for n in old for t in arrived["h2"][n]) - began, 2) if old else None,
        "longest_pause": round(pause, 3),
        "pause_at": round(at - began, 2),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rules", type=int, default=100_000, help="rules to exchange [default: 100000]")
    parser.add_argument("--rate", type=int, default=3_000, help="new connections a second before [default: 3000]")
    parser.add_argument("--probes", type=int, default=500, help="datagrams a second meanwhile [default: 500]")
    parser.add_argument("--seconds", type=int, default=40, help="how long it lasts [default: 40]")
    parser.add_argument("--protocols", default="OpenFlow13")
    options = parser.parse_args()
    if os.geteuid():
        parser.error("must be root")

    def tell(text):
        print(text, file=sys.stderr, flush=True)

    with ExitStack() as stack:
        stack.enter_context(the_machine())
        for pid in start_openvswitch():
            stack.callback(subprocess.run, ["kill", str(pid)], check=False)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        print(json.dumps(exchange(options, folder, tell), indent=1))


if __name__ == "__main__":
    main()
