# SPDX-License-Identifier: Apache-2.0
"""What the number of relations costs, and an epoch of R-GCN in the shape of ogbn-mag with rows that are learned.

    python benchmarks/python/relations.py [--scale 1] [--seeds 1024] [--hidden 64]

A step (forward, backward, update) of two layers of R-GCN on all neighbors, where the same edges are of one relation or of 200: medians of ten
steps after five, in ms. Then an epoch on a random graph with the numbers of nodes and edges of ogbn-mag (fanouts 25,20): papers have 128
features, each other type has 128 learned ones, updated by row. The second of two epochs counts. With --scale the graphs are smaller.
"""

import argparse
import time

import torch
from hetero import OneType, from_types, make_graph, step_of, timed

import strata
from strata import nn

NODES = {"author": 1_134_649, "field_of_study": 59_965, "institution": 8_740, "paper": 736_389}
EDGES = {
    ("author", "writes", "paper"): 7_145_660,
    ("author", "affiliated_with", "institution"): 1_043_998,
    ("paper", "cites", "paper"): 5_416_271,
    ("paper", "has_topic", "field_of_study"): 7_505_078,
}
PAPERS_TO_TRAIN, COLUMNS, CLASSES, FEW_NODES, DEGREE = 629_571, 128, 349, 400_000, 20


class RGCN(torch.nn.Module):
    """Two layers on blocks, and the learned rows of the nodes below `learned`."""

    def __init__(self, relations, hidden, classes, features, learned=0):
        super().__init__()
        self.convs = torch.nn.ModuleList([nn.RGCNConv(COLUMNS, hidden, relations), nn.RGCNConv(hidden, classes, relations)])
        self.features, self.learned = features, learned
        self.rows = strata.Embedding(learned, COLUMNS) if learned else None

    def forward(self, ids, blocks):
        x = self.features[(ids - self.learned).clamp(min=0)]
        if self.rows is not None:
            places = (ids < self.learned).nonzero().squeeze(1)
            x = x.index_copy(0, places, self.rows(ids[places]))
        for conv, block in zip(self.convs, blocks):
            x = conv(x, block, block.types.of_edges)
            x = torch.relu(x) if conv is self.convs[0] else x
        return x


def graph_of_relations(relations, nodes, device):
    """The same edges whatever the number of relations, which take turns."""
    generator = torch.Generator(device).manual_seed(1)
    ends = torch.randint(nodes, (2, nodes * DEGREE), generator=generator, device=device).cpu()
    edge_index = {("node", f"r{number}", "node"): ends[:, number::relations].contiguous() for number in range(relations)}
    edges = {kind: OneType(ends.shape[1], {}) for kind, ends in edge_index.items()}
    return from_types({"node": OneType(nodes, {})}, edges, edge_index, batch_size=1024)


def measure_relations(options, device):
    nodes = max(1000, int(FEW_NODES * options.scale))
    for relations in (1, 200):
        graph = graph_of_relations(relations, nodes, device)
        inputs, _, blocks = next(
            iter(strata.NodeLoader(graph, ("node", torch.arange(options.seeds)), fanouts=[-1, -1], batch_size=options.seeds))
        )
        model = RGCN(relations, options.hidden, options.hidden, torch.randn(nodes, COLUMNS, device=device)).to(device)
        labels = torch.randint(options.hidden, (options.seeds,), device=device)
        ms = timed(step_of(model, lambda model: model(inputs, blocks), labels))
        print(f"{relations:4} relations {sum(len(block.indices) for block in blocks):9} edges {ms:8.2f} ms", flush=True)


def measure_mag(options, device):
    graph = make_graph(options.scale, device, NODES, EDGES, symmetric=())
    counts = [graph._types.nodes[kind].size for kind in NODES]
    learned, papers = sum(counts[:-1]), counts[-1]
    seeds = torch.randperm(papers)[: int(PAPERS_TO_TRAIN * options.scale)]
    loader = strata.NodeLoader(graph, ("paper", seeds), fanouts=[25, 20], batch_size=options.seeds, shuffle=True)
    model = RGCN(len(graph.edge_types), options.hidden, CLASSES, torch.randn(papers, COLUMNS, device=device), learned).to(
        device
    )
    labels = torch.randint(CLASSES, (learned + papers,), device=device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    model.rows.follow(optimizer)
    for epoch in range(2):
        begin = time.perf_counter()
        for inputs, outputs, blocks in loader:
            loss = torch.nn.functional.cross_entropy(model(inputs, blocks)[: len(outputs)], labels[outputs])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        loss.item()
        print(f"ogbn-mag's shape, epoch {epoch}: {time.perf_counter() - begin:6.2f} s, {len(loader)} steps", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--seeds", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=64)
    options = parser.parse_args()
    device = torch.device(strata.process().device)
    torch.manual_seed(1)
    measure_relations(options, device)
    measure_mag(options, device)


if __name__ == "__main__":
    main()
