"""NetworkPolicy objects: the list says to every packet what the objects say, and to replies what the guide says."""

from __future__ import annotations

import tempfile
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml
from acl_form import Packet, evaluator
from hypothesis import given
from hypothesis import strategies as st
from maple.importers import Imported, InputError, NotCovered, from_kubernetes

Object = dict[str, Any]
CLIENTS = (32768, 60999)


def pod(name: str, ips: list[str], namespace: str = "a", labels: Object | None = None, ports: Any = ()) -> Object:
    containers = [{"name": "c", "image": "i", "ports": list(ports)}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
        "spec": {"containers": containers},
        "status": {"podIP": ips[0], "podIPs": [{"ip": ip} for ip in ips]},
    }


def namespace(name: str, labels: Object) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def network_policy(name: str, spec: Object, namespace: str = "a") -> Object:
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": meta, "spec": spec}


def convert(objects: list[Object], **options: Any) -> Imported:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "cluster.yaml")
        path.write_text(yaml.safe_dump_all(objects))
        return from_kubernetes(path, **options)


class Oracle:
    """The semantics of NetworkPolicy, from the objects as they are."""

    def __init__(self, objects: list[Object], clients: tuple[int, int] | None = CLIENTS) -> None:
        self.clients = clients
        self.pods = {ip["ip"]: o for o in objects if o["kind"] == "Pod" for ip in o["status"]["podIPs"]}
        self.spaces = {o["metadata"]["name"]: o["metadata"]["labels"] for o in objects if o["kind"] == "Namespace"}
        self.policies = [o for o in objects if o["kind"] == "NetworkPolicy"]

    def allows(self, packet: Packet) -> bool:
        """Whether the packet passes: by itself, or as a reply."""
        if self.by_itself(packet):
            return True
        request = packet.reverse()
        ways = self.by_itself(request)
        from_client = self.clients is not None and self.clients[0] <= request.sport <= self.clients[1]
        return True in ways or (bool(ways) and from_client)

    def by_itself(self, packet: Packet) -> list[bool]:
        """Each way in which the packet is allowed: whether that names ports."""
        src, dst = str(ip_address(packet.src)), str(ip_address(packet.dst))
        sent = self.direction("Egress", src, dst, dst, packet)
        received = self.direction("Ingress", dst, src, dst, packet)
        return [a or b for a in sent for b in received]

    def direction(self, kind: str, subject: str, peer: str, target: str, packet: Packet) -> list[bool]:
        own = self.pods.get(subject)
        policies = [p for p in self.policies if own and self.isolates(p, kind, own)]
        if not policies:
            return [False]
        ways = []
        for policy in policies:
            for rule in policy["spec"].get(kind.lower(), []):
                peers = rule.get("from" if kind == "Ingress" else "to")
                if peers and not any(self.is_peer(p, peer, policy) for p in peers):
                    continue
                ports = rule.get("ports")
                if not ports or any(self.is_port(p, target, packet) for p in ports):
                    ways.append(bool(ports))
        return ways

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
        ips = [f"10.0.0.{at + 1}"] + ([f"fd00::{at + 1}"] if draw(st.booleans()) else [])
        space = draw(st.sampled_from(["a", "b"]))
        found.append(pod(f"pod{at}", ips, space, draw(LABELS), draw(NAMED)))
    for at in range(draw(st.integers(1, 3))):
        found.append(network_policy(f"policy{at}", draw(SPECS), draw(st.sampled_from(["a", "b"]))))
    return found


TRANSPORT = [(6, 40000, 80), (6, 80, 40000), (6, 40000, 8080), (6, 8080, 40000), (6, 80, 20000), (6, 20000, 80)]
TRANSPORT += [(6, 40000, 53), (17, 40000, 80), (6, 53, 40000)]
TRANSPORT += [(17, 40000, 53), (17, 53, 40000), (132, 7, 9), (132, 50000, 9), (6, 40000, 50000), (6, 20000, 20000)]


def packets(objects: list[Object]) -> list[Packet]:
    ips = [ip["ip"] for o in objects if o["kind"] == "Pod" for ip in o["status"]["podIPs"]]
    ips += ["10.0.0.200", "192.168.1.1", "fd00::99"]
    found = [ip_address(ip) for ip in ips]
    pairs = [(a, b) for a in found for b in found if a.version == b.version and a != b]
    return [Packet(a.version, int(a), int(b), *ports) for a, b in pairs for ports in TRANSPORT]


