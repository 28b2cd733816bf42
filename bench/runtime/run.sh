#!/bin/sh
# Measures the runtime and draws the figures of docs/results/runtime.md: bench/runtime/run.sh MAPLE-BENCH FOLDER
# MAPLE-BENCH is the program, with `maple` beside it. FOLDER gets one folder a benchmark with its table, its JSON and its plots, and the finished figures.
# AGAINST='NAME=COMMAND' is another controller for the figures that compare (docs/benchmarks.md); ROUNDS is how often
# each point is measured (3). The machine must have nothing else to do: controller and generator have a core each.
set -eu
bench=$1
folder=$2
cd "$(dirname "$0")/../.."
mkdir -p "$folder"
status=0
step=0

# measure NAME FIGURES OPTION…: one sweep; each of FIGURES is PLOT=FIGURE.
measure() {
    name=$1 figures=$2 step=$((step + 1))
    shift 2
    echo "[$step/6] $name: maple-bench throughput $*" >&2
    "$bench" throughput --rounds "${ROUNDS:-3}" --plot "$folder/$name" "$@" >"$folder/$name.txt" || status=1
    cat "$folder/$name.txt"
    for figure in $figures; do
        cp "$folder/$name/${figure%=*}.svg" "$folder/${figure#*=}.svg"
    done
}

measure switches 'throughput-against-switches=throughput latency-against-switches=latency' \
    --switches 1,16,64,256,1000,5000 --macs 1000 --warmup 4s ${AGAINST:+--against "$AGAINST"}
measure distribution latency-distribution=distribution --switches 16,64 --windows 1,64 ${AGAINST:+--against "$AGAINST"}
measure workers throughput-against-workers=workers --switches 64 --workers "$(seq -s, 1 "$(nproc)")"
measure batching throughput-against-window=batching --switches 16 --macs 1000 --windows 1,8,64,512 --unbatched
measure rates delay-against-offered-rate=rates --switches 5000 --macs 1000 --rates 0.1,0.25,0.5,0.75,0.9
measure network delay-against-offered-rate=network --topology examples/provider-79.json --of 1.3 \
    --rates 0.1,0.25,0.5,0.75,0.9
exit $status
