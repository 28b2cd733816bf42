#!/usr/bin/env python3
"""Records what Ryu answers at its REST paths, with the messages of Open vSwitch that it answers from.

usage, as root: tests/in-namespaces python3 tests/ryu-answers/record.py RYU_MANAGER

RYU_MANAGER is the program of Ryu 4.34. That runs on Python 3.9: `pip install setuptools==57.5.0 'wheel<0.40'
eventlet==0.30.2`, then `pip install --no-build-isolation ryu==4.34`. Writes
crates/maple-controller/tests/recorded/ryu-4.34.json: for OpenFlow 1.0 and 1.3 each path with the switch's messages in hex
digits and the answer, and the answers of `rest_topology` about two switches with a host each. Bridges, namespaces and
Ryu end with it.
"""

# ruff: noqa: E501

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

OUT = Path(__file__).resolve().parents[2] / "crates/maple-controller/tests/recorded/ryu-4.34.json"
WEB = 8080
# Kinds of messages: replies of features, of roles, and of statistics by the number of the version.
FEATURES, ROLE = 6, 25
STATISTICS = {1: 17, 4: 19}

RULES_13 = """
table=0,priority=100,in_port=1,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00,actions=CONTROLLER:65535
table=0,priority=101,cookie=0x1234,tcp,in_port=2,dl_src=00:00:00:00:00:07,nw_src=10.0.0.0/8,nw_dst=10.0.0.1,tp_dst=22,actions=dec_ttl,set_field:00:00:00:00:00:09->eth_dst,output:1
table=0,priority=102,udp,nw_tos=32,nw_ecn=1,tp_src=53,tp_dst=1000/0xfff8,idle_timeout=300,hard_timeout=600,actions=set_queue:1,output:2
table=0,priority=103,icmp,icmp_type=8,icmp_code=0,actions=ALL
table=0,priority=104,arp,arp_op=1,arp_spa=10.0.0.1,arp_tpa=10.0.0.0/24,arp_sha=00:00:00:00:00:01,actions=FLOOD
table=0,priority=105,ipv6,ipv6_src=2001:db8::/32,ipv6_dst=2001:db8::1,ipv6_label=5,actions=IN_PORT
table=0,priority=106,icmp6,icmpv6_type=135,nd_target=fe80::1,nd_sll=00:00:00:00:00:01,actions=LOCAL
table=0,priority=107,dl_vlan=20,dl_vlan_pcp=3,actions=pop_vlan,output:1
table=0,priority=108,vlan_tci=0x1000/0x1000,actions=set_field:4117->vlan_vid,set_field:2->vlan_pcp,output:1
table=0,priority=109,vlan_tci=0x0000/0x1fff,actions=push_vlan:0x8100,set_field:4098->vlan_vid,output:2
table=0,priority=110,mpls,mpls_label=7,mpls_tc=1,mpls_bos=1,actions=pop_mpls:0x0800,output:2
table=0,priority=111,ip,actions=push_mpls:0x8847,set_field:9->mpls_label,output:2
table=0,priority=112,sctp,tp_dst=9,actions=NORMAL
table=0,priority=113,metadata=0x5/0x7,in_port=LOCAL,actions=drop
table=0,priority=114,tun_id=0x2a,actions=group:7
table=0,priority=115,tcp,tp_dst=80,actions=meter:3,write_actions(group:7,set_field:10.0.0.9->ip_dst),write_metadata:0x1f/0xff,goto_table:5
table=5,priority=1,send_flow_rem,ip,actions=clear_actions,goto_table:6
table=5,priority=2,tcp,tp_dst=443,actions=set_field:5->tcp_src,set_field:2001->tcp_dst,set_field:10.1.1.1->ip_src,set_field:8->ip_dscp,output:2
table=5,priority=3,udp6,actions=set_field:2001:db8::9->ipv6_dst,set_field:7->udp_dst,output:1
table=6,priority=0,actions=write_metadata:0x7,goto_table:7
table=7,priority=0,check_overlap,reset_counts,actions=set_field:77->tun_id,output:1,output:2
"""
RULES_10 = """
priority=100,in_port=1,dl_src=00:00:00:00:00:07,dl_dst=00:00:00:00:00:08,actions=CONTROLLER:128
priority=101,cookie=0x1234,tcp,nw_src=10.0.0.0/8,nw_dst=10.0.0.1,tp_src=1000,tp_dst=22,idle_timeout=300,hard_timeout=600,actions=mod_dl_src:00:00:00:00:00:01,mod_dl_dst:00:00:00:00:00:09,output:1
priority=102,udp,nw_tos=32,tp_src=53,actions=enqueue:2:1
priority=103,icmp,icmp_type=8,icmp_code=0,actions=ALL
priority=104,arp,arp_op=1,arp_spa=10.0.0.1,arp_tpa=10.0.0.0/24,actions=FLOOD
priority=107,dl_vlan=20,dl_vlan_pcp=3,actions=strip_vlan,output:1
priority=108,dl_vlan=0xffff,actions=mod_vlan_vid:21,mod_vlan_pcp:2,output:1
priority=109,ip,in_port=LOCAL,actions=mod_nw_src:10.0.0.3,mod_nw_dst:10.0.0.4,mod_nw_tos:40,mod_tp_src:5,mod_tp_dst:6,IN_PORT
priority=110,sctp,actions=NORMAL
priority=111,dl_type=0x1234,actions=drop
priority=112,udp,nw_proto=17,tp_dst=53,actions=LOCAL
"""
GROUPS = [
    "group_id=7,type=select,bucket=weight=10,actions=output:1,bucket=weight=20,actions=set_field:00:00:00:00:00:02->eth_dst,output:2",
    "group_id=8,type=ff,bucket=watch_port:1,actions=output:1,bucket=watch_port:2,actions=output:2",
    "group_id=9,type=all,bucket=actions=output:2",
    "group_id=10,type=indirect,bucket=actions=group:9",
]
METER = "meter=3,kbps,burst,stats,bands=type=drop,rate=1000,burst_size=100"
QUEUES = (
    "set port p2 qos=@q -- --id=@q create qos type=linux-htb other-config:max-rate=1000000000 queues:1=@a queues:2=@b "
    "-- --id=@a create queue other-config:min-rate=1000000 -- --id=@b create queue other-config:max-rate=500000000"
)
PATHS_10 = [
    "desc/1",
    "flow/1",
    "aggregateflow/1",
    "table/1",
    "port/1",
    "port/1/1",
    "portdesc/1",
    "queue/1",
    "queue/1/2",
    "queue/1/2/1",
]
PATHS_13 = [*PATHS_10, "group/1", "group/1/7", "groupdesc/1", "meter/1", "meter/1/3", "role/1"]
TOPOLOGY = [
    "switches",
    "switches/0000000000000002",
    "switches/0000000000000009",
    "links",
    "links/0000000000000001",
    "hosts",
    "hosts/0000000000000002",
]


