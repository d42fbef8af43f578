# SPDX-License-Identifier: Apache-2.0
"""Batches and steps on a graph of six types and eleven relations, with the numbers of nodes and the degrees of IGBH.

    python benchmarks/python/hetero.py [--scale 0.01] [--seeds 2048] [--fanouts 15,10,5] [--columns 1024] [--pyg]

Times are medians of ten batches after five, in ms: a batch of each loader; forward, backward and update of R-GAT (4 heads), R-SAGE, R-GCN
and HGT (4 heads), three layers of 512 columns, on rows that lie on the device, on blocks, and of the first two on the merged hops of PyG's
loader; with --pyg the latter by torch_geometric's HeteroConv, too. The bytes of a batch's input rows, at the rate of a copy on the device,
are the limit beside them. With --rows, a table of as many 8-bit rows as the graph has nodes lies on the device: R-GAT's step then begins
with a new batch and its rows.
"""

import argparse
import statistics
import time

import torch
import torch_geometric.nn as pyg
from torch_geometric.utils import trim_to_layer

import strata
from strata import nn
from strata._types import OneType
from strata.graph import from_types

NODES = {"paper": 269_346_174, "author": 277_220_883, "fos": 712_960, "journal": 49_052, "institute": 26_918, "conference": 4_547}
EDGES = {
    ("paper", "cites", "paper"): 7_992_884_008,
    ("paper", "topic", "fos"): 1_050_280_600,
    ("paper", "written_by", "author"): 716_761_549,
    ("paper", "published", "journal"): 93_524_353,
    ("author", "affiliated_to", "institute"): 48_521_486,
    ("paper", "venue", "conference"): 5_101_478,
}
HIDDEN, HEADS, CLASSES = 512, 4, 2983


def random_ends(count, nodes, device):
    """Skewed ids: a few nodes have most of the edges."""
    return (torch.rand(count, device=device).square() * nodes).long().clamp_(max=nodes - 1)


def make_graph(scale, device, node_counts=NODES, edge_counts=EDGES, symmetric=("cites",)):
    """Random edges, each relation with its reverse except those that are symmetric."""
    nodes = {kind: OneType(max(16, int(count * scale)), {}) for kind, count in node_counts.items()}
    edge_index = {}
    for (source, name, destination), count in edge_counts.items():
        count = int(count * scale)
        ends = torch.stack([random_ends(count, nodes[source].size, device), torch.randint(nodes[destination].size, (count,), device=device)]).cpu()
        edge_index[source, name, destination] = ends
        if name not in symmetric:
            edge_index[destination, "rev_" + name, source] = ends.flip(0)
    edges = {kind: OneType(ends.shape[1], {}) for kind, ends in edge_index.items()}
    return from_types(nodes, edges, edge_index, batch_size=2048)


class RGCN(nn.RGCNConv):
    def forward(self, x, block):
        return super().forward(x, block, block.types.of_edges)


class Model(torch.nn.Module):
    """Three layers, each made by a function of its width."""

    def __init__(self, layer, columns):
        super().__init__()
        self.convs = torch.nn.ModuleList([layer(width) for width in (columns, HIDDEN, HIDDEN)])
        self.head = torch.nn.Linear(HIDDEN, CLASSES)

    def on_blocks(self, blocks, x):
        for conv, block in zip(self.convs, blocks):
            x = torch.nn.functional.leaky_relu(conv(x, block))
        return self.head(x)

    def forward(self, batch, x):
        edge_index = batch.edge_index_dict
        for number, conv in enumerate(self.convs):
            x, edge_index, _ = trim_to_layer(number, batch.num_sampled_nodes_dict, batch.num_sampled_edges_dict, x, edge_index)
            x = {kind: torch.nn.functional.leaky_relu(rows) for kind, rows in conv(x, edge_index).items()}
        return self.head(x["paper"][: batch["paper"].batch_size])


