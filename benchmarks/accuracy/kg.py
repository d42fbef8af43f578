#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Filtered MRR on FB15k-237, the mean of both sides: decoders of strata.nn on rows that are learned, alone or after layers of R-GCN.

    kg.py --model rotate|distmult|complex|transe|rgcn [--epochs 30] [--negatives 512] [--json FILE]

Needs the package strata and the triples (STRATA_DATA, or ../shared/data). rgcn is layers of RGCNConv, then DistMult. Each epoch has every
triple of training once, for its tail and for its head. Negatives are drawn for a batch and shared by it; 0 takes all entities, with the cross
entropy over all of them. The messages of rgcn are training triples in both directions, without those of the batch, in evaluation all of them.
The report is of the test triples at the best epoch of the validation triples.
"""

import argparse
import json
import math
import os
import pathlib
import time

import numpy
import torch
from torch.nn.functional import cross_entropy, dropout

import strata
from strata import metrics, nn

DATA = pathlib.Path(os.environ.get("STRATA_DATA", pathlib.Path(__file__).resolve().parents[3] / "shared/data")) / "kg/FB15K237"

TRAIN_SCORED = 10_000  # triples


def triples_of(file, device):
    """(head, relation, tail) of a file of `head tail relation`."""
    head, tail, relation = torch.from_numpy(numpy.loadtxt(DATA / file, dtype="int64", skiprows=1)).to(device).unbind(1)
    return head, relation, tail


def decoder_of(options, num_relations):
    channels = options.channels
    if options.model == "rotate":
        return nn.RotatE(num_relations, channels, options.margin, options.norm), 2 * channels
    if options.model == "complex":
        return nn.ComplEx(num_relations, channels), 2 * channels
    if options.model == "transe":
        return nn.TransE(num_relations, channels, 2), channels
    return nn.DistMult(num_relations, channels), channels


def weights_of(head, relation, tail):
    """Of triples, less where a side has many answers, as in RotatE's code: 1 / sqrt(triples of head and relation + of tail and relation)."""
    most = int(relation.max()) + 1
    counts = [(end * most + relation).unique(return_inverse=True, return_counts=True)[1:] for end in (head, tail)]
    return sum(of_key[key] + 3 for key, of_key in counts).float().rsqrt()


class Model(torch.nn.Module):
    def __init__(self, options, num_entities, train):
        super().__init__()
        self.options = options
        self.train_triples = train
        self.num_relations = int(train[1].max()) + 1
        self.decoder, columns = decoder_of(options, self.num_relations)
        self.weights = weights_of(*train) if options.subsampling else None
        if isinstance(self.decoder, nn.DistMult | nn.ComplEx):
            for weight in self.decoder.parameters():
                torch.nn.init.normal_(weight, std=options.spread)

        def init(table):
            return torch.nn.init.uniform_(table, -options.spread, options.spread)

        self.rows = strata.Embedding(num_entities, columns, optimizer=options.rows, lr=options.lr, init=init)
        count = options.layers if options.model == "rgcn" else 0
        self.convs = torch.nn.ModuleList(
            [nn.RGCNConv(columns, columns, 2 * self.num_relations, num_bases=options.bases or None) for _ in range(count)]
        )

    def forward(self, left_out=None):
        """Rows of all entities, whose messages are those of the training triples without some."""
        x = self.rows(torch.arange(self.rows.num_rows, device=self.train_triples[0].device))
        if not self.convs:
            return dropout(x, self.options.dropout, self.training)
        head, relation, tail = self.train_triples
        if left_out is not None and self.options.exclude == "reverse":
            is_message = torch.ones(len(head), dtype=torch.bool, device=head.device)
            is_message[left_out] = False
            head, relation, tail = (part[is_message] for part in (head, relation, tail))
        edge_index = torch.stack([torch.cat([head, tail]), torch.cat([tail, head])])
        edge_type = torch.cat([relation, relation + self.num_relations])
        for number, conv in enumerate(self.convs):
            x = x + dropout(conv(x.relu() if number else x, edge_index, edge_type), self.options.dropout, self.training)
        return x


def logits_of(scores, options):
    """What the losses take for scores: with --square those of squared distances, whose order is the same."""
    return options.scale * (-(options.margin - scores).square() if options.square else scores)


def loss_of(model, batch, options):
    """The mean loss of the tails and the heads of a batch of training triples, as numbers of them."""
    head, relation, tail = (part[batch] for part in model.train_triples)
    if options.negatives == 0 or model.convs:
        x = model(batch)
        of_heads, of_tails = x[head], x[tail]
    else:
        drawn = torch.randint(model.rows.num_rows, (2, options.negatives), device=head.device)
        ends = torch.stack([head, tail])
        rows = dropout(model.rows(torch.cat([ends.flatten(), drawn.flatten()])), options.dropout, model.training)
        of_heads, of_tails, *drawn_rows = rows.split([len(batch)] * 2 + [options.negatives] * 2)
    losses = []
    for number, (side, known, wanted) in enumerate((("tail", of_heads, tail), ("head", of_tails, head))):
        if options.negatives == 0:
            scores = model.decoder.against(known, relation, x, side)
            losses.append(cross_entropy(logits_of(scores, options), wanted, label_smoothing=options.smoothing))
            continue
        if model.convs:
            drawn_rows = x[torch.randint(len(x), (2, options.negatives), device=x.device)]
        positive = logits_of(model.decoder(of_heads, relation, of_tails), options)
        negative = logits_of(model.decoder.against(known, relation, drawn_rows[number], side), options)
        weight = None if model.weights is None else model.weights[batch]
        losses.append(
            nn.link_loss(
                positive, negative, options.loss, weight=weight, margin=options.margin, temperature=options.temperature
            )
        )
    penalty = 0.0
    if options.penalty:
        strength = model.decoder.rel_emb(relation)
        penalty = options.penalty * sum(part.abs().pow(3).sum(1).mean() for part in (of_heads, of_tails, strength))
    return sum(losses) / 2 + penalty


