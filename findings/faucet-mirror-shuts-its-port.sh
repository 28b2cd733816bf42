#!/usr/bin/env bash
# A rule of an access list in Faucet that copies packets to a port (`mirror: 2`) makes that port output-only: what a host
# there sends is dropped, whatever list the port has itself. The page about `mirror` does not say so.
set -euo pipefail

version=1.10.12
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unknown() {
    echo "not found out: $1" >&2
    exit 2
}

python3 -m venv "$folder/venv" 2>/dev/null || unknown 'no venv'
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check "faucet==$version" >/dev/null 2>&1 ||
    unknown "faucet $version cannot be installed"
echo "version: Faucet $version"

# Two hosts in a VLAN. With `mirror` the list of port 1 copies IPv4 to port 2.
configuration() {
    cat <<YAML
acls:
  watched:
  - rule: {dl_type: 0x800, actions: {allow: 1$1}}
  - rule: {actions: {allow: 1}}
dps:
  sw1:
    dp_id: 1
    interfaces:
      1: {native_vlan: 10, acl_in: watched}
      2: {native_vlan: 10}
YAML
}
configuration '' >"$folder/plain.yaml"
configuration ', mirror: 2' >"$folder/mirror.yaml"

# What the first rule of the first table says that takes every packet from port 2.
cat >"$folder/rules.py" <<'PYTHON'
import logging, sys, time
from unittest import mock
from faucet import config_parser, valve
from faucet.valve_of import is_flowmod

logging.getLogger("finding").setLevel(logging.CRITICAL)
(dp,) = config_parser.dp_parser(sys.argv[1], "finding")[2]
one = valve.valve_factory(dp)(dp, "finding", mock.Mock(), mock.Mock(), mock.Mock())
messages = one.prepare_send_flows(one.datapath_connect(time.time(), set(dp.ports)))
rules = [m for m in messages if is_flowmod(m) and (m.command, m.table_id) == (0, 0)]
first = max((m for m in rules if dict(m.match.items()) in ({}, {"in_port": 2})), key=lambda rule: rule.priority)
print("goes on" if first.instructions else "dropped")
PYTHON

status=0
is() {
    printf '%s: %s\n' "$1" "$3"
    [ "$2" = "$3" ] || { echo "  expected: $2"; status=1; }
}
fate() {
    "$folder/venv/bin/check_faucet_config" "$1" >/dev/null 2>&1 || unknown "$1 is refused"
    "$folder/venv/bin/python" -W ignore "$folder/rules.py" "$1" 2>/dev/null || unknown 'no rules'
}
plain=$(fate "$folder/plain.yaml")
copied=$(fate "$folder/mirror.yaml")
is 'what port 2 sends, without a mirror' 'goes on' "$plain"
is 'what port 2 sends, if a list copies to it' 'dropped' "$copied"
echo 'meaning: a host at the port of a mirror can only listen, and whoever converts such a list has to shut that port'
exit $status
