"""The cost of the HTTP API for the controller, and how quickly it answers beside its work.

`maple load` is the switches: alternating periods with and without clients tell what these take away from answers to
packets (*throughput*) and from new flows through a network (*flows*). The clients are a page (its events, and what it
reads again at each), a program that reads lists each second, and a scraper of metrics. Then: as many reads as there can
be beside full load, a list of many rules, links that flap while somebody looks at the map, and the way of a change to
who watches it.

    .venv/bin/python bench/api/measure.py [--periods 10] [--rules 50000] [--flaps 1000] [--rounds 200]
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

from maple.client import ApiError, Client

MAPLE = os.environ.get("MAPLE", str(Path(sys.executable).with_name("maple")))
ADMIN = "an-administrator-of-the-benchmark"

PERIOD = 2.0
"""Seconds of a period."""
SETTLE = 6.0
"""Seconds in which switches are described, and ports are found to be edge ports."""
READERS = 4
"""Processes that read as quickly as they get answers."""
WAIT = 120.0
"""Seconds after which something that is waited for has failed."""

TABLE = """
from maple import Ip, Table, drop, flood, policy

denied = Table("denied", key=Ip, value=bool)


@policy
def deny(pkt, net):
    return drop() if pkt.ipv4_dst in denied else flood()
"""


class Running:
    """A controller with an HTTP API."""

    def __init__(self, folder: Path, process: subprocess.Popen[str], log: Path, control: Path) -> None:
        self.folder, self.process, self.log, self.control = folder, process, log, control
        self.url = self.told("HTTP API at").removesuffix("/v1")
        self.client = Client(self.url, ADMIN)

    def told(self, what: str) -> str:
        """The text that it has printed after `what`."""
        found: re.Match[str] | None = None

        def is_told() -> bool:
            nonlocal found
            if self.process.poll() is not None:
                raise RuntimeError(f"the controller has ended:\n{self.log.read_text()}")
            found = re.search(rf"{what} (\S+)\n", self.log.read_text())
            return found is not None

        wait_for(f"the controller to say {what!r}", is_told)
        assert found is not None
        return found[1]

    def type(self, line: str) -> None:
        """Types a line into its console."""
        console: IO[str] | None = self.process.stdin
        assert console is not None
        console.write(line + "\n")
        console.flush()

    def packet_ins(self) -> int:
        count: int = self.client.stats()["controller"]["of_packet_ins"]
        return count

    def memory(self, field: str) -> float:
        """A field of its memory in MB, such as VmRSS."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(rf"{field}:\s+(\d+) kB", text)
        assert found is not None, text
        return int(found[1]) / 1024

    def forget_peak(self) -> None:
        """Lets VmHWM begin at what it has now."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")


@contextmanager
def running(policy: str, *options: str) -> Iterator[Running]:
    """Runs a controller."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokens, log, control = folder / "tokens", folder / "log", folder / "control.sock"
        tokens.touch(0o600)
        tokens.write_text(f"admin bench {ADMIN}\n")
        command = [MAPLE, "run", policy, "--control", str(control), "--http", "127.0.0.1:0", *options]
        command += ["--http-tokens", str(tokens)]
        with log.open("w") as out:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=out, text=True)
        try:
            yield Running(folder, process, log, control)
        finally:
            process.terminate()
            process.communicate(timeout=WAIT)


def wait_for(what: str, is_so: Callable[[], bool]) -> None:
    """Waits until something is so."""
    end = time.monotonic() + WAIT
    while not is_so():
        if time.monotonic() > end:
            raise RuntimeError(f"{what}: not within {WAIT:.0f} s")
        time.sleep(0.05)


@contextmanager
def loaded(maple: Running, workload: str) -> Iterator[None]:
    """Lets switches send packets to a controller."""
    load = [MAPLE, "load", "--connect", maple.told("listening on"), "--duration", "3600s", "--warmup", "1s"]
    load += {
        "throughput": ["--switches", "16", "--macs", "100", "--window", "64"],
        "flows": ["--topology", "linear:4", "--of", "1.3"],
    }[workload]
    log = maple.folder / "load"
    with log.open("w") as out:
        generator = subprocess.Popen(load, stdout=out, stderr=out)
    try:

        def is_busy() -> bool:
            if generator.poll() is not None:
                raise RuntimeError(f"maple load has ended:\n{log.read_text()}")
            return maple.packet_ins() > 1000

        wait_for("packets", is_busy)
        time.sleep(SETTLE)
        yield
    finally:
        generator.terminate()
        generator.wait()


