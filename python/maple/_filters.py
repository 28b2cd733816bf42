"""What ``maple bench rules --lang python`` measures: a function that interprets a filter set (paper §6.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from maple._maple import Packet

# Arguments of `pkt.matches`, and ports that are to be read and compared where these hold: name, first and last.
Filter = tuple[dict[str, Any], Sequence[tuple[str, int, int]]]


def interpreter(filters: Sequence[Filter]) -> Callable[[Packet], int | None]:
    """The function that says which filter a packet fits first."""

    def first(pkt: Packet) -> int | None:
        for number, (conditions, ports) in enumerate(filters):
            if (not conditions or pkt.matches(**conditions)) and all(
                low <= int(getattr(pkt, name)) <= high for name, low, high in ports
            ):
                return number
        return None

    return first
