# SPDX-License-Identifier: Apache-2.0
"""DGL's two functions for rows of host memory that the GPU reads in place."""

from strata.unified_tensor import gather_pinned_tensor_rows, pin_memory_inplace

__all__ = ["gather_pinned_tensor_rows", "pin_memory_inplace"]
