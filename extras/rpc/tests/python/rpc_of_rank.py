# SPDX-License-Identifier: Apache-2.0
"""What strata.rpc promises, tried by rank 0 of three; the other ranks serve."""

import sys
import unittest

import rpc_calls
import rpc_gradients
import torch

import strata
import strata.rpc as rpc

THREADS = (1, 4, 1)  # of the ranks: two of them can run one call at a time


def refuse_wrong_maps(rank):
    """On all ranks alike."""
    options = rpc.TensorPipeRpcBackendOptions()
    if rank == 0:
        options.set_device_map("worker7", {"cuda:90": "cuda:91"})
    try:
        rpc.init_rpc(f"worker{rank}", rpc_backend_options=options)
    except strata.InputError as error:
        assert "worker7" in str(error), error
    else:
        raise AssertionError("a device map for nobody was accepted")


def start_again_with(channel, rank):
    """All tensors take the channel, whether there is room for them or they pass in pieces."""
    rpc.init_rpc(f"again{rank}", rpc_backend_options=rpc.Options(channels=[channel], landing_bytes=256 << 10, busy_poll_us=50))
    nothing = rpc.traffic()[channel].sent_bytes
    for count in (1_000, 1_000_000):
        assert rpc.rpc_sync((rank + 1) % 3, rpc_calls.add, args=(torch.ones(count), 1)).sum() == 2 * count
    used = rpc.traffic()
    assert used[channel].sent_bytes - nothing >= 4 * 1_000_000, used
    assert used["tcp"].sent_messages > 0, used
    assert channel == "shared-memory" or used["shared-memory"] == rpc.Traffic(0, 0, 0, 0), used
    assert rpc.rpc_sync(f"again{(rank + 1) % 3}", rpc.get_worker_info).id == (rank + 1) % 3
    rpc.shutdown()


def try_all():
    tests = map(unittest.defaultTestLoader.loadTestsFromModule, (rpc_calls, rpc_gradients))
    return unittest.TextTestRunner().run(unittest.TestSuite(tests)).wasSuccessful()


def main():
    rank = strata.init("cpu").rank
    refuse_wrong_maps(rank)
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=THREADS[rank], rpc_timeout=120)
    rpc.init_rpc(f"worker{rank}", backend=rpc.BackendType.TENSORPIPE, rank=rank, world_size=3, rpc_backend_options=options)
    ended_well = True
    left = rpc.RRef([1])  # shutdown() drops it
    if rank == 0:
        ended_well = try_all()
    rpc.shutdown()
    for refused in (lambda: rpc.rpc_sync("worker1", abs, args=(1,)), rpc.shutdown, left.to_here, rpc.get_worker_info):
        try:
            refused()
        except strata.InputError as error:
            assert "init_rpc" in str(error), error
        else:
            raise AssertionError("a call after the end")
    for channel in ("tcp", "shared-memory"):
        start_again_with(channel, rank)
    sys.exit(0 if ended_well else 1)


if __name__ == "__main__":
    main()
