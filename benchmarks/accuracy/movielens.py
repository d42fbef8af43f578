#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""RMSE of ratings of MovieLens 100k, fold u1, mean over seeds: regression of edges by GraphSAGE over users and items.

    movielens.py [--seeds 5] [--json FILE]

Needs the package strata and the ratings (STRATA_DATA, or ../shared/data). Nodes are users and items, with learned rows and their attributes;
each rating is a relation with its reverse. A rating is the mean of the training ratings, the biases of both ends, and what a decoder makes of
their rows. A batch's ratings are left out of its messages. One in ten of the training ratings validates.
"""

import argparse
import json
import os
import pathlib
import statistics
import time

import numpy
import torch
from torch.nn.functional import dropout, mse_loss

import strata
from strata import metrics, nn

DATA = (
    pathlib.Path(os.environ.get("STRATA_DATA", pathlib.Path(__file__).resolve().parents[3] / "shared/data")) / "movielens100k"
)
USERS, ITEMS, LEVELS = 943, 1682, 5


def ratings_of(fold):
    """int64 [n, 3] of user, item and rating, those of training and those of the test."""
    whole, test = (numpy.loadtxt(DATA / name, dtype="int64")[:, :3] - [1, 1, 0] for name in ("u.data", f"{fold}.test"))
    is_test = numpy.isin(whole[:, 0] * ITEMS + whole[:, 1], test[:, 0] * ITEMS + test[:, 1])
    return torch.from_numpy(whole[~is_test]), torch.from_numpy(test)


def attributes():
    """Rows of users (age, sex, job) and of items (year, genres)."""
    users = [line.split("|") for line in (DATA / "u.user").read_text().splitlines()]
    jobs = sorted({user[3] for user in users})
    of_users = [[int(user[1]) / 50, user[2] == "F", *(user[3] == job for job in jobs)] for user in users]
    items = [line.split("|") for line in (DATA / "u.item").read_text(encoding="latin-1").splitlines()]
    of_items = [[(int(item[2][-4:] or 1995) - 1990) / 10, *map(int, item[5:24])] for item in items]
    return torch.tensor(of_users).float(), torch.tensor(of_items).float()


class Model(torch.nn.Module):
    """Users have the numbers from 0, items those behind them."""

    def __init__(self, options, mean):
        super().__init__()
        width, self.dropout = options.hidden, options.dropout
        self.attributes = attributes()
        self.maps = torch.nn.ModuleList([torch.nn.Linear(rows.shape[1], width) for rows in self.attributes])
        self.rows = strata.Embedding(USERS + ITEMS, width, lr=options.lr_of_rows)
        self.convs = torch.nn.ModuleList(
            [nn.RGCNConv(width, width, LEVELS, num_bases=options.bases or None) for _ in range(options.layers)]
        )
        self.decoder = nn.MLPDecoder(width * (options.layers + 1), width, 2, options.dropout, combine=options.combine)
        self.biases = torch.nn.Embedding(USERS + ITEMS, 1)
        torch.nn.init.zeros_(self.biases.weight)
        self.mean = mean

    def forward(self, pairs, messages):
        """Ratings [n] of pairs int64 [n, 2] by messages int64 [m, 3] of user, item and rating."""
        device = pairs.device
        x = self.rows(torch.arange(USERS + ITEMS, device=device))
        x = x + torch.cat([linear(rows.to(device)) for linear, rows in zip(self.maps, self.attributes)])
        users, items = messages[:, 0], messages[:, 1] + USERS
        edge_index = torch.stack([torch.cat([users, items]), torch.cat([items, users])])
        edge_type = (messages[:, 2] - 1).repeat(2)
        found = [dropout(x, self.dropout, self.training)]
        for conv in self.convs:
            found.append(dropout(conv(found[-1], edge_index, edge_type).relu(), self.dropout, self.training))
        x = torch.cat(found, dim=1)
        of_users, of_items = pairs[:, 0], pairs[:, 1] + USERS
        biases = self.biases.weight.squeeze(1)
        return self.mean + biases[of_users] + biases[of_items] + self.decoder(x[of_users], None, x[of_items])


@torch.no_grad()
def rmse_of(model, ratings, messages):
    model.eval()
    predicted = torch.cat([model(piece[:, :2], messages) for piece in ratings.split(1 << 15)])
    return metrics.regression(predicted.clamp(1, LEVELS), ratings[:, 2].float())["rmse"]


def train(options, seed, device):
    """The best record of an epoch by the validation ratings, and all of them."""
    torch.manual_seed(seed)
    ratings, test = (part.to(device) for part in ratings_of(options.fold))
    valid, ratings = ratings[torch.randperm(len(ratings), device=device)].tensor_split([len(ratings) // 10])
    model = Model(options, float(ratings[:, 2].float().mean())).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, weight_decay=options.decay)
    model.rows.follow(optimizer)
    records = []
    for epoch in range(1, options.epochs + 1):
        model.train()
        total = torch.zeros((), device=device)
        for batch in torch.randperm(len(ratings), device=device).split(options.batch_size):
            is_message = torch.ones(len(ratings), dtype=torch.bool, device=device)
            is_message[batch] = options.exclude == "off"
            optimizer.zero_grad()
            loss = mse_loss(model(ratings[batch, :2], ratings[is_message]), ratings[batch, 2].float())
            loss.backward()
            optimizer.step()
            total += loss.detach() * len(batch)
        record = {"epoch": epoch, "loss": float(total) / len(ratings)}
        record |= {"valid": rmse_of(model, valid, ratings), "test": rmse_of(model, test, ratings)}
        records.append(record)
        if options.verbose:
            print(
                f"epoch {epoch}: loss {record['loss']:.4f}, valid {record['valid']:.4f}, test {record['test']:.4f}", flush=True
            )
    return min(records, key=lambda record: record["valid"]), records


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--fold", default="u1")
    add("--seeds", type=int, default=5)
    add("--epochs", type=int, default=25)
    add("--batch-size", type=int, default=4096)
    add("--hidden", type=int, default=128)
    add("--layers", type=int, default=1)
    add("--bases", type=int, default=0)
    add("--combine", default="mul")
    add("--dropout", type=float, default=0.6)
    add("--lr", type=float, default=0.01)
    add("--lr-of-rows", type=float, default=0.005)
    add("--decay", type=float, default=0.01)
    add("--exclude", choices=("reverse", "off"), default="reverse", help="off keeps a batch's ratings among its messages")
    add("--verbose", action="store_true")
    add("--json", type=pathlib.Path)
    options = parser.parse_args()
    found = []
    for seed in range(options.seeds):
        begin = time.perf_counter()
        best, records = train(options, seed, torch.device(strata.process().device))
        seconds = time.perf_counter() - begin
        print(
            f"seed {seed}: test RMSE {best['test']:.4f} after epoch {best['epoch']}, valid {best['valid']:.4f}, train {best['loss'] ** 0.5:.4f}, {seconds:.0f} s",
            flush=True,
        )
        found.append({"seed": seed, "best": best, "records": records, "seconds": seconds})
    scores = [one["best"]["test"] for one in found]
    spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
    print(f"movielens {options.fold}: RMSE {statistics.mean(scores):.4f} ± {spread:.4f} over {len(scores)} seeds")
    if options.json:
        settings = {name: str(value) if isinstance(value, pathlib.Path) else value for name, value in vars(options).items()}
        options.json.write_text(json.dumps({"options": settings, "runs": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
