"""The policy whose state file is tests/python/data/state-1.redb.gz."""

from maple import Mac, Table, Var, drop, flood, policy

blocked = Table("blocked", key=Mac, value=bool, persist=True)
mode = Var("mode", "day", value=str, persist=True)


@policy
def kept(pkt, net):
    return drop() if blocked.get(pkt.eth_src) else flood()
