# SPDX-License-Identifier: Apache-2.0
"""A rank of test_typed_parts.py: writes what its batches of parts say.

    typed_batches_of_rank.py PARTS FOLDER RANKS_PER_MACHINE
"""

import json
import pathlib
import sys

import strata

FANOUTS = [3, 2]
SEEDS = list(range(0, 300, 3))
SEEDS_OF_STEP = 20


def steps_of(graph, features):
    """The picks and the types of this rank's nodes by original ids, and with `features` sums of rows and labels of seeds."""
    per_rank = SEEDS_OF_STEP // strata.process().size
    options = {"fanouts": FANOUTS, "batch_size": per_rank, "shuffle": True, "seed": 7}
    loader = strata.NodeLoader(graph, ("paper", SEEDS), features=features, **options)
    steps = []
    for batch in loader:
        (input_nodes, _, blocks), x, y = batch if features else (batch, None, None)
        original = graph.original_ids(input_nodes.cpu()).tolist()
        edges, types = [], set()
        for hop, block in enumerate(reversed(blocks)):
            edge_ids, ends = block.edge_ids.tolist(), block.indptr.tolist()
            edges += [[hop, original[dst], edge] for dst in range(block.num_dst) for edge in edge_ids[ends[dst] : ends[dst + 1]]]
            types |= set(zip(original, block.types.of_nodes.tolist()))
        step = {"edges": edges, "types": sorted(types)}
        if features:
            step |= {"rows": dict(zip(original, x.sum(dim=1).tolist())), "labels": dict(zip(original, y.tolist()))}
        steps.append(step)
    loader.close()
    return steps


def main():
    parts, folder, ranks_per_machine = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
    process = strata.init("cpu", ranks_per_machine)
    with strata.load(parts) as graph:
        found = {"steps": steps_of(graph, True), "machines": process.num_machines}
        loader = strata.NeighborLoader(graph, FANOUTS, input_nodes=("paper", SEEDS), batch_size=20)
        seeds = [(batch["paper"].n_id, batch["paper"].y, batch["paper"].batch_size) for batch in loader]
        found["seeds"] = [pair for n_id, y, size in seeds for pair in zip(n_id[:size].tolist(), y[:size].tolist())]
        (folder / f"rank{process.rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
