"""Constraints on the routes of a policy: what ``guard`` checks before a route reaches a switch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from maple import _maple
from maple._policy import Composed, Decides, Place, Policy, caller, composition_of
from maple._slices import Slice

Member = str | _maple.Mac | _maple.Ip | _maple.Prefix | _maple.Location | tuple[int, int] | Mapping[str, Any]
"""A MAC or IP address, a prefix of IP addresses, an edge port, or a condition as in ``pkt.matches``."""
Group = Member | Iterable[Member]
"""Who sends or gets packets: a member, or several."""
Judge = Callable[[_maple.Packet, _maple.RouteView, _maple.Net], bool | str]
"""A constraint of one's own."""

_ANYBODY: Mapping[str, Any] = {}


def guard(policy: Decides, *constraints: _maple.Constraint) -> Policy:
    """``policy`` under constraints, which each of its routes must satisfy before it reaches a switch.

    >>> from maple import flood, guard, isolate, max_hops
    >>> guard(flood(), isolate("10.0.1.0/24", "10.0.2.0/24"), max_hops(3))
    <policy guard>

    A packet whose route violates a constraint is dropped, and ``maple show errors`` says which line and which
    constraint. When the network changes, routes are judged again, and what violates a constraint then is withdrawn.

    :raises TypeError: for what is not a constraint, and for what is not a policy.
    """
    for constraint in constraints:
        if not isinstance(constraint, _maple.Constraint):
            raise TypeError(
                f"guard() takes constraints such as waypoint(…) or constraint(function), not {constraint!r}"
            )
    if not constraints:
        raise TypeError("guard() needs at least one constraint")
    return Composed("guard", composition_of(policy, "guard()").guarded(constraints), (policy,))


def waypoint(src: Group, dst: Group, via: int | Iterable[int]) -> _maple.Constraint:
    """What ``src`` sends passes the switch ``via``, or one of several, before it is delivered to ``dst``.

    >>> from maple import waypoint
    >>> waypoint("10.0.1.0/24", "10.0.2.0/24", via=3)  # doctest: +ELLIPSIS
    <constraint waypoint('10.0.1.0/24', '10.0.2.0/24', 3) (...)>
    """
    return _maple.Constraint._waypoint(_place("waypoint", src, dst, via), src, dst, via)


def isolate(a: Group, b: Group) -> _maple.Constraint:
    """Nothing that a member of one group sends is addressed or delivered to a member of the other, not even a copy.

    >>> from maple import isolate
    >>> guests, staff = ["10.0.9.0/24"], [(1, 4), "00:00:00:00:00:05"]
    >>> rule = isolate(guests, staff)
    """
    return _maple.Constraint._isolate(_place("isolate", a, b), a, b)


def never(port: Place, src: Group) -> _maple.Constraint:
    """Nothing that ``src`` sends leaves by this port: an edge port, or one end of a link.

    >>> from maple import never
    >>> rule = never((1, 3), src="10.0.9.0/24")
    """
    return _maple.Constraint._never(_place("never", port, src), port, src)


def max_hops(most: int, for_: Group = _ANYBODY) -> _maple.Constraint:
    """What ``for_`` sends passes at most ``most`` switches on its way to each place. ``most`` is 1 or more.

    >>> from maple import max_hops
    >>> rule = max_hops(4)
    """
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        raise ValueError(f"max_hops() takes 1 or more switches, not {most!r}: each packet passes one")
    return _maple.Constraint._max_hops(_place("max_hops", most, *_given(for_)), most, for_)


def avoid(link: Place, for_: Group = _ANYBODY) -> _maple.Constraint:
    """What ``for_`` sends does not take this link, in either direction: a pair of switches, or one end of a link.

    >>> from maple import avoid
    >>> rule = avoid((1, 2), for_={"udp_dst": 5004})
    """
    return _maple.Constraint._avoid(_place("avoid", link, *_given(for_)), link, for_)


