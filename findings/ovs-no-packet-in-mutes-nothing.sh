#!/usr/bin/env bash
# A port with the setting NO_PACKET_IN sends the controller none of the packets that find no rule, say OpenFlow and ovs-ofctl(8). Open
# vSwitch takes the setting and shows it, and sends packet-ins as before: of packets without a rule in 1.0, and of those of the
# table-miss rule in 1.3. (NO_RECV does what it says.)
cd "$(dirname "$0")"
. ./open-vswitch

ovs-vsctl --timeout=20 add-port br0 p1 -- set interface p1 type=internal ofport_request=1
ip link set p1 up
ip address add 10.0.0.1/24 dev p1

# Prints the packet-ins of a version to a log: listen VERSION.
listen() {
    of "$1" monitor br0 65535 --detach --no-chdir --pidfile="$OVS_RUNDIR/monitor$1.pid" \
        --unixctl="$OVS_RUNDIR/monitor$1.ctl" >/dev/null 2>"$OVS_RUNDIR/monitor$1.log"
}
# Sends a ping from port 1 to 10.0.0.LAST.
ping_to() {
    ip neighbour replace "10.0.0.$1" lladdr 02:00:00:00:00:02 dev p1
    ping -c 1 -W 1 "10.0.0.$1" >/dev/null || true
}
# Whether there was a packet-in of the ping to 10.0.0.LAST: came VERSION LAST.
came() {
    grep -q "^icmp,.*nw_dst=10\.0\.0\.$2," "$OVS_RUNDIR/monitor$1.log" && echo yes || echo no
}
# The same within some seconds.
comes() {
    for _ in $(seq 50); do
        [ "$(came "$1" "$2")" = no ] || break
        sleep 0.1
    done
    came "$1" "$2"
}
settings() {
    of "$1" show br0 | sed -n '/^ 1(p1)/,/config:/s/.*config: *//p'
}

listen 10
ping_to 10
is '1.0: a packet without a rule comes to the controller' yes "$(comes 10 10)"
of 10 mod-port br0 p1 no-packet-in
is '1.0: settings of the port' NO_PACKET_IN "$(settings 10)"
ping_to 11
is '1.0: a packet without a rule comes to the controller' yes "$(comes 10 11)"

of 13 add-flow br0 'priority=0,actions=controller'
listen 13
is '1.3: settings of the port' NO_PACKET_IN "$(settings 13)"
ping_to 12
is '1.3: a packet of the table-miss rule comes to the controller' yes "$(comes 13 12)"

of 13 mod-port br0 p1 no-receive
ping_to 13
of 13 mod-port br0 p1 receive
ping_to 14
is '1.3: with NO_RECV, and without it again' 'no yes' "$(comes 13 14 >/dev/null; came 13 13) $(came 13 14)"
echo 'meaning: a port that floods the controller is silenced by a rule that drops its packets, not by this setting'
