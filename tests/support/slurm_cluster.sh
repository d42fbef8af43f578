#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# slurm_cluster.sh HOSTS [SECONDS]: a real Slurm cluster on several hosts of netns_hosts.sh, until standard input ends or SECONDS
# (300) are over; then everything it started has ended.
#
# Prints "ready ENTER CONF" when all nodes are idle: "ENTER h0 COMMAND..." runs a command on the first host, where the controller
# runs, and CONF is what SLURM_CONF must be there. Needs root, the packages of launch/requirements/packages-tests.txt, and what
# netns_hosts.sh needs; exits with 77 (skip) without them. The logs of the daemons are printed where they do not start.
set -u
[ $# -ge 1 ] || { sed -n '3,9s/^# \{0,1\}//p' "$0"; exit 2; }
hosts=$1 seconds=${2:-300}
# shellcheck source=tests/support/netns_hosts.sh
. "$(dirname "$0")/netns_hosts.sh"
PATH=$PATH:/usr/sbin:/sbin
need mpirun munged slurmctld slurmd sbatch srun
start_hosts "$hosts"
conf=$work/slurm.conf
last=$((hosts - 1))

write_conf() {
  cat > "$conf" <<CONF
ClusterName=strata
SlurmctldHost=h0
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$work/munge.socket,cred_expire=5
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=1,sched_interval=2
ReturnToService=2
SlurmdParameters=config_overrides
MpiDefault=none
KillWait=5
StateSaveLocation=$work/state
SlurmctldPidFile=$work/slurmctld.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdPidFile=$work/slurmd.%n.pid
SlurmdLogFile=$work/slurmd.%n.log
SlurmdSpoolDir=$work/spool.%n
TmpFS=/dev/shm
MailProg=/bin/true
NodeName=h[0-$last] CPUs=2 RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
  mkdir -p "$work/state"
}

# On the first host, so that it ends with the hosts.
start_munge() {
  head -c 1024 /dev/urandom > "$work/munge.key"
  chmod 400 "$work/munge.key"
  "$work/enter" h0 munged --force --foreground --key-file="$work/munge.key" --socket="$work/munge.socket" \
    --pid-file="$work/munge.pid" --log-file="$work/munge.log" --seed-file="$work/munge.seed" > "$work/munge.out" 2>&1 &
  wait_until "munged" test -S "$work/munge.socket"
}

# wait_until WHAT COMMAND...
wait_until() {
  what=$1
  shift
  for _ in $(seq 300); do
    "$@" > /dev/null 2>&1 && return
    sleep 0.1
  done
  echo "slurm_cluster: not within 30 s: $what" >&2
  tail -n 30 "$work"/*.log "$work"/*.out >&2
  exit 1
}

start_daemons() {
  "$work/enter" h0 exec slurmctld -D -i -f "$conf" > "$work/slurmctld.out" 2>&1 &
  i=0
  while [ "$i" -lt "$hosts" ]; do
    "$work/enter" "h$i" exec slurmd -D -N "h$i" -f "$conf" > "$work/slurmd.h$i.out" 2>&1 &
    i=$((i + 1))
  done
}

# shellcheck disable=SC2317  # called by wait_until
all_idle() {
  [ "$("$work/enter" h0 SLURM_CONF="$conf" sinfo -h -N -o %T | sort | uniq -c | tr -s ' ')" = " $hosts idle" ]
}

write_conf
start_munge
start_daemons
wait_until "all nodes are idle" all_idle
echo "ready $work/enter $conf"
# Standard input of a process in the background is not this script's, but its limit is.
timeout "$seconds" cat > /dev/null
