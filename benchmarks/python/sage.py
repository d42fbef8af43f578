# SPDX-License-Identifier: Apache-2.0
"""The model of the benchmarks of epochs and steps."""

import torch


class Sage(torch.nn.Module):
    """Layers with ReLU between them; forward(x, calls) calls each as `calls`, one per layer, say."""

    def __init__(self, conv, sizes):
        super().__init__()
        self.layers = torch.nn.ModuleList(conv(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x, calls):
        for i, (layer, call) in enumerate(zip(self.layers, calls)):
            x = call(layer, x)
            if i + 1 < len(self.layers):
                x = x.relu()
        return x
