"""What queries answer with several parts: named tuples, so that ``mac, at = net.locate_ip(ip)`` and ``.mac`` work."""

from __future__ import annotations

from typing import NamedTuple

from maple import _maple


class Host(NamedTuple):
    """A host and where it is: what ``net.locate_ip`` and ``net.hosts`` answer."""

    mac: _maple.Mac
    location: _maple.Location


class Link(NamedTuple):
    """A link between two switches by its ends, the lower one first: what ``net.links`` answers."""

    a: _maple.Location
    b: _maple.Location
