# SPDX-License-Identifier: Apache-2.0
"""Folders of runs as strata-train leaves them, with numbers that a test can compute again."""

import html
import json
import os
import pathlib
import re
import shutil
import tempfile
import unittest

CLASSES = 3
START = 1_795_000_000.0
EPOCH_SECONDS, EVALUATION_SECONDS = 6.0, 0.5
# A run of every kind, as facts for write_run().
RUNS = {
    "finished": {"epochs": 3},
    "running": {"epochs": 2, "planned": 20, "state": "running"},
    "killed": {"epochs": 2, "planned": 20, "state": "killed"},
    "one-epoch": {"epochs": 1},
    "resumed": {"epochs": 4, "resumed_after": 2},
    "long": {"epochs": 1000},
    "ranks": {"epochs": 3, "ranks": 3},
}


def scores(epoch, nodes):
    accuracy = 0.9 - 0.5 / epoch
    return {"nodes": nodes, "loss": 1 / epoch, "accuracy": accuracy, "macro_f1": accuracy - 0.1, "roc_auc": None}


def run_record(ranks, epochs, **options):
    return {
        **{"type": "run", "version": 1, "time": START, "graph": "parts/tiny", "nodes": 12345, "edges": 678901, "parts": ranks},
        **{"model": "sage", "fanouts": [10, 5], "hidden": 64, "global_batch_size": 128 * ranks, "steps_per_epoch": 7, "ranks": ranks},
        **{"machines": ranks, "device": "cuda", "hosts": [f"host-{i}" for i in range(ranks)], "strata": "0.2.0", "seed": 0},
        **{"libraries": ["libtorch 2.11.0", "Open MPI v4.1.4"], "parts_by": "strata-partition 0.2.0", "started": "2026-11-22T20:30:00"},
        **{"command": "strata-train --graph parts/tiny", "classes": CLASSES, "presampled_batches": 16},
        "plan": [
            {"tensor": "features", "stratum": "replicated", "rows": 4000, "bytes": 1 << 30, "share": 0.8, "bytes_per_second": 1.5e12},
            {"tensor": "features", "stratum": "host", "rows": 8345, "bytes": 12 << 30, "share": 0.2, "bytes_per_second": 4e10},
        ],
        "hottest_rows": [{"share": s, "rows": n} for s, n in ((0.5, 100), (0.8, 4000), (0.9, 8172), (0.99, 11000))],
        "options": {
            **{"epochs": epochs, "metric": "accuracy", "lr": 0.01, "eval-every": 1, "accumulate": 1, "optimizer": "adam", "pipeline": True},
            **{"fanouts": [10, 5], "trace": "", "hidden": 64},
            **options,
        },
    }


def rank_record(rank, epoch):
    """The last of several ranks is slow."""
    compute = 3.0 if rank == 2 else 1.5
    return {
        **{"rank": rank, "machine": rank, "host": f"host-{rank}", "device": "cuda:0", "sample_seconds": 0.5, "gather_seconds": 1.75},
        **{"wait_seconds": 1.0, "compute_seconds": compute, "sum_seconds": 3.5 - compute, "peak_host_bytes": (2 + rank) << 30},
        "peak_device_bytes": (5 + rank) << 30,
        "memory": memory_samples(rank, epoch),
    }


def memory_samples(rank, epoch):
    """Three samples per epoch. Each rank holds 1 GiB of host memory more than the one before it, and less than its peak."""
    begin = START + (epoch - 1) * (EPOCH_SECONDS + EVALUATION_SECONDS)
    held = {"host_bytes": [((rank + 1) << 30) + (i << 20) for i in range(3)], "device_bytes": [(60 + rank) << 30] * 3}
    return {"time": [begin + EPOCH_SECONDS * share for share in (0.4, 0.8, 1.0)], **held}


def traffic_rank(rank):
    hop = {"nodes": 1000, "remote": 300, "cached": 100, "request_bytes": 2048, "answer_bytes": 4096, "request_messages": 1}
    features = {"rows": 5000, "remote": 2000, "cached": 500, "request_bytes": 1 << 20, "row_bytes": 3 << 20}
    return {"rank": rank, "machine": rank, "neighbors": {"hops": [hop, hop]}, "features": features}


