# SPDX-License-Identifier: Apache-2.0
"""examples/python/pytorch_direct.py: its lines, a model that learns, one result for every way to load, and what it refuses."""

import contextlib
import importlib.util
import io
import os
import pathlib
import re
import subprocess
import sys
import types
import unittest
import unittest.mock

import numpy
import torch

import strata

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "examples/python/pytorch_direct.py"
GRAPH = "synthetic:kind=sbm,nodes=6000,degree=12,features=16,classes=5,train=3000,valid=1000,test=1000,noise=2,seed=3"

STEP = (
    r"Epoch (\d{5}) \| Step (\d{5}) \| Loss \d+\.\d{4} \| Train Acc [01]\.\d{4} \| "
    r"Speed \(samples/sec\) \d+\.\d{4} \| GPU \d+\.\d MB"
)
SCORE = r"(Eval Acc|Test Acc:) ([01]\.\d{4})"


def load_script():
    spec = importlib.util.spec_from_file_location("pytorch_direct", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


OPTIONS = ["--graph", GRAPH, "--gpu", "-1"]
script = load_script()


def start(*options):
    """In a process of its own, which takes five seconds to import what it needs."""
    return subprocess.run(
        [sys.executable, SCRIPT, *OPTIONS, *map(str, options)],
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def call(*options):
    """The same within this process, on whatever device it computes."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        unittest.mock.patch.object(sys, "argv", [str(SCRIPT), *OPTIONS, *map(str, options)]),
        unittest.mock.patch.object(strata, "init"),  # which a process may call once
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            script.main()
        except SystemExit as exit:
            code = exit.code
    return subprocess.CompletedProcess(options, code, out.getvalue(), err.getvalue())


on_cpu = start if torch.cuda.is_available() else call


class Lines(unittest.TestCase):
    def lines(self, *options, run=on_cpu):
        done = run("--batch-size", 500, "--log-every", 3, *options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout.splitlines()

    def test_are_those_of_the_example_and_the_model_learns(self):
        lines = self.lines("--num-epochs", 7, "--num-hidden", 32, "--lr", 0.01, run=start)
        wanted = []
        for epoch in range(7):
            wanted += [STEP, STEP, r"Epoch Time\(s\): \d+\.\d{4}"] + ([SCORE, SCORE] if epoch == 5 else [])
        wanted.append(r"Avg epoch time: \d+\.\d+(e-\d+)?")
        self.assertEqual(len(lines), len(wanted), lines)
        for line, pattern in zip(lines, wanted):
            self.assertRegex(line, f"^{pattern}$")
        steps = [tuple(map(int, found.groups())) for line in lines if (found := re.match(STEP, line))]
        self.assertEqual(steps, [(epoch, step) for epoch in range(7) for step in (0, 3)])
        scores = [re.match(SCORE, line) for line in lines if "Acc" in line and "Step" not in line]
        self.assertEqual([score[1] for score in scores], ["Eval Acc", "Test Acc:"])
        self.assertGreater(min(float(score[2]) for score in scores), 0.5, lines)  # of 5 classes

    def test_tell_the_same_numbers_however_batches_are_loaded(self):
        def numbers(*options, run=on_cpu):
            lines = self.lines("--num-epochs", 3, "--eval-every", 1, "--dropout", 0.2, *options, run=run)
            return [re.sub(r"Speed.*", "", line) for line in lines if "Acc" in line]

        known = numbers()
        self.assertEqual(len(known), 3 * 2 + 2 * 2)
        self.assertEqual(numbers("--data-cpu"), known)
        with unittest.mock.patch.dict(os.environ, STRATA_MPS_SHARES="0,100"):  # which no one reads where --mps is given
            self.assertEqual(numbers("--mps", "50,50", run=start), known)
        inductive = numbers("--inductive")
        self.assertNotEqual(inductive, known)
        self.assertEqual(numbers("--inductive", "--mps", "30,100", run=start), inductive)

    @unittest.skipUnless(torch.cuda.is_available() and strata.with_cuda, "no GPU")
    def test_loads_on_sms_of_its_own(self):
        def losses(*options):
            lines = self.lines("--gpu", 0, "--num-epochs", 2, "--data-cpu", *options, run=start)
            return [float(re.search(r"Loss (\S+)", line)[1]) for line in lines if "Step" in line]

        known = losses()
        self.assertEqual(len(known), 4)
        for shares in ("20,80", "100,50"):
            for loss, expected in zip(losses("--mps", shares), known, strict=True):
                self.assertAlmostEqual(loss, expected, delta=2e-3)

    def test_refuses_what_cannot_be(self):
        for options, message in (
            (["--mps", "10"], "is not LOAD,TRAIN in percent"),
            (["--mps", "0,100"], "is not LOAD,TRAIN in percent"),
            (["--gpu", 4096], "--gpu 4096: this host has"),
            (["--fan-out", "10,25,5"], "--fan-out has 3 entries for --num-layers 2"),
            (["--fan-out", "ten,5"], "give numbers of neighbors"),
            (["--batch-size", 0], "is not a number of at least 1"),
            (["--dropout", 1], "give a probability below 1"),
        ):
            with self.subTest(options=options):
                done = call(*options)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(message, done.stderr)

    def test_takes_the_shares_of_with_mps(self):
        with unittest.mock.patch.dict(os.environ, STRATA_MPS_SHARES="0,100"):
            done = call("--num-epochs", 1)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("is not LOAD,TRAIN in percent", done.stderr)

    def test_say_what_has_no_effect_without_a_gpu(self):
        done = on_cpu("--num-epochs", 1, "--data-cpu", "--num-workers", 4)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("--data-cpu changes nothing here", done.stderr)
        self.assertIn("num_workers has no effect", done.stderr)


class Parts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.data = script.read(GRAPH)

    def options(self, **values):
        return types.SimpleNamespace(inductive=True, data_cpu=False, fan_out="10,25", batch_size=500, num_workers=0, **values)

    def edges(self, data, ids):
        return sorted(map(tuple, ids[data.edge_index.numpy()].T.tolist()))

    def test_read_gives_the_graph(self):
        with strata.load(GRAPH) as graph:
            self.assertEqual(self.data.edge_index.shape, (2, graph.num_edges))
            ids = torch.arange(graph.num_nodes)
            self.assertTrue(torch.equal(self.data.features, graph.features[ids].cpu()))
            self.assertTrue(torch.equal(self.data.labels, graph.labels[ids].cpu()))
            counts = graph.in_edges(ids).counts
        self.assertEqual(self.data.edge_index[1].bincount(minlength=len(counts)).tolist(), counts.tolist())

    def test_the_induced_subgraph_has_the_edges_among_its_nodes(self):
        for splits in (["train"], ["train", "valid"]):
            found = script.induced(self.data, *splits)
            nodes = numpy.unique(numpy.concatenate([self.data.splits[split].numpy() for split in splits]))
            inside = numpy.isin(self.data.edge_index.numpy(), nodes).all(axis=0)
            wanted = sorted(map(tuple, self.data.edge_index.numpy()[:, inside].T.tolist()))
            self.assertGreater(len(wanted), 0)
            self.assertLess(len(wanted), self.data.edge_index.shape[1])
            self.assertEqual(self.edges(found, nodes), wanted)
            self.assertTrue(torch.equal(found.features, self.data.features[nodes]))
            self.assertTrue(torch.equal(found.labels, self.data.labels[nodes]))
            for split in splits:
                self.assertEqual(sorted(nodes[found.splits[split]]), sorted(self.data.splits[split].tolist()))

    def test_an_inductive_batch_has_the_rows_of_training_nodes_only(self):
        part = script.training_part(self.data, self.options())
        rows_of_training = {row.tobytes() for row in self.data.features[self.data.splits["train"]].numpy()}
        num_rows = 0
        for features, _, _ in script.OwnLoading(part, self.options()):
            num_rows += len(features)
            self.assertTrue(all(row.tobytes() in rows_of_training for row in features.cpu().numpy()))
        self.assertGreater(num_rows, len(rows_of_training))
        part.graph.close()

    def test_splits_without_nodes_are_not_scored(self):
        data = self.data._replace(splits=self.data.splits | {"test": torch.empty(0, dtype=torch.long)})
        scored = script.scored_parts(data, self.options(), None)
        self.assertEqual(list(scored), ["Eval Acc {:.4f}"])

    def test_inference_is_the_model_over_the_whole_graph(self):
        part = script.part_of(self.data, "valid", self.options())
        torch.manual_seed(1)
        model = script.SAGE(16, 24, 5, 2, dropout=0.5).to(strata.process().device).eval()
        with torch.no_grad():
            found = model.inference(part, 700)
            x, edge_index = (tensor.to(strata.process().device) for tensor in (self.data.features, self.data.edge_index))
            for layer in model.layers:
                x = model.finish(layer, layer(x, edge_index))
        torch.testing.assert_close(found, x.cpu(), rtol=1e-4, atol=1e-5)
        scored = (found[part.nodes].argmax(1) == self.data.labels[part.nodes]).float().mean().item()
        self.assertAlmostEqual(script.evaluate(model, part, 700), scored, places=3)
        part.graph.close()


if __name__ == "__main__":
    unittest.main()
