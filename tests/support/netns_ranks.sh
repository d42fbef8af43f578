#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# netns_ranks.sh HOSTS PROGRAM [ARG...]: runs PROGRAM as one rank on each of several hosts of netns_hosts.sh, with RANK, WORLD_SIZE,
# MASTER_ADDR and the like in the environment, as torchrun does.
#
# Needs root, ip, nsenter and unshare; exits with 77 (skip) without them. Otherwise the exit code is 0 if that of every rank is.
#
# CLUSTER_EVENT and CLUSTER_WHEN, if set, are shell commands: the first is run once the second succeeds. It finds HOST_NETNS_<i>:
# "ip -n $HOST_NETNS_2 link set v0 down" unplugs h2.
set -u
[ $# -ge 2 ] || { sed -n '3,9s/^# \{0,1\}//p' "$0"; exit 2; }
hosts=$1
shift
# shellcheck source=tests/support/netns_hosts.sh
. "$(dirname "$0")/netns_hosts.sh"
need awk
start_hosts "$hosts"

export GLOO_SOCKET_IFNAME=v0
i=0
while [ "$i" -lt "$hosts" ]; do
  begin_on "$i" env RANK="$i" WORLD_SIZE="$hosts" LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 "$@"
  i=$((i + 1))
done
if [ -n "${CLUSTER_EVENT:-}" ]; then
  # shellcheck disable=SC2086  # a list
  until eval "${CLUSTER_WHEN:-true}" || ! kill -0 $pids 2>/dev/null; do sleep 0.1; done
  eval "$CLUSTER_EVENT"
fi
end_with_all
