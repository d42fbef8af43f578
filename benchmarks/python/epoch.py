# SPDX-License-Identifier: Apache-2.0
"""Epochs of GraphSAGE in Python, with PyG's layers or Strata's, on one rank or under DDP.

    epoch.py [--layers strata|pyg] [--form merged|blocks] [--graph SPEC] [--fanouts 15,10,5] [--batch-size 1024] [--hidden 256]
    mpirun -n 2 python epoch.py ...        torchrun --nproc_per_node 2 epoch.py ...

The first rank prints the median of four epochs after one that is not counted, and the last loss.
"""

import argparse
import statistics
import time

import torch
from sage import Sage
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import strata


def on_merged(batch, layers, own):
    return batch.x, [lambda layer, x: layer(x, batch.edge_index)] * layers, batch.y, batch.batch_size, batch.loss_scale


def on_blocks(item, layers, own):
    batch, x, y = item
    if own:
        steps = [lambda layer, x, block=block: layer(x, block) for block in batch.blocks]
    else:
        steps = [
            lambda layer, x, block=block: layer((x, x[: block.num_dst]), block.edge_index, size=block.size)
            for block in batch.blocks
        ]
    return x, steps, y, len(batch.output_nodes), batch.loss_scale


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", choices=["strata", "pyg"], default="strata")
    parser.add_argument("--form", choices=["merged", "blocks"], default="blocks")
    parser.add_argument("--graph", default="synthetic:products")
    parser.add_argument("--fanouts", default="15,10,5")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=256)
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.manual_seed(1)
    process = strata.process()
    if process.size > 1:
        strata.init_process_group()
    if options.layers == "pyg":
        from torch_geometric.nn import SAGEConv
    else:
        from strata.nn import SAGEConv
    fanouts = [int(fanout) for fanout in options.fanouts.split(",")]
    graph = strata.load(options.graph, edge_ids=False)
    sizes = [graph.num_features] + [options.hidden] * (len(fanouts) - 1) + [graph.num_classes]
    model = Sage(SAGEConv, sizes).to(process.device)
    if process.size > 1:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003, fused=process.device.startswith("cuda"))
    common = {"batch_size": options.batch_size, "shuffle": True}
    if options.form == "merged":
        loader, unpack = strata.NeighborLoader(graph, fanouts, "train", **common), on_merged
    else:
        loader, unpack = strata.NodeLoader(graph, "train", fanouts=fanouts, features=True, **common), on_blocks

    seconds = []
    for _ in range(5):
        process.barrier()
        begun = time.perf_counter()
        for item in loader:
            x, steps, y, seeds, scale = unpack(item, len(fanouts), options.layers == "strata")
            optimizer.zero_grad()
            loss = cross_entropy(model(x, steps)[:seeds], y, reduction="sum") * (scale / max(1, seeds))
            loss.backward()
            optimizer.step()
        if process.device.startswith("cuda"):
            torch.cuda.synchronize()
        process.barrier()
        seconds.append(time.perf_counter() - begun)
    if process.rank == 0:
        median = statistics.median(seconds[1:])
        print(
            f"{options.layers} {options.form}, {process.size} ranks on {process.device}: {median:.3f} s an epoch of {len(loader)} "
            f"steps ({1e3 * median / len(loader):.2f} ms each), loss {float(loss.detach()):.4f}"
        )
    if process.size > 1:
        torch.distributed.destroy_process_group()
    loader.close()
    graph.close()


if __name__ == "__main__":
    main()
