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


def read(name: str, root: pathlib.Path, seed: int = 1) -> Data:
    """`name`: one of NAMES, below `root`, or an input of strata-partition; synthetic:papers400M is one, too."""
    spec, copies = name, 1
    if name in NAMES:
        spec = f"ogb:{root / NAMES[name]}"
    if "papers400M" in name:
        spec, copies = spec.replace("papers400M", "papers100M"), COPIES
    folder = arrays_of(spec, root)
    sources, targets = (torch.from_numpy(row) for row in numpy.load(folder / "edge_index.npy", mmap_mode="c"))
    features = torch.from_numpy(numpy.load(folder / "x.npy", mmap_mode="c"))
    labels = torch.from_numpy(numpy.load(folder / "y.npy")).long().flatten()
    train = torch.from_numpy(numpy.load(folder / "train.npy"))
    train = train.nonzero().flatten() if train.dtype == torch.bool else train.long()
    nodes = len(features)
    if copies > 1:
        sources, targets = rewired(sources, targets, nodes, copies, seed)
        features, labels = features.repeat(copies, 1), labels.repeat(copies)
        train = torch.cat([train + copy * nodes for copy in range(copies)])
    indptr, indices = lists_of(sources, targets, len(features))
    return Data(indptr, indices, features.contiguous(), labels, train, int(labels.max()) + 1)


def rewired(sources: torch.Tensor, targets: torch.Tensor, nodes: int, copies: int, seed: int):
    """As many copies of the nodes; every edge joins a random copy of its source with one of its target, and each node is joined
    with its other copies."""
    generator = torch.Generator().manual_seed(seed)

    def some_copy(ids: torch.Tensor) -> torch.Tensor:
        return ids.long() + nodes * torch.randint(0, copies, (len(ids),), generator=generator)

    own = torch.arange(copies * nodes)
    others = [(own + step * nodes) % (copies * nodes) for step in range(1, copies)]
    return torch.cat([some_copy(sources), *[own] * (copies - 1)]), torch.cat([some_copy(targets), *others])


def lists_of(sources: torch.Tensor, targets: torch.Tensor, nodes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The in-neighbors of node v: indices[indptr[v] : indptr[v + 1]]."""
    indptr = torch.zeros(nodes + 1, dtype=torch.long)
    indptr[1:] = torch.bincount(targets, minlength=nodes).cumsum(0)
    return indptr, sources[targets.argsort(stable=True)].long()
