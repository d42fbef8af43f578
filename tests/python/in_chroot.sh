#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a script in another system, in which the Python packages of SITE lie at /torch and MPICH at /mpich; in a mount namespace of its own.
#
# usage: in_chroot.sh ROOT SITE MPICH SCRIPT
set -euo pipefail
root=$1 site=$2 mpich=$3 script=$4
mkdir -p "$root/torch" "$root/mpich"
mount --make-rprivate /
mount --bind "$site" "$root/torch"
mount --bind "$mpich" "$root/mpich"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t sysfs sys "$root/sys"
exec env -i HOME=/root PATH=/usr/bin:/bin:/usr/sbin:/sbin chroot "$root" bash "$script"
