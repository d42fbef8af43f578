# SPDX-License-Identifier: Apache-2.0
"""strata.train() is strata-train in one call: the same run on the same ranks."""

import inspect
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

import torch
from safetensors.torch import load_file
from torch_geometric.nn import GraphSAGE

import strata
from test_launch import BIN, HERE, mpirun, torchrun

SPEC = "synthetic:kind=sbm,nodes=2000,degree=10,features=6,classes=4,train=600,valid=100,test=100,seed=2"
COMMON = {"model": "sage", "fanouts": [5, 3], "hidden": 16, "batch_size": 50, "epochs": 2, "lr": 0.01}


def words_of(options):
    """The options as words of a command line."""
    words = []
    for name, value in options.items():
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        words += [f"--{name.replace('_', '-')}", text]
    return words


class Train(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="strata-python-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def program(self, ranks, parts, *words):
        """Epoch losses, and the test accuracy."""
        run = self.folder / f"program-{ranks}"
        command = ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none", str(BIN / "strata-train")]
        command += ["--graph", str(parts), "--output", str(run), "--device", "cpu", *words_of(COMMON), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180)
        self.assertEqual(done.returncode, 0, done.stderr)
        records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        return [record["loss"] for record in records if record["type"] == "epoch"], records[-1]["test"]["accuracy"]

    def train(self, **options):
        return strata.train(**({"graph": SPEC, "output": self.folder / "run", "device": "cpu"} | COMMON | options))

    def test_gives_the_losses_of_the_program_on_any_ranks(self):
        parts = strata.partition(SPEC, parts=2, output=self.folder / "parts")["path"]
        for ranks, ranks_per_machine, start in ((1, 0, mpirun), (2, 0, mpirun), (2, 1, torchrun)):
            with self.subTest(ranks=ranks, ranks_per_machine=ranks_per_machine, start=start.__name__):
                losses, accuracy = self.program(ranks, parts, "--overwrite", "--ranks-per-machine", str(ranks_per_machine))
                folder = self.folder / f"{start.__name__}-{ranks}"
                folder.mkdir()
                done = start(ranks, HERE / "train_of_rank.py", parts, folder, ranks_per_machine)
                self.assertEqual(done.returncode, 0, done.stderr)
                told = [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(ranks)]
                self.assertEqual(told[0]["losses"], losses)
                self.assertEqual(told[0]["test"], accuracy)
                self.assertEqual(told[0]["machines"], 2 if ranks_per_machine else 1)
                for other in told[1:]:
                    self.assertEqual(other, told[0])

    def test_learns_numbers_of_a_graph_in_memory(self):
        x = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
        y = 2 + 3 * x[:, 0]
        y[295] = torch.nan
        ends = torch.randint(300, (2, 1500), generator=torch.Generator().manual_seed(1))
        graph = {"edge_index": ends, "x": x, "y": y, "train": torch.arange(200), "val": torch.arange(200, 250), "test": torch.arange(250, 300)}
        options = dict(COMMON, epochs=12, lr=0.02, dropout=0.0)
        result = strata.train(graph, loss="mse", output=self.folder / "run", device="cpu", progress="off", **options)
        self.assertGreater(result.test.r2, 0.9)
        self.assertEqual((result.test.nodes, result.test.accuracy != result.test.accuracy), (49, True))
        strata.save(graph, self.folder / "arrays")
        strata.partition(f"npy:{self.folder}/arrays", output=self.folder / "parts", parts=2)
        with strata.load(self.folder / "parts") as parts:
            torch.testing.assert_close(parts.labels[:].cpu(), y[parts.original_ids(torch.arange(300))], equal_nan=True)
            batch = next(iter(strata.NeighborLoader(parts, num_neighbors=[2], input_nodes=parts.nodes("train"), batch_size=8)))
            torch.testing.assert_close(batch.y.cpu(), y[parts.original_ids(batch.n_id[:8].cpu())])

    def test_gives_weights_that_pyg_takes(self):
        result = self.train()
        stored = load_file(result.folder / "model.safetensors")
        self.assertEqual(result.weights.keys(), stored.keys())
        for name, weight in stored.items():
            self.assertTrue(torch.equal(result.weights[name], weight), name)
        model = GraphSAGE(in_channels=6, hidden_channels=16, num_layers=2, out_channels=4)
        model.load_state_dict(result.weights)
        with strata.load(SPEC) as graph:
            nodes = graph.nodes("test")
            (batch,) = strata.NeighborLoader(graph, [-1, -1], nodes, batch_size=len(nodes))
            with torch.no_grad():
                out = model.eval()(batch.x, batch.edge_index)[: batch.batch_size]
            accuracy = float((out.argmax(1) == batch.y).float().mean())
        self.assertAlmostEqual(accuracy, result.test.accuracy, places=6)

    def test_returns_what_the_run_folder_has(self):
        result = self.train(seed=3)
        self.assertEqual(result.folder, self.folder / "run")
        self.assertEqual(result.records, [json.loads(line) for line in (result.folder / "metrics.jsonl").read_text().splitlines()])
        self.assertEqual((result.epochs, result.stopped), (2, False))
        self.assertEqual([record["epoch"] for record in result.records_of("epoch")], [1, 2])
        best = result.records_of("evaluation")[result.best_epoch - 1]
        self.assertEqual(best["valid"]["accuracy"], result.valid.accuracy)
        self.assertEqual(result.records[0]["command"].split("(")[0], "strata.train")
        self.assertIn("strata.TrainResult(valid=", repr(result))

    def test_continues_a_run(self):
        self.train(epochs=1)
        result = strata.train(resume=self.folder / "run", epochs=3)
        self.assertEqual(result.epochs, 3)
        self.assertEqual([record["epoch"] for record in result.records_of("epoch")], [1, 2, 3])
        whole = self.train(epochs=3, output=self.folder / "whole")
        self.assertEqual([r["loss"] for r in result.records_of("epoch")], [r["loss"] for r in whole.records_of("epoch")])

    def test_sees_training_nodes_only_if_inductive(self):
        parts = strata.partition(SPEC, parts=1, output=self.folder / "parts")["path"]
        losses, accuracy = self.program(1, parts, "--inductive")
        result = self.train(graph=parts, inductive=True)
        self.assertEqual([record["loss"] for record in result.records_of("epoch")], losses)
        self.assertEqual(result.test.accuracy, accuracy)
        whole = self.train(graph=parts, inductive=False, output=self.folder / "whole")
        self.assertNotEqual([record["loss"] for record in whole.records_of("epoch")], losses)

    def test_has_the_options_of_the_program_as_arguments(self):
        listed = subprocess.run([BIN / "strata-train", "--help", "all"], capture_output=True, text=True).stdout
        names = [name.replace("-", "_") for name in re.findall(r"^  --([a-z][a-z0-9-]*)", listed, re.MULTILINE)]
        parameters = inspect.signature(strata.train).parameters
        self.assertEqual(list(parameters), ["graph", "on_epoch", *names[1:], "config"])
        self.assertEqual((parameters["hidden"].default, parameters["fanouts"].default), (256, [15, 10, 5]))
        for name in names[1:]:
            self.assertIn(f"\n        {name}: ", strata.train.__doc__)

    def test_has_their_types_and_help_from_the_table(self):
        generator = HERE.parents[1] / "python/bindings/train_options.py"
        done = subprocess.run([sys.executable, generator], capture_output=True, text=True)
        written = (pathlib.Path(strata.__file__).parent / "_train_options.py").read_text()
        self.assertEqual(written, done.stdout, f"{done.stderr}\n{generator} > python/strata/_train_options.py writes it anew")

    def test_plans(self):
        parts = strata.partition(SPEC, parts=2, output=self.folder / "parts")["path"]
        planned = strata.plan(graph=parts, cluster="machines=2,gpus=4", **COMMON)
        command = [BIN / "strata-plan", "--graph", parts, "--json", "--cluster", "machines=2,gpus=4", *words_of(COMMON)]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(planned.keys(), json.loads(done.stdout).keys())
        with self.assertRaisesRegex(strata.InputError, "cluster"):
            self.train(cluster="machines=2")

    def test_refuses_as_the_program_does(self):
        for options, words in (
            ({"epoch": 3}, "strata.train() knows no option epoch"),
            ({"learning_rate": 0.1}, "Did you mean lr?"),
            ({"fanouts": "5,3"}, "fanouts"),
            ({"hidden": 1.5}, "hidden"),
            ({"graph": "nowhere"}, "nowhere"),
            ({"lr": -1.0}, "lr"),
            ({"model": "transformer"}, "model"),
            ({"seeds": [0, 1]}, "once with each seed"),
            ({"plan_only": True}, "strata.plan"),
            ({"epoch": 3}, "help(strata.train) lists all options"),
            ({"graph": "npy:mine"}, "mine: no such directory"),
            ({"cuda_graph": "on"}, "cuda_graph on has no effect: no rank computes on a GPU"),
            ({"placement": "replicate"}, "placement replicate has no effect"),
            ({"exchange": "nccl", "graph": "nowhere"}, "exchange nccl is not possible here"),
            ({"row_exchange": "nccl"}, "Did you mean exchange?"),
        ):
            with self.subTest(options=options), self.assertRaises(strata.InputError) as caught:
                self.train(**options)
            self.assertIn(words, str(caught.exception))
            self.assertNotIn(" --", str(caught.exception))
        self.assertFalse((self.folder / "run").exists())
        self.train(epochs=1)
        with self.assertRaisesRegex(strata.InputError, "has a run already"):
            self.train(epochs=1)

    def test_refuses_what_needs_gpus_on_all_ranks_before_the_graph_is_read(self):
        script = self.folder / "refused.py"
        script.write_text(
            textwrap.dedent(
                """
                import strata

                strata.init("cpu", 1)
                for options in {"cuda_graph": "on"}, {"exchange": "nccl"}:
                    try:
                        strata.train(graph="absent", **options)
                    except strata.InputError as error:
                        print(error, flush=True)
                """
            )
        )
        done = mpirun(2, script, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        for words in ("cuda_graph on has no effect", "exchange nccl is not"):
            self.assertEqual(done.stdout.count(words), 2, done.stdout)

    def test_leaves_torch_and_the_terminal_alone(self):
        script = textwrap.dedent(
            f"""
            import sys
            import strata
            assert "torch" not in sys.modules and "strata._train" not in sys.modules
            import torch
            torch.manual_seed(3)
            before = torch.rand(2), torch.get_num_threads(), torch.get_float32_matmul_precision()
            strata.train(graph={SPEC!r}, output={str(self.folder / "quiet")!r}, epochs=1, hidden=8, fanouts=[3], device="cpu", precision="bf16")
            torch.manual_seed(3)
            after = torch.rand(2), torch.get_num_threads(), torch.get_float32_matmul_precision()
            assert torch.equal(before[0], after[0]) and before[1:] == after[1:], (before, after)
            for library in ("libtorch_cpu.so", "libc10.so", "libnccl.so.2", "libcudart.so.13"):
                paths = {{line.split()[-1] for line in open("/proc/self/maps") if line.rstrip().endswith("/" + library)}}
                assert len(paths) <= 1, paths
                assert not paths or "site-packages" in str(paths), paths
            """
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_refuses_another_torch_in_one_line(self):
        script = "import torch\ntorch.__version__ = torch.torch_version.TorchVersion('2.12.0+cpu')\nimport strata\nstrata.train(graph='parts')"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        last = done.stderr.strip().splitlines()[-1]
        self.assertRegex(last, r"InputError: strata was built for torch 2\.\d+\.\d+.*, and this is torch 2\.12\.0.*: pip install torch==2\.\d+\.\d+")

    def test_control_c_stops_it_with_a_checkpoint(self):
        run = self.folder / "stopped"
        script = textwrap.dedent(
            f"""
            import strata
            print("ready", flush=True)
            try:
                strata.train(graph={SPEC!r}, output={str(run)!r}, epochs=100000, device="cpu", fanouts=[5, 3], hidden=16, batch_size=50)
            except KeyboardInterrupt as stop:
                print("interrupted", stop, flush=True)
                raise
            """
        )
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            self.assertEqual(process.stdout.readline(), "ready\n")
            while not (run / "model.safetensors").exists():
                self.assertIsNone(process.poll())
                time.sleep(0.1)
            process.send_signal(signal.SIGINT)
            words = f"stopped with a checkpoint: strata.train(resume={str(run)!r}) continues"
            self.assertEqual(process.stdout.readline(), f"interrupted {words}\n")
            self.assertNotEqual(process.wait(timeout=300), 0)
        records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        self.assertTrue(records[-1]["stopped"])
        self.assertFalse((run / "strata.lock").exists())
        done = strata.train(resume=run, epochs=records[-1]["epochs"] + 1)
        self.assertEqual(done.epochs, records[-1]["epochs"] + 1)

    def test_can_fail_and_be_called_again_without_growth(self):
        def resident():
            return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        for i in range(6):
            with self.assertRaisesRegex(strata.StrataError, "not finite"):
                self.train(graph=SPEC.replace("features=6", "features=600"), lr=1e30, optimizer="sgd", overwrite=True)
            if i == 2:
                early = resident()
        self.assertLess(resident() - early, 30 << 20)
        self.assertEqual(self.train(overwrite=True).epochs, 2)

    def test_an_error_is_that_of_all_ranks(self):
        script = self.folder / "fails.py"
        script.write_text(
            "import strata\n"
            "process = strata.init('cpu')\n"
            "try:\n"
            f"    strata.train(graph={SPEC!r}, hidden=16 if process.rank == 0 else -1)\n"
            "except strata.InputError as error:\n"
            "    print(f'rank {process.rank}: {error.is_echo}', flush=True)\n"
        )
        done = mpirun(2, script, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        for told in ("rank 0: True", "rank 1: False"):
            self.assertIn(told, done.stdout)


if __name__ == "__main__":
    unittest.main()
