# SPDX-License-Identifier: Apache-2.0
"""Errors of C++ in Python, and what ends a wait."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
import unittest

import strata
from random_graphs import random_graph


class Errors(unittest.TestCase):
    def test_are_those_of_python(self):
        self.assertTrue(issubclass(strata.InputError, ValueError))
        self.assertTrue(issubclass(strata.OutOfMemory, MemoryError))
        for error in (strata.InputError, strata.OutOfMemory, strata.IoError, strata.CudaError, strata.CommError):
            self.assertTrue(issubclass(error, strata.StrataError))
        self.assertTrue(issubclass(strata.StrataError, RuntimeError))

    def test_say_what_to_do_and_where_it_was(self):
        with random_graph().load(strata) as graph, self.assertRaises(strata.InputError) as caught:
            strata.NeighborLoader(graph, [3], [1, 1])
        error = caught.exception
        self.assertEqual(str(error), "node 1 is given to a loader twice\n  Give each node once.")
        self.assertEqual((error.remedy, error.rank, error.is_echo), ("Give each node once.", 0, False))
        self.assertEqual(error.host, os.uname().nodename)

    def test_of_memory(self):
        with self.assertRaises(MemoryError) as caught:
            strata.load("synthetic:kind=lognormal,nodes=40000000000,degree=100,features=1")
        self.assertRegex(str(caught.exception), "GiB|TiB")


class Signals(unittest.TestCase):
    """In a process of its own."""

    def start(self, code):
        process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def test_control_c_ends_a_loop_over_batches(self):
        process = self.start(
            """
            import strata
            graph = strata.load("synthetic:kind=sbm,nodes=20000,features=8,classes=4,train=10000")
            loader = strata.NodeLoader(graph, "train", fanouts=[-1, -1, -1], batch_size=2000)
            next(iter(loader))  # imports torch, and with it NumPy, whose import may swallow a KeyboardInterrupt
            print("ready", flush=True)
            while True:
                for batch in loader: pass
            """
        )
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=300)
        self.assertIn("KeyboardInterrupt", errors)
        self.assertNotEqual(process.returncode, 0)

    def test_a_signal_ends_the_wait_for_a_long_gather_which_goes_on_by_itself(self):
        process = self.start(
            """
            import signal
            import time
            import strata
            import torch

            class Stop(Exception):
                pass

            def stop(*_):
                raise Stop

            signal.signal(signal.SIGALRM, stop)
            x = torch.rand(1000, 1000)
            unified, graph = strata.unified(x), strata.from_tensors([[0], [1]], x)
            print("ready", flush=True)

            def is_left_at_work(rows, count):
                ids = torch.randint(1000, (count,))
                rows[ids[:5]]  # torch begins with CUDA at its first use, and an exception must not end that
                signal.setitimer(signal.ITIMER_REAL, 0.03)
                try:
                    rows[ids]
                    time.sleep(1)
                except Stop:
                    at_work = not strata._core.await_left(0)
                assert rows[ids[:5]].cpu().equal(x[ids[:5]])
                return at_work

            for rows in (unified, graph.features):  # 1.2 GB, or more where that takes no time
                print(any(is_left_at_work(rows, count) for count in (300_000, 600_000, 1_200_000, 2_400_000)))
            """
        )
        output, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, errors)
        if strata.process().device != "cpu":
            self.skipTest("a GPU gathers while Python goes on")
        self.assertEqual(output.split(), ["True", "True"])

    def test_control_c_ends_the_wait_for_ranks_that_do_not_start(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        process = self.start(
            f"""
            import os
            os.environ.update(RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="{port}")
            import torch
            import strata._ranks
            print("ready", flush=True)
            strata.process()
            """
        )
        # Rank 0 listens for the other one as soon as it waits.
        def listens():
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        while not listens():
            self.assertIsNone(process.poll())
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=300)
        self.assertIn("KeyboardInterrupt", errors)
        self.assertEqual(process.returncode, 130, errors)

    def test_a_forked_process_is_refused(self):
        process = self.start(
            """
            import os
            import strata
            strata.process()
            print("ready", flush=True)
            if os.fork() == 0:
                try:
                    strata.load("synthetic:kind=sbm,nodes=100")
                except strata.InputError as error:
                    print(error, flush=True)
                os._exit(0)
            os.wait()
            """
        )
        output, errors = process.communicate(timeout=60)
        self.assertIn("this process was forked from one that uses Strata", output)
        self.assertEqual(process.returncode, 0, errors)


if __name__ == "__main__":
    unittest.main()
