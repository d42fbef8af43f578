# SPDX-License-Identifier: Apache-2.0
"""Where the built programs are, for the benchmarks that run them."""
import os
import pathlib
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]


def bin_folder():
    """The folder of STRATA_BIN, or of the CUDA build, or of the CPU build: the first that has strata-train."""
    for folder in filter(None, [os.environ.get('STRATA_BIN'), REPOSITORY / 'build/cuda/bin', REPOSITORY / 'build/cpu/bin']):
        if (pathlib.Path(folder) / 'strata-train').exists():
            return pathlib.Path(folder)
    sys.exit('strata-train is not built; run launch/build or set STRATA_BIN')
