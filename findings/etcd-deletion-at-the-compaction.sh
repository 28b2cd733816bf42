#!/usr/bin/env bash
# A watch that begins before the revision of the last compaction is cancelled, says etcd's API, and one that begins there or
# later gets all events from there on. If that revision is a deletion, etcd 3.4 takes the watch and never tells of it: the
# compaction has removed it, and nothing says that an event is missing. (etcd 3.6.16 does tell.)
cd "$(dirname "$0")"
. ./etcd

one=127.0.0.1:2000
member $one $one
v3_at_last $one kv/put "{\"key\": \"$(b64 n/master)\", \"value\": \"$(b64 n1)\"}" >/dev/null
answer=$(v3_at_last $one kv/deleterange "{\"key\": \"$(b64 n/master)\"}")
deleted=$(revision "$answer")
v3_at_last $one kv/put "{\"key\": \"$(b64 n/last)\", \"value\": \"\"}" >/dev/null

# What a watch of all keys from a revision says until it has told of n/last, or is cancelled.
watch() {
    python3 - $one "$1" <<'PYTHON'
import base64
import json
import sys
import urllib.request

member, revision = sys.argv[1:]
key, end = (base64.b64encode(text).decode() for text in (b"n/", b"n0"))
create = {"create_request": {"key": key, "range_end": end, "start_revision": revision}}
stream = urllib.request.urlopen(f"http://{member}/v3/watch", json.dumps(create).encode(), timeout=30)
told = []
while "PUT n/last" not in told:
    result = json.loads(stream.readline())["result"]
    if result.get("canceled"):
        told.append(f"cancelled, compacted at {result['compact_revision']}")
        break
    for event in result.get("events", []):
        told.append(f"{event.get('type', 'PUT')} {base64.b64decode(event['kv']['key']).decode()}")
print(", ".join(told))
PYTHON
}
is "a watch from revision $deleted, that of the deletion" 'DELETE n/master, PUT n/last' "$(watch "$deleted")"
v3_at_last $one kv/compaction "{\"revision\": \"$deleted\", \"physical\": true}" >/dev/null
is "after a compaction at $deleted, from $((deleted - 1))" "cancelled, compacted at $deleted" "$(watch $((deleted - 1)))"
is "after the compaction, from $deleted" 'PUT n/last' "$(watch "$deleted")"
echo 'meaning: who goes on with a watch at the revision of a compaction has to read everything, as if it had been cancelled'
