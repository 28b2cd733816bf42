"""The cost of recording for the controller's throughput, and how fast a replay is.

The first figure: `maple load` is the switches, as in `maple-bench throughput`; it keeps packets unanswered, and so
measures what the controller can do. Runs with and without `--record` take turns, so that drifts of the machine fall on
both. Packets hit leaves; with `--policy bench/record/misses.py --macs 1000000` f decides most of them.

The second one: `maple run --emulate` is recorded for some minutes, and replayed.

    .venv/bin/python bench/record/measure.py [--macs 100] [--rounds 6] [--minutes 60] [--policy builtin:shortest-path]
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
from pathlib import Path

MAPLE = os.environ.get("MAPLE", str(Path(sys.executable).with_name("maple")))


def told(log: Path, what: str, process: subprocess.Popen[bytes]) -> str:
    """The text that a program has printed after `what`."""
    while not (found := re.search(rf"{what} (\S+)\n", log.read_text())):
        if process.poll() is not None:
            sys.exit(f"it ended:\n{log.read_text()}")
        time.sleep(0.05)
    return found[1]


def answers(args: argparse.Namespace, macs: int, folder: Path, record: bool) -> tuple[float, float]:
    """Answers a second of one run, and answers for each second of the controller's processor time."""
    log = folder / "controller"
    command = [MAPLE, "run", args.policy, "--listen", "127.0.0.1:0", "--cores", "0", "--control", "none"]
    command += args.options.split()
    if record:
        command += ["--record", str(folder / "recordings"), "--record-limit", "8GiB"]
    with log.open("w") as out:
        controller = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        address = told(log, "listening on", controller)
        load = ["taskset", "-c", "1", MAPLE, "load", "--connect", address, "--switches", str(args.switches), "--json"]
        load += ["--macs", str(macs), "--window", "64", "--duration", args.duration, "--pid", str(controller.pid)]
        # Ports are found to be edge ports before the first packet. The status says whether the generator had its core.
        load += ["--settle", "6s"]
        done = subprocess.run(load, capture_output=True, check=False, text=True)
    finally:
        controller.terminate()
        controller.wait()
    report = json.loads(done.stdout)
    if not report["answers"]:
        sys.exit(f"no packet was answered:\n{log.read_text()}")
    return report["answers"], report["answers"] / (report["controller_cpu"] / 100)


def throughput(args: argparse.Namespace, macs: int) -> None:
    rates: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(args.rounds):
            # Who goes first changes from round to round.
            for record in (False, True) if number % 2 == 0 else (True, False):
                rates[record].append(answers(args, macs, folder, record))
        kept = sum(file.stat().st_size for file in folder.rglob("*.segment"))
    print(f"{args.policy}, {args.switches} switches of {macs} hosts, recordings of {kept / 1e6:.1f} MB")
    for number, what in enumerate(("answers/s", "answers per second of the controller's processor time")):
        without, with_ = ([rate[number] for rate in rates[record]] for record in (False, True))
        costs = [1 - after / before for before, after in zip(without, with_, strict=True)]
        spread = statistics.stdev(costs) / len(costs) ** 0.5 if len(costs) > 1 else 0.0
        print(
            f"  {what}: {statistics.median(without):,.0f} without a recording, {statistics.median(with_):,.0f} with "
            f"one; the mean cost of {len(costs)} pairs is {100 * statistics.mean(costs):.1f} ± {100 * spread:.1f} %"
        )


def replay(args: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = [MAPLE, "run", args.policy, "--emulate", args.emulate, "--traffic", f"{args.minutes * 60}s"]
        run += ["--rate", str(args.rate), "--workers", str(args.workers), "--check", "off", "--record", folder]
        subprocess.run(run, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        kept = sum(file.stat().st_size for file in Path(folder).rglob("*.segment"))
        done = subprocess.run([MAPLE, "replay", folder, "--json"], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 2):
        sys.exit(done.stderr)
    told = json.loads(done.stdout)
    print(
        f"{args.emulate}, {args.rate} flows a second, {args.workers} workers: {told['seconds']:.0f} s replayed in "
        f"{told['took']:.2f} s, {told['speed']:.0f} times real time; {told['events']:,} events, "
        f"{told['flow_mods']:,} flow-mods, {'identical' if told['identical'] else told['difference']}; "
        f"{kept / 1e6:.2f} MB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--policy", default="builtin:shortest-path")
    parser.add_argument("--options", default="", help="further options of `maple run`")
    parser.add_argument("--switches", type=int, default=16)
    parser.add_argument("--macs", default="100", help="hosts of a switch, one or several numbers")
    parser.add_argument("--duration", default="4s")
    parser.add_argument("--rounds", type=int, default=6, help="0 leaves the throughput out")
    parser.add_argument("--minutes", type=float, default=60, help="0 leaves the replay out")
    parser.add_argument("--emulate", default="fattree:4")
    parser.add_argument("--rate", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    if args.rounds:
        for macs in args.macs.split(","):
            throughput(args, int(macs))
    if args.minutes:
        replay(args)


if __name__ == "__main__":
    main()
