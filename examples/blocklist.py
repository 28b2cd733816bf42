"""A blocklist that changes while the network runs.

A background thread watches a file (`blocklist.txt` in this folder, or the one in the environment variable
MAPLE_BLOCKLIST) and keeps the table `blocked` equal to it. The table is tracked state: when a host enters or leaves
it, Maple takes back exactly the rules that depend on this host, and runs the policy for its next packets.

A host in it neither sends nor is sent to. Broadcasts of others still reach it: a flood leaves by all edge ports.
"""

import os
import threading
import time
from pathlib import Path

from maple import Mac, Net, Packet, Route, Table, drop, flood, policy

FILE = Path(os.environ.get("MAPLE_BLOCKLIST", Path(__file__).with_name("blocklist.txt")))

blocked = Table("blocked", key=Mac, value=bool)


@policy
def blocklist(pkt: Packet, net: Net) -> Route:
    if pkt.eth_src in blocked or pkt.eth_dst in blocked:
        return drop()
    dst = net.locate(pkt.eth_dst)
    return flood() if dst is None else net.shortest_path(net.locate(pkt.eth_src), dst)


def read() -> dict[Mac, bool]:
    """The addresses in the file. Reports and skips a line that is not an address."""
    addresses = {}
    for number, line in enumerate(FILE.read_text().splitlines(), 1):
        text = line.split("#")[0].strip()
        try:
            if text:
                addresses[Mac(text)] = True
        except ValueError as error:
            print(f"{FILE}:{number}: {error}")
    return addresses


def watch(seen: float) -> None:
    """Keeps the table equal to the file. Never returns."""
    while True:
        time.sleep(0.2)
        try:
            changed = FILE.stat().st_mtime
            if changed != seen:
                blocked.replace(read())
                seen = changed
        except OSError as error:
            print(f"{FILE}: {error}")


blocked.replace(read())
threading.Thread(target=watch, args=[FILE.stat().st_mtime], daemon=True).start()
