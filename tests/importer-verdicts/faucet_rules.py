"""Says what Faucet makes of configurations: whether it takes each, and the OpenFlow messages that switches get.

Runs in an environment that has Faucet. Reads a list of files as JSON on standard input, writes a list of answers. The
messages are those for a switch whose ports are all up.
"""

import contextlib
import io
import json
import logging
import sys
import time
from unittest import mock

from faucet import check_faucet_config, config_parser, valve
from os_ken.ofproto import ofproto_v1_3, ofproto_v1_3_parser


class Datapath:
    """What os-ken's messages need to know of a switch before they can be written."""

    ofproto = ofproto_v1_3
    ofproto_parser = ofproto_v1_3_parser


def judge(path):
    """The answer for one file: why it is refused, or each switch with its ports and messages in hexadecimal."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            accepted = check_faucet_config.check_config([path], logging.CRITICAL, io.StringIO())
        if not accepted:
            config_parser.dp_parser(path, "verdicts")  # raises what the checker says
    except Exception as error:  # of others than its own the checker dies, which refuses as well
        return {"refused": f"{type(error).__name__}: {error}".removesuffix(": ")}
    try:
        return {"switches": [messages(dp) for dp in config_parser.dp_parser(path, "verdicts")[2]]}
    except Exception as error:  # what the checker takes and the controller dies of
        return {"refused": f"at start: {type(error).__name__}: {error}"}


def messages(dp):
    """What Faucet sends to a switch that connects."""
    logger = logging.getLogger("verdicts.valve")
    logger.setLevel(logging.CRITICAL)
    one = valve.valve_factory(dp)(dp, "verdicts.valve", mock.Mock(), mock.Mock(), mock.Mock())
    found = one.prepare_send_flows(one.datapath_connect(time.time(), set(dp.ports)))
    return {"dp_id": dp.dp_id, "ports": sorted(dp.ports), "messages": [written(message) for message in found]}


def written(message):
    """The bytes of a message."""
    message.datapath = Datapath()
    message.xid = 0
    message.serialize()
    return bytes(message.buf).hex()


json.dump([judge(path) for path in json.load(sys.stdin)], sys.stdout)
