# SPDX-License-Identifier: Apache-2.0
"""Parameters that begin as torch_geometric's do."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def glorot(in_channels: int, out_channels: int) -> torch.nn.Linear:
    """A linear map without bias."""
    linear = torch.nn.Linear(in_channels, out_channels, bias=False)
    reset_glorot(linear.weight)
    return linear


def reset_glorot(weight: Tensor) -> None:
    bound = math.sqrt(6.0 / (weight.shape[-2] + weight.shape[-1]))
    torch.nn.init.uniform_(weight, -bound, bound)


def reset_module(module: torch.nn.Module) -> None:
    """Resets a module, or the modules that it is made of."""
    if callable(reset := getattr(module, "reset_parameters", None)):
        reset()
        return
    for child in module.children():
        reset_module(child)
