"""`maple-bench rules` with policies in Python: each set is interpreted by a Python function (paper §6.1).

    make build FEATURES=bench
    .venv/bin/python bench/rules/python.py rules --all ../shared/classbench

The extension module that is released has no benchmarks; the feature adds them. Options and results are those of
`maple-bench`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from maple import Packet, _maple

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


if __name__ == "__main__":
    if not hasattr(_maple, "_bench"):
        sys.exit("python.py: this maple has no benchmarks: make build FEATURES=bench")
    sys.exit(_maple._bench(["maple-bench", *sys.argv[1:]], interpreter))
