"""Objects of Kubernetes as their files say: pods, namespaces, network policies. Errors name file, line and field."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Final

from maple.importers import _yaml
from maple.importers._checks import expect, get, items, mapping, refuse_unknown
from maple.importers._document import LOOSER, InputError, Place, Report
from maple.importers._yaml import Keys

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

NAME_LABEL: Final = "kubernetes.io/metadata.name"
MAX_LISTS: Final = 8
PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
TEMPLATE: Final = "this is a template of Helm: give what `helm template` makes of it"
# Values of labels, and their keys with the prefix that they may have.
LABEL: Final = re.compile(r"(?=.{0,63}$)([A-Za-z0-9]([\w.-]*[A-Za-z0-9])?)?", re.ASCII)
LABEL_KEY: Final = re.compile(
    r"((?=[^/]{1,253}/)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?"
    r"(?=[^/]{1,63}$)[A-Za-z0-9]([\w.-]*[A-Za-z0-9])?",
    re.ASCII,
)
OBJECT_NAME: Final = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
NAMESPACE_NAME: Final = re.compile(r"(?=.{1,63}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?")
# The keys of an object, with those of older versions, and of its metadata.
OBJECT_KEYS: Final = ("apiVersion", "kind", "metadata", "spec", "status")
METADATA_KEYS: Final = (
    *("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp"),
    *("deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers"),
    *("clusterName", "managedFields"),
)
# Names of ports as Kubernetes takes them (RFC 6335, section 5.1).
PORT_NAME: Final = re.compile(r"(?=.{1,15}$)(?=.*[a-z])(?!.*--)[a-z0-9]([a-z0-9-]*[a-z0-9])?")


@dataclass(frozen=True)
class Selector:
    """Which labels match: for each requirement a key, an operator and values."""

    requirements: tuple[tuple[str, str, tuple[str, ...]], ...]

    def matches(self, labels: dict[str, str]) -> bool:
        """Whether all requirements hold. A key that is missing matches `NotIn`."""
        return all(_holds(labels.get(key), operator, values) for key, operator, values in self.requirements)

    @property
    def keys(self) -> set[str]:
        """The labels that it asks for."""
        return {key for key, _, _ in self.requirements}


def _holds(value: str | None, operator: str, values: tuple[str, ...]) -> bool:
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
    return value is None


@dataclass(frozen=True)
class Port:
    """Ports of a rule, or of a container. A rule may name a port; without numbers it means all of the protocol."""

    protocol: str
    first: int = 0
    last: int = 65535
    name: str | None = None


@dataclass(frozen=True)
class Peer:
    """One entry of `from` or `to`: a block of addresses, or selectors. No selector of namespaces: the policy's own."""

    block: Network | None = None
    without: tuple[Network, ...] = ()
    pods: Selector | None = None
    namespaces: Selector | None = None


@dataclass(frozen=True)
class Rule:
    """A rule of a policy. No peers: everybody; no ports: all traffic."""

    place: Place
    peers: tuple[Peer, ...] | None
    ports: tuple[Port, ...] | None


@dataclass(frozen=True)
class Policy:
    """A NetworkPolicy. A direction without rules list isolates only if it is among the types."""

    namespace: str
    name: str
    place: Place
    pods: Selector
    types: frozenset[str]
    ingress: tuple[Rule, ...]
    egress: tuple[Rule, ...]


@dataclass(frozen=True)
class Pod:
    """A pod on the network."""

    namespace: str
    name: str
    place: Place
    labels: dict[str, str]
    addresses: tuple[Address, ...]
    ports: tuple[Port, ...]


@dataclass
class Cluster:
    """All objects of the files. `has_pods` is also about pods that are not on the network; `kinds` has versions too."""

    pods: list[Pod] = field(default_factory=list)
    has_pods: bool = False
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    policies: list[Policy] = field(default_factory=list)
    kinds: set[tuple[str, str]] = field(default_factory=set)

    def labels(self, namespace: str, selector: Selector, place: Place) -> dict[str, str]:
        """The labels of a namespace.

        :raises InputError: the namespace is in no file, but the selector asks for its labels.
        """
        if namespace not in self.namespaces and selector.keys - {NAME_LABEL}:
            raise InputError(place, f"the selector asks for labels of the namespace {namespace}, which is in no file")
        return {NAME_LABEL: namespace, **self.namespaces.get(namespace, {})}


