# SPDX-License-Identifier: Apache-2.0
"""strata.train() on one rank of several: train_of_rank.py PARTS FOLDER RANKS_PER_MACHINE writes what it returned."""

import json
import pathlib
import sys

import strata

parts, folder, ranks_per_machine = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
process = strata.init("cpu", ranks_per_machine)
result = strata.train(graph=parts, output=folder / "run", model="sage", fanouts=[5, 3], hidden=16, batch_size=50, epochs=2, lr=0.01)
told = {
    "losses": [record["loss"] for record in result.records_of("epoch")],
    "test": result.test.accuracy,
    "weights": {name: weight.sum().item() for name, weight in result.weights.items()},
    "machines": process.num_machines,
}
(folder / f"rank{process.rank}.json").write_text(json.dumps(told))
