"""Frames on real interfaces: hosts send and receive them, and links show which way they take."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable

ETH_P_ALL = 0x0003
SOL_PACKET, PACKET_AUXDATA = 263, 8
TP_STATUS_VLAN_VALID, TP_STATUS_VLAN_TPID_VALID = 1 << 4, 1 << 6
CLONE_NEWNET = 0x40000000
# The bytes at the end of a frame that tell it from others.
MARK = 20
# The frames of a host that are kept until they are asked for.
KEPT = 10_000

Hop = tuple[str, int, int | None]
Copies = list[tuple[list[Hop], str | None, str | None, bytes]]


class Sniffer:
    """Sends frames of hosts, and sees what hosts and links get."""

    def __init__(self) -> None:
        self._hosts: dict[str, socket.socket] = {}
        self._links: list[tuple[socket.socket, str, str]] = []
        self._received: dict[str, list[bytes]] = {}

    def watch_host(self, name: str, space: str, interface: str) -> None:
        """A host has this interface in this network namespace."""
        self._hosts[name] = in_namespace(space, lambda: packet_socket(interface))
        self._received[name] = []

    def watch_link(self, interface: str, source: str, target: str) -> None:
        """A link from one switch ends here at another one."""
        self._links.append((packet_socket(interface), source, target))

    def close(self) -> None:
        """Ends it."""
        for one in [*self._hosts.values(), *(link[0] for link in self._links)]:
            one.close()
        self._hosts.clear()
        self._links.clear()

    def send(self, host: str, frame: bytes) -> None:
        """A host sends a frame."""
        self._hosts[host].send(frame.ljust(60, b"\0") if len(frame) < 60 else frame)

    def forget(self) -> None:
        """Forgets what came so far."""
        self._collect(0.0, 0.0, lambda: True)
        for frames in self._received.values():
            frames.clear()

    def received(self, host: str) -> list[bytes]:
        """The data that a host got since the last call."""
        self._collect(0.0, 0.0, lambda: True)
        frames, self._received[host] = self._received[host], []
        return frames

    def journey(
        self, sender: str, start: str, frame: bytes, switch_of: Callable[[str], str], patience: float, quiet: float
    ) -> Copies:
        """Sends a frame, and says which hosts got a copy, over which switches.

        It waits until nothing more has come for ``quiet`` seconds; for the first copy, ``patience`` at most.
        """
        self.forget()
        mark = frame[-MARK:]
        self.send(sender, frame)
        parents: dict[str, str] = {}
        copies: list[tuple[str, bytes]] = []

        def came(where: socket.socket, data: bytes) -> None:
            if mark not in data:
                return
            for link, source, target in self._links:
                if link is where:
                    parents.setdefault(target, source)
            for name, host in self._hosts.items():
                if host is where and not (name == sender and data == frame):
                    copies.append((name, unpadded(data, mark)))

        self._collect(patience, quiet, lambda: bool(copies), came)
        return [(way(parents, start, switch_of(name)), name, None, data) for name, data in copies]

    def _collect(
        self,
        patience: float,
        quiet: float,
        is_enough: Callable[[], bool],
        came: Callable[[socket.socket, bytes], None] = lambda where, data: None,
    ) -> None:
        """Reads what comes, until it is enough and quiet, or patience ends."""
        names = {host: name for name, host in self._hosts.items()}
        sockets = [*self._hosts.values(), *(link[0] for link in self._links)]
        began = last = time.monotonic()
        while True:
            ready, _, _ = select.select(sockets, [], [], min(0.02, quiet))
            for where in ready:
                data = read(where)
                if data is None:
                    continue
                last = time.monotonic()
                if where in names and len(self._received[names[where]]) < KEPT:
                    self._received[names[where]].append(data)
                came(where, data)
            now = time.monotonic()
            is_over = now - began >= patience or is_enough()
            if not ready and is_over and now - last >= quiet:
                return
            if now - began >= patience + 10 * quiet + 1.0:
                return


def packet_socket(interface: str) -> socket.socket:
    """A socket that sends and gets all frames of an interface."""
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    made.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    made.bind((interface, 0))
    made.setblocking(False)
    return made


def in_namespace(name: str, make: Callable[[], socket.socket]) -> socket.socket:
    """Makes a socket in a network namespace. A thread goes there, so that this one stays."""
    made: list[socket.socket] = []
    failed: list[BaseException] = []

    def go() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        with open(f"/var/run/netns/{name}", encoding="utf-8") as space:
            if libc.setns(space.fileno(), CLONE_NEWNET) != 0:
                number = ctypes.get_errno()
                failed.append(OSError(number, f"can't enter the namespace {name}: {os.strerror(number)}"))
                return
        try:
            made.append(make())
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=go)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return made[0]


def read(where: socket.socket) -> bytes | None:
    """A frame that came in, with the VLAN tag that the kernel has taken out; ``None`` for one that went out."""
    with contextlib.suppress(BlockingIOError, OSError):
        data, extra, _, address = where.recvmsg(65536, socket.CMSG_SPACE(20))
        if address[2] == socket.PACKET_OUTGOING:
            return None
        for level, kind, aux in extra:
            if level == SOL_PACKET and kind == PACKET_AUXDATA and len(aux) >= 20:
                status, _, _, _, _, tag, protocol = struct.unpack("=IIIHHHH", aux[:20])
                if status & TP_STATUS_VLAN_VALID:
                    protocol = protocol if status & TP_STATUS_VLAN_TPID_VALID else 0x8100
                    data = data[:12] + struct.pack("!HH", protocol, tag) + data[12:]
        return data
    return None


def unpadded(data: bytes, mark: bytes) -> bytes:
    """A frame without what was added to make it long enough."""
    return data[: data.rindex(mark) + len(mark)]


def way(parents: dict[str, str], start: str, end: str) -> list[Hop]:
    """The switches from one to another, by the link that each was reached over first."""
    switches = [end]
    while switches[-1] != start and switches[-1] in parents and len(switches) <= len(parents) + 1:
        switches.append(parents[switches[-1]])
    return [(switch, 0, None) for switch in reversed(switches)]
