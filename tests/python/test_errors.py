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
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        self.assertIn("KeyboardInterrupt", errors)
        self.assertNotEqual(process.returncode, 0)
        self.assertLess(time.monotonic() - begun, 30)  # a second on a machine that does nothing else

    def test_a_signal_ends_the_wait_for_a_long_gather_which_goes_on_by_itself(self):
        process = self.start(
            """
            import signal
            import strata
            import torch

            class Stop(Exception):
                pass

            def stop(*_):
                raise Stop

            signal.signal(signal.SIGALRM, stop)
            x, ids = torch.rand(1000, 1000), torch.randint(1000, (300_000,))  # 1.2 GB of rows
            unified, graph, rows = strata.unified(x), strata.from_tensors([[0], [1]], x), x[ids]
            print("ready", flush=True)

            def write():
                unified[ids] = rows

            for name, work in {
                "unified": lambda: unified[ids],
                "write": write,
                "features": lambda: graph.features[ids],
            }.items():
                signal.setitimer(signal.ITIMER_REAL, 0.03)
                try:
                    work()
                except Stop:
                    print(name, "stopped, at work:", not strata._core.await_left(0))
                if name != "write":
                    print((unified if name == "unified" else graph.features)[ids[:5]].cpu().equal(x[ids[:5]]))
            """
        )
        output, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, errors)
        if strata.process().device != "cpu":
            self.skipTest("a GPU gathers while Python goes on")
        wanted = ["unified stopped, at work: True", "True", "write stopped, at work: True", "features stopped, at work: True", "True"]
        self.assertEqual(output.splitlines(), wanted)

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
        time.sleep(2)
        self.assertIsNone(process.poll())
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        self.assertIn("KeyboardInterrupt", errors)
        self.assertEqual(process.returncode, 130, errors)
        self.assertLess(time.monotonic() - begun, 20)  # a second on a machine that does nothing else

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
