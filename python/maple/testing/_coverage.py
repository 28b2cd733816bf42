"""Which tests of policies had only one outcome in a test session, and which lines no packet reached.

What is counted are the decisions of the policies in the session's networks. A packet that a rule answers is decided
once more, so that it counts too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from maple import _maple
from maple._policy import Policy
from maple.testing._lines import lines_of
from maple.testing._load import Loaded

# This package: lines that it runs for a policy are not lines of the policy.
OWN = str(Path(__file__).resolve().parents[1]) + os.sep

Place = tuple[str, int]


@dataclass
class FileCoverage:
    """The coverage of one file."""

    file: str
    #: Tests by line and condition: how often they failed, and held.
    tests: dict[tuple[int, str], list[int]] = field(default_factory=dict)
    #: Lines that ask or make routes: whether a packet reached them.
    lines: dict[int, bool] = field(default_factory=dict)

    @property
    def sides(self) -> tuple[int, int]:
        """Outcomes of tests that there were, and that there can be."""
        return sum((no > 0) + (yes > 0) for no, yes in self.tests.values()), 2 * len(self.tests)

    @property
    def percent(self) -> float:
        """The share of outcomes and lines that packets took."""
        taken, all_ = self.sides
        reached = sum(self.lines.values())
        total = all_ + len(self.lines)
        return 100.0 if total == 0 else 100 * (taken + reached) / total

    def gaps(self) -> Iterator[str]:
        """The branches that no packet took, a line each, in order of lines."""
        found: list[tuple[int, str]] = []
        for (line, test), (no, yes) in self.tests.items():
            if not (no and yes):
                never = "no" if yes else "yes"
                times = "once" if no + yes == 1 else f"{no + yes} times"
                found.append((line, f"{test}: never {never} (asked {times})"))
        missed = [line for line, is_reached in self.lines.items() if not is_reached]
        found += [(line, f"never reached: {_text(self.file, line)}") for line in missed]
        for line, text in sorted(found):
            yield f"{_short(self.file)}:{line}: {text}"


class Collector:
    """Collects the decisions of all networks of a session."""

    def __init__(self) -> None:
        self.files: dict[str, FileCoverage] = {}
        self.runs = 0

    def begin(self, policy: Policy) -> None:
        """Notes the lines of a policy's files."""
        for function in policy.functions:
            code = getattr(function, "__code__", None)
            file = getattr(code, "co_filename", "")
            if file and not _is_own(file) and os.path.isfile(file):
                for line in lines_of(file):
                    self._file(file).lines.setdefault(line, False)

    def add(self, laboratory: _maple.Laboratory) -> None:
        """Adds the decisions of a network."""
        tests, lines, runs = _maple.decisions(laboratory)
        self.runs += runs
        for file, line, test, no, yes in tests:
            if not _is_own(file) and file.endswith(".py"):
                counts = self._file(file).tests.setdefault((line, test), [0, 0])
                counts[0] += no
                counts[1] += yes
        for file, line, _ in lines:
            known = self.files.get(os.path.abspath(file))
            if known is not None:
                self._reached(known, line)

    def _reached(self, file: FileCoverage, line: int) -> None:
        first = lines_of(file.file).get(line, line)
        if first in file.lines:
            file.lines[first] = True

    def _file(self, file: str) -> FileCoverage:
        path = os.path.abspath(file)
        return self.files.setdefault(path, FileCoverage(path))

    def table(self) -> list[str]:
        """The coverage as lines of text."""
        told = [f"{'policy':<40} {'tests':>6} {'one-sided':>10} {'lines':>6} {'unreached':>10} {'covered':>8}"]
        for file in sorted(self.files.values(), key=lambda file: file.file):
            one_sided = sum(1 for no, yes in file.tests.values() if not (no and yes))
            unreached = sum(1 for is_there in file.lines.values() if not is_there)
            told.append(
                f"{_short(file.file):<40} {len(file.tests):>6} {one_sided:>10} {len(file.lines):>6} {unreached:>10} "
                f"{file.percent:>7.0f}%"
            )
            told += [f"  {gap}" for gap in file.gaps()]
        return told


_collector: Collector | None = None


def collect() -> Collector:
    """Counts decisions from now on."""
    global _collector
    _collector = Collector()
    return _collector


def stop() -> None:
    """Counts no longer."""
    global _collector
    _collector = None


def is_wanted() -> bool:
    """Whether decisions are counted."""
    return _collector is not None


def begin(loaded: Loaded) -> None:
    """A network begins with this policy."""
    if _collector is not None:
        _collector.begin(loaded.policy)


def end(laboratory: _maple.Laboratory) -> None:
    """The network ends: its decisions are added."""
    if _collector is not None:
        _collector.add(laboratory)


def _is_own(file: str) -> bool:
    return os.path.abspath(file).startswith(OWN)


def _short(file: str) -> str:
    return os.path.relpath(file)


def _text(file: str, line: int) -> str:
    try:
        return Path(file).read_text(encoding="utf-8").splitlines()[line - 1].strip()
    except (OSError, IndexError):
        return ""