@given(clusters(), st.sampled_from([CLIENTS, None]))
def test_a_list_says_what_the_policies_say(objects: list[Object], clients: tuple[int, int] | None) -> None:
    decide = evaluator(convert(objects, client_ports=clients).documents[0])
    oracle = Oracle(objects, clients)
    for packet in packets(objects):
        assert (decide(packet) == "allow") == oracle.allows(packet), packet


WEB = pod("web-1", ["10.0.0.1"], labels={"app": "web"}, ports=[{"name": "http", "containerPort": 8080}])
DB = pod("db-1", ["10.0.0.2", "fd00::2"], labels={"app": "db"})
FROM_WEB = network_policy(
    "db",
    {
        "podSelector": {"matchLabels": {"app": "db"}},
        "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "web"}}}], "ports": [{"port": 5432}]}],
    },
)


def test_names_are_those_of_pods_and_policies() -> None:
    (document,) = convert([WEB, DB, FROM_WEB]).documents
    assert document["groups"] == {
        "a_web-1": ["10.0.0.1"],
        "a_db-1": ["10.0.0.2", "fd00::2"],
        "not-isolated-clients": ["0.0.0.0/0", "::/0", "!10.0.0.2", "!fd00::2"],
    }
    first, replies, icmp, last = document["rules"]
    line = yaml.safe_dump_all([WEB, DB, FROM_WEB]).splitlines().index("  - from:") + 1
    assert first["comment"].endswith(f"cluster.yaml:{line}")
    assert {key: first[key] for key in first if key != "comment"} == {
        "action": "allow",
        "name": "a_db.ingress",
        "from": "a_web-1",
        "to": "a_db-1",
        "service": "tcp/5432",
        "replies": True,
    }
    assert (replies["name"], replies["source_ports"]) == ("replies-clients", ["32768-60999"])
    assert icmp["service"][0] == "icmp/0"
    assert (last["action"], last["to"]) == ("deny", "a_db-1")


def test_neighbours_are_found_and_pings_answered() -> None:
    decide = evaluator(convert([WEB, DB, FROM_WEB]).documents[0])
    db, far = int(ip_address("fd00::2")), int(ip_address("fd00::9"))
    assert [decide(Packet(6, far, db, 58, kind)) for kind in (135, 129, 128)] == ["allow", "allow", "deny"]
    assert decide(Packet(0, 0, 0, 0, ethertype=0x806)) == "allow"


def test_lists_and_several_files(tmp_path: Path) -> None:
    (tmp_path / "policies.yaml").write_text(yaml.safe_dump_all([FROM_WEB, None]))
    (tmp_path / "pods.yaml").write_text(yaml.safe_dump({"kind": "List", "apiVersion": "v1", "items": [WEB, DB]}))
    imported = from_kubernetes(tmp_path / "policies.yaml", pods=[tmp_path / "pods.yaml"])
    assert imported.documents == from_kubernetes([tmp_path / "policies.yaml", tmp_path / "pods.yaml"]).documents
    assert len(imported.documents[0]["rules"]) == 4


def test_pods_that_are_not_on_the_network_are_reported() -> None:
    host, ended, new = (
        pod(name, [ip]) for name, ip in (("host", "10.0.0.7"), ("ended", "10.0.0.2"), ("new", "10.0.0.8"))
    )
    host["spec"]["hostNetwork"] = True
    ended["status"]["phase"] = "Succeeded"
    new["status"] = {}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    notes = [
        finding.text
        for finding in convert([WEB, DB, FROM_WEB, host, ended, new, service]).report.findings
        if finding.kind == "note"
    ]
    parts = ("node's network", "ended", "no status.podIP", "a Service says", "replies to all ports")
    for part, text in zip(parts, notes, strict=True):
        assert part in text


def test_other_kinds_of_policies_are_not_covered() -> None:
    ours, other = [WEB, DB, FROM_WEB], {**FROM_WEB, "apiVersion": "projectcalico.org/v3"}
    with pytest.raises(NotCovered, match=r"projectcalico\.org/v3 NetworkPolicy is not"):
        convert([WEB, DB, FROM_WEB, other])
    names = [
        [rule["name"] for rule in convert(objects, lenient=True).documents[0]["rules"]]
        for objects in (ours, [*ours, other])
    ]
    assert names[0] == names[1]


