# SPDX-License-Identifier: Apache-2.0
"""Public headers that do not compile alone."""
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

from include_order import OUTSIDE, includes_of

LIBTORCH = next(outside for outside in OUTSIDE if outside.name == "libtorch")


def include_folders(root):
    return [root / "include", *sorted(root.glob("extras/*/include"))]


def reaches_libtorch(header, root):
    for include in includes_of(header):
        if LIBTORCH.pattern.match(include.header):
            return True
        if any(reaches_libtorch(folder / include.header, root) for folder in include_folders(root) if (folder / include.header).is_file()):
            return True
    return False


def headers_without_libtorch(root):
    """Those of libtorch take ten times as long; the sources of their modules compile them often enough."""
    headers = [header for folder in include_folders(root) for header in sorted(folder.rglob("*.hpp"))]
    return [header for header in headers if not reaches_libtorch(header, root)]


def faults(root, compiler, flags):
    """The compiler's complaint for each header that needs another one before it."""

    def complaint(header):
        source = f'#include "{header}"\n'
        folders = [f"-I{folder}" for folder in include_folders(root)]
        command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *folders, *flags, "-x", "c++", "-"]
        run = subprocess.run(command, input=source, capture_output=True, text=True)
        return "" if run.returncode == 0 else f"{header.relative_to(root)} does not compile alone:\n{run.stderr}"

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return [text for text in pool.map(complaint, headers_without_libtorch(root)) if text]
