"""The words of maple.testing: each assertion holds when it should, and fails with readable text when it should not."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from maple import Mac, Net, Packet, Route, Table, drop, flood, policy
from maple._maple import decisions, fields_of
from maple.testing import Network
from maple.testing._packets import Addresses, check_fields, frame_of

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
BOX = {
    "switches": [{"name": "left"}, {"name": "right"}],
    "hosts": [
        {"name": "guest", "switch": "left", "ipv4": "10.0.9.1"},
        {"name": "db", "switch": "right", "ipv4": "10.0.1.1", "mac": "00:00:00:00:0d:0b"},
        {"name": "web", "switch": "right"},
    ],
    "links": [{"a": "left", "b": "right"}],
}


def shortest(pkt: Packet, net: Net) -> Route:
    if pkt.tcp_dst == 23:
        return drop()
    dst = net.locate(pkt.eth_dst)
    return net.shortest_path(net.locate(pkt.eth_src), dst) if dst else flood()


@pytest.fixture
def net() -> Iterator[Network]:
    with Network("ring:4", shortest) as net:
        yield net


@pytest.fixture
def box() -> Iterator[Network]:
    with Network(BOX, shortest) as net:
        yield net


def test_what_is_delivered_is_told_by_the_network(net: Network) -> None:
    journey = net.assert_delivered("h1", "h2", tcp_dst=80, via=[1, 2], only=True)
    assert journey.hosts == ["h2"]
    net.assert_delivered(net.h1, Mac("00:00:00:00:00:02"), via=["s1", net.s2])
    net.assert_delivered("10.0.0.1", "fd00::2", ipv6_dst="fd00::2")
    net.assert_delivered("h1", ["h2", "h3", "h4"], eth_dst="ff:ff:ff:ff:ff:ff", only=True)
    net.assert_dropped("h1", "h2", tcp_dst=23)
    net.assert_not_delivered("h1", "h3", eth_dst="00:00:00:00:00:02")


def test_a_packet_that_does_not_come_is_explained(net: Network) -> None:
    with pytest.raises(AssertionError) as failed:
        net.assert_delivered("h1", "h2", tcp_dst=23)
    told = str(failed.value).splitlines()
    line = shortest.__code__.co_firstlineno
    assert told[0] == "h2 did not get it"
    assert told[1].startswith("    became  no copy came anywhere")
    assert told[2].startswith("    h1 (s1:1) → h2 (s2:1)  tcp 10.0.0.1:40000 > 10.0.0.2:23")
    assert told[2].endswith(f"dropped by test_testing.py:{line + 2}")
    assert f"test_testing.py:{line + 1}  if pkt.tcp_dst == 23:" in told[3]
    assert any(re.search("would pass if: tcp_dst=2[24], for example", text) for text in told)


def test_a_frame_that_is_cut_off_is_explained_too(net: Network) -> None:
    header = bytes.fromhex("000000000002 000000000001 0800")
    with pytest.raises(AssertionError, match="h2 got it, and nobody should") as failed:
        net.assert_dropped("h1", "h2", frame=header + b"\x45")
    assert "became  h1 s1 s2 h2" in str(failed.value) and "test_testing.py:" in str(failed.value)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"via": [1, 4, 3, 2]}, "it came to h2 via s1 s2, and not via s1 s4 s3 s2"),
        ({"count": 2}, "h2 got it once, and should get it 2 times"),
        ({"arrives": {"tcp_dst": 81}}, "at h2 tcp_dst is 80, and should be 81"),
        ({"arrives": {"vlan_vid": 5}}, "at h2 vlan_vid is absent, and should be 5"),
        ({"arrives": {"tcp_dst": None}}, "at h2 tcp_dst is 80, and should be absent"),
    ],
)
def test_what_arrives_otherwise_is_told(net: Network, options: dict[str, object], told: str) -> None:
    with pytest.raises(AssertionError, match=told):
        net.assert_delivered("h1", "h2", tcp_dst=80, **options)  # type: ignore[arg-type]


def test_others_that_get_a_copy_are_told(net: Network) -> None:
    with pytest.raises(AssertionError, match="h3, h4 got a copy too"):
        net.assert_delivered("h1", "h2", eth_dst="ff:ff:ff:ff:ff:ff", only=True)
    with pytest.raises(AssertionError, match="h2 got it, and nobody should"):
        net.assert_dropped("h1", "h2")
    with pytest.raises(AssertionError, match="h2 got it, and should not"):
        net.assert_not_delivered("h1", ["h2", "h3"])


def test_the_line_that_drops_is_compared(net: Network) -> None:
    line = shortest.__code__.co_firstlineno + 2
    net.assert_dropped("h1", "h2", tcp_dst=23, line=f"test_testing.py:{line}")
    net.assert_dropped("h1", "h2", tcp_dst=23, line=line)
    net.assert_dropped("h1", "h2", tcp_dst=23, line="return drop()")
    with pytest.raises(
        AssertionError, match=rf"dropped by .*test_testing\.py:{line} \(return drop\(\)\), and not by 9"
    ):
        net.assert_dropped("h1", "h2", tcp_dst=23, line=9)
    with pytest.raises(AssertionError, match=r"and not by other\.py:"):
        net.assert_dropped("h1", "h2", tcp_dst=23, line=f"other.py:{line}")


def test_a_policy_that_fails_drops_nothing_on_purpose() -> None:
    def fails(pkt: Packet, net: Net) -> Route:
        if pkt.eth_dst.is_multicast:
            return flood()
        raise KeyError("no such tenant")

    with Network("linear:2", fails) as net:
        with pytest.raises(AssertionError, match="dropped because the policy fails") as failed:
            net.assert_dropped("h1", "h2")
        assert "KeyError: 'no such tenant'" in str(failed.value)
        assert "no such tenant" in net.failures[0]


def test_hosts_have_the_names_of_the_topology(box: Network) -> None:
    box.assert_delivered("guest", "db", via=["left", "right"], only=True)
    box.assert_delivered("10.0.9.1", "00:00:00:00:0d:0b", udp_dst=5)
    assert box.send("guest", "db").frame != box.send("guest", "db").frame


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda net: net.assert_delivered("h9", "h1"), "there is no host h9; the hosts are h1"),
        (lambda net: net.assert_delivered("h11", "h1"), r"there is no host h11; did you mean h1\?"),
        (lambda net: net.assert_delivered("server", "h1"), "there is no host server; the hosts are h1, h2, h3, h4"),
        (lambda net: net.assert_delivered("h1", "10.9.9.9"), "there is no host 10.9.9.9"),
        (lambda net: net.assert_delivered("h1", "h2", tcp_dest=1), "unknown field 'tcp_dest'; did you mean tcp_dst"),
        (lambda net: net.assert_delivered("h1", "h2", nw_src="10.0.0.1"), "did you mean ipv4_src"),
        (lambda net: net.assert_delivered("h1", "h2", in_port=1), "unknown field 'in_port'"),
        (
            lambda net: net.assert_delivered("h1", "h2", arrives={"color": 1}),
            r"arrives=…\) got the unknown field 'color'",
        ),
        (lambda net: net.assert_delivered("h1", "h2", tcp_dst=70000), "tcp_dst is 0 to 65535"),
        (lambda net: net.assert_delivered("h1", "h2", via=[9]), "there is no switch 9"),
        (lambda net: net.assert_delivered("h1", "h2", via=["s11"]), r"there is no switch s11; did you mean s1\?"),
        (lambda net: net.link_down(1, 3), "s1 and s3 are not linked"),
        (lambda net: net.assert_isolated([], "h1"), "at least one host is needed"),
        (lambda net: net.open("h1", "h2"), "open.. needs one port"),
        (lambda net: net.send("h1", "h2", frame=b"\0" * 60, tcp_dst=1), "a frame is sent as it is"),
        (lambda net: net.advance(-1), "is not a number of seconds"),
    ],
)
def test_what_makes_no_sense_is_an_error_with_a_suggestion(net: Network, call, error: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises((TypeError, ValueError), match=error):
        call(net)


def test_addresses_that_nobody_has_can_be_sent_to(net: Network) -> None:
    assert sorted(net.send("h1", "00:00:00:00:00:99").hosts) == ["h2", "h3", "h4"]
    net.assert_delivered("h1", ["h2", "h3", "h4"], eth_dst="00:00:00:00:00:99")


def test_packets_have_the_usual_fields() -> None:
    one, other = (
        Addresses("00:00:00:00:00:01", "10.0.0.1", "fd00::1"),
        Addresses("00:00:00:00:00:02", "10.0.0.2", "fd00::2"),
    )

    def fields(**given: object) -> dict[str, object]:
        return dict(fields_of(frame_of(one, other, given, None)))

    tcp = fields(tcp_dst=22)
    assert (tcp["tcp_src"], tcp["tcp_dst"], str(tcp["ipv4_src"])) == (40000, 22, "10.0.0.1")
    assert (fields()["icmpv4_type"], fields(udp_src=5)["udp_dst"]) == (8, 53)
    assert str(fields(ipv6_dst="fd00::9")["ipv6_src"]) == "fd00::1"
    assert fields(ipv6_src="fd00::9")["icmpv6_type"] == 128
    assert str(fields(ipv4_dst="239.1.1.1")["eth_dst"]) == "01:00:5e:01:01:01"
    assert str(fields(ipv6_dst="ff02::fb")["eth_dst"]) == "33:33:00:00:00:fb"
    request, answer = fields(arp_op=1), fields(arp_op=2)
    assert (str(request["eth_dst"]), str(answer["eth_dst"])) == ("ff:ff:ff:ff:ff:ff", "00:00:00:00:00:02")
    assert str(request["arp_tpa"]) == "10.0.0.2"
    assert "ipv4_src" not in fields(eth_type=0x88B5)
    assert fields(ip_proto=47)["ip_proto"] == 47
    assert fields(vlan_vid=5, tcp_dst=22)["vlan_vid"] == 5
    with pytest.raises(TypeError, match="did you mean vlan_vid"):
        check_fields(["vlan"], "send()")


def test_faults_happen_and_the_network_follows(net: Network) -> None:
    net.link_down(1, 2)
    net.assert_delivered("h1", "h2", via=[1, 4, 3, 2])
    net.link_up("s1", "s2")
    net.assert_delivered("h1", "h2", via=[1, 2])
    net.switch_down(2)
    net.assert_not_delivered("h1", "h2")
    net.assert_delivered("h1", "h3", via=[1, 4, 3])
    net.switch_up(2)
    net.assert_delivered("h1", "h2", via=[1, 2])
    net.port_down(2, 1)
    net.assert_not_delivered("h1", "h2")
    net.port_up(2, 1)
    net.assert_delivered("h1", "h2", via=[1, 2])
    net.move("h2", "s4")
    net.assert_delivered("h1", "h2", via=[1, 4])
    before = net.now
    net.advance(5)
    assert net.now == pytest.approx(before + 5)


def test_hosts_ping_open_connections_and_receive(net: Network) -> None:
    assert net.ping("h1", "h2")
    assert net.open("h1", "h2", tcp_dst=80)
    assert net.open("h1", "h2", udp_dst=53)
    refused = net.open("h1", "h2", tcp_dst=23)
    assert not refused and refused.why == "h2 does not answer"
    assert "h1 tcp h2:23" in repr(refused)
    net.received("h3")
    net.assert_delivered("h1", "h3", udp_dst=77, vlan_vid=5)
    (got,) = [frame for frame in net.received("h3") if frame["udp_dst"] == 77]
    assert (got["vlan_vid"], got["tcp_dst"], got.via[0], got.via[-1]) == (5, None, "s1", "s3")
    assert net.received("h3") == []


@pytest.mark.parametrize("known_hosts", [True, False])
def test_what_the_controller_asks_and_is_told_is_none_of_the_policy_s(known_hosts: bool) -> None:
    """Its probes of links and hosts, its queries for groups, and their answers: an hour of them."""

    def f(pkt: Packet, net: Net) -> Route:
        if pkt.arp_op == 2 or pkt.ip_proto == 2 or pkt.eth_type == 0x88CC:
            raise ValueError("no host sent this to anybody")
        if pkt.udp_dst == 9:
            net.send(lldp, (2, 1))
        return flood()

    # Of another device: the policy's own.
    lldp = bytes.fromhex("0180c200000e00000000000988cc02070400000000000904070300000000000906020078") + bytes(26)
    asked = policy(snoop=("igmp", "mld"), querier=True)(f)
    with Network("linear:2", asked, known_hosts=known_hosts) as net:
        net.assert_delivered("h1", "h2", tcp_dst=80)
        assert [frame["tcp_dst"] for frame in net.received("h2")] == [80]
        assert [frame["tcp_src"] for frame in net.received("h1")] == [80]
        runs = decisions(net._laboratory)[2]
        net.advance(3600)
        assert decisions(net._laboratory)[2] == runs, "nothing that coverage counts"
        assert net.received("h1") == net.received("h2") == [] and not net.failures
        net.assert_delivered("h1", "h2", udp_dst=9)
        assert sorted(frame.frame == lldp for frame in net.received("h2")) == [False, True]


def test_state_is_set_and_watched(tmp_path: Path) -> None:
    file = tmp_path / "f.py"
    file.write_text(
        "from maple import *\n"
        "limit = Var('limit', 5)\n"
        "blocked = Table('blocked', key=Mac, value=bool)\n"
        "@policy\n"
        "def f(pkt, net):\n"
        "    if pkt.eth_src in blocked or limit.value == 0:\n"
        "        return drop()\n"
        "    return flood()\n"
    )
    with Network("linear:2", "f.py", folder=tmp_path) as net, Network("linear:2", file) as other:
        watch = net.watch("blocked")
        net.state["blocked"]["00:00:00:00:00:01"] = True
        assert watch.changes() == {Mac("00:00:00:00:00:01"): (None, True)} and watch.changes() == {}
        net.assert_dropped("h1", "h2")
        net.assert_delivered("h2", "h1")
        other.assert_delivered("h1", "h2"), "a table is its network's own"
        assert "00:00:00:00:00:01" in net.state["blocked"] and len(other.state["blocked"]) == 0
        del net.state["blocked"]["00:00:00:00:00:01"]
        net.assert_delivered("h1", "h2")
        net.state.set("limit", 0)
        assert net.state.get("limit") == 0
        net.assert_dropped("h2", "h1")
        Table("blocked")["00:00:00:00:00:02"] = True
        other.assert_dropped("h2", "h1"), "outside of networks, names mean the newest one's tables"
    with Network("linear:2", "f.py", folder=tmp_path) as again:
        assert len(again.state["blocked"]) == 0


def test_policies_are_loaded_afresh_with_their_neighbours_and_end_their_threads(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("from maple import Table\nseen = Table('seen', value=int)\nloads = []\n")
    (tmp_path / "f.py").write_text(
        "import threading, time\n"
        "from maple import *\n"
        "from neighbour import loads, seen\n"
        "loads.append(1)\n"
        "@policy\n"
        "def f(pkt, net):\n"
        "    assert len(loads) == 1\n"
        "    return flood()\n"
        "def count():\n"
        "    while True:\n"
        "        seen['count'] = seen.get('count', 0) + 1\n"
        "        time.sleep(0.005)\n"
        "threading.Thread(target=count, daemon=True, name='counts').start()\n"
    )

    def counting() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "counts"]

    for _ in range(2):
        with Network("linear:2", "f.py", folder=tmp_path) as net:
            net.assert_delivered("h1", "h2")
            end = time.monotonic() + 10
            while net.state["seen"].get("count", 0) < 3 and time.monotonic() < end:
                time.sleep(0.01)
            assert net.state["seen"]["count"] >= 3 and len(counting()) == 1
        end = time.monotonic() + 10
        while counting() and time.monotonic() < end:
            time.sleep(0.01)
        assert counting() == []


def test_a_policy_that_is_not_there_or_is_none_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no policy missing\.py in "):
        Network("ring:4", "missing.py", folder=tmp_path)
    with pytest.raises(ValueError, match="has a handler, which the fixture handler tests"):
        Network("ring:4", EXAMPLES / "learning_switch_handler.py")
    with pytest.raises(ValueError, match="no shape of that name"):
        Network("star:4", shortest)
    with pytest.raises(ValueError, match=r"hosts\[0\].switch"):
        Network({"switches": [{"name": "s1"}], "hosts": [{"name": "h1", "switch": "s7"}]}, shortest)


def test_rules_are_text_that_stays_the_same(net: Network) -> None:
    net.assert_delivered("h1", "h2", tcp_dst=80)
    rules = net.rules(1, table=5)
    assert rules and all("cookie" not in rule and "packets" not in rule for rule in rules)
    net.assert_rules(1, "\n".join(f"   {rule}  " for rule in rules), table=5)
    with Network("ring:4", shortest) as other:
        other.assert_delivered("h1", "h2", tcp_dst=80)
        other.assert_rules(1, "\n".join(rules), table=5)
    with pytest.raises(AssertionError, match=r"the rules of s1 differ") as failed:
        net.assert_rules(1, "\n".join(rules[1:]), table=5)
    assert f"+ {rules[0]}" in str(failed.value)


def test_a_policy_may_be_any_that_can_run() -> None:
    @policy
    def decorated(pkt: Packet, net: Net) -> Route:
        return flood()

    with Network("linear:2", decorated.then(drop()), version="1.0") as net:
        net.assert_delivered("h1", "h2")


def test_a_thousand_assertions_leave_nothing_behind(net: Network) -> None:
    for number in range(1000):
        net.assert_delivered("h1", "h2", tcp_dst=1000 + number)
    assert len(net.rules(1)) < 40


def test_a_closed_network_is_over() -> None:
    def laboratories() -> int:
        count = 0
        for task in Path("/proc/self/task").iterdir():
            # A thread can end at any time: before its file is opened, and between that and reading it.
            with suppress(FileNotFoundError, ProcessLookupError):
                count += (task / "comm").read_text().startswith("laboratory")
        return count

    def wait_for(count: int) -> None:
        end = time.monotonic() + 10
        while laboratories() != count and time.monotonic() < end:
            time.sleep(0.01)
        assert laboratories() == count

    wait_for(0)
    net = Network("linear:2", shortest)
    wait_for(1)
    net.close()
    net.close()
    # Its thread has ended, although the object is still there.
    wait_for(0)
    assert repr(net) == "<network linear:2, closed>"
    assert repr(net.h1) == "<Host: the network is closed: its test is over>", "as a traceback shows it"
    for call in (lambda: net.send("h1", "h2"), lambda: net.advance(1), lambda: net.rules(1)):
        with pytest.raises(RuntimeError, match="the network is closed: its test is over"):
            call()
