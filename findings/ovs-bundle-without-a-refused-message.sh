#!/usr/bin/env bash
# An atomic bundle of which one message was refused when it was added can be committed: Open vSwitch obeys the others, and
# reports success. Only what fails at the commit undoes everything.
cd "$(dirname "$0")"
. ./open-vswitch

# Opens an atomic bundle (OpenFlow 1.4), adds rules of priority 5, 6 and 7, and commits it. The second rule is that of
# table 1 which leads to table 0, or one with a group that does not exist. Prints the errors, and whether it was committed.
play() {
    python3 - "$OVS_RUNDIR/br0.mgmt" "$1" <<'PYTHON'
import socket, struct, sys

switch = socket.socket(socket.AF_UNIX)
switch.connect(sys.argv[1])
ids = iter(range(1, 100))

def message(kind, body, xid=None):
    return struct.pack("!BBHI", 5, kind, 8 + len(body), next(ids) if xid is None else xid) + body

def flow_mod(xid, table, priority, instructions):
    fixed = struct.pack("!QQBBHHHIIIHH", 0, 0, table, 0, 0, 0, priority, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0, 0)
    return message(14, fixed + struct.pack("!HH4x", 1, 4) + instructions, xid)

def add(bundle, inner):
    xid = struct.unpack_from("!I", inner, 4)[0]
    switch.sendall(message(34, struct.pack("!IHH", bundle, 0, 3) + inner, xid))

def control(bundle, kind):
    switch.sendall(message(33, struct.pack("!IHH", bundle, kind, 3)))

def replies():
    while True:
        head = b""
        while len(head) < 8:
            head += switch.recv(8 - len(head))
        _, kind, length, _ = struct.unpack("!BBHI", head)
        body = b""
        while len(body) < length - 8:
            body += switch.recv(length - 8 - len(body))
        yield kind, body

drop = b""
second = {
    "back": (1, struct.pack("!HHB3x", 1, 8, 0)),
    "group": (1, struct.pack("!HH4xHHI", 4, 16, 22, 8, 77)),
}[sys.argv[2]]
switch.sendall(message(0, b""))
control(9, 0)
add(9, flow_mod(50, 1, 5, drop))
add(9, flow_mod(51, second[0], 6, second[1]))
add(9, flow_mod(52, 1, 7, drop))
control(9, 4)
for kind, body in replies():
    if kind == 1:
        print("error", *struct.unpack_from("!HH", body))
        if struct.unpack_from("!H", body)[0] == 17:
            print("not committed")
            break
    elif kind == 33 and struct.unpack_from("!IH", body)[1] == 5:
        print("committed")
        break
PYTHON
}
there() {
    of 14 dump-flows br0 | grep -o 'priority=[567]' | sort | paste -sd' '
}
is 'a rule that leads to an earlier table, refused when it is added' 'error 3 2 committed' "$(play back | paste -sd' ')"
is 'rules after the commit' 'priority=5 priority=7' "$(there)"
of 14 del-flows br0
is 'a rule with a group that is not there, refused at the commit' 'error 2 9 error 17 13 not committed' "$(play group | paste -sd' ')"
is 'rules after that commit' '' "$(there)"
echo 'meaning: who wants all or nothing has to wait for the errors of what it adds, and to discard the bundle'
