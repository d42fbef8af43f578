#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures on one GPU what plot.py draws, in about a minute and a half: threads.json, shares.json, sizeN.json.
#
# usage: measure.sh FOLDER [GIB...]
#
#   FOLDER   for the JSON files
#   GIB      sizes of the host table (default: 1 2 4 8 32; the largest must leave half of the host's memory)
#
# STRATA_BIN is the folder of the built benchmarks (default: build/cuda/bin).
set -euo pipefail
if (($# == 0)) || [[ $1 == -* ]]; then
  sed -n '3,10s/^# \{0,1\}//p' "$0"
  exit 2
fi
folder=$1
shift
sizes=("$@")
((${#sizes[@]})) || sizes=(1 2 4 8 32)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
mkdir -p "$folder"

gather() {
  "${STRATA_BIN:-$root/build/cuda/bin}/benchmark_gather" --cases host --rows 500000 --runs 3 "$@"
}
cores=$(nproc)
threads=2,4
for ((more = 8; more < cores; more += 4)); do threads+=,$more; done
gather --host-gib 16 --host-row-bytes 512 --host-paths both,threads --threads "$threads" --json "$folder/threads.json"
gather --host-gib 16 --host-row-bytes 128,512 --host-paths both --shares 0.2,0.35,0.5,0.65,0.8,1 --json "$folder/shares.json"
for gib in "${sizes[@]}"; do
  gather --host-gib "$gib" --host-row-bytes 128,512 --host-paths zero-copy,both --json "$folder/size$gib.json"
done
