"""NetworkPolicy objects: the list says to every packet what the objects say, and to replies what the guide says."""

from __future__ import annotations

import tempfile
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import yaml
from acl_form import Packet, evaluator, loaded
from hypothesis import given
from hypothesis import strategies as st
from maple.importers import Imported, from_kubernetes

Object = dict[str, Any]
CLIENTS = (32768, 60999)


def pod(name: str, ips: list[str], namespace: str = "a", labels: Object | None = None, ports: Any = ()) -> Object:
    containers = [{"name": "c", "image": "i", "ports": list(ports)}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
        "spec": {"containers": containers},
        "status": {"podIP": ips[0], "podIPs": [{"ip": ip} for ip in ips]} if ips else {},
    }


def addresses(pod: Object) -> list[Object]:
    found: list[Object] = pod["status"].get("podIPs", [])
    return found


def namespace(name: str, labels: Object) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def network_policy(name: str, spec: Object, namespace: str = "a") -> Object:
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": meta, "spec": spec}


def convert(objects: list[Object], *, client_ports: tuple[int, int] | None = CLIENTS, **options: Any) -> Imported:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "cluster.yaml")
        path.write_text(yaml.safe_dump_all(objects))
        return loaded(from_kubernetes(path, client_ports=client_ports, **options))


class Oracle:
    """The semantics of NetworkPolicy, from the objects as they are."""

    def __init__(self, objects: list[Object], clients: tuple[int, int] | None = CLIENTS) -> None:
        self.clients = clients
        self.pods = {ip["ip"]: o for o in objects if o["kind"] == "Pod" for ip in addresses(o)}
        self.spaces = {o["metadata"]["name"]: o["metadata"]["labels"] for o in objects if o["kind"] == "Namespace"}
        self.policies = [o for o in objects if o["kind"] == "NetworkPolicy"]

    def allows(self, packet: Packet) -> bool:
        """Whether the packet passes: by itself, or as what a client may get as a reply."""
        to_client = self.clients is not None and self.clients[0] <= packet.dport <= self.clients[1]
        return self.by_itself(packet) or (to_client and self.by_itself(packet.reverse()))

    def by_itself(self, packet: Packet) -> bool:
        """Whether the policies allow the packet."""
        src, dst = str(ip_address(packet.src)), str(ip_address(packet.dst))
        return self.direction("Egress", src, dst, dst, packet) and self.direction("Ingress", dst, src, dst, packet)

    def direction(self, kind: str, subject: str, peer: str, target: str, packet: Packet) -> bool:
        own = self.pods.get(subject)
        policies = [p for p in self.policies if own and self.isolates(p, kind, own)]
        if not policies:
            return True
        for policy in policies:
            for rule in policy["spec"].get(kind.lower(), []):
                peers = rule.get("from" if kind == "Ingress" else "to")
                if peers and not any(self.is_peer(p, peer, policy) for p in peers):
                    continue
                ports = rule.get("ports")
                if not ports or any(self.is_port(p, target, packet) for p in ports):
                    return True
        return False

    def isolates(self, policy: Object, kind: str, own: Object) -> bool:
        spec = policy["spec"]
        types = spec.get("policyTypes") or (["Ingress", "Egress"] if spec.get("egress") else ["Ingress"])
        here = own["metadata"]["namespace"] == policy["metadata"]["namespace"]
        return here and kind in types and self.selects(spec["podSelector"], own["metadata"]["labels"])

    def is_peer(self, peer: Object, ip: str, policy: Object) -> bool:
        if block := peer.get("ipBlock"):
            address = ip_address(ip)
            out = any(address in ip_network(part) for part in block.get("except", []))
            return address in ip_network(block["cidr"]) and not out
        own = self.pods.get(ip)
        if own is None or not self.selects(peer.get("podSelector", {}), own["metadata"]["labels"]):
            return False
        space = own["metadata"]["namespace"]
        if "namespaceSelector" not in peer:
            return bool(space == policy["metadata"]["namespace"])
        return self.selects(peer["namespaceSelector"], {"kubernetes.io/metadata.name": space, **self.spaces[space]})

    def is_port(self, port: Object, target: str, packet: Packet) -> bool:
        protocol = {"TCP": 6, "UDP": 17, "SCTP": 132}[port.get("protocol", "TCP")]
        if protocol != packet.proto:
            return False
        number = port.get("port")
        if number is None:
            return True
        if isinstance(number, str):
            containers = self.pods[target]["spec"]["containers"] if target in self.pods else []
            found = [p for c in containers for p in c["ports"] if p["name"] == number]
            same = [p for p in found if p.get("protocol", "TCP") == port.get("protocol", "TCP")]
            return any(p["containerPort"] == packet.dport for p in same)
        return bool(number <= packet.dport <= port.get("endPort", number))

    @staticmethod
    def selects(selector: Object, labels: Object) -> bool:
        for key, value in selector.get("matchLabels", {}).items():
            if labels.get(key) != value:
                return False
        for wanted in selector.get("matchExpressions", []):
            value, values = labels.get(wanted["key"]), wanted.get("values", [])
            holds = {
                "In": value in values,
                "NotIn": value not in values,
                "Exists": value is not None,
                "DoesNotExist": value is None,
            }
            if not holds[wanted["operator"]]:
                return False
        return True


