"""Each example on Open vSwitch keeps what its policy promises: in Python and in Rust, whatever version is spoken.

All runs of one example go on at a time, each with a controller and a ring of its own, as they mostly wait.
"""

import subprocess
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness import EXAMPLES, MAPLE, rust_example, wait_for

pytest.importorskip("mininet", reason="system tests need Mininet")
from lab import Ears, Lab, Part
from topologies import Rings

MARK = "a-datagram-of-the-tests"
HOSTS = ["h1", "h2", "h3", "h4"]

# Prefix of a ring's nodes: language of its policies, and the version that its switches are confined to.
RUNS = {
    "a": ("Python", None),
    "b": ("Python", "OpenFlow10"),
    "c": ("Python", "OpenFlow13"),
    "d": ("Rust", None),
    "e": ("Rust", "OpenFlow10"),
}

ACL = """
permit arp
permit icmp any any
deny   tcp  10.0.0.1 10.0.2.1 23
permit tcp  10.0.0.0/23 any 20-80
permit tcp  any any 32768-65535   # answers
deny   ip   any any
"""


@pytest.fixture(scope="module")
def rings(openvswitch):
    """A ring of four switches for each run, without a controller yet."""
    whole = Lab(Rings(protocols={prefix: protocols for prefix, (_, protocols) in RUNS.items()}), port=None)
    try:
        whole.start()
        yield {prefix: Part(whole, prefix, protocols) for prefix, (_, protocols) in RUNS.items()}
    finally:
        whole.stop()


@pytest.fixture
def everywhere(rings, controller, lab, tmp_path):
    """A function that does `check(maple, net, folder)` for all runs of an example.

    `prepare(folder)` gives the variables that a run needs in its environment; with `flaps` the check takes links down.
    """

    def run(prefix, example, check, prepare, flaps):
        language, _ = RUNS[prefix]
        net, folder = rings[prefix], tmp_path / prefix
        folder.mkdir()
        program = [rust_example(example)] if language == "Rust" else None
        maple = controller(EXAMPLES / f"{example}.py", program=program, environment=prepare(folder))
        net.follow(maple)
        check(maple, net, folder)
        net.wait_agreement(maple)
        # While a link flaps its interfaces send frames of their own, and LLDP comes late.
        assert flaps or maple.errors() == []
        assert maple.count("policy_errors") == 0

    def run_all(example, check, prepare=lambda folder: {}, flaps=False):
        lab.built.extend(rings.values())
        with ThreadPoolExecutor(len(RUNS)) as pool:
            runs = {prefix: pool.submit(run, prefix, example, check, prepare, flaps) for prefix in RUNS}
        errors = {prefix: run.exception() for prefix, run in runs.items() if run.exception()}
        told = []
        for prefix, error in errors.items():
            language, protocols = RUNS[prefix]
            told.append(f"{language}, {protocols or 'default protocols'} (nodes {prefix}…):")
            told.extend(traceback.format_exception(type(error), error, error.__traceback__))
        if errors:
            pytest.fail(f"{example} failed in {len(errors)} of {len(RUNS)} runs\n" + "\n".join(told), pytrace=False)

    return run_all


def settled(ears, expected):
    """Waits until as many copies came as are expected, then gives surplus ones time to come as well."""
    wait_for("the datagram", lambda: sum(ears.heard().values()) >= sum(expected.values()), timeout=5)
    time.sleep(0.3)
    return ears.heard()


def test_learning_floods_only_what_it_has_not_learned(everywhere):
    def check(maple, net, folder):
        assert net.ping_all()[0] == 0
        with Ears(net, HOSTS, MARK) as ears:
            net.udp("h1", net["h2"].IP(), 9, MARK)
            # h2 has no such port and says so, quoting what it got.
            expected = {"h1": 1, "h2": 1, "h3": 0, "h4": 0}
            assert settled(ears, expected) == expected
        before = maple.count("misses")
        assert net.ping("h1", "h3", count=5) == 5
        assert maple.count("misses") - before <= 2, "what is learned is answered by rules"

    everywhere("learning", check)


def test_secure_routing_takes_ssh_the_long_way_round(everywhere):
    def check(maple, net, folder):
        assert net.ping_all()[0] == 0
        with net.serving("h2", 22, 80):
            for port in (22, 80, 22, 80):
                assert net.tcp("h1", "h2", port)
        # Open vSwitch gathers its counters twice a second.
        wait_for("s4 to have passed ssh on", lambda: net.passing("s4") > 0)
        net.wait_agreement(maple)
        towards = {name: net.port_towards("s1", name) for name in ("s2", "s4")}
        assert net.outputs("s1", "tp_dst=22", src="h1", dst="h2") == {towards["s4"]}
        assert net.outputs("s1", src="h1", dst="h2") == set(towards.values()), "the rest goes straight"

    everywhere("secure_routing", check)


