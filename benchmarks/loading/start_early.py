#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long until the first step of training is done, with and without --start-early?

    start_early.py --graph parts [--runs 5] [--json out.json] [-- options of strata-train]

Runs take turns. Before each, the part files are dropped from the page cache of this host; --warm leaves them there. A run is
ended when it has logged its first step. Options behind -- go to strata-train, for example --batch-size 1024 --fanouts 15,10,5.
STRATA_BIN is the folder of strata-train; without it, strata-train is looked for in PATH.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

BAR = 0.4
LIMIT_SECONDS = 1800


def drop_from_cache(folder: pathlib.Path) -> None:
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def records(output: pathlib.Path) -> dict:
    path = output / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return {record["type"]: record for record in (json.loads(line) for line in lines if line.endswith("\n"))}


def first_step(program: str, graph: pathlib.Path, options: list) -> float:
    """Seconds from the start of a run to the end of its first step, as the run logs it."""
    with tempfile.TemporaryDirectory(prefix="strata-start-") as folder:
        output = pathlib.Path(folder) / "run"
        log = pathlib.Path(folder) / "log"
        with log.open("w") as stream:
            command = [program, "--graph", graph, "--output", output, "--eval-every", "0", *options]
            process = subprocess.Popen(list(map(str, command)), stdout=stream, stderr=subprocess.STDOUT)
        try:
            deadline = time.monotonic() + LIMIT_SECONDS
            while "first_step" not in (found := records(output)):
                if process.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"strata-train made no step:\n{log.read_text()}")
                time.sleep(0.05)
            return found["first_step"]["seconds"]
        finally:
            process.kill()
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", type=pathlib.Path, required=True, help="partition directory")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--warm", action="store_true", help="leave the part files in the page cache")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("options", nargs="*", help="of strata-train, behind --")
    asked = parser.parse_args()
    program = shutil.which("strata-train", path=os.environ.get("STRATA_BIN")) or sys.exit("strata-train is not in PATH, nor in STRATA_BIN")
    seconds = {"as always": [], "--start-early": []}
    for _ in range(asked.runs):
        for name, times in seconds.items():
            if not asked.warm:
                drop_from_cache(asked.graph)
            times.append(first_step(program, asked.graph, [*asked.options, *([name] if name.startswith("-") else [])]))
    size = sum(path.stat().st_size for path in asked.graph.iterdir())
    print(f"{size / 2**30:.2f} GiB of part files, {'in' if asked.warm else 'dropped from'} the page cache; seconds to the first step")
    for name, times in seconds.items():
        print(f"{name:14} median {statistics.median(times):8.2f}   of {', '.join(f'{t:.2f}' for t in sorted(times))}")
    late, early = seconds.values()
    ratio = statistics.median(e / n for e, n in zip(early, late))
    print(f"ratio {ratio:.2f}, bar {BAR}")
    if asked.json:
        asked.json.write_text(json.dumps({"bytes": size, "warm": asked.warm, "seconds": seconds, "ratio": ratio, "bar": BAR}, indent=1))


if __name__ == "__main__":
    main()
