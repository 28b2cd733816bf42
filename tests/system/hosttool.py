"""What the tests do inside a Mininet host, as commands of a small program; the standard library is all it needs.

count INTERFACE MARK         counts the frames that come in with MARK in them; each line on standard input asks
serve PORT...                echoes what TCP clients send
tcp ADDRESS PORT TIMEOUT     says hello to such a server and prints the echo, or what went wrong
stream ADDRESS PORT          sends such a server something every 2 ms, and prints the time when echoes come
udp ADDRESS PORT FROM TEXT   sends one datagram, to one host, a group or everybody
frame INTERFACE TO FROM TEXT sends one Ethernet frame, whoever it says that it comes from
frames INTERFACE             sends the frames that come in, in hex, one a line; says so after each
listen INTERFACE MARK        prints the frames that come in with MARK in them, in hex with all their tags
"""

import contextlib
import select
import socket
import struct
import sys
import time

ALL_PROTOCOLS = 3
OUTGOING = 4
EXPERIMENTAL = b"\x88\xb5"
SOL_PACKET, PACKET_AUXDATA, VLAN_VALID = 263, 8, 0x10


def count(interface, mark):
    frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
    frames.bind((interface, 0))
    print("ready", flush=True)
    seen = 0
    while True:
        readable, _, _ = select.select([frames, sys.stdin], [], [])
        if frames in readable:
            frame, address = frames.recvfrom(65535)
            seen += address[2] != OUTGOING and mark.encode() in frame
        elif not sys.stdin.readline():
            return
        else:
            print(seen, flush=True)


def serve(*ports):
    listening = [socket.create_server(("", int(port))) for port in ports]
    clients = []
    print("ready", flush=True)
    while True:
        readable, _, _ = select.select(listening + clients, [], [])
        for one in readable:
            if one in listening:
                clients.append(one.accept()[0])
                continue
            try:
                data = one.recv(4096)
                one.sendall(data)
            except ConnectionError:
                data = b""
            if not data:
                one.close()
                clients.remove(one)


def tcp(address, port, timeout):
    try:
        with socket.create_connection((address, int(port)), timeout=float(timeout)) as server:
            server.sendall(b"hello")
            print(server.recv(99).decode())
    except OSError as error:
        print(error)


def stream(address, port):
    with socket.create_connection((address, int(port)), timeout=5) as server:
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server.setblocking(False)
        while True:
            # Where the network does not take it, what was sent waits in the connection's buffer.
            with contextlib.suppress(BlockingIOError):
                server.send(b"x")
            if select.select([server], [], [], 0.002)[0]:
                if not server.recv(4096):
                    return
                print(time.time(), flush=True)
                time.sleep(0.001)


def udp(address, port, own, text):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(own))
        sender.sendto(text.encode(), (address, int(port)))


def frame(interface, to, own, text):
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
        sender.bind((interface, 0))
        addresses = bytes.fromhex((to + own).replace(":", ""))
        sender.send(addresses + EXPERIMENTAL + text.encode().ljust(46))


def frames(interface):
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
        sender.bind((interface, 0))
        for line in sys.stdin:
            sender.send(bytes.fromhex(line.strip()))
            print("sent", flush=True)


def listen(interface, mark):
    frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
    frames.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    frames.bind((interface, 0))
    print("ready", flush=True)
    while True:
        frame, extra, _, address = frames.recvmsg(65535, 512)
        if address[2] == OUTGOING or mark.encode() not in frame:
            continue
        # The kernel takes the first tag out of the frame and tells of it beside.
        for level, kind, data in extra:
            if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
                status, _, _, _, _, tci, tpid = struct.unpack("IIIHHHH", data[:20])
                if status & VLAN_VALID:
                    frame = frame[:12] + struct.pack("!HH", tpid or 0x8100, tci) + frame[12:]
        print(frame.hex(), flush=True)


if __name__ == "__main__":
    commands = {
        "count": count,
        "serve": serve,
        "tcp": tcp,
        "stream": stream,
        "udp": udp,
        "frame": frame,
        "frames": frames,
        "listen": listen,
    }
    commands[sys.argv[1]](*sys.argv[2:])
