"""The cost of a long access list: ``tests/with-openvswitch python bench/acl/install.py --rules 10000 30000``, as root.

For each length: a generated list is loaded, linted, and run on one Open vSwitch bridge with two ports in user space.
The table says how long `maple acl test` and `maple acl lint` take, when `maple run` listens, how many rules the switch
has in the end, when after `set-controller` the last one was there, the longest time without a new rule before that, and
the memory of the controller; and how long `ovs-ofctl add-flows` takes to give another bridge the same rules, with the
ratio of both.
"""

from __future__ import annotations

import argparse
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
MAPLE = [sys.executable, "-m", "maple"]
BRIDGE = "acl-install"
STILL = 3.0
"""Seconds. The rules are all there when their number has stayed for this time longer than ever before."""


class Row(NamedTuple):
    """The cost of one list; times in seconds."""

    rules: int
    load: float
    lint: float
    listens: float
    installed: int
    last: float
    silent: float
    memory: float
    add_flows: float


def sh(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def timed(*command: str) -> float:
    """The duration of a command. `maple acl lint` ends with a status of its own where it finds something."""
    began = time.monotonic()
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def generate(rules: int, seed: int, folder: Path) -> Path:
    """A list of this number of rules, in its file."""
    bench = ["cargo", "run", "--release", "--quiet", "-p", "maple-bench", "--", "generate", "acl"]
    sh(*bench, "--filters", str(rules), "--seed", str(seed), "--out", str(folder))
    file = folder / f"{rules}.yaml"
    file.write_text(sh(sys.executable, str(HERE / "from_classbench.py"), str(folder / f"acl-{seed}.rules")))
    return file


@contextmanager
def controller(file: Path) -> Iterator[tuple[subprocess.Popen[bytes], int, float]]:
    """`maple run` of a list: its process, its port, and after how many seconds it listened."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [*MAPLE, "run", str(file), "--listen", f"127.0.0.1:{port}", "--control", "none"]
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        line = process.stdout.readline().decode()
        if "listening" not in line:
            sys.exit(f"maple run {file}: {line}")
        yield process, port, time.monotonic() - began
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()


@contextmanager
def bridge(port: int) -> Iterator[None]:
    """A bridge with two ports that are up, which knows this controller."""
    with bare_bridge():
        sh("ovs-vsctl", "set-controller", BRIDGE, f"tcp:127.0.0.1:{port}")
        yield


@contextmanager
def bare_bridge() -> Iterator[None]:
    """A bridge with two ports that are up, without a controller."""
    ports = [f"{BRIDGE[:4]}{number}" for number in (1, 2)]
    sh("ovs-vsctl", "add-br", BRIDGE, "--", "set", "bridge", BRIDGE, "datapath_type=netdev",
       "protocols=OpenFlow13", "fail_mode=secure")  # fmt: skip
    try:
        for name in ports:
            sh("ovs-vsctl", "add-port", BRIDGE, name, "--", "set", "interface", name, "type=internal")
            sh("ip", "link", "set", name, "up")
        yield
    finally:
        sh("ovs-vsctl", "del-br", BRIDGE)


def add_flows(flows: Path) -> float:
    """How long Open vSwitch's own tool takes to give a bridge these rules."""
    with bare_bridge():
        return timed("ovs-ofctl", "-O", "OpenFlow13", "add-flows", BRIDGE, str(flows))


def installed() -> int:
    text = sh("ovs-ofctl", "-O", "OpenFlow13", "dump-aggregate", BRIDGE)
    found = re.search(r"flow_count=(\d+)", text)
    return int(found[1]) if found else 0


def watch(least: int, limit: float) -> tuple[int, float, float]:
    """How many rules there are in the end, at least this many, after how long, and the longest time without a new one
    before that."""
    began = time.monotonic()
    count, changed, silent = installed(), began, 0.0
    while time.monotonic() - began < limit:
        time.sleep(0.05)
        new, now = installed(), time.monotonic()
        if new != count:
            silent = max(silent, now - changed)
            count, changed = new, now
        elif count >= least and now - changed > STILL + silent:
            break
    return count, changed - began, silent


def memory(process: subprocess.Popen[bytes]) -> float:
    """The resident memory of a process in GB."""
    text = Path(f"/proc/{process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", text)
    return int(found[1]) / 1e6 if found else 0.0


def measure(rules: int, seed: int, limit: float, folder: Path) -> Row:
    file = generate(rules, seed, folder)
    load = timed(*MAPLE, "acl", "test", str(file))
    lint = timed(*MAPLE, "acl", "lint", str(file))
    with controller(file) as (process, port, listens), bridge(port):
        count, last, silent = watch(rules // 2, limit)
        used, dumped = memory(process), sh("ovs-ofctl", "-O", "OpenFlow13", "--no-stats", "dump-flows", BRIDGE)
    flows = folder / "flows"
    flows.write_text("\n".join(line.strip() for line in dumped.splitlines() if "actions=" in line))
    return Row(rules, load, lint, listens, count, last, silent, used, add_flows(flows))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rules", type=int, nargs="+", default=[10_000])
    options.add_argument("--seed", type=int, default=9)
    options.add_argument("--limit", type=float, default=180.0, help="seconds after which a switch is no longer watched")
    chosen = options.parse_args()
    columns: list[tuple[str, Callable[[Row], str]]] = [
        ("rules", lambda row: f"{row.rules}"),
        ("load s", lambda row: f"{row.load:.1f}"),
        ("lint s", lambda row: f"{row.lint:.1f}"),
        ("listens s", lambda row: f"{row.listens:.1f}"),
        ("installed", lambda row: f"{row.installed}"),
        ("last after s", lambda row: f"{row.last:.1f}"),
        ("silent s", lambda row: f"{row.silent:.1f}"),
        ("memory GB", lambda row: f"{row.memory:.2f}"),
        ("add-flows s", lambda row: f"{row.add_flows:.1f}"),
        ("ratio", lambda row: f"{row.last / row.add_flows:.1f}"),
    ]
    print("  ".join(f"{name:>12}" for name, _ in columns), flush=True)
    for rules in chosen.rules:
        with tempfile.TemporaryDirectory() as folder:
            row = measure(rules, chosen.seed, chosen.limit, Path(folder))
        print("  ".join(f"{text(row):>12}" for _, text in columns), flush=True)


if __name__ == "__main__":
    main()
