# SPDX-License-Identifier: Apache-2.0
"""The extension _rpc, which takes libtorch from the package torch."""

from strata._torch import require_torch

require_torch()
from strata import _rpc  # noqa: E402

__all__ = ["_rpc"]
