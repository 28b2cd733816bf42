"""Many rules are exchanged while packets flow: each packet gets the old or the new policy's answer, even if the table
is too small for the update."""

import re
import subprocess
import sys
from contextlib import contextmanager

import pytest
from harness import vsctl, wait_for
from test_reload import reload

pytest.importorskip("mininet", reason="system tests need Mininet")
from lab import Ears
from mininet.topo import SingleSwitchTopo

PORTS = range(1000, 1040)
# A rule for each port, above a wide rule for all others.
POLICY = f"""
from maple import flood, policy, to


@policy
def exchange(pkt, net):
    if pkt.ip_proto != 17:
        return flood()
    for port in range({PORTS.start}, {PORTS.stop}):
        if pkt.%s == port:
            return to(%d)
    return to(4)
"""
# Datagrams whose two ports are the same: `listed` ones and `others`.
SENDER = f"""
import socket, time
def sender(port):
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.bind(("", port))
    return one
listed, other = [sender(port) for port in range({PORTS.start}, {PORTS.stop})], sender(7)
print("ready", flush=True)
while True:
    for one in listed:
        one.sendto(b"listed", ("10.0.0.9", one.getsockname()[1]))
        time.sleep(0.0005)
    other.sendto(b"others", ("10.0.0.9", 7))
"""


def heard_until(ears, condition):
    """Waits until more datagrams came for which the condition holds; gives what came in the meantime, by host."""
    start = ears.heard()

    def since():
        now = ears.heard()
        counts = {host: now[host] - start[host] for host in now}
        return counts if condition(counts) else None

    return wait_for("datagrams", since)


@contextmanager
def sending(net):
    with net.running("h1", sys.executable, "-u", "-c", SENDER) as sender:
        assert sender.stdout.readline()
        yield


@contextmanager
def changes(file):
    """Has Open vSwitch write into a file what changes in table 1 of s1. What changes at once is reported at once."""
    watch = ["ovs-ofctl", "-O", "OpenFlow13", "monitor", "s1", "watch:!initial,table=1"]
    with file.open("w") as out, subprocess.Popen(watch, stdout=out, stderr=out) as monitor:
        try:
            wait_for("the monitor", lambda: "reply" in file.read_text())
            yield lambda: [re.findall(r"event=(\w+)", reply) for reply in file.read_text().split("reply")[2:]]
        finally:
            monitor.terminate()


@pytest.mark.parametrize("limit", [None, 60])
def test_each_packet_gets_the_old_or_the_new_answer(controller, lab, tmp_path, figure, limit):
    file = tmp_path / "exchange.py"
    file.write_text(POLICY % ("udp_dst", 2))
    maple = controller(file)
    net = lab(SingleSwitchTopo(k=4), maple, "OpenFlow13")
    if limit:
        vsctl(
            *("--", "--id=@t", "create", "Flow_Table", f"flow_limit={limit}", "overflow_policy=refuse"),
            *("--", "set", "Bridge", "s1", "flow_tables:1=@t"),
        )
    # No host has that address, so that none answers.
    net["h1"].cmd("ip neighbour replace 10.0.0.9 lladdr 02:00:00:00:00:09 dev h1-eth0")

    def forwarding(port):
        return sum("table=1," in flow and flow.endswith(f"output:{port}") for flow in net.flows("s1"))

    with Ears(net, ["h2", "h3", "h4"], "listed") as ears, sending(net):
        wait_for("the rules", lambda: forwarding(2) >= len(PORTS))
        wait_for("the wide rule", lambda: forwarding(4))
        heard_until(ears, lambda counts: counts["h2"] > 100)
        before = maple.count("flow_mods")
        done = reload(maple)
        assert done.returncode == 0, done.stderr
        file.write_text(POLICY % ("udp_src", 3))
        with changes(tmp_path / "changes") as reported:
            done = reload(maple)
            assert done.returncode == 0, done.stderr
            heard_until(ears, lambda counts: counts["h3"] > 1000)
            first = wait_for("a change", reported)[0]
        if limit:
            assert "ADDED" not in first, "the update that did not fit has changed nothing"
        else:
            assert first == ["ADDED"] * len(PORTS) + ["DELETED"] * len(PORTS), "it is made at once"
        net.wait_agreement(maple)
        after = heard_until(ears, lambda counts: counts["h3"] > 100)
        assert after["h2"] == 0, "all get the new answer"
        assert ears.heard()["h4"] == 0, "none ever gets that of the wide rule"
        changed = maple.count("flow_mods") - before
    errors = [error["text"] for error in maple.show("errors")]
    assert bool(limit) == any("TABLE_FULL" in error for error in errors), errors
    assert not any("bundle" in error for error in errors), errors
    assert changed >= 2 * len(PORTS)
    figure(f"{changed} flow-mods under traffic, table of {limit or 'any number of'} rules: no third answer")
