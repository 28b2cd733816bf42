"""What the death of a master costs the traffic of a network on Open vSwitch, when a standby takes over.

Bridges in a row, two hosts at each of the first three, and three servers of etcd. Three controllers, all of which every
bridge lists. Hosts make decisions, one for each of many connections of UDP. Then 20 pairs of hosts ping every 10 ms and
a stream of TCP crosses the network, while the master is killed with `kill -9`: twice, each time with a standby that has
never been master. The second time a new connection begins every 20 ms. With `--without-copies` standbys get nothing of
what the master decides.

Prints JSON: pings lost, flow-mods of the successor, rules that are gone, and the time from the death until the switches
obey the successor and until a connection that has begun since is answered.

Needs root, Open vSwitch, Mininet, iperf3 and etcd. Run by the system's Python, for Mininet.

    MAPLE=.venv/bin/maple python3 bench/cluster/takeover.py [--leaves N] [--switches N] [--without-copies]
"""

import argparse
import contextlib
import itertools
import json
import os
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from writes import start_etcd

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "tests/system"), str(HERE.parents[0] / "restart")]
from harness import Controller, free_port, start_openvswitch, the_machine, vsctl, wait_for  # noqa: E402
from mininet.topo import Topo  # noqa: E402
from run import BEFORE, NewFlows, Traffic, decide, network, priority_of_openvswitch, settle, write_list  # noqa: E402

NAMES = ("a", "b", "c")
# How long everything is watched after the successor is master: discovery asks every link again.
AFTER = 12.0


def row(switches):
    """A row of this many bridges, two hosts at each of the first three."""

    class LongRow(Topo):
        def build(self):
            bridges = [self.addSwitch(f"s{number}") for number in range(1, switches + 1)]
            for number, bridge in enumerate(bridges[:3], 1):
                self.addLink(self.addHost(f"h{number}"), bridge)
                self.addLink(self.addHost(f"g{number}"), bridge)
            for a, b in itertools.pairwise(bridges):
                self.addLink(a, b)

    return LongRow


def known(maple):
    """What a controller knows of the cluster; nothing until it has joined."""
    with contextlib.suppress(RuntimeError, OSError):
        return maple.show("cluster")
    return None


def find_master(members):
    """The name of the controller that is master, as far as one says so."""
    return next((name for name, maple in members.items() if (known(maple) or {}).get("role") == "master"), None)


def wait_ready(members, master, switches, with_copies):
    """Waits until standbys could take over at once."""
    began = time.monotonic()

    def is_ready():
        of_master = known(members[master])
        others = [known(maple) for name, maple in members.items() if name != master]
        if not all(one and one["connections"] == switches for one in others):
            return False
        if not with_copies:
            return True
        rows = of_master["copy"]["rows"]
        is_new = of_master["copy"]["age"] < time.monotonic() - began
        return is_new and all(one["copy"]["behind"] == 0 and one["copy"]["rows"] == rows for one in others)

    wait_for("standbys", is_ready, timeout=120)


def kill(members, lab, rate, with_new_flows):
    """The master dies."""
    switches, before = len(lab.switches), {switch.name: set(lab.flows(switch.name)) for switch in lab.switches}
    with Traffic(lab, rate) as traffic, ExitStack() as stack:
        flows = stack.enter_context(NewFlows(lab, 0)) if with_new_flows else None
        time.sleep(BEFORE)
        master = find_master(members)
        dead, at = members.pop(master), time.time()
        dead.process.kill()
        dead.process.wait()
        successor = wait_for("a successor", lambda: find_master(members), timeout=60, every=0.002)
        elected = time.time() - at
        maple = members[successor]
        wait_for("its switches", lambda: len(maple.connected()) == switches, timeout=60, every=0.002)
        obeyed = time.time() - at
        time.sleep(AFTER)
        figures = traffic.figures(at)
        if flows:
            figures |= flows.figures(at)
            answered = [sent + took - at for _, sent, took in flows.arrived if sent >= at]
            figures["first_new_flow_answered"] = round(min(answered), 3)
    figures.pop("stream")
    figures |= {"elected": round(elected, 3), "obeyed": round(obeyed, 3), "flow_mods": maple.count("flow_mods")}
    figures["rules_gone"] = sum(len(before[switch.name] - set(lab.flows(switch.name))) for switch in lab.switches)
    settle(maple)
    return {"master": master, "successor": successor, "new_flows_begin": with_new_flows} | figures


def measure(options, folder, stack, tell):
    clients = start_etcd(stack, folder)
    address = f"etcd://{','.join(f'127.0.0.1:{client}' for client in clients)}/bench"
    file = folder / "list.yaml"
    write_list(file, range(1, 21))
    members = {}
    for name in NAMES:
        arguments = ["--cluster", address, "--name", name]
        if not options.without_copies:
            arguments += ["--cluster-listen", f"127.0.0.1:{free_port()}"]
        policy, environment = HERE.parent / "restart/connections.py", {"LIST": str(file)}
        members[name] = Controller(policy, arguments, folder / f"controller-{name}", environment=environment)
        stack.callback(members[name].stop)
    targets = [f"tcp:127.0.0.1:{maple.port}" for maple in members.values()]
    master = wait_for("a master", lambda: find_master(members), timeout=60)
    with network("OpenFlow13", members[master].port, row(options.switches)) as lab:
        for switch in lab.switches:
            vsctl("set-controller", switch.name, *targets)
        maple = members[master]
        wait_for("the switches", lambda: len(maple.connected()) == options.switches, timeout=60)
        lab.wait_known(maple)
        lab.ping_all()
        decide(lab, options.leaves)
        settle(maple)
        lab.ping_all()
        settle(maple)
        rules = sum(len(lab.flows(switch.name)) for switch in lab.switches)
        tell({"switches": options.switches, "rules": rules, "decisions": maple.count("leaves")})
        for with_new_flows in (False, True):
            master = find_master(members)
            wait_ready(members, master, options.switches, not options.without_copies)
            tell(kill(members, lab, options.rate, with_new_flows))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leaves", type=int, default=9_000, help="connections that are decided first")
    parser.add_argument("--switches", type=int, default=3, help="bridges, three at least")
    parser.add_argument("--rate", default="50M", help="rate of the stream, as iperf3 has it")
    parser.add_argument("--without-copies", action="store_true", help="standbys get nothing of what the master decides")
    options = parser.parse_args()
    with the_machine(), ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for pid in start_openvswitch():
            stack.callback(os.kill, pid, signal.SIGTERM)
        stack.enter_context(priority_of_openvswitch())
        measure(options, folder, stack, lambda figures: print(json.dumps(figures), flush=True))


if __name__ == "__main__":
    main()
