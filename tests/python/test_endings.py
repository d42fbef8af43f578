# SPDX-License-Identifier: Apache-2.0
"""A rank whose program ends while others work ends them, whoever started the ranks; programs that end together end in order."""

import os
import pathlib
import re
import subprocess
import sys
import time
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent / "ends_of_rank.py"
STARTS = {
    "mpirun": ["mpirun", "-n", "2", "--oversubscribe", "--bind-to", "none", sys.executable, SCRIPT],
    "torchrun": [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", SCRIPT],
    "spawn": [sys.executable, SCRIPT],
}


def names_left(output, ranks):
    """What the processes that printed "pid N" left in /dev/shm, where other tests have names of their own."""
    pids = re.findall(r"pid (\d+)", output)
    assert len(pids) == ranks, output
    return [name for name in os.listdir("/dev/shm") if name.startswith(tuple(f"strata-{pid}-" for pid in pids))]


class Endings(unittest.TestCase):
    def ended(self, start, how):
        """What the run wrote. It must end by itself; what it may take includes the start of loaded machines."""
        command = [str(word) for word in STARTS[start]] + [how] + (["spawn"] if start == "spawn" else [])
        return subprocess.run(command, capture_output=True, text=True, timeout=300)

    def test_a_rank_that_ends_ends_the_others_and_is_named(self):
        # Of a killed rank of torch.multiprocessing.spawn either torch tells first or Strata.
        told = {
            "raise": "on purpose",
            "exit5": "rank 1 .*ended with exit code 5",
            "exit0": "rank 0 .*has waited for [0-9]+ s .*program of rank 1 has ended",
            "kill": "rank 1|process 1 terminated with signal SIGKILL",
        }
        for start in STARTS:
            for how in ("raise", "exit5", "exit0", "kill"):
                with self.subTest(start=start, how=how):
                    done = self.ended(start, how)
                    over = time.time()
                    self.assertNotEqual(done.returncode, 0)
                    ended = re.search(r"ends at (\S+)", done.stdout)
                    self.assertIsNotNone(ended, done.stdout)
                    self.assertLess(over - float(ended.group(1)), 60)  # without this, they would wait for ever
                    self.assertRegex(done.stderr, told[how])
                    if (start, how) == ("spawn", "raise"):
                        self.assertIn("ProcessRaisedException", done.stderr)
                    self.assertEqual(names_left(done.stdout, 2), [])

    def test_a_rank_that_fails_is_known_however_it_exits(self):
        self.assertRegex(self.ended("mpirun", "SystemExit7").stderr, "rank 1 .*ended with exit code 7")

    def test_a_rank_that_leaves_an_epoch_and_ends_lets_others_work(self):
        done = self.ended("torchrun", "by_itself")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("written", done.stdout)
        self.assertNotIn("strata:", done.stderr)

    def test_programs_that_end_together_end_in_order_with_their_own_codes(self):
        for start in STARTS:
            with self.subTest(start=start):
                done = self.ended(start, "in_order")
                self.assertNotEqual(done.returncode, 0)
                self.assertNotIn("strata:", done.stderr)

    def test_ctrl_c_ends_the_wait_for_other_ranks(self):
        for start in ("mpirun", "torchrun"):
            with self.subTest(start=start):
                done = self.ended(start, "interrupt")
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("KeyboardInterrupt", done.stderr)


class ExitStatus(unittest.TestCase):
    """What handlers of atexit learn of the end of the program."""

    def status(self, *lines):
        begin = "import atexit, sys\nfrom strata import _core\natexit.register(lambda: print(_core.exit_status(), flush=True))\n"
        return subprocess.run([sys.executable, "-c", begin + "\n".join(lines)], capture_output=True, text=True).stdout

    def test_is_that_of_the_exception_that_ended_it(self):
        for line, status in (
            ("sys.exit(5)", 5),
            ("raise SystemExit(6)", 6),
            ("exit(8)", 8),
            ("sys.exit()", 0),
            ("sys.exit('a reason')", 1),
            ("sys.exit(-1)", 255),
            ("class Own(SystemExit): pass\nraise Own(4)", 4),
            ("def work():\n    with open(sys.executable, 'rb'):\n        sys.exit(3)\nwork()", 3),
        ):
            with self.subTest(line=line):
                self.assertEqual(self.status(line), f"{status}\n")

    def test_is_not_that_of_one_that_was_caught(self):
        caught = "try:\n    sys.exit(5)\nexcept SystemExit:\n    pass"
        self.assertEqual(self.status(caught), "0\n")
        self.assertEqual(self.status(caught, "sys.exit(2)"), "2\n")
        self.assertEqual(self.status("import threading\nt = threading.Thread(target=lambda: sys.exit(5))\nt.start()\nt.join()"), "0\n")

    def test_leaves_sys_exit_as_it_was(self):
        self.assertEqual(self.status("import strata\nstrata.init('cpu')\nassert sys.exit.__module__ == 'sys', sys.exit"), "0\n")


if __name__ == "__main__":
    unittest.main()
