#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts a command N times, as torchrun does: with RANK, WORLD_SIZE, MASTER_ADDR and the like in the environment.

    spawn_ranks.py N [NAME=VALUE | RANK:NAME=VALUE...] COMMAND...

NAME=VALUE sets a variable of all ranks, and RANK:NAME=VALUE of one; without a value it is unset. A rank whose SPAWN is 0 is not
started. Whoever is left 15 s after the first rank failed is killed, and named; a stopped process is killed once the others have
ended. Exits with the code of the rank that failed first.
"""
import ctypes
import os
import re
import signal
import socket
import subprocess
import sys
import time

PATIENCE_SECONDS = 15
PR_SET_PDEATHSIG = 1
SETTING = re.compile(r'(?:(\d+):)?([A-Z_]+)=(.*)')


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def environment(rank, size, port, settings):
    variables = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(size),
                     MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port))
    for only, name, value in settings:
        if only is None or int(only) == rank:
            variables[name] = value
    return {name: value for name, value in variables.items() if value}


def end_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def start(size, settings, command):
    port = free_port()
    ranks = {}
    for rank in range(size):
        variables = environment(rank, size, port, settings)
        if variables.get('SPAWN') != '0':
            ranks[rank] = subprocess.Popen(command, env=variables, preexec_fn=end_with_parent)
    return ranks


def is_stopped(process):
    with open(f'/proc/{process.pid}/stat', encoding='ascii', errors='replace') as stat:
        return stat.read().rpartition(')')[2].split()[0] == 'T'


def wait(ranks):
    """The exit code of the run; 77 only if all ranks skipped."""
    result, deadline = None, None
    left = dict(ranks)
    while left and (deadline is None or time.monotonic() < deadline):
        for rank, process in list(left.items()):
            if process.poll() is None:
                continue
            del left[rank]
            if process.returncode < 0:
                print(f'spawn_ranks: rank {rank} was ended by signal {-process.returncode}', flush=True)
            if process.returncode not in (0, 77) and result is None:
                result = process.returncode if process.returncode > 0 else 1
                deadline = time.monotonic() + PATIENCE_SECONDS
        if result is not None and all(is_stopped(process) for process in left.values()):
            break
        time.sleep(0.01)
    for rank, process in left.items():
        if not is_stopped(process):
            print(f'spawn_ranks: rank {rank} did not end within {PATIENCE_SECONDS} s after another one', flush=True)
            result = 1
        process.kill()
        process.wait()
    if result is None:
        return 77 if all(process.returncode == 77 for process in ranks.values()) else 0
    return result


def main(arguments):
    size, *rest = arguments
    settings = []
    while rest and (found := SETTING.fullmatch(rest[0])):
        settings.append(found.groups())
        rest.pop(0)
    return wait(start(int(size), settings, rest))


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
