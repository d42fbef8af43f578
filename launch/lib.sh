# shellcheck shell=bash
# Sourced by the scripts of this folder: messages, paths, what the machine has.

launch_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$launch_dir")
# A Python environment may be shared by several checkouts: STRATA_PYTHON_ENV names it.
venv=${STRATA_PYTHON_ENV:-$root/.deps/venv}

say() { printf '%s\n' "-- $*"; }

# fail MESSAGE [REMEDY...]: ends the script.
fail() {
  printf '\nerror: %s\n' "$1" >&2
  shift
  local remedy
  for remedy in "$@"; do printf '       %s\n' "$remedy" >&2; done
  # A script's exit trap need not explain again.
  # shellcheck disable=SC2034
  failed_clearly=1
  exit 1
}

# The comment at the head of a script is its help text.
print_help() { awk 'NR > 1 && !/^#/ { exit } NR > 1 { sub(/^# ?/, ""); print }' "$0"; }

# Lines of a requirements file without comments.
read_list() { grep -v -e '^#' -e '^$' "$1"; }

# GiB free on the file system that holds, or will hold, a path.
free_disk_gib() {
  local path=$1
  while [[ ! -e $path ]]; do path=$(dirname "$path"); done
  df -Pk "$path" | awk 'NR == 2 { print int($4 / 1048576) }'
}

# MiB of memory that can be used now; a container's limit counts.
free_memory_mib() {
  local available limit used
  available=$(awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo)
  if [[ -r /sys/fs/cgroup/memory.max ]]; then
    limit=$(< /sys/fs/cgroup/memory.max)
    if [[ $limit != max ]]; then
      used=$(< /sys/fs/cgroup/memory.current)
      limit=$(((limit - used) / 1048576))
      ((limit < available)) && available=$limit
    fi
  fi
  echo "$available"
}

has_gpu() { [[ -e /proc/driver/nvidia/version || -e /dev/nvidia0 ]] || nvidia-smi -L > /dev/null 2>&1; }

nvcc_release() { "$1" --version 2> /dev/null | sed -n 's/.*release \([0-9.]*\),.*/\1/p'; }

wheel_toolkit() { compgen -G "$venv/lib/python3*/site-packages/nvidia/cu13" | head -n 1; }

# Prints the path of the first nvcc that fits libtorch (13.x): the user's choice, a system toolkit, the one from PyPI.
find_nvcc() {
  local candidate release
  for candidate in "${CUDACXX:-}" "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc "$(wheel_toolkit)/bin/nvcc"; do
    [[ -x $candidate ]] || continue
    release=$(nvcc_release "$candidate")
    if [[ $release == 13.* ]]; then
      echo "$candidate"
      return 0
    fi
    say "$candidate is CUDA ${release:-of an unknown release}; libtorch needs 13: not used" >&2
  done
  return 1
}

# The preset that suits this machine; says so where it is not the full one.
choose_preset() {
  if find_nvcc > /dev/null; then
    echo cuda
  else
    say "no CUDA compiler (nvcc 13) found: building for the CPU only; 'launch/setup --cuda' installs one" >&2
    echo cpu
  fi
}
