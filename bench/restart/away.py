"""The cost for the traffic of a network on Open vSwitch if control connections end while datapaths go on.

The network and its decisions are those of `run.py`, in a row or in a ring. For each of some times the connection of one
switch after the other is away, and then those of all at once. Prints a line for each: the pings that were lost, and the
changes of rules that were sent afterwards.

Needs root, Open vSwitch and Mininet. Run by the system's Python, for Mininet.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from run import HERE, Pings, Row, decide, network, priority_of_openvswitch, settle, write_list

sys.path.insert(0, str(HERE.parents[1] / "tests/system"))
from harness import Controller, free_port, start_openvswitch, the_machine, vsctl, wait_for

# How long everything is watched after all connections are back: discovery asks every link again.
AFTER = 8.0


class Ring(Row):
    """A row with a link between the last switch and the first."""

    def build(self):
        super().build()
        self.addLink("s3", "s1")


def away(maple, lab, bridges, seconds):
    """These bridges look for their controller where nobody listens, for some time."""
    ups, mods = maple.count("of_dp_connections"), maple.count("flow_mods")
    pings = [Pings(lab, a, b) for a, b in (("h1", "h3"), ("h2", "g1"), ("g3", "h2"))]
    try:
        time.sleep(1)
        for bridge in bridges:
            vsctl("set-controller", bridge, f"tcp:127.0.0.1:{free_port()}")
        wait_for("the ends", lambda: len(maple.connected()) == 3 - len(bridges))
        time.sleep(seconds)
        for bridge in bridges:
            vsctl("set-controller", bridge, f"tcp:127.0.0.1:{maple.port}")
        wait_for("the switches", lambda: maple.count("of_dp_connections") == ups + len(bridges), timeout=60)
        wait_for("the connections", lambda: len(maple.connected()) == 3)
        time.sleep(AFTER)
    finally:
        for one in pings:
            one.stop()
    # Answers of the last ones may have been on their way.
    end = time.time() - 1
    lost = sum(sent < end for one in pings for sent in one.lost())
    return {"lost": lost, "sent": sum(one.sent() for one in pings), "flow_mods": maple.count("flow_mods") - mods}


def measure(topology, protocols, options, folder, tell):
    file = folder / "list.yaml"
    write_list(file, range(1, 21))
    maple = Controller(HERE / "connections.py", [], folder / "maple", environment={"LIST": str(file)})
    try:
        with network(protocols, maple.port, topology) as lab:
            lab.wait_known(maple)
            lab.ping_all()
            decide(lab, options.leaves)
            settle(maple)
            lab.ping_all()
            settle(maple)
            rules = sum(len(lab.flows(switch.name)) for switch in lab.switches)
            tell({"rules": rules, "decisions": maple.count("leaves")})
            for seconds in options.seconds:
                for bridges in (["s1"], ["s2"], ["s3"], ["s1", "s2", "s3"]):
                    tell({"away": " ".join(bridges), "seconds": seconds} | away(maple, lab, bridges, seconds))
    finally:
        maple.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leaves", type=int, default=9_000, help="connections that are decided first")
    parser.add_argument("--seconds", type=float, nargs="+", default=[4, 30, 120], help="how long connections are away")
    parser.add_argument("--of", nargs="+", default=["OpenFlow13", "OpenFlow10"], help="versions of OpenFlow")
    parser.add_argument("--topology", nargs="+", choices=["row", "ring"], default=["row", "ring"])
    options = parser.parse_args()
    with the_machine(), tempfile.TemporaryDirectory() as folder:
        pids = start_openvswitch()
        try:
            with priority_of_openvswitch():
                for name in options.topology:
                    for protocols in options.of:
                        place = Path(folder) / f"{name}-{protocols}"
                        place.mkdir()
                        about = {"topology": name, "version": protocols}
                        measure(
                            {"row": Row, "ring": Ring}[name],
                            protocols,
                            options,
                            place,
                            lambda figures, about=about: print(json.dumps(about | figures), flush=True),
                        )
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGTERM)


if __name__ == "__main__":
    main()
