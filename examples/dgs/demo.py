# SPDX-License-Identifier: Apache-2.0
"""A tensor of 100 numbers over the GPUs of a machine and its host memory, as Dist-GPU-sampling's demo prints it.

    torchrun --nproc_per_node 1 examples/dgs/demo.py

25 numbers fit into the 200 bytes that every GPU gives; the others lie in host memory. Without a GPU all of them do.
"""

import torch
import torch.distributed as dist

import strata.dgs


def say(text: object) -> None:
    """In one piece, because several ranks print."""
    print(f"{text}\n", end="", flush=True)


def main() -> None:
    dist.init_process_group("gloo", init_method="env://")  # or "nccl", where every rank has a GPU of its own
    rank = dist.get_rank()
    if torch.cuda.is_available():
        torch.cuda.set_device(rank % torch.cuda.device_count())
    strata.dgs.create_communicator()

    say(f"[rank={rank}] Create ChunkTensor")
    tensor = torch.classes.dgs_classes.ChunkTensor([100], torch.int64, capacity_per_gpu=200)
    if rank == 0:
        say(f"[rank={rank}] Load data")
        tensor._CAPI_load_from_tensor(torch.arange(100))
    dist.barrier()  # the others read what rank 0 has loaded

    for turn in range(dist.get_world_size()):
        if turn == rank:
            say(f"[rank={rank}] Print HostTensor in ChunkTensor:\n{tensor._CAPI_get_host_tensor()}")
            say(f"[rank={rank}] Print DeviceTensor in ChunkTensor:\n{tensor._CAPI_get_sub_device_tensor()}")
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
