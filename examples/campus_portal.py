"""The login page of `campus_login.py`: a program beside the controller that fills its table `authenticated`.

    python3 campus_portal.py --add alice                            # asks for a password, and adds her to users.txt
    python3 campus_portal.py --listen 10.0.0.1:80 --control /run/user/1000/maple/control.sock

It runs on the controller's machine as the controller's user, with an address in the network. It finds out by the
visitor's IP address which host that is, and tells the controller so over the control socket (docs/control.md).
Passwords go over the network as they are, unless --tls names a certificate and its key.
"""

import argparse
import getpass
import hashlib
import hmac
import html
import json
import os
import secrets
import socket
import ssl
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from urllib.parse import parse_qs

PAGE = """<!doctype html><title>Campus</title><p>{told}</p>
<form method=post action=/login><input name=user> <input name=password type=password> <button>Log in</button></form>
<form method=post action=/logout><button>Log out</button></form>"""
LONGEST_FORM = 4096


def scrambled(password: str, salt: str) -> str:
    """What the file of users keeps of a password."""
    return hashlib.scrypt(password.encode(), salt=salt.encode(), n=2**14, r=8, p=1).hex()


def is_right(users: Path, user: str, password: str) -> bool:
    """Whether the file has this user with this password. Unknown users take as long as known ones."""
    known = dict(line.split(" ", 1) for line in users.read_text().splitlines() if " " in line)
    salt, _, wanted = known.get(user, "nobody:").partition(":")
    return hmac.compare_digest(scrambled(password, salt), wanted)


class Portal(ThreadingHTTPServer):
    """The web server, and what it needs to know."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], control: str, users: Path) -> None:
        super().__init__(address, Visit)
        self.control, self.users = control, users

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
            return self.answer(413, "That is no form of ours.")
        form = parse_qs(self.rfile.read(int(length)).decode(errors="replace"))
        try:
            status, told = self.decide(form.get("user", [""])[0], form.get("password", [""])[0])
        except (OSError, RuntimeError) as error:
            self.log_error("the controller: %s", error)
            status, told = 503, "The network's controller does not answer. Try again."
        return self.answer(status, told)

    def decide(self, user: str, password: str) -> tuple[int, str]:
        """Logs the visitor's host in or out; the status and what to tell."""
        if self.path == "/login" and not is_right(self.server.users, user, password):
            return 403, "Wrong name or password."
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
