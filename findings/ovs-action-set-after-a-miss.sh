#!/usr/bin/env bash
# A packet that finds no rule in a later table is dropped, says OpenFlow 1.3 (§5.4). Open vSwitch ends the pipeline there and
# then does the packet's action set: what an earlier table wrote is sent.
cd "$(dirname "$0")"
. ./open-vswitch

ovs-vsctl --timeout=20 add-port br0 p2 -- set interface p2 type=internal ofport_request=2
of 13 add-flow br0 'table=0,priority=5,actions=write_actions(output:2),goto_table:1'
is 'rules of table 1' 0 "$(rules 13 | grep -c 'table=1' || true)"
trace=$(ovs-appctl ofproto/trace br0 in_port=7,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02,dl_type=0x88b5)
is 'the packet finds a rule in table 1' no "$(grep -q '^ *1\. No match' <<<"$trace" && echo no || echo yes)"
is 'it is sent out of port 2' yes "$(grep -q '^ *output:2' <<<"$trace" && echo yes || echo no)"
echo 'meaning: to drop what a later table does not know, that table needs a rule that clears the actions'
