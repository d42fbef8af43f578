# SPDX-License-Identifier: Apache-2.0
"""A rank of test_fit.py: fit_of_rank.py FOLDER trains a model of blocks and one of PyG's; writes what each rank was given."""

import json
import pathlib
import sys

import torch
from torch_geometric.nn import GraphSAGE

import strata
from strata.nn import SAGEConv

SPEC = "synthetic:kind=sbm,nodes=2000,degree=10,features=8,classes=4,train=600,valid=200,test=200,seed=2"
GLOBAL_BATCH = 120


class OnBlocks(torch.nn.Module):
    def __init__(self, graph):
        super().__init__()
        self.layers = torch.nn.ModuleList([SAGEConv(graph.num_features, 16), SAGEConv(16, graph.num_classes, relu_input=True)])

    def forward(self, x, blocks):
        for layer, block in zip(self.layers, blocks):
            x = layer(x, block)
        return x


def main():
    folder = pathlib.Path(sys.argv[1])
    process = strata.init("cpu")
    graph = strata.load(SPEC)
    found = {}
    for name, fanouts in ("blocks", [5, 3]), ("merged", [-1, -1]):  # all neighbors, which are the same in merged batches
        torch.manual_seed(process.rank)  # the first rank's weights count
        model = OnBlocks(graph) if name == "blocks" else GraphSAGE(graph.num_features, 16, 2, graph.num_classes)
        result = strata.fit(
            model, graph, fanouts=fanouts, epochs=2, batch_size=GLOBAL_BATCH // process.size, lr=0.01, output=folder / f"{name}{process.size}"
        )
        exact = strata.inference(model, graph, batch_size=300)
        found[name] = {
            "losses": [record["loss"] for record in result.records_of("epoch")],
            "valid": [record["valid"] for record in result.records_of("evaluation")],
            "logits": float(exact.sum()),
        }
    (folder / f"{process.rank}-of-{process.size}.json").write_text(json.dumps(found))
    graph.close()


if __name__ == "__main__":
    main()
