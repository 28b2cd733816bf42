"""Policies made of policies: what ``tiers``, ``rewrite`` and the others build."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from maple import _maple
from maple._policy import Composed, Decides, Policy, caller, composition_of, unnamed

Condition = Mapping[str, Any]
Where = Condition | Iterable[Condition]
"""Which packets: the fields of one condition, as in ``pkt.matches``, or several conditions of which one must hold."""


def tiers(*policies: Decides, default: Decides | None = None, **named: Decides) -> Policy:
    """The first of these policies that does not pass decides.

    >>> from maple import drop, flood, pass_, tiers
    >>> def admin(pkt, net):
    ...     return drop() if pkt.tcp_dst == 23 else pass_()
    >>> tiers(admin, default=flood())
    <policy tiers>

    A policy passes with ``pass_()``; what it set, as in ``pass_().set(ipv4_dst=…)``, the next ones see. Where all pass,
    ``default`` decides; without one, tiers pass too, and a packet that nobody wants is dropped. The tiers of rules and
    errors are named after the functions, or by keyword: ``tiers(campus=a, guests=b)``.

    :raises TypeError: for what is neither a policy, nor a function of ``(pkt, net)``, nor a route.
    """
    parts: list[Decides] = [*policies, *named.values()]
    compositions = [composition_of(policy, "tiers()") for policy in policies]
    compositions += [unnamed(policy, "tiers()").named(name) for name, policy in named.items()]
    if not compositions:
        raise TypeError("tiers() needs at least one policy")
    if default is not None:
        parts.append(default)
        compositions.append(composition_of(default, "tiers(default=…)"))
    return Composed("tiers", _maple.Composition.tiers(compositions), parts)


def rewrite(where: Where | None = None, /, **fields: Any) -> Policy:
    """Changes headers before the next policy decides: of all packets, or only of those that match ``where``.

    >>> from maple import flood, rewrite
    >>> rewrite({"ipv4_dst": "10.0.0.100"}, ipv4_dst="10.0.0.5").then(flood())
    <policy tiers>

    The next policy sees the new values. The packet leaves the network with them.

    :raises TypeError: without a field to set, and for values that a field can't have.
    """
    if not fields:
        raise TypeError('rewrite() needs a field to set, such as ipv4_dst="10.0.0.5"')
    changed = _maple.Composition.route(_maple.pass_().set(**fields))
    return Composed("rewrite", changed if where is None else _only(changed, where), ())


def observe(policy: Decides, *, beside: Decides) -> Policy:
    """The route of ``policy``, and a copy of the packet wherever ``beside`` would send it.

    >>> from maple import flood, observe, to
    >>> observe(flood(), beside=to(9))
    <policy observe>

    Copies are as the packet came in, or as ``beside`` sets them. ``beside`` answers with ports, paths or ``copy_to``;
    ``drop()`` and ``pass_()`` make no copy. Copies with other headers than the packet can't leave by the switch where
    the packet leaves.
    """
    both = composition_of(policy, "observe()"), composition_of(beside, "observe(beside=…)")
    return Composed("observe", both[0].observed_by(both[1]), (policy, beside))


def restrict(policy: Decides, where: Where) -> Policy:
    """``policy`` for packets that match ``where``; other packets pass.

    >>> from maple import drop, restrict
    >>> restrict(drop(), {"tcp_dst": 23})
    <policy restrict>
    >>> restrict(drop(), [{"tcp_dst": 23}, {"udp_dst": range(0, 1024)}])
    <policy restrict>

    :raises TypeError: for a condition that ``pkt.matches`` would not take.
    """
    return Composed("restrict", _only(composition_of(policy, "restrict()"), where), (policy,))


def choose(
    cell: _maple.Var[Any] | tuple[_maple.Table[Any, Any], Any],
    policies: Mapping[Any, Decides],
    *,
    otherwise: Decides | None = None,
) -> Policy:
    """The policy for the value that a variable, or a table's key, has now.

    >>> from maple import Var, choose, drop, flood, pass_
    >>> choose(Var("mode", "open"), {"open": flood(), "closed": drop()})
    <policy choose>

    A change of the value decides again what depended on it. For other values ``otherwise`` decides; without it, packets
    pass. A key of a table is given as ``(table, key)``; while it is not set its value is ``None``.
    """
    cases = [(value, composition_of(policy, f"choose(…, {{{value!r}: …}})")) for value, policy in policies.items()]
    rest: Decides = _maple.pass_() if otherwise is None else otherwise
    choice = _maple.Composition.choose(cell, cases, composition_of(rest, "choose(otherwise=…)"))
    return Composed("choose", choice, (*policies.values(), rest))


def fallback(policy: Decides, *, on_error: Decides) -> Policy:
    """``policy``, and ``on_error`` where it fails.

    It fails when it raises an exception, exceeds its time limit, or gives a route that can't be followed. What it wrote
    until then is taken back.

    >>> from maple import fallback, flood
    >>> fallback(lambda pkt, net: net.path(1, 2, cost="no such"), on_error=flood())
    <policy fallback>

    The errors of ``policy`` are not reported then. ``retry()`` is not an error.
    """
    both = composition_of(policy, "fallback()"), composition_of(on_error, "fallback(on_error=…)")
    return Composed("fallback", both[0].or_on_error(both[1]), (policy, on_error))


def conditions_of(where: Where) -> list[dict[str, Any]]:
    """The conditions of which one must hold."""
    conditions = [where] if isinstance(where, Mapping) else list(where)
    for condition in conditions:
        if not isinstance(condition, Mapping):
            raise TypeError(f'a condition is a dictionary such as {{"tcp_dst": 22}}, not {condition!r}')
    return [dict(condition) for condition in conditions]


def _only(composition: _maple.Composition, where: Where) -> _maple.Composition:
    file, line, _ = caller()
    return composition.only(conditions_of(where), file, line)
