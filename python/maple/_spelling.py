"""Finds spellings that look right and can't be traced, and says what to write instead.

Two of them can't be seen by a field object itself: ``pkt.tcp_dst is None`` never asks it anything, and
``pkt.tcp_dst in range(1, 1024)`` asks it about one number after the other. The first is looked for in the source of
the policy when it is decorated, the second when a field is compared with a number for the first time at some place.
"""

from __future__ import annotations

import ast
import difflib
import linecache
from types import CodeType, FrameType, FunctionType

from maple import _maple

# What other controllers and tools call fields.
OTHER_NAMES = {
    "dl_src": "eth_src",
    "dl_dst": "eth_dst",
    "dl_type": "eth_type",
    "ethertype": "eth_type",
    "dl_vlan": "vlan_vid",
    "vlan": "vlan_vid",
    "vlan_id": "vlan_vid",
    "nw_src": "ipv4_src",
    "nw_dst": "ipv4_dst",
    "ip_src": "ipv4_src",
    "ip_dst": "ipv4_dst",
    "nw_proto": "ip_proto",
    "protocol": "ip_proto",
    "tp_src": "tcp_src, pkt.udp_src or pkt.sctp_src",
    "tp_dst": "tcp_dst, pkt.udp_dst or pkt.sctp_dst",
    "src_port": "tcp_src, pkt.udp_src or pkt.sctp_src",
    "dst_port": "tcp_dst, pkt.udp_dst or pkt.sctp_dst",
    "dpid": "switch",
    "datapath": "switch",
    "port": "in_port",
    "src": "eth_src",
    "dst": "eth_dst",
}

_trees: dict[str, ast.Module | None] = {}


def unknown_field(name: str) -> str:
    """The message about ``pkt.name``, which is not a field."""
    known = OTHER_NAMES.get(name)
    close = difflib.get_close_matches(name, [*_maple.FIELDS, "switch", "matches"], n=1)
    meant = known or (close[0] if close else None)
    hint = (
        f"; did you mean pkt.{meant}?"
        if meant
        else "; fields have the names of OpenFlow 1.3, such as eth_dst or tcp_dst"
    )
    return f"a packet has no field {name!r}{hint}"


def unknown_question(name: str) -> str:
    """The message about ``net.name``, which is not a question about the network."""
    known = [each for each in dir(_maple.Net) if not each.startswith("_")]
    close = difflib.get_close_matches(name, known, n=1)
    return f"net has no {name!r}" + (f"; did you mean net.{close[0]}?" if close else f"; it has {', '.join(known)}")


def check_policy(function: FunctionType) -> None:
    """Raises ``SyntaxError`` where functions of this file ask whether a field *is* ``None``.

    Looked at are all functions of the file that have a parameter of the name that the policy gives the packet.
    """
    code = function.__code__
    tree = _tree(code.co_filename)
    if tree is None or code.co_argcount == 0:
        return
    packet = code.co_varnames[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and packet in (arg.arg for arg in node.args.args):
            _check_identity(node, packet, code.co_filename)


def compared_in_range(frame: FrameType) -> bool | None:
    """Whether ``frame`` is at ``x in range(…)``; ``False`` is for ever, ``None`` only for this time."""
    tree = _tree(frame.f_code.co_filename)
    if tree is None:
        return False
    verdict: bool | None = False
    for compare in _compares_at(tree, frame):
        for operator, container in zip(compare.ops, compare.comparators, strict=True):
            if isinstance(operator, (ast.In, ast.NotIn)):
                found = _is_range(container, frame)
                if found:
                    return True
                verdict = None if found is None else verdict
    return verdict


def _tree(filename: str) -> ast.Module | None:
    """The syntax tree of a source file, if its text is at hand."""
    if filename not in _trees:
        lines = linecache.getlines(filename)
        try:
            _trees[filename] = ast.parse("".join(lines), filename) if lines else None
        except SyntaxError:
            _trees[filename] = None
    return _trees[filename]


def _compares_at(tree: ast.Module, frame: FrameType) -> list[ast.Compare]:
    """The comparisons that may be running: exactly one where Python knows columns (3.11), else all of the line."""
    place = _position(frame.f_code, frame.f_lasti)
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare):
            continue
        if place is None:
            if node.lineno <= frame.f_lineno <= (node.end_lineno or node.lineno):
                found.append(node)
        elif place == (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset):
            found.append(node)
    return found


def _position(code: CodeType, last: int) -> tuple[int | None, int | None, int | None, int | None] | None:
    """Where in the source this instruction comes from: lines and columns."""
    positions = getattr(code, "co_positions", None)
    if positions is None:
        return None
    for index, place in enumerate(positions()):
        if index == last // 2:
            return place if None not in place else None
    return None


def _is_range(container: ast.expr, frame: FrameType) -> bool | None:
    """Whether the right side of ``in`` is a range; ``None`` where that may change."""
    if isinstance(container, ast.Call):
        return isinstance(container.func, ast.Name) and container.func.id == "range"
    if isinstance(container, (ast.Tuple, ast.List, ast.Set, ast.Constant)):
        return False
    value: object = None
    if isinstance(container, ast.Name):
        value = frame.f_locals.get(container.id, frame.f_globals.get(container.id))
    elif isinstance(container, ast.Attribute) and isinstance(container.value, ast.Name):
        owner = frame.f_locals.get(container.value.id, frame.f_globals.get(container.value.id))
        value = getattr(owner, "__dict__", {}).get(container.attr)
    return True if isinstance(value, range) else None


def _check_identity(function: ast.FunctionDef, packet: str, filename: str) -> None:
    """Raises ``SyntaxError`` at the first ``is`` between a field of ``packet`` and a constant."""
    names = {
        target.id: node.value.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and _is_field(node.value, packet)
        for target in node.targets
        if isinstance(target, ast.Name) and isinstance(node.value, ast.Attribute)
    }
    for node in ast.walk(function):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for operator, left, right in zip(node.ops, sides, sides[1:], strict=False):
                if isinstance(operator, (ast.Is, ast.IsNot)) and isinstance(right, ast.Constant):
                    _refuse_identity(left, node, operator, names, packet, filename)
        elif isinstance(node, ast.Match):
            for case in node.cases:
                if any(isinstance(part, ast.MatchSingleton) for part in ast.walk(case.pattern)):
                    _refuse_identity(node.subject, case.pattern, ast.Is(), names, packet, filename)


def _refuse_identity(
    left: ast.expr, node: ast.expr | ast.pattern, operator: ast.cmpop, names: dict[str, str], packet: str, filename: str
) -> None:
    if _is_field(left, packet) or (isinstance(left, ast.Name) and left.id in names):
        written = "is not None" if isinstance(operator, ast.IsNot) else "is None"
        right = "!= None" if isinstance(operator, ast.IsNot) else "== None"
        text = ast.unparse(left)
        line = linecache.getline(filename, node.lineno)
        raise SyntaxError(
            f"`{text} {written}` can't see whether the packet has the field: {text} is a field object, never None; "
            f"write `{text} {right}`, or `{text}.is_present`",
            (filename, node.lineno, node.col_offset + 1, line, node.end_lineno, (node.end_col_offset or 0) + 1),
        )


def _is_field(node: ast.expr, packet: str) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == packet
        and node.attr in _maple.FIELDS
    )
