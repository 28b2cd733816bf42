"""The text of a failed assertion: the packet, what became of it, and what the policy decided."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from maple import _maple
from maple._emulate import Journey
from maple.testing._packets import fields_in

if TYPE_CHECKING:
    from maple.testing._names import Place
    from maple.testing._network import Network

# The copies that are listed.
LISTED = 8


class Decision:
    """The decision of the policy about a packet now."""

    def __init__(self, network: Network, sender: Place, frame: bytes) -> None:
        lines, place, drops, error = _maple.observe(network._laboratory, sender.dpid, sender.port, frame)
        #: What it asks and answers, line by line.
        self.lines = lines
        #: The file and the line of its answer.
        self.place = place
        #: Whether it drops the packet.
        self.drops = drops
        #: Why it fails, if it does.
        self.error = error

    def is_by(self, line: str | int) -> bool:
        """Whether the answer was made there: ``"acl.py:12"``, ``12``, or a part of the line's text."""
        if self.place is None:
            return False
        file, number = self.place
        if isinstance(line, int):
            return number == line
        wanted, colon, digits = line.rpartition(":")
        if colon and digits.isdecimal():
            return number == int(digits) and (file == wanted or file.endswith("/" + wanted))
        return line in source_line(file, number)


def source_line(file: str, number: int) -> str:
    """A line of a file; empty if there is none."""
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""


def explained(network: Network, sender: Place, frame: bytes, journey: Journey) -> str:
    """The fate of a packet, and why the policy decided so, as indented lines."""
    became = [f"{'became' if at == 0 else '':<6}  {way}" for at, way in enumerate(ways(network, journey))]
    told = [*became, *why(network, sender, frame)]
    return "\n".join("    " + short(line) for line in told)


def why(network: Network, sender: Place, frame: bytes) -> list[str]:
    """The text that ``maple explain`` prints of a frame, or else what the policy asks and answers."""
    try:
        return str(network.explain(str(sender.name), **fields_in(frame))).splitlines()
    except ValueError:
        # Fields can't say all frames: some are cut off, or have two tags. Then the decision alone is told.
        decision = Decision(network, sender, frame)
        lines = decision.lines if decision.error is None else [*decision.lines[:-1], *decision.error.splitlines()]
        told = [f"{'policy' if at == 0 else '':<6}  {line}" for at, line in enumerate(lines)]
        return [f"packet  {_maple.summary(frame)}, from {sender.name}", *told]


def ways(network: Network, journey: Journey) -> list[str]:
    """The fate of each copy."""
    if not journey.copies:
        return ["no copy came anywhere: the policy dropped it, or it waits at the controller"]
    told = [" ".join([journey._host, *copy.via, copy.host or f"({copy.why})"]) for copy in journey.copies[:LISTED]]
    more = len(journey.copies) - LISTED
    return [*told, f"and {more} more copies"] if more > 0 else told


def short(text: str) -> str:
    """A text with the working directory's files named as people write them."""
    return text.replace(os.getcwd() + os.sep, "")
