"""A table that packets are looked up in changes a thousand times a second, while hosts move, call and talk: on Open
vSwitch no packet is lost by it, and none passes that no state lets pass."""

import os
import re
import sys
import time

import pytest
from harness import vsctl, wait_for

pytest.importorskip("mininet", reason="system tests need Mininet")
from lab import Ears, Pinger
from topologies import Ring

BOTH = pytest.mark.parametrize("protocols", ["OpenFlow10", "OpenFlow13"])
RATE = 1_000
SECONDS = int(os.environ.get("MAPLE_SECONDS", "6"))
# Nobody but h4 has the rank 9, which is never let pass; ranks 1 to 3 differ by nothing but the line that decides.
POLICY = f"""
import threading
import time
from pathlib import Path

from maple import Mac, Table, drop, flood, policy

rank = Table("rank", key=Mac, value=int)
BUSY = [Mac(f"00:00:00:00:00:0{{n}}") for n in (1, 2, 3)]
STRANGERS = [Mac(0x020000000000 + n) for n in range(200)]
rank[Mac("00:00:00:00:00:04")] = 9


@policy
def by_rank(pkt, net):
    sender = rank.get(pkt.eth_src, 0)
    if sender == 9 and pkt.eth_type == 0x88B5:
        return drop()
    receiver = rank.get(pkt.eth_dst, 0) if sender == 1 else 0
    to = net.locate(pkt.eth_dst)
    if to is None:
        return flood()
    if receiver == 2:
        return net.shortest_path(net.locate(pkt.eth_src), to)
    return net.shortest_path(net.locate(pkt.eth_src), to)


def write():
    import os

    while not Path(os.environ["MAPLE_START"]).exists():
        time.sleep(0.05)
    began = time.monotonic()
    for number in range({RATE} * {SECONDS}):
        key = BUSY[number % 3] if number % 2 else STRANGERS[number % 200]
        rank[key] = 1 + number // 2 % 3
        time.sleep(max(0, began + number / {RATE} - time.monotonic()))
    print(f"written in {{time.monotonic() - began:.1f}} s", flush=True)


threading.Thread(target=write, daemon=True).start()
"""
# h4 sends what its rank forbids, to everybody and to one.
SENDER = """
import socket, time
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(("h4-eth0", 0))
print("ready", flush=True)
while True:
    for to in ("ffffffffffff", "000000000001", "000000000003"):
        out.send(bytes.fromhex(to + "000000000004") + b"\\x88\\xb5" + b"forbidden".ljust(50))
    time.sleep(0.005)
"""


@BOTH
def test_nothing_is_lost_and_nothing_passes_while_a_table_changes_a_thousand_times_a_second(
    controller, lab, figure, tmp_path, protocols
):
    policy, start = tmp_path / "ranks.py", tmp_path / "start"
    policy.write_text(POLICY)
    maple = controller(policy, environment={"MAPLE_START": str(start)})
    net = lab(Ring(), maple, protocols)
    hosts = ["h1", "h2", "h3"]
    assert net.ping_all()[0] == 0
    flow_mods = maple.count("flow_mods")
    with (
        Ears(net, hosts, "forbidden") as forbidden,
        Ears(net, hosts, "to-all") as calls,
        net.running("h4", sys.executable, "-c", SENDER) as sender,
        Pinger(net, "h1", "h3") as one,
        Pinger(net, "h3", "h2") as other,
    ):
        assert sender.stdout.readline() == "ready\n"
        start.touch()
        asked = 0
        while "written in" not in maple.text():
            net.udp("h2", "10.255.255.255", 9, "to-all")
            asked += 1
            time.sleep(0.1)
        took = re.search(r"written in ([\d.]+) s", maple.text())[1]
        (lost, sent), (lost_too, sent_too) = one.end(), other.end()
        wait_for("the calls", lambda: calls.heard() == {"h1": asked, "h2": 0, "h3": asked}, timeout=5)
        assert forbidden.heard() == dict.fromkeys(hosts, 0)
    changes = maple.count("flow_mods") - flow_mods
    figure(
        f"{RATE * SECONDS} writes in {took} s, {protocols}: {lost} of {sent} and {lost_too} of {sent_too} pings lost, "
        f"{changes} flow-mods"
    )
    assert (lost, lost_too) == (0, 0)
    assert maple.errors() == []
    net.wait_agreement(maple)


@BOTH
def test_a_host_that_moves_meanwhile_is_reached_again(controller, lab, figure, tmp_path, protocols):
    policy, start = tmp_path / "ranks.py", tmp_path / "start"
    policy.write_text(POLICY)
    maple = controller(policy, environment={"MAPLE_START": str(start)})
    net = lab(Ring(), maple, protocols)
    assert net.ping_all()[0] == 0
    with Pinger(net, "h2", "h1") as pings:
        start.touch()
        began = time.time()
        vsctl("del-port", "s1", "s1-eth1", "--", "add-port", "s3", "s1-eth1")
        wait_for("h1 at s3", lambda: maple.hosts().get(net["h1"].MAC(), (0, 0))[0] == 3, timeout=10)
        gap = pings.gap(began)
        wait_for("the last write", lambda: "written in" in maple.text(), timeout=60)
    figure(f"a host moves while a table changes, {protocols}: answers stay away for {gap:.2f} s")
    assert net.ping_all()[0] == 0
    net.wait_agreement(maple)
    assert net.outputs("s1", src="h1", dst="h1") == set(), "nothing there leads to h1 any more"