def read(files: Iterable[str | Path], report: Report) -> Cluster:
    """The objects of YAML files, each with any number of documents and lists.

    :raises InputError: an object is wrong, or stands in the files twice.
    """
    cluster = Cluster()
    seen: dict[tuple[str, str, str], Place] = {}
    for path in files:
        for document in _documents(path):
            for found in _flat(document, Place(str(path)), 0):
                _add(cluster, found, report, seen)
    owners: dict[Address, Pod] = {}
    for pod in cluster.pods:
        for address in pod.addresses:
            if (owner := owners.setdefault(address, pod)) is not pod:
                raise InputError(pod.place, f"{address} is also the address of {owner.namespace}/{owner.name}")
    return cluster


def _documents(path: str | Path) -> list[object]:
    try:
        return _yaml.read(path, "kubernetes")
    except InputError as error:
        if error.place.line is None:
            raise
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        if at := next((at for at, line in enumerate(lines, 1) if "{{" in line), None):
            raise InputError(Place(str(path), at), TEMPLATE) from None
        raise


def _refuse_template(value: object, keys: Keys, field_: str) -> None:
    """Refuses an object that YAML can read, and that is still to be filled in."""
    if isinstance(value, str) and "{{" in value:
        raise InputError(keys.place(field_), f"{value!r}: {TEMPLATE}")
    if isinstance(value, Keys):
        for key, of in value.items():
            _refuse_template(of, value, f"{field_}.{key}")
    elif isinstance(value, list):
        for of in value:
            _refuse_template(of, keys, field_)


def _flat(document: object, place: Place, depth: int) -> Iterator[Keys]:
    """The objects of a document, which may be a list of objects and lists."""
    if document is None:
        return
    keys = expect(document, Keys, place)
    if depth > MAX_LISTS:
        raise InputError(place, "lists in lists, nested too deeply")
    kind = get(keys, "kind", str, "")
    if kind is None:
        raise InputError(keys.place("kind"), "the object has no kind")
    if kind != "List" and not (kind.endswith("List") and "items" in keys):
        yield keys
        return
    for line, item in zip(items(keys, "items", kind).lines, items(keys, "items", kind), strict=True):
        yield from _flat(item, Place(keys.file, line, "items"), depth + 1)


def _add(cluster: Cluster, keys: Keys, report: Report, seen: dict[tuple[str, str, str], Place]) -> None:
    kind, version = str(keys["kind"]), str(keys.get("apiVersion", ""))
    meta = mapping(keys, "metadata", kind)
    name, namespace = (
        get(meta, "name", str, f"{kind}.metadata"),
        get(meta, "namespace", str, f"{kind}.metadata") or "default",
    )
    place = keys.place(f"{kind} {namespace}/{name}" if kind != "Namespace" else f"Namespace {name}")
    cluster.kinds.add((version, kind))
    if kind not in ("Pod", "Namespace", "NetworkPolicy") or (
        kind == "NetworkPolicy" and version != "networking.k8s.io/v1"
    ):
        if kind.endswith("NetworkPolicy"):
            text = f"{version} {kind} is not NetworkPolicy of networking.k8s.io/v1"
            if version == "extensions/v1beta1":
                text += ", which has replaced it with the same fields since Kubernetes 1.16: change apiVersion"
            report.not_cover(place, text, LOOSER)
        else:
            report.note(place, f"a {kind} says nothing about who may talk to whom; skipped")
        return
    if kind == "NetworkPolicy":
        refuse_unknown(keys, OBJECT_KEYS, place.field)
        refuse_unknown(meta, METADATA_KEYS, f"{kind}.metadata")
        _refuse_template([name, namespace, keys.get("spec")], keys, f"{kind} {namespace}/{name}")
    if not name:
        raise InputError(keys.place(f"{kind}.metadata.name"), "the object has no name")
    if not OBJECT_NAME.fullmatch(name):
        text = f"{name!r} is not an object name: small letters, digits, - and ."
        raise InputError(meta.place(f"{kind}.metadata.name", "name"), text)
    if kind != "Namespace" and not NAMESPACE_NAME.fullmatch(namespace):
        text = f"{namespace!r} is not a namespace name: at most 63 small letters, digits and -"
        raise InputError(meta.place(f"{kind}.metadata.namespace", "namespace"), text)
    key = (kind, "" if kind == "Namespace" else namespace, name)
    if key in seen:
        raise InputError(place, f"stands already at {seen[key].source}")
    seen[key] = place
    if kind == "Namespace":
        cluster.namespaces[name] = _labels(meta, place)
    elif kind == "Pod":
        cluster.has_pods = True
        pod = _pod(keys, namespace, name, _labels(meta, place), place, report)
        if pod:
            cluster.pods.append(pod)
    else:
        cluster.policies.append(_policy(keys, namespace, name, place))


