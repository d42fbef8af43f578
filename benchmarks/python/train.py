# SPDX-License-Identifier: Apache-2.0
"""strata.train() beside strata-train: the same job, one after the other, in turns.

    train.py [--rounds 3] [--device auto] [--json FILE] [-- --graph SPEC --fanouts 15,10,5 ...]
    mpirun -n 2 python train.py ...        the program then runs under an mpirun of its own, from the first rank

Prints the fastest epoch of each, without the first of a run, and the ratio: 1.02 is the bar. The losses must be equal.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import strata

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from programs import bin_folder  # noqa: E402

JOB = {"graph": "synthetic:products", "model": "sage", "fanouts": [15, 10, 5], "hidden": 256, "batch_size": 1024, "epochs": 5, "precision": "tf32"}
# On a CPU: a graph that trains in seconds.
SMALL_JOB = JOB | {"graph": "synthetic:kind=lognormal,nodes=100000,degree=25,features=100,classes=20,train=20000,valid=100,test=100", "precision": "f32"}
UNTIMED = {"eval_every": 0, "checkpoint_every": 0}
OF_LAUNCHERS = ("OMPI_", "PMIX_", "PMI_", "PRTE_", "RANK", "WORLD_SIZE", "MASTER_", "LOCAL_RANK")


def words_of(options):
    words = []
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", ",".join(map(str, value)) if isinstance(value, list) else str(value)]
    return words


def given(words):
    """Options of a command line as Python has them."""
    pairs = dict(zip((word.removeprefix("--").replace("-", "_") for word in words[::2]), words[1::2]))
    result = {}
    for name, text in pairs.items():
        if name in ("fanouts", "eval_fanouts"):
            text = f"[{text}]"
        try:
            result[name] = json.loads(text)
        except json.JSONDecodeError:
            result[name] = text
    return result


def run_program(binary, ranks, options, folder):
    environment = {key: value for key, value in os.environ.items() if not key.startswith(OF_LAUNCHERS)}
    environment |= {key: value for key, value in os.environ.items() if key.startswith(("OMPI_ALLOW", "OMPI_MCA_btl", "OMPI_MCA_plm_rsh"))}
    command = [binary, *words_of(options | {"output": folder})]
    if ranks > 1:
        command = ["mpirun", "-n", str(ranks), "--oversubscribe", *command]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    lines = (pathlib.Path(folder) / "metrics.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["type"] == "epoch"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("options", nargs="*", help="of strata-train, after --")
    arguments = parser.parse_args()
    process = strata.init(arguments.device)
    on_gpu = process.device.startswith("cuda")
    options = (JOB if on_gpu else SMALL_JOB) | {"device": "cuda" if on_gpu else "cpu"} | UNTIMED | given(arguments.options)
    seconds, losses = {"strata.train": [], "strata-train": []}, {"strata.train": [], "strata-train": []}
    with tempfile.TemporaryDirectory(prefix="strata-benchmark-") as folder:
        for turn in range(arguments.rounds):
            runs = {"strata.train": strata.train(**options, output=f"{folder}/python{turn}").records_of("epoch")}
            if process.rank == 0:
                runs["strata-train"] = run_program(bin_folder() / "strata-train", process.size, options, f"{folder}/program{turn}")
            process.barrier()
            for name, epochs in runs.items():
                seconds[name] += [epoch["seconds"] for epoch in epochs[1:]]
                losses[name].append([epoch["loss"] for epoch in epochs])
    if process.rank > 0:
        return
    table = {name: {"fastest": min(times), "median": statistics.median(times)} for name, times in seconds.items()}
    print(f"{process.size} ranks on {process.device}, {' '.join(words_of(options))}")
    for name, times in table.items():
        print(f"{name:14} {times['fastest']:.4f} s an epoch, median {times['median']:.4f} s")
    ratio = table["strata.train"]["fastest"] / table["strata-train"]["fastest"]
    equal = losses["strata.train"] == losses["strata-train"]
    print(f"ratio {ratio:.3f}; losses are {'equal' if equal else 'NOT equal'}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"options": options, "ranks": process.size, "device": process.device, "seconds": seconds, "ratio": ratio}, indent=2))
    if not equal:
        sys.exit(1)


if __name__ == "__main__":
    main()
