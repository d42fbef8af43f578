#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Test scores on graphs of several types, mean over seeds: sampled batches and layers of Strata, beside PyG's layers on the full batch.

    hetero.py [--datasets dblp,acm,aifb] [--seeds 10] [--of strata,pyg] [--fanout 20] [--json FILE]

Needs the package strata, torch_geometric and the graphs (STRATA_DATA, or ../shared/data). The score is that of the test nodes at the best
epoch of the validation nodes: macro-F1 of dblp and acm, with 20 labels per class; accuracy of aifb after the last epoch, for it has no
validation nodes. Both sides have the same model, optimizer and number of epochs:

- dblp, acm: a linear map per type, and learned rows for the type without features; two layers of HeteroConv over SAGEConv; a linear map.
- aifb: two layers of RGCNConv with bases, whose input are the nodes' numbers; each relation is there in both directions.
"""

import argparse
import gzip
import json
import os
import pathlib
import statistics
import time
from typing import NamedTuple

import numpy
import scipy.sparse
import torch
import torch_geometric.nn
from torch.nn.functional import cross_entropy, dropout
from torch_geometric.data import HeteroData

import strata
import strata.nn

DATA = pathlib.Path(os.environ.get("STRATA_DATA", pathlib.Path(__file__).resolve().parents[3] / "shared/data")) / "hetero"
RATE = 0.01  # of learning
BASES = 30
EVALUATED = 10  # epochs from one evaluation to the next


class Options(NamedTuple):
    epochs: int
    hidden: int  # columns
    decay: float  # of weights
    dropout_of_features: float = 0.0
    dropout: float = 0.0
    spread: float = 0.0  # of learned rows, when they begin


OPTIONS = {
    "dblp": Options(60, 64, 1e-2, 0.8, 0.6, 0.5),
    "acm": Options(100, 64, 1e-3, 0.6, 0.6, 0.125),
    "aifb": Options(50, 16, 5e-4),
}


def features_of(file):
    try:
        return torch.from_numpy(scipy.sparse.load_npz(file).toarray()).float()
    except TypeError:  # a plain array in spite of its name
        return torch.from_numpy(numpy.load(file)).float()


def folder_of_arrays(name, files, features, without, target):
    """dblp or acm: files and names of their ends, features by type, the type without, and the type with labels."""
    folder, data = DATA / name, HeteroData()
    for kind, file in features.items():
        data[kind].x = features_of(folder / file)
    for file, (one, other) in files.items():
        edge_index = torch.from_numpy(numpy.loadtxt(folder / file, dtype="int64")).t().contiguous()
        data[one, "to", other].edge_index = edge_index
        data[other, "back", one].edge_index = edge_index.flip(0)
        if without == other:
            data[without].num_nodes = int(edge_index[1].max()) + 1
    data[target].y = torch.from_numpy(numpy.load(folder / "labels.npy")).long()
    splits = {split: torch.from_numpy(numpy.load(folder / f"{split}_20.npy")) for split in ("train", "val", "test")}
    return data, target, splits


def aifb():
    """Every entity and literal is a node; the relations that name the classes are not in the file."""
    numbers, relations, edges = {}, {}, []
    with gzip.open(DATA / "aifb/aifb_stripped.nt.gz", "rt", encoding="utf-8") as file:
        for line in filter(str.strip, file):
            source, relation, destination = line.rstrip().removesuffix(".").strip().split(" ", 2)
            ends = [numbers.setdefault(end, len(numbers)) for end in (source, destination)]
            edges.append((relations.setdefault(relation, len(relations)), *ends))
    edges, data = torch.tensor(edges), HeteroData()
    data["entity"].num_nodes = len(numbers)
    for number in range(len(relations)):
        edge_index = edges[edges[:, 0] == number][:, 1:].t().contiguous()
        data["entity", f"r{number}", "entity"].edge_index = edge_index
        data["entity", f"back{number}", "entity"].edge_index = edge_index.flip(0)
    classes, splits = {}, {}
    data["entity"].y = torch.full((len(numbers),), -1)
    for split, name in (("train", "trainingSet"), ("test", "testSet")):
        rows = [line.split("\t") for line in (DATA / f"aifb/{name}.tsv").read_text().splitlines()[1:]]
        splits[split] = torch.tensor([numbers[f"<{row[0]}>"] for row in rows])
        data["entity"].y[splits[split]] = torch.tensor([classes.setdefault(row[2], len(classes)) for row in rows])
    return data, "entity", splits


def dataset(name):
    if name == "aifb":
        return aifb()
    if name == "dblp":
        files = {"pa.txt": ("paper", "author"), "pc.txt": ("paper", "conference"), "pt.txt": ("paper", "term")}
        features = {"author": "a_feat.npz", "paper": "p_feat.npz", "term": "t_feat.npz"}
        return folder_of_arrays(name, files, features, "conference", "author")
    files = {"pa.txt": ("paper", "author"), "ps.txt": ("paper", "subject")}
    return folder_of_arrays(name, files, {"paper": "p_feat.npz", "author": "a_feat.npz"}, "subject", "paper")


class Typed(torch.nn.Module):
    """Rows by type to logits by type. `layers` is strata.nn or torch_geometric.nn."""

    def __init__(self, layers, data, options, classes):
        super().__init__()
        self.options, hidden = options, options.hidden
        widths = {kind: data[kind].x.shape[1] for kind in data.node_types if "x" in data[kind]}
        (self.without,) = set(data.node_types) - set(widths)
        count = data[self.without].num_nodes
        is_own = layers is strata.nn

        def init(table):
            return torch.nn.init.normal_(table, std=options.spread)

        self.rows = strata.Embedding(count, hidden, lr=RATE, init=init) if is_own else torch.nn.Embedding(count, hidden)
        if not is_own:
            init(self.rows.weight)
        self.maps = layers.HeteroDictLinear(widths, hidden)
        self.convs = torch.nn.ModuleList()
        for _ in range(2):
            convs = {kind: layers.SAGEConv(hidden if is_own else (hidden, hidden), hidden) for kind in data.edge_types}
            self.convs.append(layers.HeteroConv(convs, "mean"))
        self.head = torch.nn.Linear(hidden, classes)

    def forward(self, x, ids, edge_index):
        x = {kind: dropout(rows, self.options.dropout_of_features, self.training) for kind, rows in x.items()}
        x = self.maps(x) | {self.without: self.rows(ids)}
        for conv in self.convs:
            x = {kind: dropout(rows.relu(), self.options.dropout, self.training) for kind, rows in x.items()}
            x = conv(x, edge_index)
        return {kind: self.head(rows.relu()) for kind, rows in x.items()}


class Relational(torch.nn.Module):
    """R-GCN on nodes without features."""

    def __init__(self, layers, data, options, classes):
        super().__init__()
        self.num_nodes, count = data["entity"].num_nodes, len(data.edge_types)
        hidden = options.hidden
        conv = getattr(layers, "FastRGCNConv", layers.RGCNConv)  # PyG's RGCNConv loops over relations, twenty times as long
        self.first = conv(self.num_nodes, hidden, count, num_bases=BASES)
        self.second = conv(hidden, classes, count, num_bases=BASES)

    def forward(self, ids, edges):
        """`edges` are (edge_index or block, edge_type) of both layers."""
        return self.second(self.first(ids, *edges[0]).relu(), *edges[1])


def macro_f1(predicted, labels):
    scores = []
    for kind in labels.unique():
        hits = ((predicted == kind) & (labels == kind)).sum()
        scores.append(float(2 * hits / ((predicted == kind).sum() + (labels == kind).sum())))
    return statistics.mean(scores)


def accuracy(predicted, labels):
    return float((predicted == labels).float().mean())


def logits_of_batches(name, model, target, loader):
    """Logits and numbers of the seeds of each batch of Strata."""
    for batch in loader:
        if name == "aifb":
            inputs, seeds, blocks = batch
            yield model(inputs, [(block, block.types.of_edges) for block in blocks]), seeds
        else:
            out = model(batch.x_dict, batch[model.without].n_id, batch.edge_index_dict)[target]
            seeds = batch[target].batch_size
            yield out[:seeds], batch[target].n_id[:seeds]


def by_strata(name, data, target, seed, fanout):
    graph = strata.from_pyg(data)

    def logits(model, nodes):
        """Called with a model in training it is the loader for that."""
        options = {"batch_size": 256, "shuffle": model.training, "seed": seed}
        hops = [fanout if model.training else -1] * 2
        if name == "aifb":
            loader = strata.NodeLoader(graph, (target, nodes), fanouts=hops, **options)
        else:
            loader = strata.NeighborLoader(graph, hops, (target, nodes), **options)
        return lambda: logits_of_batches(name, model, target, loader)

    return graph, torch.device(strata.process().device), logits


def by_pyg(name, data, target, seed, fanout):
    if name == "aifb":
        edge_index = torch.cat([data[kind].edge_index for kind in data.edge_types], dim=1)
        counts = torch.tensor([data[kind].edge_index.shape[1] for kind in data.edge_types])
        edges = [(edge_index, torch.arange(len(counts)).repeat_interleave(counts))] * 2

    def logits(model, nodes):
        def whole():
            if name == "aifb":
                yield model(None, edges)[nodes], nodes
            else:
                ids = torch.arange(data[model.without].num_nodes)
                yield model(data.x_dict, ids, data.edge_index_dict)[target][nodes], nodes

        return whole

    return None, torch.device("cpu"), logits


def train(name, data, target, splits, seed, of, fanout, verbose):
    """The score of the test nodes, and the seconds that it took."""
    options = OPTIONS[name]
    torch.manual_seed(seed)
    begin = time.perf_counter()
    labels = data[target].y
    kind, layers = (Relational if name == "aifb" else Typed), (strata.nn if of == "strata" else torch_geometric.nn)
    graph, device, logits_of = (by_strata if of == "strata" else by_pyg)(name, data, target, seed, fanout)
    labels = labels.to(device)
    model = kind(layers, data, options, int(labels.max()) + 1).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, weight_decay=options.decay)
    if isinstance(rows := getattr(model, "rows", None), strata.Embedding):
        rows.follow(optimizer)
    score = accuracy if name == "aifb" else macro_f1
    training = logits_of(model.train(), splits["train"])
    scored = {split: nodes for split, nodes in splits.items() if split != "train"}
    others = logits_of(model.eval(), torch.cat(list(scored.values())))
    best, test = -1.0, 0.0
    for epoch in range(options.epochs):
        model.train()
        for out, nodes in training():
            optimizer.zero_grad()
            cross_entropy(out, labels[nodes]).backward()
            optimizer.step()
        if epoch % EVALUATED != EVALUATED - 1:
            continue
        model.eval()
        predicted = torch.empty_like(labels)
        with torch.no_grad():
            for out, nodes in others():
                predicted[nodes] = out.argmax(1)
        found = {split: score(predicted[nodes], labels[nodes]) for split, nodes in scored.items()}
        if found.get("val", epoch) > best:
            best, test = found.get("val", epoch), found["test"]
        if verbose:
            print(epoch, found, flush=True)
    if graph is not None:
        graph.close()
    return test, time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default="dblp,acm,aifb")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--of", default="strata,pyg")
    parser.add_argument("--fanout", type=int, default=20, help="neighbors to sample per relation and hop in training")
    parser.add_argument("--verbose", action="store_true", help="print scores of epochs")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    results = []
    for name in arguments.datasets.split(","):
        data, target, splits = dataset(name)
        for of in arguments.of.split(","):
            scores, seconds = [], []
            for seed in range(arguments.seeds):
                score, took = train(name, data, target, splits, seed, of, arguments.fanout, arguments.verbose)
                scores.append(score)
                seconds.append(took)
                print(f"{name} {of}, seed {seed}: {score:.3f} in {took:.0f} s", flush=True)
            spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
            print(f"{name} {of}: {statistics.mean(scores):.3f} ± {spread:.3f} over {len(scores)} seeds, {statistics.mean(seconds):.1f} s each", flush=True)
            results.append({"dataset": name, "of": of, "scores": scores, "seconds": seconds})
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
