#!/usr/bin/env bash
# OpenFlow 1.0 has one table for those who write rules. Its flow statistics have a field for a table's number, and Open
# vSwitch puts the number of the 1.3 table there. A strict deletion in 1.0 is for all tables.
cd "$(dirname "$0")"
. ./open-vswitch

for table in 0 1 3; do
    of 13 add-flow br0 "table=$table,priority=5,in_port=1,actions=output:2"
done
# Plain statistics of 1.0, without the vendor's extensions.
tables() {
    of 10 --flow-format=OpenFlow10 dump-flows br0 | grep priority=5 \
        | sed 's/.*table=\([0-9]*\),.*/\1/; t; s/.*/0/' | sort | paste -sd' '
}
is 'the tables of the rules in statistics of 1.0' '0 1 3' "$(tables)"
of 10 --flow-format=OpenFlow10 --strict del-flows br0 'priority=5,in_port=1'
is 'rules after one strict deletion in 1.0' 0 "$(rules 13 | grep -c priority=5 || true)"
echo 'meaning: who speaks 1.0 and answers such a rule with a deletion "in its table" has no way to say the table'
