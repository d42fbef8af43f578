#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hits@20 on ogbl-ddi, mean over seeds: GraphSAGE on the whole graph over rows that are learned, and OGB's predictor of pairs.

    ddi.py [--seeds 10] [--epochs 200] [--exclude reverse] [--json FILE]

Needs the package strata and the set (STRATA_DATA, or ../shared/data). The set-up is that of OGB's example: each epoch has every training
edge once, with one pair without an edge for each; the training edges of both directions are the messages. --exclude reverse leaves a batch's
own edges out of its messages. The score is that of the test edges at the best epoch of the validation edges.
"""

import argparse
import json
import os
import pathlib
import statistics
import time

import numpy
import torch
from torch.nn.functional import dropout

import strata
from strata import metrics, nn

DATA = pathlib.Path(os.environ.get("STRATA_DATA", pathlib.Path(__file__).resolve().parents[3] / "shared/data")) / "ogbl_ddi"
REDRAWN = 5  # times that a pair is drawn anew if it is an edge; one pair of eight is


def edges_of(device):
    """int64 [2, E] of the training edges, and of the validation and test edges and pairs without an edge; the number of nodes."""
    file = numpy.load(DATA / "split/target/edges.npz")
    edges = {name: file[name].astype("int64") for name in ("valid", "valid_neg", "test", "test_neg")}
    edges["train"] = numpy.loadtxt(DATA / "raw/edge.csv.gz", dtype="int64", delimiter=",")
    return {name: torch.from_numpy(pairs).t().contiguous().to(device) for name, pairs in edges.items()}, int(file["num_nodes"])


class Model(torch.nn.Module):
    def __init__(self, num_nodes, options):
        super().__init__()
        width = options.hidden
        self.dropout = options.dropout
        self.rows = strata.Embedding(num_nodes, width, lr=options.lr, init=torch.nn.init.xavier_uniform_)
        self.convs = torch.nn.ModuleList([nn.SAGEConv(width, width) for _ in range(options.layers)])
        self.decoder = nn.MLPDecoder(width, width, options.layers, options.dropout)

    def forward(self, lists):
        x = self.rows(torch.arange(self.rows.num_rows, device=lists.indptr.device))
        for number, conv in enumerate(self.convs):
            x = conv(dropout(x.relu(), self.dropout, self.training) if number else x, lists)
        return x


def messages_of(edges, num_nodes):
    return nn.EdgeLists.of_edge_index(torch.cat([edges, edges.flip(0)], dim=1), num_nodes, num_nodes)


def pairs_without_edge(is_edge, count):
    """int64 [2, count] of different nodes, uniformly."""
    pairs = torch.randint(len(is_edge), (2, count), device=is_edge.device)
    for _ in range(REDRAWN):
        pairs = torch.where(is_edge[pairs[0], pairs[1]], torch.randint_like(pairs, len(is_edge)), pairs)
    return pairs


@torch.no_grad()
def scores_of(model, lists, edges, most):
    model.eval()
    x = model(lists)

    def scores(pairs):
        return torch.cat([model.decoder(x[piece[0]], None, x[piece[1]]) for piece in pairs.split(1 << 16, dim=1)])

    found = {name: metrics.hits_at(scores(edges[name]), scores(edges[f"{name}_neg"]), most) for name in ("valid", "test")}
    return found | {"train": metrics.hits_at(scores(edges["train"][:, ::10]), scores(edges["valid_neg"]), most)}


def train(edges, num_nodes, seed, options):
    """Records of epochs with scores, the best of which by the validation edges is the last."""
    torch.manual_seed(seed)
    device = edges["train"].device
    model = Model(num_nodes, options).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
    model.rows.follow(optimizer)
    is_edge = torch.eye(num_nodes, dtype=torch.bool, device=device)
    is_edge[edges["train"][0], edges["train"][1]] = is_edge[edges["train"][1], edges["train"][0]] = True
    lists, count = messages_of(edges["train"], num_nodes), edges["train"].shape[1]
    records = []
    for epoch in range(1, options.epochs + 1):
        model.train()
        total = torch.zeros((), device=device)
        for batch in torch.randperm(count, device=device).split(options.batch_size):
            optimizer.zero_grad()
            of_batch = lists
            if options.exclude == "reverse":
                is_message = torch.ones(count, dtype=torch.bool, device=device)
                is_message[batch] = False
                of_batch = messages_of(edges["train"][:, is_message], num_nodes)
            x = model(of_batch)
            of_edges, of_others = edges["train"][:, batch], pairs_without_edge(is_edge, len(batch))
            positive, negative = (model.decoder(x[ends[0]], None, x[ends[1]]) for ends in (of_edges, of_others))
            loss = nn.link_loss(positive, negative)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.detach() * len(batch)
        if epoch % options.eval_every == 0:
            record = {"epoch": epoch, "loss": float(total) / count, **scores_of(model, lists, edges, options.most)}
            records.append(record)
            if options.verbose:
                print(
                    f"seed {seed}, epoch {epoch}: loss {record['loss']:.4f}, valid {record['valid']:.4f}, test {record['test']:.4f}",
                    flush=True,
                )
    return max(records, key=lambda record: record["valid"]), records


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--seeds", type=int, default=10)
    add("--first-seed", type=int, default=0)
    add("--epochs", type=int, default=200)
    add("--batch-size", type=int, default=65536)
    add("--hidden", type=int, default=256)
    add("--layers", type=int, default=2)
    add("--dropout", type=float, default=0.5)
    add("--lr", type=float, default=0.005)
    add("--exclude", choices=("off", "reverse"), default="off", help="reverse leaves a batch's edges out of its messages")
    add("--eval-every", type=int, default=5)
    add("--most", type=int, default=20, help="K of Hits@K")
    add("--verbose", action="store_true")
    add("--json", type=pathlib.Path)
    options = parser.parse_args()
    edges, num_nodes = edges_of(torch.device(strata.process().device))
    found = []
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        begin = time.perf_counter()
        best, records = train(edges, num_nodes, seed, options)
        seconds = time.perf_counter() - begin
        print(
            f"seed {seed}: test {best['test']:.4f} after epoch {best['epoch']}, valid {best['valid']:.4f}, train {best['train']:.4f}, {seconds:.0f} s",
            flush=True,
        )
        found.append({"seed": seed, "best": best, "records": records, "seconds": seconds})
    scores = [one["best"]["test"] for one in found]
    spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
    print(f"ogbl-ddi: Hits@{options.most} {statistics.mean(scores):.4f} ± {spread:.4f} over {len(scores)} seeds")
    if options.json:
        settings = {name: str(value) if isinstance(value, pathlib.Path) else value for name, value in vars(options).items()}
        options.json.write_text(json.dumps({"options": settings, "runs": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
