"""The cost of a scrape of metrics, and what it takes away from the controller's throughput.

`maple load` is the switches, as in `maple-bench throughput`: it keeps packet-ins unanswered, and so measures what the
controller can do. The same run alternates between periods without scrapes and periods with one each second, so that
drifts of the machine fall on both. Prometheus scrapes every 15 seconds or every minute, so what it takes away is less
by that factor.

    .venv/bin/python bench/metrics/measure.py [--switches 16,5000] [--policy builtin:learning-switch] [--periods 10]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MAPLE = os.environ.get("MAPLE", str(Path(sys.executable).with_name("maple")))

# Seconds of a period, and between its scrapes.
PERIOD = 2.0
EVERY = 1.0
# Scrapes without packets, and the seconds before them and between them. Together they take 15 seconds, in which each
# silent switch is asked once whether it is there.
QUIET = 10
SETTLE = 6.0
PAUSE = 1.5


@contextmanager
def running(*command: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def told(log: Path, what: str, process: subprocess.Popen[bytes]) -> str:
    """The text that a program has printed after `what`."""
    while not (found := re.search(rf"{what} (\S+)\n", log.read_text())):
        if process.poll() is not None:
            sys.exit(f"it ended:\n{log.read_text()}")
        time.sleep(0.05)
    return found[1]


def scrape(url: str) -> tuple[float, bytes]:
    """The duration of a scrape, and its text."""
    began = time.perf_counter()
    with urllib.request.urlopen(url) as answer:
        text = answer.read()
    return time.perf_counter() - began, text


def processor_times(pid: int) -> dict[str, float]:
    """The seconds that the threads of a controller have computed which a scrape concerns."""
    times = {}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        # Other threads may end meanwhile.
        with suppress(FileNotFoundError, ProcessLookupError):
            name = (thread / "comm").read_text().strip()
            if name.startswith("shard-") or name == "metrics":
                times[name] = int((thread / "schedstat").read_text().split()[0]) / 1e9
    return times


def packet_ins(control: str) -> int:
    asked = subprocess.run([MAPLE, "show", "stats", "--json", "--control", control], capture_output=True, check=True)
    count: int = json.loads(asked.stdout)["controller"]["of_packet_ins"]
    return count


def period(control: str, url: str | None) -> float:
    """Packet-ins a second in one period, with scrapes if there is an address."""
    before, began = packet_ins(control), time.perf_counter()
    while time.perf_counter() - began < PERIOD:
        if url is not None:
            scrape(url)
        time.sleep(EVERY)
    now = time.perf_counter()
    return (packet_ins(control) - before) / (now - began)


def measure(policy: str, switches: int, periods: int, options: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        control, logs = f"{folder}/control.sock", [Path(folder, name) for name in ("controller", "load")]
        run = [MAPLE, "run", policy, "--listen", "127.0.0.1:0", "--cores", "0", "--metrics", "127.0.0.1:0"]
        with running(*run, "--control", control, *options, log=logs[0]) as controller:
            address, url = told(logs[0], "listening on", controller), told(logs[0], "metrics at", controller)
            load = ["taskset", "-c", "1", MAPLE, "load", "--connect", address, "--switches", str(switches)]
            load += ["--macs", "100", "--window", "64", "--settle", "45s" if periods else "600s", "--duration", "600s"]
            with running(*load, log=logs[1]) as generator:
                while b"dp_status" not in (text := scrape(url)[1]) or text.count(b"\ndp_status{") < switches:
                    time.sleep(0.5)
                # Switches are described, and ports are found to be edge ports.
                time.sleep(SETTLE)
                idle = processor_times(controller.pid)
                time.sleep(QUIET * PAUSE)
                idle = {name: now - idle[name] for name, now in processor_times(controller.pid).items()}
                quiet, used = [], processor_times(controller.pid)
                for _ in range(QUIET):
                    # A text is given again for 20 times as long as it took.
                    time.sleep(PAUSE)
                    quiet.append(scrape(url))
                used = {name: now - used[name] for name, now in processor_times(controller.pid).items()}
                if periods:
                    while packet_ins(control) < 200 * switches:
                        time.sleep(0.5)
                        assert generator.poll() is None, logs[1].read_text()
                rates: dict[bool, list[float]] = {False: [], True: []}
                for number in range(2 * periods):
                    with_scrapes = number % 4 in (1, 2)
                    rates[with_scrapes].append(period(control, url if with_scrapes else None))
                busy = []
                for _ in range(5 if periods else 0):
                    time.sleep(max(0.3, 25 * busy[-1][0] if busy else 0))
                    busy.append(scrape(url))
    size, lines = max((len(text), text.count(b"\n")) for _, text in quiet + busy)
    print(f"{policy}, {switches} switches: a scrape has {size / 1e6:.2f} MB and {lines} lines")
    for when, all_ in (("without packets", quiet), ("under full load", busy)):
        if all_:
            took = [1000 * seconds for seconds, _ in all_]
            print(f"  {when} it takes {statistics.median(took):.1f} ms, at most {max(took):.1f} ms")
    for name, seconds in used.items():
        each = 1000 * (seconds - idle[name]) / QUIET
        print(f"  it takes {each:.2f} ms of the processor time of {name}: {each / 150:.3f} % of a core, every 15 s")
    if periods:
        without, with_ = (statistics.median(rates[scraped]) for scraped in (False, True))
        pairs = [100 * (b / a - 1) for a, b in zip(rates[False], rates[True], strict=True)]
        error = statistics.stdev(pairs) / len(pairs) ** 0.5 if len(pairs) > 1 else float("nan")
        change = f"{statistics.mean(pairs):+.1f} ± {error:.1f} %"
        print(f"  {without:,.0f} packet-ins a second without scrapes, {with_:,.0f} with one each second: {change}")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="builtin:learning-switch", help="as for `maple run`")
    parser.add_argument("--switches", default="16,5000", help="numbers of switches")
    parser.add_argument(
        "--periods", type=int, default=10, help="periods with scrapes, and as many without; 0: only scrapes"
    )
    parser.add_argument("options", nargs="*", help="further options of `maple run`, after --")
    arguments = parser.parse_args()
    for switches in map(int, arguments.switches.split(",")):
        measure(arguments.policy, switches, arguments.periods, arguments.options)


if __name__ == "__main__":
    main()
