# SPDX-License-Identifier: Apache-2.0
"""Dist-GPU-sampling's names, on one and several ranks: on GPUs where there are some, else in host memory."""

import argparse
import contextlib
import importlib.util
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import torch

from test_endings import names_left

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[3]
EXAMPLES = ROOT / "examples/dgs"
sys.path.insert(0, str(EXAMPLES))
bench, bench_data = map(importlib.import_module, ("bench", "bench_data"))
# Without GPUs all ranks share one table, and two of them are as three.
RANKS = range(1, max(3, min(4, torch.cuda.device_count())) + 1) if torch.cuda.is_available() else (1, 3)


def start(ranks, *arguments, timeout=180):
    """As torchrun does, but without its own start."""
    command = [sys.executable, ROOT / "tests/support/spawn_ranks.py", ranks, sys.executable, *arguments]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=timeout)


class Dgs(unittest.TestCase):
    def run_ranks(self, ranks, *arguments):
        done = start(ranks, *arguments)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def scenarios(self, ranks, *names, script="dgs_of_rank.py"):
        out = self.run_ranks(ranks, HERE / script, *names)
        for name in names:
            self.assertEqual(out.count(f"] did {name}"), ranks, out)
        return out

    def test_gives_rows_of_every_shape_type_and_capacity(self):
        for ranks in RANKS:
            with self.subTest(ranks=ranks):
                gpus = min(ranks, torch.cuda.device_count())
                names = ["every_shape_and_type", "cut_of_the_readme", "refuses", "drops_in_any_order"]
                out = self.scenarios(ranks, *names)
                for rank in range(ranks):
                    own = rank % gpus if gpus else 0
                    even = min(100, -(-100 // gpus) * (own + 1)) - -(-100 // gpus) * own if gpus else 0
                    self.assertIn(f"[{rank}] cut [{25 if gpus else 0}]", out)
                    self.assertIn(f"[{rank}] even [{even}]", out)

    def test_samples_relabels_and_caches(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                names = ["takes_arguments_by_name", "samples_as_asked", "refuses_to_sample", "relabels", "caches_hot_rows", "trains_graphsage", "refuses_what_was_closed"]
                self.scenarios(ranks, *names, *["samples_fairly"] * (ranks == 1))

    def test_samples_blocks(self):
        names = ["samples_blocks_as_the_operators_do", "keeps_ids_of_inputs", "samples_one_hop", "has_the_same_edges_by_source", "pads_without_a_trace", "writes_rows_where_asked", "refuses_blocks"]
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                self.scenarios(ranks, *names, *["repeats_recorded_steps"] * (torch.cuda.is_available() and ranks == 1), script="dgs_blocks_of_rank.py")

    def test_leaks_nothing(self):
        self.scenarios(2, "leaks_nothing")

    def test_tells_the_others_of_a_rank_that_was_killed(self):
        out = start(3, HERE / "dgs_of_rank.py", "killed").stdout
        self.assertEqual(out.count("] told:"), 2, out)
        self.assertEqual(names_left(out, 3), [])

    def test_runs_the_benchmark(self):
        with tempfile.TemporaryDirectory(prefix="strata-dgs-") as root:
            spec = "synthetic:kind=sbm,nodes=2000,degree=8,features=8,classes=4,train=400"
            common = ["--dataset", spec, "--root", root, "--batch-size", 100, "--fan-out", "4,3,2", "--num-epochs", 2, "--print-train"]
            copies = ["--feat-cache-rate", 2, "--graph-cache-rate", 2]
            for ranks, options in (
                (1, ["--model", "graphsage"]),
                (2, ["--model", "gat", "--bias", "--layers", "pyg", "--loading-factors"]),
                (2, ["--model", "graphsage", *copies]),
            ):
                command = [sys.executable, EXAMPLES / "bench.py", "--num-gpu", ranks, *common, *options]
                done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
                self.assertEqual(done.returncode, 0, done.stderr)
                gpus = min(ranks, torch.cuda.device_count())
                bias = "--bias" in options
                lines = done.stdout.splitlines()
                self.assertEqual(
                    lines[0],
                    f"Dataset {spec} | GPU num {gpus} | Model {options[1]} | Fan out [4, 3, 2] | Batch size 100 | Bias sampling {bias}",
                )
                made = [line for line in lines if line.startswith("create chunk")]
                self.assertEqual(made, [f"create chunk {name}" for name in ["features", *["probs"] * bias, "indices", "indptr"]])
                cached = [line for line in lines if re.fullmatch(r"Cache size per GPU [\d.]+ GB, .* = [\d.]+", line)]
                self.assertEqual(len(cached), len(made))
                if set(copies) <= set(options):
                    self.assertEqual({line.split()[-1] for line in cached}, {f"{gpus:.3f}"})
                told = [line for line in lines if re.fullmatch(r"Loading factors: (local|remote|host) [\d.]+ \([\d.]+ ns\).*", line)]
                self.assertEqual(len(told), len(made) if bias else 0)
                self.assertIn("start training...", lines)
                losses = [float(line.split()[7]) for line in lines if line.startswith("Epoch")]
                self.assertEqual(len(losses), 2)
                self.assertLess(losses[1], losses[0])
                self.assertRegex(lines[-1], r"^Time per iteration \d+\.\d{3} ms \| Throughput \d+\.\d{3} seeds/sec$")

    def test_counts_the_seeds_that_there_are(self):
        with tempfile.TemporaryDirectory(prefix="strata-dgs-") as root:
            spec = "synthetic:kind=sbm,nodes=2000,degree=8,features=8,classes=4,train=60"
            # Also by the names that the benchmark for several machines has.
            command = [sys.executable, EXAMPLES / "bench.py", "--num_gpu", 1, f"--graph_name={spec}", "--root", root, "--batch_size=1000"]
            done = subprocess.run(list(map(str, [*command, "--num-epochs", 3])), capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        milliseconds, throughput = map(float, re.findall(r"([\d.]+) (?:ms|seeds/sec)", done.stdout.splitlines()[-1]))
        self.assertAlmostEqual(milliseconds / 1000 * throughput, 60, delta=0.5)

    def test_refuses_what_cannot_be_measured(self):
        for options, words in (
            (["--fan-out", "5,0"], "--fan-out takes numbers"),
            (["--num-gpu", "0"], "at least 1"),
            (["--feat-cache-rate", "-0.5"], "of 0 or more"),
            (["--graph-cache-rate", "nan"], "of 0 or more"),
            *[(["--num-gpu", "2", "--feat-cache-rate", "1.5"], "with 2 GPUs")] * (torch.cuda.device_count() > 1),
        ):
            with self.subTest(options=options), unittest.mock.patch.object(sys, "argv", ["bench.py", *options]):
                with contextlib.redirect_stderr(io.StringIO()) as told, self.assertRaises(SystemExit):
                    bench.main()
                self.assertIn(words, told.getvalue())

    def test_refuses_a_graph_without_training_nodes(self):
        spec = "synthetic:kind=sbm,nodes=2000,degree=8,features=8,classes=4,train=0"
        with tempfile.TemporaryDirectory(prefix="strata-dgs-") as root:
            command = [sys.executable, str(EXAMPLES / "bench.py"), "--root", root, "--num-gpu", "2", "--dataset", spec]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("has no training nodes", done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def test_copies_everything_to_every_gpu_or_nothing(self):
        for num_gpus, rates, is_right, is_copied in (
            (0, (4, 0.5), True, False),
            (1, (4, 0.5), False, False),
            (1, (4, 4), True, False),
            (4, (1, 0.5), True, False),
            (4, (4, 4), True, True),
            (4, (8, 4), True, True),
            (4, (2, 2), False, False),
            (4, (4, 1), False, False),
        ):
            with self.subTest(num_gpus=num_gpus, rates=rates):
                self.assertEqual(bench.error_in_rates(rates, num_gpus) is None, is_right)
                if is_right:
                    options = argparse.Namespace(feat_cache_rate=rates[0], graph_cache_rate=rates[1])
                    self.assertEqual(bench.wants_copies(options, num_gpus), is_copied)

    def test_refuses_to_be_started_by_mpirun(self):
        with unittest.mock.patch.dict(os.environ, OMPI_COMM_WORLD_SIZE="2"), unittest.mock.patch.object(sys, "argv", ["bench.py"]):
            with self.assertRaisesRegex(SystemExit, "or by torchrun"):
                bench.main()

    def test_makes_rewired_copies(self):
        sources, targets = torch.tensor([0, 1, 1]), torch.tensor([1, 2, 0])
        new_sources, new_targets = bench_data.rewired(sources, targets, 3, 4, seed=1)
        self.assertTrue(torch.equal(new_sources[:3] % 3, sources) and torch.equal(new_targets[:3] % 3, targets))
        joined = set(zip(new_sources[3:].tolist(), new_targets[3:].tolist()))
        self.assertEqual(joined, {(a, b) for a in range(12) for b in range(12) if a != b and a % 3 == b % 3})
        indptr, order = bench_data.lists_of(torch.tensor([1, 0, 1]), 3)
        self.assertEqual((indptr.tolist(), order.tolist()), ([0, 1, 3, 3], [1, 0, 2]))

    def test_needs_a_group(self):
        use = (
            "import strata.dgs, torch\n"
            "assert torch.ops.dgs_ops._CAPI_get_current_allocated() == 0\n"
            "try:\n"
            "    strata.dgs.ChunkTensor([3], torch.int64, 8)\n"
            "except ValueError as error:\n"
            "    print(error)\n"
            "strata.dgs.create_communicator()\n"
            "tensor = strata.dgs.ChunkTensor(dtype=torch.int64, shape=[3], capacity_per_gpu=0)\n"
            "tensor._CAPI_load_from_tensor(torch.arange(3))\n"
            "print(tensor._CAPI_get_host_tensor().tolist())\n"
        )
        done = subprocess.run([sys.executable, "-c", use], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("this process is in no group of ranks", done.stdout)
        self.assertIn("[0, 1, 2]", done.stdout)

    def test_lets_the_threads_of_a_group_end(self):
        of_torch = (
            "import os, strata.dgs\n"
            "os.environ.update(RANK='0', WORLD_SIZE='1', MASTER_ADDR='127.0.0.1', MASTER_PORT='0')\n"
            "torch.distributed.init_process_group('gloo')\n"
        )
        of_strata = "import strata\nstrata.init_process_group('gloo')\n"
        for begin in (of_torch, of_strata):
            use = (
                f"import pathlib, torch\n{begin}"
                "threads = lambda: sum(p.read_text() == 'pt_gloo_runloop\\n' for p in pathlib.Path('/proc/self/task').glob('*/comm'))\n"
                "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))\n"
                "print(threads() > 0)\n"
                "del model\n"
                "torch.distributed.destroy_process_group()\n"
                "print(threads())\n"
            )
            done = subprocess.run([sys.executable, "-c", use], capture_output=True, text=True, timeout=120)
            self.assertEqual(done.stdout, "True\n0\n", done.stderr)

    def test_is_loaded_by_its_path(self):
        for loader in ("torch.ops.load_library", "torch.classes.load_library"):
            library = pathlib.Path(importlib.util.find_spec("strata").origin).with_name("libdgs.so")
            use = (
                f"import torch; {loader}({str(library)!r})\n"
                "import sys; assert 'strata' not in sys.modules\n"
                "torch.ops.dgs_ops._CAPI_set_nccl(1, torch.ops.dgs_ops._CAPI_get_unique_id(), 0)\n"
                "print(torch.classes.dgs_classes.ChunkTensor([2], torch.int64, capacity_per_gpu=0)._CAPI_get_host_tensor().tolist())\n"
            )
            done = subprocess.run([sys.executable, "-c", use], capture_output=True, text=True, timeout=120)
            self.assertEqual((done.returncode, done.stdout), (0, "[0, 0]\n"), done.stderr)

    def test_prints_the_demo(self):
        for ranks in RANKS:
            gpus = min(ranks, torch.cuda.device_count())
            expected = []
            for rank in range(ranks):
                own = torch.arange(25) + 25 * (rank % gpus) if gpus else torch.arange(0)
                device = f"{own}"[:-1] + (f", device='cuda:{rank % gpus}')" if gpus else ")")
                if not gpus:
                    device = "tensor([], dtype=torch.int64)"
                expected += [
                    f"[rank={rank}] Print HostTensor in ChunkTensor:",
                    *str(torch.arange(25 * gpus, 100)).splitlines(),
                    f"[rank={rank}] Print DeviceTensor in ChunkTensor:",
                    *device.splitlines(),
                ]
            out = self.run_ranks(ranks, EXAMPLES / "demo.py")
            first = [f"[rank={rank}] Create ChunkTensor" for rank in range(ranks)] + ["[rank=0] Load data"]
            lines = out.split("\n")
            self.assertEqual(sorted(lines[: ranks + 1]), sorted(first))
            self.assertEqual("\n".join(lines[ranks + 1 :]), "\n".join(expected) + "\n")
            if ranks == 1:
                self.assertEqual(lines[:2], first)


if __name__ == "__main__":
    unittest.main()
