"""What docs/api.md shows runs: its commands, its programs and its recipes, against a controller with four switches."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from maple.client import Client, Event
from test_command import MAPLE, TOKEN, wait_for

PAGE = Path(__file__).resolve().parents[2] / "docs/api.md"
URL = "http://127.0.0.1:8653"
NETBOX = "https://netbox.example.org"
NETBOX_TOKEN = "0123456789abcdef"
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE.read_text(), re.M | re.S)
H1, H2 = "00:00:00:00:00:01", "00:00:00:00:00:02"
# The tables of the other recipes, beside the policy that the page has.
TABLES = """
from maple import Mac

blocked = Table("blocked", key=Mac, value=bool)
groups = Table("groups", key=Mac, value=str)
"""


def blocks(language: str, containing: str = "") -> list[str]:
    """The blocks of the page in a language that contain a text."""
    return [text for name, text in BLOCKS if name == language and containing in text]


class Ring:
    """A controller with the policy of the page, in the process of a ring of four switches."""

    def __init__(self, folder: Path) -> None:
        (policy,) = blocks("python", "@policy")
        (folder / "policy.py").write_text(policy + TABLES)
        tokens = folder / "tokens"
        tokens.write_text(f"admin ann {TOKEN}\n")
        tokens.chmod(0o600)
        self.log = folder / "log"
        command = [*MAPLE, "run", str(folder / "policy.py"), "--emulate", "ring:4", "--console"]
        command += ["--http", "127.0.0.1:0", "--http-tokens", str(tokens)]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, text=True)
        try:
            wait_for("the address", lambda: "HTTP API at" in self.text())
            (self.url,) = re.findall(r"HTTP API at (http://\S+)/v1$", self.text(), re.M)
            self.say("pingall", "12 of 12 answered")
        except BaseException:
            self.process.kill()
            raise

    def text(self) -> str:
        return self.log.read_text()

    def say(self, command: str, until: str) -> None:
        """Gives the console a command, and waits for what it answers."""
        since = len(self.text())
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        wait_for(f"{until!r} of {command}", lambda: until in self.text()[since:], timeout=60)

    def client(self) -> Client:
        return Client(self.url, token=TOKEN)

    def ask(self, target: str) -> Any:
        """The JSON of an answer."""
        return json.loads(self.shell(f'curl -s "{URL}{target}" -H "Authorization: Bearer $TOKEN"'))

    def shell(self, command: str) -> str:
        """What a command of the page prints."""
        command = command.replace(URL, self.url)
        environment = os.environ | {"TOKEN": TOKEN}
        done = subprocess.run(["sh", "-ec", command], capture_output=True, text=True, env=environment, timeout=60)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def run(self, program: str, **names: object) -> dict[str, Any]:
        """The names that a program of the page has at its end."""
        text = program.replace(URL, self.url)
        known: dict[str, Any] = {"TOKEN": TOKEN, **names}
        exec(compile(text, str(PAGE), "exec"), known)
        return known

    def way(self, source: str, sink: str) -> list[str]:
        """The switches on the way of a packet, as the rules of the switches are now."""
        answer = self.client().explain(**{"from": source}, to=sink, fields={"eth_type": "0x800"})
        return [hop["at"]["switch"].lstrip("0") for hop in answer["hops"]]


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ring]:
    one = Ring(tmp_path_factory.mktemp("ring"))
    yield one
    print(one.text())
    one.process.kill()
    one.process.wait()


needs_curl = pytest.mark.skipif(
    shutil.which("curl") is None and os.environ.get("CI") != "true", reason="commands of the page are curl's"
)


def test_each_block_is_one_that_is_tried_here() -> None:
    kinds = [name for name, _ in BLOCKS]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {"": 3, "sh": 3, "json": 3, "python": 4}
    for text in blocks("json"):
        assert isinstance(json.loads(text), dict), text


@needs_curl
def test_commands_answer_what_the_page_says(ring: Ring) -> None:
    lines = [line.removeprefix("$ ") for text in blocks("") for line in text.splitlines() if line.startswith("$ ")]
    assert len(lines) == 3 and lines[0] == "maple run policy.py --http 127.0.0.1:8653"
    token = ' -H "Authorization: Bearer $TOKEN"'
    hosts = json.loads(ring.shell(lines[1] + token))
    assert [row["mac"] for row in hosts["rows"]] == [H1]
    # A stream does not end; the status is that of `head`.
    assert "event: begin" in ring.shell(f"{lines[2]}{token} | head -4")


def test_the_file_of_tokens_is_one(ring: Ring, tmp_path: Path) -> None:
    (text,) = blocks("", "read    grafana")
    tokens = tmp_path / "tokens"
    tokens.write_text(text.replace("sha256:9b6e5f…", "sha256:" + "9b6e5f00" * 8))
    tokens.chmod(0o600)
    command = [*MAPLE, "run", "builtin:flood", "--listen", "127.0.0.1:0", "--control", "none"]
    process = subprocess.Popen(
        [*command, "--http", "127.0.0.1:0", "--http-tokens", str(tokens)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        said = list(itertools.takewhile(lambda line: not line.startswith("HTTP API at"), process.stdout))
        assert process.poll() is None, said
    finally:
        process.kill()
        process.communicate()


@needs_curl
def test_a_host_is_blocked_by_the_command_of_the_page(ring: Ring) -> None:
    (command,) = blocks("sh", "tables/blocked")
    assert json.loads(ring.shell(command))
    assert ring.ask("/v1/state/tables/blocked")["rows"][0]["key"] == {"mac": "00:00:00:00:00:07"}


@needs_curl
def test_a_link_is_out_of_service_and_back(ring: Ring) -> None:
    there, look = blocks("sh", "/v1/state/tables/out_of_service")[0], blocks("sh", "/v1/ports")[0]
    (port,) = json.loads(ring.shell(look))["rows"]
    links = [(link[0], link[1]) for link in ring.ask("/v1/links")["rows"]]
    ends = [end for link in links for end in itertools.permutations(link) if end[0] == port_at(port)]
    assert len(ends) == 1, "the port of the example has a link"
    far = ends[0][1]["switch"].lstrip("0")
    host = f"00:00:00:00:00:0{far}"
    assert ring.way(H1, host) == ["1", far], "the link is the shortest way"
    ring.shell(there)
    around = ring.way(H1, host)
    assert len(around) == 4 and around[0] == "1" and around[-1] == far, around
    ring.say(f"h1 ping h{far}", "answered")
    sent = rules_over(ring, port_at(port))
    assert sent == [], "no decision sends packets over it"
    back = there.replace("-X PUT", "-X DELETE").replace("1:2", "1:2?settled=true").split(" -d ")[0]
    ring.shell(back)
    assert ring.way(H1, host) == ["1", far]


def port_at(row: dict[str, Any]) -> dict[str, Any]:
    """The place of a port."""
    return {"switch": row["switch"], "port": row["port"]}


def rules_over(ring: Ring, at: dict[str, Any]) -> list[str]:
    """The rules of unicast decisions that send packets out of a port."""
    rows = ring.ask(f"/v1/switches/{at['switch']}/rules")["rows"]
    sends = re.compile(rf"output:{at['port']}\b")
    return [row["flow"] for row in rows if sends.search(row["actions"]) and "return way" in row["why"]]


def test_the_client_does_what_the_page_shows(ring: Ring, monkeypatch: pytest.MonkeyPatch) -> None:
    events = Client.events

    def first(self: Client, *rest: Any, **named: Any) -> Iterator[Event]:
        return itertools.islice(events(self, *rest, **named), 1)

    monkeypatch.setattr(Client, "events", first)
    shown, in_notebook = blocks("python", "maple.events()")[0], blocks("python", "the last line of a cell")[0]
    names = ring.run(shown)
    assert names["host"]["mac"] == H1 and names["event"].kind == "begin"
    assert [row["value"] for row in ring.client().table("blocked")] == [True]
    ring.run(in_notebook, maple=names["maple"])
    assert "<svg" in names["maple"]._repr_html_()


class StandIn(BaseHTTPRequestHandler):
    """Answers as NetBox does to a token: interfaces with and without addresses and tags, two pages of them."""

    rows: ClassVar[list[dict[str, Any]]] = []
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.headers["Authorization"] != f"Token {NETBOX_TOKEN}":
            self.send_error(403)
            return
        path, _, query = self.path.partition("?")
        assert path == "/api/dcim/interfaces/" and "limit=500" in query
        offset = int(re.sub(r".*offset=", "", query)) if "offset" in query else 0
        half = (len(self.rows) + 1) // 2
        more = f"http://{self.headers['Host']}{path}?limit=500&offset={half}" if offset == 0 else None
        body = {"count": len(self.rows), "next": more, "previous": None, "results": self.rows[offset : offset + half]}
        text = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


def interface(mac: str | None, *tags: str) -> dict[str, Any]:
    """An interface as NetBox has it."""
    all_tags = [{"id": at, "name": tag.title(), "slug": tag} for at, tag in enumerate(tags)]
    return {"id": 1, "device": {"id": 7, "name": "pc"}, "name": "eth0", "mac_address": mac, "tags": all_tags}


def test_a_table_is_fed_from_netbox_by_the_program_of_the_page(ring: Ring) -> None:
    (program,) = blocks("python", NETBOX)
    server = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        here = f"http://127.0.0.1:{server.server_port}"

        def fed(*rows: dict[str, Any]) -> dict[str, str]:
            StandIn.rows, StandIn.asked = list(rows), []
            ring.run(program.replace(NETBOX, here), NETBOX_TOKEN=NETBOX_TOKEN)
            assert len(StandIn.asked) == 2, "both pages were read"
            return {row["key"]["mac"]: row["value"] for row in ring.client().table("groups")}

        others = [interface(None, "guests"), interface("00:00:00:00:00:0A")]
        two = [interface("00:00:00:00:00:07", "guests"), interface("00:00:00:00:00:0B", "staff", "new")]
        assert fed(*others, *two) == {"00:00:00:00:00:07": "guests", "00:00:00:00:00:0b": "staff"}
        writes = ring.ask("/v1/history?table=groups")["total"]
        assert fed(*others, interface("00:00:00:00:00:07", "staff")) == {"00:00:00:00:00:07": "staff"}
        assert ring.ask("/v1/history?table=groups")["total"] > writes
        same = ring.ask("/v1/history?table=groups")["total"]
        assert fed(*others, interface("00:00:00:00:00:07", "staff")) == {"00:00:00:00:00:07": "staff"}
        assert ring.ask("/v1/history?table=groups")["total"] == same, "what is right already is not written"
    finally:
        server.shutdown()
        server.server_close()
