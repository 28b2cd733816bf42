"""The applications of `maple.apps` on Open vSwitch, each with packets of real hosts.

All of them run on one ring of four switches with a host at each, s1 to s4 and h1 to h4, one after the other.
"""

import subprocess
import sys
import time

import pytest
from harness import EXAMPLES, sh, vsctl, wait_for

pytest.importorskip("mininet", reason="system tests need Mininet")
from lab import TOOL, Ears, Lab, Part, line_of
from topologies import Rings

MARK = "a-datagram-of-the-tests"
MAC = {f"h{n}": f"00:00:00:00:00:0{n}" for n in range(1, 5)}

# Says who it is to TCP clients and to senders of datagrams, and whom it hears.
SERVE = """
import select, socket, sys
name, port = sys.argv[1], int(sys.argv[2])
tcp = socket.create_server(("", port))
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("", port))
print("ready", flush=True)
while True:
    for one in select.select([tcp, udp], [], [])[0]:
        if one is udp:
            _, peer = udp.recvfrom(999)
            udp.sendto(f"{name} {peer[0]}".encode(), peer)
        else:
            client, peer = tcp.accept()
            client.sendall(f"{name} {peer[0]}".encode())
            client.close()
"""
# Prints what such a server says.
CALL = """
import socket, sys
kind, address, port, own = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
one = socket.socket(socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
one.settimeout(4)
one.bind((own, 0))
try:
    one.connect((address, port))
    if kind == "udp":
        one.send(b"hello")
    print(one.recv(999).decode())
except OSError as error:
    print(error)
"""

