"""Counts of what ports and hosts have sent: what functions under ``@on(stats=…)`` are given."""

from __future__ import annotations

from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

from maple import _maple

Key = TypeVar("Key")

Reading = tuple[float, int]
"""When a counter was read, in seconds, and what it was, in bytes."""


class PortCount(NamedTuple):
    """The counts of a port since it was there; ``None`` where its switch does not count that."""

    at: _maple.Location
    rx_packets: int | None
    rx_bytes: int | None
    rx_dropped: int | None
    rx_errors: int | None
    tx_packets: int | None
    tx_bytes: int | None
    tx_dropped: int | None
    tx_errors: int | None
    rx_mbps: float | None
    """The rate of what came in since the last time, in Mbit/s; ``None`` at the first."""
    tx_mbps: float | None
    """The rate of what went out since the last time, in Mbit/s; ``None`` at the first."""


class TrafficCount(NamedTuple):
    """The traffic from one host to another, as the rules have counted that are there now."""

    switch: int
    """Where it enters."""
    source: _maple.Mac | None
    """``None``: rules that don't say."""
    destination: _maple.Mac | None
    """``None``: rules that don't say."""
    packets: int
    bytes: int
    mbps: float | None
    """Since the last time, in Mbit/s; ``None`` at the first, and after rules have gone."""


class Rates(Generic[Key]):
    """Counters as they were at the last time."""

    def __init__(self) -> None:
        self._last: dict[Key, Reading] = {}

    def since(self, now: dict[Key, Reading]) -> dict[Key, float | None]:
        """The growth of each since then, in Mbit/s; ``None`` for those that were not there, or began again."""
        rates = {key: _mbps(self._last.get(key), reading) for key, reading in now.items()}
        self._last = now
        return rates


def _mbps(before: Reading | None, now: Reading) -> float | None:
    if before is None or now[0] <= before[0] or now[1] < before[1]:
        return None
    return (now[1] - before[1]) * 8 / (now[0] - before[0]) / 1e6


class Memory:
    """The counts that one function got last."""

    def __init__(self) -> None:
        self.received: Rates[_maple.Location] = Rates()
        self.sent: Rates[_maple.Location] = Rates()
        self.traffic: Rates[tuple[int, _maple.Mac | None, _maple.Mac | None]] = Rates()


class Counts:
    """The counts of switches, asked for when they are read: who does not look at ``traffic`` has no rules read."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    @cached_property
    def ports(self) -> list[PortCount]:
        """All ports of switches that are up, by switch and number.

        :raises TimeoutError: the controller is too busy to say it.
        """
        told = _maple.port_counts()
        received = {at: (when, counters[1]) for at, when, counters in told if counters[1] is not None}
        sent = {at: (when, counters[5]) for at, when, counters in told if counters[5] is not None}
        rx, tx = self._memory.received.since(received), self._memory.sent.since(sent)
        return [PortCount._make((at, *counters, rx.get(at), tx.get(at))) for at, _, counters in told]

    @cached_property
    def traffic(self) -> list[TrafficCount]:
        """The traffic between hosts, the most bytes first.

        :raises TimeoutError: the controller is too busy to say it.
        """
        told = _maple.traffic_counts()
        rates = self._memory.traffic.since({pair: (when, size) for pair, when, _, size in told})
        counts = [TrafficCount(*pair, packets, size, rates[pair]) for pair, _, packets, size in told]
        return sorted(counts, key=lambda count: -count.bytes)
