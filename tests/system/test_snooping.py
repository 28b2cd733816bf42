"""Groups that hosts join with real sockets, and addresses that they get from a DHCP server, on Open vSwitch."""

import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from harness import EXAMPLES, MAPLE, sh, vsctl, wait_for

pytest.importorskip("mininet", reason="system tests need Mininet")
from lab import Ears
from mininet.topo import LinearTopo, SingleSwitchTopo

LESSONS = EXAMPLES / "lessons"
TOOL = [sys.executable, "-u", str(Path(__file__).with_name("snooptool.py"))]
BOTH = pytest.mark.parametrize("protocols", ["OpenFlow10", "OpenFlow13"])
IPV4, IPV6 = "239.1.1.1", "ff05::9"


class Member:
    """A program on a host that belongs to a group."""

    def __init__(self, process):
        self.process = process
        assert process.stdout.readline() == "ready\n"

    def say(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def seen(self):
        """How many datagrams it got."""
        return self.say("count")


@contextmanager
def member(net, host, group):
    with net.running(host, *TOOL, "member", net[host].defaultIntf().name, group) as process:
        yield Member(process)


def send(net, host, group, count):
    interface = net[host].defaultIntf().name
    done = net[host].popen([*TOOL, "send", interface, group, str(count)], stderr=subprocess.PIPE, text=True)
    assert done.communicate(timeout=20)[1] == ""


def groups(maple):
    """Which switches' ports belong to which group."""
    return {
        one["group"]: [(int(at["switch"], 16), at["port"]) for at in one["at"]]
        for one in maple.show("groups")
        if one["group"] in (IPV4, IPV6)
    }


@pytest.mark.parametrize(
    ("protocols", "group"), [("OpenFlow10", IPV4), ("OpenFlow13", IPV4), ("OpenFlow13", IPV6)], ids=str
)
def test_multicast_reaches_those_who_joined(controller, lab, protocols, group):
    maple = controller(LESSONS / "multicast.py")
    net = lab(LinearTopo(k=3), maple, protocols, quiet=False)
    assert net.ping_all()[0] == 0
    for host in ("h2", "h3"):
        # A host that has joined by IGMPv3 and then hears the querier's IGMPv2 leaves without a word, unless it has
        # answered a query before. One that speaks IGMPv2 from the start says so (RFC 2236 §3).
        net[host].cmd("sysctl -w net.ipv4.conf.all.force_igmp_version=2")
    if group == IPV6:
        wait_for("the address to be free", lambda: net["h1"].cmd("ip -6 -o addr show tentative").strip() == "")
    with Ears(net, ["h2"], "to the members") as others, member(net, "h3", group) as h3:
        wait_for("the member to be known", lambda: groups(maple) == {group: [(3, 1)]})
        send(net, "h1", group, 20)
        wait_for("what was sent", lambda: h3.seen() == 20)
        assert others.heard()["h2"] == 0
        with member(net, "h2", group) as h2:
            wait_for("both members to be known", lambda: groups(maple) == {group: [(2, 1), (3, 1)]})
            send(net, "h1", group, 20)
            wait_for("what was sent", lambda: (h2.seen(), h3.seen()) == (20, 40))
            assert h2.say("leave") == 20
            wait_for("one member to be left", lambda: groups(maple) == {group: [(3, 1)]})
        before = others.heard()["h2"]
        send(net, "h1", group, 20)
        wait_for("what was sent", lambda: h3.seen() == 60)
        assert others.heard()["h2"] == before
    wait_for("nobody to be left", lambda: groups(maple) == {})
    shown = sh(MAPLE, "show", "groups", "--control", str(maple.control))
    assert group not in shown
    assert maple.count("of_errors") == 0 and maple.count("policy_errors") == 0


def test_a_querier_finds_members_again_after_a_switch_was_away(controller, lab):
    maple = controller(LESSONS / "multicast.py", "--unreachable", "forget")
    net = lab(SingleSwitchTopo(k=2), maple, "OpenFlow13", quiet=False)
    assert net.ping_all()[0] == 0
    with member(net, "h2", IPV4) as h2:
        wait_for("the member to be known", lambda: groups(maple) == {IPV4: [(1, 2)]})
        vsctl("del-controller", "s1")
        wait_for("the switch to be gone", lambda: maple.show("switches") == [] and groups(maple) == {})
        vsctl("set-controller", "s1", f"tcp:127.0.0.1:{maple.port}")
        net.wait_known(maple)
        wait_for("the member to answer", lambda: groups(maple) == {IPV4: [(1, 2)]})
        send(net, "h1", IPV4, 10)
        wait_for("what was sent", lambda: h2.seen() == 10)


@contextmanager
def server(net, host, given):
    with net.running(host, *TOOL, "dhcpd", net[host].defaultIntf().name, net[host].IP(), given, "600") as process:
        assert process.stdout.readline() == "ready\n"
        yield


@BOTH
def test_hosts_may_use_the_address_that_the_server_gave_them(controller, lab, protocols):
    maple = controller(LESSONS / "source_guard.py")
    net = lab(LinearTopo(k=3), maple, protocols)
    interface = net["h2"].defaultIntf().name
    assert net.ping("h2", "h1") == 0, "it has no lease"
    net["h2"].cmd(f"ip addr flush dev {interface}")
    with server(net, "h1", "10.0.0.50"), net.running("h2", *TOOL, "dhcp", interface) as client:
        assert client.stdout.readline() == "10.0.0.50\n"
        (lease,) = wait_for("the lease to be known", lambda: maple.show("leases"))
        assert (lease["ip"], lease["mac"]) == ("10.0.0.50", net["h2"].MAC())
        assert (int(lease["at"]["switch"], 16), lease["at"]["port"]) == (2, 1)
        shown = sh(MAPLE, "show", "leases", "--control", str(maple.control))
        assert re.fullmatch(rf"10\.0\.0\.50 is {lease['mac']} at 0{{15}}2:1 for (600|59\d) s\n", shown), shown
        net["h2"].cmd(f"ip addr add 10.0.0.50/8 dev {interface}")
        assert net.ping("h2", "10.0.0.1", count=3) == 3
        net["h2"].cmd(f"ip addr add 10.0.0.77/8 dev {interface}; ip route add 10.0.0.1 dev {interface} src 10.0.0.77")
        net["h2"].cmd("ip neigh flush all")
        assert net.ping("h2", "10.0.0.1", count=3) == 0, "nobody gave it that"
        net["h2"].cmd(f"ip addr del 10.0.0.77/8 dev {interface}; ip route del 10.0.0.1; ip neigh flush all")
        assert net.ping("h2", "10.0.0.1", count=3) == 3
        client.stdin.write("10.0.0.1\n")
        client.stdin.flush()
        assert client.stdout.readline() == "released\n"
        wait_for("the lease to be over", lambda: maple.show("leases") == [])
        wait_for("the host to be cut off", lambda: net.ping("h2", "10.0.0.1") == 0)
    assert maple.count("of_errors") == 0 and maple.count("policy_errors") == 0


def test_a_server_where_none_may_be_is_told_of_and_not_believed(controller, lab):
    maple = controller(LESSONS / "source_guard.py")
    net = lab(LinearTopo(k=3), maple, "OpenFlow13")
    with server(net, "h3", "10.0.0.66"), net.running("h2", *TOOL, "dhcp", net["h2"].defaultIntf().name):
        told = "a DHCP reply from 0000000000000003:1, which is not a port of a DHCP server"
        wait_for("people to be told", lambda: any(told in one["text"] for one in maple.show("errors")))
    assert maple.show("leases") == []
