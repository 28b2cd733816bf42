"""Many rules are exchanged while packets flow: each packet gets the old or the new policy's answer, even if the table
is too small for the update, or the switch refuses one of its rules when it is put into the bundle."""

import re
import socket
import struct
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress

import openflow as of
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
    """Has Open vSwitch write into a file what changes in the ingress table of s1: at once, if it changes at once."""
    watch = ["ovs-ofctl", "-O", "OpenFlow13", "monitor", "s1", "watch:!initial,table=5"]
    with file.open("w") as out, subprocess.Popen(watch, stdout=out, stderr=out) as monitor:
        try:
            wait_for("the monitor", lambda: "reply" in file.read_text())
            yield lambda: [re.findall(r"event=(\w+)", reply) for reply in file.read_text().split("reply")[2:]]
        finally:
            monitor.terminate()


class Spoiler:
    """Alters the third rule that is put into a bundle once it is armed, and notes what becomes of that bundle."""

    CONTROL, ADD = 2300, 2301
    OPEN, COMMIT, DISCARD = 0, 4, 6
    COMMAND, KIND = 49, 25
    """Where a bundled flow-mod says what to do, and where that it is a flow-mod."""

    def __init__(self, place, value):
        self.place, self.value = place, value
        self.armed, self.left, self.bundle, self.became = False, 3, None, []

    def __call__(self, message):
        """What the switch gets instead of a message of the controller's."""
        if not self.armed or len(message) < 24 or message[1] != 4:
            return message
        kind, bundle, control = struct.unpack_from("!IIH", message, 12)
        if kind == self.ADD and self.left:
            self.left -= 1
            if not self.left:
                self.bundle = bundle
                return message[: self.place] + bytes([self.value]) + message[self.place + 1 :]
        if kind == self.CONTROL and bundle == self.bundle:
            self.became.append(control)
        return message


def relay(switch, controller, altered):
    """Passes on what comes from either end, messages of the controller as they are altered, until one end closes."""

    def to_controller():
        with suppress(OSError):
            while data := switch.recv(1 << 16):
                controller.sendall(data)
            controller.shutdown(socket.SHUT_RDWR)

    with switch, controller, controller.makefile("rb") as messages:
        back = threading.Thread(target=to_controller)
        back.start()
        with suppress(OSError):
            while len(head := messages.read(8)) == 8:
                (length,) = struct.unpack_from("!H", head, 2)
                switch.sendall(altered(head + messages.read(length - 8)))
            switch.shutdown(socket.SHUT_RDWR)
        back.join()


@contextmanager
def between(port, altered):
    """Stands between switches and the controller at a port, whose messages it alters. Gives the port for switches."""

    def serve():
        with suppress(OSError):
            while True:
                switch, _ = listener.accept()
                controller = socket.create_connection(("127.0.0.1", port))
                threading.Thread(target=relay, args=(switch, controller, altered), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def exchanged(net, maple, tmp_path, file):
    """Reloads the other policy under traffic, of which each datagram gets the old or the new answer. Gives what changed
    at once in the table first, and the number of flow-mods."""
    # No host has that address, so that none answers.
    net["h1"].cmd("ip neighbour replace 10.0.0.9 lladdr 02:00:00:00:00:09 dev h1-eth0")

    def forwarding(port):
        return sum("table=5," in flow and flow.endswith(f"output:{port}") for flow in net.flows("s1"))

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
        net.wait_agreement(maple)
        after = heard_until(ears, lambda counts: counts["h3"] > 100)
        assert after["h2"] == 0, "all get the new answer"
        assert ears.heard()["h4"] == 0, "none ever gets that of the wide rule"
    return first, maple.count("flow_mods") - before


FULL, UNREADABLE, OF_NO_BUNDLE = "what its table has no room for", "an unreadable rule", "a message of no bundle"
SPOILT = {UNREADABLE: (Spoiler.COMMAND, 99), OF_NO_BUNDLE: (Spoiler.KIND, of.ECHO_REQUEST)}


@pytest.mark.parametrize("refused", ["nothing", FULL, *SPOILT])
def test_each_packet_gets_the_old_or_the_new_answer(controller, lab, tmp_path, figure, refused):
    """Open vSwitch refuses at the commit, or when a message is put into the bundle; then it would commit the others."""
    file = tmp_path / "exchange.py"
    file.write_text(POLICY % ("udp_dst", 2))
    # What exploration adds would come between the changes that are looked at.
    maple = controller(file, "--explore=0")
    spoiler = Spoiler(*SPOILT.get(refused, (0, 0)))
    with between(maple.port, spoiler) as port:
        net = lab(SingleSwitchTopo(k=4), protocols="OpenFlow13", port=port)
        net.wait_known(maple)
        if refused == FULL:
            vsctl(
                *("--", "--id=@t", "create", "Flow_Table", "flow_limit=60", "overflow_policy=refuse"),
                *("--", "set", "Bridge", "s1", "flow_tables:5=@t"),
            )
        spoiler.armed = refused in SPOILT
        first, changed = exchanged(net, maple, tmp_path, file)
    if refused in ("nothing", UNREADABLE):
        assert first == ["ADDED"] * len(PORTS) + ["DELETED"] * len(PORTS), "all of it is made at once"
    else:
        assert len(set(first)) == 1, "an update that the switch refused has changed nothing, the next takes two steps"
    assert spoiler.became == ([Spoiler.DISCARD] if refused in SPOILT else [])
    errors = [error["text"] for error in maple.show("errors")]
    for name, word in {FULL: "TABLE_FULL", UNREADABLE: "BAD_COMMAND", OF_NO_BUNDLE: "MSG_UNSUP"}.items():
        assert (name == refused) == any(word in error for error in errors), errors
    assert changed >= 2 * len(PORTS)
    figure(f"{changed} flow-mods under traffic, refused: {refused}: no third answer")
