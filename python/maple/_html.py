"""Tables and maps as HTML, for notebooks: in the colours of the page, and without anything from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final

LIGHT: Final = {
    "ground": "#ffffff",
    "raised": "#f6f7f8",
    "rule": "#d8dce1",
    "text": "#1b1f24",
    "soft": "#4d555e",
    "accent": "#8c3500",
    "edge": "#a3abb4",
    "wrong": "#a3111a",
    "some": "#b07700",
    "much": "#b3141e",
}
"""The page's colours by their names in web/src/style.css."""

DARK: Final = {
    "ground": "#14171b",
    "raised": "#1c2026",
    "rule": "#353b43",
    "text": "#e3e7ec",
    "soft": "#a0a9b4",
    "accent": "#f0883e",
    "edge": "#59626d",
    "wrong": "#ff7b72",
    "some": "#d9a520",
    "much": "#ff7b72",
}

MOST: Final = 200
"""The number of rows that a table shows. Further ones are counted."""

_RULES: Final = (
    ".maple{background:var(--ground);color:var(--text);font:13px/1.4 system-ui,sans-serif;padding:8px}"
    ".maple table{border-collapse:collapse;margin:6px 0;background:none}"
    ".maple th,.maple td{padding:2px 12px 2px 0;text-align:left;color:var(--text);background:none;border:0}"
    ".maple thead th{color:var(--soft);font-weight:600;border-bottom:1px solid var(--rule)}"
    ".maple caption{text-align:left;color:var(--text);font-weight:600}"
    ".maple .soft{color:var(--soft)}.maple .wrong td:first-child,.maple p.wrong{color:var(--wrong)}"
    ".maple svg text{fill:var(--text)}.maple svg{max-width:100%;height:auto}"
    ".maple .switch{fill:var(--soft)}.maple .away{fill:var(--ground);stroke:var(--wrong);stroke-width:2}"
    ".maple .link{stroke:var(--edge);stroke-width:1.5}.maple .some{stroke:var(--some);stroke-width:3}"
    ".maple .much{stroke:var(--much);stroke-width:4}.maple .down{stroke:var(--wrong);stroke-dasharray:4 3}"
    ".maple svg rect[rx]{fill:var(--raised)}"
)


def block(*parts: str) -> str:
    """Parts of HTML as what a notebook shows."""

    def of(colours: Mapping[str, str]) -> str:
        return ".maple{" + "".join(f"--{name}:{colour};" for name, colour in colours.items()) + "}"

    style = f"{of(LIGHT)}@media (prefers-color-scheme:dark){{{of(DARK)}}}{_RULES}"
    return f'<div class="maple"><style>{style}</style>{"".join(parts)}</div>'


def heading(text: str) -> str:
    """A line above all else."""
    return f"<p><b>{escape(text)}</b></p>"


def trouble(text: str) -> str:
    """Why there is nothing to show."""
    return f'<p class="wrong">{escape(text)}</p>'


def table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    wrong: Iterable[bool] = (),
    total: int | None = None,
) -> str:
    """A table. `wrong` says of each row whether something is wrong there, `total` how many rows there are if these are
    only the first."""
    all_rows, bad = list(rows), list(wrong)
    count = len(all_rows) if total is None else total
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = []
    for at, row in enumerate(all_rows[:MOST]):
        mark = ' class="wrong"' if at < len(bad) and bad[at] else ""
        body.append(f"<tr{mark}>{''.join(f'<td>{escape(text(cell))}</td>' for cell in row)}</tr>")
    more = f'<p class="soft">{count - len(body)} more</p>' if count > len(body) else ""
    caption = f"<caption>{escape(f'{count} {title}')}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>{more}"


def text(value: object) -> str:
    """A value of an answer as people read it: a place as `1:3`, an id without zeros in front."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        if set(value) == {"switch", "port"}:
            return place(value)
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list | tuple):
        return ", ".join(text(item) for item in value)
    return str(value)


def place(at: Mapping[str, Any], names: Mapping[str, str] | None = None) -> str:
    """A place, with the name of its switch if it has one."""
    return f"{switch(at['switch'], names)}:{at['port']}"


def switch(dpid: object, names: Mapping[str, str] | None = None) -> str:
    """A switch's name; without one, its id without zeros in front."""
    return (names or {}).get(str(dpid)) or str(dpid).lstrip("0") or "0"


def network_map(answer: Mapping[str, Any]) -> str:
    """The answer of `/v1/map` as SVG: switches at their places, links by their load."""
    switches: list[Mapping[str, Any]] = answer["switches"]
    if not switches:
        return ""
    xs, ys = [float(one["x"]) for one in switches], [float(one["y"]) for one in switches]
    wide = max(max(xs) - min(xs), 1.0)
    scale = min(8.0, 800 / wide)
    at = {
        one["switch"]: (20 + (x - min(xs)) * scale, 20 + (y - min(ys)) * scale)
        for one, x, y in zip(switches, xs, ys, strict=True)
    }
    width, height = wide * scale + 160, (max(ys) - min(ys)) * scale + 40
    title = f"{len(switches)} switches, {len(answer['links'])} links"
    out = [f'<svg width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" role="img">']
    out.append(f"<title>{title}</title>")
    for link in answer["links"]:
        ends = at.get(link["from"]["switch"]), at.get(link["to"]["switch"])
        if ends[0] is None or ends[1] is None:
            continue
        (ax, ay), (bx, by) = ends[0], ends[1]
        out.append(f'<line x1="{ax:.1f}" y1="{ay:.1f}" x2="{bx:.1f}" y2="{by:.1f}" class="{_link_class(link)}"/>')
    for one in switches:
        x, y = at[one["switch"]]
        kind = "switch" if one["connected"] else "away"
        hosts = f" · {one['hosts']} {'host' if one['hosts'] == 1 else 'hosts'}" if one["hosts"] else ""
        label = escape(f"{one['name'] or switch(one['switch'])}{hosts}")
        out.append(f'<rect x="{x - 5:.1f}" y="{y - 5:.1f}" width="10" height="10" class="{kind}"/>')
        out.append(f'<text x="{x + 10:.1f}" y="{y + 4:.1f}" font-family="sans-serif" font-size="12">{label}</text>')
    return "".join([*out, "</svg>"])


def _link_class(link: Mapping[str, Any]) -> str:
    """As the page has it: amber from 30 %, red from 80 % of what a link carries."""
    if not link["up"]:
        return "link down"
    rate, speed = link["bits_per_second"], link["speed"]
    share = rate / speed if rate and speed else 0.0
    return "much" if share > 0.8 else "some" if share > 0.3 else "link"
