# SPDX-License-Identifier: Apache-2.0
"""The programs of a wheel: what pip puts on PATH starts the program of that name in the package.

A module of its own, because importing strata would load the extension first.
"""

from __future__ import annotations

import glob
import importlib.util
import os
import pathlib
import signal
import sys

PACKAGE = pathlib.Path(__file__).resolve().parent / "strata"


def _folder_of(package: str) -> str | None:
    spec = importlib.util.find_spec(package)
    return spec.submodule_search_locations[0] if spec and spec.submodule_search_locations else None


def _library_folders() -> list[str]:
    """Where libtorch, NCCL, the CUDA libraries and Arrow lie, if not in the environment that Strata lies in."""
    folders = []
    if torch := _folder_of("torch"):
        folders = [os.path.join(torch, "lib"), *sorted(glob.glob(os.path.join(os.path.dirname(torch), "nvidia", "*", "lib")))]
    if arrow := _folder_of("pyarrow"):
        folders.append(arrow)
    return [folder for folder in folders if pathlib.Path(folder).parents[1] != PACKAGE.parent]


def _start(program: pathlib.Path) -> None:
    os.environ.setdefault("STRATA_BIN", str(PACKAGE / "bin"))
    if folders := _library_folders():
        os.environ["LD_LIBRARY_PATH"] = ":".join([*folders, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
    os.execv(program, [str(program), *sys.argv[1:]])


def main() -> None:
    """Becomes the program that this process was called as; returns only by an exception."""
    # strata-train takes these signals, which would end it until it does: it has them blocked from the start.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    _start(PACKAGE / "bin" / pathlib.Path(sys.argv[0]).name)


def run() -> None:
    """strata-run."""
    _start(PACKAGE / "launch" / "strata-run")


def env() -> None:
    """strata-env: prints what a shell evaluates for the settings of Open MPI: eval "$(strata-env)"."""
    print(f"source '{PACKAGE / 'launch' / 'mpi-env'}'")
