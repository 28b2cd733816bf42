"""Answers of queries with several parts: named tuples, so that ``mac, at = net.locate_ip(ip)`` and ``.mac`` work."""

from __future__ import annotations

from typing import NamedTuple

from maple import _maple


class Host(NamedTuple):
    """A host and where it is: what ``net.locate_ip`` and ``net.hosts`` answer."""

    mac: _maple.Mac
    location: _maple.Location


class Lease(NamedTuple):
    """An address that DHCP gave to a host: what ``net.lease`` and ``net.leases`` answer."""

    mac: _maple.Mac
    ip: _maple.Ip
    location: _maple.Location
    """The edge port from which the host asked for it."""
    ends: int | None
    """When it ends, in seconds since 1970; ``None`` if never."""


class Link(NamedTuple):
    """A link between two switches by its ends, the lower one first: what ``net.links`` answers."""

    a: _maple.Location
    b: _maple.Location
