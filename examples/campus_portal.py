"""The login page of `campus_login.py`: a program beside the controller that fills its table `authenticated`.

    python3 campus_portal.py --add alice                            # asks for a password, and adds her to users.txt
    python3 campus_portal.py --listen 10.0.0.1:80 --control /run/user/1000/maple/control.sock

It runs on the controller's machine as the controller's user, with an address in the network. It finds out by the
visitor's IP address which host that is, and tells the controller so over the control socket (docs/control.md).
Passwords go over the network as they are, unless --tls names a certificate and its key.

What visitors can make it do is bounded: connections, passwords that are checked at once, and how often one address may
try again after wrong passwords.
"""

import argparse
import getpass
import hashlib
import hmac
import html
import json
import math
import os
import secrets
import socket
import ssl
import threading
import time
from collections import Counter, OrderedDict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from typing import Any
from urllib.parse import parse_qs

PAGE = """<!doctype html><title>Campus</title><p>{told}</p>
<form method=post action=/login><input name=user> <input name=password type=password> <button>Log in</button></form>
<form method=post action=/logout><button>Log out</button></form>"""
LONGEST_FORM = 4096

# A password takes 16 MiB and a core for some time.
PASSWORDS_AT_ONCE = os.cpu_count() or 1
PATIENCE = 1.0  # in seconds, for a turn to check a password
MAX_CONNECTIONS, MAX_OF_ONE_ADDRESS = 64, 8

FREE_TRIES, LONGEST_WAIT = 3, 64.0
FORGOTTEN_AFTER = 600.0  # in seconds since the last try
MAX_REMEMBERED = 1024


def scrambled(password: str, salt: str) -> str:
    """What the file of users keeps of a password."""
    return hashlib.scrypt(password.encode(), salt=salt.encode(), n=2**14, r=8, p=1).hex()


def is_right(users: Path, user: str, password: str) -> bool:
    """Whether the file has this user with this password. Unknown users take as long as known ones."""
    known = dict(line.split(" ", 1) for line in users.read_text().splitlines() if " " in line)
    salt, _, wanted = known.get(user, "nobody:").partition(":")
    return hmac.compare_digest(scrambled(password, salt), wanted)


class Tries:
    """How often addresses gave wrong passwords of late. After some tries each one waits twice as long as the last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def begin(self, address: str, now: float) -> float:
        """Counts a try, as if it failed, and returns 0; or how many seconds are left until the next one."""
        with self._lock:
            count, last = self._known.pop(address, (0, now))
            if now - last > FORGOTTEN_AFTER:
                count = 0
            wait = min(2.0 ** (count - FREE_TRIES), LONGEST_WAIT) if count >= FREE_TRIES else 0.0
            left = max(0.0, last + wait - now)
            self._known[address] = (count, last) if left else (count + 1, now)
            if len(self._known) > MAX_REMEMBERED:
                self._known.popitem(last=False)
            return left

    def forget(self, address: str) -> None:
        """The password was right."""
        with self._lock:
            self._known.pop(address, None)


class Connections:
    """Counts what is open, in all and of each address."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: Counter[str] = Counter()

    def begin(self, address: str) -> bool:
        """Whether there is room for one more."""
        with self._lock:
            if self._open.total() >= MAX_CONNECTIONS or self._open[address] >= MAX_OF_ONE_ADDRESS:
                return False
            self._open[address] += 1
            return True

    def end(self, address: str) -> None:
        with self._lock:
            self._open[address] -= 1
            self._open += Counter()  # without addresses that have none


