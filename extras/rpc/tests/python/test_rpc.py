# SPDX-License-Identifier: Apache-2.0
"""Calls between ranks from Python: in processes that mpirun and torch.multiprocessing start, with ranks that fail, too."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import unittest

import strata.errors
from test_launch import mpirun, on_unnamed_host

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[3]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}  # as many ranks as this starts share few cores

# Rank 2 dies in a call; rank 1 hears of it in shutdown(), rank 0 in its call, and goes on with rank 1. Then rank 0 ends
# without a shutdown, while a call of its own runs.
DYING_RANK = """
import os
import sys
import time

import strata
import strata.rpc as rpc


def name():
    return rpc.get_worker_info().name


def stay(seconds):
    time.sleep(seconds)


rank = int(sys.argv[1])
rpc.init_rpc("worker" + str(rank), rank=rank, world_size=3)
if rank > 0:
    try:
        rpc.shutdown()
    except strata.CommError as error:
        print("rank 1:", error, flush=True)
else:
    other = rpc.rpc_async("worker2", stay, args=(120,))
    try:
        rpc.rpc_sync("worker2", os._exit, args=(0,))
    except strata.CommError as error:
        print("rank 0:", error, flush=True)
    try:
        other.wait()
    except strata.CommError as error:
        print("rank 0:", error, flush=True)
    print("rank 0 calls", rpc.rpc_sync("worker0", name), flush=True)
    rpc.rpc_async("worker0", stay, args=(0.5,))
"""

CALLBACK_ON_GPU = """
import torch

import strata.rpc as rpc

rpc.init_rpc("alone", rpc_backend_options=rpc.Options(device_maps={"alone": {0: 0}}))
made = rpc.rpc_async("alone", torch.ones, args=(2,), kwargs={"device": "cuda:0"})
y = made.then(lambda done: done.wait() + 1).then(lambda done: done.wait() * 2).wait()
print(y.tolist(), y.device)
rpc.shutdown()
"""

INTERRUPTED = """
import threading

import strata.rpc as rpc

released = threading.Event()


def stay():
    print("waiting", flush=True)
    return released.wait(timeout=120)


rpc.init_rpc("alone")
kept = rpc.remote("alone", threading.Event)
try:
    rpc.rpc_sync("alone", stay)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    released.set()
"""


# A call waits for a future that nobody fulfills; then the program does what its arguments say.
WAITING = """
import sys
import threading

import torch

import strata
import strata.rpc as rpc
import strata.rpc._session

strata.rpc._session._EXIT_PATIENCE_S = 1
begun = threading.Event()


@rpc.functions.async_execution
def never():
    begun.set()
    return torch.futures.Future()


def stay():
    begun.set()
    threading.Event().wait()


rpc.init_rpc("alone")
future = rpc.rpc_async("alone", {"future": never, "event": stay}[sys.argv[1]], timeout=0)
begun.wait()
if sys.argv[2] == "raise":
    raise RuntimeError("on purpose")
try:
    rpc.shutdown(graceful=sys.argv[2] == "graceful", timeout=1)
except strata.CommError as error:
    print("shutdown:", error)
try:
    future.wait()
except strata.CommError as error:
    print("future:", error)
"""

# What init_rpc() makes of the rank and size that are its arguments, given no launcher.
JOINING = """
import os
import sys

import strata
import strata.rpc as rpc

try:
    rpc.init_rpc("worker0", rank=int(sys.argv[1]), world_size=int(sys.argv[2]))
    print("calls", rpc.rpc_sync("worker0", abs, args=(-4,)))
    rpc.shutdown()
except strata.InputError as error:
    print(error, error.remedy)