def _labels(meta: Keys, place: Place) -> dict[str, str]:
    return _strings(mapping(meta, "labels", place.field), f"{place.field}: label")


def _strings(labels: Keys, field_: str) -> dict[str, str]:
    """Keys and values of labels."""
    found = {}
    for key, value in labels.items():
        at = labels.place(f"{field_}.{key}" if field_.endswith("Labels") else f"{field_} {key}", key)
        found[_label_key(key, at)] = _label(expect(value, str, at), at)
    return found


def _label_key(key: object, at: Place) -> str:
    if not LABEL_KEY.fullmatch(str(key)):
        raise InputError(at, f"{key!r} is not a label key, such as app or example.org/app")
    return str(key)


def _label(value: str, at: Place) -> str:
    if not LABEL.fullmatch(value):
        raise InputError(at, f"{value!r} is not a label value: at most 63 letters, digits, -, _ and .")
    return value


def _pod(keys: Keys, namespace: str, name: str, labels: dict[str, str], place: Place, report: Report) -> Pod | None:
    spec, status = mapping(keys, "spec", place.field), mapping(keys, "status", place.field)
    if spec.get("hostNetwork"):
        report.note(place, "uses its node's network, where network policies do not apply; skipped")
        return None
    if status.get("phase") in ("Succeeded", "Failed"):
        report.note(place, f"has ended ({status['phase']}); skipped")
        return None
    texts = [status.get("podIP"), *(expect(ip, Keys, place).get("ip") for ip in items(status, "podIPs", place.field))]
    try:
        addresses = tuple(dict.fromkeys(ip_address(str(text)) for text in texts if text))
    except ValueError as error:
        raise InputError(status.place(f"{place.field}.status.podIP", "podIP"), str(error)) from None
    if not addresses:
        report.note(place, "has no status.podIP yet; import again when it has one")
        return None
    found = []
    containers = [*items(spec, "containers", place.field), *items(spec, "initContainers", place.field)]
    for container in (expect(item, Keys, place) for item in containers):
        for item in items(container, "ports", f"{place.field}.containers"):
            port = expect(item, Keys, place)
            number = get(port, "containerPort", int, f"{place.field}.containers.ports")
            if number is None:
                raise InputError(port.place(f"{place.field}.containers.ports"), "the port has no containerPort")
            named = get(port, "name", str, f"{place.field}.containers.ports")
            found.append(Port(str(port.get("protocol", "TCP")), number, number, named))
    return Pod(namespace, name, place, labels, addresses, tuple(found))


def _policy(keys: Keys, namespace: str, name: str, place: Place) -> Policy:
    at = f"{namespace}/{name}"
    spec = mapping(keys, "spec", at)
    refuse_unknown(spec, ("podSelector", "policyTypes", "ingress", "egress"), f"{at}.spec")
    types = [str(item) for item in items(spec, "policyTypes", f"{at}.spec")]
    if len(types) > 2:
        raise InputError(spec.place(f"{at}.spec.policyTypes", "policyTypes"), "at most two policyTypes")
    for found in types:
        if found not in ("Ingress", "Egress"):
            raise InputError(spec.place(f"{at}.spec.policyTypes", "policyTypes"), f"Ingress or Egress, not {found}")
    ingress, egress = _rules(spec, "ingress", "from", at), _rules(spec, "egress", "to", at)
    implied = ["Ingress", "Egress"] if egress else ["Ingress"]
    pods = _selector(mapping(spec, "podSelector", f"{at}.spec"), f"{at}.spec.podSelector")
    return Policy(namespace, name, place, pods, frozenset(types or implied), ingress, egress)


def _rules(spec: Keys, direction: str, side: str, at: str) -> tuple[Rule, ...]:
    rules, found = items(spec, direction, f"{at}.spec"), []
    for number, item in enumerate(rules):
        field_ = f"{at}.spec.{direction}[{number}]"
        keys = (
            Keys(spec.file, rules.lines[number])
            if item is None
            else expect(item, Keys, Place(spec.file, rules.lines[number], field_))
        )
        refuse_unknown(keys, (side, "ports"), field_)
        peers = tuple(_peer(peer, keys, side, f"{field_}.{side}") for peer in items(keys, side, field_))
        ports = tuple(_port(port, keys, f"{field_}.ports") for port in items(keys, "ports", field_))
        found.append(Rule(keys.place(field_), peers or None, ports or None))
    return tuple(found)