def bad(change: Any) -> list[Object]:
    spec = yaml.safe_load(yaml.safe_dump(FROM_WEB["spec"]))
    change(spec)
    return [WEB, DB, network_policy("db", spec)]


@pytest.mark.parametrize(
    "change, text",
    [
        (lambda s: s.update(egres=[]), r"a/db\.spec\.egres: unknown key; did you mean egress\?"),
        (lambda s: s.update(policyTypes=["In"]), r"policyTypes: Ingress or Egress, not In"),
        (lambda s: s["ingress"][0].update(ports=[{"port": 70000}]), r"ingress\[0\]\.ports\.port: ports are 1 to 65535"),
        (lambda s: s["ingress"][0].update(ports=[{"port": "a", "endPort": 3}]), r"endPort needs a number"),
        (lambda s: s["ingress"][0].update(ports=[{"protocol": "ICMP"}]), r"TCP or UDP or SCTP, not ICMP"),
        (lambda s: s["ingress"][0].update(ports=80), r"ports: 80 stands where a list is expected"),
        (lambda s: s["ingress"][0].update({"from": [{}]}), r"from: either an ipBlock or selectors"),
        (
            lambda s: s["ingress"][0].update({"from": [{"ipBlock": {"cidr": "10.0.0.300/8"}}]}),
            r"cidr: '10\.0\.0\.300/8'",
        ),
        (
            lambda s: s["ingress"][0].update({"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/9"]}}]}),
            r"except: 11\.0\.0\.0/9 is no part of 10\.0\.0\.0/8",
        ),
        (lambda s: s.update(podSelector={"matchExpressions": [{"key": "a", "operator": "Is"}]}), r"In, NotIn, Exists"),
        (lambda s: s.update(podSelector={"matchExpressions": [{"key": "a", "operator": "In"}]}), r"In takes values"),
        (
            lambda s: s["ingress"][0].update({"from": [{"namespaceSelector": {"matchLabels": {"team": "x"}}}]}),
            r"labels of the namespace a, which is in no file",
        ),
    ],
)
def test_errors_name_file_line_and_field(change: Any, text: str) -> None:
    with pytest.raises(InputError, match=r"cluster\.yaml:\d+: .*" + text):
        convert(bad(change))


def test_objects_that_contradict_are_refused() -> None:
    with pytest.raises(InputError, match=r"Pod a/web-1: stands already at .*cluster\.yaml:1"):
        convert([WEB, WEB, FROM_WEB])
    with pytest.raises(InputError, match=r"10\.0\.0\.1 is also the address of a/web-1"):
        convert([WEB, pod("twin", ["10.0.0.1"]), FROM_WEB])
    with pytest.raises(InputError, match="no NetworkPolicy"):
        convert([WEB])


def test_keys_that_stand_twice_and_text_that_is_no_yaml(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text("kind: Pod\nkind: Pod\n")
    with pytest.raises(InputError, match=r"cluster\.yaml:1: the key 'kind' stands here twice"):
        from_kubernetes(path)
    path.write_text("a: [1\nb: 2\n")
    with pytest.raises(InputError, match=r"cluster\.yaml:2: no YAML"):
        from_kubernetes(path)
    with pytest.raises(InputError, match=r"none\.yaml: cannot be read: No such file"):
        from_kubernetes(tmp_path / "none.yaml")


def test_ports_of_both_directions_are_of_the_same_protocol() -> None:
    sends = network_policy(
        "out", {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"ports": [{"protocol": "TCP"}]}]}
    )
    takes = network_policy(
        "in", {"podSelector": {}, "ingress": [{"ports": [{"protocol": "UDP", "port": 53}, {"port": 80}]}]}
    )
    decide = evaluator(convert([WEB, DB, sends, takes]).documents[0])
    ends = int(ip_address("10.0.0.1")), int(ip_address("10.0.0.2"))
    found = [decide(Packet(4, *ends, proto, 4000, port)) for proto, port in ((6, 53), (17, 53), (6, 80), (17, 80))]
    assert found == ["deny", "deny", "allow", "deny"]
