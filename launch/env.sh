# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Source this in a folder that launch/pack made: PATH, the libraries that come with Python's torch, and Open MPI's settings.
strata_home=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PATH=$strata_home/bin:$PATH
# The Python package, for the Python that it was built for.
[[ ! -d $strata_home/python ]] || export PYTHONPATH=$strata_home/python${PYTHONPATH:+:$PYTHONPATH}

# libtorch, NCCL and the CUDA libraries, wherever this node's Python keeps them; a pack may bring its own.
if ! compgen -G "$strata_home/lib/libtorch_cpu.so" > /dev/null; then
  strata_torch=$("${STRATA_PYTHON:-python3}" - 2> /dev/null <<'PYTHON'
import glob, importlib.util, os

spec = importlib.util.find_spec("torch")
if spec:
    package = spec.submodule_search_locations[0]
    site = os.path.dirname(package)
    print(":".join([os.path.join(package, "lib")] + sorted(glob.glob(os.path.join(site, "nvidia", "*", "lib")))))
PYTHON
  ) || true
  if [[ -n $strata_torch ]]; then
    export LD_LIBRARY_PATH=$strata_torch${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  else
    echo "warning: ${STRATA_PYTHON:-python3} has no torch: strata-train will not start. Load the module or environment that has" \
      "torch 2.11, or set STRATA_PYTHON to its Python; strata-partition works without" >&2
  fi
  unset strata_torch
fi

# Arrow, for Parquet tables, where this node's Python has the pyarrow that strata-partition was built with.
strata_arrow=$("${STRATA_PYTHON:-python3}" -c '
import importlib.util
spec = importlib.util.find_spec("pyarrow")
print(spec.submodule_search_locations[0] if spec else "")' 2> /dev/null) || true
[[ -z $strata_arrow ]] || export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$strata_arrow
unset strata_arrow

# A pack may bring Open MPI, too.
if [[ -d $strata_home/mpi ]]; then
  export PATH=$strata_home/mpi/bin:$PATH OPAL_PREFIX=$strata_home/mpi
  export PMIX_MCA_mca_base_component_path=$strata_home/mpi/pmix
  export LD_LIBRARY_PATH=$strata_home/mpi/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
# shellcheck source=launch/mpi-env
source "$strata_home/mpi-env"
unset strata_home
