"""A table of Open vSwitch that is too small for the flows in use: answers stay the policy's, and the bound holds."""

import pytest
from harness import EXAMPLES, rust_example, vsctl

pytest.importorskip("mininet", reason="system tests need Mininet")
from mininet.topo import SingleSwitchTopo

HOSTS = 6
ACL = """
permit arp
deny   icmp 10.0.0.1 10.0.0.3
permit icmp any      any
deny   ip   any      any
"""


def limit_table(bridge, table, limit):
    """Has a bridge refuse further rules when a table has this number."""
    vsctl(
        *("--", "--id=@t", "create", "Flow_Table", f"flow_limit={limit}", "overflow_policy=refuse"),
        *("--", "set", "Bridge", bridge, f"flow_tables:{table}=@t"),
    )


# With look-ups, fewer decisions serve all flows.
@pytest.mark.parametrize(("protocols", "table", "limit"), [("OpenFlow10", 0, 20), ("OpenFlow13", 5, 12)])
def test_more_flows_than_fit_all_get_the_policy_s_answer(controller, lab, figure, tmp_path, protocols, table, limit):
    rules = tmp_path / "acl.txt"
    rules.write_text(ACL)
    environment = {"MAPLE_ACL": str(rules)}
    maple = controller(EXAMPLES / "acl.rs", environment=environment, program=[rust_example("acl")])
    net = lab(SingleSwitchTopo(k=HOSTS), protocols=protocols, port=maple.port)
    limit_table("s1", table, limit)
    net.wait_known(maple)
    names = [host.name for host in net.hosts]

    def in_table():
        return sum(table == 0 or f"table={table}," in flow for flow in net.flows("s1"))

    most, pings = 0, 0
    for _ in range(2):
        for a in names:
            for b in names:
                if a != b:
                    answered = net.ping(a, b)
                    # An answer to a ping goes the other way, and the policy lets none from h1 come to h3.
                    assert answered == ({a, b} != {"h1", "h3"}), (a, b)
                    most, pings = max(most, in_table()), pings + 1
    refused, evicted = maple.count("refused_rules"), maple.count("leaves_evicted")
    flows = maple.count("leaves") + evicted
    assert most <= limit
    assert most > limit * 3 / 4, "the room is used"
    assert flows > limit * 5 / 4, "there are more flows than fit"
    assert 0 < refused < 20, "the table has said that it is full, and was believed"
    assert evicted > 0
    assert all("TABLE_FULL" in error["text"] for error in maple.show("errors"))
    (switch,) = maple.show({"tables": "1"})
    (of_table,) = [one for one in switch["tables"] if one["table"] == table]
    assert of_table == {"table": table, "rules": in_table(), "most": limit}
    figure(
        f"table of {limit} rules ({protocols}): {pings} pings of {flows} flows, at most {most} rules, "
        f"{refused} refused, {evicted} leaves evicted"
    )
