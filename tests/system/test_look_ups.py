"""Two look-ups of a packet are of one state: keys of a table are exchanged again and again while packets that look both
up cross Open vSwitch."""

import os
import sys

import pytest
from harness import wait_for

pytest.importorskip("mininet", reason="system tests need Mininet")
from lab import Ears
from mininet.topo import SingleSwitchTopo

SWAPS = int(os.environ.get("MAPLE_SWAPS", "300"))
A, B = "00:00:00:00:00:01", "00:00:00:00:00:02"
# In each state one of the two has 1 and the other 2, so nothing comes to port 5.
POLICY = f"""
import os
import threading
import time
from pathlib import Path

from maple import Mac, Table, drop, policy, settled, to

side = Table("side", key=Mac, value=int)


@policy
def by_sides(pkt, net):
    if pkt.eth_src not in side or pkt.eth_dst not in side:
        return drop()
    if side[pkt.eth_src] == side[pkt.eth_dst]:
        return to(5)
    return to(3 if side[pkt.eth_src] == 1 else 4)


def swap(number):
    side.update({{Mac("{A}"): 1 + number % 2, Mac("{B}"): 2 - number % 2}})


def swap_all():
    while not Path(os.environ["MAPLE_START"]).exists():
        time.sleep(0.05)
    for number in range({SWAPS}):
        swap(number)
        # Some come while the rules of the one before are under way.
        if number % 3:
            settled()
        if number % 5 == 0:
            time.sleep(0.01)
    print("all swapped", flush=True)


swap(1)
threading.Thread(target=swap_all, daemon=True).start()
"""
SENDER = f"""
import socket, time
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(("h1-eth0", 0))
frame = bytes.fromhex("{B}{A}".replace(":", "")) + b"\\x88\\xb5" + b"swapped".ljust(50)
print("ready", flush=True)
while True:
    out.send(frame)
    time.sleep(0.0002)
"""


def writes_class(flow):
    """Whether a rule is a key's: its table comes between the classifier and that of the policy's rules."""
    return flow.startswith(("table=1,", "table=2,")) and "write_metadata" in flow


@pytest.mark.parametrize("tables", [0, 2])
def test_a_packet_never_gets_an_answer_that_neither_state_gives(controller, lab, figure, tmp_path, tables):
    policy, start = tmp_path / "sides.py", tmp_path / "start"
    policy.write_text(POLICY)
    maple = controller(policy, "--look-ups", tables, environment={"MAPLE_START": str(start)})
    net = lab(SingleSwitchTopo(k=5), maple)
    with Ears(net, ["h3", "h4", "h5"], "swapped") as ears, net.running("h1", sys.executable, "-c", SENDER) as sender:
        assert sender.stdout.readline() == "ready\n"
        wait_for("the first packets", lambda: sum(ears.heard().values()) > 100)
        keys = [flow for flow in net.flows("s1") if writes_class(flow.split(", ", 1)[-1])]
        assert len(keys) == (4 if tables else 0), net.flows("s1")
        before = ears.heard()
        start.touch()
        wait_for("all changes", lambda: "all swapped" in maple.text(), timeout=20 + SWAPS / 5)
        heard = ears.heard()
        passed = {host: heard[host] - before[host] for host in heard}
    assert passed["h5"] == 0, passed
    assert min(passed["h3"], passed["h4"]) > SWAPS / 10, "packets passed in both states"
    figure(f"{SWAPS} exchanges of two keys, {tables} tables of look-ups: {passed['h3'] + passed['h4']} packets passed")
    net.wait_agreement(maple)
    assert maple.errors() == []
