"""NetworkPolicy objects: what single ones become, and what is refused, noted or not covered."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import yaml
from acl_form import Packet, evaluator
from maple.importers import InputError, NotCovered, from_kubernetes
from test_importers_kubernetes import CLIENTS, Object, convert, network_policy, pod

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
    }
    assert (replies["name"], replies["source_ports"]) == ("replies-clients", "32768-60999")
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
    policies, pods = tmp_path / "policies.yaml", tmp_path / "pods.yaml"
    imported = from_kubernetes(policies, pods=[pods], client_ports=CLIENTS)
    assert imported.documents == from_kubernetes([policies, pods], client_ports=CLIENTS).documents
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
    parts = ("node's network", "ended", "no status.podIP", "a Service says")
    for part, text in zip(parts, notes, strict=True):
        assert part in text


def test_other_kinds_of_policies_are_not_covered() -> None:
    ours, other = [WEB, DB, FROM_WEB], {**FROM_WEB, "apiVersion": "projectcalico.org/v3"}
    with pytest.raises(NotCovered, match=r"projectcalico\.org/v3 NetworkPolicy is not"):
        convert([WEB, DB, FROM_WEB, other])
    # It may deny, so the rest would be looser: `lenient` does not leave it out.
    with pytest.raises(NotCovered, match="the rest without it would be looser: take it out"):
        convert([*ours, other], lenient=True)
    assert convert(ours, lenient=True).documents


def only(part: str, **spec: Any) -> list[str]:
    """The names of the rules of one policy for pods 10.0.0.1 and fd00::2, and a pod without an address."""
    pods = [pod("four", ["10.0.0.1"], labels={"app": "four"}), pod("six", ["fd00::2"], labels={"app": "six"})]
    imported = convert([*pods, pod("new", [], labels={"app": "new"}), network_policy("p", spec)])
    names = [rule["name"] for rule in imported.documents[0]["rules"]]
    return [name for name in names if part in name]


def test_a_rule_that_no_packet_fits_is_left_out() -> None:
    def pods(app: str) -> Object:
        return {"matchLabels": {"app": app}}

    anywhere: Object = {"policyTypes": ["Egress"], "egress": [{}]}
    assert only("p.", podSelector=pods("new"), **anywhere) == [], "no pod with an address sends"
    assert only("p.", podSelector=pods("four"), **anywhere) == ["a_p.egress", "a_p.egress.replies"]
    to_six: Object = {"policyTypes": ["Egress"], "egress": [{"to": [{"podSelector": pods("six")}]}]}
    assert only("p.", podSelector=pods("four"), **to_six) == [], "the sides have no version of IP in common"
    both: Object = {**to_six, "policyTypes": ["Egress", "Ingress"], "ingress": [{}]}
    assert only("p.", podSelector={}, **both) == [
        "a_p.egress+a_p.ingress",
        "a_p.egress+a_p.ingress.replies",
        "a_p.ingress",
        "a_p.ingress.replies",
    ]
    halves: Object = {"cidr": "10.9.0.0/24", "except": ["10.9.0.0/25", "10.9.0.128/25"]}
    closed: Object = {"podSelector": pods("four"), "policyTypes": ["Ingress", "Egress"]}
    for block in (halves, {"cidr": "10.0.0.1/32"}):
        assert only("p.", ingress=[{"from": [{"ipBlock": block}]}], **closed) == [], "no address is left"


def test_groups_of_rules_that_are_left_out_are_left_out() -> None:
    spec: Object = {"podSelector": {"matchLabels": {"app": "db"}}, "policyTypes": ["Egress"]}
    to_six: Object = {"egress": [{"to": [{"ipBlock": {"cidr": "fd01::/64", "except": ["fd01::/65"]}}]}]}
    (document,) = convert(
        [pod("db-1", ["10.0.0.2"], labels={"app": "db"}), network_policy("p", spec | to_six)]
    ).documents
    assert set(document["groups"]) == {"a_db-1", "not-isolated-servers"}


def test_a_policy_that_selects_no_pod_is_noted() -> None:
    other = network_policy("other", {"podSelector": {"matchLabels": {"app": "gone"}}})
    findings = convert([WEB, DB, FROM_WEB, other]).report.findings
    (found,) = [finding for finding in findings if finding.place.field == "NetworkPolicy a/other"]
    assert (found.kind, found.text) == ("note", "selects no pod that has an address in these files; no rules")


ISOLATED: Object = {"podSelector": {"matchLabels": {"app": "db"}}, "policyTypes": ["Ingress", "Egress"]}
BLOCK: list[Object] = [{"ipBlock": {"cidr": "203.0.113.0/24"}}]
ALL_PORTS: list[Object] = [{"protocol": "TCP"}, {"port": 1, "endPort": 65535}, {"port": 1024, "endPort": 65535}]


@pytest.mark.parametrize("clients", [None, CLIENTS])
@pytest.mark.parametrize("ports", [[port] for port in ALL_PORTS])
@pytest.mark.parametrize("peers", [BLOCK, None])
@pytest.mark.parametrize("way", ["egress", "ingress"])
def test_what_may_leave_lets_nobody_in(
    way: str, peers: list[Object] | None, ports: list[Object], clients: tuple[int, int] | None
) -> None:
    rule: Object = {"ports": ports, **({"to" if way == "egress" else "from": peers} if peers else {})}
    spec = network_policy("p", {**ISOLATED, way: [rule]})
    imported = convert([DB, spec], client_ports=clients, lenient=True)
    decide = evaluator(imported.documents[0])
    inside, outside = int(ip_address("10.0.0.2")), int(ip_address("203.0.113.9"))
    from_, to = (inside, outside) if way == "egress" else (outside, inside)
    assert decide(Packet(4, from_, to, 6, 40000, 2022)) == "allow", "what the policy allows"
    assert decide(Packet(4, to, from_, 6, 40000, 22)) == "deny", "a connection the other way"
    assert decide(Packet(4, to, from_, 6, 2022, 22)) == "deny", "from a port of the service, too"
    assert decide(Packet(4, to, from_, 6, 2022, 40000)) == ("allow" if clients else "deny"), "a reply"
    kinds = {finding.kind for finding in imported.report.findings}
    assert kinds == {"converted", "looser" if clients else "not covered"}
    if clients is None:
        with pytest.raises(NotCovered, match=r"cluster\.yaml:\d+: .*--client-ports 32768-60999"):
            convert([DB, spec], client_ports=None)


def test_a_name_that_no_port_has_is_noted() -> None:
    def noted(way: str, peers: Object) -> list[str]:
        rule = {**peers, "ports": [{"port": "http"}, {"port": "web"}]}
        selects = {"matchLabels": {"app": "web" if way == "ingress" else "db"}}
        spec = {"podSelector": selects, "policyTypes": [way.title()], way: [rule]}
        findings = convert([WEB, DB, network_policy("p", spec)]).report.findings
        return [finding.text for finding in findings if finding.kind == "note"]

    assert noted("ingress", {}) == ["no pod that the policy selects has a port 'web' (TCP): the name allows nothing"]
    to_web: Object = {"to": [{"podSelector": {"matchLabels": {"app": "web"}}}]}
    assert noted("egress", to_web) == ["no pod that the rule leads to has a port 'web' (TCP): the name allows nothing"]


def test_templates_and_old_versions_are_named(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    for text in ("metadata:\n  name: {{ .Values.name }}\n", 'metadata: {name: "{{ .Values.name }}"}\n'):
        path.write_text("apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n" + text)
        with pytest.raises(InputError, match=r"cluster\.yaml:\d+: .*a template of Helm: give what `helm"):
            from_kubernetes(path)
    old = {**FROM_WEB, "apiVersion": "extensions/v1beta1"}
    with pytest.raises(NotCovered, match=r"v1beta1 NetworkPolicy .* since Kubernetes 1\.16: change apiV"):
        convert([WEB, DB, old])
    with pytest.raises(InputError, match=r"no NetworkPolicy of networking\.k8s\.io/v1; there is v1 Pod"):
        convert([WEB, DB])


def test_files_without_pods_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "policies.yaml"
    path.write_text(yaml.safe_dump(FROM_WEB))
    with pytest.raises(InputError, match=r"policies\.yaml: no pods: .*kubectl get pods,namespaces -A -o yaml"):
        from_kubernetes(path)
    pods = iter([write(tmp_path / "pods.yaml", WEB)])
    assert from_kubernetes(path, pods=pods).documents


def write(path: Path, *objects: Object) -> Path:
    path.write_text(yaml.safe_dump_all(objects))
    return path


def test_lists_in_lists_have_an_end(tmp_path: Path) -> None:
    text = "a0: &a0 {kind: List, items: []}\n"
    text += "".join(f"a{at}: &a{at} {{kind: List, items: [*a{at - 1}]}}\n" for at in range(1, 2000))
    (tmp_path / "x.yaml").write_text(text + "kind: List\nitems: [*a1999]\n")
    with pytest.raises(InputError, match=r"x\.yaml:\d+: items: lists in lists, nested too deeply"):
        from_kubernetes(tmp_path / "x.yaml")


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
        (
            lambda s: s["ingress"][0].update(ports=[{"port": "80"}]),
            r"port: '80' is not a port name .*; the number 80 stands without quotes",
        ),
        (lambda s: s["ingress"][0].update(ports=[{"port": "Http"}]), r"port: 'Http' is not a port name"),
        (lambda s: s["ingress"][0].update(ports=80), r"ports: 80 stands where a list is expected"),
        (lambda s: s["ingress"][0].update({"from": [{}]}), r"from: either an ipBlock or selectors"),
        (
            lambda s: s["ingress"][0].update({"from": [{"ipBlock": {"cidr": "10.0.0.300/8"}}]}),
            r"cidr: '10\.0\.0\.300/8'",
        ),
        (
            lambda s: s["ingress"][0].update({"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/9"]}}]}),
            r"except: 11\.0\.0\.0/9 is not part of 10\.0\.0\.0/8",
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


def test_misspelt_keys_of_an_object_are_refused() -> None:
    """Before, `sepc` was a policy that isolates every pod of its namespace."""
    without = {key: value for key, value in FROM_WEB.items() if key != "spec"}
    with pytest.raises(InputError, match=r"cluster\.yaml:\d+: .*\.sepc: unknown key; did you mean spec\?"):
        convert([WEB, DB, {**without, "sepc": FROM_WEB["spec"]}])
    with pytest.raises(InputError, match=r"metadata\.nmespace: unknown key; did you mean namespace\?"):
        convert([WEB, DB, {**FROM_WEB, "metadata": {"name": "db", "nmespace": "a"}}])


def test_names_and_labels_are_those_that_kubernetes_takes() -> None:
    def error(**change: Any) -> str:
        with pytest.raises(InputError) as caught:
            convert([WEB, DB, {**FROM_WEB, **change}])
        return str(caught.value)

    assert "'In_Out' is not an object name" in error(metadata={"name": "In_Out", "namespace": "a"})
    assert "'a.b' is not a namespace name" in error(metadata={"name": "in", "namespace": "a.b"})
    assert "'a/b/c' is not a label key" in error(spec={"podSelector": {"matchLabels": {"a/b/c": "d"}}})
    assert "'a b' is not a label value" in error(spec={"podSelector": {"matchLabels": {"app": "a b"}}})
    assert "at most two policyTypes" in error(spec={"podSelector": {}, "policyTypes": ["Egress"] * 3})
    block = {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.1"}}]}]}
    assert "'10.0.0.1' is not a network with the length of its prefix" in error(spec=block)


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
    with pytest.raises(InputError, match=r"cluster\.yaml:1: the key 'kind' stands here twice") as caught:
        from_kubernetes(path)
    assert caught.value.place.line == 1
    path.write_text("a: [1\nb: 2\n")
    with pytest.raises(InputError, match=r"cluster\.yaml:2: not YAML"):
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
