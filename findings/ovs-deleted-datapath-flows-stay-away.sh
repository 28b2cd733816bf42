#!/usr/bin/env bash
# Open vSwitch forwards by a cache of past decisions ("datapath flows"). Whoever wants to see or to measure a first packet empties the cache,
# for which `ovs-appctl dpctl/del-flows` looks right. With the datapath in user space, `ovs-vswitchd` goes on believing that the flows
# are there: for as long as packets of a flow keep coming, none gets into the cache again, and each of them is looked up in the tables
# (as "miss with failed upcall" in its own statistics). Nothing is lost and no log says so; a packet only costs many times as much. After
# `ovs-appctl revalidator/purge` in its place, the first packet brings the flow back.
cd "$(dirname "$0")"
. ./open-vswitch

ip link add p1 type veth peer name h1
ip link add p2 type veth peer name h2
for one in p1 p2 h1 h2; do
    ip link set "$one" up
done
ovs-vsctl --timeout=20 add-port br0 p1 -- set interface p1 ofport_request=1 -- add-port br0 p2 -- set interface p2 ofport_request=2
ip address add 10.0.0.1/24 dev h1
of 13 add-flow br0 'in_port=1,icmp,actions=output:2'
ovs-appctl revalidator/wait

# Sends packets into port 1: send COUNT.
send() {
    ping -I h1 -c "$1" -i 0.02 -W 1 -b 10.0.0.255 >/dev/null 2>&1 || true
}
# The cached decisions about these packets.
cached() {
    ovs-appctl dpctl/dump-flows netdev@ovs-netdev | grep -c 'eth_type(0x0800).*proto=1' || true
}
# How many packets found no cached decision and left none: the statistic since the last call.
failed() {
    ovs-appctl dpif-netdev/pmd-stats-show | awk '/miss with failed upcall/ { sum += $NF } END { print sum }'
    ovs-appctl dpif-netdev/pmd-stats-clear
}
# yes where it is at least nine in ten of COUNT: most COUNT NUMBER.
most() {
    [ $(($2 * 10)) -ge $(($1 * 9)) ] && echo yes || echo no
}

send 20
failed >/dev/null
is 'cached decisions about the packets' 1 "$(cached)"

ovs-appctl revalidator/purge
send 200
is 'after a purge: cached decisions' 1 "$(cached)"
is 'after a purge: most packets leave none' no "$(most 200 "$(failed)")"

ovs-appctl dpctl/del-flows netdev@ovs-netdev
send 200
is 'after a deletion, and 4 s of packets: cached decisions' 0 "$(cached)"
is 'after a deletion: most packets leave none' yes "$(most 200 "$(failed)")"
before=$(of 13 dump-ports br0 2 | sed -n 's/.*tx pkts=\([0-9]*\),.*/\1/p')
send 500
is 'most of 500 more packets come out all the same' yes \
    "$(most 500 $(($(of 13 dump-ports br0 2 | sed -n 's/.*tx pkts=\([0-9]*\),.*/\1/p') - before)))"
is 'after 14 s: most packets leave none' yes "$(most 500 "$(failed)")"
ovs-appctl revalidator/purge
send 20
is 'after a purge it is as before: cached decisions' 1 "$(cached)"
echo 'meaning: a measurement of first packets empties the cache with revalidator/purge; after dpctl/del-flows all packets are first ones'
