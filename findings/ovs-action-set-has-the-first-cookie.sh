#!/usr/bin/env bash
# A packet-in says by which rule the packet came to the controller: table and cookie of "the flow entry that was looked up" (OpenFlow 1.3,
# 7.4.1). If a rule applies the action (apply_actions), Open vSwitch names that rule. If a rule writes it into the action set
# (write_actions), Open vSwitch names the rule of the first table, which only led there.
cd "$(dirname "$0")"
. ./open-vswitch

ovs-vsctl --timeout=20 add-port br0 p1 -- set interface p1 type=internal ofport_request=1
ip link set p1 up
ip address add 10.0.0.1/24 dev p1

of 13 monitor br0 65535 --detach --no-chdir --pidfile="$OVS_RUNDIR/monitor.pid" --unixctl="$OVS_RUNDIR/monitor.ctl" \
    >/dev/null 2>"$OVS_RUNDIR/monitor.log"
# The table (none is printed for table 0) and the cookie of the packet-in of a ping to 10.0.0.LAST: named LAST.
named() {
    ip neighbour replace "10.0.0.$1" lladdr 02:00:00:00:00:02 dev p1
    ping -c 1 -W 1 "10.0.0.$1" >/dev/null || true
    for _ in $(seq 50); do
        grep -q "^icmp,.*nw_dst=10\.0\.0\.$1," "$OVS_RUNDIR/monitor.log" && break
        sleep 0.1
    done
    grep -B1 "^icmp,.*nw_dst=10\.0\.0\.$1," "$OVS_RUNDIR/monitor.log" |
        sed -n 's/.*PACKET_IN[^:]*: *\(table_id=[0-9]* \)\{0,1\}cookie=\(0x[0-9a-f]*\).*/\1cookie=\2/p' | head -1
}

of 13 add-flow br0 'table=0,cookie=0x1,priority=1,ip,actions=goto_table:1'
of 13 add-flow br0 'table=1,cookie=0x2,priority=1,ip,actions=controller'
is 'applied in table 1' 'table_id=1 cookie=0x2' "$(named 10)"
of 13 add-flow br0 'table=1,cookie=0x2,priority=1,ip,actions=write_actions(controller)'
is 'written into the action set in table 1' 'cookie=0x1' "$(named 11)"
echo 'meaning: what a cookie says of a packet-in holds only if no rule writes the controller into an action set'
