"""HTTP connection time against the rate of connections, under three controllers: Figure 6(b) of the Maple paper.

Three Open vSwitch bridges in a row, a client at the first and a server at the last. `httperf` opens R connections in a
second, each for one request, and tells how long a connection stood on average, from the first packet until it was
closed. The controllers: one whose rules are as narrow as a connection, `mt_route`, and none (every bridge a learning
switch). Before each run of the first two all rules are withdrawn; `mt_route` then runs once more with the rules that it
has: warm.

Needs root and the packages that `make bench-http` installs. Run by the system's Python, for Mininet.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests/system"))

from harness import Controller, sh, start_openvswitch, the_machine, vsctl  # noqa: E402
from lab import Lab  # noqa: E402
from mininet.topo import Topo  # noqa: E402

CLIENT, SERVER, PORT = "10.0.1.1", "10.0.3.1", 8000
# Rate: the paper's figures at its highest and lowest rate, in ms, as far as its text gives them.
PAPER = {10: {"mt_route": 1.0}, 120: {"exact_match": 282.0, "mt_route": 2.0}}
KINDS = {
    "exact_match": "exact match",
    "mt_route": "mt_route, first connections included",
    "warm": "mt_route, warm",
    "native": "native L2",
}


class Row(Topo):
    """bhc - bh1 - bh2 - bh3 - bhs."""

    def build(self):
        switches = [self.addSwitch(f"bh{i}", dpid=f"{i:016x}") for i in (1, 2, 3)]
        self.addLink(self.addHost("bhc", ip=f"{CLIENT}/16"), switches[0], port2=1)
        self.addLink(self.addHost("bhs", ip=f"{SERVER}/16"), switches[2], port2=1)
        self.addLink(switches[0], switches[1])
        self.addLink(switches[1], switches[2])


class Bench:
    """A running network with its server."""

    def __init__(self, lab, seconds, timeout):
        self.lab, self.seconds, self.timeout = lab, seconds, timeout

    def connections(self, rate):
        """Opens connections at this rate; mean time of one in ms, and how many of how many failed."""
        number = max(1, round(rate * self.seconds))
        command = f"httperf --hog --server {SERVER} --port {PORT} --uri / --rate {rate} --num-conns {number}"
        text = self.lab["bhc"].cmd(f"{command} --timeout {self.timeout} 2>&1")
        time_ms = re.search(r"Connection time \[ms\]: min \S+ avg (\S+) max \S+ median (\S+)", text)
        replies = re.search(r"replies (\d+)", text)
        if time_ms is None or replies is None:
            raise RuntimeError(f"httperf said: {text}")
        answered = int(replies.group(1))
        # A connection that failed took as long as the client waited; httperf's mean leaves it out.
        lost = number - answered
        total = float(time_ms.group(1)) * answered + 1000 * self.timeout * lost
        return {"ms": total / number, "median_ms": float(time_ms.group(2)), "failed": lost, "connections": number}

    def median_of(self, runs, rate, before=lambda: None):
        """The run whose mean is the median of several."""
        results = []
        for _ in range(runs):
            before()
            results.append(self.connections(rate))
        return sorted(results, key=lambda result: result["ms"])[len(results) // 2]

    def controlled(self, policy, rates, runs, folder, tell):
        """All rates under a policy: cold, and warm."""
        controller = Controller(HERE / f"policies.py:{policy}", [], folder)
        try:
            for switch in self.lab.switches:
                vsctl("set-fail-mode", switch.name, "secure")
                vsctl("set-controller", switch.name, f"tcp:127.0.0.1:{controller.port}")
            self.lab.wait_known(controller)
            forget = lambda: self.forget(controller)  # noqa: E731
            cold = {rate: tell(policy, rate, self.median_of(runs, rate, forget)) for rate in rates}
            warm = {}
            if policy == "mt_route":
                self.connections(10)
                warm = {rate: tell("warm", rate, self.median_of(runs, rate)) for rate in rates}
            return cold, warm
        finally:
            controller.stop()

    def forget(self, controller):
        """Withdraws all rules that a policy made, and waits until they are gone."""
        controller.ask({"invalidate": "all"})
        time.sleep(0.5)

    def native(self, rates, runs, tell):
        """All rates with learning switches."""
        for switch in self.lab.switches:
            vsctl("del-controller", switch.name)
            sh("ovs-ofctl", "-O", "OpenFlow13", "del-flows", switch.name)
            vsctl("set-fail-mode", switch.name, "standalone")
        time.sleep(1)
        self.connections(10)
        return {rate: tell("native", rate, self.median_of(runs, rate)) for rate in rates}


def measure(rates, runs, seconds, timeout):
    """Measures each controller at each rate. Returns what `Bench.connections` gives, by controller and rate."""

    def tell(kind, rate, result):
        failed = f", {result['failed']} of {result['connections']} failed" if result["failed"] else ""
        print(f"{KINDS[kind]}: {rate} connections/s: {result['ms']:.2f} ms{failed}", file=sys.stderr, flush=True)
        return result

    with ExitStack() as stack:
        stack.enter_context(the_machine())
        for pid in start_openvswitch():
            stack.callback(subprocess.run, ["kill", str(pid)], check=False)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        lab = Lab(Row(), None, "OpenFlow13")
        stack.callback(lab.stop)
        lab.start()
        lab.net.staticArp()
        server = stack.enter_context(lab.running("bhs", sys.executable, "-u", HERE / "server.py", SERVER, str(PORT)))
        if server.stdout.readline() != "ready\n":
            raise RuntimeError("the HTTP server does not start")
        bench = Bench(lab, seconds, timeout)
        native = bench.native(rates, runs, tell)
        mt_route, warm = bench.controlled("mt_route", rates, runs, folder / "mt_route", tell)
        exact, _ = bench.controlled("exact_match", rates, runs, folder / "exact_match", tell)
        return {"exact_match": exact, "mt_route": mt_route, "warm": warm, "native": native}


def summary(results):
    """The two targets: how far below exact matches where these are slowest, how far above learning switches."""
    exact = results["exact_match"]
    saturated = max(exact, key=lambda rate: exact[rate]["ms"])
    ratios = [results["warm"][rate]["median_ms"] / results["native"][rate]["median_ms"] for rate in exact]
    return {
        "saturated_rate": saturated,
        "exact_over_mt_route": exact[saturated]["ms"] / results["mt_route"][saturated]["ms"],
        "exact_over_warm": exact[saturated]["ms"] / results["warm"][saturated]["ms"],
        "warm_over_native": statistics.median(ratios),
    }


def table(results, totals):
    """The results as text."""
    head = ["rate", *KINDS, "failed exact", "paper: exact", "paper: mt_route"]
    rows = [head]
    for rate in results["native"]:
        paper = PAPER.get(rate, {})
        row = [str(rate), *(f"{results[kind][rate]['ms']:.2f}" for kind in KINDS)]
        row += [str(results["exact_match"][rate]["failed"])]
        rows.append([*row, *(str(paper.get(kind, "")) for kind in ("exact_match", "mt_route"))])
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(
        [
            *lines,
            "",
            f"times of a connection in ms; at {totals['saturated_rate']}/s exact match takes "
            f"{totals['exact_over_mt_route']:.0f} times as long as mt_route "
            f"({totals['exact_over_warm']:.0f} times as long as warm)",
            f"mt_route, once warm, takes {totals['warm_over_native']:.2f} times as long as native L2 (median of rates)",
        ]
    )


def plot(results, path):
    """Draws connection time against rate."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 6))
    for kind, name in KINDS.items():
        axes.plot(list(results[kind]), [result["ms"] for result in results[kind].values()], marker="o", label=name)
    axes.set(xscale="log", yscale="log", xlabel="connections a second", ylabel="mean connection time (ms)")
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend()
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description="HTTP connection time under three controllers")
    parser.add_argument("--rates", default="1,10,20,50,100,200,500,1000", help="connections a second, with commas")
    parser.add_argument("--runs", type=int, default=3, help="runs a rate, of which the median counts")
    parser.add_argument("--seconds", type=float, default=2, help="how long connections are opened")
    parser.add_argument("--timeout", type=float, default=10, help="how long a client waits, in seconds")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--plot", type=Path, metavar="DIR", help="write connection-time.svg into this folder")
    arguments = parser.parse_args()
    if arguments.plot:
        # Said now, and not when everything has been measured.
        import matplotlib  # noqa: F401

        arguments.plot.mkdir(parents=True, exist_ok=True)
    rates = [int(rate) for rate in arguments.rates.split(",")]
    results = measure(rates, arguments.runs, arguments.seconds, arguments.timeout)
    totals = summary(results)
    print(json.dumps({"results": results} | totals, indent=1) if arguments.json else table(results, totals))
    if arguments.plot:
        plot(results, arguments.plot / "connection-time.svg")


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, AssertionError, ImportError, subprocess.CalledProcessError) as error:
        sys.exit(f"bench-http: {error}")
