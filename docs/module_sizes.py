#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How large the modules are: files, files of the fullest folder, and lines.

    module_sizes.py            prints a Markdown table
    module_sizes.py --write    writes it into docs/architecture.md

A module is src/NAME with include/strata/NAME, and partition/ with include/strata/partition; an extra is src and include of
extras/NAME. Sources and headers of C++ and CUDA count; the fullest folder is looked for below src.
"""
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/architecture.md"
BEGIN, END = "<!-- sizes -->", "<!-- end of sizes -->"
ORDER = ["util", "cuda", "graph", "comm", "tensor", "torch_ranks", "plan", "store", "sampling", "batches", "nn", "train", "cli", "partition"]
EXTRAS = sorted(folder.parent.name for folder in ROOT.glob("extras/*/src"))
SUFFIXES = {".cpp", ".hpp", ".cu", ".cuh"}


@dataclass(frozen=True)
class Size:
    files: int
    fullest: int
    lines: int


def sources_below(folder):
    return sorted(file for file in folder.rglob("*") if file.suffix in SUFFIXES)


def size_of(module):
    extra = ROOT / "extras" / module
    sources = sources_below(extra / "src" if module in EXTRAS else ROOT / "partition" if module == "partition" else ROOT / "src" / module)
    headers = sources_below(extra / "include" if module in EXTRAS else ROOT / "include/strata" / module)
    lines = sum(file.read_bytes().count(b"\n") for file in [*sources, *headers])
    return Size(len(sources) + len(headers), max(Counter(file.parent for file in sources).values(), default=0), lines)


def sizes():
    """By module, the lowest first; modules that ORDER does not know come last."""
    found = {folder.name for folder in (ROOT / "src").iterdir() if folder.is_dir()} | {"partition"}
    known = [module for module in ORDER if module in found]
    return {module: size_of(module) for module in [*known, *sorted(found - set(known)), *EXTRAS]}


def table():
    rows = [f"| {module} | {size.files} | {size.fullest} | {size.lines:,} |" for module, size in sizes().items()]
    return "\n".join(["| module | files | in the fullest folder | lines |", "|---|---|---|---|", *rows])


def write():
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}")


def main():
    if sys.argv[1:] == ["--write"]:
        write()
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        print(table())


if __name__ == "__main__":
    main()
