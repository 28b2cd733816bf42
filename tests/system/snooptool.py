"""What the tests of snooping do inside a Mininet host, with plain sockets; the standard library is all it needs.

member INTERFACE GROUP         joins a group and counts what comes; each line on standard input asks, "leave" leaves
send INTERFACE GROUP COUNT     sends datagrams to a group
dhcpd INTERFACE ADDRESS GIVEN SECONDS
                               a DHCP server that gives everybody the same address
dhcp INTERFACE                 asks for an address and prints it; a line on standard input gives it back
"""

import ipaddress
import select
import socket
import struct
import sys

PORT = 5000
DISCOVER, OFFER, REQUEST, ACK, RELEASE = 1, 2, 3, 5, 7
MAGIC = bytes([99, 130, 83, 99])


def family(group):
    return socket.AF_INET6 if ":" in group else socket.AF_INET


def member(interface, group):
    index = socket.if_nametoindex(interface)
    packed = ipaddress.ip_address(group).packed
    sock = socket.socket(family(group), socket.SOCK_DGRAM)
    sock.bind(("", PORT))
    if sock.family == socket.AF_INET:
        level, joins, leaves = socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.IP_DROP_MEMBERSHIP
        request = struct.pack("@4s4si", packed, bytes(4), index)
    else:
        level, joins, leaves = socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, socket.IPV6_LEAVE_GROUP
        request = struct.pack("@16sI", packed, index)
    sock.setsockopt(level, joins, request)
    print("ready", flush=True)
    seen = 0
    while True:
        readable, _, _ = select.select([sock, sys.stdin], [], [])
        if sock in readable:
            sock.recv(2048)
            seen += 1
            continue
        line = sys.stdin.readline()
        if not line:
            return
        if line.strip() == "leave":
            sock.setsockopt(level, leaves, request)
        print(seen, flush=True)


def send(interface, group, count):
    index = socket.if_nametoindex(interface)
    sock = socket.socket(family(group), socket.SOCK_DGRAM)
    if sock.family == socket.AF_INET:
        request = struct.pack("@4s4si", bytes(4), bytes(4), index)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, request)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 8)
    else:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 8)
    for _ in range(int(count)):
        sock.sendto(b"to the members", (group, PORT))


def message(op, kind, xid, mac, yiaddr=bytes(4), ciaddr=bytes(4), options=b""):
    """A DHCP message."""
    head = struct.pack("!BBBBIHH", op, 1, 6, 0, xid, 0, 0x8000 if ciaddr == bytes(4) else 0)
    head += ciaddr + yiaddr + bytes(8) + mac + bytes(10) + bytes(192) + MAGIC
    return head + bytes([53, 1, kind]) + options + b"\xff"


def fields(data):
    """Operation, number, kind, the client's and the given address of a message."""
    at, kind = 240, None
    while data[at] != 255:
        if data[at] == 53:
            kind = data[at + 2]
        at += 2 + data[at + 1]
    return data[0], struct.unpack("!I", data[4:8])[0], kind, data[28:34], data[16:20]


def udp_socket(interface, port):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
    sock.bind(("", port))
    return sock


def dhcpd(interface, address, given, seconds):
    sock = udp_socket(interface, 67)
    server, given = socket.inet_aton(address), socket.inet_aton(given)
    options = bytes([54, 4]) + server + bytes([51, 4]) + struct.pack("!I", int(seconds))
    print("ready", flush=True)
    while True:
        readable, _, _ = select.select([sock, sys.stdin], [], [])
        if sock not in readable:
            return
        _, xid, kind, mac, _ = fields(sock.recv(2048))
        answer = {DISCOVER: OFFER, REQUEST: ACK}.get(kind)
        if answer:
            sock.sendto(message(2, answer, xid, mac, given, options=options), ("255.255.255.255", 68))


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def broadcast(mac, data):
    """A DHCP message of a host without an address, as a frame."""
    udp = struct.pack("!HHHH", 68, 67, 8 + len(data), 0) + data
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, bytes(4), b"\xff" * 4)
    ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
    return b"\xff" * 6 + mac + b"\x08\0" + ip + udp


def dhcp(interface):
    # An interface without an address hears no UDP.
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
    raw.bind((interface, 0x0800))
    raw.settimeout(5)
    mac, xid = raw.getsockname()[4], 0x1234

    def ask(kind, options=b""):
        raw.send(broadcast(mac, message(1, kind, xid, mac, options=options)))
        while True:
            frame = raw.recv(2048)
            if frame[23] != 17 or frame[36:38] != b"\0\x44":
                continue
            op, number, answer, client, given = fields(frame[42:])
            if (op, number, client) == (2, xid, mac):
                return answer, given

    _, offered = ask(DISCOVER)
    answer, given = ask(REQUEST, bytes([50, 4]) + offered)
    print(socket.inet_ntoa(given) if answer == ACK else f"answer {answer}", flush=True)
    server = sys.stdin.readline().strip()
    if server:
        udp_socket(interface, 68).sendto(message(1, RELEASE, xid + 1, mac, ciaddr=given), (server, 67))
        print("released", flush=True)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
