"""Policies made of policies."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import maple
import pytest
from conftest import H1, H2
from maple import (
    Net,
    Packet,
    Policy,
    Route,
    Table,
    Var,
    choose,
    drop,
    fallback,
    flood,
    observe,
    pass_,
    policy,
    restrict,
    retry,
    rewrite,
    tiers,
    to,
)
from maple._check import of_policy
from maple.testing import Bench, frame

SSH = frame(eth_src=H1, eth_dst=H2, ipv4_src="10.0.0.1", ipv4_dst="10.0.0.100", tcp_dst=22)
WEB = frame(eth_src=H1, eth_dst=H2, ipv4_src="10.0.0.1", ipv4_dst="10.0.0.100", tcp_dst=80)


def shown(bench: Bench, policy: Policy, packet: bytes = WEB) -> str:
    decision = bench.decide(policy, packet)
    assert decision.error is None, decision.error
    return str(decision.route)


def admin(pkt: Packet, net: Net) -> Route:
    return drop() if pkt.tcp_dst == 22 else pass_()


@policy
def tenant(pkt: Packet, net: Net) -> Route:
    return to(2) if pkt.ipv4_dst == "10.0.0.100" else pass_()


def fails(pkt: Packet, net: Net) -> Route:
    raise ValueError("on purpose")


def test_the_first_tier_that_does_not_pass_decides(bench: Bench) -> None:
    both = tiers(admin, tenant)
    assert shown(bench, both, SSH) == "<route: drop>"
    assert shown(bench, both) == "<route: to 2>"
    assert shown(bench, tiers(admin, default=flood())) == "<route: flood>"
    assert shown(bench, tiers(admin, tiers(pass_()), tenant)) == "<route: to 2>"
    assert bench.decide(tiers(admin), WEB).copies == []


def test_then_is_two_tiers(bench: Bench) -> None:
    assert shown(bench, policy(admin).then(tenant), SSH) == "<route: drop>"
    assert shown(bench, tenant.then(drop())) == "<route: to 2>"


def test_a_rewrite_is_seen_by_the_next_policy_and_costs_no_observation(bench: Bench) -> None:
    def server(pkt: Packet, net: Net) -> Route:
        return to(2) if pkt.ipv4_dst == "10.0.0.5" and pkt.tcp_dst == 80 else drop()

    decision = bench.decide(rewrite({"ipv4_dst": "10.0.0.100"}, ipv4_dst="10.0.0.5").then(server), WEB)
    assert str(decision.route) == "<route: to 2 set ipv4_dst=10.0.0.5>"
    assert decision.trace == ["test eth_type=0x800, ipv4_dst=10.0.0.100: yes", "test ip_proto=6, tcp_dst=80: yes"]
    (place, sent) = decision.copies[0]
    assert tuple(place) == (1, 2) and bytes([10, 0, 0, 5]) in sent


def test_a_rewrite_of_what_is_not_there_names_the_line(bench: Bench) -> None:
    decision = bench.decide(rewrite(udp_dst=53).then(flood()), WEB)
    assert decision.error is not None and "can't set udp_dst: the packet has no such field" in decision.error
    with pytest.raises(TypeError, match="needs a field"):
        rewrite()


def test_copies_go_beside(bench: Bench) -> None:
    def places(policy: Policy) -> list[tuple[int, int]]:
        decision = bench.decide(policy, WEB)
        assert decision.error is None, decision.error
        assert all(sent == WEB for _, sent in decision.copies)
        return [(place.switch, place.port) for place, _ in decision.copies]

    assert places(observe(to(2), beside=lambda pkt, net: net.shortest_path((1, 1), (2, 1)))) == [(1, 2), (2, 1)]
    assert places(observe(drop(), beside=to(2))) == [(1, 2)]
    assert places(observe(to(2), beside=pass_())) == [(1, 2)]
    assert places(observe(pass_(), beside=pass_().copy_to((2, 1))).then(to(2))) == [(1, 2), (2, 1)]
    flooding = bench.decide(observe(to(2), beside=flood()), WEB)
    assert flooding.error is not None and "it floods, or gives hops" in flooding.error


def test_a_restriction_is_for_packets_that_match(bench: Bench) -> None:
    where = [{"tcp_dst": 22}, {"ipv4_src": "11.0.0.0/8"}]
    only = restrict(drop(), where).then(to(2))
    assert shown(bench, only, SSH) == "<route: drop>"
    assert shown(bench, only) == "<route: to 2>"
    decision = bench.decide(only, SSH)
    assert decision.lines == [where_line()]
    with pytest.raises(TypeError, match="a condition is a dictionary"):
        restrict(drop(), ["tcp_dst"])  # type: ignore[arg-type]


def where_line() -> int:
    source = Path(__file__).read_text().splitlines()
    return next(n for n, line in enumerate(source, 1) if "only = restrict(" in line)


def test_a_variable_or_a_key_chooses(bench: Bench) -> None:
    mode = Var("compose_mode", "open")
    chosen = choose(mode, {"open": to(2), "closed": drop()}, otherwise=flood())
    assert shown(bench, chosen) == "<route: to 2>"
    for value, route in [("closed", "drop"), ("odd", "flood")]:
        mode.value = value
        assert shown(bench, chosen) == f"<route: {route}>"
    hosts: Table[str, int] = Table("compose_hosts")
    by_key = choose((hosts, "a"), {None: flood(), 1: drop()})
    assert shown(bench, by_key) == "<route: flood>"
    hosts["a"] = 1
    assert shown(bench, by_key) == "<route: drop>"
    hosts["a"] = 2
    assert shown(bench, by_key) == "<route: pass>"
    with pytest.raises(TypeError, match="takes a Var or a pair"):
        choose("mode", {})  # type: ignore[arg-type]


def test_a_fallback_decides_where_a_policy_fails(bench: Bench) -> None:
    seen: Table[str, int] = Table("compose_seen")

    def writes_and_fails(pkt: Packet, net: Net) -> Route:
        seen["x"] = 1
        raise ValueError("on purpose")

    decision = bench.decide(fallback(writes_and_fails, on_error=to(2)), WEB)
    assert str(decision.route) == "<route: to 2>" and not decision.wrote
    assert shown(bench, fallback(lambda pkt, net: to(77), on_error=flood())) == "<route: flood>"
    assert shown(bench, fallback(lambda pkt, net: net.path((1, 1), (2, 1), cost="none"), on_error=drop())) == (
        "<route: drop>"
    )
    assert shown(bench, fallback(tenant, on_error=drop())) == "<route: to 2>"
    waits = bench.decide(fallback(lambda pkt, net: retry(), on_error=drop()), WEB)
    assert waits.route is None


def test_errors_and_lines_name_their_tier(bench: Bench) -> None:
    decision = bench.decide(tiers(admin, fails), WEB)
    assert decision.error is not None and decision.error.startswith("fails: Traceback"), decision.error
    assert "test_compose.py" in decision.error
    named = bench.decide(tiers(outer=tiers(inner=fails)), WEB)
    assert named.error is not None and named.error.startswith("outer/inner: ")
    wrong = bench.decide(tiers(admin, bad=lambda pkt, net: 1), WEB)  # type: ignore[arg-type, return-value]
    assert wrong.error is not None and wrong.error.startswith("bad: ") and "pass_()" in wrong.error
    nowhere = bench.decide(tiers(campus=lambda pkt, net: to(77)), WEB)
    assert nowhere.error is not None and nowhere.error.startswith("campus: ")


def test_what_is_no_policy_is_refused() -> None:
    with pytest.raises(TypeError, match=r"tiers\(\) takes policies, functions of \(pkt, net\) and routes, not 7"):
        tiers(7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes two arguments"):
        tiers(lambda pkt: drop())  # type: ignore[arg-type, misc]
    with pytest.raises(TypeError, match="at least one"):
        tiers()
    with pytest.raises(TypeError, match="is composed"):
        tiers(admin)(None, None)  # type: ignore[arg-type]


def test_settings_of_parts_hold_for_the_whole() -> None:
    @policy(costs={"compose": {(1, 2): 3}}, snoop="igmp")
    def a(pkt: Packet, net: Net) -> Route:
        return pass_()

    @policy(track_hosts=False)
    def b(pkt: Packet, net: Net) -> Route:
        return drop()

    both = tiers(a, restrict(b, {"tcp_dst": 22}))
    assert both.costs == {"compose": {(1, 2): 3}} and both.snoop == ["igmp"] and not both.track_hosts


def test_the_checker_looks_into_all_parts(tmp_path: Path) -> None:
    file = tmp_path / "composed.py"
    file.write_text(
        "import time\nfrom maple import drop, pass_, policy, tiers\n\n"
        "def by_day(pkt, net):\n    return drop() if time.time() % 2 else pass_()\n\n"
        "@policy\ndef baseline(pkt, net):\n    return drop()\n\n"
        "campus = tiers(by_day, baseline)\n"
    )
    from maple._policy import load

    loaded = load(str(file))
    assert repr(loaded) == "<policy tiers>"
    assert isinstance(loaded, Policy)
    assert [(one.line, "time.time()" in one.text) for one in of_policy(loaded)] == [(5, True)]


def test_a_file_with_tiers_runs_and_its_rules_name_them(tmp_path: Path) -> None:
    file = tmp_path / "campus.py"
    file.write_text(
        "from maple import drop, flood, pass_, policy, tiers\n\n"
        "def admin(pkt, net):\n    return drop() if pkt.tcp_dst == 23 else pass_()\n\n"
        "def tenant(pkt, net):\n"
        "    src, dst = net.locate(pkt.eth_src), net.locate(pkt.eth_dst)\n"
        "    if pkt.eth_dst.is_multicast or src is None or dst is None:\n        return flood()\n"
        "    return net.shortest_path(src, dst)\n\n"
        "campus = tiers(admin, tenant)\n"
    )
    command = [sys.executable, "-m", "maple", "run", str(file), "--emulate", "ring:4", "--traffic", "2s", "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "admin: " in done.stdout and "tenant: " in done.stdout, done.stdout


def test_the_page_about_composing_does_what_it_says(bench: Bench) -> None:
    page = Path(__file__).parents[2] / "docs/composing.md"
    names = {key: getattr(maple, key) for key in maple.__all__}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        exec(compile(block, str(page), "exec"), names)
    telnet = frame(eth_src=H1, eth_dst=H2, ipv4_src="10.0.0.1", ipv4_dst="10.0.0.2", tcp_dst=23)
    assert shown(bench, names["campus"], telnet) == "<route: drop>"
    assert shown(bench, names["campus"]) == "<route: by 1:2>"
    assert shown(bench, names["service"]) == "<route: flood set eth_dst=00:00:00:00:00:05 set ipv4_dst=10.0.0.5>"