def only_within(within: int | Iterable[int] | Slice, for_: Group = _ANYBODY) -> _maple.Constraint:
    """What ``for_`` sends stays within these switches, or within the ports and links of a slice.

    >>> from maple import Slice, drop, only_within
    >>> rule = only_within([1, 2, 3], for_="10.0.1.0/24")
    >>> lab = Slice(drop(), ports=[(1, 1), (2, 1)], links=[(1, 2)])
    >>> rule = only_within(lab, for_="10.0.2.0/24")
    """
    place = _place("only_within", within, *_given(for_))
    if isinstance(within, Slice):
        return _maple.Constraint._only_within_slice(place, within.described("within", []), for_)
    return _maple.Constraint._only_within(place, within, for_)


def no_overload(
    reserved: _maple.Table[Any, Any],
    *,
    link: Place | None = None,
    bits_per_second: float | None = None,
    for_: Group = _ANYBODY,
) -> _maple.Constraint:
    """What ``for_`` sends takes no link of which more is reserved than it can carry: not this ``link``, or none at all.

    ``reserved`` maps the end of a link that sends, a ``Location`` or a pair of switch and port, to bits a second. A
    link without an entry has none reserved. ``bits_per_second`` is what each link can carry; without it, what
    switches say of their ports counts. A link with reservations whose capacity is not known is refused.

    >>> from maple import Location, Table, no_overload
    >>> reserved: Table[Location, int] = Table("reserved")
    >>> rule = no_overload(reserved, bits_per_second=1e9)
    """
    if not isinstance(reserved, _maple.Table):
        raise TypeError(f"no_overload() takes a Table from ends of links to bits a second, not {reserved!r}")
    is_number = isinstance(bits_per_second, (int, float)) and not isinstance(bits_per_second, bool)
    if bits_per_second is not None and not (is_number and 0 <= bits_per_second < 2**64):
        raise ValueError(f"no_overload(bits_per_second=…) is a number from 0, not {bits_per_second!r}")
    bits = None if bits_per_second is None else int(bits_per_second)
    which = () if link is None else (link,)
    return _maple.Constraint._no_overload(_place("no_overload", *which, *_given(for_)), reserved, link, bits, for_)


def constraint(function: Judge) -> _maple.Constraint:
    """A constraint of your own: a function of packet, route and network that says whether the route is allowed.

    >>> from maple import constraint
    >>> @constraint
    ... def one_exit(pkt, route, net):
    ...     return len(route.exits) <= 1 or f"it leaves by {len(route.exits)} ports"

    It returns ``True``, or ``False``, or the reason for a refusal as text. It is traced like a policy, and has to
    finish in the policy's time limit. If it raises an exception or returns something else, the packet is dropped.

    :raises TypeError: for what is not a function of three arguments.
    """
    if not inspect.isfunction(function) or inspect.iscoroutinefunction(function):
        raise TypeError(f"constraint() takes a plain function of (pkt, route, net), not {function!r}")
    signature = inspect.signature(function)
    try:
        signature.bind(None, None, None)
    except TypeError:
        name = function.__name__
        raise TypeError(
            f"a constraint takes three arguments: def {name}(pkt, route, net); this one is def {name}{signature}"
        ) from None
    code = function.__code__
    return _maple.Constraint._own((function.__name__, code.co_filename, code.co_firstlineno), function)


def _given(for_: Group) -> tuple[object, ...]:
    return () if for_ is _ANYBODY else (for_,)


def _place(name: str, *arguments: object) -> tuple[str, str, int]:
    """The name of a constraint in a report, and the line that makes it."""
    file, line, _ = caller()
    shown = ", ".join(_shown(argument) for argument in arguments)
    return f"{name}({shown})", file, line


def _shown(argument: object) -> str:
    text = repr(argument)
    return text if len(text) <= 60 else f"{text[:57]}..."
