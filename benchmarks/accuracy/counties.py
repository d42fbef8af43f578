#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""R2 of the test nodes on the map of US counties, mean over seeds: regression by strata.fit, GraphSAGE of strata.nn.

    counties.py [--targets income,unemployment] [--seeds 10] [--json FILE]

Needs the package strata and the tables (STRATA_DATA, or ../shared/data). Nodes are the counties that all tables have, edges their borders.
One column of 2016 is the target, the others are the features: median income, rates of births, deaths and migration, share of bachelors,
rate of unemployment, and the margin of the election. Of the nodes, 60 % train, 20 % validate and 20 % test.
"""

import argparse
import csv
import json
import os
import pathlib
import statistics
import tempfile
import time

import torch
from torch.nn.functional import dropout, mse_loss

import strata
from strata import metrics, nn

DATA = (
    pathlib.Path(os.environ.get("STRATA_DATA", pathlib.Path(__file__).resolve().parents[3] / "shared/data"))
    / "regression/counties"
)


def columns_of(file, key, **columns):
    """By FIPS, the numbers of these columns, or of a function of the row, of each county that has all of them."""
    found = {}
    with open(DATA / file, encoding="latin-1", newline="") as lines:
        for row in csv.DictReader(lines):
            row = {name.strip(): value.replace(",", "").strip() for name, value in row.items() if name and value}
            try:
                found[int(row[key])] = {
                    name: column(row) if callable(column) else float(row[column]) for name, column in columns.items()
                }
            except (KeyError, ValueError):
                continue
    return found


def margin(row):
    return (float(row["dem_2016"]) - float(row["gop_2016"])) / float(row["total_2016"])


def counties():
    """(numbers by name, float32 [n] each, and edge_index int64 [2, E] of both directions)"""
    tables = [
        columns_of("income.csv", "FIPS", income="MedianIncome2016"),
        columns_of("population.csv", "FIPS", births="R_birth_2016", deaths="R_death_2016", migration="R_NET_MIG_2016"),
        columns_of("education.csv", "FIPS", education="BachelorRate2016"),
        columns_of("unemployment.csv", "FIPS", unemployment="Unemployment_rate_2016"),
        columns_of("election.csv", "fips_code", election=margin),
    ]
    edges, place = set(), None
    for line in (DATA / "adjacency.txt").read_text(encoding="latin-1").splitlines():
        _, county, _, neighbor = (word.strip() for word in line.split("\t"))
        place = int(county) if county else place
        edges |= {(place, int(neighbor)), (int(neighbor), place)}
    ids = sorted({end for edge in edges for end in edge}.intersection(*tables))
    numbers = {fips: number for number, fips in enumerate(ids)}
    kept = sorted((numbers[a], numbers[b]) for a, b in edges if a != b and a in numbers and b in numbers)
    names = {name: table for table in tables for name in table[ids[0]]}
    return {name: torch.tensor([table[fips][name] for fips in ids]) for name, table in names.items()}, torch.tensor(kept).t()


class Model(torch.nn.Module):
    def __init__(self, columns, options):
        super().__init__()
        self.dropout = options.dropout
        widths = [columns] + [options.hidden] * options.layers
        self.convs = torch.nn.ModuleList([nn.SAGEConv(*pair) for pair in zip(widths, widths[1:])])
        self.head = torch.nn.Linear(sum(widths), 1)

    def forward(self, x, edge_index):
        rows = [x]
        for conv in self.convs:
            rows.append(dropout(conv(rows[-1], edge_index).relu(), self.dropout, self.training))
        return self.head(torch.cat(rows, dim=1)).squeeze(1)


def score(columns, edge_index, target, seed, options, folder):
    """R2 of the test nodes, and of the validation nodes."""
    torch.manual_seed(seed)
    order = torch.randperm(len(columns[target]))
    train, valid, test = order.tensor_split([int(0.6 * len(order)), int(0.8 * len(order))])
    y = columns[target]
    scale = nn.TargetScale(y[train])
    x = torch.stack([values for name, values in columns.items() if name != target], dim=1)
    x = nn.TargetScale(x[train])(x)
    with strata.from_tensors(edge_index, x, scale(y), train=train, valid=valid, test=test) as graph:
        model = Model(x.shape[1], options)
        strata.fit(
            model,
            graph,
            fanouts=[options.fanout] * options.layers,
            batch_size=options.batch_size,
            epochs=options.epochs,
            loss=lambda out, wanted: mse_loss(out, wanted, reduction="none"),
            optimizer=lambda weights: torch.optim.AdamW(weights, lr=options.lr, weight_decay=options.decay),
            metric="loss",
            eval_every=5,
            patience=options.patience,
            seed=seed,
            output=f"{folder}/{target}-{seed}",
            progress="off",
        )
        predicted = scale.inverse(strata.inference(model, graph))
    return [metrics.regression(predicted[nodes], y[nodes])["r2"] for nodes in (test, valid)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--targets", default="income,unemployment,education,election")
    add("--seeds", type=int, default=10)
    add("--epochs", type=int, default=150)
    add("--batch-size", type=int, default=256)
    add("--hidden", type=int, default=64)
    add("--layers", type=int, default=2)
    add("--dropout", type=float, default=0.2)
    add("--fanout", type=int, default=-1, help="neighbors to sample per hop in training; -1: all")
    add("--lr", type=float, default=0.005)
    add("--decay", type=float, default=0.01)
    add("--patience", type=int, default=8)
    add("--json", type=pathlib.Path)
    options = parser.parse_args()
    columns, edge_index = counties()
    print(f"{len(columns['income'])} counties, {edge_index.shape[1]} directed edges, {len(columns) - 1} features")
    results = {}
    with tempfile.TemporaryDirectory(prefix="strata-counties-") as folder:
        for target in options.targets.split(","):
            begin = time.perf_counter()
            found = [score(columns, edge_index, target, seed, options, folder) for seed in range(options.seeds)]
            tests, valids = (list(scores) for scores in zip(*found))
            spread = statistics.stdev(tests) if len(tests) > 1 else 0.0
            seconds = (time.perf_counter() - begin) / len(tests)
            print(
                f"{target}: test R2 {statistics.mean(tests):.3f} ± {spread:.3f} over {len(tests)} seeds, "
                f"valid {statistics.mean(valids):.3f}, {seconds:.1f} s each",
                flush=True,
            )
            results[target] = {"test": tests, "valid": valids}
    if options.json:
        settings = {name: str(value) if isinstance(value, pathlib.Path) else value for name, value in vars(options).items()}
        options.json.write_text(json.dumps({"options": settings, "r2": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