@torch.no_grad()
def scores_of(model, triples, known):
    model.eval()
    x = model()
    ranks = [metrics.link_ranks(model.decoder, x, *triples, side=side, known=known) for side in ("tail", "head")]
    return metrics.ranking(torch.cat(ranks))


def train(options, device):
    torch.manual_seed(options.seed)
    splits = {name: triples_of(f"{name}2id.txt", device) for name in ("train", "valid", "test")}
    known = metrics.KnownEdges(*(torch.cat(of_splits) for of_splits in zip(*splits.values())))
    num_entities = int((DATA / "entity2id.txt").read_text().split(maxsplit=1)[0])
    model = Model(options, num_entities, splits["train"]).to(device)
    model.train_triples = splits["train"]
    kind = torch.optim.Adam if options.rows == "adam" else torch.optim.Adagrad
    optimizer = kind(model.parameters(), lr=options.lr)
    model.rows.follow(optimizer)
    some = tuple(part[:: len(part) // TRAIN_SCORED] for part in splits["train"])
    count, best, begin = len(splits["train"][0]), {"valid": {"mrr": 0.0}}, time.perf_counter()
    steps = options.epochs * math.ceil(count / options.batch_size)
    step, records = 0, []
    for epoch in range(1, options.epochs + 1):
        model.train()
        total = torch.zeros((), device=device)
        for batch in torch.randperm(count, device=device).split(options.batch_size):
            model.rows.lr = rate = options.lr * min(1.0, (step + 1) / options.warmup) * (1 - step / steps)
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.zero_grad()
            loss = loss_of(model, batch, options)
            loss.backward()
            optimizer.step()
            total += loss.detach() * len(batch)
            step += 1
        record = {"epoch": epoch, "loss": float(total) / count, "seconds": time.perf_counter() - begin}
        if epoch % options.eval_every == 0 or epoch == options.epochs:
            record["valid"] = scores_of(model, splits["valid"], known)
            if record["valid"]["mrr"] > best["valid"]["mrr"]:
                of_splits = {
                    name: scores_of(model, triples, known) for name, triples in (("test", splits["test"]), ("train", some))
                }
                best = {"epoch": epoch, "valid": record["valid"], **of_splits}
        records.append(record)
        shown = f", valid MRR {record['valid']['mrr']:.4f}" if "valid" in record else ""
        print(f"epoch {epoch}: loss {record['loss']:.4f}{shown}, {record['seconds']:.0f} s", flush=True)
    return best, records


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--model", choices=("rotate", "distmult", "complex", "transe", "rgcn"), default="rotate")
    add("--channels", type=int, default=256, help="columns of a row; complex numbers with rotate and complex")
    add("--epochs", type=int, default=30)
    add("--batch-size", type=int, default=1024)
    add("--negatives", type=int, default=0, help="per batch and side; 0: all entities, with cross entropy")
    add("--loss", default="adversarial", help="of sampled negatives: a kind of strata.nn.link_loss")
    add("--margin", type=float, default=9.0)
    add("--norm", default="l2", help="of rotate: l2 or l1")
    add("--temperature", type=float, default=1.0)
    add("--scale", type=float, default=1.0, help="of scores in the loss")
    add("--square", action="store_true", help="losses of rotate take squared distances")
    add("--smoothing", type=float, default=0.0)
    add("--subsampling", action="store_true", help="weigh sampled triples by how rare their pairs of end and relation are")
    add("--penalty", type=float, default=0.0, help="of the cubes of the numbers of a triple's rows (N3)")
    add("--dropout", type=float, default=0.0)
    add("--spread", type=float, default=0.1, help="of rows, when they begin")
    add("--lr", type=float, default=1e-3, help="falls linearly to 0")
    add("--warmup", type=int, default=1, help="steps in which lr rises")
    add("--rows", choices=("adam", "rowwise_adagrad"), default="adam", help="their optimizer")
    add("--layers", type=int, default=1, help="of rgcn")
    add("--bases", type=int, default=0, help="of rgcn; 0: a matrix per relation and direction")
    add(
        "--exclude",
        choices=("reverse", "off"),
        default="reverse",
        help="of rgcn: off keeps a batch's triples among its messages",
    )
    add("--eval-every", type=int, default=5)
    add("--seed", type=int, default=0)
    add("--json", type=pathlib.Path)
    options = parser.parse_args()
    best, records = train(options, torch.device(strata.process().device))
    test = best["test"]
    print(
        f"{options.model}: test MRR {test['mrr']:.4f}, Hits@1 {test['hits@1']:.4f}, Hits@3 {test['hits@3']:.4f}, "
        f"Hits@10 {test['hits@10']:.4f} after epoch {best['epoch']}, MRR of valid {best['valid']['mrr']:.4f}, of train {best['train']['mrr']:.4f}"
    )
    if options.json:
        settings = {name: str(value) if isinstance(value, pathlib.Path) else value for name, value in vars(options).items()}
        options.json.write_text(json.dumps({"options": settings, "best": best, "records": records}, indent=1) + "\n")


if __name__ == "__main__":
    main()
