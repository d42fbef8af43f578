#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# netns_cluster.sh HOSTS RANKS_PER_HOST PROGRAM [ARG...]: runs PROGRAM under mpirun on several hosts of netns_hosts.sh.
#
# Needs root, ip, nsenter and unshare; exits with 77 (skip) without them. Otherwise the exit code is mpirun's.
#
# CLUSTER_BYTES, if set, is a file for the bytes that each host has sent, one per line.
#
# CLUSTER_LAUNCHER, if set, is a command that takes mpirun's options and a -- before the arguments of the program, which is its
# own: launch/strata-run. PROGRAM is then left out.
#
# CLUSTER_EVENT, if set, is a shell command that is run in this script CLUSTER_DELAY seconds (3) after the start. It finds
# HOST_NETNS_<i> and HOST_PID_<i>; "ip -n $HOST_NETNS_1 link set v0 down" unplugs h1. CLUSTER_WHEN, if set, is a shell command
# that is awaited first: "test -s FILE".
set -u
[ $# -ge 3 ] || { sed -n '3,16s/^# \{0,1\}//p' "$0"; exit 2; }
hosts=$1 ranks=$2
shift 2
# shellcheck source=tests/support/netns_hosts.sh
. "$(dirname "$0")/netns_hosts.sh"
need mpirun
start_hosts "$hosts"

list=
i=0
while [ "$i" -lt "$hosts" ]; do
  list="$list${list:+,}h$i:$ranks"
  i=$((i + 1))
done
if [ -n "${CLUSTER_LAUNCHER:-}" ]; then separator=--; else separator=; fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# shellcheck disable=SC2086  # the separator may be nothing
"$work/enter" h0 exec "${CLUSTER_LAUNCHER:-mpirun}" --host "$list" -n $((hosts * ranks)) --bind-to none \
  --mca plm_rsh_agent "$work/enter" --mca oob_tcp_if_include v0 --mca btl_tcp_if_include v0 \
  --mca btl_vader_single_copy_mechanism none --mca mpi_yield_when_idle 1 $separator "$@" &
run=$!
if [ -n "${CLUSTER_EVENT:-}" ]; then
  if [ -n "${CLUSTER_WHEN:-}" ]; then
    until eval "$CLUSTER_WHEN" || ! kill -0 "$run" 2>/dev/null; do sleep 0.1; done
  fi
  sleep "${CLUSTER_DELAY:-3}"
  eval "$CLUSTER_EVENT"
fi
wait "$run"
code=$?
if [ -n "${CLUSTER_BYTES:-}" ]; then
  for namespace in $namespaces; do
    ip -n "$namespace" -s link show dev v0 2>/dev/null | awk '/TX:/ { getline; print $1 }'
  done > "$CLUSTER_BYTES"
fi
exit $code