def epoch_records(epoch, ranks):
    first = rank_record(0, epoch)
    records = [{"type": "step", "epoch": epoch, "step": step, "loss": 2 / epoch + 0.01 * step, "train_accuracy": 0.5} for step in (1, 7)]
    records.append(
        {
            **{"type": "epoch", "epoch": epoch, "steps": 7, "seeds": 900, "skipped_updates": 0, "unpadded_batches": 0, "input_rows": 5000},
            **{"loss": 2 / epoch, "train_accuracy": 0.95 - 0.5 / epoch, "seconds": EPOCH_SECONDS, "seeds_per_second": 150.0},
            **{name: first[name] for name in first if name.endswith("_seconds")},
            **{"train_seconds": 5.0, "gathered_bytes": {"replicated": 6_000_000_000, "striped": 0, "host": 2_000_000_000}},
            "peak_host_bytes": 2 << 30,
        }
    )
    records.append({"type": "ranks", "epoch": epoch, "ranks": [rank_record(rank, epoch) for rank in range(ranks)]})
    if ranks > 1:
        records.append({"type": "traffic", "epoch": epoch, "ranks": [traffic_rank(rank) for rank in range(ranks)]})
    records.append({"type": "evaluation", "epoch": epoch, "seconds": EVALUATION_SECONDS, "valid": scores(epoch, 300), "test": scores(epoch, 400)})
    confusion = [[100, 20, 0], [10, 190, 0], [30, 50, 0]]
    labelled, predicted = [sum(row) for row in confusion], [sum(column) for column in zip(*confusion)]
    counts = {"labelled": labelled, "predicted": predicted, "correct": [100, 190, 0], "confusion": confusion}
    records.append({"type": "classes", "epoch": epoch, **counts})
    return records


def final_record(epochs, stopped=False):
    return {
        **{"type": "final", "stopped": stopped, "epochs": epochs, "best_epoch": epochs, "valid": scores(epochs, 300)},
        **{"test": scores(epochs, 400), "seeds_per_second": 150.0, "peak_host_bytes": 2 << 30, "peak_device_bytes": 5 << 30},
    }


def lock_of_this_process():
    stat = pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    owner = {"host": "here", "boot": boot, "pid_namespace": os.readlink("/proc/self/ns/pid"), "pid": os.getpid(), "started": stat[19]}
    return json.dumps(owner) + "\n"


def stamped(records):
    """With the time at which each was written."""
    now, times = records[0]["time"], []
    for record in records:
        now += record.get("seconds", 0)
        times.append({**record, "time": now})
    return times


def write_run(folder, ranks=1, epochs=3, state="finished", resumed_after=0, planned=None, **options):
    """A run of a state of strata.reports.run.Run, which its files tell."""
    folder = pathlib.Path(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    start = run_record(ranks, planned or epochs, **options)
    records = [start]
    for epoch in range(1, epochs + 1):
        records += epoch_records(epoch, ranks)
        if epoch == resumed_after:
            records += [final_record(epoch, stopped=True), start]
    if state in ("finished", "stopped"):
        records.append(final_record(epochs, state == "stopped"))
    text = "".join(json.dumps(record) + "\n" for record in stamped(records))
    (folder / "metrics.jsonl").write_text(text + ("" if state == "finished" else '{"type": "epo'))
    if state == "running":
        (folder / "strata.lock").write_text(lock_of_this_process())
    (folder / "config.toml").write_text('# Strata 0.2.0\n# in /home/me\n\n[training]\nlr = 0.01  # command line\nepochs = 3  # default\n')
    lines = ["2026-11-22T20:29:50.000 info  loading", "2026-11-22T20:30:01.000 warning rank 0: 3 training nodes have no <label>"]
    (folder / "train.log").write_text("\n".join(lines) + "\n")
    return folder


def changed(folder, change):
    """A run of which change() got each record."""
    path = folder / "metrics.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
    for record in records:
        change(record)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


def write_trace(path, ranks=2, steps=20):
    """Steps of 5 ms. The last rank comes 1 ms after the others to each sum of gradients, and rank 0 waits 1 ms for each batch."""
    events = []

    def add(rank, tid, name, begin, length, **args):
        events.append({"ph": "X", "name": name, "pid": rank, "tid": tid, "ts": begin, "dur": length, **({"args": args} if args else {})})

    for rank in range(ranks):
        for step in range(steps):
            begin, late = 5000 * step, 1000 if rank == ranks - 1 else 0
            add(rank, 0, "sample", begin, 1000, step=step)
            for hop in (1, 2):
                add(rank, 1, f"neighbor exchange, hop {hop}", begin + 400 * hop - 300, 300)
            add(rank, 2, "gather", begin + 2800, 2100, step=step)
            add(rank, 3, "row exchange", begin + 2900, 2000)
            add(rank, 4, "train", begin, 4000, step=step)
            add(rank, 5, "gradient sum", begin + 2500 + late, 1400 - late, step=step)
            if rank == 0:
                add(rank, 6, "wait", begin + 4000, 1000)
    pathlib.Path(path).write_text(json.dumps({"traceEvents": events}))


def text_of(page):
    """The words of a page, without its scripts."""
    without = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    without = re.sub(r"</?span\b[^>]*>", "", without)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", without)).split())


class Folder(unittest.TestCase):
    """A folder of runs that a test has for itself."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="strata-reports-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def write(self, name, **facts):
        return write_run(self.folder / name, **facts)
