#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a command whose last rank is killed after a moment: all must end by themselves, with a message that names rank
# and host (e2e.killed measures how soon), and leave no memory in /dev/shm: at most the empty file that has its name until all ranks have opened it.
#
# usage: killed_rank.sh COMMAND...
set -uo pipefail
log=$(mktemp)
trap 'rm -f "$log"' EXIT
timeout --signal=KILL 50 "$@" > "$log" 2>&1
code=$?
cat "$log"
fail() { echo "FAILED: $1" && exit 1; }
((code != 0)) || fail "ended in order"
((code != 137)) || grep -q "signal 9" "$log" || fail "did not end within 50 s"
grep -Eq "rank [0-9]+ (.*on node .* signal 9|\(host .*\) is gone)" "$log" || fail "the message does not name rank and host"
grep -q "^pid " "$log" || fail "never began"
while read -r pid; do
  for file in /dev/shm/strata-"$pid"-*; do
    [[ ! -s $file ]] || fail "rank $pid left shared memory behind"
  done
done < <(sed -n 's/^pid //p' "$log")
