#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# netns_torchrun.sh HOSTS RANKS_PER_HOST PYTHON SCRIPT [ARG...]: runs SCRIPT under torchrun on several hosts of netns_hosts.sh, as a
# user does who starts it on each.
#
# Needs root, ip, nsenter and unshare; exits with 77 (skip) without them. Otherwise the exit code is 0 if that of every host is.
set -u
[ $# -ge 4 ] || { sed -n '3,6s/^# \{0,1\}//p' "$0"; exit 2; }
hosts=$1 ranks=$2 python=$3
shift 3
# shellcheck source=tests/support/netns_hosts.sh
. "$(dirname "$0")/netns_hosts.sh"
need awk
start_hosts "$hosts"

export GLOO_SOCKET_IFNAME=v0
i=0
while [ "$i" -lt "$hosts" ]; do
  begin_on "$i" "$python" -m torch.distributed.run --nnodes "$hosts" --node-rank "$i" --nproc-per-node "$ranks" \
    --master-addr 10.77.0.1 --master-port 29500 "$@"
  i=$((i + 1))
done
end_with_all
