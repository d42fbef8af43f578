# SPDX-License-Identifier: Apache-2.0
"""examples/python/dgl_tutorial.py: the same lines under every launcher, a model that learns, and the scores of strata-train."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch

import strata.dgl  # noqa: F401  (the tutorial's; a missing one is told here)
from strata.nn import SAGEConv

ROOT = pathlib.Path(__file__).resolve().parents[4]
BIN = pathlib.Path(os.environ.get("STRATA_BIN", ROOT / "build/cuda/bin"))
SCRIPT = ROOT / "examples/python/dgl_tutorial.py"
BENCHMARK = ROOT / "benchmarks/dgs/tutorial.py"
GRAPH = "synthetic:kind=sbm,nodes=6000,degree=12,features=16,classes=5,train=3000,valid=1000,test=1000,noise=2,seed=3"


class Tutorial(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="strata-python-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_command(self, *command):
        done = subprocess.run(
            list(map(str, command)),
            capture_output=True,
            text=True,
            timeout=240,
            cwd=self.folder,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def lines(self, *command):
        return [line for line in self.run_command(*command).split("\n") if line.startswith("Epoch ")]

    def options(self, epochs):
        return ["--graph", GRAPH, "--device", "cpu", "--batch-size", 100, "--epochs", epochs]

    def test_prints_the_same_under_every_launcher(self):
        options = [*self.options(2), "--batch-size", 50, "--layers", "strata"]
        by_hand = self.lines(sys.executable, SCRIPT, *options, "--spawn", 4)
        steps = [(0, 0), (0, 10), "0", (1, 0), (1, 10), "1"]
        self.assertEqual(len(by_hand), len(steps))
        for line, step in zip(by_hand, steps):
            known = f"Epoch {step} Validation Accuracy " if isinstance(step, str) else "Epoch {:05d} Step {:05d} Loss ".format(*step)
            self.assertRegex(line, "^" + known + r"\d\.\d+$")
        model = torch.load(self.folder / "model.pt")
        self.assertEqual(model["layers.0.lin_l.weight"].shape, (128, 16))
        self.assertEqual(model["layers.2.lin_l.weight"].shape, (5, 128))
        SAGEConv(128, 5).load_state_dict({name[9:]: value for name, value in model.items() if name.startswith("layers.2.")})
        mpirun = ["mpirun", "-n", 4, "--oversubscribe", "--bind-to", "none", sys.executable]
        self.assertEqual(self.lines(*mpirun, SCRIPT, *options), by_hand)
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", 4]
        self.assertEqual(self.lines(*torchrun, SCRIPT, *options), by_hand)

    def test_refuses_what_cannot_be_trained(self):
        for options, words in (
            (["--epochs", "0"], "'0' is not a number of at least 1"),
            (["--spawn", "-2"], "'-2' is not a number of at least 1"),
            (["--output", "nowhere/model.pt"], "there is no folder"),
            (["--graph", GRAPH.replace("train=3000", "train=0")], "the split 'train' has fewer nodes"),
            (["--graph", GRAPH.replace("valid=1000", "valid=0")], "the split 'valid' has fewer nodes"),
        ):
            with self.subTest(options=options):
                command = [sys.executable, SCRIPT, *self.options(2), "--layers", "strata", *options]
                done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, cwd=self.folder)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(words, done.stderr)
                self.assertFalse((self.folder / "model.pt").exists())

    def test_scores_as_strata_train_does(self):
        found = self.lines(sys.executable, SCRIPT, *self.options(4), "--layers", "pyg")
        config = ROOT / "examples/dgl_tutorial.toml"
        self.run_command(BIN / "strata-train", "--config", config, *self.options(4), "--output", self.folder / "run")
        records = map(json.loads, (self.folder / "run/metrics.jsonl").read_text().splitlines())
        scores = [record["valid"]["accuracy"] for record in records if record["type"] == "evaluation"]
        scores = [scores[3], float(found[-1].split()[-1])]
        self.assertGreater(min(scores), 0.5)  # of 5 classes
        self.assertLess(max(scores) - min(scores), 0.05, scores)

    def test_the_benchmark(self):
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", 2]
        for ranks, command, layers in ((1, [sys.executable], ["pyg"]), (2, torchrun, ["pyg", "strata"])):
            with self.subTest(ranks=ranks):
                options = [*self.options(3), "--layers", *layers, "--cores", ranks, "--workers", 0, 1, "--json", "rows.json"]
                lines = self.run_command(*command, BENCHMARK, *options).splitlines()
                found = json.loads((self.folder / "rows.json").read_text())
                self.assertEqual(found["setup"]["ranks"], ranks)
                cases = [f"Strata, layers of {kind}" for kind in layers]
                if found["times_as_fast"] is None:
                    self.assertRegex(lines[-1], "^PyG's loader is not installed: .*pyg-lib or torch-sparse")
                else:
                    cases += [f"PyG, features on the CPU, {workers} workers" for workers in (0, 1)]
                    self.assertEqual(lines[-1], f"Strata is {found['times_as_fast']:.2f} times as fast")
                self.assertEqual([row["case"] for row in found["rows"]], cases)
                for row, line in zip(found["rows"], lines[2:]):
                    self.assertRegex(line, rf"^{row['case']} +\d")
                    self.assertEqual(len(row["epochs"]), 3)
                    self.assertLess(row["last_loss"], 1.6)  # less than ln 5: each way learns


if __name__ == "__main__":
    unittest.main()
