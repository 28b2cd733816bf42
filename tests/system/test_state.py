"""Other programs change state while the network runs: `maple state` as a process of its own, on Open vSwitch."""

import itertools
import json
import subprocess
import threading
import time
from contextlib import contextmanager

import pytest
from harness import EXAMPLES, MAPLE, rust_example, sh, wait_for

pytest.importorskip("mininet", reason="system tests need Mininet")
from lab import TOOL, is_label_rule, is_route_rule
from mininet.topo import LinearTopo
from topologies import Ring

PORT = 5001
LANGUAGES = pytest.mark.parametrize("language", ["Python", "Rust"])


@contextmanager
def stream(net, a, b):
    """A TCP connection on which a sends every 2 ms; gives a growing list of the times at which b's echoes came."""
    times = []
    with net.running(a, *TOOL, "stream", net[b].IP(), str(PORT)) as process:

        def read():
            for line in process.stdout:
                times.append(float(line))

        reader = threading.Thread(target=read)
        reader.start()
        wait_for("the stream to run", lambda: len(times) > 100)
        yield times
        process.kill()
        reader.join()


@contextmanager
def stream_of_pings(net, a, b):
    """Pings from a to b; gives a growing list of the times at which answers came."""
    times = []
    with net.running(a, "stdbuf", "-oL", "ping", "-n", "-i", "0.05", net[b].IP()) as process:

        def read():
            for line in process.stdout:
                if "bytes from" in line:
                    times.append(time.time())

        reader = threading.Thread(target=read)
        reader.start()
        yield times
        process.kill()
        reader.join()


def blocklist(controller, language, folder):
    empty = folder / "blocklist.txt"
    empty.write_text("")
    program = [rust_example("blocklist")] if language == "Rust" else None
    return controller(EXAMPLES / "blocklist.py", program=program, environment={"MAPLE_BLOCKLIST": str(empty)})


def decided(net):
    """The decisions about packets from or to h1."""
    return {line for s in net.switches for line in [*net.decisions(s.name, src="h1"), *net.decisions(s.name, dst="h1")]}


@LANGUAGES
def test_a_stream_of_a_host_that_is_blocked_stops_and_other_rules_stay(controller, lab, figure, tmp_path, language):
    maple = blocklist(controller, language, tmp_path)
    net = lab(Ring(), maple)
    assert net.ping_all()[0] == 0
    mac = net["h1"].MAC()
    with (
        net.serving("h3", PORT),
        net.serving("h4", PORT),
        stream(net, "h1", "h3") as own,
        stream(net, "h2", "h4") as other,
    ):
        net.wait_agreement(maple)
        before = {switch.name: set(net.dump(switch.name)) for switch in net.switches}
        of_host = decided(net)
        flow_mods = maple.count("of_flow_mods")
        started = time.time()
        maple.state("set", "blocked", mac, "true", "--settled")
        returned = time.time()
        time.sleep(0.2)
        last = own[-1]
        time.sleep(0.5)
        assert own[-1] == last, "it goes on"
        net.wait_agreement(maple)
        after = {switch.name: set(net.dump(switch.name)) for switch in net.switches}
        of_host |= decided(net)
        flow_mods = maple.count("of_flow_mods") - flow_mods
        seen = [at for at in own if at >= started]
        figure(
            f"a host is blocked, {language}: settled, and caches follow, after {1000 * (returned - started):.0f} ms, "
            f"and the last of {len(seen)} echoes meanwhile came {1000 * (returned - own[-1]):.0f} ms before its end"
        )
        changed = [line for name in before for line in before[name] ^ after[name]]
        assert changed
        # Routes and labels that are no longer used go too.
        others = [line for line in changed if mac not in line and line not in of_host]
        assert all(is_route_rule(line) or is_label_rule(line) for line in others), others
        assert 0 < flow_mods <= 2 * len(changed), "one each, and one more for a key that is diverted first"
        gaps = [b - a for a, b in itertools.pairwise(other) if b > started]
        assert max(gaps) < 1, "nobody else notices"
        # It may talk again as soon as it is taken off the list: TCP keeps trying.
        maple.state("delete", "blocked", mac)
        wait_for("the stream to go on", lambda: own[-1] > returned + 1, timeout=30)
    assert maple.errors() == []


@contextmanager
def watching(maple, *place):
    """`maple state watch` as a process; it ends with the block."""
    command = [MAPLE, "state", "watch", *place, "--control", str(maple.control)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process):
    """The next line that a program prints; why it ended, if it did."""
    line = process.stdout.readline()
    assert line, process.communicate()
    return line


