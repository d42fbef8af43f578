# SPDX-License-Identifier: Apache-2.0
"""Graphs for bench.py as tensors: neighbor lists, features, labels and training nodes, of everything that strata-partition reads."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys

import numpy
import torch

#: What the names of the original's datasets are here. OGB unpacks them into these folders.
NAMES = {"ogbn-products": "products", "ogbn-papers100M": "papers100M-bin", "ogbn-papers400M": "papers100M-bin"}
COPIES = 4  # of papers100M in papers400M


@dataclasses.dataclass
class Data:
    indptr: torch.Tensor
    indices: torch.Tensor
    features: torch.Tensor
    labels: torch.Tensor
    train: torch.Tensor
    num_classes: int
    weights: torch.Tensor | None  # of the neighbors; None: the graph has none


def strata_partition() -> str:
    folder = os.environ.get("STRATA_BIN")
    found = shutil.which("strata-partition", path=folder) if folder else shutil.which("strata-partition")
    return found or sys.exit("bench.py: strata-partition is not in PATH, nor in the folder STRATA_BIN")


def arrays_of(spec: str, root: pathlib.Path) -> pathlib.Path:
    """A folder of NumPy arrays; what is converted stays in `root` for the next time."""
    if spec.startswith("npy:"):
        return pathlib.Path(spec.removeprefix("npy:"))
    folder = root / "".join(letter if letter.isalnum() else "-" for letter in spec)
    if not (folder / "complete").exists():
        root.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        done = subprocess.run([strata_partition(), "convert", spec, f"npy:{folder}"], stdout=sys.stderr)
        if done.returncode != 0:
            sys.exit(f"bench.py: {spec} cannot be read")
        (folder / "complete").touch()
    return folder


def read(name: str, root: pathlib.Path, seed: int = 1, weighted: bool = False) -> Data:
    """`name`: one of NAMES, below `root`, or an input of strata-partition; synthetic:papers400M is one, too.

    A generated graph that is to be `weighted` has half-normal weights of edges, unless its name says otherwise.
    """
    spec, copies = name, 1
    if name in NAMES:
        spec = f"ogb:{root / NAMES[name]}"
    if "papers400M" in name:
        spec, copies = spec.replace("papers400M", "papers100M"), COPIES
    if weighted and spec.startswith("synthetic:") and "weights=" not in spec:
        spec += ",weights=half-normal"
    folder = arrays_of(spec, root)
    for file, content in (("x.npy", "features"), ("y.npy", "labels"), ("train.npy", "training nodes")):
        if not (folder / file).exists() or numpy.load(folder / file, mmap_mode="r").size == 0:
            sys.exit(f"bench.py: {name} has no {content}")
    sources, targets = (torch.from_numpy(row) for row in numpy.load(folder / "edge_index.npy", mmap_mode="c"))
    features = torch.from_numpy(numpy.load(folder / "x.npy", mmap_mode="c"))
    labels = torch.from_numpy(numpy.load(folder / "y.npy")).long().flatten()
    train = torch.from_numpy(numpy.load(folder / "train.npy"))
    train = train.nonzero().flatten() if train.dtype == torch.bool else train.long()
    nodes = len(features)
    stored = folder / "edge_weight.npy"
    weights = torch.from_numpy(numpy.load(stored, mmap_mode="c")).float() if stored.exists() else None
    if copies > 1:
        sources, targets = rewired(sources, targets, nodes, copies, seed)
        if weights is not None:  # the edges between copies weigh as much as others do on average
            weights = torch.cat([weights, weights.mean().expand(len(sources) - len(weights))])
        features, labels = features.repeat(copies, 1), labels.repeat(copies)
        train = torch.cat([train + copy * nodes for copy in range(copies)])
    indptr, order = lists_of(targets, len(features))
    ordered = None if weights is None else weights[order]
    return Data(indptr, sources[order].long(), features.contiguous(), labels, train, int(labels.max()) + 1, ordered)


def rewired(
    sources: torch.Tensor, targets: torch.Tensor, nodes: int, copies: int, seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """As many copies of the nodes; every edge joins a random copy of its source with one of its target, and each node is joined
    with its other copies."""
    generator = torch.Generator().manual_seed(seed)

    def some_copy(ids: torch.Tensor) -> torch.Tensor:
        return ids.long() + nodes * torch.randint(0, copies, (len(ids),), generator=generator)

    own = torch.arange(copies * nodes)
    others = [(own + step * nodes) % (copies * nodes) for step in range(1, copies)]
    return torch.cat([some_copy(sources), *[own] * (copies - 1)]), torch.cat([some_copy(targets), *others])


def lists_of(targets: torch.Tensor, nodes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Where the in-edges of node v lie, [indptr[v] : indptr[v + 1]], in the order of edges that comes with it."""
    indptr = torch.zeros(nodes + 1, dtype=torch.long)
    indptr[1:] = torch.bincount(targets, minlength=nodes).cumsum(0)
    return indptr, targets.argsort(stable=True)