def test_shortest_path_leaves_out_the_long_way_and_broadcasts_without_loops(everywhere):
    def check(maple, net, folder):
        assert net.ping_all()[0] == 0
        net.wait_agreement(maple)
        pair = {"src": "h1", "dst": "h2"}
        assert net.ping("h1", "h2", count=5) == 5
        wait_for("s1 to have counted them", lambda: net.flow_packets("s1", **pair) >= 5)
        assert net.outputs("s1", **pair) == {net.port_towards("s1", "s2")}
        for name in ("s2", "s3", "s4"):
            assert net.flow_packets(name, **pair) == 0, "they pass there with a label"
        with Ears(net, HOSTS, MARK) as ears:
            net.udp("h1", "10.0.255.255", 9, MARK)
            expected = {"h1": 0, "h2": 1, "h3": 1, "h4": 1}
            assert settled(ears, expected) == expected

    everywhere("shortest_path", check)


def test_acl_permits_and_denies_line_by_line(everywhere):
    def prepare(folder):
        (folder / "acl.txt").write_text(ACL)
        return {"MAPLE_ACL": str(folder / "acl.txt")}

    def check(maple, net, folder):
        assert net.ping_all()[0] == 0
        with net.serving("h3", 22, 23, 443), net.serving("h2", 23, 80, 81):
            assert net.tcp("h1", "h3", 22)
            assert net.tcp("h2", "h3", 23)
            assert net.tcp("h1", "h2", 23)
            assert net.tcp("h1", "h2", 80)
            assert not net.tcp("h1", "h2", 81, timeout=0.5)
            assert not net.tcp("h1", "h3", 23, timeout=0.5)
            assert not net.tcp("h2", "h3", 443, timeout=0.5)
            assert not net.tcp("h4", "h3", 22, timeout=0.5)

    everywhere("acl", check, prepare)


def test_mt_route_keeps_tenants_apart_and_gives_each_its_own_paths(everywhere):
    # h1 and h2 are of the red tenant, for which the link between them is expensive; h3 and h4 are of the blue one.
    tenants = [("h1", "h2"), ("h3", "h4")]

    def check(maple, net, folder):
        for a in HOSTS:
            for b in HOSTS:
                if a != b:
                    friends = (a, b) in tenants or (b, a) in tenants
                    assert net.ping(a, b, timeout=2 if friends else 0.3) == friends, (a, b)
        with Ears(net, HOSTS, MARK) as ears:
            net["h1"].setARP(net["h3"].IP(), net["h3"].MAC())
            net.udp("h1", net["h3"].IP(), 9, MARK)
            net.udp("h1", net["h2"].IP(), 9, MARK)
            expected = {"h1": 1, "h2": 1, "h3": 0, "h4": 0}
            assert settled(ears, expected) == expected
        net.wait_agreement(maple)
        red = ["nw_src=10.0.0.0/24", "nw_dst=10.0.1.0/24"]
        blue = ["nw_src=10.0.2.0/24", "nw_dst=10.0.3.0/24"]
        wait_for("red to be counted", lambda: net.flow_packets("s1", *red) > 0)
        wait_for("red to go the long way round", lambda: net.passing("s4") > 0)
        wait_for("blue to be counted", lambda: net.flow_packets("s3", *blue) > 0)
        before = net.port_packets("s3", net.port_towards("s3", "s2"))
        assert net.ping("h3", "h4", count=5) == 5
        assert net.port_packets("s3", net.port_towards("s3", "s2")) - before <= 3, "blue goes straight"

    everywhere("mt_route", check)


def test_multicast_group_gives_every_member_one_copy_and_others_none(everywhere):
    groups = {"239.1.1.1": ["h2", "h3", "h4"], "239.1.1.2": ["h1", "h3"], "239.9.9.9": []}

    def check(maple, net, folder):
        assert net.ping_all()[0] == 0
        for number, (group, members) in enumerate(groups.items()):
            for sender in ("h1", "h4"):
                mark = f"{MARK} {number} {sender}"
                with Ears(net, HOSTS, mark) as ears:
                    expected = {host: int(host in members and host != sender) for host in HOSTS}
                    # The first goes through the controller, the second by rules.
                    net.udp(sender, group, 9, mark)
                    assert settled(ears, expected) == expected
                    net.udp(sender, group, 9, mark)
                    twice = {host: 2 * copies for host, copies in expected.items()}
                    assert settled(ears, twice) == twice

    everywhere("multicast_group", check)


