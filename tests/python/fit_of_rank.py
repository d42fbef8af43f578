# SPDX-License-Identifier: Apache-2.0
"""A rank of test_fit.py: trains a model of blocks and one of PyG's, and writes what it was given.

    fit_of_rank.py PARTS FOLDER RANKS_PER_MACHINE
"""

import json
import pathlib
import sys

import torch
from torch_geometric.nn import GraphSAGE

import strata
from strata.nn import SAGEConv

GLOBAL_BATCH = 120


class OnBlocks(torch.nn.Module):
    def __init__(self, graph):
        super().__init__()
        self.layers = torch.nn.ModuleList([SAGEConv(graph.num_features, 16), SAGEConv(16, graph.num_classes, relu_input=True)])

    def forward(self, x, blocks):
        for layer, block in zip(self.layers, blocks):
            x = layer(x, block)
        return x


def found_in(parts, folder):
    process = strata.process()
    graph = strata.load(parts)
    found = {}
    for name, fanouts in ("blocks", [5, 3]), ("merged", [-1, -1]):  # all neighbors, which are the same in merged batches
        torch.manual_seed(process.rank)  # the first rank's weights count
        model = OnBlocks(graph) if name == "blocks" else GraphSAGE(graph.num_features, 16, 2, graph.num_classes)
        result = strata.fit(
            model, graph, fanouts=fanouts, epochs=2, batch_size=GLOBAL_BATCH // process.size, lr=0.01, output=folder / name
        )
        logits = strata.inference(model, graph, batch_size=300)
        found[name] = {
            "losses": [record["loss"] for record in result.records_of("epoch")],
            "nodes": [result.valid.nodes, result.test.nodes],
            "valid": result.valid.loss,
            "logits": logits[:: len(logits) // 20].flatten().tolist(),
        }
    graph.close()
    return found


if __name__ == "__main__":
    here = strata.init("cpu", int(sys.argv[3]))
    folder = pathlib.Path(sys.argv[2])
    (folder / f"rank{here.rank}.json").write_text(json.dumps(found_in(sys.argv[1], folder) | {"machines": here.num_machines}))