VALUES = st.sampled_from(["web", "db"])
LABELS = st.dictionaries(st.sampled_from(["app", "tier"]), VALUES)
EXPRESSIONS = st.one_of(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(["app", "tier"]),
            "operator": st.sampled_from(["In", "NotIn"]),
            "values": st.lists(VALUES, min_size=1),
        }
    ),
    st.fixed_dictionaries(
        {"key": st.sampled_from(["app", "tier"]), "operator": st.sampled_from(["Exists", "DoesNotExist"])},
    ),
)
SELECTORS = st.fixed_dictionaries(
    {}, optional={"matchLabels": LABELS, "matchExpressions": st.lists(EXPRESSIONS, max_size=1)}
)
BLOCKS = st.sampled_from(
    [
        {"cidr": "0.0.0.0/0"},
        {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]},
        {"cidr": "10.0.0.0/24", "except": ["10.0.0.0/30", "10.0.0.5/32"]},
        {"cidr": "192.168.0.0/16"},
        {"cidr": "fd00::/64", "except": ["fd00::1/128"]},
        {"cidr": "10.0.0.4/32"},
        {"cidr": "10.0.0.2/31", "except": ["10.0.0.2/32", "10.0.0.3/32"]},
    ]
)
PEERS = st.one_of(
    st.fixed_dictionaries({"ipBlock": BLOCKS}),
    st.fixed_dictionaries({"podSelector": SELECTORS}),
    st.fixed_dictionaries({"namespaceSelector": SELECTORS}),
    st.fixed_dictionaries({"podSelector": SELECTORS, "namespaceSelector": SELECTORS}),
)
PORTS = st.sampled_from(
    [
        {"port": 80},
        {"protocol": "TCP", "port": "http"},
        {"protocol": "UDP", "port": "http"},
        {"protocol": "UDP", "port": 53},
        {"protocol": "TCP"},
        {"protocol": "SCTP"},
        {"port": 8000, "endPort": 9000},
        {"port": 1, "endPort": 65535},
        {"port": 1024, "endPort": 65535},
    ]
)


def rule_lists(side: str) -> st.SearchStrategy[list[Object]]:
    rule = st.fixed_dictionaries({}, optional={side: st.lists(PEERS, max_size=2), "ports": st.lists(PORTS, max_size=2)})
    return st.lists(rule, max_size=2)


SPECS = st.fixed_dictionaries(
    {"podSelector": SELECTORS},
    optional={
        "ingress": rule_lists("from"),
        "egress": rule_lists("to"),
        "policyTypes": st.sampled_from([["Ingress"], ["Egress"], ["Ingress", "Egress"]]),
    },
)
NAMED = st.lists(
    st.sampled_from(
        [
            {"name": "http", "containerPort": 80},
            {"name": "http", "containerPort": 8080},
            {"name": "http", "containerPort": 53, "protocol": "UDP"},
        ]
    ),
    max_size=1,
)


@st.composite
def clusters(draw: st.DrawFn) -> list[Object]:
    found = [namespace("a", draw(LABELS)), namespace("b", draw(LABELS))]
    for at in range(draw(st.integers(1, 5))):
        both = [f"10.0.0.{at + 1}", f"fd00::{at + 1}"]
        ips = draw(st.sampled_from([both[:1], both, both[1:], []]))
        space = draw(st.sampled_from(["a", "b"]))
        found.append(pod(f"pod{at}", ips, space, draw(LABELS), draw(NAMED)))
    for at in range(draw(st.integers(1, 3))):
        found.append(network_policy(f"policy{at}", draw(SPECS), draw(st.sampled_from(["a", "b"]))))
    return found


TRANSPORT = [(6, 40000, 80), (6, 80, 40000), (6, 40000, 8080), (6, 8080, 40000), (6, 80, 20000), (6, 20000, 80)]
TRANSPORT += [(6, 40000, 53), (17, 40000, 80), (6, 53, 40000)]
TRANSPORT += [(17, 40000, 53), (17, 53, 40000), (132, 7, 9), (132, 50000, 9), (6, 40000, 50000), (6, 20000, 20000)]


def packets(objects: list[Object]) -> list[Packet]:
    ips = [ip["ip"] for o in objects if o["kind"] == "Pod" for ip in addresses(o)]
    ips += ["10.0.0.200", "192.168.1.1", "fd00::99"]
    found = [ip_address(ip) for ip in ips]
    pairs = [(a, b) for a in found for b in found if a.version == b.version and a != b]
    return [Packet(a.version, int(a), int(b), *ports) for a, b in pairs for ports in TRANSPORT]


@given(clusters(), st.sampled_from([CLIENTS, None]))
def test_a_list_says_what_the_policies_say(objects: list[Object], clients: tuple[int, int] | None) -> None:
    decide = evaluator(convert(objects, client_ports=clients, lenient=True).documents[0])
    oracle = Oracle(objects, clients)
    for packet in packets(objects):
        assert (decide(packet) == "allow") == oracle.allows(packet), packet
