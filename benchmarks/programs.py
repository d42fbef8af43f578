# SPDX-License-Identifier: Apache-2.0
"""Finds the built programs and runs them for benchmarks."""
import os
import pathlib
import signal
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]


def bin_folder():
    """The folder of STRATA_BIN, or of the CUDA build, or of the CPU build: the first that has strata-train."""
    for folder in filter(None, [os.environ.get('STRATA_BIN'), REPOSITORY / 'build/cuda/bin', REPOSITORY / 'build/cpu/bin']):
        if (pathlib.Path(folder) / 'strata-train').exists():
            return pathlib.Path(folder)
    sys.exit('strata-train is not built; run launch/build or set STRATA_BIN')


class Failed(Exception):
    """The output of a command that did not end well or in time."""


def finished(command, environment=None, most_seconds=300):
    """The output of a command that ends well; nothing of it outlives a failure. Throws Failed."""
    process = subprocess.Popen([str(word) for word in command], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True)
    try:
        output = process.communicate(timeout=most_seconds)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)  # mpirun ends its ranks
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        raise Failed(f'not done after {most_seconds} s') from None
    if process.returncode != 0:
        raise Failed(f'exit code {process.returncode}: {output.strip()[-500:]}')
    return output