# Sends a form and prints the status.
POST = """
import sys, urllib.error, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], sys.argv[2].encode(), timeout=5).status)
except urllib.error.HTTPError as error:
    print(error.code)
except OSError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def ring(openvswitch):
    """The ring, without a controller yet."""
    whole = Lab(Rings(protocols={"a": None}), port=None)
    try:
        whole.start()
        yield Part(whole, "a", None)
    finally:
        whole.stop()


@pytest.fixture
def under(ring, controller, lab, tmp_path):
    """A function that puts the ring under a policy, of a file or a text, with other addresses of its hosts."""
    lab.built.append(ring)

    def run(policy, addresses=None, gateway=None):
        for number, host in enumerate(ring.hosts):
            interface = host.defaultIntf().name
            own = (addresses or {}).get(f"h{number + 1}", f"10.0.{number}.1/16")
            host.cmd(f"ip addr flush dev {interface}; ip addr add {own} dev {interface}")
            if gateway and own.split(".")[0] == gateway.split(".")[0]:
                host.cmd(f"ip route add default via {gateway}")
        if not str(policy).endswith(".py"):
            file = tmp_path / "policy.py"
            file.write_text(policy)
            policy = file
        maple = controller(policy)
        ring.follow(maple)
        return maple

    yield run
    ring.stop()
    lab.built.remove(ring)


class Serving:
    """A host with such a server."""

    def __init__(self, net, host, port):
        command = [sys.executable, "-u", "-c", SERVE, host, str(port)]
        self.process = net[host].popen(command, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        assert self.process.stdout.readline() == "ready\n"

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


def call(net, host, kind, address, port, own="0.0.0.0"):
    """What the server says to a host."""
    command = [sys.executable, "-c", CALL, kind, address, str(port), own]
    return net[host].popen(command, stdout=subprocess.PIPE, text=True).communicate(timeout=20)[0].strip()


def fine(maple, net):
    """The switches have the rules that they should have, and nothing failed."""
    net.wait_agreement(maple)
    # Open vSwitch may connect twice when it is given another controller.
    assert [error for error in maple.errors() if "closed by the switch" not in error["text"]] == []
    assert maple.count("policy_errors") == 0


def test_who_has_not_logged_in_reaches_only_the_portal(under, ring, tmp_path):
    maple = under(EXAMPLES / "campus_login.py")
    users, program = tmp_path / "users.txt", [sys.executable, "-u", str(EXAMPLES / "campus_portal.py")]
    add = [*program, "--users", str(users), "--add", "alice"]
    subprocess.run(add, input="secret\n", text=True, check=True, start_new_session=True, stderr=subprocess.DEVNULL)
    assert "secret" not in users.read_text()
    program += ["--listen", "10.0.0.1:80", "--users", str(users), "--control", str(maple.control)]
    with (
        ring.running("h1", *program) as portal,
        Serving(ring, "h3", 8080),
        Ears(ring, ["h3", "h4"], MARK) as ears,
    ):
        assert portal.stdout.readline() == "listening on 10.0.0.1:80\n"
        maple.state("set", "authenticated", MAC["h3"], "true")

        def post(path, form):
            command = [sys.executable, "-c", POST, f"http://10.0.0.1/{path}", form]
            return ring["h2"].popen(command, stdout=subprocess.PIPE, text=True).communicate(timeout=20)[0].strip()

        assert post("login", "user=alice&password=wrong") == "403"
        assert ring.ping("h2", "10.0.0.1") == 1
        assert not call(ring, "h2", "tcp", "10.0.2.1", 8080).startswith("h3")
        ring.udp("h2", "10.0.255.255", 9, MARK)
        assert post("login", "user=alice&password=secret") == "200"
        assert call(ring, "h2", "tcp", "10.0.2.1", 8080) == "h3 10.0.1.1"
        assert ears.heard() == {"h3": 0, "h4": 0}, "a broadcast from before went to the portal alone"
        assert post("logout", "") == "200"
        assert not call(ring, "h2", "tcp", "10.0.2.1", 8080).startswith("h3")
    fine(maple, ring)


def test_arp_is_answered_and_not_flooded(under, ring):
    # Addresses whose bytes are text, so that ARP requests can be counted by them.
    addresses = {"h1": "97.98.99.101/8", "h2": "97.98.99.100/8"}
    maple = under(
        "from maple import tiers\nfrom maple.apps import arp_responder, routing\n"
        'network = tiers(arp_responder({"97.98.99.99": "02:00:00:00:00:fe"}), routing())\n',
        addresses,
    )
    assert ring.ping("h1", "97.98.99.100") == 1
    ring["h1"].cmd("ip neigh flush all")
    ring["h2"].cmd("ip neigh flush all")
    with Ears(ring, ["h2", "h3", "h4"], "abcd") as ears:
        assert ring.ping("h1", "97.98.99.100", count=2) == 2
        # The pings themselves carry the address, but reach h2 alone.
        heard = ears.heard()
        assert (heard["h3"], heard["h4"]) == (0, 0), "nobody else heard a request"
    ring.ping("h1", "97.98.99.99")
    assert "02:00:00:00:00:fe" in ring["h1"].cmd("ip neigh show 97.98.99.99")
    fine(maple, ring)


def test_a_rogue_dhcp_server_is_not_heard(under, ring):
    maple = under(
        "from maple import tiers\nfrom maple.apps import dhcp_guard, routing\n"
        "network = tiers(dhcp_guard(servers=[(1, 1)]), routing())\n"
    )
    with Ears(ring, ["h3", "h4"], MARK) as ears:
        ring.udp("h2", "10.0.255.255", 68, MARK)
        ring.udp("h2", "10.0.255.255", 67, MARK)
        wait_for("the client's request", lambda: ears.heard() == {"h3": 1, "h4": 1}, timeout=5)
        ring.udp("h1", "10.0.255.255", 68, MARK)
        wait_for("the right server's offer", lambda: ears.heard() == {"h3": 2, "h4": 2}, timeout=5)
        time.sleep(0.3)
        assert ears.heard() == {"h3": 2, "h4": 2}
    fine(maple, ring)


def test_clients_of_one_address_reach_several_servers(under, ring):
    maple = under(
        "from maple import Ip, Table, tiers\nfrom maple.apps import load_balancer, routing\n"
        f'SERVERS = {{"10.0.2.1": "{MAC["h3"]}", "10.0.3.1": "{MAC["h4"]}"}}\n'
        'down = Table("web.down", key=Ip, value=bool)\n'
        'network = tiers(load_balancer("10.0.0.100", SERVERS, port=80, down=down), routing())\n'
    )
    interface = ring["h1"].defaultIntf().name
    ring["h1"].cmd(f"ip addr add 10.0.0.2/16 dev {interface}")
    with Serving(ring, "h3", 80), Serving(ring, "h4", 80):

        def asked():
            return [call(ring, "h1", "tcp", "10.0.0.100", 80, own) for own in ("10.0.0.1", "10.0.0.2")]

        assert asked() == ["h4 10.0.0.1", "h3 10.0.0.2"]
        assert ring.ping("h1", "10.0.0.100") == 1
        maple.state("set", "web.down", '"10.0.3.1"', "true", "--settled")
        assert asked() == ["h3 10.0.0.1", "h3 10.0.0.2"]
    fine(maple, ring)


def test_clients_of_a_server_whose_port_is_down_reach_the_other_one_until_it_is_up(under, ring):
    maple = under(
        "from maple import tiers\nfrom maple.apps import load_balancer, routing\n"
        f'SERVERS = {{"10.0.2.1": "{MAC["h3"]}", "10.0.3.1": "{MAC["h4"]}"}}\n'
        'network = tiers(load_balancer("10.0.0.100", SERVERS, port=80), routing())\n'
    )
    ring["h1"].cmd(f"ip addr add 10.0.0.2/16 dev {ring['h1'].defaultIntf().name}")
    port = f"{ring['s4'].name}-eth1"

    def asked():
        return [call(ring, "h1", "tcp", "10.0.0.100", 80, own) for own in ("10.0.0.1", "10.0.0.2")]

    def serve(*servers):
        """Waits for these servers, and then gets no others."""
        wanted = [f"{servers[0]} 10.0.0.1", f"{servers[1]} 10.0.0.2"]
        wait_for(f"{servers} to serve", lambda: asked() == wanted)
        ring.wait_agreement(maple)
        ring.settle()
        assert [asked() for _ in range(5)] == [wanted] * 5

    with Serving(ring, "h3", 80), Serving(ring, "h4", 80):
        serve("h4", "h3")
        sh("ip", "link", "set", port, "down")
        try:
            serve("h3", "h3")
        finally:
            sh("ip", "link", "set", port, "up")
        serve("h4", "h3")
    ring.wait_agreement(maple)
    assert maple.count("policy_errors") == 0


def test_inside_hosts_talk_to_the_world_under_one_address(under, ring):
    addresses = {"h1": "192.168.7.1/24", "h2": "192.168.7.2/24", "h4": "203.0.113.1/24"}
    maple = under(
        "from maple import tiers\nfrom maple.apps import nat, routing\n"
        'gateway = nat("192.168.7.254/24", "203.0.113.2", uplink=(4, 1), next_hop="203.0.113.1",\n'
        '              ports=range(1024, 60000), forward={("tcp", 60080): ("192.168.7.2", 80)})\n'
        "network = tiers(gateway, routing())\n",
        addresses,
        gateway="192.168.7.254",
    )
    with Serving(ring, "h4", 80), Serving(ring, "h2", 80):
        for host in ("h1", "h2"):
            # The first packet makes the gateway ask for its next hop.
            wait_for("the gateway", lambda host=host: ring.ping(host, "203.0.113.1") == 1, timeout=5)
            for kind in ("tcp", "udp"):
                assert call(ring, host, kind, "203.0.113.1", 80) == "h4 203.0.113.2"
        wait_for("three answers", lambda: ring.ping("h1", "203.0.113.1", count=3) == 3, timeout=10)
        assert ring.ping("h1", "192.168.7.254") == 1
        assert ring.ping("h4", "203.0.113.2") == 1
        assert call(ring, "h4", "tcp", "203.0.113.2", 60080) == "h2 203.0.113.1"
        assert call(ring, "h4", "tcp", "203.0.113.2", 60081) == "timed out"
    fine(maple, ring)


def test_vlans_keep_apart_and_a_gateway_joins_them(under, ring):
    addresses = {"h1": "10.1.10.1/24", "h2": "10.1.20.2/24", "h3": "10.1.10.3/24", "h4": "10.1.99.4/24"}
    maple = under(
        "from maple.apps import vlans\n"
        "network = vlans({(1, 1): 10, (2, 1): 20, (3, 1): 10}, {(4, 1): [10, 20]},\n"
        '                gateways={10: "10.1.10.254/24", 20: "10.1.20.254/24"})\n',
        addresses,
    )
    for host, vlan in (("h1", 10), ("h2", 20), ("h3", 10)):
        ring[host].cmd(f"ip route add default via 10.1.{vlan}.254")
    assert ring.ping("h1", "10.1.10.3") == 1, "within VLAN 10"
    assert ring.ping("h1", "10.1.10.254") == 1, "the gateway"
    wait_for("h2 to be found", lambda: ring.ping("h1", "10.1.20.2") == 1, timeout=5)
    with Serving(ring, "h2", 80):
        assert call(ring, "h1", "tcp", "10.1.20.2", 80) == "h2 10.1.10.1"
    trunk = ring["h4"].defaultIntf().name
    with ring.running("h4", *TOOL, "listen", trunk, MARK) as hears, Ears(ring, ["h1", "h2", "h3"], MARK) as ears:
        assert line_of(hears) == "ready\n"
        # A broadcast in VLAN 10: of a host without a tag, which the trunk gets with one.
        ring.tool("h1", "udp", "255.255.255.255", 9, "10.1.10.1", MARK)
        assert line_of(hears)[24:36] == "8100000a0800"
        wait_for("the broadcast", lambda: ears.heard() == {"h1": 0, "h2": 0, "h3": 1}, timeout=5)
        # One in VLAN 20, from the trunk.
        with ring.running("h4", *TOOL, "frames", trunk) as says:

            def say(hexes):
                says.stdin.write(hexes + "\n")
                says.stdin.flush()
                assert line_of(says) == "sent\n"

            head = ("ff" * 6) + MAC["h4"].replace(":", "") + "81000014"
            say(head + "88b5" + MARK.encode().hex())
            wait_for("the broadcast", lambda: ears.heard() == {"h1": 0, "h2": 1, "h3": 1}, timeout=5)
            # Its address in VLAN 20, to which the gateway then sends what comes from VLAN 10.
            own = MAC["h4"].replace(":", "") + "0a011404"
            say(head + "0806" + "0001080006040001" + own + "000000000000" + "0a011404")
        wait_for("h4 to be known", lambda: "10.1.20.4" in str(maple.show("hosts")), timeout=5)
        ring.tool("h1", "udp", "10.1.20.4", 9, "10.1.10.1", MARK)
        wanted = MAC["h4"].replace(":", "") + "02000a010afe" + "810000140800"
        assert line_of(hears)[:36] == wanted
    fine(maple, ring)


def test_a_vlan_serves_the_ports_that_are_there_while_one_goes_and_comes(under, ring):
    maple = under("from maple.apps import vlans\nnetwork = vlans({(1, 1): 10, (2, 1): 10, (3, 1): 10, (1, 9): 10})\n")

    def broadcast(heard):
        with Ears(ring, ["h2", "h3"], MARK) as ears:
            ring.tool("h1", "udp", "10.0.255.255", 9, "10.0.0.1", MARK)
            wait_for("the broadcast", lambda: ears.heard() == heard, timeout=5)

    broadcast({"h2": 1, "h3": 1})
    switch, port = ring["s3"].name, f"{ring['s3'].name}-eth1"
    vsctl("del-port", switch, port)
    try:
        kinds = lambda: [port["kind"] for known in maple.show("switches") for port in known["ports"]]  # noqa: E731
        wait_for("the port to be gone", lambda: kinds().count("edge") == 3)
        ring.wait_agreement(maple)
        broadcast({"h2": 1, "h3": 0})
    finally:
        vsctl("add-port", switch, port, "--", "set", "Interface", port, "ofport_request=1")
    ring.wait_known(maple)
    ring.wait_agreement(maple)
    broadcast({"h2": 1, "h3": 1})
    assert maple.count("policy_errors") == 0
    told = [error["text"] for error in maple.show("errors") if "leaves out" in error["text"]]
    assert sorted(text.split("leaves out ")[1].split(",")[0] for text in told) == [f"{1:016x}:9", f"{3:016x}:1"], told


def test_flows_take_both_ways_round_the_ring(under, ring):
    maple = under("from maple import tiers\nfrom maple.apps import ecmp, routing\nnetwork = tiers(ecmp(), routing())\n")
    with Serving(ring, "h3", 80):
        assert {call(ring, "h1", "tcp", "10.0.2.1", 80) for _ in range(12)} == {"h3 10.0.0.1"}
    wait_for("both ways to be used", lambda: ring.passing("s2") > 0 and ring.passing("s4") > 0, timeout=5)
    fine(maple, ring)
    towards = {ring.port_towards("s1", name) for name in ("s2", "s4")}
    assert ring.outputs("s1", "tcp", dst="h3") == towards


def test_a_mirror_gets_copies(under, ring):
    maple = under(
        "from maple import tiers\nfrom maple.apps import mirror, routing\n"
        'network = tiers(mirror((4, 1), {"udp_dst": 9}), routing())\n'
    )
    assert ring.ping("h1", "10.0.1.1") == 1
    with Ears(ring, ["h2", "h3", "h4"], MARK) as ears:
        for port in (9, 10, 9):
            ring.udp("h1", "10.0.1.1", port, MARK)
        # h2 has no such port and says so to h1, quoting what it got: that is not mirrored.
        wait_for("the copies", lambda: ears.heard() == {"h2": 3, "h3": 0, "h4": 2}, timeout=5)
        time.sleep(0.3)
        assert ears.heard() == {"h2": 3, "h3": 0, "h4": 2}
    fine(maple, ring)


def test_a_rate_limit_limits(under, ring):
    maple = under(
        "from maple import tiers\nfrom maple.apps import rate_limit, routing\n"
        'network = tiers(rate_limit(pps=20, burst=20, where={"udp_dst": 9}), routing())\n'
    )
    assert ring.ping("h1", "10.0.1.1") == 1
    send = (
        "import socket, sys, time\ns = socket.socket(2, 2)\n"
        "for _ in range(200): s.sendto(sys.argv[3].encode(), (sys.argv[1], int(sys.argv[2]))); time.sleep(0.005)"
    )
    with Ears(ring, ["h2"], MARK) as ears:
        for port, least, most in ((9, 10, 150), (10, 190, 200)):
            before = ears.heard()["h2"]
            ring.udp("h1", "10.0.1.1", port, MARK)
            wait_for("the first one", lambda before=before: ears.heard()["h2"] == before + 1)
            before += 1
            ring["h1"].popen([sys.executable, "-c", send, "10.0.1.1", str(port), MARK]).wait()
            time.sleep(0.5)
            assert least <= ears.heard()["h2"] - before <= most, port
    fine(maple, ring)
