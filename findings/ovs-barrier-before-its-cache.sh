#!/usr/bin/env bash
# A barrier reply says that the rules sent before it are in force. Open vSwitch's packets are forwarded by a cache of past decisions
# ("datapath flows"), and its reply does not wait for the threads that compare the cache with the rules ("revalidators"): a packet that
# enters after the reply may still go by a rule that is no longer there. Here the threads are paused, so that it is sure to happen; without a
# pause it takes milliseconds, and longer on a busy machine. `ovs-appctl revalidator/wait` waits for them.
cd "$(dirname "$0")"
. ./open-vswitch

ip link add p1 type veth peer name h1
ip link add p2 type veth peer name h2
for one in p1 p2 h1 h2; do
    ip link set "$one" up
done
ovs-vsctl --timeout=20 add-port br0 p1 -- set interface p1 ofport_request=1 -- add-port br0 p2 -- set interface p2 ofport_request=2

# The packets that came out of port 2.
out() {
    of 13 dump-ports br0 2 | sed -n 's/.*tx pkts=\([0-9]*\),.*/\1/p'
}
# Sends packets into port 1, and says whether they came out of port 2.
passes() {
    local before
    before=$(out)
    ping -I h1 -c 5 -i 0.2 -W 1 -b 10.0.0.255 >/dev/null 2>&1 || true
    [ $(($(out) - before)) -ge 5 ] && echo yes || echo no
}
ip address add 10.0.0.1/24 dev h1

of 13 add-flow br0 'in_port=1,actions=output:2'
ovs-appctl revalidator/wait
is 'a rule lets packets through' yes "$(passes)"
ovs-appctl revalidator/pause
# Replaces the rule. The command ends when the reply to its barrier is there.
of 13 add-flow br0 'in_port=1,actions=drop'
is 'the rules after the barrier' 'in_port=1 actions=drop' "$(rules 13 | grep in_port)"
is 'packets sent after the barrier go through' yes "$(passes)"
ovs-appctl revalidator/resume
ovs-appctl revalidator/wait
ovs-appctl revalidator/wait
is 'packets sent after the revalidators have looked go through' no "$(passes)"
echo 'meaning: "settled" is when all switches have confirmed; a test that sends a packet then waits for the revalidators first'
