"""Lists in Aerleon's language become documents in Maple's form, one for each filter of the policy.

The package aerleon parses the files. So what a name, an include or an abbreviation means is what Aerleon says. Maple's
lists are stateless: a term with `option:: tcp-established` is not covered (docs/importing.md).
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final

from maple.importers import _aerleon_source as source
from maple.importers._aerleon_keys import CONDITIONS, EFFECTS, UNUSED
from maple.importers._aerleon_services import NONE, Services
from maple.importers._document import (
    LEFT_OUT,
    LOOSER,
    WIDENED,
    Document,
    Imported,
    InputError,
    Names,
    Place,
    Report,
    fragments_key,
    one_or_list,
)

VERDICTS: Final = {"accept": "allow", "deny": "deny", "reject": "deny", "reject-with-tcp-rst": "deny"}
STATEFUL: Final = {"srx", "paloalto", "gce", "gcp_hf", "nftables", "iptables", "speedway", "ipset", "ciscoasa", "msmpc"}
# Without `inet6` or `mixed` their filters are for IPv4.
INET_BY_DEFAULT: Final = {"juniper", "cisco", "ciscoxr", "arista", "iptables", "speedway", "ipset"}
# Conditions that Aerleon leaves out of the lists that it writes for these targets.
WITHOUT_ADDRESS: Final = {"cisco", "ciscoxr", "cisconx", "arista"}
WITHOUT_EXCLUDED: Final = WITHOUT_ADDRESS | {"ciscoasa", "juniper", "nftables", "arista_tp", "nsxv"}
MAX_ENTRIES: Final = 1_000_000
FAMILIES: Final = {"inet": "ipv4", "inet6": "ipv6"}
ETHERTYPES: Final = {"ipv4", "ipv6", "arp"}
EVERYWHERE: Final = ["0.0.0.0/0", "::/0"]


def from_aerleon(
    policy_file: str | Path,
    definitions: str | Path,
    *,
    base: str | Path | None = None,
    lenient: bool = False,
    today: datetime.date | None = None,
) -> Imported:
    """Converts an Aerleon policy (`.pol` or `.yaml`).

    :param definitions: the folder with definitions of networks and services.
    :param base: the folder that names of included files begin at; if left out, the nearest one above the policy that
        has them all.
    :param lenient: leaves out what Maple's form cannot express, such that the result is stricter than the source.
    :param today: the day that decides which terms have expired; the current one in UTC if left out, as Aerleon has it.
    :raises InputError: a file is wrong.
    :raises NotCovered: the list holds what Maple's form cannot express, and `lenient` is not set.
    :raises ImportError: aerleon is not installed.

    >>> from maple.importers import from_aerleon
    >>> imported = from_aerleon("edge.pol", definitions="def")  # doctest: +SKIP
    """
    found = source.read(policy_file, definitions, base)
    report = Report()
    for warning in found.warnings:
        report.note(Place(str(policy_file)), warning)
    day = today or datetime.datetime.now(datetime.timezone.utc).date()
    documents = [_Conversion(part, found.naming, report, day).document() for part in found.filters]
    report.refuse_unless(lenient)
    return Imported(documents, report)


@dataclass(frozen=True)
class _Side:
    """One side of a rule: what stands in the rule, none for anywhere; and the networks that it means."""

    written: tuple[str, ...] | None
    networks: tuple[Any, ...] | None

    def families(self) -> set[int]:
        return {4, 6} if self.networks is None else {net.version for net in self.networks}


ANYWHERE: Final = _Side(None, None)


class _Conversion:
    """The conversion of one filter."""

    def __init__(self, part: source.Filter, naming: Any, report: Report, today: datetime.date) -> None:
        self._filter, self._naming, self._report, self._today = part, naming, report, today
        self._groups: dict[str, Any] = {}
        self._services = Services(naming)
        self._names = Names()
        # A term that denies everything, since its conditions are not covered.
        self._closed: Place | None = None
        # Sides of the term that denies without them, as in the lists that Aerleon writes.
        self._ignored: set[str] = set()

    def document(self) -> Document:
        """The filter in Maple's form."""
        self._header()
        rules = [rule for term in self._filter.terms for rule in self._term(term)]
        if not any(rule.get("ethertype") == "arp" for rule in rules):
            comment = "lists for IP do not apply to ARP"
            rules.insert(
                0, {"action": "allow", "name": self._names.unique("arp"), "ethertype": "arp", "comment": comment}
            )
        # `arp` is also about IPv6 neighbour discovery, which the terms decide.
        document: Document = {"version": 1, "name": self._filter.name, "default": "deny", "arp": "deny"}
        document["fragments"] = fragments_key(rules)
        if document["fragments"] == "deny":
            text = "a term denies by ports, which switches don't see in fragments: fragments are denied"
            self._report.note(self._filter.place, text)
        if self._groups:
            document["groups"] = self._groups
        if self._services.used:
            document["services"] = self._services.used
        return {**document, "rules": rules}

    def _header(self) -> None:
        place, report = self._filter.place, self._report
        for target in self._filter.header.target:
            options = [str(option) for option in target.options]
            if "ACCEPT" in options:
                text = f"target {target.platform} accepts what no term matches; the result denies it"
                report.not_cover(place, text, WIDENED)
            if target.platform in STATEFUL:
                text = f"target {target.platform} lets replies pass by itself; Maple's rules are stateless"
                report.note(place, f"{text}: give `replies: true` to rules of connections")
        targets = self._filter.header.target
        if targets and all(_is_for_ipv4(target.platform, set(map(str, target.options))) for target in targets):
            report.note(place, "the targets are for IPv4 only; the result decides IPv6 packets by the same terms")

    def _term(self, term: source.Term) -> list[Document]:
        """The rules of a term; none if it has no effect."""
        action = self._action(term)
        if action is None:
            return []
        if self._closed is not None:
            text = f"never reached: {self._closed.source} denies everything, which is stricter than the source"
            self._report.note(term.place, text)
            return []
        uncovered = [keyword for keyword in CONDITIONS if term.has(keyword)]
        effects = [keyword for keyword in EFFECTS if term.has(keyword)] if action == "allow" else []
        problems = [(keyword, self._why(term, keyword)) for keyword in [*uncovered, *effects]]
        problems += self._platforms(term)
        problems += self._left_out(term, action)
        problems += [("protocol", text) for text in self._services.problems(term)]
        others = [str(value) for value in term.parsed.ether_type if str(value).lower() not in ETHERTYPES]
        problems += [("ether-type", f"{value}: lists have ipv4, ipv6 and arp") for value in others]
        for keyword, text in problems:
            effect = LEFT_OUT if action == "allow" else WIDENED
            self._report.not_cover(self._at(term, keyword), text, effect)
        if problems and action == "allow":
            return []
        for keyword in UNUSED:
            if term.has(keyword):
                self._report.note(self._at(term, keyword), "not carried over; the verdict is the same")
        rules = list(self._rules(term, action))
        if most := max(map(self._entries, rules), default=0) // MAX_ENTRIES:
            text = (
                f"more than {most} million combinations of addresses and ports; a list has a million entries: split it"
            )
            self._report.not_cover(term.place, text, LEFT_OUT if action == "allow" else "the list cannot be loaded")
            return []
        if problems and any(not set(rule) & {"from", "to", "service", "source_ports", "ethertype"} for rule in rules):
            self._closed = term.place
        if rules and not problems:
            self._report.converted(term.place, f"{len(rules)} rule{'s' * (len(rules) > 1)}, {action}")
        elif not rules:
            self._report.note(term.place, "matches no packet (addresses of different families, or none); left out")
        return rules

    def _entries(self, rule: Document) -> int:
        """The number of entries that a rule has in a list."""

        def size(items: Any, groups: dict[str, Any]) -> int:
            items = items if isinstance(items, list) else [items]
            return sum(size(groups[item], groups) if item in groups else 1 for item in items)

        sides = [size(rule[side], self._groups) for side in ("from", "to") if side in rule]
        services = size(rule["service"], self._services.used) if "service" in rule else 1
        return math.prod([*sides, services, len(rule.get("source_ports", [0]))])

    def _action(self, term: source.Term) -> str | None:
        """Allow or deny; none if the term is to be left out."""
        parsed, report = term.parsed, self._report
        if term.is_expired(self._today):
            report.note(self._at(term, "expiration"), f"expired on {parsed.expiration}; left out, as Aerleon does")
            return None
        if "inactive" in parsed.option:
            report.note(self._at(term, "option"), "inactive; left out")
            return None
        if parsed.verbatim:
            text = "verbatim text is for other systems, and may deny or allow there"
            report.not_cover(self._at(term, "verbatim"), text, LOOSER)
            return None
        if set(parsed.platform_exclude) >= set(self._filter.header.platforms) or (
            parsed.platform and not set(parsed.platform) & set(self._filter.header.platforms)
        ):
            report.note(term.place, "for none of the filter's targets; left out, as Aerleon does")
            return None
        verdicts = [VERDICTS[action] for action in parsed.action if action in VERDICTS]
        if "next" in parsed.action or (parsed.action and not verdicts):
            logged = ", and its log entries are not made" if self._logs(term) else ""
            report.note(self._at(term, "action"), f"{' '.join(parsed.action)}: gives no verdict; left out{logged}")
            return None
        if any(action.startswith("reject") for action in parsed.action):
            report.note(self._at(term, "action"), "reject: denied, but nothing is sent back to the source")
        # Without an action an effect, such as a routing instance, lets the packet pass.
        return verdicts[0] if verdicts else "allow"

    def _left_out(self, term: source.Term, action: str) -> Iterator[tuple[str, str]]:
        """Conditions that are not in what Aerleon writes for the filter's targets. Denials are wider there."""
        self._ignored = set()
        for key, keyword, platforms in (
            ("address", "address", WITHOUT_ADDRESS),
            ("source_address", "source-exclude", WITHOUT_EXCLUDED),
            ("destination_address", "destination-exclude", WITHOUT_EXCLUDED),
        ):
            targets = sorted(platforms & set(self._filter.header.platforms))
            if not targets or not term.has(keyword) or (key != keyword and getattr(term.parsed, key)):
                continue
            text = f"Aerleon leaves this out of lists for {' and '.join(targets)}"
            if action == "deny":
                self._ignored.add(key)
                yield keyword, f"{text}, which deny everybody"
            else:
                self._report.note(self._at(term, keyword), f"{text}, which allow everybody; it counts in the result")

    def _platforms(self, term: source.Term) -> Iterator[tuple[str, str]]:
        mine, all_of = set(term.parsed.platform), set(self._filter.header.platforms)
        if (mine and not mine >= all_of) or set(term.parsed.platform_exclude) & all_of:
            yield "platform", "the term is for some of the filter's targets only"

    def _why(self, term: source.Term, keyword: str) -> str:
        value = getattr(term.parsed, source.attribute(keyword))
        words = " ".join(map(str, value)) if isinstance(value, list) else str(value)
        if keyword == "option" and "established" in words:
            return f"{words}: lists match no TCP flags; see `replies: true`"
        return (
            f"{words}: no equal in Maple's lists"
            if keyword in CONDITIONS
            else f"{words}: Maple's lists only allow or deny"
        )

    def _rules(self, term: source.Term, action: str) -> Iterator[Document]:
        either = self._side(term, "address")
        source_side, target = self._side(term, "source_address"), self._side(term, "destination_address")
        sides = [(source_side, target)]
        if either is not ANYWHERE:
            sides = [(_both(either, source_side), target), (source_side, _both(either, target))]
        for ethertype in self._ethertypes(term):
            for from_, to in sides:
                for service, source_ports, families in self._services.of(term):
                    wanted = {"ipv4": {4}, "ipv6": {6}}.get(ethertype, {4, 6})
                    if service is NONE or not from_.families() & to.families() & families & wanted:
                        continue
                    yield self._rule(term, action, from_, to, service, source_ports, ethertype)

    def _rule(
        self, term: source.Term, action: str, from_: _Side, to: _Side, service: Any, source_ports: Any, ethertype: str
    ) -> Document:
        rule: Document = {"action": action, "name": self._names.unique(term.name)}
        if from_.written is not None:
            rule["from"] = one_or_list(from_.written)
        if to.written is not None:
            rule["to"] = one_or_list(to.written)
        if service:
            rule["service"] = one_or_list(service)
        if source_ports:
            rule["source_ports"] = source_ports
        if ethertype:
            rule["ethertype"] = ethertype
        if self._logs(term):
            rule["log"] = True
        said = " ".join(" ".join(map(str, term.parsed.comment)).split())
        owner = f" (owner: {term.parsed.owner})" if term.parsed.owner else ""
        return {**rule, "comment": f"{term.place.source}: {said}{owner}".removesuffix(": ")}

    def _side(self, term: source.Term, key: str) -> _Side:
        """A side of the term: its groups, and what is left of them without the excluded ones."""
        include, exclude = getattr(term.parsed, key), getattr(term.parsed, f"{key}_exclude")
        names, without = term.network_names[key], term.network_names[f"{key}_exclude"]
        direction = key.removesuffix("_address")
        if key in self._ignored or (not include and not exclude):
            return ANYWHERE
        # A packet may match one of these instead of the addresses, so a term that denies must deny from everywhere.
        if key != "address" and (term.has(f"{direction}-fqdn") or term.has(f"{direction}-prefix")):
            return ANYWHERE
        for name in [*names, *without]:
            self._group(name)
        names = [_named(name) for name in names]
        nacaddr = source.module("nacaddr")
        networks = include or [nacaddr.IP(everywhere) for everywhere in EVERYWHERE]
        if not exclude:
            return _Side(tuple(names), tuple(networks))
        left = tuple(nacaddr.AddressListExclude(networks, exclude))
        group = f"{'-'.join(names) or 'any'}-without-{'-'.join(without)}"
        if left:
            excluded = nacaddr.CollapseAddrList(list(exclude))
            self._groups[group] = [*(names or EVERYWHERE), *(f"!{_written(net)}" for net in excluded)]
        return _Side((group,), left)

    def _group(self, name: str) -> None:
        """Enters a definition of networks, and those that it names."""
        if _named(name) in self._groups:
            return
        self._groups[_named(name)] = items = []
        for item in self._naming.networks[name].items:
            text = item.split("#")[0].strip()
            if text in self._naming.networks:
                if self._naming.GetNet(text):
                    self._group(text)
                    items.append(_named(text))
                continue
            try:
                items.append(_written(ip_network(text, strict=False)))
            except ValueError:
                raise InputError(Place(name, None, text), "neither an address nor a defined network") from None

    def _ethertypes(self, term: source.Term) -> list[str]:
        family = term.parsed.restrict_address_family
        if family and family not in FAMILIES:
            raise InputError(self._at(term, "restrict-address-family"), f"inet or inet6, not {family}")
        if family:
            return [FAMILIES[family]]
        names = [str(value).lower() for value in term.parsed.ether_type]
        # A term that denies another type denies all of them here.
        return names if names and set(names) <= ETHERTYPES else [""]

    @staticmethod
    def _logs(term: source.Term) -> bool:
        return any(str(value) != "disable" for value in term.parsed.logging)

    @staticmethod
    def _at(term: source.Term, keyword: str) -> Place:
        return Place(term.place.file, term.place.line, f"{term.name}.{keyword}")


def _is_for_ipv4(platform: str, options: set[str]) -> bool:
    families = {"inet", "inet6", "mixed"} & options
    return families == {"inet"} or (not families and platform in INET_BY_DEFAULT)


def _named(name: str) -> str:
    """The name of a group. Lists have a word `any`, which no group can be called."""
    return "any-network" if name == "any" else name


def _both(one: _Side, other: _Side) -> _Side:
    """The addresses that are on both sides. Of two networks one holds the other, or they share nothing."""
    if other is ANYWHERE:
        return one
    assert one.networks is not None and other.networks is not None
    pairs = [(a, b) for a in one.networks for b in other.networks if a.version == b.version]
    inside = [a if a.subnet_of(b) else b for a, b in pairs if a.overlaps(b)]
    networks = tuple(source.module("nacaddr").CollapseAddrList(inside)) if inside else ()
    return _Side(tuple(map(_written, networks)), networks)


def _written(network: Any) -> str:
    """An address, or a network with its prefix length."""
    return str(network.network_address) if network.prefixlen == network.max_prefixlen else str(network)
