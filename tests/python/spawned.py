# SPDX-License-Identifier: Apache-2.0
"""Runs a script in processes of torch.multiprocessing.spawn, which are the ranks of a run.

    spawned.py RANKS SCRIPT ARGUMENT...
"""

import os
import runpy
import socket
import sys

import torch.multiprocessing


def work(rank, environment, words):
    os.environ.update(environment, RANK=str(rank))
    sys.argv = words
    sys.path.insert(0, os.path.dirname(words[0]))
    runpy.run_path(words[0], run_name="__main__")


def main():
    ranks, words = int(sys.argv[1]), sys.argv[2:]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    environment = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    torch.multiprocessing.spawn(work, args=(environment, words), nprocs=ranks)


if __name__ == "__main__":
    main()