class Portal(ThreadingHTTPServer):
    """The web server, and what it needs to know."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], control: str, users: Path) -> None:
        super().__init__(address, Visit)
        self.control, self.users = control, users
        self.connections, self.tries = Connections(), Tries()
        self.passwords = threading.BoundedSemaphore(PASSWORDS_AT_ONCE)

    def process_request(self, request: Any, client_address: Any) -> None:
        """A connection that is one too many is closed at once."""
        if not self.connections.begin(client_address[0]):
            return self.shutdown_request(request)
        try:
            super().process_request(request, client_address)
        except BaseException:
            self.connections.end(client_address[0])
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.connections.end(client_address[0])

    def server_bind(self) -> None:
        """Not as HTTPServer does, which asks DNS for a name and may wait for it."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def ask(self, request: object) -> object:
        """The controller's answer."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10)
            client.connect(self.control)
            client.sendall(json.dumps(request).encode() + b"\n")
            answer = json.loads(client.makefile().readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["ok"]

    def host_with(self, ip: str) -> str | None:
        """The hardware address of the host that has announced this IP address."""
        hosts = self.ask({"show": "hosts"})
        assert isinstance(hosts, list)
        return next((host["mac"] for host in hosts if ip in host["ipv4"] + host["ipv6"]), None)

    def log_in(self, mac: str) -> None:
        """When it returns, no switch has a rule for the host's packets from before."""
        self.ask({"state": {"set": {"place": {"key": ["authenticated", mac]}, "value": True, "settled": True}}})

    def log_out(self, mac: str) -> None:
        self.ask({"state": {"delete": {"place": {"key": ["authenticated", mac]}, "settled": True}}})


class Visit(BaseHTTPRequestHandler):
    """One request of a browser."""

    server: Portal
    timeout = 10

    def do_GET(self) -> None:
        self.answer(200, "Please log in.")

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal() or int(length) > LONGEST_FORM:
            return self.answer(413, "That is not our form.")
        form = parse_qs(self.rfile.read(int(length)).decode(errors="replace"))
        try:
            status, told = self.decide(form.get("user", [""])[0], form.get("password", [""])[0])
        except (OSError, RuntimeError) as error:
            self.log_error("the controller: %s", error)
            status, told = 503, "The network's controller does not answer. Try again."
        return self.answer(status, told)

    def decide(self, user: str, password: str) -> tuple[int, str]:
        """Logs the visitor's host in or out; the status and what to tell."""
        if self.path == "/login" and (refusal := self.refusal(user, password)):
            return refusal
        mac = self.server.host_with(self.client_address[0])
        if mac is None:
            return 503, "The network does not know your host yet. Try again."
        if self.path == "/login":
            self.server.log_in(mac)
            self.log_message("%s is logged in at %s", user, mac)
            return 200, f"Welcome, {user}."
        if self.path == "/logout":
            self.server.log_out(mac)
            return 200, "Good bye."
        return 404, "There is no such page."

    def refusal(self, user: str, password: str) -> tuple[int, str] | None:
        """Checks the password; none if it is right."""
        address, server = self.client_address[0], self.server
        if not server.passwords.acquire(timeout=PATIENCE):
            return 503, "Too many log in at once. Try again."
        try:
            if wait := server.tries.begin(address, time.monotonic()):
                return 429, f"Too many wrong passwords. Try again in {math.ceil(wait)} s."
            if not is_right(server.users, user, password):
                return 403, "Wrong name or password."
        finally:
            server.passwords.release()
        server.tries.forget(address)
        return None

    def answer(self, status: int, told: str) -> None:
        page = PAGE.format(told=html.escape(told)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)


def main() -> None:
    parser = argparse.ArgumentParser(description="The login page of campus_login.py")
    parser.add_argument("--users", type=Path, default=Path("users.txt"), help="the file of users (users.txt)")
    parser.add_argument("--add", metavar="NAME", help="add a user to the file, and end")
    parser.add_argument("--listen", default="0.0.0.0:80", metavar="ADDRESS:PORT")
    parser.add_argument("--control", default=os.environ.get("MAPLE_CONTROL"), help="the controller's socket")
    parser.add_argument("--tls", nargs=2, metavar=("CERTIFICATE", "KEY"), help="files, for https")
    options = parser.parse_args()
    if options.add:
        if not options.add.isalnum():
            parser.error("a name has letters and digits")
        salt = secrets.token_hex(16)
        with open(options.users, "a", opener=lambda path, flags: os.open(path, flags, 0o600)) as users:
            users.write(f"{options.add} {salt}:{scrambled(getpass.getpass(), salt)}\n")
        return
    if not options.control:
        parser.error("--control or MAPLE_CONTROL must name the controller's socket")
    if not options.users.exists():
        parser.error(f"there is no {options.users}: --add NAME makes it")
    address, _, port = options.listen.rpartition(":")
    portal = Portal((address, int(port)), options.control, options.users)
    if options.tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*options.tls)
        portal.socket = context.wrap_socket(portal.socket, server_side=True, do_handshake_on_connect=False)
    print(f"listening on {options.listen}", flush=True)
    portal.serve_forever()


if __name__ == "__main__":
    main()
