# SPDX-License-Identifier: Apache-2.0
"""Graphs for tests, as tensors."""

from dataclasses import dataclass

import torch


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
