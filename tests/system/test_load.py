"""Rates are what hosts really send, and a policy that asks about them moves traffic once, and not back and forth."""

import re
import subprocess
import time

import pytest
from harness import MAPLE, wait_for

pytest.importorskip("mininet", reason="system tests need Mininet")
from topologies import Ring

# What h1 sends h2 goes by the long way round while it is much.
POLICY = """
from maple import costs, flood, policy

costs("detour", {(1, 2): 10, (2, 1): 10})


@policy
def elephants_go_round(pkt, net):
    if pkt.eth_dst.is_multicast:
        return flood()
    src, dst = net.locate(pkt.eth_src), net.locate(pkt.eth_dst)
    if dst is None:
        return flood()
    if net.traffic(pkt.eth_src, pkt.eth_dst).is_above(mbps=0.3, until=0.05):
        return net.path(src, dst, cost="detour")
    return net.shortest_path(src, dst)
"""


class Meter:
    """What an interface of a host sends, by the host's own counters."""

    def __init__(self, host):
        self.host, self.path = host, f"/sys/class/net/{host.defaultIntf().name}/statistics"

    def read(self):
        packets, size = self.host.cmd(f"cat {self.path}/tx_packets {self.path}/tx_bytes").split()
        return int(packets), int(size)


def pings(net, a, b, a_second):
    """A host pings another so often, with about 1000 bytes."""
    return net.running(a, "ping", "-q", "-n", "-i", str(1 / a_second), "-s", "950", net[b].IP())


@pytest.mark.parametrize("protocols", ["OpenFlow10", "OpenFlow13"])
def test_rates_are_what_hosts_send(controller, lab, protocols, figure):
    maple = controller("builtin:shortest-path")
    net = lab(Ring(), maple, protocols)
    assert net.ping_all()[0] == 0
    mac1, mac2 = net["h1"].MAC(), net["h2"].MAC()

    def flow():
        flows = maple.ask({"show": {"flows": None}})
        return next((one for one in flows if (one["from"], one["to"]) == (mac1, mac2)), None)

    def port():
        (switch,) = maple.ask({"show": {"ports": "1"}})
        return next(one for one in switch["ports"] if one["port"] == 1)

    with pings(net, "h1", "h2", 100):
        meter, sent, told = Meter(net["h1"]), [], []
        time.sleep(2)
        for _ in range(8):
            before, began = meter.read(), time.monotonic()
            time.sleep(1)
            after, took = meter.read(), time.monotonic() - began
            sent.append([(b - a) / took for a, b in zip(before, after, strict=True)])
            one, other = flow(), port()
            told.append(
                (one["bits_per_second"] or 0, other.get("rx_bits_per_second", 0), one["packets_per_second"] or 0)
            )
        shown = subprocess.run(
            [MAPLE, "show", "flows", "--top", "1", "--control", str(maple.control)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    def middle(numbers):
        return sorted(numbers)[len(numbers) // 2]

    packets, bits = middle([p for p, _ in sent]), middle([8 * size for _, size in sent])
    by_rule, by_port, packets_told = (middle(column) for column in zip(*told, strict=True))
    figure(
        f"{protocols}: h1 sends {bits / 1e3:.0f} kbit/s; rules say {by_rule / 1e3:.0f}, the port {by_port / 1e3:.0f}"
    )
    for rate in (by_rule, by_port):
        assert 0.8 * bits < rate < 1.2 * bits, (bits, told)
    assert 0.8 * packets < packets_told < 1.2 * packets
    # Request or reply: either direction sends as much.
    assert {mac1, mac2} == set(re.findall(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}", shown)), shown
    assert re.search(r"[0-9.]+ kbit/s \(\d+ packet/s\)", shown), shown
    text = subprocess.run(
        [MAPLE, "show", "rules", "1", "--host", mac2, "--control", str(maple.control)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert max(int(count) for count in re.findall(r"n_packets=(\d+)", text)) > 300, text


@pytest.mark.parametrize("protocols", ["OpenFlow10", "OpenFlow13"])
def test_traffic_leaves_the_busy_link_once_and_comes_back_once(controller, lab, tmp_path, protocols):
    policy = tmp_path / "policy.py"
    policy.write_text(POLICY)
    maple = controller(policy, "--poll", "1s")
    net = lab(Ring(), maple, protocols)
    assert net.ping_all()[0] == 0
    direct, round_ = net.port_towards("s1", "s2"), net.port_towards("s1", "s4")
    meter = Meter(net["h1"])

    def counts():
        return meter.read()[0], net.port_packets("s1", direct), net.port_packets("s1", round_)

    def moment(seconds=1.0):
        """What h1 sends in this time, and what of it leaves its switch by either link."""
        before = counts()
        time.sleep(seconds)
        return [b - a for a, b in zip(before, counts(), strict=True)]

    def goes(by, at_least):
        """Whether at least this much is sent, by one link, but for probes and what is on its way between readings."""
        sent, *links = moment(2)
        return sent >= at_least and links[by] >= 0.7 * sent and links[1 - by] < 10 + 0.1 * sent

    def moves():
        return sum(maple.counts("leaves_rerouted", "leaves_withdrawn"))

    if protocols == "OpenFlow13":
        # Pairs of hosts are counted only by rules for pairs, so decisions that rest on look-ups end.
        for switch in "1234":
            wait_for("reads", lambda switch=switch: f"{switch} does not look up" in maple.text())
        assert net.ping_all()[0] == 0
    before = moves()
    assert max(moment()) < 20
    with pings(net, "h1", "h2", 100):
        wait_for("the traffic to go round", lambda: goes(1, at_least=10))
        # It is moved once in each direction, and stays: what decides is what the hosts send, wherever that goes.
        # Another switch counts the other direction, and is asked up to a second later.
        time.sleep(3)
        moved = moves()
        assert 1 <= moved - before <= 4, (before, moved)
        for _ in range(8):
            assert goes(1, at_least=1)
        assert moves() == moved
    time.sleep(4)
    net.ping("h1", "h2", count=5)
    with pings(net, "h1", "h2", 20):
        wait_for("little traffic to go directly again", lambda: goes(0, at_least=5))
        for _ in range(4):
            assert goes(0, at_least=1)
    assert [error for error in maple.errors() if "does not look up" not in error["text"]] == []