def timed(work, repeats=10, warm=5):
    times = []
    for repeat in range(repeats + warm):
        begin = time.perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        if repeat >= warm:
            times.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.01)
    parser.add_argument("--seeds", type=int, default=2048)
    parser.add_argument("--fanouts", default="15,10,5")
    parser.add_argument("--columns", type=int, default=1024)
    parser.add_argument("--pyg", action="store_true")
    parser.add_argument("--rows", action="store_true")
    options = parser.parse_args()
    device = torch.device(strata.process().device)
    torch.manual_seed(1)
    begin = time.perf_counter()
    graph = make_graph(options.scale, device)
    print(f"{graph!r}, made in {time.perf_counter() - begin:.1f} s")
    fanouts = [int(fanout) for fanout in options.fanouts.split(",")]
    papers = torch.randperm(graph._types.nodes["paper"].size)[: options.seeds * 40]
    loader = strata.NeighborLoader(graph, fanouts, input_nodes=("paper", papers), batch_size=options.seeds, shuffle=True)
    blocks_of = strata.NodeLoader(graph, ("paper", papers), fanouts=fanouts, batch_size=options.seeds, shuffle=True)
    batches, lists = iter(loader), iter(blocks_of)
    print(f"batch of merged hops       {timed(lambda: next(batches)):8.2f} ms")
    print(f"batch of blocks            {timed(lambda: next(lists)):8.2f} ms")
    batch, (inputs, _, blocks) = next(batches), next(lists)
    rows, edges = sum(len(store.n_id) for store in batch.node_stores), sum(store.edge_index.shape[1] for store in batch.edge_stores)
    print(f"merged hops: {rows} input rows, {edges} edges; blocks: {len(inputs)} rows, {sum(len(block.indices) for block in blocks)} edges")
    labels = torch.randint(CLASSES, (options.seeds,), device=device)

    def of_relations(library, layer):
        return lambda width: library.HeteroConv({kind: layer(width) for kind in graph.edge_types})

    def attention(library):
        return of_relations(library, lambda width: library.GATConv(width, HIDDEN // HEADS, heads=HEADS, add_self_loops=False))

    sage = of_relations(nn, lambda width: nn.SAGEConv(width, HIDDEN))
    for dtype in (torch.bfloat16, torch.float32) if device.type == "cuda" else (torch.float32,):
        x = {kind: torch.randn(len(batch[kind].n_id), options.columns, device=device, dtype=dtype) for kind in NODES}
        of_blocks = torch.randn(len(inputs), options.columns, device=device, dtype=dtype)

        def on_blocks(model):
            return model.on_blocks(blocks, of_blocks)

        ways = [
            ("R-GAT on blocks", attention(nn), on_blocks),
            ("R-SAGE on blocks", sage, on_blocks),
            ("R-GCN on blocks", lambda width: RGCN(width, HIDDEN, len(graph.edge_types)), on_blocks),
            ("HGT on blocks", lambda width: nn.HGTConv(width, HIDDEN, graph.metadata(), HEADS), on_blocks),
            ("R-GAT", attention(nn), lambda model: model(batch, x)),
            ("R-SAGE", sage, lambda model: model(batch, x)),
        ]
        if options.pyg:
            ways.append(("R-GAT of PyG", attention(pyg), lambda model: model(batch, x)))
            ways.append(("R-SAGE of PyG", of_relations(pyg, lambda width: pyg.SAGEConv((width, width), HIDDEN)), lambda model: model(batch, x)))
        for name, layer, outputs_of in ways:
            model = Model(layer, options.columns).to(device, dtype)
            report(name, dtype, timed(step_of(model, outputs_of, labels)), device)
            del model
        if device.type == "cuda":
            source = torch.empty(1 << 28, device=device)
            copy = 2 * source.nbytes / timed(lambda: source.clone()) / 1e6
            read = rows * options.columns * torch.finfo(dtype).bits / 8
            print(f"input rows once    {str(dtype)[6:]:9}{read / copy / 1e6:8.2f} ms at {copy:.0f} GB/s")
    if options.rows:
        del x, of_blocks, batch, batches
        train_from_rows(graph, lists, attention(nn), options.columns, labels)


def report(name, dtype, ms, device):
    peak = ""
    if device.type == "cuda":
        peak = f"   peak {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB"
        torch.cuda.reset_peak_memory_stats()
    print(f"{name:18} {str(dtype)[6:]:9}{ms:8.2f} ms{peak}", flush=True)


def train_from_rows(graph, lists, layer, columns, labels):
    """Steps with all that belongs to them: a new batch, its rows, forward, backward and update."""
    device = labels.device
    table = torch.empty(graph.num_nodes, columns, dtype=torch.int8, device=device)
    for part in table.split(1 << 20):
        part.random_(-127, 128)
    scales = torch.rand(graph.num_nodes, 1, device=device).div_(127)

    def outputs_of(model):
        inputs, _, blocks = next(lists)
        return model.on_blocks(blocks, table[inputs].to(torch.bfloat16) * scales[inputs].to(torch.bfloat16))

    report("R-GAT from 8 bits", torch.bfloat16, timed(step_of(Model(layer, columns).to(device, torch.bfloat16), outputs_of, labels)), device)


def step_of(model, outputs_of, labels):
    optimizer = torch.optim.Adam(model.parameters(), foreach=True)

    def step():
        outputs = outputs_of(model)
        loss = torch.nn.functional.cross_entropy(outputs.float(), labels[: len(outputs)])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


if __name__ == "__main__":
    main()
