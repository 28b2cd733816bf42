"""The cost of polling: the controller's processor time with and without, as a policy asks for the load of every port.

The network is the campus (200 switches, 1188 ports), emulated in another process and without traffic. Each line is the
share of one core that the controller took over the time; its difference to the first line is the cost of polling.

    .venv/bin/python bench/polling/measure.py [--seconds 60] [--poll 10s ...]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
CAMPUS = HERE.parent / "campus" / "campus.json"
MAPLE = os.environ.get("MAPLE", str(Path(sys.executable).with_name("maple")))


def processor_time(pid: int) -> float:
    """Seconds that a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def show(control: str, what: str) -> dict:
    asked = subprocess.run([MAPLE, "show", what, "--json", "--control", control], capture_output=True, check=True)
    return json.loads(asked.stdout)


def measure(poll: str, seconds: float) -> tuple[float, int, int]:
    """The share of a core, the ports, and the polls in that time."""
    with tempfile.TemporaryDirectory() as folder:
        control = f"{folder}/control.sock"
        run = [MAPLE, "run", str(HERE / "policy.py"), "--listen", "127.0.0.1:0", "--workers", "1"]
        run += ["--poll", poll, "--control", control]
        told = Path(folder, "told.txt")
        with told.open("w") as out:
            controller = subprocess.Popen(run, stdout=out, stderr=subprocess.STDOUT)
        emulator = None
        try:
            while not (found := re.search(r"listening on (\S+)\n", told.read_text())):
                if controller.poll() is not None:
                    sys.exit(f"{' '.join(run)} ended:\n{told.read_text()}")
                time.sleep(0.1)
            emulate = [MAPLE, "emulate", str(CAMPUS), "--controller", found[1]]
            emulator = subprocess.Popen(emulate, stdout=subprocess.DEVNULL)
            # Discovery, and the first polls.
            time.sleep(25)
            ports = sum(len(switch["ports"]) for switch in show(control, "switches"))
            polls = show(control, "stats")["engine"]["polls"]
            before, began = processor_time(controller.pid), time.monotonic()
            time.sleep(seconds)
            took, passed = processor_time(controller.pid) - before, time.monotonic() - began
            return took / passed, ports, show(control, "stats")["engine"]["polls"] - polls
        finally:
            for process in (emulator, controller):
                if process is not None:
                    process.terminate()
                    process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--poll", nargs="*", default=["10s", "1s"])
    options = parser.parse_args()
    base = None
    for poll in ["0", *options.poll]:
        share, ports, polls = measure(poll, options.seconds)
        base = share if base is None else base
        print(f"--poll {poll}: {share:.2%} of a core, {polls} polls, {ports} ports; {share - base:+.2%}", flush=True)


if __name__ == "__main__":
    main()
