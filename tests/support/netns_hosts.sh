# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2034
# Sourced by netns_cluster.sh and slurm_cluster.sh: several hosts, all on this machine.
#
# A host is a network, UTS and mount namespace with its own name (h0, h1, ...), address (10.77.0.1, ...) and /dev/shm; a bridge
# joins them. So nothing is shared but files and processes' numbers: MPI sees separate machines and everything crosses TCP.
#
# start_hosts N makes them, and sets HOST_NETNS_<i>, the network namespace of host i, and HOST_PID_<i>, a process in all of its
# namespaces; "$work/enter h1 COMMAND..." runs a command there. $work is a folder that lasts as long as the script.
# "begin_on I COMMAND..." starts one beside the script, whose process is then in $pids; end_with_all waits for these.
# CLUSTER_RATE, if set, is what each host may send: 1gbit, say (needs tc).

work=$(mktemp -d "${TMPDIR:-/tmp}/strata-hosts-XXXXXX")
name=strata$$
namespaces=
pids=

end_hosts() {
  # Whatever still runs in a host is in its network namespace, and so in the list of its processes.
  for namespace in $namespaces; do
    for pid in $(ip netns pids "$namespace" 2>/dev/null); do kill -KILL "$pid" 2>/dev/null; done
    ip netns del "$namespace" 2>/dev/null
  done
  rm -rf "$work"
}

skip() {
  echo "-- skipped: 1 of 1 cases: several hosts: $1"
  exit 77
}

begin_on() {
  host=$1
  shift
  "$work/enter" "h$host" exec "$@" &
  pids="$pids $!"
}

# Ends the script, with 0 if all that it began did.
end_with_all() {
  code=0
  for pid in $pids; do
    wait "$pid" || code=1
  done
  exit "$code"
}

# need TOOL...: skips where one is missing, and without root.
need() {
  [ "$(id -u)" = 0 ] || skip "needs root"
  for tool in ip nsenter unshare "$@"; do
    command -v "$tool" >/dev/null || skip "needs $tool"
  done
}

make_network() {
  ip netns add "$name-net" 2>/dev/null || skip "network namespaces cannot be made here"
  namespaces=$name-net
  ip -n "$name-net" link add br0 type bridge || skip "no bridge in this kernel"
  ip -n "$name-net" link set br0 up
}

# make_host I: its namespaces are held by a sleeping process.
make_host() {
  namespace=$name-h$1
  ip netns add "$namespace"
  namespaces="$namespaces $namespace"
  ip link add v0 netns "$namespace" type veth peer name "p$1" netns "$name-net" || skip "no veth in this kernel"
  ip -n "$name-net" link set "p$1" master br0 up
  ip -n "$namespace" addr add "10.77.0.$(($1 + 1))/24" dev v0
  ip -n "$namespace" link set v0 up
  ip -n "$namespace" link set lo up
  if [ -n "${CLUSTER_RATE:-}" ]; then
    tc -n "$namespace" qdisc add dev v0 root tbf rate "$CLUSTER_RATE" burst 256kb latency 20ms || skip "tc cannot limit v0 here"
  fi
  nsenter --net="/var/run/netns/$namespace" unshare --uts --mount sh -c "
    hostname h$1 && mount --make-rprivate / && mount -t tmpfs tmpfs /dev/shm &&
    mount --bind $work/hosts /etc/hosts && touch $work/ready$1 && exec sleep 86400" &
  eval "HOST_PID_$1=$! HOST_NETNS_$1=$namespace"
  echo "h$1 $!" >> "$work/pids"
}

wait_for_host() {
  for _ in $(seq 100); do
    [ -e "$work/ready$1" ] && return
    sleep 0.1
  done
  skip "host $1 did not start (no right to unshare or mount?)"
}

# What mpirun uses in place of ssh: drops options, takes the host's name, enters that host.
write_enter() {
  cat > "$work/enter" <<ENTER
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
pid=\$(awk -v host="\$1" '\$1 == host { print \$2 }' $work/pids)
shift
exec nsenter --target "\$pid" --net --uts --mount sh -c "\$*"
ENTER
  chmod +x "$work/enter"
}

start_hosts() {
  trap end_hosts EXIT
  trap 'exit 130' INT TERM HUP
  echo "127.0.0.1 localhost" > "$work/hosts"
  i=0
  while [ "$i" -lt "$1" ]; do
    echo "10.77.0.$((i + 1)) h$i" >> "$work/hosts"
    i=$((i + 1))
  done
  write_enter
  make_network
  i=0
  while [ "$i" -lt "$1" ]; do make_host "$i"; i=$((i + 1)); done
  i=0
  while [ "$i" -lt "$1" ]; do wait_for_host "$i"; i=$((i + 1)); done
}
