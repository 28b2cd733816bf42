"""Networks, routes and trace trees as SVG, for notebooks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape

from maple._html import LIGHT

Point = tuple[float, float]

_FONT = 'font-family="sans-serif" font-size="12"'
_LINE = LIGHT["edge"]
_SWITCH = LIGHT["raised"]
_HOST = LIGHT["ground"]
_ROUTE = LIGHT["accent"]
_DOWN = LIGHT["wrong"]


def _layout(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, Point]:
    """Places in a plane: springs along edges, all nodes pushing each other away. The same network looks the same."""
    count = len(nodes)
    place = {
        node: (math.cos(2 * math.pi * at / count), math.sin(2 * math.pi * at / count)) for at, node in enumerate(nodes)
    }
    far = 2 / math.sqrt(max(count, 1))
    for step in range(0 if count > 200 else 150):
        force = dict.fromkeys(nodes, (0.0, 0.0))
        for at, one in enumerate(nodes):
            for other in nodes[at + 1 :]:
                _push(force, place, one, other, lambda d: far * far / d)
        for one, other in edges:
            _push(force, place, one, other, lambda d: -d * d / far)
        most = 0.1 * (1 - step / 150)
        for node, (x, y) in force.items():
            size = math.hypot(x, y) or 1.0
            move = min(size, most) / size
            place[node] = (place[node][0] + x * move, place[node][1] + y * move)
    return place


def _push(
    force: dict[str, Point], place: dict[str, Point], one: str, other: str, strength: Callable[[float], float]
) -> None:
    x, y = place[one][0] - place[other][0], place[one][1] - place[other][1]
    distance = max(math.hypot(x, y), 1e-3)
    size = strength(distance) / distance
    force[one] = (force[one][0] + x * size, force[one][1] + y * size)
    force[other] = (force[other][0] - x * size, force[other][1] - y * size)


def network(
    switches: Sequence[str],
    hosts: Sequence[tuple[str, str]],
    links: Sequence[tuple[str, str, bool, str]],
    route: Iterable[tuple[str, str]] = (),
    title: str = "",
) -> str:
    """Switches, hosts with their switches, links (ends, whether up, label); the edges of a route stand out."""
    nodes = [*switches, *(host for host, _ in hosts)]
    if not nodes:
        return '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"></svg>'
    edges = [(a, b) for a, b, _, _ in links] + [(host, switch) for host, switch in hosts]
    place = _layout(nodes, edges)
    xs, ys = [x for x, _ in place.values()], [y for _, y in place.values()]
    width = min(900.0, 180 + 70 * math.sqrt(len(nodes)))
    scale = (width - 80) / max(max(xs) - min(xs), max(ys) - min(ys), 1e-6)
    at = {node: (40 + (x - min(xs)) * scale, 40 + (y - min(ys)) * scale) for node, (x, y) in place.items()}
    height = 80 + (max(ys) - min(ys)) * scale
    out = [_head(width, height, title)]
    for a, b, up, label in links:
        style = f'stroke="{_LINE}"' if up else f'stroke="{_DOWN}" stroke-dasharray="4 4"'
        out.append(_line(at[a], at[b], f'{style} stroke-width="2"', label if up else f"{label} down".strip()))
    out += [_line(at[host], at[switch], f'stroke="{_LINE}"') for host, switch in hosts]
    for a, b in route:
        if a in at and b in at:
            out.append(_line(at[a], at[b], f'stroke="{_ROUTE}" stroke-width="4" marker-end="url(#arrow)"'))
    out += [_box(at[switch], switch, _SWITCH, 4) for switch in switches]
    out += [_box(at[host], host, _HOST, 12) for host, _ in hosts]
    return "".join([*out, "</svg>"])


def tree(text: str, title: str = "") -> str:
    """A trace tree from its text: a node a line, indented; where a branch leads stands before the node."""
    rows: list[tuple[int, str, int | None]] = []
    above: list[tuple[int, int]] = []
    for line in text.splitlines():
        words = line.strip()
        depth = (len(line) - len(line.lstrip())) // 2
        # The no-side of a test stands under the test itself.
        limit = depth + 1 if words.startswith("no: ") else depth
        while above and above[-1][0] >= limit:
            above.pop()
        rows.append((depth, words, above[-1][1] if above else None))
        above.append((depth, len(rows) - 1))
    step, high = 28, 26
    width = max([200.0, *(60.0 + depth * step + 8 * len(words) for depth, words, _ in rows)])
    out = [_head(width, 30 + high * max(len(rows), 1), title)]
    for row, (depth, words, parent) in enumerate(rows):
        x, y = 20 + depth * step, 24 + high * row
        if parent is not None:
            px = 20 + rows[parent][0] * step + 6
            out.append(f'<path d="M{px} {24 + high * parent + 8} V{y} H{x}" fill="none" stroke="{_LINE}"/>')
        leaf = words.split(": ")[-1].startswith("L ")
        fill = _HOST if leaf else "#eeeeee" if words.endswith("Ω") else _SWITCH
        out.append(
            f'<rect x="{x}" y="{y - 10}" width="{12 + 7.2 * len(words):.0f}" height="20" rx="4" fill="{fill}"/>'
            f'<text x="{x + 6}" y="{y + 4}" {_FONT}>{escape(words)}</text>'
        )
    return "".join([*out, "</svg>"])


def _head(width: float, height: float, title: str) -> str:
    name = f"<title>{escape(title)}</title>" if title else ""
    arrow = (
        '<defs><marker id="arrow" viewBox="0 0 10 10" refX="16" refY="5" markerWidth="4" markerHeight="4" '
        'orient="auto">'
        f'<path d="M0 0 L10 5 L0 10 z" fill="{_ROUTE}"/></marker></defs>'
    )
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}">{name}{arrow}'


def _line(a: Point, b: Point, style: str, label: str = "") -> str:
    line = f'<line x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}" {style}/>'
    if not label:
        return line
    x, y = (a[0] + b[0]) / 2, (a[1] + b[1]) / 2 - 4
    return f'{line}<text x="{x:.1f}" y="{y:.1f}" {_FONT} text-anchor="middle" fill="#555">{escape(label)}</text>'


def _box(at: Point, name: str, fill: str, round_: int) -> str:
    width = 18 + 7 * len(name)
    return (
        f'<rect x="{at[0] - width / 2:.1f}" y="{at[1] - 12:.1f}" width="{width}" height="24" rx="{round_}" '
        f'fill="{fill}" stroke="{_LINE}"/>'
        f'<text x="{at[0]:.1f}" y="{at[1] + 4:.1f}" {_FONT} text-anchor="middle">{escape(name)}</text>'
    )
