# SPDX-License-Identifier: Apache-2.0
"""Public headers that do not compile alone."""
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

from include_order import OUTSIDE, includes_of

LIBTORCH = next(outside for outside in OUTSIDE if outside.name == "libtorch")


def include_folders(root):
    return [root / "include", *sorted(root.glob("extras/*/include"))]


def headers_below(header, root):
    """The headers of Strata that it includes, directly or through others, and whether one of them includes libtorch."""
    below, torch, ahead = set(), False, [header]
    while ahead:
        for include in includes_of(ahead.pop()):
            torch = torch or bool(LIBTORCH.pattern.match(include.header))
            new = {folder / include.header for folder in include_folders(root) if (folder / include.header).is_file()} - below
            below |= new
            ahead += new
    return below, torch


def headers_without_libtorch(root):
    """Those of libtorch take ten times as long; the sources of their modules compile them often enough."""
    headers = [header for folder in include_folders(root) for header in sorted(folder.rglob("*.hpp"))]
    return [header for header in headers if not headers_below(header, root)[1]]


def chains(headers, root):
    """The headers, in lists of which each includes those before it: behind these it compiles as it does alone."""
    below = {header: headers_below(header, root)[0] for header in headers}
    left, found = set(headers), []
    for last in sorted(headers, key=lambda header: len(below[header]), reverse=True):
        chain, candidates = [], {last} & left
        while candidates:
            chain.insert(0, max(candidates, key=lambda header: (len(below[header]), header)))
            left.remove(chain[0])
            candidates = below[chain[0]] & left
        found += [chain] if chain else []
    return found


def faults(root, compiler, flags):
    """The compiler's complaint for each header that needs another one before it."""

    def errors(*headers):
        source = "".join(f'#include "{header}"\n' for header in headers)
        folders = [f"-I{folder}" for folder in include_folders(root)]
        command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *folders, *flags, "-x", "c++", "-"]
        run = subprocess.run(command, input=source, capture_output=True, text=True)
        return run.stderr if run.returncode else ""

    def complaints(chain):
        together = errors(*chain)
        alone = [(header, errors(header)) for header in chain] if together else []
        found = [f"{header.relative_to(root)} does not compile alone:\n{text}" for header, text in alone if text]
        return found or [f"{chain} do not compile together:\n{together}"] * bool(together)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return [text for found in pool.map(complaints, chains(headers_without_libtorch(root), root)) for text in found]
