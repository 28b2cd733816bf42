#!/usr/bin/env bash
# A condition whose mask is all zeros asks for nothing. On Ethernet fields Open vSwitch makes another rule of it than of no
# condition, and shows the two alike: they stand beside each other, and the one is not deleted strictly by the match of the
# other.
cd "$(dirname "$0")"
. ./open-vswitch

# Sends flow-mods of OpenFlow 1.3 for all packets and for eth_src=0/0: COMMAND of the first, COMMAND of the second or none.
flow_mods() {
    python3 - "$OVS_RUNDIR/br0.mgmt" "$@" <<'PYTHON'
import socket
import struct
import sys

switch = socket.socket(socket.AF_UNIX)
switch.connect(sys.argv[1])


def send(kind, body=b""):
    switch.sendall(struct.pack("!BBHI", 4, kind, 8 + len(body), 1) + body)


def flow_mod(command, conditions=b""):
    match = struct.pack("!HH", 1, 4 + len(conditions)) + conditions
    match += bytes(-len(match) % 8)
    all_ones = 0xFFFFFFFF
    head = struct.pack("!QQBBHHHIIIHxx", 0, 0, 0, command, 0, 0, 5, all_ones, all_ones, all_ones, 0)
    send(14, head + match)


send(0)
for command, conditions in zip(sys.argv[2:], [b"", struct.pack("!HBB", 0x8000, 4 << 1 | 1, 12) + bytes(12)]):
    if command != "none":
        flow_mod(int(command), conditions)
send(20)
received = b""
while True:
    while len(received) >= 8:
        _, kind, length, _ = struct.unpack_from("!BBHI", received)
        if len(received) < length:
            break
        if kind in (1, 21):
            sys.exit(f"refused: {received[8:12].hex()}" if kind == 1 else 0)
        received = received[length:]
    received += switch.recv(4096)
PYTHON
}

flow_mods 0 0
is 'rules of two flow-mods, of which one has eth_src=0/0 and the other no condition' 2 "$(rules 13 | wc -l)"
is 'they are shown alike' yes "$([ "$(rules 13 | sort -u | wc -l)" = 1 ] && echo yes || echo no)"
flow_mods 4 none
is 'left after a strict deletion without conditions' 1 "$(rules 13 | wc -l)"
echo 'meaning: leave conditions without bits out; a rule that has one cannot be told from its reading'
