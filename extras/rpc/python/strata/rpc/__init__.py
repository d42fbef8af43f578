# SPDX-License-Identifier: Apache-2.0
"""Calls, references, modules and gradients that cross ranks, by the names of torch.distributed.rpc.

    import strata.rpc as rpc
    import strata.rpc.autograd as autograd

    rpc.init_rpc("worker0")                        # "worker1" on the other rank
    rref = rpc.remote("worker1", torch.nn.Linear, args=(8, 4))
    with autograd.context() as context_id:
        autograd.backward(context_id, [rref.rpc_sync().forward(x).sum()])
    rpc.shutdown()

docs/rpc.md describes what travels how. Importing it imports torch.
"""

from strata.rpc import autograd, functions
from strata.rpc._calls import Future, get_rpc_timeout, remote, rpc_async, rpc_sync, wait_all
from strata.rpc._failures import RemoteError
from strata.rpc._references import RRef
from strata.rpc._session import (
    BackendType,
    Options,
    TensorPipeRpcBackendOptions,
    Traffic,
    WorkerInfo,
    get_worker_info,
    init_rpc,
    shutdown,
    traffic,
)
from strata.rpc.modules import RemoteModule
from strata.rpc.optim import DistributedOptimizer


def is_available() -> bool:
    """True, as torch.distributed.rpc.is_available() is where torch has it."""
    return True


__all__ = [
    "BackendType",
    "DistributedOptimizer",
    "Future",
    "Options",
    "RRef",
    "RemoteError",
    "RemoteModule",
    "TensorPipeRpcBackendOptions",
    "Traffic",
    "WorkerInfo",
    "autograd",
    "functions",
    "get_rpc_timeout",
    "get_worker_info",
    "init_rpc",
    "is_available",
    "remote",
    "rpc_async",
    "rpc_sync",
    "shutdown",
    "traffic",
    "wait_all",
]
