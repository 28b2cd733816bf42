"""Runs the system tests, several files at once, each in namespaces and with an Open vSwitch of its own.

The tests mostly wait: for discovery, timeouts and pings. Says for each file how it went, and prints the output of those
that failed. Files that took longest the last time begin first.

usage: python3 tests/system/parallel.py [--workers N] [FILE...]
"""

import argparse
import concurrent.futures
import json
import re
import subprocess
import sys
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parents[1]
# How long each file took the last time, in seconds.
DURATIONS = ROOT / "target/system-tests.json"
# The same on two cores, where nothing is known: the files that take longer than a minute.
KNOWN = {
    "test_silence": 187,
    "test_control_network": 164,
    "test_restart": 116,
    "test_load": 107,
    "test_segments": 94,
    "test_debian": 93,
    "test_doctor": 84,
    "test_lessons": 82,
    "test_leftovers": 65,
    "test_examples": 63,
    "test_testing": 61,
}


IN_NAMESPACES = ROOT / "tests/in-namespaces"


def has_namespaces():
    """Whether this machine lets us make namespaces with an Open vSwitch in them."""
    return subprocess.run([IN_NAMESPACES, "true"], capture_output=True, check=False).returncode == 0


def run(file):
    """What pytest says of a file, with its status and the seconds that it took."""
    began = time.monotonic()
    command = [IN_NAMESPACES, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", file]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, cwd=ROOT)
    return done.stdout, done.returncode, time.monotonic() - began


def figures(output):
    """The figures that tests have measured, as the end of the output has them."""
    found = re.search(r"^=+ figures =+\n(.*?)(?=^[=\d]|\Z)", output, re.MULTILINE | re.DOTALL)
    return found[1].splitlines() if found else []


def result(output):
    """The line that says how many tests passed."""
    return (re.findall(r"^.*\d (?:passed|failed|error).*$", output, re.MULTILINE) or ["no result"])[-1].strip("= ")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--workers", type=int, default=6, help="files at once [default: 6]")
    parser.add_argument("files", nargs="*", type=Path, help="test files [default: all]")
    args = parser.parse_args()
    if not has_namespaces():
        print("no namespaces can be made here: one test after the other, on the machine's Open vSwitch", flush=True)
        return subprocess.run([sys.executable, "-m", "pytest", *(args.files or [TESTS])], check=False).returncode
    durations = KNOWN | (json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {})
    files = sorted(args.files or TESTS.glob("test_*.py"), key=lambda file: (-durations.get(file.stem, 30), file))
    began, failed, measured = time.monotonic(), [], []
    with concurrent.futures.ThreadPoolExecutor(args.workers) as pool:
        for future in concurrent.futures.as_completed(runs := {pool.submit(run, file): file for file in files}):
            file, (output, status, seconds) = runs[future], future.result()
            durations[file.stem] = round(seconds)
            measured += figures(output)
            print(f"{file.stem}: {result(output)}", flush=True)
            if status != 0:
                failed.append(file.name)
                print(output, flush=True)
    DURATIONS.parent.mkdir(exist_ok=True)
    DURATIONS.write_text(json.dumps(durations, indent=1))
    print("\n".join(measured))
    which = f"; failed: {', '.join(failed)}" if failed else ""
    print(f"{len(files)} files in {time.monotonic() - began:.0f} s{which}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