@contextmanager
def clients(maple: Running) -> Iterator[None]:
    """A page, a program and a scraper ask a controller."""
    is_over, failed = threading.Event(), []

    def work(each: Callable[[], object]) -> None:
        try:
            while not is_over.is_set():
                each()
        except Exception as error:
            failed.append(error)

    def page() -> None:
        for event in maple.client.events():
            if is_over.is_set():
                return
            if event.kind in ("begin", "state"):
                maple.client.map()
                maple.client.controller()

    def program() -> None:
        maple.client.switches()
        maple.client.hosts(limit=1000)
        maple.client.flows(limit=100, sort="-packets")
        is_over.wait(1)

    def scraper() -> None:
        maple.client.metrics()
        is_over.wait(1)

    threads = [threading.Thread(target=work, args=[each], daemon=True) for each in (page, program, scraper)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        # The page hears of nothing until something happens.
        maple.client.set_variable("bench", time.time(), create=True)
        for thread in threads:
            thread.join(WAIT)
        if failed:
            raise failed[0]


def cost(workload: str, periods: int, options: list[str]) -> list[list[str]]:
    """The loss of a workload to clients."""

    def period(maple: Running) -> float:
        before, began = maple.packet_ins(), time.perf_counter()
        time.sleep(PERIOD)
        return (maple.packet_ins() - before) / (time.perf_counter() - began)

    policy = "builtin:learning-switch" if workload == "throughput" else "builtin:shortest-path"
    # What is measured is the cost of decisions: with look-ups most flows need none.
    decisions = [] if workload == "throughput" else ["--look-ups", "0"]
    rates: dict[bool, list[float]] = {False: [], True: []}
    with running(policy, "--listen", "127.0.0.1:0", *decisions, *options) as maple, loaded(maple, workload):
        for number in range(2 * periods):
            # A drift of the machine falls on both.
            if number % 4 in (1, 2):
                with clients(maple):
                    rates[True].append(period(maple))
            else:
                rates[False].append(period(maple))
    pairs = [100 * (b / a - 1) for a, b in zip(rates[False], rates[True], strict=True)]
    error = statistics.stdev(pairs) / len(pairs) ** 0.5 if len(pairs) > 1 else float("nan")
    alone, beside = (statistics.median(rates[asked]) for asked in (False, True))
    return [
        [f"{workload}: packet-ins/s without clients", f"{alone:,.0f}"],
        [f"{workload}: packet-ins/s with a page, a program and a scraper", f"{beside:,.0f}"],
        [f"{workload}: difference", f"{statistics.mean(pairs):+.1f} ± {error:.1f} %"],
    ]


def read(host: str, seconds: float, out: Connection) -> None:
    """Reads for some time over one connection. Sends how long each request took."""
    connection, took = http.client.HTTPConnection(host), []
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        connection.request("GET", "/v1/hosts?limit=10", headers={"Authorization": f"Bearer {ADMIN}"})
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{answer.status} {answer.reason}")
        took.append(time.perf_counter() - began)
    out.send(took)


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def reads(seconds: float, options: list[str]) -> list[list[str]]:
    """As many reads as there can be beside full load."""
    with (
        running("builtin:learning-switch", "--listen", "127.0.0.1:0", *options) as maple,
        loaded(maple, "throughput"),
    ):
        host, pipes, readers = maple.url.removeprefix("http://"), [], []
        for _ in range(READERS):
            own, other = multiprocessing.Pipe(duplex=False)
            pipes.append(own)
            readers.append(multiprocessing.Process(target=read, args=(host, seconds, other)))
        before = maple.packet_ins()
        for reader in readers:
            reader.start()
        took: list[float] = [one for pipe in pipes for one in pipe.recv()]
        for reader in readers:
            reader.join()
        answered = maple.packet_ins() - before
    return [
        ["reads/s beside full load", f"{len(took) / seconds:,.0f}"],
        ["their delay", f"half {1000 * quantile(took, 0.5):.1f} ms, 99 % {1000 * quantile(took, 0.99):.1f} ms"],
        ["packet-ins/s meanwhile", f"{answered / seconds:,.0f}"],
    ]


def long_list(count: int, options: list[str]) -> list[list[str]]:
    """A list of this number of rules: the keys of a table."""
    with tempfile.TemporaryDirectory() as folder:
        policy = Path(folder, "deny.py")
        policy.write_text(TABLE)
        emulated = ["--emulate", "linear:1,2", "--traffic", "3600s", "--allow-drops"]
        with running(str(policy), *emulated, *options) as maple:
            keys = [f"10.{1 + (n >> 16)}.{n >> 8 & 255}.{n & 255}" for n in range(count)]
            for at in range(0, count, 500):
                rows = [({"key": ["denied", key]}, True) for key in keys[at : at + 500]]
                maple.client.transaction(rows)

            def total() -> int:
                page: dict[str, Any] = json.loads(maple.client._text("GET", "/v1/rules?limit=1"))
                return int(page["total"])

            wait_for(f"{count} rules", lambda: total() >= count)
            took, grown, size = [], [], 0
            for _ in range(5):
                maple.forget_peak()
                before, began = maple.memory("VmRSS"), time.perf_counter()
                size = len(maple.client._text("GET", "/v1/rules"))
                took.append(time.perf_counter() - began)
                grown.append(maple.memory("VmHWM") - before)
    return [
        [f"a list of {count:,} rules, {size / 1e6:.1f} MB", f"{statistics.median(took):.2f} s"],
        ["memory that it takes meanwhile", f"{max(grown):.0f} MB"],
    ]


def flaps(count: int, options: list[str]) -> list[list[str]]:
    """The distance by which switches move on the map while links go and come."""
    with running("builtin:shortest-path", "--emulate", "fattree:4", "--console", *options) as maple:
        wait_for("the links", lambda: len(maple.client.links()) == 32)
        # What is found is laid out after a second without news.
        time.sleep(3)

        def places() -> dict[str, tuple[float, float]]:
            return {row["switch"]: (row["x"], row["y"]) for row in maple.client.map()["switches"]}

        names = {row["switch"]: row["name"] for row in maple.client.names()["switches"]}
        links = [(names[a["switch"]], names[b["switch"]]) for a, b in maple.client.links()]
        first, farthest, gone = places(), 0.0, 0
        for number in range(count):
            a, b = links[number % len(links)]
            for state in ("down", "up"):
                maple.type(f"link {a} {b} {state}")
                now = places()
                gone += len(first.keys() - now.keys())
                for switch, (x, y) in now.items():
                    farthest = max(farthest, abs(x - first[switch][0]), abs(y - first[switch][1]))
        wait_for("all links", lambda: len(maple.client.links()) == 32)
    return [[f"farthest move of a switch on the map in {count:,} flaps", f"{farthest:g} ({gone} missing)"]]


def delays(rounds: int, options: list[str]) -> list[list[str]]:
    """From a request that writes to the event of who watches."""
    with running("builtin:shortest-path", "--listen", "127.0.0.1:0", *options) as maple:
        maple.client.set_variable("mode", -1, create=True)
        watch, late = maple.client.watch_variable("mode"), []
        assert next(watch)["value"] == -1
        for number in range(rounds):
            # Events of a watch come at most ten times a second.
            time.sleep(0.15)
            began = time.perf_counter()
            maple.client.set_variable("mode", number)
            while next(watch)["value"] != number:
                pass
            late.append(1000 * (time.perf_counter() - began))
    worst = f"half {quantile(late, 0.5):.1f} ms, 99 % {quantile(late, 0.99):.1f} ms, worst {max(late):.1f} ms"
    return [["from a request that writes to the event of a watch", worst]]


def table(rows: list[list[str]]) -> str:
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--periods", type=int, default=10, help="periods with clients, and as many without; 0: none")
    parser.add_argument("--seconds", type=float, default=10, help="how long there are reads; 0: none")
    parser.add_argument("--rules", type=int, default=50_000, help="rules of the long list; 0: none")
    parser.add_argument("--flaps", type=int, default=1000, help="how often a link goes and comes; 0: never")
    parser.add_argument("--rounds", type=int, default=200, help="changes that are watched; 0: none")
    parser.add_argument("options", nargs="*", help="further options of `maple run`, after --")
    arguments = parser.parse_args()
    options: list[str] = arguments.options
    parts: list[tuple[bool, str, Callable[[], list[list[str]]]]] = [
        (arguments.periods > 0, "throughput", lambda: cost("throughput", arguments.periods, options)),
        (arguments.periods > 0, "flows", lambda: cost("flows", arguments.periods, options)),
        (arguments.seconds > 0, "reads", lambda: reads(arguments.seconds, options)),
        (arguments.rules > 0, "a long list", lambda: long_list(arguments.rules, options)),
        (arguments.flaps > 0, "flaps", lambda: flaps(arguments.flaps, options)),
        (arguments.rounds > 0, "watches", lambda: delays(arguments.rounds, options)),
    ]
    rows: list[list[str]] = []
    for is_asked, name, measured in parts:
        if is_asked:
            print(f"{name}…", file=sys.stderr, flush=True)
            rows += measured()
    print(table(rows) if rows else "nothing was measured")


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, AssertionError, ApiError, OSError) as error:
        sys.exit(f"bench-api: {error}")