def sh(command: str) -> None:
    """Runs a command; what it prints is part of the error if it fails."""
    done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{command}: {done.stdout}{done.stderr}")


def get(path: str) -> Any:
    """What Ryu answers."""
    with urllib.request.urlopen(f"http://127.0.0.1:{WEB}{path}", timeout=15) as answer:
        return json.load(answer)


def until(what: str, is_so: Callable[[], bool]) -> None:
    """Waits until something is true."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            if is_so():
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise SystemExit(f"in vain: {what}")


class Proxy:
    """A way from the switch to Ryu that keeps the answers of the switch."""

    def __init__(self, to: int) -> None:
        self.kept: list[bytes] = []
        self.to = to
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            switch, _ = self.listener.accept()
            ryu = socket.create_connection(("127.0.0.1", self.to))
            for source, sink, keeps in ((switch, ryu, True), (ryu, switch, False)):
                threading.Thread(target=self.pass_on, args=(source, sink, keeps), daemon=True).start()

    def pass_on(self, source: socket.socket, sink: socket.socket, keeps: bool) -> None:
        rest = b""
        while data := source.recv(65536):
            rest += data if keeps else b""
            while len(rest) >= 8 and len(rest) >= (length := struct.unpack(">H", rest[2:4])[0]):
                message, rest = rest[:length], rest[length:]
                if message[1] in (FEATURES, ROLE, STATISTICS.get(message[0])):
                    self.kept.append(message)
            sink.sendall(data)

    def taken(self) -> list[bytes]:
        """What has come since the last time."""
        kept, self.kept = self.kept, []
        return kept


@contextmanager
def ryu(program: str, port: int, *apps: str):
    """A Ryu with these applications."""
    command = [program, *apps, "--ofp-tcp-listen-port", str(port), "--ofp-listen-host", "127.0.0.1"]
    command += ["--wsapi-host", "127.0.0.1", "--wsapi-port", str(WEB), "--observe-links"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until("Ryu", lambda: get("/stats/switches") == [])
            yield
        finally:
            process.terminate()


def one_switch(program: str, version: str) -> list[dict[str, object]]:
    """The answers about a switch that speaks this version."""
    spoken, port = f"OpenFlow{version.replace('.', '')}", 16633
    with ryu(program, port, "ryu.app.ofctl_rest"):
        proxy = Proxy(port)
        sh(
            f"ovs-vsctl add-br s1 -- set bridge s1 datapath_type=netdev protocols={spoken} fail-mode=secure "
            "other-config:datapath-id=0000000000000001 other-config:hwaddr=02:00:00:00:00:01 other-config:dp-desc=bridge"
        )
        for number in (1, 2):
            name = f"p{number}"
            sh(f"ovs-vsctl add-port s1 {name} -- set interface {name} type=internal ofport_request={number}")
            sh(f"ip link set {name} address 02:00:00:00:01:0{number}")
        sh("ip link set p1 up")
        sh(f"ovs-vsctl {QUEUES}")
        sh(f"ovs-vsctl set-controller s1 tcp:127.0.0.1:{proxy.port}")
        until("the switch", lambda: get("/stats/switches") == [1])
        features = [message for message in proxy.taken() if message[1] == FEATURES]
        if version == "1.3":
            for group in GROUPS:
                sh(f"ovs-ofctl -O {spoken} add-group s1 {group}")
            sh(f"ovs-ofctl -O {spoken} add-meter s1 {METER}")
        rules = RULES_13 if version == "1.3" else RULES_10
        for rule in rules.strip().splitlines():
            sh(f"ovs-ofctl -O {spoken} add-flow s1 {rule}")
        found = []
        for path in PATHS_13 if version == "1.3" else PATHS_10:
            proxy.taken()
            answer = get(f"/stats/{path}")
            kind = ROLE if path.startswith("role") else STATISTICS[1 if version == "1.0" else 4]
            messages = [message for message in proxy.taken() if message[1] == kind]
            # Ryu knows ports of 1.0 from the features.
            messages = features if (path, version) == ("portdesc/1", "1.0") else messages
            found.append({"path": f"/stats/{path}", "messages": [one.hex() for one in messages], "answer": answer})
        sh("ovs-vsctl del-br s1")
        return found


def two_switches(program: str) -> list[dict[str, object]]:
    """The answers about a network of two switches with a host each."""
    port = 16634
    with ryu(program, port, "ryu.app.rest_topology", "ryu.app.ofctl_rest", "ryu.app.simple_switch_13"):
        for number in (1, 2):
            sh(
                f"ovs-vsctl add-br s{number} -- set bridge s{number} datapath_type=netdev protocols=OpenFlow13 fail-mode=secure "
                f"other-config:datapath-id={number:016x}"
            )
            inner = f"ip -n h{number}"
            sh(f"ip netns add h{number}")
            sh(f"ip link add s{number}-eth1 address 02:00:00:00:0{number}:01 type veth peer name h{number}-eth0")
            sh(f"ip link set h{number}-eth0 netns h{number}")
            sh(f"{inner} link set h{number}-eth0 address 00:00:00:00:00:0{number} up")
            sh(f"{inner} addr add 10.0.0.{number}/24 dev h{number}-eth0")
        sh("ip link add s1-eth2 address 02:00:00:00:01:02 type veth peer name s2-eth2 address 02:00:00:00:02:02")
        for number in (1, 2):
            for end in (1, 2):
                name = f"s{number}-eth{end}"
                sh(f"ip link set {name} up")
                sh(f"ovs-vsctl add-port s{number} {name} -- set interface {name} ofport_request={end}")
            sh(f"ovs-vsctl set-controller s{number} tcp:127.0.0.1:{port}")
        until("the links", lambda: len(get("/v1.0/topology/links")) == 2)

        def hosts_are_known() -> bool:
            ping = ["ip", "netns", "exec", "h1", "ping", "-c", "1", "-W", "1", "10.0.0.2"]
            subprocess.run(ping, capture_output=True, check=False)
            hosts = get("/v1.0/topology/hosts")
            return len(hosts) == 2 and all(host["ipv4"] for host in hosts)

        until("the hosts", hosts_are_known)
        found = [{"path": f"/v1.0/topology/{path}", "answer": get(f"/v1.0/topology/{path}")} for path in TOPOLOGY]
        for number in (1, 2):
            sh(f"ovs-vsctl del-br s{number}")
            sh(f"ip netns del h{number}")
        return found


def main() -> None:
    (program,) = sys.argv[1:]
    said = subprocess.run(["ovs-vswitchd", "--version"], capture_output=True, text=True, check=True).stdout
    open_vswitch = said.splitlines()[0].split()[-1]
    parts = {
        "1.0": one_switch(program, "1.0"),
        "1.3": one_switch(program, "1.3"),
        "topology": two_switches(program),
    }
    lines = [f'"recorded": {json.dumps(f"Ryu 4.34 on Open vSwitch {open_vswitch}")}']
    for name, cases in parts.items():
        rows = ",\n  ".join(json.dumps(case) for case in cases)
        lines.append(f' "{name}": [\n  {rows}\n ]')
    OUT.write_text("{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    main()