def _peer(item: object, rule: Keys, side: str, field_: str) -> Peer:
    keys = expect(item, Keys, rule.place(field_, side))
    refuse_unknown(keys, ("ipBlock", "podSelector", "namespaceSelector"), field_)
    block = get(keys, "ipBlock", Keys, field_)
    selectors = [key for key in ("podSelector", "namespaceSelector") if keys.get(key) is not None]
    if (block is None) == (not selectors):
        raise InputError(keys.place(field_), "either an ipBlock or selectors")
    if block is not None:
        refuse_unknown(block, ("cidr", "except"), f"{field_}.ipBlock")
        network = _network(block.get("cidr"), block.place(f"{field_}.ipBlock.cidr", "cidr"))
        place = block.place(f"{field_}.ipBlock.except", "except")
        without = tuple(_network(text, place) for text in items(block, "except", f"{field_}.ipBlock"))
        for taken in without:
            inside = (
                taken.version == network.version and taken.prefixlen > network.prefixlen and taken.overlaps(network)
            )
            if not inside:
                raise InputError(place, f"{taken} is not part of {network}")
        return Peer(network, without)
    pods, spaces = (
        _selector(mapping(keys, key, field_), f"{field_}.{key}") for key in ("podSelector", "namespaceSelector")
    )
    return Peer(pods=pods, namespaces=spaces if "namespaceSelector" in selectors else None)


def _network(text: object, place: Place) -> Network:
    if not re.fullmatch(r"[^/]+/\d+", str(text), re.ASCII):
        raise InputError(place, f"{text!r} is not a network with the length of its prefix, such as 10.9.8.0/24")
    try:
        return ip_network(str(text), strict=False)
    except ValueError as error:
        raise InputError(place, str(error)) from None


def _port(item: object, rule: Keys, field_: str) -> Port:
    keys = expect(item, Keys, rule.place(field_, "ports"))
    refuse_unknown(keys, ("protocol", "port", "endPort"), field_)
    protocol = get(keys, "protocol", str, field_) or "TCP"
    if protocol not in PROTOCOLS:
        raise InputError(keys.place(f"{field_}.protocol", "protocol"), f"{' or '.join(PROTOCOLS)}, not {protocol}")
    port, last = keys.get("port"), get(keys, "endPort", int, field_)
    if last is not None and (not isinstance(port, int) or last < port):
        raise InputError(keys.place(f"{field_}.endPort", "endPort"), "endPort needs a number as port, at most itself")
    if port is None:
        return Port(protocol)
    if isinstance(port, str):
        if not PORT_NAME.fullmatch(port):
            text = f"{port!r} is not a port name (a letter, lower case, at most 15 characters)"
            unquoted = f"; the number {port} stands without quotes" if port.isdecimal() else ""
            raise InputError(keys.place(f"{field_}.port", "port"), text + unquoted)
        return Port(protocol, name=port)
    number = expect(port, int, keys.place(f"{field_}.port", "port"))
    if not (1 <= number <= 65535 and (last or number) <= 65535):
        raise InputError(keys.place(f"{field_}.port", "port"), "ports are 1 to 65535")
    return Port(protocol, number, last or number)


def _selector(keys: Keys, field_: str) -> Selector:
    refuse_unknown(keys, ("matchLabels", "matchExpressions"), field_)
    labels = mapping(keys, "matchLabels", field_)
    found: list[tuple[str, str, tuple[str, ...]]] = [
        (key, "In", (value,)) for key, value in _strings(labels, f"{field_}.matchLabels").items()
    ]
    for item in items(keys, "matchExpressions", field_):
        at = f"{field_}.matchExpressions"
        wanted = expect(item, Keys, keys.place(at, "matchExpressions"))
        refuse_unknown(wanted, ("key", "operator", "values"), at)
        key, operator = get(wanted, "key", str, at), get(wanted, "operator", str, at)
        place = wanted.place(f"{at}.values", "values")
        values = tuple(_label(expect(value, str, place), place) for value in items(wanted, "values", at))
        if not key or operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            raise InputError(wanted.place(f"{at}.operator", "operator"), "a key, and In, NotIn, Exists or DoesNotExist")
        if bool(values) != (operator in ("In", "NotIn")):
            raise InputError(
                wanted.place(f"{at}.values", "values"), f"{operator} takes {'no ' if values else ''}values"
            )
        found.append((_label_key(key, wanted.place(f"{at}.key", "key")), operator, values))
    return Selector(tuple(found))
