#!/usr/bin/env bash
# A packet-in that the table-miss rule sends (priority 0, no match) has the reason "no matching flow", says OpenFlow 1.3 (§5.4, §7.4.1). If the
# same rule applies a select group before that, Open vSwitch takes the packet through its datapath a second time, and says "action" afterwards.
cd "$(dirname "$0")"
. ./open-vswitch

ovs-vsctl --timeout=20 add-port br0 p1 -- set interface p1 type=internal ofport_request=1
ip link set p1 up
ip address add 10.0.0.1/24 dev p1
ip neighbour add 10.0.0.2 lladdr 02:00:00:00:00:02 dev p1
of 13 add-group br0 'group_id=1,type=select,bucket=output:2'
of 13 add-flow br0 'table=0,priority=5,icmp,actions=goto_table:1'
of 13 add-flow br0 'table=1,priority=0,actions=controller,group:1,controller'
of 13 monitor br0 65535 --detach --no-chdir --pidfile="$OVS_RUNDIR/monitor.pid" \
    --unixctl="$OVS_RUNDIR/monitor.ctl" >/dev/null 2>"$OVS_RUNDIR/monitor.log"
ping -c 1 -W 1 10.0.0.2 >/dev/null || true
reasons() {
    grep -o 'PACKET_IN.*(via [a-z_]*)' "$OVS_RUNDIR/monitor.log" | sed 's/.*via \(.*\))/\1/' | xargs
}
for _ in $(seq 100); do
    [ "$(reasons | wc -w)" = 2 ] && break
    sleep 0.1
done
is 'the reasons of the two packet-ins of the table-miss rule' 'no_match action' "$(reasons)"
echo 'meaning: a controller that handles packet-ins by their reason misses those of a table-miss rule after a group'
