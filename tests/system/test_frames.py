"""Frames that bridges keep to themselves, fragments, and groups that a host blocks, on Open vSwitch."""

import subprocess
import sys

import pytest
from harness import EXAMPLES, wait_for

pytest.importorskip("mininet", reason="system tests need Mininet")
from mininet.topo import SingleSwitchTopo

BOTH = pytest.mark.parametrize("protocols", ["OpenFlow10", "OpenFlow13"])

# Those of IEEE 802.1Q table 8-1 except those of discovery, and Cisco's; then neighbours, and everybody.
KEPT = ["01:80:c2:00:00:00", "01:80:c2:00:00:02", "01:80:c2:00:00:0f", "01:00:0c:cc:cc:cc", "01:00:0c:cc:cc:cd"]
FLOODED = ["01:80:c2:00:00:10", "01:00:0c:cc:cc:ce", "ff:ff:ff:ff:ff:ff"]

SEND = """
import socket, sys
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind((sys.argv[1], 0))
for to in sys.argv[2:]:
    out.send(bytes.fromhex(to.replace(":", "") + "020000000063" + "88b5") + b"x" * 50)
"""
# Prints the destinations of all such frames that come, up to the one that the last argument names.
HEAR = """
import signal, socket, sys
signal.alarm(60)
heard = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5))
heard.bind((sys.argv[1], 0x88B5))
print("ready", flush=True)
while True:
    frame, (_, _, kind, *_) = heard.recvfrom(2048)
    if kind == socket.PACKET_OUTGOING:
        continue
    to = ":".join(f"{byte:02x}" for byte in frame[:6])
    print(to, flush=True)
    if to == sys.argv[2]:
        break
"""
FLOODING = "from maple import flood, policy\n\n\n@policy(track_hosts=False)\ndef f(pkt, net):\n    return flood({})\n"


def run(net, host, code, *arguments):
    done = net[host].popen([sys.executable, "-c", code, *arguments], stderr=subprocess.PIPE, text=True)
    assert done.communicate(timeout=20)[1] == ""


def heard(net, wanted):
    """Which of `KEPT` and `FLOODED` h2 hears from h1. All wanted ones must come, the last one after the others.

    One that waits for its decision may come after one that has a rule, so their order is none.
    """
    interface, last = net["h2"].defaultIntf().name, wanted[-1]
    with net.running("h2", sys.executable, "-c", HEAR, interface, last) as hearer:
        assert hearer.stdout.readline() == "ready\n"
        run(net, "h1", SEND, net["h1"].defaultIntf().name, *KEPT, *FLOODED[:-1])
        came = [hearer.stdout.readline().strip() for _ in wanted[:-1]]
        run(net, "h1", SEND, net["h1"].defaultIntf().name, last)
        return sorted(came + [line.strip() for line in hearer.stdout])


@BOTH
@pytest.mark.parametrize("reserved", [False, True])
def test_what_bridges_keep_is_flooded_only_if_the_policy_says_so(controller, lab, tmp_path, protocols, reserved):
    path = tmp_path / "policy.py"
    path.write_text(FLOODING.format("reserved=True" if reserved else ""))
    maple = controller(path)
    net = lab(SingleSwitchTopo(k=2), maple, protocols)
    wanted = [*KEPT, *FLOODED] if reserved else FLOODED
    for _ in range(2):
        # The second time by rules.
        assert heard(net, wanted) == sorted(wanted)
    assert maple.errors() == []


@BOTH
def test_the_builtin_policy_keeps_what_bridges_keep(controller, lab, protocols):
    net = lab(SingleSwitchTopo(k=2), controller("builtin:shortest-path"), protocols)
    assert net.ping_all()[0] == 0
    assert heard(net, FLOODED) == sorted(FLOODED)


LIST = """
version: 1
forward: flood
{fragments}
rules:
  - {{action: deny, service: udp/53}}
  - {{action: allow, service: [udp, icmp]}}
"""
LISTEN = """
import select, signal, socket, sys
signal.alarm(60)
socks = {}
for port in (53, 54):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("", port))
    socks[sock] = port
print("ready", flush=True)
while True:
    for sock in select.select(list(socks), [], [])[0]:
        size = len(sock.recv(65535))
        print(socks[sock], size, flush=True)
        if size == 1:
            sys.exit()
"""
TALK = """
import socket, sys
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for port, size in (map(int, one.split()) for one in sys.argv[1:]):
    out.sendto(bytes(size), ("10.0.0.2", port))
"""


@BOTH
@pytest.mark.parametrize("fragments", ["", "fragments: deny", "fragments: allow", "fragments: match"])
def test_a_rule_with_ports_holds_for_whole_packets_and_the_key_for_fragments(
    controller, lab, tmp_path, protocols, fragments
):
    path = tmp_path / "list.yaml"
    path.write_text(LIST.format(fragments=fragments))
    net = lab(SingleSwitchTopo(k=2), controller(path), protocols)
    assert net.ping_all()[0] == 0
    expected = ["54 100"] if fragments == "fragments: deny" else ["53 4000", "54 100", "54 4000"]
    with net.running("h2", sys.executable, "-c", LISTEN) as listener:
        assert listener.stdout.readline() == "ready\n"
        run(net, "h1", TALK, "53 100", "53 4000", "54 100", "54 4000")
        # One that waits for its decision may come after one that has a rule.
        came = [listener.stdout.readline().strip() for _ in expected]
        run(net, "h1", TALK, "54 1")
        came += [line.strip() for line in listener.stdout]
    assert sorted(came) == sorted([*expected, "54 1"])


# Joins a group for two senders, and leaves them one by one when it is told so.
SENDERS = """
import socket, struct, sys
packed = [socket.inet_aton(ip) for ip in ("239.1.1.1", sys.argv[1], "10.0.0.8", "10.0.0.9")]
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for sender in packed[2:]:
    sock.setsockopt(socket.IPPROTO_IP, 39, struct.pack("4s4s4s", packed[0], packed[1], sender))
print("ready", flush=True)
for sender, _ in zip(packed[2:], sys.stdin):
    sock.setsockopt(socket.IPPROTO_IP, 40, struct.pack("4s4s4s", packed[0], packed[1], sender))
    print("left", flush=True)
sys.stdin.readline()
"""


def test_a_host_that_blocks_its_last_sender_has_left_the_group(controller, lab):
    maple = controller(EXAMPLES / "lessons" / "multicast.py")
    net = lab(SingleSwitchTopo(k=2), maple, quiet=False)
    assert net.ping_all()[0] == 0

    def members():
        return [len(one["at"]) for one in maple.show("groups") if one["group"] == "239.1.1.1"]

    with net.running("h2", sys.executable, "-u", "-c", SENDERS, "10.0.0.2") as process:
        assert process.stdout.readline() == "ready\n"
        wait_for("the membership", lambda: members() == [1])
        for left in (1, 2):
            process.stdin.write("go\n")
            process.stdin.flush()
            assert process.stdout.readline() == "left\n", left
        # Without it, a membership ends after 260 seconds.
        wait_for("the end of the membership", lambda: members() == [], timeout=60)