def test_blocklist_changes_at_run_time_and_leaves_others_alone(everywhere, figure):
    def prepare(folder):
        (folder / "blocklist.txt").write_text("# nobody\n")
        return {"MAPLE_BLOCKLIST": str(folder / "blocklist.txt")}

    def check(maple, net, folder):
        blocklist = folder / "blocklist.txt"
        assert net.ping_all()[0] == 0
        net.wait_agreement(maple)

        def of_others():
            """The rules between h1 and h2, with cookies: a rule taken out and put in again would have another."""
            both_ways = [("s1", "h1", "h2"), ("s2", "h2", "h1")]
            return [sorted(net.decisions(switch, src=src, dst=dst)) for switch, src, dst in both_ways]

        others = of_others()
        assert all(others)
        blocklist.write_text(f"{net['h3'].MAC()}\n")
        start = time.monotonic()
        wait_for("h3 to be blocked", lambda: not net.ping("h1", "h3", timeout=0.3), timeout=5)
        took = time.monotonic() - start
        language, protocols = RUNS[net.prefix]
        who = f"{language}, {protocols or 'default protocols'}"
        figure(f"a host enters the blocklist's file, {who}: blocked within {took:.2f} s")
        assert not net.ping("h3", "h2", timeout=0.5)
        assert net.ping("h1", "h2", count=3) == 3
        assert of_others() == others
        blocklist.write_text("# nobody again\n")
        wait_for("h3 to be free", lambda: net.ping("h1", "h3", timeout=0.3), timeout=5)
        assert net.ping("h3", "h2", count=3) == 3
        assert of_others() == others

    everywhere("blocklist", check, prepare)


def test_topology_and_the_live_view_report_links_that_go_and_come_back(everywhere):
    def check(maple, net, folder):
        wait_for("the example to tell of the ring", lambda: maple.text().count(" is there") == 8)
        assert net.ping_all()[0] == 0
        file = folder / "view"
        command = [MAPLE, "show", "topology", "--watch", "--control", str(maple.control)]
        with file.open("w") as out, subprocess.Popen(command, stdout=out) as view:
            try:
                wait_for("the picture", lambda: file.read_text().startswith("4 switches, 4 links, 4 hosts\n"))
                ends = f"1:{net.port_towards('s1', 's2')} - 2:{net.port_towards('s2', 's1')}"
                with net.link_down("s1", "s2"):
                    wait_for("the example to miss the link", lambda: f"link {ends} is gone" in maple.text())
                    wait_for("the view to miss the link", lambda: " down\n" in file.read_text())
                    wait_for("the long way round", lambda: net.ping("h1", "h2", timeout=2))
                net.wait_known(maple)
                wait_for("the example to see it again", lambda: maple.text().count(f"link {ends} is there") == 2)
                wait_for("the view to see it again", lambda: " up\n" in file.read_text())
            finally:
                view.kill()

    everywhere("topology", check, flaps=True)


def test_parallel_paths_follow_links_that_go_and_come_back(everywhere):
    def check(maple, net, folder):
        assert net.ping_all()[0] == 0
        straight, round_about = net.port_towards("s1", "s2"), net.port_towards("s1", "s4")
        assert net.outputs("s1", src="h1", dst="h2") == {straight}
        with net.link_down("s1", "s2"):
            net.wait_known(maple, down=1)
            before = net.passing("s4")
            # The first answered ping may have gone through the controller.
            wait_for(
                "s4 to have passed pings on", lambda: net.ping("h1", "h2", timeout=2) and net.passing("s4") > before
            )
            assert net.outputs("s1", src="h1", dst="h2") == {round_about}
        net.wait_known(maple)
        wait_for("h2 to be reached", lambda: net.ping("h1", "h2", timeout=2))
        wait_for("the short way", lambda: net.outputs("s1", src="h1", dst="h2") == {straight})

    everywhere("parallel_paths", check, flaps=True)


def test_a_built_in_policy_runs_as_well(rings, controller, lab):
    maple, net = controller("builtin:secure-routing"), rings["a"]
    lab.built.append(net)
    net.follow(maple)
    assert net.ping_all()[0] == 0
    net.wait_agreement(maple)
    assert maple.errors() == []
