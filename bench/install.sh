#!/usr/bin/env bash
# From `pip install` of a wheel to the first packet of an emulated network, in a new environment: bench/install.sh WHEEL
set -euo pipefail

wheel=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv environment

begin=$(date +%s.%N)
environment/bin/pip install --quiet --no-index "$wheel"
installed=$(date +%s.%N)
# A host is found by its first packet.
environment/bin/maple run builtin:shortest-path --emulate ring:4 --traffic 1s |
    { grep --line-buffered --max-count 1 --quiet ' found at '; date +%s.%N > end; cat > rest; }
end=$(< end)
awk -v b="$begin" -v i="$installed" -v e="$end" \
    'BEGIN { printf "pip install %.1f s, to the first packet %.1f s, together %.1f s\n", i - b, e - i, e - b }'
