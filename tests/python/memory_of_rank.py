# SPDX-License-Identifier: Apache-2.0
"""Graphs in memory on one rank of two: memory_of_rank.py FOLDER MACHINES writes what calls returned.

MACHINES is 1, 2 (virtual ones), or hosts: the second rank then has a shared memory of its own.
"""

import json
import os
import pathlib
import sys

folder, machines = pathlib.Path(sys.argv[1]), sys.argv[2]
if machines == "hosts" and os.environ["RANK"] == "1" and "OWN_MEMORY" not in os.environ:
    os.environ["OWN_MEMORY"] = "yes"
    own = 'mount -t tmpfs tmpfs /dev/shm && exec "$@"'
    os.execvp("unshare", ["unshare", "--mount", "sh", "-c", own, "sh", sys.executable, *sys.argv])

import torch  # noqa: E402
from torch_geometric.data import Data  # noqa: E402

import strata  # noqa: E402
from test_memory import OPTIONS, losses, make_data  # noqa: E402

process = strata.init("cpu", 0 if machines == "1" else 1)
rank, data = process.rank, make_data()
told = {"machines": process.num_machines}


def train(graph, name, **options):
    return strata.train(graph, **(OPTIONS | {"output": folder / name, "device": None} | options))


def error_of(name, call):
    try:
        call()
    except Exception as error:
        told[name] = f"{type(error).__name__}: {error}"


mark = pathlib.Path(f"/dev/shm/strata-test-{folder.parent.name}")
if rank == 0:
    mark.touch()
process.barrier()
told["seen"] = [bool(process.broadcast("yes" if mark.exists() else "", root)) for root in range(2)]
mark.unlink(missing_ok=True)

result = train(data, "same")
told["losses"] = losses(result)
told["first only"] = losses(train(data if rank == 0 else None, "first"))
told["second only"] = losses(train(data if rank == 1 else None, "second"))
if machines == "1":
    told["from_pyg"] = losses(train(strata.from_pyg(data), "from_pyg"))
logits = strata.predict(result, data)
told["logits"] = logits.tolist()
nodes = [7, 3, 399]
told["chosen are rows of all"] = torch.equal(strata.predict(result, data if rank == 0 else None, nodes), logits[nodes])
error_of("other data", lambda: train(make_data(rank), "other"))
error_of("a name", lambda: train(data if rank == 0 else "parts", "name"))
error_of("no graph", lambda: train(Data(num_nodes=3) if rank == 0 else data, "none"))
error_of("other nodes", lambda: strata.predict(result, data, [rank]))
stopped = train(data, "stopped", epochs=50, on_epoch=lambda record: "stop" if record["epoch"] == 2 else None)
told["stopped"] = [stopped.stopped, stopped.epochs]


def fail(record):
    raise ZeroDivisionError("mine")


error_of("callback", lambda: train(data, "failing", epochs=50, on_epoch=fail))
(folder / f"rank{rank}.json").write_text(json.dumps(told))
