"""The results of all importers: documents in Maple's form, and a report of what became of each part of the source.

An importer never approximates without saying so. What Maple's form cannot express is a finding `not covered`. Without
`lenient` it ends the conversion with :class:`NotCovered`. With it the result is stricter than the source: a rule that
allows is left out, and a rule that denies loses the condition, so it denies more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Kind = Literal["converted", "note", "looser", "not covered"]
Document = dict[str, Any]

LOOSER: Final = "the rest without it would be looser: take it out, and see to it yourself"
LEFT_OUT: Final = "left out: stricter"
WIDENED: Final = "denies more: stricter"
#: Services that fragments of a packet are in as the whole packet is.
PROTOCOLS: Final = {"tcp", "udp", "sctp", "icmp", "icmpv6"}


@dataclass(frozen=True)
class Place:
    """Where something stands in a source. The line begins at 1."""

    file: str
    line: int | None = None
    field: str = ""

    def __str__(self) -> str:
        """`file:line: field`, as far as they are known."""
        return self.source + (f": {self.field}" if self.field else "")

    @property
    def source(self) -> str:
        """`file:line`, as it stands in the comments of rules."""
        return self.file + (f":{self.line}" if self.line else "")


class InputError(ValueError):
    """The source is wrong. The text begins with file, line and field."""

    def __init__(self, place: Place, text: str) -> None:
        super().__init__(f"{place}: {text}")
        self.place = place


@dataclass(frozen=True)
class Finding:
    """The outcome for one part of the source. `effect` says how the result differs from the source, if it does."""

    kind: Kind
    place: Place
    text: str
    effect: str = ""


class NotCovered(ValueError):
    """The source holds what Maple's form cannot express, and `lenient` is not set, or the rest would be looser than the
    source. `report` says what."""

    def __init__(self, report: Report) -> None:
        first = (report.looser_without or report.not_covered)[0]
        more = len(report.not_covered) - 1
        and_more = f" (and {more} more)" if more else ""
        way_out = first.effect if report.looser_without else "lenient=True converts the rest"
        super().__init__(f"{first.place}: {first.text}{and_more}; {way_out}")
        self.report = report


@dataclass
class Report:
    """The findings, in the order of the source."""

    findings: list[Finding] = field(default_factory=list)

    def converted(self, place: Place, text: str) -> None:
        """Reports that this part of the source means the same in the result."""
        self.findings.append(Finding("converted", place, text))

    def note(self, place: Place, text: str) -> None:
        """Reports something to know. The answers for packets are those of the source."""
        self.findings.append(Finding("note", place, text))

    def looser(self, place: Place, text: str) -> None:
        """Reports that more passes than in the source, as an option of the conversion asks."""
        self.findings.append(Finding("looser", place, text))

    def not_cover(self, place: Place, text: str, effect: str = "") -> None:
        """Reports that the result cannot express this part of the source."""
        self.findings.append(Finding("not covered", place, text, effect))

    @property
    def not_covered(self) -> list[Finding]:
        """The findings about parts of the source that the result lacks."""
        return [finding for finding in self.findings if finding.kind == "not covered"]

    @property
    def looser_without(self) -> list[Finding]:
        """The findings about parts without which more would pass than in the source."""
        return [finding for finding in self.not_covered if finding.effect == LOOSER]

    def refuse_unless(self, lenient: bool) -> None:
        """Ends the conversion if something is not covered.

        :raises NotCovered: something is not covered, and `lenient` is not set or the result would be looser.
        """
        if self.looser_without or (self.not_covered and not lenient):
            raise NotCovered(self)

    def __str__(self) -> str:
        """The findings as a table."""
        head = ("where", "field", "outcome", "what")
        rows = [(f.place.source, f.place.field, f.kind, _with_effect(f)) for f in self.findings]
        widths = [max(len(row[at]) for row in [head, *rows]) for at in range(3)]
        lines = [
            "  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[3]]) for row in [head, *rows]
        ]
        return "\n".join(line.rstrip() for line in lines)


def _with_effect(finding: Finding) -> str:
    return f"{finding.text} ({finding.effect})" if finding.effect else finding.text


@dataclass
class Imported:
    """The result of an importer: documents in Maple's form (docs/importing.md), and the report."""

    documents: list[Document]
    report: Report


class Names:
    """Gives each rule of a document a name of its own: `web`, `web-2`, …"""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def unique(self, name: str) -> str:
        """The name, with a number if it is in use."""
        number, free = 1, name
        while free in self._used:
            number += 1
            free = f"{name}-{number}"
        self._used.add(free)
        return free


def fragments_key(rules: Iterable[Document]) -> str:
    """The word about fragments of a list of a system that sees their ports (docs/access-lists.md).

    Switches see none. So where a rule denies by ports, fragments could slip by it: they are denied, which is stricter
    than the source. Elsewhere only rules without ports allow them, as the source does.
    """

    def has_ports(rule: Document) -> bool:
        words = rule.get("service", [])
        named = [str(word) for word in (words if isinstance(words, list) else [words])]
        return "source_ports" in rule or any(word not in PROTOCOLS and not word.startswith("ip/") for word in named)

    return "deny" if any(rule["action"] == "deny" and has_ports(rule) for rule in rules) else "match"


def file_name(name: str) -> str:
    """The name without what a file's name may not have."""
    return re.sub(r"[^\w.-]", "_", name).lstrip(".") or "list"


def one_or_list(items: Iterable[Any]) -> Any:
    """One item by itself; several as a list."""
    found = list(items)
    return found[0] if len(found) == 1 else found
