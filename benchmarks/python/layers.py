#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Forward and backward of strata.nn's layers beside torch_geometric's, on the same batches.

    PYTHONPATH=build/cuda/python python benchmarks/python/layers.py [--device cuda] [--nodes N] [--degree N] [--columns N]
        [--layers SAGE GCN ...] [--seconds S] [--json FILE]

A batch is a random graph whose edges are in an order of their own, as batches of torch_geometric's loaders are. A round is a
model of two layers: forward, and the gradients of x and of all parameters. Lists of the edges are made anew in each round, as
for each batch of a loader ("new batch"), and once for all ("same batch"). Both sides take turns; the table has medians.
"""

import argparse
import json
import statistics
import time

import torch
import torch_geometric.nn as pyg

import strata.nn as ours


def mlp(inputs, outputs):
    return torch.nn.Sequential(torch.nn.Linear(inputs, outputs), torch.nn.ReLU(), torch.nn.Linear(outputs, outputs))


LAYERS = {
    "SAGE mean": lambda nn, inputs, outputs: nn.SAGEConv(inputs, outputs),
    "SAGE max": lambda nn, inputs, outputs: nn.SAGEConv(inputs, outputs, aggr="max"),
    "GCN": lambda nn, inputs, outputs: nn.GCNConv(inputs, outputs),
    "GAT": lambda nn, inputs, outputs: nn.GATConv(inputs, outputs // 4, heads=4),
    "GIN": lambda nn, inputs, outputs: nn.GINConv(mlp(inputs, outputs)),
}


class Model(torch.nn.Module):
    def __init__(self, make, nn, columns):
        super().__init__()
        self.first, self.second = make(nn, columns, columns), make(nn, columns, columns)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


def finish(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def milliseconds_of(model, x, edge_index, device):
    finish(device)
    begin = time.perf_counter()
    torch.autograd.grad(model(x, edge_index).sum(), [x, *model.parameters()])
    finish(device)
    return 1e3 * (time.perf_counter() - begin)


def compared(make, arguments, device, edge_index, x):
    """Medians in milliseconds."""
    theirs, mine = (Model(make, nn, arguments.columns).to(device) for nn in (pyg, ours))
    mine.load_state_dict(theirs.state_dict())
    difference = (mine(x, edge_index) - theirs(x, edge_index)).abs().max().item()
    sides = {
        "torch_geometric": lambda: milliseconds_of(theirs, x, edge_index, device),
        "new batch": lambda: milliseconds_of(mine, x, edge_index.clone(), device),
        "same batch": lambda: milliseconds_of(mine, x, edge_index, device),
    }
    times = {side: [] for side in sides}
    for measure in sides.values():
        measure()
    end = time.perf_counter() + arguments.seconds
    while time.perf_counter() < end or len(times["same batch"]) < 5:
        for side, measure in sides.items():
            times[side].append(measure())
    medians = {side: statistics.median(values) for side, values in times.items()}
    return {**medians, "ratio": medians["new batch"] / medians["torch_geometric"], "largest difference": difference,
            "rounds": len(times["same batch"])}


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--nodes", type=int, default=20000)
    parser.add_argument("--degree", type=int, default=10)
    parser.add_argument("--columns", type=int, default=128)
    parser.add_argument("--layers", nargs="+", choices=[*LAYERS], default=[*LAYERS])
    parser.add_argument("--seconds", type=float, default=5, help="per layer")
    parser.add_argument("--json", help="a file for the results")
    return parser.parse_args()


def main():
    arguments = parsed()
    device, generator = torch.device(arguments.device), torch.Generator().manual_seed(0)
    edge_index = torch.randint(arguments.nodes, (2, arguments.nodes * arguments.degree), generator=generator).to(device)
    x = torch.randn(arguments.nodes, arguments.columns, generator=generator).to(device).requires_grad_()
    print(f"{arguments.nodes} nodes, {edge_index.shape[1]} edges, {arguments.columns} columns, {device}, milliseconds")
    print("| layer | torch_geometric | new batch | ratio | same batch | largest difference |\n|---|---|---|---|---|---|")
    results = {}
    for name in arguments.layers:
        found = results[name] = compared(LAYERS[name], arguments, device, edge_index, x)
        print(f"| {name} | {found['torch_geometric']:.2f} | {found['new batch']:.2f} | {found['ratio']:.2f} | "
              f"{found['same batch']:.2f} | {found['largest difference']:.1e} |", flush=True)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"arguments": vars(arguments), "threads": torch.get_num_threads(), "milliseconds": results}, file, indent=2)


if __name__ == "__main__":
    main()
