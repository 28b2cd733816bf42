"""Runs the tests of Rust, two programs at once: each ends with a test or two that wait, while the next could begin.

Prints what cargo prints while it compiles, then a line for each program, and the whole output of those that failed. The
examples in comments come last.

usage: python3 tests/rust.py [--programs N] CARGO-OPTION...
"""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def compiled(options):
    """The test programs, each with its crate's folder, in which cargo would run it; `None` if they don't compile."""
    command = ["cargo", "test", "--no-run", "--message-format", "json-render-diagnostics", *options]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        return None
    artifacts = [json.loads(line) for line in done.stdout.splitlines()]
    made = [one for one in artifacts if one["reason"] == "compiler-artifact" and one["profile"]["test"]]
    return [(one["executable"], Path(one["manifest_path"]).parent) for one in made if one["executable"]]


def run(program, folder):
    """What a program says of its tests, with its status and the seconds that it took."""
    began = time.monotonic()
    environment = os.environ | {"CARGO_MANIFEST_DIR": str(folder)}
    done = subprocess.run(
        [program], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    return done.stdout.decode(errors="replace"), done.returncode, time.monotonic() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--programs", type=int, default=2, help="programs at once [default: 2]")
    args, options = parser.parse_known_args()
    # Programs that this one starts don't inherit the files by which those of one `make` share its jobs.
    for variable in ("MAKEFLAGS", "MFLAGS"):
        os.environ.pop(variable, None)
    programs = compiled(options)
    if programs is None:
        return 1
    failed, tests = [], 0
    with concurrent.futures.ThreadPoolExecutor(args.programs) as pool:
        runs = {pool.submit(run, *program): program for program in programs}
        for future in concurrent.futures.as_completed(runs):
            (program, folder), (output, status, seconds) = runs[future], future.result()
            name = f"{folder.relative_to(ROOT)}, {re.sub('-[0-9a-f]{16}$', '', Path(program).name)}"
            found = re.search(r"^test result: (?:ok|FAILED)\. (\d+) passed", output, re.MULTILINE)
            tests += int(found[1]) if found else 0
            print(f"{name}: {found[1] if found else 'no result of'} tests passed in {seconds:.0f} s", flush=True)
            if status != 0 or not found:
                failed.append(name)
                print(output, flush=True)
    which = f"; failed: {', '.join(failed)}" if failed else ""
    print(f"{len(programs)} programs, {tests} tests passed{which}", flush=True)
    examples = subprocess.run(["cargo", "test", "--doc", *options], cwd=ROOT, check=False)
    return 1 if failed else examples.returncode


if __name__ == "__main__":
    sys.exit(main())
