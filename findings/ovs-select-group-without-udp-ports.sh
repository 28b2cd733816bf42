#!/usr/bin/env bash
# A select group without a method of its own chooses by a symmetric hash of L3 and L4, and "symmetric" is one over the 5-tuple, says
# ovs-ofctl(8). In Open vSwitch's user-space datapath that hash has the ports of TCP and SCTP, and not those of UDP: all datagrams between
# two hosts take one bucket. The hash is also the same in all bridges, so behind one bucket a second bridge chooses nothing.
cd "$(dirname "$0")"
. ./open-vswitch

ovs-vsctl --timeout=20 set bridge br0 protocols=OpenFlow13,OpenFlow15 -- \
    add-br br1 -- set bridge br1 datapath_type=netdev fail_mode=secure protocols=OpenFlow13,OpenFlow15 -- \
    add-port br0 p1 -- set interface p1 type=internal ofport_request=1 -- \
    add-port br0 up -- set interface up type=patch options:peer=down ofport_request=2 -- \
    add-port br1 down -- set interface down type=patch options:peer=up ofport_request=1
ip link set p1 up

# Sends the first packets of 64 connections between two hosts into p1, which differ in their source ports: connections PROTOCOL.
connections() {
    python3 - "$1" <<'PYTHON'
import socket
import struct
import sys

protocol = {"tcp": 6, "udp": 17, "sctp": 132}[sys.argv[1]]
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(("p1", 0))
for port in range(1000, 1064):
    first = struct.pack("!HHIIBBHHH", port, 443, 1, 0, 0x50, 2, 1000, 0, 0)
    if protocol == 17:
        first = struct.pack("!HHHH", port, 443, 20, 0) + bytes(12)
    header = struct.pack("!BBHHHBBH4B4B", 0x45, 0, 40, 0, 0, 64, protocol, 0, 10, 0, 0, 1, 10, 0, 0, 2)
    sum_ = sum(struct.unpack("!10H", header))
    sum_ = (sum_ & 0xFFFF) + (sum_ >> 16)
    header = header[:10] + struct.pack("!H", ~sum_ & 0xFFFF) + header[12:]
    out.send(bytes.fromhex("020000000002" "020000000001" "0800") + header + first)
PYTHON
}

# The packets that a bridge's group got, and the number of buckets that they took: chosen BRIDGE.
chosen() {
    of 13 dump-group-stats "$1" group_id=1 | grep -o 'bucket[0-9]*:packet_count=[0-9]*' | cut -d= -f2 |
        awk '{ packets += $1; buckets += $1 > 0 } END { print packets, buckets }'
}

# Sends 64 connections of a protocol through new groups of four buckets, and waits until they are counted. Nothing is behind
# most of the ports. Groups have a method of their own with OpenFlow 1.5: spread PROTOCOL [METHOD].
spread() {
    local bridge buckets=bucket=output:2,bucket=output:3,bucket=output:4,bucket=output:5
    for bridge in br0 br1; do
        of 13 del-groups $bridge
        of 15 add-group $bridge "group_id=1,type=select,${2:+$2,}$buckets"
        of 13 add-flow $bridge 'in_port=1,ip,actions=group:1'
    done
    connections "$1"
    for _ in $(seq 100); do
        case $(chosen br0) in
            64\ *) return ;;
        esac
        sleep 0.1
    done
    unknown "the group got packets, buckets: $(chosen br0)"
}

spread sctp
is '64 connections of SCTP: packets, buckets' '64 4' "$(chosen br0)"
spread udp
is '64 connections of UDP: packets, buckets' '64 1' "$(chosen br0)"
spread udp selection_method=dp_hash,selection_method_param=0x100000000
is 'the same, with the hash that the manual calls one over the 5-tuple, symmetric' '64 1' "$(chosen br0)"
spread udp selection_method=dp_hash
is 'the same, with the one that it calls one over the 5-tuple' '64 4' "$(chosen br0)"
spread tcp
is '64 connections of TCP: packets, buckets' '64 4' "$(chosen br0)"
# The first bucket leads to the second bridge.
read -r packets buckets <<<"$(chosen br1)"
is 'some of these come to the second bridge' yes "$([ "$packets" -ge 8 ] && echo yes || echo no)"
is 'buckets that they take there' 1 "$buckets"
echo 'meaning: QUIC, VXLAN and DNS between two hosts keep to one link, and a second tier of such groups leaves links idle'
