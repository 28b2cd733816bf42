"""The rules of switches as text."""

from __future__ import annotations

import difflib
import re

_COUNT = re.compile(r"^\s*\d+ packets\s+")
_COOKIE = re.compile(r"\bcookie=0x[0-9a-f]+,?\s*")
_TABLE = re.compile(r"\btable=(\d+)")


def of(lines: list[str], table: int | None) -> list[str]:
    """The rules without what differs from run to run: counters and cookies."""
    rules = [_plain(_COOKIE.sub("", _COUNT.sub("", line))) for line in lines]
    return rules if table is None else [rule for rule in rules if _table(rule) == table]


def difference(wanted: str, rules: list[str]) -> str:
    """The differences of the rules from a text with one on each line; empty if they do not. Blank lines don't count."""
    lines = [_plain(_COOKIE.sub("", line)) for line in wanted.splitlines() if line.strip()]
    return "" if lines == rules else "\n".join(difflib.ndiff(lines, rules))


def _table(rule: str) -> int:
    found = _TABLE.search(rule)
    return int(found[1]) if found else 0


def _plain(line: str) -> str:
    return " ".join(line.split())
