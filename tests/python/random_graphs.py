# SPDX-License-Identifier: Apache-2.0
"""Graphs for tests, as tensors."""

from dataclasses import dataclass

import numpy
import torch


class Exported:
    """An array of another library, such as CuPy or JAX, which offers its memory and nothing else."""

    def __init__(self, tensor):
        self._tensor = tensor

    def __dlpack__(self, **options):
        return self._tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._tensor.__dlpack_device__()


# How torch's tensors of 1000 rows may be indexed, each of 1000 rows.
INDICES = {
    "a list": [3, 999, 3],
    "an empty list": [],
    "a range": range(5, 40, 7),
    "a slice": slice(10, 500, 3),
    "a slice of all": slice(None),
    "a slice from the end": slice(-5, None),
    "an integer": 7,
    "an integer from the end": -2,
    "an integer of NumPy": numpy.int32(7),
    "a tensor without dimensions": torch.tensor(7),
    "a tensor without dimensions from the end": torch.tensor(-1),
    "a tensor": torch.tensor([3, 0, 3]),
    "a narrow tensor": torch.tensor([3, 0, 3], dtype=torch.int32),
    "a matrix of ids": torch.tensor([[3, 0, 3], [1, 2, 999]]),
    "a column that is not contiguous": torch.arange(20).view(10, 2)[:, 1],
    "an array": numpy.array([3, 0, 3]),
    "an array that is only read": numpy.broadcast_to(numpy.array([3]), 4),
    "an array backwards": numpy.arange(9)[::-1],
    "a mask": torch.arange(1000) % 7 == 3,
    "a mask of NumPy": numpy.arange(1000) % 7 == 3,
    "a mask in a list": [i % 7 == 3 for i in range(1000)],
    "an empty mask": torch.zeros(1000, dtype=torch.bool),
    "ids of another library": Exported(torch.tensor([3, 0, 3])),
    "a mask of another library": Exported(torch.arange(1000) % 7 == 3),
}
# What is refused, and what the IndexError says.
WRONG_INDICES = (
    (torch.tensor([1.5]), "an index of torch.float32\n  Give integers"),
    ([1.5], "an index of torch.float64\n  Give integers"),
    (torch.ones(1000, dtype=torch.uint8), "an index of torch.uint8\n  Give integers as int64 or int32, or a mask as bool"),
    (torch.ones(10, dtype=torch.bool), "a mask of shape .10,. for 1000 .*\n  Give one truth value"),
    (True, "a mask of shape .. for 1000"),
    ((1, 2), "an index of several dimensions\n  Take rows first"),
    (None, "an index of type NoneType\n  Give"),
    (..., "an index of type ellipsis\n  Give"),
    ("3", "an index of type str\n  Give"),
    ([[1], [2, 3]], "an index of type list\n  Give"),
    ({1, 2}, "an index of type set\n  Give"),
    ([3, -1, 1000], "index 1 is -1, which is n"),
    ([3, 1000, -1], "index 1 is 1000, which is n"),
    (1000, "index 0 is 1000, which is n"),
    (-1001, "index 0 is -1001, which is n"),
)


def expected_rows(tensor, index):
    """What torch gives for one of INDICES."""
    return tensor[index._tensor if isinstance(index, Exported) else numpy.ascontiguousarray(index) if isinstance(index, numpy.ndarray) else index]


@dataclass
class RandomGraph:
    """With isolated nodes, self-loops and repeated edges."""

    edge_index: torch.Tensor
    x: torch.Tensor
    y: torch.Tensor
    train: torch.Tensor
    valid: torch.Tensor
    test: torch.Tensor

    @property
    def num_nodes(self):
        return self.x.size(0)

    def load(self, strata, **options):
        return strata.from_tensors(
            self.edge_index, self.x, self.y, train=self.train, valid=self.valid, test=self.test, **options
        )


def random_graph(num_nodes=1000, num_edges=6000, cols=16, classes=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    # Squares of uniform numbers make degrees uneven, and leave the last nodes alone.
    ends = torch.rand((2, num_edges), generator=generator).square() * (num_nodes - num_nodes // 20)
    edge_index = ends.long()
    edge_index[:, :20] = edge_index[:, 20:40]
    edge_index[1, 40:60] = edge_index[0, 40:60]
    order = torch.randperm(num_nodes, generator=generator)
    train, valid = num_nodes * 6 // 10, num_nodes * 8 // 10
    x = torch.randn((num_nodes, cols), generator=generator)
    return RandomGraph(
        edge_index=edge_index,
        x=x,
        y=x[:, :classes].argmax(dim=1),
        train=order[:train].sort().values,
        valid=order[train:valid].sort().values,
        test=order[valid:].sort().values,
    )
