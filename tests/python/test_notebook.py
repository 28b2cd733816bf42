"""What notebooks show: HTML that is whole, has the rows, escapes what others chose, and loads nothing."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import maple
import pytest
from maple import _html, flood
from maple.client import ApiError, Client, Rows

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = "<script>alert('x')</script>\"'&"


class Page(HTMLParser):
    """The elements of a piece of HTML, in order, and its texts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.rows: list[list[str]] = []
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(html)
        self.close()
        assert self.open == [], "each element ends"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data
        elif self.open and self.open[-1] != "style":
            self.texts.append(data)


def shown(thing: object) -> Page:
    """What a notebook shows of something, which loads nothing and has no scripts."""
    html = thing._repr_html_()  # type: ignore[attr-defined]
    page = Page(html)
    assert not {"script", "img", "link", "iframe", "object", "image", "use"} & set(page.tags)
    names = {name for name, _ in page.attributes}
    assert not names & {"src", "href", "xlink:href"} and not any(name.startswith("on") for name in names)
    assert not [value for name, value in page.attributes if name != "xmlns" and value and "://" in value]
    assert "url(" not in html.replace("url(#arrow)", "") and "@import" not in html
    return page


class Canned(Client):
    """A client of a controller that answers these."""

    answers: dict[str, object]
    # Whether it has at most as many rows as were asked for.
    is_cut = False

    def __init__(self, token: str) -> None:
        super().__init__(token=token)
        self.asked: list[str] = []

    def _text(self, method: str, path: str, body: object = None, *, query: object = None) -> bytes:
        self.asked.append(path)
        answer = self.answers.get(path)
        if answer is None:
            raise ApiError(503, f"worker 1 is late, says {HOSTILE}")
        if isinstance(answer, list):
            limit = query["limit"] if isinstance(query, dict) and self.is_cut else None
            answer = {"rows": answer[:limit], "total": len(answer), "next": None}
        return json.dumps(answer).encode()


def place(switch: int, port: int) -> dict[str, object]:
    return {"switch": f"{switch:016x}", "port": port}


def canned() -> Canned:
    one = Canned(token="a-secret-of-mine")
    one.answers = {
        "/v1/switches": [
            {"switch": f"{n:016x}", "peer": "127.0.0.1:1" if n < 3 else None, "silent": False, "description": HOSTILE}
            for n in range(1, 4)
        ],
        "/v1/links": [[place(1, 1), place(2, 1)], [place(2, 2), place(3, 1)]],
        "/v1/hosts": [{"mac": "02:00:00:00:00:01", "at": place(3, 7), "ipv4": ["10.0.0.1", "10.0.0.2"], "ipv6": []}],
        "/v1/names": {
            "switches": [{"switch": f"{1:016x}", "name": HOSTILE}],
            "hosts": [{"mac": "02:00:00:00:00:01", "name": f"h{HOSTILE}"}],
        },
        "/v1/map": {
            "switches": [
                {
                    "switch": f"{n:016x}",
                    "name": HOSTILE if n == 1 else None,
                    "x": 10.0 * n,
                    "y": 5.0,
                    "connected": n < 3,
                    "hosts": n - 1,
                }
                for n in range(1, 4)
            ],
            "links": [
                {"from": place(1, 1), "to": place(2, 1), "bits_per_second": 9e6, "speed": 10_000_000, "up": True},
                {"from": place(2, 2), "to": place(3, 1), "bits_per_second": None, "speed": None, "up": False},
            ],
        },
    }
    return one


def test_a_client_shows_the_network_and_escapes_names() -> None:
    page = shown(canned())
    assert [HOSTILE, "connected", "127.0.0.1:1", HOSTILE] in page.rows
    assert ["3", "not connected", "", HOSTILE] in page.rows
    assert [f"{HOSTILE}:1", "2:1"] in page.rows and ["2:2", "3:1"] in page.rows
    assert [f"h{HOSTILE}", "3:7", "10.0.0.1, 10.0.0.2", ""] in page.rows
    assert {HOSTILE, "2 · 1 host", "3 · 2 hosts"} <= set(page.texts)
    assert [value for name, value in page.attributes if name == "class" and value in ("much", "link down")] == [
        "much",
        "link down",
    ]
    html = canned()._repr_html_()
    assert "a-secret" not in html and "a-secret" not in repr(canned())
    assert repr(canned()) == "<maple.client http://127.0.0.1:8653>"


def test_a_client_asks_for_what_it_shows_and_once() -> None:
    one = canned()
    one.is_cut = True
    (host,) = one.answers["/v1/hosts"]  # type: ignore[misc]
    one.answers["/v1/hosts"] = [host] * 1000
    texts = shown(one).texts
    assert "1000 hosts" in texts and "800 more" in texts
    assert sorted(one.asked) == ["/v1/hosts", "/v1/links", "/v1/map", "/v1/names", "/v1/switches"]


def test_a_client_without_an_answer_says_why() -> None:
    one = canned()
    del one.answers["/v1/hosts"]
    assert any(HOSTILE in text and "worker 1 is late" in text for text in shown(one).texts)


def test_lists_of_the_client_are_tables_and_the_map_a_picture() -> None:
    one = canned()
    hosts = one.hosts()
    assert isinstance(hosts, Rows) and hosts == one.answers["/v1/hosts"]
    assert shown(hosts).rows == [["mac", "at", "ipv4", "ipv6"], ["02:00:00:00:00:01", "3:7", "10.0.0.1, 10.0.0.2", ""]]
    assert shown(one.links()).rows[1:] == [["1:1", "2:1"], ["2:2", "3:1"]]
    assert shown(Rows()).rows == [[]]
    many = shown(Rows({"n": n} for n in range(1000)))
    assert len(many.rows) == 1 + _html.MOST and "800 more" in many.texts and "1000 rows" in many.texts
    picture = one.map()
    assert picture == one.answers["/v1/map"] and shown(picture).tags.count("rect") == 3
    assert shown(type(picture)(switches=[], links=[])).tags == ["div", "style"]


def test_an_emulated_network_shows_its_map_and_tables() -> None:
    net = maple.emulate("ring:4", lambda pkt, net: flood())
    net.link("s1", "s2").down()
    page = shown(net)
    assert "svg" in page.tags and {"s1", "s4", "h1", "h4"} <= set(page.texts)
    assert ["s1", "1"] in page.rows and [
        "h1",
        str(net.h1.mac),
        str(net.h1.ip),
        ":".join(map(str, net.h1.at)),
    ] in page.rows
    down = [row for row in page.rows if row[2:3] == ["down"]]
    assert len(down) == 1 and {end.split(":")[0] for end in down[0][:2]} == {"s1", "s2"}


def test_notebooks_have_the_colours_of_the_page() -> None:
    style = (ROOT / "web/src/style.css").read_text()
    light, dark = re.findall(r":root \{(.*?)\}", style, re.S)
    for colours, own in ((_html.LIGHT, light), (_html.DARK, dark)):
        theirs = dict(re.findall(r"--([\w-]+): (#[0-9a-f]+);", own))
        expected = {name: theirs[name] for name in colours}
        assert dict(colours) == {
            name: colour if len(colour) == 7 else f"#{''.join(2 * digit for digit in colour[1:])}"
            for name, colour in expected.items()
        }


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (True, "yes"), (place(10, 3), "a:3"), ([1, place(0, 1)], "1, 0:1"), ({"a": 1}, '{"a": 1}')],
)
def test_values_are_shown_as_people_read_them(value: object, text: str) -> None:
    assert _html.text(value) == text
