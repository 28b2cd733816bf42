#!/usr/bin/env bash
# A rule for untagged packets that was written in OpenFlow 1.0 and one written in 1.3 are two rules, and 1.3 prints both
# with the same text. A strict deletion in 1.3 with the match as printed deletes the one, and not the other.
cd "$(dirname "$0")"
. ./open-vswitch

of 10 add-flow br0 'cookie=0xa,priority=5,in_port=1,dl_vlan=0xffff,actions=output:2'
of 13 add-flow br0 'cookie=0xd,priority=5,in_port=1,vlan_tci=0x0000/0x1fff,actions=output:3'
match() {
    rules 13 | sed -n "s/^cookie=$1, .*priority=5,\(.*\) actions.*/\1/p"
}
echo "1.3 prints: $(match 0xa) (written in 1.0), $(match 0xd) (written in 1.3)"
is 'the two texts are the same' yes "$([ "$(match 0xa)" = "$(match 0xd)" ] && echo yes || echo no)"
is 'rules with this priority' 2 "$(rules 13 | grep -c priority=5)"
of 13 --strict del-flows br0 "priority=5,$(match 0xa)"
is 'what is left after the strict deletion in 1.3' 0xa "$(rules 13 | sed -n 's/^cookie=\(0x[ad]\),.*/\1/p')"
of 13 del-flows br0 'cookie=0xa/-1'
is 'what is left after a deletion by cookie, which is not strict' '' "$(rules 13)"
echo 'meaning: 1.0 matches the whole tag field against 0, 1.3 only the bits for "present" and the VLAN; the text says the latter'
