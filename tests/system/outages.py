"""Control connections that end while datapaths go on, and what must not be lost meanwhile."""

import functools
import time
from contextlib import contextmanager

from harness import free_port, vsctl, wait_for
from lab import Pinger


@contextmanager
def away(maple, *bridges):
    """These bridges look for their controller where nobody listens, for the block; then they find it again. (Without a
    controller Open vSwitch would delete its rules itself.)"""
    ups, all_of_them = maple.count("of_dp_connections"), len(maple.show("switches"))
    for bridge in bridges:
        vsctl("set-controller", bridge, f"tcp:127.0.0.1:{free_port()}")
    wait_for("the ends", lambda: len(maple.connected()) == all_of_them - len(bridges))
    yield
    for bridge in bridges:
        vsctl("set-controller", bridge, f"tcp:127.0.0.1:{maple.port}")
    wait_for("the switches", lambda: len(maple.connected()) == all_of_them)
    wait_for("the connections", lambda: maple.count("of_dp_connections") == ups + len(bridges))


def rules(net):
    return {switch.name: net.flows(switch.name) for switch in net.switches}


def wait_probed(maple):
    """Waits until discovery has asked all links again, which confirms or ends them: it probes a port that came up four
    times within half a second, and each port every five seconds. A probe is one frame or two, which are counted."""
    frames = functools.partial(maple.count, "lldp_probes")
    ports = sum(port["up"] for switch in maple.connected() for port in switch["ports"])

    def quick_ones_are_over():
        before = frames()
        time.sleep(0.3)
        return frames() == before

    wait_for("the end of the quick probes", quick_ones_are_over)
    round_sent = frames() + 2 * ports
    wait_for(f"{round_sent} frames of probes", lambda: frames() >= round_sent, timeout=40)


@contextmanager
def nothing_is_lost(maple, net, figure, what):
    """Pings are answered for the block and until discovery has asked all links again, and no rule changes."""
    before, changes = rules(net), maple.count("flow_mods")
    with Pinger(net, "h1", "h3") as ping:
        yield
        wait_probed(maple)
        lost, sent = ping.end()
    figure(f"{what}: {lost} of {sent} pings lost")
    assert lost == 0
    assert maple.count("flow_mods") == changes
    assert rules(net) == before
    net.wait_known(maple)
    assert net.ping_all()[0] == 0
