# SPDX-License-Identifier: Apache-2.0
"""A rank of test_launch.py: writes what its batches say.

    batches_of_rank.py SOURCE FOLDER RANKS_PER_MACHINE
"""

import json
import pathlib
import sys

import strata


def main():
    source, folder, ranks_per_machine = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
    process = strata.init("cpu", ranks_per_machine)
    graph = strata.load(source)
    steps = []
    per_rank = 60 // process.size
    loader = strata.NodeLoader(graph, "train", fanouts=[4, 3], batch_size=per_rank, shuffle=True, seed=7, features=True)
    for (input_nodes, output_nodes, blocks), x, y in loader:
        original = graph_ids(graph, input_nodes)
        edges = []
        for hop, block in enumerate(reversed(blocks)):
            edge_ids, ends = block.edge_ids.tolist(), block.indptr.tolist()  # edge_index would import torch._dynamo: two seconds
            edges += [[hop, original[dst], edge] for dst in range(block.num_dst) for edge in edge_ids[ends[dst] : ends[dst + 1]]]
        steps.append(
            {
                "seeds": original[: len(output_nodes)],
                "edges": edges,
                "rows": {str(node): row for node, row in zip(original, x.sum(dim=1).tolist())},
                "labels": y.tolist(),
            }
        )
    (folder / f"rank{process.rank}.json").write_text(json.dumps({"steps": steps, "machines": process.num_machines}))
    loader.close()
    graph.close()


def graph_ids(graph, nodes):
    return graph.original_ids(nodes).tolist()


if __name__ == "__main__":
    main()
