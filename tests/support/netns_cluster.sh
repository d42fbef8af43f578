#!/bin/sh
# netns_cluster.sh HOSTS RANKS_PER_HOST PROGRAM [ARG...]: runs PROGRAM under mpirun on several hosts, all on this machine.
#
# A host is a network, UTS and mount namespace with its own name (h0, h1, ...), address and /dev/shm; a bridge joins them.
# So nothing is shared but files: MPI sees separate machines and everything crosses TCP. Needs root, ip, nsenter and unshare;
# exits with 77 (skip) without them. Otherwise the exit code is mpirun's.
#
# CLUSTER_RATE, if set, is what each host may send: 1gbit, say (needs tc). CLUSTER_BYTES, if set, is a file for the bytes that
# each host has sent, one a line.
#
# CLUSTER_EVENT, if set, is a shell command that is run in this script CLUSTER_DELAY seconds (3) after the start. It finds
# HOST_NETNS_<i>, the network namespace of host i, and HOST_PID_<i>; "ip -n $HOST_NETNS_1 link set v0 down" unplugs h1.
set -u
[ $# -ge 3 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2; }
hosts=$1 ranks=$2
shift 2

work=$(mktemp -d)
name=strata$$
host_pids= namespaces=

clean_up() {
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
  host_pids="$host_pids $!"
}

wait_for_host() {
  for _ in $(seq 100); do
    [ -e "$work/ready$1" ] && return
    sleep 0.1
  done
  skip "host $1 did not start (no right to unshare or mount?)"
}

# What mpirun uses in place of ssh: drops options, takes the host's name, enters that host.
write_remote_shell() {
  cat > "$work/remote_shell" <<REMOTE
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
pid=\$(awk -v host="\$1" '\$1 == host { print \$2 }' $work/pids)
shift
exec nsenter --target "\$pid" --net --uts --mount sh -c "\$*"
REMOTE
  chmod +x "$work/remote_shell"
}

[ "$(id -u)" = 0 ] || skip "needs root"
for tool in ip nsenter unshare mpirun; do
  command -v $tool >/dev/null || skip "needs $tool"
done
trap clean_up EXIT
trap 'exit 130' INT TERM

echo "127.0.0.1 localhost" > "$work/hosts"
list=
i=0
while [ "$i" -lt "$hosts" ]; do
  echo "10.77.0.$((i + 1)) h$i" >> "$work/hosts"
  list="$list${list:+,}h$i:$ranks"
  i=$((i + 1))
done
write_remote_shell
make_network
i=0
while [ "$i" -lt "$hosts" ]; do make_host "$i"; i=$((i + 1)); done
i=0
while [ "$i" -lt "$hosts" ]; do wait_for_host "$i"; i=$((i + 1)); done

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
"$work/remote_shell" h0 exec mpirun --host "$list" -n $((hosts * ranks)) --bind-to none \
  --mca plm_rsh_agent "$work/remote_shell" --mca oob_tcp_if_include v0 --mca btl_tcp_if_include v0 \
  --mca btl_vader_single_copy_mechanism none --mca mpi_yield_when_idle 1 "$@" &
run=$!
if [ -n "${CLUSTER_EVENT:-}" ]; then
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
