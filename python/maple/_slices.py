"""Slices: policies of tenants, each for packets of its own, with its own part of the network and state of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from maple import _maple, _repr
from maple._compose import Where, conditions_of
from maple._policy import Composed, Decides, Place, Policy, caller, composition_of, unnamed

LinkOf = Place | tuple[Place, Place]
"""A link: the two switches (all links between them), the location of one of its ends, or both ends."""
Described = tuple[
    str, list[dict[str, Any]], "list[Place] | None", "list[str | _maple.Mac] | None", "list[LinkOf] | None"
]
"""A slice as the compiled module takes it: name, conditions, ports, hosts, links."""


class Slice:
    """A tenant of :func:`slices`: its policy, which packets are its own, and which part of the network it has.

    >>> from maple import Slice, flood
    >>> Slice(flood(), {"vlan_vid": 10}, ports=[(1, 1), (2, 1)], links=[(1, 2)])
    <slice of <route: flood>>

    :param policy: a policy, a function of ``(pkt, net)``, or a route.
    :param where: its packets, as in :func:`maple.restrict`; all if it is left out.
    :param ports: its edge ports, as pairs of switch and port; all if it is left out. Its packets come in there, and it
        sends to no other port.
    :param hosts: hardware addresses of the hosts that it sees; all hosts at its ports if it is left out.
    :param links: the links that its packets take, in both directions: pairs of switches, locations of one end, or both
        ends, as in ``net.links()``; all if it is left out.
    """

    def __init__(
        self,
        policy: Decides,
        where: Where | None = None,
        *,
        ports: Iterable[Place] | None = None,
        hosts: Iterable[str | _maple.Mac] | None = None,
        links: Iterable[LinkOf] | None = None,
    ) -> None:
        self.policy = policy
        self.where: Where = {} if where is None else where
        self.ports = None if ports is None else list(ports)
        self.hosts = None if hosts is None else list(hosts)
        self.links = None if links is None else list(links)

    def described(self, name: str, conditions: list[dict[str, Any]]) -> Described:
        """The slice as the extension module takes it, with this name and these conditions."""
        return name, conditions, self.ports, self.hosts, self.links

    @_repr.always
    def __repr__(self) -> str:
        return f"<slice of {self.policy!r}>"


def slices(tenants: Mapping[str, Slice | tuple[Where, Decides]], *, otherwise: Decides | None = None) -> Policy:
    """Decides each packet by the policy of the tenant that it belongs to. No packet may belong to two.

    >>> from maple import flood, slices
    >>> slices({"red": ({"vlan_vid": 10}, flood()), "blue": ({"vlan_vid": 20}, flood())})
    <policy slices>
    >>> slices({"red": ({"ipv4_src": "10.0.0.0/8"}, flood()), "blue": ({"tcp_dst": 22}, flood())})
    Traceback (most recent call last):
    ValueError: the slices "red" and "blue" overlap: eth_type=0x800, ip_proto=6, ipv4_src=10.0.0.0, tcp_dst=22 fits \
condition 1 of "red" and condition 1 of "blue"

    A tenant is a pair of condition and policy, or a :class:`Slice`, which can also say which ports, hosts and links it
    has. Its policy sees no others: not in ``net.locate``, ``net.hosts``, ``net.links``, loads, paths and floods. A
    route that leaves by another port or crosses another link is an error. Tables, variables, counters, meters and link
    costs are the slice's own: the table ``limits`` of the slice ``red`` is ``Table("red/limits")`` everywhere else.
    Link costs that the slice does not have by a name are those of the network.

    Packets of no tenant are decided by ``otherwise``; without it they pass.

    :raises ValueError: for two slices with a packet in common, with such a packet; for a slice without packets; and for
        names that are empty or have a slash.
    :raises TypeError: for what is not a condition, a port, a host or a link, and if there is no slice.
    """
    if not tenants:
        raise TypeError("slices() needs at least one slice")
    parts: list[Decides] = []
    described = []
    for name, given in tenants.items():
        tenant = given if isinstance(given, Slice) else _pair(name, given)
        parts.append(tenant.policy)
        conditions = conditions_of(tenant.where)
        if not conditions or tenant.ports == []:
            raise ValueError(f"the slice {name!r} has no packets: its conditions or its ports are an empty list")
        described.append((tenant.described(name, conditions), unnamed(tenant.policy, f"slices({{{name!r}: …}})")))
    rest: Decides = _maple.pass_() if otherwise is None else otherwise
    file, line, _ = caller()
    composition = _maple.Composition.slices(described, composition_of(rest, "slices(otherwise=…)"), file, line)
    return Composed("slices", composition, (*parts, rest))


def _pair(name: str, given: tuple[Where, Decides]) -> Slice:
    if not isinstance(given, tuple) or len(given) != 2:
        raise TypeError(f"the slice {name!r} is a pair (where, policy) or a Slice, not {given!r}")
    where, policy = given
    return Slice(policy, where)
