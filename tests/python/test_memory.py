# SPDX-License-Identifier: Apache-2.0
"""Graphs in memory: partition(), train(), evaluate() and predict() take what people hold."""

import fcntl
import importlib.util
import json
import os
import pathlib
import tempfile
import unittest

import networkx
import numpy
import scipy.sparse
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.datasets import FakeDataset
from torch_geometric.nn import GraphSAGE

import strata
from strata import _memory
from test_launch import HERE, mpirun, torchrun

OPTIONS = {"model": "sage", "fanouts": [5, 3], "hidden": 16, "batch_size": 50, "epochs": 2, "lr": 0.01, "device": "cpu"}


def make_data(seed=0, nodes=400, edges=3000):
    """A Data without repeated edges, whose labels can be learned."""
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.randperm(nodes * nodes, generator=generator)[:edges]
    y = torch.randint(0, 4, (nodes,), generator=generator)
    place = torch.rand(nodes, generator=generator)
    return Data(
        x=torch.randn(nodes, 8, generator=generator) + 2 * torch.nn.functional.one_hot(y, 8),
        y=y,
        edge_index=torch.stack([pairs // nodes, pairs % nodes]),
        train_mask=place < 0.5,
        val_mask=(place >= 0.5) & (place < 0.7),
        test_mask=place >= 0.7,
    )


def arrays_of(data):
    splits = {"train": data.train_mask, "valid": data.val_mask.nonzero().view(-1), "test": data.test_mask.numpy()}
    return {"edge_index": data.edge_index, "x": data.x.numpy(), "y": data.y.tolist()} | splits


def networkx_of(data):
    graph = networkx.DiGraph()
    for node in range(data.num_nodes):
        split = next((name for name in ("train", "val", "test") if data[f"{name}_mask"][node]), "")
        graph.add_node(f"node {node}", x=data.x[node].tolist(), y=int(data.y[node]), split=split)
    graph.add_edges_from((f"node {a}", f"node {b}") for a, b in data.edge_index.t().tolist())
    return graph


def losses(result):
    return [record["loss"] for record in result.records_of("epoch")]


class Memory(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="strata-python-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.data = make_data()

    def tearDown(self):
        self.assertEqual(list(pathlib.Path("/dev/shm").glob(f"strata-{os.getuid()}-*")), [])

    def train(self, graph, name="run", **options):
        return strata.train(graph, **({"output": self.folder / name} | OPTIONS | options))

    def test_three_lines_give_the_logits_of_the_trained_weights(self):
        self.data.edge_index = torch.cat([self.data.edge_index, self.data.edge_index[:, :500]], dim=1)  # repeated edges count
        result = self.train(self.data, epochs=5, device=None)
        logits = strata.predict(result, self.data)
        self.assertGreater(result.test.accuracy, 0.5)
        model = GraphSAGE(in_channels=8, hidden_channels=16, num_layers=2, out_channels=4)
        model.load_state_dict(result.weights)
        with torch.no_grad():
            wanted = model.eval()(self.data.x, self.data.edge_index)
        self.assertTrue(torch.allclose(logits, wanted, atol=1e-4), (logits - wanted).abs().max())
        mask = self.data.test_mask
        self.assertAlmostEqual(float((logits[mask].argmax(1) == self.data.y[mask]).float().mean()), result.test.accuracy, places=6)
        logits += 1  # it is the caller's

    def test_every_kind_of_graph_trains_alike(self):
        data, arrays = self.data, arrays_of(self.data)
        strata.save(data, self.folder / "saved")
        strata.partition(data, parts=1, output=self.folder / "parts")
        matrix = scipy.sparse.coo_array((numpy.ones(data.num_edges), data.edge_index.numpy()), shape=(data.num_nodes,) * 2).tocsr()
        others = {
            "arrays": arrays,
            "networkx": networkx_of(data),
            "a SciPy matrix": arrays | {"edge_index": matrix},
            "from_pyg": strata.from_pyg(data),
            "from_tensors": strata.from_tensors(**arrays),
            "load npy": strata.load(f"npy:{self.folder / 'saved'}"),
            "npy": f"npy:{self.folder / 'saved'}",
            "load parts": strata.load(self.folder / "parts"),
            "parts": str(self.folder / "parts"),
        }
        if importlib.util.find_spec("dgl"):
            import dgl

            graph = dgl.graph(tuple(data.edge_index), num_nodes=data.num_nodes)
            graph.ndata.update({"feat": data.x, "label": data.y} | {f"{name}_mask": data[f"{name}_mask"] for name in ("train", "val", "test")})
            others["DGL"] = graph
        first = self.train(data)
        logits = strata.predict(first, data)
        for name, graph in others.items():
            with self.subTest(name):
                result = self.train(graph, f"run of {name}")
                self.assertEqual(losses(result), losses(first))
                self.assertTrue(torch.equal(strata.predict(result, graph), logits))
                self.assertEqual(strata.evaluate(result, graph).test.accuracy, first.test.accuracy)

    def test_parts_are_the_same_graph(self):
        report = strata.partition(self.data, parts=2, output=self.folder / "parts")
        self.assertEqual((report["num_parts"], report["num_nodes"], report["num_edges"]), (2, 400, 3000))
        self.assertRegex(report["input"], r"memory:Data\(edge_index=\[2, 3000\], x=\[400, 8\]")
        report = strata.partition(scipy.sparse.eye(5, format="csr"), parts=1, output=self.folder / "eye")
        self.assertEqual((report["num_nodes"], report["num_edges"], report["edge_weights"]), (5, 5, False))
        dataset = FakeDataset(num_graphs=1, avg_num_nodes=50)
        self.assertEqual(strata.partition(dataset, parts=1, output=self.folder / "fake")["num_nodes"], dataset[0].num_nodes)
        result = self.train(self.data)
        logits = strata.predict(result, self.data)
        self.assertTrue(torch.equal(strata.predict(result, self.folder / "parts"), logits))  # in the order of the input
        self.assertTrue(strata.plan(self.data, **OPTIONS)["fits"])
        again = strata.train(self.folder / "parts", resume=result.folder, epochs=3)
        self.assertEqual(again.epochs, 3)

    def test_a_run_goes_on_with_the_same_graph_only(self):
        result = self.train(self.data, epochs=1)
        self.assertIn('graph = "memory:Data(edge_index=[2, 3000]', (result.folder / "config.toml").read_text())
        for graph, words in ((None, r"memory:Data.*lay in the memory.*strata.train\(data, resume=RUN\)"), (make_data(1), "graph .*digest")):
            with self.subTest(words), self.assertRaisesRegex(strata.InputError, f"(?s){words}"):
                strata.train(graph, resume=result.folder, epochs=2)
        self.assertEqual(losses(strata.train(self.data, resume=result.folder, epochs=2)), losses(self.train(self.data, "whole")))
        for use in (strata.predict, strata.evaluate):
            with self.assertRaisesRegex(strata.InputError, "lay in the memory"):
                use(result)

    def test_predicts_what_is_asked_for(self):
        result = self.train(self.data)
        logits = strata.predict(result, self.data)
        self.assertEqual((logits.shape, logits.dtype), ((400, 4), torch.float32))
        for nodes in ([7, 3, 399, 3], numpy.array([5]), self.data.test_mask, torch.arange(10, dtype=torch.int32)):
            wanted = logits[torch.as_tensor(nodes).long() if getattr(nodes, "dtype", None) != torch.bool else nodes]
            self.assertTrue(torch.equal(strata.predict(str(result.folder), self.data, nodes), wanted), nodes)
        self.assertTrue(torch.equal(strata.predict(result, self.data, split="test"), logits[self.data.test_mask]))
        unlabelled = Data(x=self.data.x, edge_index=self.data.edge_index)
        self.assertTrue(torch.equal(strata.predict(result, unlabelled), logits))
        evaluated = strata.evaluate(result, self.data)
        self.assertEqual((evaluated.valid.accuracy, evaluated.test.nodes), (result.valid.accuracy, int(self.data.test_mask.sum())))
        named = self.train("synthetic:kind=sbm,nodes=500,degree=5,features=8,classes=4,train=100,valid=50,test=50", "named")
        self.assertEqual(strata.predict(named).shape, (500, 4))  # of the graph that it was trained on
        for call, words in (
            (lambda: strata.predict(result, self.data, [400]), "400"),
            (lambda: strata.predict(result, self.data, self.data.test_mask[:-1]), "the mask has 399 entries, and the graph 400 nodes"),
            (lambda: strata.predict(result, self.data, [0.5]), "nodes is of type float64"),
            (lambda: strata.predict(result, self.data, [1], split="test"), "nodes contradicts split"),
            (lambda: strata.predict(result, self.data, output="x.npy"), "takes no output"),
            (lambda: strata.predict(result, self.data, hidden=3), "hidden is no option of predict"),
            (lambda: strata.evaluate(result, self.data, epochs=3), "epochs is no option of evaluate"),
            (lambda: strata.evaluate(result, self.data, devise="cpu"), "strata.evaluate.. knows no option devise\n  Did you mean device"),
            (lambda: strata.evaluate(self.folder / "nope", self.data), "nope: no such directory"),
            (lambda: strata.evaluate(result, Data(x=self.data.x[:, :3], edge_index=self.data.edge_index)), "reads 8 feature columns"),
        ):
            with self.subTest(words), self.assertRaisesRegex(strata.InputError, words):
                call()

    def test_refuses_what_is_no_graph(self):
        whole = arrays_of(self.data)
        for graph, words in (
            ({"x": whole["x"]}, "there is no edge_index"),
            (whole | {"label": whole["y"]}, "'label' is no array of a graph"),
            (scipy.sparse.csr_array((3, 4)), r"the matrix has the shape \(3, 4\)"),
            (scipy.sparse.eye(5), "no node features"),
            (Data(num_nodes=3), "has no edge_index"),
            (HeteroData(), "at least one type of nodes and one relation"),
            ([self.data, self.data], "a list of 2 graphs"),
            (whole | {"x": whole["x"][:-1]}, "^x.npy says 399 nodes, y.npy says 400"),
            (whole | {"edge_index": whole["edge_index"] + 1}, "400"),
            (whole | {"train": None}, "no training nodes"),
        ):
            with self.subTest(words), self.assertRaisesRegex(strata.InputError, words):
                self.train(graph)
        for graph in ({1, 2}, 7, self.data.edge_index):
            with self.subTest(graph=type(graph)), self.assertRaisesRegex(TypeError, "give the name of one in files, a Data of PyG"):
                self.train(graph)
        for graph in (whole | {"y": self.data.y + 0.5}, strata.from_tensors(**whole | {"y": self.data.y + 0.5})):
            with self.assertRaisesRegex(strata.InputError, "has targets of regression"):
                self.train(graph)
        self.assertFalse((self.folder / "run").exists())

    def test_a_callback_sees_each_epoch_and_may_stop_the_run(self):
        records = []
        result = self.train(self.data, on_epoch=records.append, epochs=3, eval_every=2)
        self.assertEqual([record["epoch"] for record in records], [1, 2, 3])
        self.assertEqual([record["loss"] for record in records], losses(result))
        self.assertEqual(["valid" in record for record in records], [False, True, True])
        self.assertEqual(records[-1]["valid"], result.records_of("evaluation")[-1]["valid"])
        stopped = self.train(self.data, "stopped", epochs=50, on_epoch=lambda record: "stop" if record["epoch"] == 2 else None)
        self.assertEqual((stopped.stopped, stopped.epochs, len(stopped.records_of("epoch"))), (True, 2, 2))
        self.assertEqual(losses(strata.train(self.data, resume=stopped.folder, epochs=3)), losses(self.train(self.data, "whole", epochs=3)))
        self.assertFalse(self.train(self.data, "last", epochs=2, on_epoch=lambda record: "stop" if record["epoch"] == 2 else None).stopped)

    def test_an_error_of_the_callback_is_raised_with_a_checkpoint(self):
        def fail(record):
            if record["epoch"] == 2:
                raise error

        for error, folder in ((ZeroDivisionError("mine"), "error"), (KeyboardInterrupt(), "interrupt")):
            with self.subTest(folder), self.assertRaises(type(error)) as caught:
                self.train(self.data, folder, epochs=50, on_epoch=fail)
            told = getattr(caught.exception, "__notes__", caught.exception.args)
            self.assertIn(f"strata.train(data, resume={str(self.folder / folder)!r}) continues", told[0])
            self.assertEqual(strata.train(self.data, resume=self.folder / folder, epochs=3).epochs, 3)
        with self.assertRaisesRegex(TypeError, "on_epoch returned True"):
            self.train(self.data, "other", on_epoch=lambda record: True)

    def test_on_several_ranks_and_machines(self):
        alone = self.train(self.data, "alone", batch_size=100)
        for start, machines in ((mpirun, 1), (mpirun, 2), (torchrun, "hosts")):
            with self.subTest(start=start.__name__, machines=machines):
                folder = self.folder / f"{start.__name__}-{machines}"
                folder.mkdir()
                done = start(2, HERE / "memory_of_rank.py", folder, machines)
                if machines == "hosts" and not list(folder.glob("*.json")) and "unshare" in done.stderr:
                    self.skipTest("hosts need unshare")
                self.assertEqual(done.returncode, 0, done.stderr)
                told = [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)]
                for rank in told:
                    self.assertEqual(rank["machines"], 1 if machines == 1 else 2)
                    self.assertEqual(rank["seen"], [True, False] if machines == "hosts" else [True, True])
                    self.assertEqual(rank["losses"], told[0]["losses"])
                    self.assertEqual(rank["first only"], rank["losses"])
                    self.assertEqual(rank["second only"], rank["losses"])
                    self.assertEqual(rank.get("from_pyg", rank["losses"]), rank["losses"])
                    self.assertEqual(rank["logits"], told[0]["logits"])
                    self.assertTrue(rank["chosen are rows of all"])
                    self.assertEqual(rank["stopped"], [True, 2])
                self.assertAlmostEqual(told[0]["losses"][0], losses(alone)[0], places=1 if machines != 1 else 4)
                self.assertRegex(told[1]["other data"], "this rank was given another graph in memory than rank 0")
                self.assertRegex(told[0]["other data"], "rank 1")
                self.assertRegex(told[1]["a name"], "this rank was given the graph parts, and rank 0 one in memory")
                self.assertRegex(told[0]["no graph"], "the Data has no edge_index")
                self.assertRegex(told[1]["no graph"], "rank 0")
                self.assertRegex(told[1]["other nodes"], "other nodes than rank 0")
                self.assertEqual(told[0]["callback"], "ZeroDivisionError: mine")
                self.assertRegex(told[1]["callback"], "InputError: .*rank 0.*mine")

    def test_folders_of_processes_that_were_killed_are_removed(self):
        root = self.folder / "root"
        left, used = (root / f"strata-{os.getuid()}-{name}" for name in ("left", "used"))
        for folder in (left, used):
            folder.mkdir(parents=True)
            (folder / "lock").touch()
        with open(used / "lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with _memory.scratch_folder(root=root) as mine:
                self.assertEqual(sorted(root.iterdir()), sorted([used, mine]))
            self.assertEqual(list(root.iterdir()), [used])


if __name__ == "__main__":
    unittest.main()
