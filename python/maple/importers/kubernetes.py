"""NetworkPolicy objects of Kubernetes become one document in Maple's form.

A policy isolates the pods that it selects in a direction, and allows something. A packet between two pods must be
allowed by both: by some rule for what its source sends, if that is isolated, and by some rule for what its destination
receives. A list has one answer a packet. So each pair of such rules becomes one rule, with the sources, destinations
and ports that both have, and rules that deny what else isolated pods send or receive follow. The rest is allowed.

Kubernetes lets the replies of an allowed connection pass; rules of switches know no connections. Where a policy would
not let them pass by themselves, they are not covered: any packet that looks like one could open a connection to a pod
that is closed. Who gives the ports that clients use (`client_ports`) takes packets to these ports for replies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import collapse_addresses, ip_network
from pathlib import Path
from typing import Any, Final

from maple.importers import _kubernetes_objects as objects
from maple.importers._document import (
    LEFT_OUT,
    Document,
    Imported,
    InputError,
    Names,
    Place,
    Report,
    fragments_key,
    one_or_list,
)
from maple.importers._kubernetes_objects import Address, Network, Peer, Pod, Policy, Port

Ranges = tuple[tuple[str, int, int], ...]

ANY: Final = ("0.0.0.0/0", "::/0")
EVERYTHING: Final = tuple((ip_network(block), ()) for block in ANY)
TRANSPORTS: Final = ["tcp", "udp", "sctp"]
# Answers to pings, errors that connections need, and neighbour discovery. NetworkPolicy does not speak of ICMP.
ICMP: Final = ["icmp/0", "icmp/3", "icmp/11", *(f"icmpv6/{kind}" for kind in (1, 2, 3, 4, 129, 133, 134, 135, 136))]


def from_kubernetes(
    files: str | Path | Iterable[str | Path],
    pods: Iterable[str | Path] = (),
    *,
    client_ports: tuple[int, int] | None = None,
    name: str = "kubernetes",
    lenient: bool = False,
) -> Imported:
    """Converts NetworkPolicy objects (`networking.k8s.io/v1`) for the pods of a cluster.

    :param files: YAML files with policies, pods and namespaces; several documents and lists in a file are fine.
    :param pods: more such files, as from `kubectl get pods,namespaces -A -o yaml`. Pods have `status.podIP`.
    :param client_ports: the first and the last port that clients connect from (Linux: 32768 to 60999). Packets to
        these ports pass wherever a connection the other way is allowed, whether there is one or not, which is looser
        than the source: keep servers off these ports. `None`: replies that a policy would not let pass by themselves
        are not covered.
    :param name: the name of the document.
    :param lenient: leaves out objects that are not covered.
    :raises InputError: an object is wrong.
    :raises NotCovered: the files hold network policies of other kinds, or replies are not covered, and `lenient` is
        not set.

    >>> from maple.importers import from_kubernetes
    >>> imported = from_kubernetes("policies.yaml", pods=["pods.yaml"])  # doctest: +SKIP
    """
    if client_ports is not None and not 1 <= client_ports[0] <= client_ports[1] <= 65535:
        raise ValueError(f"client_ports are a first and a last port, 1 to 65535, not {client_ports}")
    report = Report()
    paths, pods = [files] if isinstance(files, (str, Path)) else list(files), list(pods)
    cluster = objects.read([*paths, *pods], report)
    if not cluster.policies:
        report.refuse_unless(lenient)
        found = ", ".join(f"{version} {kind}" for version, kind in sorted(cluster.kinds)) or "nothing"
        where = Place(", ".join(map(str, paths)))
        raise InputError(where, f"no NetworkPolicy of networking.k8s.io/v1; there is {found}")
    if not cluster.has_pods:
        where = Place(", ".join(map(str, [*paths, *pods])))
        raise InputError(where, "no pods: give the output of `kubectl get pods,namespaces -A -o yaml`, too")
    document = _Conversion(cluster, client_ports, report).document(name)
    report.refuse_unless(lenient)
    return Imported([document], report)


@dataclass(frozen=True)
class _Grant:
    """The traffic that one rule of a policy allows: its pods, the peers, and the ports; no ports: all traffic."""

    label: str
    place: Place
    subjects: frozenset[Address]
    everybody: bool
    blocks: tuple[tuple[Network, tuple[Network, ...]], ...]
    pods: frozenset[Address]
    ports: tuple[Port, ...] | None

    def has_peer(self, address: Address) -> bool:
        """Whether the rule allows this peer."""
        return (
            self.everybody
            or address in self.pods
            or any(address in block and not any(address in part for part in without) for block, without in self.blocks)
        )


class _Conversion:
    def __init__(self, cluster: objects.Cluster, client_ports: tuple[int, int] | None, report: Report) -> None:
        self._cluster, self._report = cluster, report
        self._clients = f"{client_ports[0]}-{client_ports[1]}" if client_ports else None
        self._pods: dict[Address, Pod] = {address: pod for pod in cluster.pods for address in pod.addresses}
        self._names = Names()
        self._groups: dict[str, list[str]] = {}
        self._rules: list[Document] = []
        self._isolated: dict[str, frozenset[Address]] = {}
        self._grants: dict[str, list[_Grant]] = {}
        # The parts of the source whose connections have replies that a policy would not let pass.
        self._with_replies: list[Place] = []

    def document(self, name: str) -> Document:
        """The policies as one list."""
        for direction in ("Ingress", "Egress"):
            own = [policy for policy in self._cluster.policies if direction in policy.types]
            self._isolated[direction] = frozenset().union(*(self._subjects(policy) for policy in own))
            self._grants[direction] = [grant for policy in own for grant in self._grants_of(policy, direction)]
        self._report_policies()
        self._allow_both()
        self._allow_one("Egress")
        self._allow_one("Ingress")
        self._allow_replies_by_default()
        self._report_replies()
        self._deny_rest()
        document: Document = {"version": 1, "name": name, "default": "allow", "fragments": fragments_key(self._rules)}
        used = {name for rule in self._rules for side in ("from", "to") for name in _list(rule.get(side, []))}
        if groups := {name: items for name, items in self._groups.items() if name in used}:
            document["groups"] = groups
        return {**document, "rules": self._rules}

    def _report_policies(self) -> None:
        for policy in self._cluster.policies:
            pods = len({self._pods[address].name for address in self._subjects(policy)})
            if pods:
                self._report_port_names(policy)
                text = f"{' and '.join(sorted(policy.types))} of {pods} pod{'s' * (pods != 1)}"
                self._report.converted(policy.place, text)
            else:
                self._report.note(policy.place, "selects no pod that has an address in these files; no rules")
            for direction, rules in (("Ingress", policy.ingress), ("Egress", policy.egress)):
                if rules and direction not in policy.types:
                    self._report.note(
                        rules[0].place, f"{direction} is not among the policyTypes; these rules count for nothing"
                    )

    def _report_port_names(self, policy: Policy) -> None:
        """Names of ports that no receiving pod has allow nothing, which Kubernetes does not say either."""
        for direction in sorted(policy.types):
            for grant in self._grants_of(policy, direction):
                ingress = direction == "Ingress"
                targets = grant.subjects if ingress else [a for a in self._pods if grant.has_peer(a)]
                for port in grant.ports or ():
                    if port.name is not None and not any(_ranges((port,), self._pods[target]) for target in targets):
                        whose = "that the policy selects" if ingress else "that the rule leads to"
                        text = f"no pod {whose} has a port {port.name!r} ({port.protocol}): the name allows nothing"
                        self._report.note(grant.place, text)

    def _subjects(self, policy: Policy) -> frozenset[Address]:
        return self._addresses(
            pod for pod in self._cluster.pods if pod.namespace == policy.namespace and policy.pods.matches(pod.labels)
        )

    @staticmethod
    def _addresses(pods: Iterable[Pod]) -> frozenset[Address]:
        return frozenset(address for pod in pods for address in pod.addresses)

    def _grants_of(self, policy: Policy, direction: str) -> Iterator[_Grant]:
        rules = policy.ingress if direction == "Ingress" else policy.egress
        for number, rule in enumerate(rules, 1):
            label = f"{policy.namespace}_{policy.name}.{direction.lower()}{number if len(rules) > 1 else ''}"
            peers = rule.peers or ()
            blocks = tuple((peer.block, peer.without) for peer in peers if peer.block is not None)
            pods = self._addresses(
                pod for pod in self._cluster.pods for peer in peers if self._selects(peer, pod, policy, rule.place)
            )
            yield _Grant(label, rule.place, self._subjects(policy), rule.peers is None, blocks, pods, rule.ports)

    def _selects(self, peer: Peer, pod: Pod, policy: Policy, place: Place) -> bool:
        if peer.block is not None or peer.pods is None or not peer.pods.matches(pod.labels):
            return False
        if peer.namespaces is None:
            return pod.namespace == policy.namespace
        return peer.namespaces.matches(self._cluster.labels(pod.namespace, peer.namespaces, place))

    def _allow_both(self) -> None:
        """Allows what a rule of each side allows, from isolated pods to isolated pods."""
        for egress in self._grants["Egress"]:
            for ingress in self._grants["Ingress"]:
                sources = [address for address in egress.subjects if ingress.has_peer(address)]
                targets = [address for address in ingress.subjects if egress.has_peer(address)]
                if not sources:
                    continue
                for ports, group in self._by_ports(targets, egress.ports, ingress.ports):
                    self._allow([egress, ingress], self._listed(sources), self._listed(group), ports)

    def _allow_one(self, direction: str) -> None:
        """Allows what one rule allows, between isolated pods and those that are not isolated."""
        closed = self._isolated["Ingress" if direction == "Egress" else "Egress"]
        for grant in self._grants[direction]:
            peers = sorted((a for a in self._pods if grant.has_peer(a) and a not in closed), key=_order)
            if direction == "Ingress":
                from_ = self._peers(grant, closed, peers)
                for ports, group in self._by_ports(grant.subjects, grant.ports) if from_ else ():
                    self._allow([grant], from_, self._listed(group), ports)
            else:
                self._allow_egress(grant, closed, peers)

    def _allow_egress(self, grant: _Grant, closed: frozenset[Address], peers: list[Address]) -> None:
        """Named ports are those of the receiving pods; hosts outside have none."""
        from_ = self._listed(grant.subjects)
        numbered = None if grant.ports is None else tuple(port for port in grant.ports if port.name is None)
        if numbered is None or numbered:
            to = self._peers(grant, closed, peers)
            if to:
                self._allow([grant], from_, to, _ranges(numbered, None))
        named = tuple(port for port in grant.ports or () if port.name is not None)
        for ports, group in self._by_ports(peers, named) if named else ():
            self._allow([grant], from_, self._listed(group), ports)

    def _by_ports(
        self, targets: Iterable[Address], *wanted: tuple[Port, ...] | None
    ) -> list[tuple[Ranges | None, list[Address]]]:
        """The receiving addresses, grouped by the ports that all of `wanted` allow there."""
        groups: dict[Ranges | None, list[Address]] = {}
        for target in sorted(targets, key=_order):
            ports: Ranges | None = None
            for one in wanted:
                ports = _common(ports, _ranges(one, self._pods[target]))
            if ports is None or ports:
                groups.setdefault(ports, []).append(target)
        return list(groups.items())

    def _peers(self, grant: _Grant, closed: frozenset[Address], pods: list[Address]) -> list[str]:
        """The peers of a rule without those that are isolated: blocks as groups of their own, and pods."""
        outside: list[str] = []
        for number, (block, without) in enumerate(EVERYTHING if grant.everybody else grant.blocks, 1):
            taken: list[Any] = [*without, *(ip_network(a) for a in sorted(closed, key=_order) if a in block)]
            left = block.num_addresses - sum(part.num_addresses for part in collapse_addresses(taken))
            if not taken:
                outside.append(_written(block))
            elif left:
                name = f"{grant.label}.block{number}"
                self._groups[name] = [_written(block), *(f"!{_written(part)}" for part in taken)]
                outside.append(name)
        if grant.everybody:
            return outside
        return [*outside, *self._listed(pod for pod in pods if pod in grant.pods)]

    def _listed(self, addresses: Iterable[Address]) -> list[str]:
        """The pods by their names where all of their addresses are meant."""
        wanted, found = set(addresses), []
        for address in sorted(wanted, key=_order):
            pod = self._pods[address]
            if not set(pod.addresses) <= wanted:
                found.append(str(address))
                continue
            name = f"{pod.namespace}_{pod.name}"
            self._groups[name] = list(map(str, pod.addresses))
            if name not in found:
                found.append(name)
        return found

    def _allow(self, grants: list[_Grant], from_: list[str], to: list[str], ports: Ranges | None) -> None:
        name, comment = "+".join(grant.label for grant in grants), ", ".join(grant.place.source for grant in grants)
        service = None if ports is None else [*map(_text, ports)]
        self._rule(name, from_, to, **({"service": one_or_list(service)} if service else {}), comment=comment)
        self._allow_replies(f"{name}.replies", [grant.place for grant in grants], comment, from_, to, service)

    def _allow_replies(
        self, name: str, places: list[Place], comment: str, from_: list[str], to: list[str], service: list[str] | None
    ) -> None:
        """Replies of connections, where a policy would not let them pass: packets for the ports of clients."""
        if not (self._reach(from_, self._isolated["Ingress"]) or self._reach(to, self._isolated["Egress"])):
            return
        self._with_replies += places
        if self._clients is not None:
            self._rule(
                name,
                from_,
                to,
                service=one_or_list(service or TRANSPORTS),
                source_ports=self._clients,
                replies=True,
                comment=f"{comment}: replies to the ports of clients",
            )

    def _reach(self, names: list[str], addresses: frozenset[Address]) -> bool:
        """Whether one of the addresses is meant by the names of groups, networks and addresses."""
        items = [self._groups.get(name, [name]) for name in names]
        return any(
            any(address in ip_network(item) for item in of if not item.startswith("!"))
            and not any(address in ip_network(item[1:]) for item in of if item.startswith("!"))
            for of in items
            for address in addresses
        )

    def _rule(self, name: str, from_: list[str], to: list[str], **rest: Any) -> None:
        """Allows something, unless no packet can have these ends: one is empty, or no version of IP is in both."""
        if self._versions(from_) & self._versions(to):
            rule: Document = {"action": "allow", "name": self._names.unique(name)}
            self._rules.append({**rule, "from": one_or_list(from_), "to": one_or_list(to), **rest})

    def _versions(self, names: list[str]) -> set[int]:
        items = (item for name in names for item in self._groups.get(name, [name]))
        return {ip_network(item).version for item in items if not item.startswith("!")}

    def _allow_replies_by_default(self) -> None:
        """Connections that no policy concerns, with replies that a policy would not let pass."""
        sending, receiving = self._isolated["Egress"], self._isolated["Ingress"]
        for name, from_, to in (
            ("clients", receiving - sending, receiving),
            ("servers", sending, sending - receiving),
        ):
            pods = from_ if name == "clients" else to
            if not pods:
                continue
            far = [*ANY, *(f"!{address}" for address in sorted(to if name == "clients" else from_, key=_order))]
            group = f"not-isolated-{name}"
            if len(far) > len(ANY):
                self._groups[group] = far
            other = [group] if group in self._groups else list(ANY)
            sides = (self._listed(pods), other) if name == "clients" else (other, self._listed(pods))
            comment = "no policy concerns these connections"
            self._allow_replies(f"replies-{name}", [self._cluster.policies[0].place], comment, *sides, None)

    def _report_replies(self) -> None:
        for place in dict.fromkeys(self._with_replies):
            if self._clients is None:
                text = (
                    "connections have replies that isolated pods don't get or send: rules of switches know no "
                    "connections; `--client-ports 32768-60999` takes what is sent to these ports for replies"
                )
                self._report.not_cover(place, text, LEFT_OUT)
            else:
                text = f"packets to the ports {self._clients} pass as replies, whether there is a connection or not"
                self._report.looser(place, text)

    def _deny_rest(self) -> None:
        if not any(self._isolated.values()):
            return
        text = "NetworkPolicy does not speak of ICMP: errors, answers, neighbour discovery"
        self._rules.append({"action": "allow", "name": self._names.unique("icmp"), "service": ICMP, "comment": text})
        for direction, side in (("Egress", "from"), ("Ingress", "to")):
            if self._isolated[direction]:
                name = self._names.unique(f"isolated-{direction.lower()}")
                pods = one_or_list(self._listed(self._isolated[direction]))
                self._rules.append({"action": "deny", "name": name, side: pods, "comment": "no policy allows it"})


def _ranges(ports: tuple[Port, ...] | None, pod: Pod | None) -> Ranges | None:
    """The numbers that ports have at a pod; none for all traffic."""
    if ports is None:
        return None
    found: set[tuple[str, int, int]] = set()
    for port in ports:
        if port.name is None:
            found.add((port.protocol, port.first, port.last))
        elif pod is not None:
            own = [p for p in pod.ports if p.name == port.name and p.protocol == port.protocol]
            found |= {(p.protocol, p.first, p.last) for p in own}
    return tuple(sorted(found))


def _common(one: Ranges | None, other: Ranges | None) -> Ranges | None:
    """The ports in both; none is all traffic."""
    if one is None or other is None:
        return other if one is None else one
    both = {(p, max(a, c), min(b, d)) for p, a, b in one for q, c, d in other if p == q and max(a, c) <= min(b, d)}
    return tuple(sorted(both))


def _text(ports: tuple[str, int, int]) -> str:
    protocol, first, last = ports[0].lower(), ports[1], ports[2]
    if (first, last) == (0, 65535):
        return protocol
    return f"{protocol}/{first}" if first == last else f"{protocol}/{first}-{last}"


def _written(network: Network) -> str:
    """An address, or a network with its prefix length."""
    return str(network.network_address) if network.prefixlen == network.max_prefixlen else str(network)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _order(address: Address) -> tuple[int, Any]:
    return address.version, int(address)
