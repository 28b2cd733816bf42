"""The networks of one test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from maple import _maple
from maple.testing._load import Wanted, fresh_handler
from maple.testing._network import Network, Topology

# The failures that are printed.
SHOWN = 3


class Networks:
    """Makes networks, and closes them together."""

    def __init__(self, folder: Path, kind: type[Network] = Network) -> None:
        self._folder = folder
        self._kind = kind
        self._made: list[tuple[Network, bool]] = []

    def make(self, topology: Topology, policy: Wanted, *, may_fail: bool = False, **options: Any) -> Network:
        """A network; see :class:`maple.testing.Network`. With ``may_fail`` the policy may fail on packets."""
        options.setdefault("folder", self._folder)
        made = self._kind(topology, policy, **options)
        self._made.append((made, may_fail))
        return made

    def close(self) -> list[str]:
        """Closes them, the last one first; how policies failed that must not."""
        failures: list[str] = []
        while self._made:
            network, may_fail = self._made.pop()
            try:
                if not may_fail:
                    failures += network.failures[:SHOWN]
            finally:
                network.close()
        return failures[:SHOWN]


class Handlers:
    """Makes benches for handlers, whose tables end together."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._before = _maple.Place.current()

    def make(self, file: str | Path, **options: Any) -> _maple.HandlerBench:
        """A bench; see :class:`maple.testing.HandlerBench`."""
        handler, place = fresh_handler(file, self._folder)
        place.use()
        return _maple.HandlerBench(handler, **options)

    def close(self) -> None:
        """Lets tables live where they did before."""
        self._before.use()
