"""Configurations of the corpus as files, and what Aerleon's own tools say of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import yaml
from acl_form import PROTOCOLS, Packet
from aerleon.lib import aclcheck, cisco, naming, policy
from aerleon.lib import yaml as with_yaml
from importer_corpus import Case, packet

# ---- Faucet


def write_faucet(case: Case, shared: str, folder: Path) -> Path:
    """The file of a case. Without switches of its own it gets those that all cases share."""
    for name, text in case.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    path = folder / "faucet.yaml"
    own = re.search(r"^(dps|include):", case.text, re.MULTILINE)
    path.write_text(case.text if own else f"{case.text}\n{shared}")
    return path


# ---- Kubernetes


def write_kubernetes(case: Case, shared: str, folder: Path) -> Path:
    """The file of a case, with the pods and namespaces that all cases share."""
    path = folder / "cluster.yaml"
    path.write_text(f"{case.text}\n---\n{shared}")
    return path


def pods(shared: str) -> dict[str, dict[str, Any]]:
    """The pods that cases share, by their names in packets."""
    objects = [found for found in yaml.safe_load_all(shared) if found]
    return {found["metadata"]["name"]: found for found in objects if found["kind"] == "Pod"}


def names(shared: str) -> dict[str, str]:
    """The addresses of the pods, by their names."""
    return {name: found["status"]["podIP"] for name, found in pods(shared).items()}


def questions(case: Case, shared: str) -> dict[str, Any]:
    """What `networkpolicy.go` is asked about a case. A pod's port has a name for the packets that go there."""
    policies = [text for text in re.split(r"^---$", case.text, flags=re.MULTILINE) if text.strip()]
    objects = [found for found in yaml.safe_load_all(shared) if found]
    spaces = {o["metadata"]["name"]: o["metadata"].get("labels", {}) for o in objects if o["kind"] == "Namespace"}
    by_address = {found["status"]["podIP"]: found for found in pods(shared).values()}

    def peer(value: int) -> dict[str, Any]:
        address = str(ip_address(value))
        found: dict[str, Any] = {"IP": address}
        if pod := by_address.get(address):
            space = pod["metadata"]["namespace"]
            labels = {"kubernetes.io/metadata.name": space, **spaces[space]}
            own = {"PodLabels": pod["metadata"].get("labels", {}), "NamespaceLabels": labels, "Namespace": space}
            found["Internal"] = own
        return found

    traffic = []
    for probe in case.probes:
        asked = packet(probe.text, names(shared))
        protocol = {number: name for name, number in PROTOCOLS.items()}[asked.proto].upper()
        pod = by_address.get(str(ip_address(asked.dst)), {"spec": {}})
        own = [port for of in pod["spec"].get("containers", []) for port in of.get("ports", [])]
        named = [p["name"] for p in own if (p["containerPort"], p.get("protocol", "TCP")) == (asked.dport, protocol)]
        question = {"Source": peer(asked.src), "Destination": peer(asked.dst), "Protocol": protocol}
        traffic.append({**question, "ResolvedPort": asked.dport, "ResolvedPortName": named[0] if named else ""})
    return {"Policies": policies, "Traffic": traffic}


# ---- Aerleon

HEADER = "header {\n  target:: cisco edge mixed\n}\n"
# What aclcheck knows of a term. It ignores other keywords, among them those that make a term match less.
CHECKED = {"source_address", "destination_address", "source_port", "destination_port", "protocol", "protocol_except"}
CHECKED |= {"action", "name", "comment", "logging", "owner", "counter", "translated", "policy"}


def write_aerleon(case: Case, shared: str, folder: Path) -> Path:
    """The policy of a case, with the definitions that all cases share, and a header if it has none."""
    (folder / "def").mkdir(exist_ok=True)
    for part in re.split(r"^>>> ", shared, flags=re.MULTILINE)[1:]:
        name, _, text = part.partition("\n")
        (folder / "def" / name).write_text(text)
    for name, text in case.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    if case.text.startswith("filters:"):
        path = folder / "edge.yaml"
        path.write_text(case.text)
    else:
        path = folder / "edge.pol"
        path.write_text(case.text if "header {" in case.text else HEADER + case.text)
    return path


def aerleon(case: Case, shared: str, folder: Path) -> tuple[str | None, list[str]]:
    """Why Aerleon refuses a case, or what it does to each packet."""
    judge = Aerleon(write_aerleon(case, shared, folder))
    if judge.refused:
        return judge.refused, []
    return None, [judge.decide(packet(probe.text)) for probe in case.probes]


