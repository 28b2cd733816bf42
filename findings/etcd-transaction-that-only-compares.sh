#!/usr/bin/env bash
# Answers of etcd are linearisable, say its API guarantees, unless a read asks for less or it is a watch. A transaction that
# has comparisons and no operations asks for nothing, and yet the member answers from its own store: one that has lost the
# others confirms what they have changed since. With a read in it the same transaction waits for the others, and fails.
cd "$(dirname "$0")"
. ./etcd

# Three members: two here, and one behind a link that can be cut.
unshare --net sleep infinity &
there=$!
while [ "$(readlink "/proc/$there/ns/net")" = "$(readlink /proc/self/ns/net)" ]; do
    sleep 0.1
done
enter=(nsenter "--net=/proc/$there/ns/net")
ip link add near type veth peer name far netns "$there"
ip address add 10.9.0.1/24 dev near
ip link set near up
"${enter[@]}" ip address add 10.9.0.2/24 dev far
"${enter[@]}" ip link set far up
"${enter[@]}" ip link set lo up
one=10.9.0.1:2000 two=10.9.0.1:2100 cut=10.9.0.2:2000
all=$one,$two,$cut
member $one $all
member $two $all
member $cut $all "${enter[@]}"

key=$(b64 master)
for name in $one $two; do
    v3_at_last $name kv/range "{\"key\": \"$key\"}" >/dev/null
done
v3_at_last $cut kv/range "{\"key\": \"$key\"}" "${enter[@]}" >/dev/null
answer=$(v3_at_last $one kv/put "{\"key\": \"$key\", \"value\": \"$(b64 n1)\"}")
written=$(revision "$answer")
# Once it has read what was written, the third member has it.
v3_at_last $cut kv/range "{\"key\": \"$key\"}" "${enter[@]}" >/dev/null

unchanged="\"compare\": [{\"key\": \"$key\", \"target\": \"MOD\", \"mod_revision\": \"$written\"}]"
read="\"success\": [{\"request_range\": {\"key\": \"$key\"}}]"
# What a transaction of these parts says: says HOST:PORT PARTS [COMMAND…].
says() {
    local answer
    answer=$(v3 "$1" kv/txn "{$2}" "${@:3}")
    case $answer in
        200*'"succeeded": true'*) echo yes ;;
        200*) echo no ;;
        *) echo refused ;;
    esac
}
is 'the key is as it was written: the third member' yes "$(says $cut "$unchanged" "${enter[@]}")"
ip link set near down
v3_at_last $one kv/put "{\"key\": \"$key\", \"value\": \"$(b64 n2)\"}" >/dev/null
is 'the third member cut off, the key changed by the others: one of these' no "$(says $one "$unchanged")"
is 'the third member, asked to compare and to read' refused "$(says $cut "$unchanged, $read" "${enter[@]}")"
is 'the third member, asked only to compare' yes "$(says $cut "$unchanged" "${enter[@]}")"
echo 'meaning: who asks by comparisons alone whether it is still the master may be told so by a member that cannot know'
