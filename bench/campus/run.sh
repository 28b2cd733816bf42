#!/bin/sh
# The campus under load: bench/campus/run.sh MAPLE [OPTION OF maple emulate…]
# The controller has two cores (CORES, 0,1) and two worker threads, the emulated network one core (EMULATOR_CORE, 1). Hosts
# open RATE flows a second (500) for TRAFFIC (20s). The policy is POLICY (builtin:shortest-path), the port PORT (6690).
# Prints what the network saw; the status is 0 if all flows ended.
set -eu
maple=$1
shift
cores=${CORES:-0,1}
port=${PORT:-6690}
cd "$(dirname "$0")/../.."
taskset -c "$cores" "$maple" run "${POLICY:-builtin:shortest-path}" --listen "127.0.0.1:$port" --control none \
    --workers 2 --cores "$cores" >/dev/null &
controller=$!
trap 'kill "$controller" 2>/dev/null || true; wait "$controller" 2>/dev/null || true' EXIT
status=0
taskset -c "${EMULATOR_CORE:-1}" "$maple" emulate bench/campus/campus.json --controller "127.0.0.1:$port" \
    --rate "${RATE:-500}" --traffic "${TRAFFIC:-20s}" "$@" || status=$?
kill -0 "$controller" 2>/dev/null || { echo 'run.sh: the controller has ended' >&2; exit 1; }
# Time on cores of the process, in clock ticks: fields 14 and 15 after the name.
ticks=$(sed 's/.*) //' "/proc/$controller/stat" | awk '{ print $12 + $13 }')
echo "the controller used $(awk "BEGIN { print $ticks / $(getconf CLK_TCK) }") s of processor time," \
    "$(awk '/VmRSS/ { print int($2 / 1024) }' "/proc/$controller/status") MiB resident"
exit $status
