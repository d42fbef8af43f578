# SPDX-License-Identifier: Apache-2.0
"""The model of the benchmarks of epochs and steps."""

import torch

from strata.nn import SAGEConv


class Sage(torch.nn.Module):
    """Layers with ReLU between them, which strata.nn's apply to what they read; forward(x, calls) calls each as `calls` say."""

    def __init__(self, conv, sizes):
        super().__init__()
        self.apart = conv is not SAGEConv
        more = [{"relu_input": True} if i > 0 and not self.apart else {} for i in range(len(sizes) - 1)]
        self.layers = torch.nn.ModuleList(conv(a, b, **options) for a, b, options in zip(sizes, sizes[1:], more))

    def forward(self, x, calls):
        for i, (layer, call) in enumerate(zip(self.layers, calls)):
            x = call(layer, x.relu() if self.apart and i > 0 else x)
        return x