class Aerleon:
    """What Aerleon makes of a policy: the access list that it writes for Cisco, read as a router does, and aclcheck.

    Both have to agree on policies of which aclcheck knows all. It alone judges those that the generator refuses.
    """

    def __init__(self, path: Path) -> None:
        self.refused = ""

        def parsed() -> Any:
            names = naming.Naming(str(path.parent / "def"))
            if path.suffix == ".yaml":
                return with_yaml.ParseFile(path, base_dir=path.parent, definitions=names)
            return policy.ParseFile(str(path), names, optimize=False, base_dir=str(path.parent))

        try:
            self.policy = parsed()
        except Exception as error:  # Aerleon has no common class of its errors
            self.refused = " ".join((str(error) or type(error).__name__).replace(str(path.parent), "").split())[:160]
            return
        try:
            text = str(cisco.Cisco(parsed(), 2))
        except Exception as error:
            text, unsupported = "", str(error)
        self.lines = [*cisco_lines(text)] if text else None
        terms = [term for _, terms in self.policy.filters for term in terms]
        self.checked = all(known(term) for term in terms)
        if self.lines is None and not self.checked:
            self.refused = " ".join(unsupported.replace(str(path.parent), "").split())[:160]

    def decide(self, asked: Packet) -> str:
        """Allow or deny."""
        found = []
        if self.lines is not None:
            found.append(next((line.action for line in self.lines if line.matches(asked)), "deny"))
        if self.checked:
            found.append(self.check(asked))
        assert len(set(found)) == 1, f"{asked}: the list and aclcheck differ: {found}"
        return found[0]

    def check(self, asked: Packet) -> str:
        """What aclcheck says."""
        ends = (ip_address(asked.src), ip_address(asked.dst))
        ports = (asked.sport, asked.dport) if asked.proto in (6, 17, 132) else (0, 0)
        name = {**{number: name for name, number in PROTOCOLS.items()}, 47: "gre", 50: "esp"}[asked.proto]
        matches = aclcheck.AclCheck(self.policy, *map(str, ends), *ports, name).ExactMatches()
        return "allow" if matches and "accept" in matches[0].action else "deny"


def known(term: Any) -> bool:
    """Whether aclcheck knows all that a term says. Protocols are names to it."""
    numbers = [name for name in [*term.protocol, *term.protocol_except] if name.isdigit()]
    return not numbers and all(key in CHECKED or not value for key, value in vars(term).items())


class Line:
    """A line of an access list for Cisco: `permit tcp host 10.0.0.1 any range 80 90`."""

    def __init__(self, text: str, version: int) -> None:
        words = text.split()
        self.action = {"permit": "allow", "deny": "deny"}[words.pop(0)]
        self.version, protocol = version, words.pop(0)
        numbers = {**PROTOCOLS, "gre": 47, "esp": 50}
        self.proto = None if protocol in ("ip", "ipv6") else numbers.get(protocol, protocol)
        self.src, self.sport = self.address(words), self.port(words)
        self.dst, self.dport = self.address(words), self.port(words)
        # Such lines are for packets that open no connection, or have another DSCP.
        self.special = bool(set(words) & {"established", "fragments", "dscp"})
        rest = [word for word in words if word != "log"] if not self.special else []
        self.kind, self.code = ([*map(int, rest), None, None])[:2]

    def address(self, words: list[str]) -> Any:
        first = words.pop(0)
        if first == "any":
            return None
        if first == "host":
            return ip_network(words.pop(0))
        if "/" in first:
            return ip_network(first)
        return ip_network(f"{first}/{words.pop(0)}")  # a wildcard is a host mask

    @staticmethod
    def port(words: list[str]) -> tuple[int, int] | None:
        if words[:1] == ["eq"]:
            words.pop(0)
            only = int(words.pop(0))
            return only, only
        if words[:1] == ["range"]:
            words.pop(0)
            return int(words.pop(0)), int(words.pop(0))
        return None

    def matches(self, asked: Packet) -> bool:
        """Whether the line is for a packet that opens a connection."""
        if asked.version != self.version or self.special or self.proto not in (None, asked.proto, str(asked.proto)):
            return False
        size = 32 if self.version == 4 else 128
        for network, value in ((self.src, asked.src), (self.dst, asked.dst)):
            if network is not None and not ip_network((value, size)).subnet_of(network):
                return False
        if asked.proto in (1, 58):
            return self.kind in (None, asked.sport) and self.code in (None, asked.dport)
        return all(
            wanted is None or wanted[0] <= port <= wanted[1]
            for wanted, port in ((self.sport, asked.sport), (self.dport, asked.dport))
        )


def cisco_lines(text: str) -> Iterator[Line]:
    """The lines of all lists in a text."""
    version = 4
    for line in map(str.strip, text.splitlines()):
        if "access-list" in line:
            version = 6 if line.startswith("ipv6") else 4
        elif line.startswith(("permit", "deny")):
            yield Line(line, version)
