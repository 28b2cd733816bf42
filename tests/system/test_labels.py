"""Labels on Open vSwitch: hosts keep their VLAN tags, and large frames pass where links take them."""

import re
import struct

import pytest
from harness import EXAMPLES, sh, wait_for

pytest.importorskip("mininet", reason="system tests need Mininet")
from lab import TOOL, is_label_rule, line_of
from mininet.topo import LinearTopo

MARK = b"maple label test"
VLAN, SERVICE_VLAN, EXPERIMENTAL = 0x8100, 0x88A8, 0x88B5


def frame(net, a, b, tags=(), size=64):
    """An Ethernet frame from a to b with these tags (type and id) and this many bytes in all, without the checksum."""
    mac = lambda name: bytes.fromhex(net[name].MAC().replace(":", ""))  # noqa: E731
    head = mac(b) + mac(a) + b"".join(struct.pack("!HH", kind, vid) for kind, vid in tags)
    return (head + struct.pack("!H", EXPERIMENTAL) + MARK).ljust(size, b".")


def carry(net, a, b, frames):
    """What b gets when a sends these frames."""
    with (
        net.running(b, *TOOL, "listen", net[b].defaultIntf().name, MARK.decode()) as ear,
        net.running(a, *TOOL, "frames", net[a].defaultIntf().name) as mouth,
    ):
        assert line_of(ear) == "ready\n"
        heard = []
        for one in frames:
            mouth.stdin.write(one.hex() + "\n")
            mouth.stdin.flush()
            assert line_of(mouth) == "sent\n"
            heard.append(line_of(ear).strip())
        return [bytes.fromhex(text) for text in heard]


def set_mtu(net, mtu):
    for node in [*net.switches, *net.hosts]:
        for interface in node.intfList():
            if interface.name != "lo":
                where = ["nsenter", f"--net=/proc/{node.pid}/ns/net"] if node in net.hosts else []
                sh(*where, "ip", "link", "set", interface.name, "mtu", str(mtu))


def labels(net, switch):
    """The ids of a switch's labels."""
    return {int(re.search(r"dl_vlan=(\d+)", line).group(1)) for line in net.flows(switch) if is_label_rule(line)}


@pytest.mark.parametrize("protocols", ["OpenFlow10", "OpenFlow13"])
def test_hosts_keep_their_tags_and_large_frames_pass(controller, lab, protocols):
    maple = controller(EXAMPLES / "shortest_path.py")
    net = lab(LinearTopo(k=3), maple, protocols)
    assert net.ping_all()[0] == 0
    net.wait_agreement(maple)
    # A full frame carries a label over links that Linux made for full frames.
    full = frame(net, "h1", "h3", size=1514)
    assert carry(net, "h1", "h3", [full, full]) == [full, full]
    set_mtu(net, 9200)
    used = labels(net, "s2") | labels(net, "s3")
    assert used
    ids = [*sorted(used)[:3], 4094]
    tags = [[(VLAN, vid)] for vid in ids]
    tags += [[(VLAN, vid), (VLAN, 7)] for vid in ids] + [[(SERVICE_VLAN, ids[0]), (VLAN, ids[0])]]
    frames = [frame(net, "h1", "h3", tagged, size) for tagged in tags for size in (64, 1518, 9014)]
    # The first of each goes through the controller, the second by rules.
    for _ in range(2):
        assert carry(net, "h1", "h3", frames) == frames
    wait_for("the last rules", lambda: net.wait_agreement(maple) or True)

    def are_carried_by_rules():
        before = maple.count("packet_ins")
        assert carry(net, "h1", "h3", frames) == frames
        return maple.count("packet_ins") == before

    # Now and then the kernel says something of its own on the links' ends.
    wait_for("a round without the controller", are_carried_by_rules)
    assert maple.errors() == []


def test_labels_stay_within_their_range(controller, lab):
    maple = controller(EXAMPLES / "shortest_path.py", "--labels", "2000-2015")
    net = lab(LinearTopo(k=3), maple)
    assert net.ping_all()[0] == 0
    net.wait_agreement(maple)
    used = labels(net, "s1") | labels(net, "s2") | labels(net, "s3")
    assert used and all(2000 <= label <= 2015 for label in used)
    pushed = {int(vid) - 4096 for line in net.flows("s1") for vid in re.findall(r"set_field:(\d+)->vlan_vid", line)}
    assert pushed and pushed <= labels(net, "s2")
