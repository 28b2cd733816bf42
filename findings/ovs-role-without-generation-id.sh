#!/usr/bin/env bash
# Whoever asks to be master has to name a generation id, and a switch refuses one that is older than the newest it saw, says OpenFlow
# 1.3. Nicira's role request has no such id, and Open vSwitch grants it always, also in 1.3: the controller whose id was just
# refused becomes master, and the one with the newest id becomes slave.
cd "$(dirname "$0")"
. ./open-vswitch

python3 - >"$OVS_RUNDIR/seen" <<'PYTHON' || unknown 'the controllers of this script failed'
import socket
import struct
import subprocess

EQUAL, MASTER, SLAVE = 1, 2, 3


class Controller:
    """Listens, and speaks one version with the bridge once it has connected."""

    def __init__(self, version):
        self.version = version
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.target = f"tcp:127.0.0.1:{self.listener.getsockname()[1]}"
        # Far from those that the bridge gives its own messages.
        self.last_id = 1 << 30

    def accept(self):
        self.listener.settimeout(20)
        self.switch, _ = self.listener.accept()
        self.switch.settimeout(20)
        self.send(0)

    def send(self, kind, body=b""):
        self.last_id += 1
        self.switch.sendall(struct.pack("!BBHI", self.version, kind, 8 + len(body), self.last_id) + body)

    def receive(self, length):
        received = b""
        while len(received) < length:
            received += self.switch.recv(length - len(received)) or exit("the bridge hung up")
        return received

    def ask(self, kind, body):
        """Sends a request, and a barrier. Returns the first answer to the request, if there is one."""
        self.send(kind, body)
        request, answer = self.last_id, None
        self.send({1: 18, 4: 20}[self.version])
        while True:
            _, kind, length, number = struct.unpack("!BBHI", self.receive(8))
            body = self.receive(length - 8)
            if number == self.last_id and kind in (19, 21):
                return answer
            if number == request and answer is None:
                answer = (kind, body)

    def role(self, role, generation):
        kind, body = self.ask(24, struct.pack("!I4xQ", role, generation))
        return f"error {body[1]} {body[3]}" if kind == 1 else name(*struct.unpack_from("!I", body))

    def nicira_role(self, role):
        # Nicira counts the roles from 0.
        kind, body = self.ask(4, struct.pack("!III", 0x2320, 10, role - 1))
        return f"error {body[1]} {body[3]}" if kind == 1 else name(struct.unpack_from("!I", body, 8)[0] + 1)

    def add_rule(self):
        fixed = struct.pack("!QQBBHHHIIIHxx", 0, 0, 0, 0, 0, 0, 5, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
        answer = self.ask(14, fixed + struct.pack("!HH4x", 1, 4))
        return f"error {answer[1][1]} {answer[1][3]}" if answer else "taken"


def name(role):
    return {EQUAL: "equal", MASTER: "master", SLAVE: "slave"}[role]


one, two, old = Controller(4), Controller(4), Controller(1)
targets = [controller.target for controller in (one, two, old)]
subprocess.run(["ovs-vsctl", "--timeout=20", "set-controller", "br0", *targets], check=True)
for controller in (one, two, old):
    controller.accept()
print("first, by id 1000:", one.role(MASTER, 1000))
print("second, by id 999:", two.role(MASTER, 999))
print("second, by Nicira's request:", two.nicira_role(MASTER))
print("rule of the first:", one.add_rule())
print("rule of the second:", two.add_rule())
print("first, by id 1001:", one.role(MASTER, 1001))
print("third, in 1.0:", old.nicira_role(MASTER))
print("rule of the first afterwards:", one.add_rule())
PYTHON
seen() {
    sed -n "s/^$1: //p" "$OVS_RUNDIR/seen"
}
is 'a first controller asks to be master with id 1000' master "$(seen 'first, by id 1000')"
is 'a second one does so with id 999' 'error 11 0' "$(seen 'second, by id 999')"
is 'it asks as Nicira has it, on the same connection' master "$(seen "second, by Nicira's request")"
is 'a rule of the first controller' 'error 1 10' "$(seen 'rule of the first')"
is 'a rule of the second' taken "$(seen 'rule of the second')"
is 'the first one asks again with id 1001' master "$(seen 'first, by id 1001')"
is 'a third one, which speaks OpenFlow 1.0, asks as Nicira has it' master "$(seen 'third, in 1.0')"
is 'a rule of the first controller, which has the newest id' 'error 1 10' "$(seen 'rule of the first afterwards')"
echo 'meaning: generation ids fence a switch off from old masters only if no controller of it uses 1.0, or that request'
