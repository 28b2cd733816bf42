#!/usr/bin/env python3
"""The number of faults in the examples that their own tests find.

Each fault is one small change of one example (see mutants.py). The example's test file runs on it, and a fault that no
test finds is printed with its difference. equivalent.txt names those that change nothing that a network can show, with
the reason; they are counted apart.

    bench/mutation/run.py [--only NAME] [--jobs N] [--limit SECONDS] [--json FILE] [--again FILE]
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mutants import Mutant, mutants_of

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
KNOWN = Path(__file__).with_name("equivalent.txt")


@dataclass
class Tried:
    """A fault, and whether the tests found it."""

    example: str
    mutant: Mutant
    is_killed: bool
    seconds: float
    reason: str | None

    @property
    def survives(self) -> bool:
        """Whether nothing found it, and it is a fault."""
        return not self.is_killed and self.reason is None


def main() -> int:
    """Runs all; 1 if less than the wanted share was found."""
    parser = argparse.ArgumentParser(description="How many faults in the examples their own tests find.")
    parser.add_argument("--only", metavar="NAME", action="append", help="only this example, such as acl")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many run at once")
    parser.add_argument("--limit", type=float, default=120.0, metavar="SECONDS", help="for the tests of one fault")
    parser.add_argument("--share", type=float, default=95.0, metavar="PERCENT", help="the share that must be found")
    parser.add_argument("--again", type=Path, metavar="FILE", help="only what survived in the run that wrote this")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all faults and what became of them")
    options = parser.parse_args()
    equivalent = known_equivalents()
    before = survivors(options.again) if options.again else None
    examples = sorted(test.stem.removeprefix("test_") for test in EXAMPLES.glob("test_*.py"))
    chosen = [name for name in examples if not options.only or name in options.only]
    if not chosen:
        parser.error(f"there is no such example; those with tests are {', '.join(examples)}")
    jobs: list[tuple[str, Mutant]] = []
    for name in chosen:
        source = (EXAMPLES / f"{name}.py").read_text()
        if not passes(name, source, options.limit):
            print(f"{name}: its tests fail without any fault", file=sys.stderr)
            return 2
        faults = [(name, mutant) for mutant in mutants_of(source)]
        jobs += [fault for fault in faults if before is None or key(*fault) in before]
    began = time.monotonic()

    def tried(job: tuple[str, Mutant]) -> Tried:
        name, mutant = job
        start = time.monotonic()
        is_killed = not passes(name, mutant.source, options.limit)
        reason = equivalent.get(key(name, mutant))
        if not is_killed and reason is None:
            print(f"{name}.py:{mutant.line}: {mutant.what}: survived", file=sys.stderr, flush=True)
        return Tried(name, mutant, is_killed, time.monotonic() - start, reason)

    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(tried, jobs))
    share = told(results, time.monotonic() - began)
    if options.json:
        options.json.write_text(json.dumps([as_json(result) for result in results], indent=1))
    return 0 if share >= options.share else 1


def passes(name: str, source: str, limit: float) -> bool:
    """Whether the example's tests pass with this source. Tests that don't end in time fail."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        copy = Path(folder) / "examples"
        shutil.copytree(EXAMPLES, copy, ignore=shutil.ignore_patterns("__pycache__", "*.rs"))
        (copy / f"{name}.py").write_text(source)
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"test_{name}.py"]
        environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
        try:
            done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0


def key(name: str, mutant: Mutant) -> tuple[str, str, str, str]:
    """A key that distinguishes a fault from others."""
    return name, mutant.what, mutant.text, mutant.after


def survivors(file: Path) -> set[tuple[str, str, str, str]]:
    """The faults that an earlier run did not find."""
    known = json.loads(file.read_text())
    return {(one["example"], one["fault"], one["text"], one["after"]) for one in known if not one["killed"]}


def known_equivalents() -> dict[tuple[str, str, str, str], str]:
    """The faults that are none, with the reason. A line has five parts, divided by tabs."""
    known = {}
    for number, line in enumerate(KNOWN.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = line.split("\t")
        if len(parts) != 5:
            raise SystemExit(f"{KNOWN}:{number}: five parts are needed: example, fault, line, after, reason")
        known[(parts[0], parts[1], parts[2], parts[3])] = parts[4]
    return known


def told(results: list[Tried], seconds: float) -> float:
    """Prints the table and the survivors; the share that was found of what is a fault, in per cent."""
    print(f"{'example':<26} {'faults':>7} {'killed':>7} {'equivalent':>11} {'survived':>9}")
    for name in dict.fromkeys(result.example for result in results):
        print(row(name, [result for result in results if result.example == name]))
    print(row("all", results))
    for result in results:
        if not result.is_killed:
            mutant = result.mutant
            kind = f"equivalent: {result.reason}" if result.reason else "SURVIVED"
            print(f"\n{result.example}.py:{mutant.line}: {mutant.what}: {kind}")
            before = (EXAMPLES / f"{result.example}.py").read_text().splitlines()
            lines = difflib.unified_diff(before, mutant.source.splitlines(), lineterm="", n=0)
            print("\n".join(line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")))
    killed, equal = count(results)
    share = 100 * killed / max(1, len(results) - equal)
    print(f"\n{killed} of {len(results) - equal} faults found: {share:.1f} %, in {seconds:.0f} s")
    print(f"of all {len(results)}, those that change nothing included: {100 * killed / max(1, len(results)):.1f} %")
    return share


def row(name: str, results: list[Tried]) -> str:
    """A line of the table."""
    killed, equal = count(results)
    return f"{name:<26} {len(results):>7} {killed:>7} {equal:>11} {len(results) - killed - equal:>9}"


def count(results: list[Tried]) -> tuple[int, int]:
    """The number of those found, and the number of the others that change nothing."""
    killed = sum(result.is_killed for result in results)
    return killed, sum(not result.is_killed and result.reason is not None for result in results)


def as_json(result: Tried) -> dict[str, object]:
    """A result for programs."""
    mutant = result.mutant
    return {
        "example": result.example,
        "line": mutant.line,
        "fault": mutant.what,
        "text": mutant.text,
        "before": mutant.before,
        "after": mutant.after,
        "killed": result.is_killed,
        "equivalent": result.reason,
        "seconds": round(result.seconds, 2),
    }


if __name__ == "__main__":
    sys.exit(main())
