"""The examples: what they decide, and that emulated networks obey them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import H1, H2, H3
from maple import Policy, Table, drop, flood, hops
from maple._policy import load
from maple.testing import Bench, Decision, frame
from test_command import Running, maple

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAMES = [
    "learning",
    "secure_routing",
    "shortest_path",
    "acl",
    "mt_route",
    "multicast_group",
    "blocklist",
    "topology",
    "parallel_paths",
    "bandwidth",
    "campus_login",
]
MAPLE = [sys.executable, "-m", "maple"]


def example(name: str) -> Policy:
    return load(str(EXAMPLES / f"{name}.py"))


def decide(bench: Bench, policy: Policy, src: str = H1, dst: str = H3, **fields: Any) -> Decision:
    places = {H1: (1, 1), H2: (1, 2), H3: (2, 1)}
    switch, port = places[src]
    decision = bench.decide(policy, frame(eth_src=src, eth_dst=dst, **fields), switch, port)
    assert decision.error is None, decision.error
    return decision


def test_learning_writes_once_and_then_sends_to_where_hosts_were_seen(bench: Bench) -> None:
    policy = example("learning")
    first = decide(bench, policy)
    assert (first.route, first.wrote) == (flood(), True)
    assert decide(bench, policy).wrote is False
    back = decide(bench, policy, H3, H1)
    assert (back.route, back.wrote) == (hops([(2, 3), (1, 1)]), True)
    assert decide(bench, policy).route == hops([(1, 3), (2, 1)])


def test_secure_routing_sends_ssh_round(bench: Bench) -> None:
    policy = example("secure_routing")
    assert decide(bench, policy, tcp_dst=80).route == hops([(1, 3), (2, 1)])
    secure = decide(bench, policy, tcp_dst=22)
    assert any("secure" in path for path in secure.follows)
    assert decide(bench, policy, dst="00:00:00:00:00:99").route == flood()


def test_shortest_path_reads_nothing_but_the_two_addresses(bench: Bench) -> None:
    decision = decide(bench, example("shortest_path"), tcp_dst=80)
    assert [item.split("=")[0] for item in decision.trace] == ["test eth_dst", "read eth_dst", "read eth_src"]
    flooded = decide(bench, example("shortest_path"), dst="ff:ff:ff:ff:ff:ff", tcp_dst=80)
    assert flooded.trace == [
        "test eth_dst=01:00:00:00:00:00/01:00:00:00:00:00: yes",
        "test eth_dst=01:80:c2:00:00:00/ff:ff:ff:ff:ff:f0: no",
        "test eth_dst=01:00:0c:cc:cc:cc/ff:ff:ff:ff:ff:fe: no",
    ], "one rule for all that floods, and those for what no bridge forwards"


def test_acl_takes_the_first_line_that_fits(bench: Bench) -> None:
    policy = example("acl")
    there = hops([(1, 3), (2, 1)])
    ip = {"ipv4_src": "10.0.0.1", "ipv4_dst": "10.0.0.3"}
    assert decide(bench, policy, arp_op=1).route == there
    assert decide(bench, policy, icmpv4_type=8, **ip).route == there
    assert decide(bench, policy, tcp_dst=23, **ip).route == drop()
    assert decide(bench, policy, tcp_dst=22, **ip).route == there
    assert decide(bench, policy, tcp_dst=8080, **ip).route == drop()
    assert decide(bench, policy, tcp_dst=5001, **ip).route == there
    assert decide(bench, policy, udp_dst=53, ipv4_src="10.0.0.1", ipv4_dst="10.0.0.4").route == drop()
    # A packet learns which lines don't fit, not its port.
    trace = decide(bench, policy, tcp_dst=8080, **ip).trace
    assert not any(item.startswith("read tcp_dst") for item in trace)


def test_acl_names_the_line_that_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "acl.txt"
    file.write_text("permit arp\n\nallow tcp any any\n")
    monkeypatch.setenv("MAPLE_ACL", str(file))
    with pytest.raises(ValueError, match=r"acl\.txt:3: 'allow tcp any any': the action is permit or deny"):
        example("acl")


def test_mt_route_routes_within_tenants_and_reads_subnets_only(bench: Bench) -> None:
    policy = example("mt_route")
    red = decide(bench, policy, ipv4_src="10.0.0.1", ipv4_dst="10.0.1.3", tcp_dst=80)
    assert red.route == hops([(1, 3), (2, 1)])
    assert "read ipv4_src=10.0.0.0/24" in red.trace
    assert any('"red"' in path for path in red.follows)
    assert decide(bench, policy, ipv4_src="10.0.0.1", ipv4_dst="10.0.2.3", tcp_dst=80).route == drop()
    assert decide(bench, policy, ipv6_src="fd00::1", ipv6_dst="fd00::2", tcp_dst=80).route == drop()
    assert decide(bench, policy, dst="ff:ff:ff:ff:ff:ff", arp_spa="10.0.0.1", arp_tpa="10.0.0.9").route == flood()
    assert decide(bench, policy, dst="ff:ff:ff:ff:ff:ff", arp_spa="10.0.0.1", arp_tpa="10.0.2.9").route == drop()


def test_multicast_reaches_each_member_once(bench: Bench) -> None:
    policy = example("multicast_group")
    group = {"dst": "01:00:5e:01:01:01", "ipv4_src": "10.0.0.1", "udp_dst": 5000}
    sent = decide(bench, policy, ipv4_dst="239.1.1.1", **group)
    assert sent.route is not None
    assert set(sent.route.hops) == {(1, 2), (1, 3), (2, 1)}
    assert decide(bench, policy, ipv4_dst="239.9.9.9", **group).route == drop()
    from_member = decide(bench, policy, src=H3, ipv4_dst="239.1.1.2", **group)
    assert from_member.route == hops([(2, 3), (1, 1)])
    assert decide(bench, policy, ipv4_dst="10.0.0.3", udp_dst=1).route == hops([(1, 3), (2, 1)])


def test_the_blocklist_follows_its_file(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "blocklist.txt"
    file.write_text(f"# nobody\n{H2.upper()}\nnonsense\n")
    monkeypatch.setenv("MAPLE_BLOCKLIST", str(file))
    policy = example("blocklist")
    assert Table("blocked").keys() == [H2]
    assert decide(bench, policy, dst=H2).route == drop()
    assert decide(bench, policy).route == hops([(1, 3), (2, 1)])
    file.write_text(f"{H3}\n")
    os.utime(file, (1, 1))
    end = time.monotonic() + 5
    while Table("blocked").keys() != [H3] and time.monotonic() < end:
        time.sleep(0.05)
    assert decide(bench, policy).route == drop()
    assert decide(bench, policy, dst=H2).route == hops([(1, 2)])


def test_the_topology_example_prints_what_comes_and_goes(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    policy = example("topology")
    told = ""
    end = time.monotonic() + 5
    while "link 1:3 - 2:3 is there" not in told and time.monotonic() < end:
        time.sleep(0.05)
        told += capfd.readouterr().out
    assert "switch 1 is there\nswitch 2 is there\n" in told
    assert decide(bench, policy).route == hops([(1, 3), (2, 1)])
    # Its thread would print into what later tests expect.
    policy.function.__globals__["time"] = SimpleNamespace(sleep=lambda _: threading.Event().wait())


def test_parallel_paths_are_the_shortest_and_depend_on_the_links(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for threads in ("1", "3"):
        monkeypatch.setenv("MAPLE_THREADS", threads)
        decision = decide(bench, example("parallel_paths"))
        assert decision.route == hops([(1, 3), (2, 1)])
        assert "Links" in decision.reads
        assert decide(bench, example("parallel_paths"), dst=H2).route == hops([(1, 2)])
        assert decide(bench, example("parallel_paths"), dst="00:00:00:00:00:99").route == flood()


def test_bandwidth_waits_until_it_is_free_and_is_never_oversold(bench: Bench) -> None:
    policy = example("bandwidth")
    demands, granted, used = Table("demands"), Table("granted"), Table("used")
    one, other = ("10.0.0.1", "10.0.0.3"), ("10.0.0.2", "10.0.0.3")
    packet = {"src": H2, "ipv4_src": other[0], "ipv4_dst": other[1], "tcp_dst": 80}

    def wait_for(wanted: dict[Any, Any]) -> None:
        end = time.monotonic() + 5
        while dict(granted.items()) != wanted and time.monotonic() < end:
            time.sleep(0.01)
        assert dict(granted.items()) == wanted

    links = ((1, 3),)
    demands[one] = 60
    wait_for({one: (60, links)})
    demands[other] = 50
    time.sleep(0.1)
    assert dict(granted.items()) == {one: (60, links)}
    waiting = bench.decide(
        policy, frame(eth_src=H2, eth_dst=H3, ipv4_src=other[0], ipv4_dst=other[1], tcp_dst=80), 1, 2
    )
    assert waiting.error is not None and "waits" in waiting.error
    assert (used[(1, 3)], decide(bench, policy, **packet | {"ipv4_src": "10.0.0.9"}).route) == (
        60,
        hops([(1, 3), (2, 1)]),
    )
    del demands[one]
    wait_for({other: (50, links)})
    assert (used[(1, 3)], decide(bench, policy, **packet).route) == (50, hops([(1, 3), (2, 1)]))
    # The host moves to the same switch: it has what it needs without any link.
    bench.host(H3, 1, 2, "10.0.0.3")
    wait_for({other: (50, ())})
    assert used[(1, 3)] == 0


@pytest.mark.parametrize("version", ["1.0", "1.3"])
@pytest.mark.parametrize("name", NAMES)
def test_an_emulated_network_delivers_what_the_example_says(name: str, version: str) -> None:
    command = [*MAPLE, "run", str(EXAMPLES / f"{name}.py"), "--emulate", "ring:4", "--traffic", "1s", "--of", version]
    if name in ("acl", "mt_route", "campus_login"):
        command.append("--allow-drops")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "treated otherwise than f says           0" in done.stdout
    assert "warning" not in done.stdout


def test_handlers_share_the_networks_state_and_keep_their_own(tmp_path: Path) -> None:
    running = Running(tmp_path, str(EXAMPLES / "learning_network_handler.py"))
    try:
        done = subprocess.run(
            [*MAPLE, "emulate", "linear:3", "--controller", running.address, "--traffic", "1s"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        text = maple("state", "get", "hosts", "--control", running.control).stdout
        hosts = dict(json.loads(text))
        assert sorted(number for number, _, _ in hosts.values()) == list(range(1, len(hosts) + 1))
        assert all(hosts[f"00:00:00:00:00:0{switch}"][1:] == [switch, 1] for switch in (1, 2, 3))
    finally:
        assert running.stop() == 0
