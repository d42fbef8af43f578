# SPDX-License-Identifier: Apache-2.0
"""A rank of test_endings.py, whose last rank ends HOW; under mpirun or torchrun, or two that it spawns itself.

    ends_of_rank.py HOW [spawn]
"""

import os
import signal
import socket
import sys
import threading
import time


def end(how):
    print("ends at", time.time(), flush=True)
    if how == "raise":
        raise RuntimeError("on purpose")
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "SystemExit7":
        raise SystemExit(7)
    sys.exit({"exit5": 5, "exit0": 0}[how])


def main(how):
    import strata

    sys.stdout.write(f"pid {os.getpid()}\n")  # at once: other ranks write to the same pipe
    sys.stdout.flush()
    last = strata.init("cpu").rank == strata.process().size - 1
    graph = strata.load("synthetic:kind=sbm,nodes=3000,features=4,classes=4,train=1000")
    loader = strata.NodeLoader(graph, "train", fanouts=[3, 3], batch_size=10, shuffle=True)
    if how == "in_order":
        next(iter(loader))
        if last:
            time.sleep(1)  # the others wait
        sys.exit(3)
    if how == "by_itself":
        for _ in loader:
            break
        try:
            sys.exit(9)
        except SystemExit:
            pass  # a program that was caught goes on
        if not last:
            time.sleep(25)
            print("written", flush=True)
        return
    if how == "interrupt":
        if last:
            time.sleep(60)
        threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
        strata.process().barrier()
    for epoch in range(100_000):
        for step, _ in enumerate(loader):
            if epoch == 1 and step == 3 and last:
                end(how)
        strata.process().barrier()


def spawned(rank, port, how):
    os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    main(how)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        main(sys.argv[1])
    else:
        import torch.multiprocessing  # takes two seconds, which the ranks of other launchers need not spend

        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        torch.multiprocessing.spawn(spawned, args=(port, sys.argv[1]), nprocs=2)
