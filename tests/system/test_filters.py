"""A filter set on Open vSwitch, by real packets: tables are the model's, `ofproto/trace` agrees with the policy.

The headers of the set's trace are abstract 5-tuples. Those of TCP and UDP are sent as frames; others, whose ports no
frame can have, are left out.
"""

import ipaddress
import os
import random
import re
import struct
import time
from pathlib import Path

import pytest
from harness import ROOT, sh, wait_for

pytest.importorskip("mininet", reason="system tests need Mininet")
from lab import TOOL
from mininet.topo import SingleSwitchTopo

SETS = ROOT.parent / "shared" / "classbench"
POLICY = Path(__file__).with_name("filters.py")
PORTS = (2, 3, 4)
TRANSPORT = {6: "tcp", 17: "udp"}


class Filter:
    """One line of a filter set, read without any help of the policy's."""

    def __init__(self, line):
        words = line.lstrip("@").split()
        self.networks = [ipaddress.ip_network(words[0]), ipaddress.ip_network(words[1])]
        self.ranges = [(int(words[2]), int(words[4])), (int(words[5]), int(words[7]))]
        self.protocol, self.mask = (int(part, 16) for part in words[8].split("/"))

    def fits(self, header):
        *both, protocol = header
        addresses, ports = both[:2], both[2:]
        return (
            all(ipaddress.ip_address(a) in network for a, network in zip(addresses, self.networks, strict=True))
            and all(low <= port <= high for port, (low, high) in zip(ports, self.ranges, strict=True))
            and protocol & self.mask == self.protocol & self.mask
        )


def answer(filters, header):
    """The port that the packet leaves by, or None."""
    return next((PORTS[at % len(PORTS)] for at, one in enumerate(filters) if one.fits(header)), None)


def frame(header, source, to):
    """An Ethernet frame with this 5-tuple."""
    ip_source, ip_destination, source_port, destination_port, protocol = header
    ports = struct.pack("!HH", source_port, destination_port)
    rest = bytes(8) + b"\x50\x02" + bytes(6) if protocol == 6 else struct.pack("!HH", 8, 0)
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(ports + rest), 0, 0, 64, protocol, 0)
    ip += struct.pack("!II", ip_source, ip_destination)
    return bytes.fromhex((to + source).replace(":", "")) + b"\x08\x00" + ip + ports + rest


def traced(bridge, header, source, to):
    """What Open vSwitch would do with such a packet: the port, None for a drop, or "controller"."""
    ip_source, ip_destination, source_port, destination_port, protocol = header
    flow = (
        f"in_port=1,dl_src={source},dl_dst={to},{TRANSPORT[protocol]},nw_src={ipaddress.ip_address(ip_source)},"
        f"nw_dst={ipaddress.ip_address(ip_destination)},nw_ttl=64,{TRANSPORT[protocol]}_src={source_port},"
        f"{TRANSPORT[protocol]}_dst={destination_port}"
    )
    text = sh("ovs-appctl", "ofproto/trace", bridge, flow)
    if "CONTROLLER" in text:
        return "controller"
    ports = {int(port) for port in re.findall(r"output:(\d+)", text)}
    assert len(ports) <= 1, text
    return ports.pop() if ports else None


def is_quiet(maple):
    """Whether nothing comes to the controller for a moment."""
    before = maple.count("packet_ins")
    time.sleep(0.05)
    return maple.count("packet_ins") == before


@pytest.mark.skipif(not SETS.is_dir() and os.environ.get("CI") != "true", reason=f"needs filter sets in {SETS}")
def test_a_filter_set_installed_by_packets_is_what_the_policy_says(controller, lab, figure):
    filters = [Filter(line) for line in (SETS / "acl1a.rules").read_text().splitlines()]
    lines = (SETS / "acl1a.trace").read_text().splitlines()
    headers = list(dict.fromkeys(tuple(map(int, line.split()[:5])) for line in lines))
    sendable = [header for header in headers if header[4] in TRANSPORT]
    # The rules are those that the packets of the trace ask for, and no others.
    maple = controller(POLICY, "--explore=0", environment={"FILTERS": str(SETS / "acl1a.rules")})
    net = lab(SingleSwitchTopo(k=4), maple, "OpenFlow13")
    source, to = net["h1"].MAC(), net["h2"].MAC()
    with net.running("h1", *TOOL, "frames", net["h1"].defaultIntf().name) as sender:
        for number, header in enumerate(sendable, 1):
            sender.stdin.write(frame(header, source, to).hex() + "\n")
            sender.stdin.flush()
            assert sender.stdout.readline() == "sent\n"
            # As fast as the policy decides, so that no switch or kernel queue runs over.
            if number % 20 == 0 or number == len(sendable):
                wait_for("packets to be decided", lambda: is_quiet(maple), timeout=30)
    net.wait_agreement(maple)
    rules = len(net.flows("s1"))

    dice = random.Random(1)
    answers = {header: answer(filters, header) for header in dice.sample(sendable, 520)}
    wrong = {h: (traced("s1", h, source, to), want) for h, want in answers.items()}
    wrong = {header: both for header, both in wrong.items() if both[0] != both[1]}
    assert not wrong

    # Headers that were never sent get the policy's answer or go to the controller.
    for header in dice.sample(sendable, 40):
        other = [*header]
        other[dice.randrange(4)] ^= 1 << dice.randrange(16)
        said = traced("s1", other, source, to)
        assert said in ("controller", answer(filters, other)), other
    figure(f"acl1a: {rules} rules of {len(sendable)} headers (of {len(headers)}; the rest is neither TCP nor UDP)")