print("left:", [name for name in ("RANK", "WORLD_SIZE") if name in os.environ])
"""


class Rpc(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="strata-rpc-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def script(self, text):
        path = self.folder / "script.py"
        path.write_text(textwrap.dedent(text))
        return path

    def run_python(self, *words):
        return subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True, timeout=300, env=ENVIRONMENT)

    def test_under_mpirun(self):
        done = mpirun(3, HERE / "rpc_of_rank.py", timeout=300, env=ENVIRONMENT)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"Ran \d\d tests")

    def test_where_the_name_of_the_host_leads_nowhere(self):
        script = self.script("""
            import strata, strata.rpc as rpc
            process = strata.init("cpu")
            strata.init_process_group("gloo")
            rpc.init_rpc(f"worker{process.rank}")
            last = rpc.rpc_sync(f"worker{process.size - 1}", abs, args=(-7,))
            rpc.shutdown()
            print(f"heard {last} on {process.host}", flush=True)
            """)
        alone, two = [sys.executable, str(script)], ["mpirun", "-n", "2", "--oversubscribe", "--bind-to", "none"]
        for command, ranks in ((alone, 1), (two + alone, 2)):
            told = on_unnamed_host(self, command, {})
            self.assertEqual(told.count("heard 7 on no-such-host.invalid"), ranks, told)

    def test_the_recipe_refuses_sizes_that_cannot_be(self):
        for options in (["--width", "0"], ["--more", "-1"]):
            done = self.run_python(ROOT / "examples/python/rpc_two_shards.py", "--modes", "cpu", *options)
            self.assertEqual(done.returncode, 2)
            self.assertIn("--width is at least 1, --more at least 0", done.stderr)

    def test_the_recipe(self):
        done = self.run_python(ROOT / "examples/python/rpc_two_shards.py", "--modes", "cpu", "--width", "50", "--more", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertRegex(lines[0], r"^cpu RPC total execution time: \d+\.\d+(e-\d+)? Seconds$")
        self.assertRegex(lines[1], r"^cpu RPC, median of 2 more: \d+\.\d+(e-\d+)? Seconds$")
        # On a GPU torch tells of the first product of a thread.
        self.assertEqual([line for line in done.stderr.splitlines() if "CublasHandlePool" not in line], [])

    def test_a_rank_that_dies_ends_the_calls_that_need_it(self):
        with socket.socket() as probe:
            probe.bind(("localhost", 0))
            place = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(probe.getsockname()[1])}
        script = self.script(DYING_RANK)
        ranks = [
            subprocess.Popen(
                [sys.executable, script, str(rank)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=ENVIRONMENT | place,
            )
            for rank in range(3)
        ]
        outputs = [rank.communicate(timeout=300) for rank in ranks]
        said = outputs[0][0]
        self.assertEqual(len(re.findall(r"rank 0: worker2 \(rank 2, host .*\) is gone", said)), 2, outputs)
        self.assertIn("rank 0 calls worker0", said)
        self.assertRegex(outputs[1][0], r"rank 1: .*worker[02] \(rank [02], host .*\) ")
        self.assertEqual([rank.returncode for rank in ranks], [0, 0, 0], outputs)

    def test_callbacks_may_return_tensors_on_gpus(self):
        import torch

        if not torch.cuda.is_available():
            self.skipTest("needs a GPU")
        done = self.run_python(self.script(CALLBACK_ON_GPU))
        self.assertEqual((done.returncode, done.stdout), (0, "[4.0, 4.0] cuda:0\n"), done.stderr)

    def test_the_end_of_a_rank_ends_calls_that_wait(self):
        script = self.script(WAITING)
        for waits, how, told in (
            ("future", "raise", "RuntimeError: on purpose"),
            ("event", "raise", "calls of other ranks still run on alone .rank 0. 1 s after"),
            ("future", "graceful", "shutdown: rpc.shutdown.. waited for 1 s.*future: the agent ended before"),
        ):
            with self.subTest(waits=waits, how=how):
                done = subprocess.run([sys.executable, script, waits, how], capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 1 if how == "raise" else 0, done.stderr)
                self.assertRegex((done.stdout + done.stderr).replace("\n", " "), told)

    def test_ranks_that_are_arguments_are_not_blamed_on_the_environment(self):
        script = self.script(JOINING)
        bare = {name: value for name, value in ENVIRONMENT.items() if name not in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}
        for rank, size, place, told in (
            (0, 1, {}, "calls 4"),
            (1, 2, {}, "given rank=1 and world_size=2, and the environment has no MASTER_ADDR and no MASTER_PORT"),
            (5, 2, {}, "given rank=5 and world_size=2"),
            (0, 2, {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "http"}, "MASTER_PORT is 'http'"),
        ):
            with self.subTest(rank=rank, size=size, place=place):
                words = [sys.executable, str(script), str(rank), str(size)]
                done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=bare | place)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stdout, told)
                self.assertIn("left: []", done.stdout)

    def test_control_c_ends_waiting(self):
        script = self.script(INTERRUPTED)
        with subprocess.Popen(
            [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            self.assertEqual(process.stdout.readline(), "waiting\n")
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.stdout.readline(), "interrupted\n")
            self.assertEqual(process.wait(timeout=60), 0)
            self.assertEqual(process.stderr.read(), "")

    def test_the_benchmark(self):
        path = self.folder / "rpc.json"
        done = self.run_python(
            ROOT / "benchmarks/rpc/calls.py", "--device", "cpu", "--only", "strata", "--quick", "--json", path
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = {row["case"]: row for row in json.loads(path.read_text())["rows"]}
        for case in (
            "empty call, median",
            "empty call, p99",
            "64 MiB one way, CPU",
            "recipe, cpu, warm",
            "training step beside 100 calls per second",
        ):
            self.assertGreater(rows[case]["strata"], 0, case)
            self.assertIn(case, done.stdout)
        for case in ("4 B there and back, CUDA", "64 MiB one way, CUDA", "recipe, cuda, warm"):
            self.assertIsNone(rows[case]["strata"], case)
            self.assertRegex(done.stdout, rf"{re.escape(case)} .*not measured")


class Options(unittest.TestCase):
    def test_are_checked_before_anything_starts(self):
        import strata.rpc as rpc

        options = rpc.TensorPipeRpcBackendOptions(device_maps={"worker1": {0: 1}})
        options.set_device_map("worker1", {"cuda:2": 0})
        self.assertEqual(
            {str(mine): str(its) for mine, its in options.device_maps["worker1"].items()},
            {"cuda:0": "cuda:1", "cuda:2": "cuda:0"},
        )
        self.assertIs(rpc.TensorPipeRpcBackendOptions, rpc.Options)
        with self.assertRaisesRegex(ValueError, "shared-memory"):  # the nearest one
            rpc.Options(channels=["tcp", "shared-memroy"])
        for wrong in (
            lambda: rpc.Options(channels="tcp"),
            lambda: rpc.Options(channels=[]),
            lambda: rpc.Options(landing_bytes=-1),
            lambda: rpc.Options(busy_poll_us=-1),
            lambda: options.set_device_map("worker1", {0: 2}),
            lambda: rpc.TensorPipeRpcBackendOptions(num_worker_threads=0),
            lambda: rpc.TensorPipeRpcBackendOptions(init_method="file:///tmp/store"),
            lambda: rpc.init_rpc("a", rpc_backend_options=rpc.TensorPipeRpcBackendOptions(device_maps={"a": {"cpu": 0}})),
            lambda: rpc.init_rpc(
                "a", rpc_backend_options=rpc.TensorPipeRpcBackendOptions(device_maps={"a": {1: 0}}, devices=[0])
            ),
            lambda: rpc.init_rpc("a", rpc_backend_options=rpc.TensorPipeRpcBackendOptions(rpc_timeout=-1)),
            lambda: rpc.init_rpc("not a name"),
            lambda: rpc.init_rpc("a", "GLOO"),
            lambda: rpc.rpc_sync("a", print),
        ):
            with self.assertRaises(strata.errors.InputError):
                wrong()


if __name__ == "__main__":
    unittest.main()
