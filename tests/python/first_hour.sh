#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Within a system that in_chroot.sh prepared: installs the wheel that lies beside this file, and runs first_hour.py alone, under
# torchrun and under mpirun.
set -euo pipefail
cd "$(dirname "$0")"
python3 -m venv --without-pip env
site=$(env/bin/python -c 'import site; print(site.getsitepackages()[0])')
for package in /torch/*; do
  [[ ${package##*/} == strata* || -e $site/${package##*/} ]] || ln -s "$package" "$site/"
done
begin=$EPOCHREALTIME
env/bin/python -m pip install --quiet --no-deps --no-index --root-user-action=ignore strata_gnn-*.whl
env/bin/python first_hour.py alone 1024
echo "from the wheel to logits: $(env/bin/python -c "print(round($EPOCHREALTIME - $begin, 1))") s"
env/bin/python -m torch.distributed.run --nproc-per-node 2 first_hour.py torchrun 512
export {OMPI,PRTE}_ALLOW_RUN_AS_ROOT=1 {OMPI,PRTE}_ALLOW_RUN_AS_ROOT_CONFIRM=1
PATH=$PATH:/mpich/bin
for mpirun in mpirun mpirun.mpich; do
  ! command -v $mpirun > /dev/null || $mpirun -n 2 env/bin/python first_hour.py $mpirun 512
done
PATH=$PWD/env/bin:$PATH strata-partition build --input synthetic:nodes=1000,degree=5 --parts 2 --output parts > /dev/null
PATH=$PWD/env/bin:$PATH strata-run -n 2 -- --graph parts --fanouts 5 --epochs 1 --output run
