"""Gives a switch the requests of `requests10` and `requests13`, and says in short what it made of each."""

import struct

import openflow as of
from openflow import Session

GROUP = 60
"""The number of cases that are sent before answers are read."""

RESET = {
    of.OF10: [of.flow_mod10(command=3)],
    of.OF13: [
        of.flow_mod13(command=3, table=0xFF),
        of.group_mod(0xFFFFFFFC, command=2),
        of.meter_mod(0xFFFFFFFF, command=2),
    ],
}
STATE = {
    of.OF10: [of.stats10(1, of.match10(of.ALL_WILD) + b"\xff\0\xff\xff")],
    of.OF13: [of.flow_stats_request13(), of.multipart(7), of.multipart(10, struct.pack("!I4x", 0xFFFFFFFF))],
}


def outcomes(session, cases):
    """What the switch answers to each case and what rules, groups and meters it has then: a text for each name."""
    found = {}
    cases = list(cases)
    for start in range(0, len(cases), GROUP):
        found |= _outcomes(session, cases[start : start + GROUP])
    return found


def _outcomes(session, cases):
    meaning, state = {}, STATE[session.version]
    for name, messages in cases:
        session.send(*RESET[session.version])
        meaning |= {xid: (name, at) for at, xid in enumerate(session.send(*messages))}
        meaning |= dict.fromkeys(session.send(*state), (name, -1))
    texts = {name: [[] for _ in messages] + [[]] for name, messages in cases}
    for answer in session.barrier():
        # What was not asked for has no transaction id.
        if answer.xid in meaning:
            name, at = meaning[answer.xid]
            text = said(session.version, answer, at == -1)
            # How many messages a long answer takes is the switch's choice.
            if texts[name][at][-1:] != [text]:
                texts[name][at].append(text)
    return {name: "; ".join(" ".join(filter(None, part)) for part in parts) for name, parts in texts.items()}


def said(version, answer, is_state=False):
    """An answer in short."""
    if answer.error:
        return f"error {answer.error[0]},{answer.error[1]}"
    if answer.kind in (of.MULTIPART_REPLY if version == of.OF13 else 17,):
        (kind,) = struct.unpack_from("!H", answer.body)
        if not is_state:
            return f"answer {kind}"
        body = answer.body[8 if version == of.OF13 else 4 :]
        return " ".join(sorted(STATES[version, kind](body)))
    if answer.kind in (8, 25):
        return f"type {answer.kind} {answer.body.hex()}"
    return f"type {answer.kind}"


def rules13(body):
    rules = []
    while body:
        length, table, *_ = struct.unpack_from("!HB", body)
        priority, idle, hard, flags, cookie = struct.unpack_from("!HHHH4xQ", body, 12)
        match_length = struct.unpack_from("!H", body, 50)[0]
        conditions = sorted(oxms(body[52 : 48 + match_length]))
        actions = body[48 + -(-match_length // 8) * 8 : length]
        head = f"rule {table} {priority} {idle}/{hard} flags={flags:#x} cookie={cookie:#x}"
        rules.append(f"[{head} {','.join(conditions)} -> {actions.hex()}]")
        body = body[length:]
    return rules


def rules10(body):
    rules = []
    while body:
        (length,) = struct.unpack_from("!H", body)
        match, (priority, idle, hard) = body[4:44], struct.unpack_from("!HHH", body, 52)
        (cookie,) = struct.unpack_from("!Q", body, 64)
        rules.append(f"[rule {priority} {idle}/{hard} cookie={cookie:#x} {match.hex()} -> {body[88:length].hex()}]")
        body = body[length:]
    return rules


def oxms(data):
    while data:
        class_, field, length = struct.unpack_from("!HBB", data)
        number, body = field >> 1, data[4 : 4 + length]
        name = of.FIELDS[number].name if class_ == 0x8000 and number < len(of.FIELDS) else f"{class_:#x}.{number}"
        half = length // 2 if field & 1 else length
        yield f"{name}={body[:half].hex()}" + (f"/{body[half:].hex()}" if field & 1 else "")
        data = data[4 + length :]


def groups13(body):
    while body:
        length, kind, number = struct.unpack_from("!HBxI", body)
        yield f"[group {number} type {kind} {body[8:length].hex()}]"
        body = body[length:]


def meters13(body):
    while body:
        length, flags, number = struct.unpack_from("!HHI", body)
        yield f"[meter {number} flags={flags:#x} {body[8:length].hex()}]"
        body = body[length:]


STATES = {(of.OF13, 1): rules13, (of.OF13, 7): groups13, (of.OF13, 10): meters13, (of.OF10, 1): rules10}


def ask_all(listener, version, cases):
    """`outcomes` of the switch that connects to `listener`."""
    session = Session(listener, version)
    try:
        return outcomes(session, cases)
    finally:
        session.close()