def test_state_is_read_written_and_watched_by_processes(controller, lab, tmp_path):
    policy = tmp_path / "modes.py"
    policy.write_text(
        "import threading, time\n"
        "from maple import Table, Var, drop, flood, policy\n"
        'mode, seen, ticks = Var("mode", "day"), Table("seen"), Var("ticks", 0)\n'
        "@policy\n"
        "def modes(pkt, net):\n"
        "    if pkt.eth_src not in seen:\n"
        "        seen[pkt.eth_src] = pkt.switch\n"
        '    return flood() if mode.value == "day" else drop()\n'
        "def tick():\n"
        "    while True:\n"
        "        time.sleep(0.05)\n"
        "        ticks.value += 1\n"
        "threading.Thread(target=tick, daemon=True).start()\n"
    )
    maple = controller(policy)
    net = lab(Ring(), maple)
    assert json.loads(maple.state("get", "mode", "--var")) == "day"
    assert net.ping("h1", "h2") == 1
    seen = dict(json.loads(maple.state("get", "seen")))
    assert seen[net["h1"].MAC()] == 1 and seen[net["h2"].MAC()] == 2
    # What a thread of the policy's own process writes is seen by others.
    first = int(maple.state("get", "ticks", "--var"))
    wait_for("the thread's writes", lambda: int(maple.state("get", "ticks", "--var")) > first)
    with watching(maple, "mode", "--var") as watch:
        assert json.loads(said(watch)) == "day"
        maple.state("set", "mode", "night", "--var", "--settled")
        assert json.loads(said(watch)) == "night"
    assert net.ping("h1", "h2") == 0
    maple.state("set", "mode", "day", "--var", "--settled")
    assert net.ping("h1", "h2") == 1
    with pytest.raises(RuntimeError, match="there is no table sean"):
        maple.state("get", "sean")


@LANGUAGES
def test_bandwidth_is_granted_when_it_is_free(controller, lab, figure, language):
    program = [rust_example("bandwidth")] if language == "Rust" else None
    maple = controller(EXAMPLES / "bandwidth.py", program=program)
    net = lab(LinearTopo(k=2, n=2), maple)
    assert net.ping_all()[0] == 0

    def flow(a, b):
        return json.dumps([net[a].IP(), net[b].IP()])

    def granted():
        return [key for key, _ in json.loads(maple.state("get", "granted"))]

    def has(*flows):
        return lambda: granted() == [json.loads(one) for one in flows]

    one, other = flow("h1s1", "h1s2"), flow("h2s1", "h2s2")
    maple.state("set", "demands", one, "60", "--settled")
    wait_for("the first to be granted", has(one))
    maple.state("set", "demands", other, "60", "--settled")
    assert net.ping("h1s1", "h1s2") == 1
    assert net.ping("h1s1", "h2s2") == 1, "others are best effort"
    before = time.time()
    with stream_of_pings(net, "h2s1", "h2s2") as answers:
        time.sleep(1)
        assert answers == [] and granted() == [json.loads(one)], "it waits for capacity"
        released = time.time()
        maple.state("delete", "demands", one)
        wait_for("the second to be granted", has(other))
        wait_for("answers", lambda: answers)
    figure(f"bandwidth, {language}: the first answer comes {1000 * (answers[0] - released):.0f} ms after the release")
    assert answers[0] > before
    ((link, total),) = (pair for pair in json.loads(maple.state("get", "used")) if pair[1] != 0)
    assert (link, total) == ([1, net.port_towards("s1", "s2")], 60)
    maple.state("delete", "demands", other)
    wait_for("all to be given back", has())
    assert all(total == 0 for _, total in json.loads(maple.state("get", "used")))
    assert maple.errors() == []


@LANGUAGES
def test_handlers_share_the_networks_state(controller, lab, language):
    program = [rust_example("learning_network_handler")] if language == "Rust" else None
    maple = controller(EXAMPLES / "learning_network_handler.py", program=program)
    net = lab(LinearTopo(k=3), port=maple.port)
    wait_for("hosts to reach each other", lambda: net.ping_all()[0] == 0)
    text = maple.state("get", "hosts")
    # The switches' own interfaces may have spoken as well.
    assert all(host.MAC() in text for host in net.hosts)
    numbers = sorted(number for _, (number, *_) in json.loads(text))
    assert numbers == list(range(1, len(numbers) + 1)), "no two have one number"
    maple.state("set", "blocked", net["h1"].MAC() if language == "Python" else f"mac:{net['h1'].MAC()}", "true")
    # Rules that were there stay until they are not used for some seconds; so they are taken away here.
    for switch in net.switches:
        sh("ovs-ofctl", "-O", net.protocol, "del-flows", switch.name, f"dl_src={net['h1'].MAC()}")
    assert net.ping("h1", "h2") == 0
    assert net.ping("h2", "h3") == 1
