#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a command that gives each rank a PID namespace of its own; 77 where that is not allowed.
#
# usage: pid_namespaces.sh COMMAND...
set -uo pipefail
unshare --pid --fork --mount-proc true 2> /dev/null || {
  echo "SKIPPED: no PID namespaces can be made here (not root, or a container)"
  exit 77
}
"$@"
