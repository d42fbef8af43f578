# SPDX-License-Identifier: Apache-2.0
"""Models of the user's own: trained by strata.fit(), and computed for all nodes by strata.inference()."""

import importlib.util
import json
import pathlib
import tempfile
import unittest

import fit_of_rank
import torch
import torch_geometric.nn as pyg
from test_launch import HERE, mpirun, torchrun
from torch_geometric.data import Data

import strata
import strata.nn


def data_of(nodes=300, edges=2500, seed=0):
    generator = torch.Generator().manual_seed(seed)
    sources = torch.randint(nodes, (edges,), generator=generator)
    targets = (sources + 3 * torch.randint(1, nodes // 3, (edges,), generator=generator)) % nodes  # of the same class
    ends = torch.cat([torch.stack([sources, targets]), torch.arange(40).expand(2, -1)], dim=1)  # 40 nodes have a loop, of which PyG takes one
    y = torch.arange(nodes) % 3
    x = torch.randn(nodes, 7, generator=generator) + 2 * torch.nn.functional.one_hot(y, 7)
    part = torch.arange(nodes) % 5
    masks = {"train_mask": part < 3, "val_mask": part == 3, "test_mask": part == 4}
    return Data(x=x, y=y, edge_index=ends, edge_weight=torch.rand(ends.shape[1], generator=generator), **masks)


class WithResidual(torch.nn.Module):
    """Layers of PyG or strata.nn, with code of its own between them."""

    def __init__(self, nn):
        super().__init__()
        self.first = torch.nn.Linear(7, 16)
        self.convs = torch.nn.ModuleList([nn.SAGEConv(16, 16), nn.GCNConv(16, 16), nn.GATConv(16, 3)])

    def forward(self, x, edge_index):
        x = start = self.first(x)
        for conv in self.convs[:2]:
            x = torch.nn.functional.dropout(conv(x, edge_index).relu(), training=self.training) + start
        return self.convs[2](x, edge_index)


class OnBlocksOfPyg(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = torch.nn.ModuleList([pyg.SAGEConv(7, 16), pyg.SAGEConv(16, 3)])

    def forward(self, x, blocks):
        for conv, block in zip(self.convs, blocks):
            x = conv((x, x[: block.num_dst]), block.edge_index, size=block.size).tanh()
        return x

    def of_all(self, x, edge_index):
        for conv in self.convs:
            x = conv(x, edge_index).tanh()
        return x


class UsesEdgesItself(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = pyg.SAGEConv(7, 7)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index).index_add(0, edge_index[1], x[edge_index[0]])


class Inference(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.manual_seed(3)
        torch.backends.cudnn.allow_tf32 = False  # in which a GPU computes an LSTM otherwise
        cls.data = data_of()
        cls.graph = strata.from_pyg(cls.data)
        cls.addClassCleanup(cls.graph.close)

    def compare(self, model, *values, of_all=None):
        found = strata.inference(model, self.graph, batch_size=70)
        self.assertTrue(model.training)
        model.cpu().eval()
        with torch.no_grad():
            expected = (of_all or model)(self.data.x, self.data.edge_index, *values)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)

    def test_is_the_model_on_the_whole_graph(self):
        degrees = torch.bincount(torch.bincount(self.data.edge_index[1], minlength=300))
        pna = {"aggregators": ["mean", "max", "std"], "scalers": ["identity", "amplification"], "deg": degrees}
        weights = (self.data.edge_weight,)
        for name, model, values in (
            ("GraphSAGE", pyg.GraphSAGE(7, 16, 3, 5, dropout=0.5), ()),
            ("BatchNorm", pyg.GraphSAGE(7, 16, 3, 5, norm="batch_norm", act="elu", act_first=True), ()),
            ("jk cat", pyg.GraphSAGE(7, 16, 3, 5, jk="cat"), ()),
            ("jk lstm", pyg.GIN(7, 16, 2, 5, jk="lstm"), ()),
            ("GCN", pyg.GCN(7, 16, 3, 5, improved=True), weights),
            ("GCN without loops", pyg.GCN(7, 16, 2, 5, add_self_loops=False), weights),
            ("GAT", pyg.GAT(7, 16, 3, 5, heads=4), ()),
            ("GIN", pyg.GIN(7, 16, 3, 5), ()),
            ("PNA", pyg.PNA(7, 16, 2, 5, **pna), ()),
            ("one layer", pyg.SAGEConv(7, 5), ()),
            ("own, of PyG", WithResidual(pyg), ()),
            ("own, of strata.nn", WithResidual(strata.nn), ()),
        ):
            with self.subTest(name):
                self.compare(model, *values)
        on_blocks = OnBlocksOfPyg()
        self.compare(on_blocks, of_all=on_blocks.of_all)

    def test_takes_objects_of_pyg(self):
        model = pyg.GraphSAGE(7, 8, 2, 3)
        torch.testing.assert_close(strata.inference(model, self.data), strata.inference(model, self.graph))

    def test_refuses_what_cannot_be_computed_by_layers(self):
        for model, words in (
            (pyg.ChebConv(7, 5, 3), "ChebConv looks at more than the in-edges"),
            (pyg.Sequential("x, edge_index", [(pyg.SGConv(7, 5, 2), "x, edge_index -> x")]), "SGConv, looks at more"),
            (pyg.GraphSAGE(7, 8, 2, 3, norm="graph_norm"), "mixes the rows"),
            (UsesEdgesItself(), "uses the edges by itself"),
            (pyg.MLP([7, 8, 5]), "neither edge_index nor blocks"),
        ):
            with self.subTest(type(model).__name__), self.assertRaisesRegex(strata.InputError, words):
                strata.inference(model, self.graph, batch_size=70)
        with self.assertRaisesRegex(strata.InputError, "no layer of the model is called with the edges"):
            strata.inference(pyg.MLP([7, 8, 5]), self.graph, batches="merged")
        with self.assertRaisesRegex(TypeError, "give a torch.nn.Module"):
            strata.inference("sage", self.graph)


class Fit(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="strata-python-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        torch.manual_seed(1)

    def fit(self, model, data, name="run", **options):
        given = {"fanouts": [5, 5], "epochs": 3, "batch_size": 60, "lr": 0.01, "output": self.folder / name} | options
        return strata.fit(model, data, **{key: value for key, value in given.items() if value is not None})

    def test_trains_models_of_either_form_and_restores_the_best(self):
        data = data_of()
        for name, model in (("pyg", pyg.GraphSAGE(7, 16, 2, 3)), ("own", WithResidual(strata.nn)), ("blocks", OnBlocksOfPyg())):
            with self.subTest(name):
                result = self.fit(model, data, name, epochs=8, fanouts=[5] * (3 if name == "own" else 2))
                losses = [record["loss"] for record in result.records_of("epoch")]
                self.assertLess(losses[-1], 0.8 * losses[0])
                self.assertGreater(result.test.accuracy, 0.5)
                scores = [record["valid"]["accuracy"] for record in result.records_of("evaluation")]
                self.assertEqual((result.best_epoch, result.epochs), (1 + scores.index(max(scores)), 8))
                self.assertEqual(result.valid.accuracy, max(scores))
                exact = strata.inference(model, data)[data.test_mask].argmax(1)
                self.assertAlmostEqual(float((exact == data.y[data.test_mask]).float().mean()), result.test.accuracy, places=6)

    def test_writes_a_folder_that_reports_and_safetensors_read(self):
        from safetensors.torch import load_file

        model = pyg.GraphSAGE(7, 16, 2, 3)
        result = self.fit(model, data_of(), eval_fanouts=[5, 5])
        weights = load_file(result.folder / "model.safetensors")
        for name, value in model.state_dict().items():
            torch.testing.assert_close(weights[name], value.cpu(), rtol=0, atol=0)
        lines = [json.loads(line) for line in (result.folder / "metrics.jsonl").read_text().splitlines()]
        kinds = ["run"] + 3 * ["epoch", "evaluation"] + ["final"]
        self.assertEqual([line["type"] for line in lines if line["type"] != "classes"], kinds)
        if importlib.util.find_spec("plotly"):
            self.assertIn("GraphSAGE", strata.report(result.folder)._repr_html_())
        self.assertEqual(sorted(path.name for path in result.folder.iterdir()), ["checkpoint.pt", "metrics.jsonl", "model.safetensors"])

    def test_goes_on_as_if_it_had_not_ended(self):
        data = data_of()
        torch.manual_seed(5)
        hops = {"fanouts": [5, 5, 5]}  # layers of strata.nn, whose sums are the same on a GPU, too
        whole = self.fit(WithResidual(strata.nn), data, "whole", epochs=4, **hops)
        torch.manual_seed(5)
        self.fit(WithResidual(strata.nn), data, "part", epochs=2, **hops)
        rest = self.fit(WithResidual(strata.nn), data, epochs=4, output=None, resume=self.folder / "part", **hops)
        for kind in "epoch", "evaluation":
            values = [[record.get("loss", record.get("valid")) for record in run.records_of(kind)] for run in (whole, rest)]
            self.assertEqual(*values)
        with self.assertRaisesRegex(strata.InputError, "seed is 7, and was 0"):
            self.fit(WithResidual(strata.nn), data, output=None, resume=self.folder / "part", seed=7, **hops)

    def test_stops_where_it_is_told_to(self):
        seen = []

        def on_epoch(record):
            seen.append((record["epoch"], "valid" in record))
            return "stop" if record["epoch"] == 2 else None

        result = self.fit(OnBlocksOfPyg(), data_of(), epochs=9, eval_every=0, on_epoch=on_epoch)
        self.assertEqual((seen, result.epochs, result.best_epoch), ([(1, False), (2, False)], 2, 2))
        result = self.fit(OnBlocksOfPyg(), data_of(), "patience", epochs=50, patience=1, lr=1e-9)
        self.assertLess(result.epochs, 50)

    def test_takes_sets_of_classes_targets_and_losses_of_ones_own(self):
        data = data_of()
        sets = data.clone()
        sets.y = torch.nn.functional.one_hot(data.y, 3).float()
        result = self.fit(pyg.GraphSAGE(7, 16, 2, 3), sets, "sets", epochs=8)
        self.assertGreater(result.test.macro_f1, 0.5)
        targets = data.clone()
        targets.y = data.x[:, :1] * 0.5 + 0.25
        with self.assertRaisesRegex(strata.InputError, "numbers that are no classes.*\n.*mse_loss"):
            self.fit(pyg.GraphSAGE(7, 16, 2, 1), targets, "targets")
        losses = []
        for name, loss in (("mean", lambda out, y: (out - y.view(-1, 1)).square().mean()), ("rows", lambda out, y: (out - y.view(-1, 1)).square())):
            torch.manual_seed(2)
            result = self.fit(pyg.GraphSAGE(7, 16, 2, 1), targets, name, loss=loss, metric="loss", epochs=5)
            losses.append([record["loss"] for record in result.records_of("epoch")])
        self.assertLess(losses[0][-1], losses[0][0])
        torch.testing.assert_close(*map(torch.tensor, losses), rtol=1e-5, atol=0)

    def test_samples_for_evaluation_where_a_model_cannot_be_computed_by_layers(self):
        with self.assertWarnsRegex(UserWarning, "evaluation samples neighbors.*mixes the rows"):
            result = self.fit(pyg.GraphSAGE(7, 16, 2, 3, norm="graph_norm"), data_of(), epochs=1)
        self.assertEqual(result.valid.nodes, 60)

    def test_refuses_what_it_cannot_train(self):
        data, model = data_of(), pyg.GraphSAGE(7, 16, 2, 3)
        without = data.clone()
        del without.train_mask
        for words, options in (
            (r"the model gives \[60, 5\] for 60 seeds of 3 classes", {"model": pyg.GraphSAGE(7, 16, 2, 5)}),
            (r"the model gives \[\d+, 3\] for 60 seeds\n.*last block", {"model": OnBlocksOfPyg(), "fanouts": [5, 5, 5]}),
            ("no training nodes", {"data": without}),
            ("metric is 'auc'", {"metric": "auc"}),
            ("batches='block' is not possible", {"batches": "block"}),
            ("none of the model's parameters", {"optimizer": torch.optim.SGD(pyg.SAGEConv(3, 3).parameters())}),
            *([] if torch.cuda.is_available() else [("steps are recorded on GPUs only", {"recorded": True})]),
            ("no checkpoint of strata.fit", {"resume": self.folder}),
            ("epochs is 0", {"epochs": 0}),
        ):
            with self.subTest(words), self.assertRaisesRegex(strata.InputError, words):
                self.fit(options.pop("model", model), options.pop("data", data), **options)
        self.fit(model, data, epochs=1)
        with self.assertRaisesRegex(strata.InputError, "has a run already"):
            self.fit(model, data)
        for words, options in (("give a function", {"loss": "mse"}), ("return None to go on", {"on_epoch": lambda record: True, "overwrite": True})):
            with self.subTest(words), self.assertRaisesRegex(TypeError, words):
                self.fit(model, data, **options)

    @unittest.skipUnless(torch.cuda.is_available(), "needs a GPU")
    def test_records_its_steps_on_a_gpu(self):
        data = data_of(nodes=3000, edges=25000)
        for name, make in (("pyg", lambda: pyg.GraphSAGE(7, 16, 2, 3)), ("blocks", OnBlocksOfPyg)):
            losses = []
            for recorded in True, False:
                torch.manual_seed(1)
                result = self.fit(make(), data, f"{name} {recorded}", recorded=recorded)
                losses.append(torch.tensor([record["loss"] for record in result.records_of("epoch")]))
            torch.testing.assert_close(*losses, rtol=1e-3, atol=1e-3)
        with self.assertWarnsRegex(UserWarning, "steps are not recorded: the step cannot be recorded as a CUDA graph"):
            self.fit(pyg.GCN(7, 16, 2, 3), data, "loops")
        for words, model in ("the step cannot be recorded", pyg.GCN(7, 16, 2, 3)), ("BatchNorm", pyg.GraphSAGE(7, 16, 2, 3, norm="batch_norm")):
            with self.assertRaisesRegex(strata.InputError, f"steps cannot be recorded: .*{words}|{words}"):
                self.fit(model, data, f"refused {words}", recorded=True)

    def test_says_how_to_go_on_after_control_c(self):
        def on_epoch(record):
            if record["epoch"] == 2:
                raise KeyboardInterrupt

        with self.assertRaisesRegex(KeyboardInterrupt, r"after epoch 2: strata.fit\(model, data, ..., resume='.*run'\) continues"):
            self.fit(OnBlocksOfPyg(), data_of(), on_epoch=on_epoch)

    def test_gives_the_same_on_any_number_of_ranks_and_machines_whoever_starts_them(self):
        parts = self.folder / "parts"
        spec = "synthetic:kind=sbm,nodes=2000,degree=10,features=8,classes=4,train=600,valid=200,test=200,seed=2"
        strata.partition(spec, parts=3, output=parts, progress=False)
        expected = fit_of_rank.found_in(parts, self.folder)
        for start, ranks_per_machine, machines in ((mpirun, 1, 2), (torchrun, 0, 1)):
            folder = self.folder / start.__name__
            folder.mkdir()
            done = start(2, HERE / "fit_of_rank.py", parts, folder, ranks_per_machine)
            self.assertEqual(done.returncode, 0, done.stderr)
            for rank in range(2):
                found = json.loads((folder / f"rank{rank}.json").read_text())
                self.assertEqual(found.pop("machines"), machines)
                for name, values in found.items():
                    for what, value in values.items():
                        with self.subTest(start=start.__name__, rank=rank, model=name, what=what):
                            torch.testing.assert_close(torch.tensor(value), torch.tensor(expected[name][what]), rtol=1e-3, atol=1e-3)


if __name__ == "__main__":
    unittest.main()
