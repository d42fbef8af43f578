# SPDX-License-Identifier: Apache-2.0
"""Graphs from tensors, generators and other libraries."""

import concurrent.futures
import copy
import gc
import pathlib
import resource
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings

import numpy
import torch

import strata
from random_graphs import INDICES, WRONG_INDICES, Exported, expected_rows, random_graph


class FromTensors(unittest.TestCase):
    def setUp(self):
        self.plain = random_graph()

    def test_has_what_it_was_given(self):
        with self.plain.load(strata) as graph:
            self.assertEqual((graph.num_nodes, graph.num_edges), (1000, 6000))
            self.assertEqual((graph.num_features, graph.num_classes), (16, 5))
            self.assertTrue(torch.equal(graph.nodes("train"), self.plain.train))
            self.assertTrue(torch.equal(graph.nodes("test"), self.plain.test))
            with self.assertRaisesRegex(TypeError, "split is 3; give a word"):
                graph.nodes(3)
            self.assertLessEqual({"indptr", "indices", "features"}, {row["tensor"] for row in graph.plan()})
            self.assertIn("nodes=1000", repr(graph))
            self.assertIs(copy.copy(graph), graph)
        self.assertEqual(repr(graph), "strata.Graph(closed)")

    def test_gathers_rows(self):
        ids = torch.tensor([999, 0, 5, 5])
        with self.plain.load(strata) as graph:
            self.assertTrue(torch.equal(graph.features[ids].cpu(), self.plain.x[ids]))
            self.assertEqual(graph.features[torch.empty(0, dtype=torch.long)].shape, (0, 16))
            self.assertEqual((graph.features.shape, len(graph.features)), ((1000, 16), 1000))

    def test_is_indexed_as_tensors_are(self):
        with self.plain.load(strata) as graph:
            for name, index in INDICES.items():
                for given, expected in ((graph.features, self.plain.x), (graph.labels, self.plain.y)):
                    with self.subTest(name):
                        found = given[index]
                        self.assertTrue(torch.equal(found.cpu(), expected_rows(expected, index)))
                        self.assertEqual(str(found.device), strata.process().device)

    def test_refuses_what_is_no_index_and_names_the_first_id_that_is_no_nodes(self):
        with self.plain.load(strata) as graph:
            for index, message in WRONG_INDICES:
                for rows in (graph.features, graph.labels):
                    with self.subTest(index), self.assertRaisesRegex(IndexError, message):
                        rows[index]

    def test_takes_lists_of_ids(self):
        with self.plain.load(strata) as graph:
            for ids in ([5, 3], range(3, 5), numpy.array([5, 3]), torch.tensor([5, 3]), Exported(torch.tensor([5, 3]))):
                self.assertEqual(graph.original_ids(ids).tolist(), graph.ids(ids).tolist())
                self.assertEqual(len(graph.in_edges(ids).counts), 2)
            for read in (graph.original_ids, graph.ids, graph.in_edges):
                with self.assertRaisesRegex(strata.InputError, r"has the shape .*\n  Give ids in one dimension"):
                    read([[5, 3]])
                with self.assertRaisesRegex(IndexError, "index 1 is 1000, which is not a node"):
                    read([3, 1000])

    def test_is_read_by_several_threads(self):
        labels = torch.randint(7, (5000,))
        with strata.from_tensors([[0], [1]], torch.ones(5000, 1), labels) as graph:
            ids = torch.randperm(5000)
            begin = threading.Barrier(4)

            def read(_):
                begin.wait()  # the first ids() makes a table
                there = graph.ids(ids)
                return torch.equal(graph.original_ids(there), ids) and torch.equal(graph.labels[there].cpu(), labels[ids])

            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                self.assertEqual(list(pool.map(read, range(4))), [True] * 4)

    def test_leaves_features_where_they_are_until_it_is_made(self):
        x = self.plain.x.clone()
        graph = strata.from_tensors(self.plain.edge_index, x, num_nodes=1000)
        x.zero_()
        self.assertTrue(torch.equal(graph.features[[4]].cpu(), self.plain.x[4:5]))
        graph.close()

    def test_takes_arrays_of_other_types(self):
        lists = strata.from_tensors([[0, 1], [1, 2]], [[1, 2], [3, 4], [5, 6]])
        self.assertEqual(lists.features[[2]].tolist(), [[5, 6]])
        lists.features[[2, 0, 2]] = torch.tensor([[1.0, 1], [2, 2], [7, 8]])
        lists.features[1] = 9
        self.assertEqual(lists.features[:].tolist()[:3], [[2, 2], [9, 9], [7, 8]])
        lists.features[[]] = 0
        with self.assertRaisesRegex(strata.InputError, "rows \\(3, 2\\) for"):
            lists.features[[0, 1]] = torch.ones(3, 2)
        with self.assertRaisesRegex(strata.InputError, "rows are torch.int64"):
            lists.features[[0]] = torch.ones(1, 2, dtype=torch.int64)
        with self.assertRaises(IndexError):
            lists.features[[0, 77]] = 1
        lists.close()
        plain = self.plain
        graph = strata.from_tensors(
            plain.edge_index.int().numpy(), plain.x.half(), plain.y.numpy().astype("float32"), train=numpy.arange(1000) < 3
        )
        self.assertEqual(graph.nodes("train").tolist(), [0, 1, 2])
        self.assertTrue(torch.equal(graph.features[[9]].cpu(), plain.x[9:10].half().float()))
        graph.features[[9]] = plain.x[8:9]
        self.assertTrue(torch.equal(graph.features[[9]].cpu(), plain.x[8:9].half().float()))
        graph.close()
        other = strata.from_tensors(Exported(plain.edge_index), Exported(plain.x), Exported(plain.y), train=Exported(plain.train))
        self.assertTrue(torch.equal(other.features[:].cpu(), plain.x))
        self.assertTrue(torch.equal(other.nodes("train"), plain.train))
        other.close()
        narrow = strata.from_tensors(plain.edge_index.t().contiguous().t(), plain.x.bfloat16())
        self.assertTrue(torch.equal(narrow.features[[9]].cpu(), plain.x[9:10].bfloat16().float()))
        narrow.close()

    def test_refuses_what_makes_no_graph(self):
        edges, x = self.plain.edge_index, self.plain.x
        for arguments, message in (
            ((edges.t(), x), r"edge_index has the shape \(6000, 2\)"),
            ((edges + 500, x), "1000"),
            ((edges, x[:10]), "10"),
            ((edges, x, self.plain.y[:10]), "x says 1000 nodes, y has 10 rows"),
            ((edges, x, torch.arange(1000) * 1000), "y has the class 999000, where 100000 classes are the most\n  Number the classes"),
            ((edges.cfloat(), x), "complex"),
            (([[0, 1], [1]], x), "edge_index makes no array"),
            ((edges, x.to_sparse()), "x is a torch.sparse_coo tensor\n  Give a dense one: x.to_dense"),
        ):
            with self.subTest(message), self.assertRaisesRegex((ValueError, TypeError), message):
                strata.from_tensors(*arguments)
        with self.assertRaisesRegex(strata.InputError, "num_nodes is -1"):
            strata.from_tensors(edges, num_nodes=-1)
        for options, message in (
            ({"batch_size": -1}, "batch_size is -1"),
            ({"fanouts": [0]}, "fanout 0"),
            ({"gpu_memory": -5}, "gpu_memory is -5"),
            ({"batch_size": 1.5}, "batch_size is 1.5; give an integer"),
            ({"valid": [1], "val": [2]}, "valid and val are both given"),
            ({"num_nodes": "8"}, "num_nodes is '8'; give an integer"),
            ({"train": torch.ones(1000, dtype=torch.uint8)}, "train is of type uint8\n  Give ids as int64, or a mask as bool"),
        ):
            with self.subTest(message), self.assertRaisesRegex((ValueError, TypeError), message):
                strata.from_tensors(edges, x, **options)
        with self.assertRaisesRegex(strata.InputError, "halo_cache is -1"):
            strata.load("synthetic:kind=sbm,nodes=100", halo_cache=-1)
        with self.assertRaisesRegex(strata.InputError, "3 weights for 6000 edges"):
            strata.from_tensors(edges, x, edge_weight=[1, 2, 3])

    def test_is_of_no_use_after_it_was_closed(self):
        graph = self.plain.load(strata)
        loader = strata.NeighborLoader(graph, [2], "train", batch_size=10)
        graph.close()
        graph.close()
        for use in (lambda: graph.num_edges, lambda: graph.features[[0]], lambda: next(iter(loader)), lambda: graph.nodes("train")):
            with self.assertRaisesRegex(strata.StrataError, "was closed"):
                use()
        self.assertEqual(repr(graph.features), "strata.graph.Features(closed)")

    def test_can_be_opened_and_dropped_many_times(self):
        def open_descriptors():
            import os

            return len(os.listdir("/proc/self/fd"))

        plain = random_graph(100, 300)
        for _ in range(3):
            plain.load(strata).close()
        gc.collect()
        before, memory = open_descriptors(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(1000 if strata.process().device == "cpu" else 50):  # a GPU takes 0.2 s for each
            plain.load(strata).close()
        gc.collect()
        self.assertLessEqual(open_descriptors(), before)
        self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory, 64 << 10)  # KiB


class DglGraph:
    """What is read of DGL's, which need not be installed."""

    is_homogeneous = True

    def __init__(self, edge_index, num_nodes, ndata, edata):
        self._edges, self._nodes, self.ndata, self.edata = edge_index, num_nodes, ndata, edata

    def edges(self, order):
        assert order == "eid"
        return tuple(self._edges)

    def num_nodes(self):
        return self._nodes


def warnings_of(call):
    """What it returns, and what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = call()
    return made, [str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]


class FromOthers(unittest.TestCase):
    def test_pyg_with_masks_that_no_split_can_hold(self):
        from torch_geometric.data import Data

        plain = random_graph()
        mask = torch.arange(1000) < 300
        folds = torch.stack([torch.arange(1000) % 5 == fold for fold in range(5)], dim=1)
        data = Data(x=plain.x, edge_index=plain.edge_index, y=plain.y, train_mask=mask, val_mask=torch.arange(1000) < 7, test_mask=~mask)
        graph, said = warnings_of(lambda: strata.from_pyg(data))
        with graph:
            self.assertRegex(str(said), "the masks train and valid have nodes in common.*input_nodes=data.train_mask")
            self.assertEqual([len(graph.nodes(split)) for split in ("train", "val", "test")], [0, 0, 700])
            seeds = [v for batch in strata.NeighborLoader(graph, [2], data.val_mask, batch_size=4) for v in batch.input_id.tolist()]
            self.assertEqual(len(seeds), 7)
        data = Data(x=plain.x, edge_index=plain.edge_index, train_mask=folds, valid_mask=torch.zeros(1000, dtype=torch.uint8))
        with self.assertRaisesRegex(strata.InputError, "train_mask has several columns\n  Choose one of them: split=0"):
            strata.from_pyg(data)
        with strata.from_pyg(data, split=3) as graph:
            self.assertEqual(graph.nodes("train").tolist(), list(range(3, 1000, 5)))

    def test_pyg_with_targets_that_are_no_classes(self):
        from torch_geometric.data import Data

        plain = random_graph()
        for y in (torch.randn(1000), torch.randn(1000, 3), torch.randn(1000, 1).double(), torch.rand(1000).bfloat16()):
            with strata.from_pyg(Data(x=plain.x, edge_index=plain.edge_index, y=y)) as graph:
                expected = y.view(-1) if y.dim() == 2 and y.size(1) == 1 else y
                self.assertEqual(graph.num_classes, 0)
                self.assertTrue(torch.equal(graph.labels[[5, 999]].cpu(), expected[[5, 999]]))
                with self.assertRaisesRegex(IndexError, "index 1 is 1000"):
                    graph.labels[[5, 1000]]
                for batch in strata.NeighborLoader(graph, [3], batch_size=300):
                    self.assertTrue(torch.equal(batch.y.cpu(), expected[batch.n_id[: batch.batch_size].cpu()]))
                for batch, _, of_seeds in strata.NodeLoader(graph, None, fanouts=[3], batch_size=300, features=True):
                    self.assertTrue(torch.equal(of_seeds.cpu(), expected[batch.output_nodes.cpu()]))
        with strata.from_tensors(plain.edge_index, y=torch.rand(1003)) as graph:
            self.assertEqual(graph.num_nodes, 1003)

    def test_refuse_what_another_of_them_takes(self):
        import networkx
        from torch_geometric.data import Data

        data = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]))
        for make, given, message in (
            (strata.from_networkx, data, r"a Data of torch_geometric\n  Call strata.from_pyg\(\)"),
            (strata.from_dgl, data, r"Call strata.from_pyg\(\)"),
            (strata.from_pyg, networkx.path_graph(3), r"a Graph of networkx\n  Call strata.from_networkx\(\)"),
            (strata.from_pyg, [data, data], "a list of 2 graphs\n  Give one of them, or all as one"),
        ):
            with self.subTest(message), self.assertRaisesRegex(strata.InputError, message):
                make(given)

    def test_dgl_with_any_names(self):
        plain = random_graph()
        weights = torch.rand(6000)
        masks = {"train_mask": (torch.arange(1000) < 10).to(torch.uint8), "val_mask": torch.arange(1000) == 500}
        for names, options in (
            (("feat", "label", "weight"), {}),
            (("x", "y", "w"), {}),
            (("h", "cls", "cost"), {"x": "h", "y": "cls", "edge_weight": "cost"}),
        ):
            given = DglGraph(plain.edge_index, 1000, {names[0]: plain.x, names[1]: plain.y, **masks}, {names[2]: weights.view(-1, 1)})
            graph, said = warnings_of(lambda: strata.from_dgl(given, **options))
            with self.subTest(names), graph:
                self.assertEqual((said, graph.num_features, graph.num_classes), ([], 16, 5))
                self.assertEqual((graph.nodes("train").tolist(), graph.nodes("val").tolist()), (list(range(10)), [500]))
                batch = next(iter(strata.NeighborLoader(graph, [3], None, batch_size=10, sampler="weighted")))
                self.assertTrue(torch.equal(batch.edge_weight.cpu(), weights[batch.e_id.cpu()]))
        given = DglGraph(plain.edge_index, 1000, {"h": plain.x, "age": plain.y}, {"cost": weights})
        graph, said = warnings_of(lambda: strata.from_dgl(given))
        with graph:
            self.assertRegex(str(said), "ndata 'h', 'age' are not read .*x=, y= and edge_weight=.*edata 'cost' is not read")
            batch = next(iter(strata.NeighborLoader(graph, [3], batch_size=10)))
            self.assertTrue(torch.equal(batch.h.cpu(), plain.x[batch.n_id.cpu()]) and torch.equal(batch.cost.cpu(), weights[batch.e_id.cpu()]))
        with self.assertRaisesRegex(strata.InputError, "x='feat' is not there; there are 'h', 'age'"):
            strata.from_dgl(given, x="feat")

    def test_data_of_pyg(self):
        from torch_geometric.data import Data, HeteroData

        plain = random_graph()
        mask = torch.zeros(1000, dtype=torch.bool)
        mask[plain.train] = True
        data = Data(x=plain.x, edge_index=plain.edge_index, y=plain.y.view(-1, 1), train_mask=mask)
        with strata.from_pyg(data) as graph:
            self.assertEqual((graph.num_nodes, graph.num_edges, graph.num_classes), (1000, 6000, 5))
            self.assertTrue(torch.equal(graph.nodes("train"), plain.train))
        with strata.from_pyg(data, train=[0], val=[3, 7]) as graph:
            self.assertEqual(graph.nodes("valid").tolist(), [3, 7])
        data.val_mask = ~mask
        with strata.from_pyg(data, train=[0], val=[3, 7]) as graph:
            self.assertEqual(graph.nodes("valid").tolist(), [3, 7])
        del data.edge_index
        for given, words in (
            (data, "the Data has no edge_index\n  Give a Data with edges"),
            (HeteroData({"a": {"x": plain.x}}), "needs at least one type of nodes and one relation"),
        ):
            with self.assertRaisesRegex(strata.InputError, words):
                strata.from_pyg(given)

    def test_networkx(self):
        try:
            import networkx
        except ImportError:
            self.skipTest("needs networkx, which torch brings")
        for call, library in ((strata.from_networkx, "networkx"), (strata.from_dgl, "dgl")):
            with self.assertRaisesRegex(strata.InputError, f"a list is no graph of {library}\n  Give one graph"):
                call([(0, 1), (1, 2)])
        given = networkx.Graph([("a", "b", {"w": 2}), ("b", "c", {"w": 3}), ("c", "c", {"w": 5})])
        networkx.set_node_attributes(given, {"a": [1.0, 0], "b": [2.0, 0], "c": [3.0, 0]}, "f")
        with strata.from_networkx(given, x="f", edge_weight="w") as graph:
            self.assertEqual((graph.num_nodes, graph.num_edges), (3, 5))
            self.assertEqual(graph.features[[1]].tolist(), [[2, 0]])
            edges = graph.in_edges([0, 1, 2])
            self.assertEqual((edges.sources.tolist(), edges.weights.tolist()), ([1, 0, 2, 1, 2], [2, 2, 3, 3, 5]))
        with strata.from_networkx(given.to_directed(), edge_weight=[1.0] * 5) as graph:
            self.assertEqual(graph.num_edges, 5)
        networkx.set_node_attributes(given, {"a": "train", "b": "val"}, "part")
        graph, said = warnings_of(lambda: strata.from_networkx(given, split="part"))
        with graph:
            self.assertEqual([graph.nodes(split).tolist() for split in ("train", "valid", "test")], [[0], [1], []])
        self.assertRegex(str(said), "node attribute 'f' is not read.*edge attribute 'w' is not read")
        given.nodes["c"]["part"] = "vali"
        with self.assertRaisesRegex(strata.InputError, "node 'c' has the part 'vali'\n  Known are train"):
            strata.from_networkx(given, split="part")
        for options, message in (({"y": "label"}, "node 'a' has no attribute 'label'"), ({"edge_weight": "v"}, r"edge \('a', 'b'\) has")):
            with self.assertRaisesRegex(strata.InputError, message):
                strata.from_networkx(given, **options)


class Saved(unittest.TestCase):
    """Graphs of other libraries in folders that npy: reads."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="strata-python-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_hold_all_nodes_and_no_other_graphs_arrays(self):
        from torch_geometric.data import Data

        edges = torch.tensor([[0, 1, 2, 5], [1, 2, 0, 5]])
        lonely = Data(edge_index=edges, num_nodes=12)
        strata.save(lonely, self.folder / "lonely")
        self.assertEqual(strata.info(f"npy:{self.folder / 'lonely'}")["num_nodes"], 12)
        data = Data(edge_index=edges, x=torch.rand(9, 2), edge_weight=torch.rand(4), val_mask=torch.arange(9) == 4, y=torch.rand(9))
        data.edge_attr, data.title = torch.rand(4, 3), "nine nodes"
        _, said = warnings_of(lambda: strata.save(data, self.folder / "a" / "nine"))
        self.assertRegex(str(said), "edge_attr, title are left out")
        self.assertEqual(
            sorted(file.name for file in (self.folder / "a" / "nine").iterdir()),
            ["edge_index.npy", "edge_weight.npy", "num_nodes.npy", "targets.npy", "valid.npy", "x.npy"],
        )
        with strata.load(f"npy:{self.folder / 'a' / 'nine'}") as graph:
            self.assertTrue(torch.equal(graph.features[:].cpu(), data.x))
            self.assertEqual(graph.nodes("val").tolist(), [4])
        with self.assertRaisesRegex(strata.InputError, "nine exists and is not empty\n  Give another folder"):
            strata.save(lonely, self.folder / "a" / "nine")
        (self.folder / "empty").mkdir()
        strata.save(lonely, self.folder / "empty")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["a", "empty", "lonely"])

    def test_come_from_files_of_datasets_with_one_graph(self):
        from torch_geometric.data import Data, InMemoryDataset

        one = Data(edge_index=torch.tensor([[0, 1], [1, 3]]), x=torch.rand(5, 2))
        for graphs in ([one], [one, one]):
            path = self.folder / f"{len(graphs)}.pt"
            InMemoryDataset.save(graphs, path)
            held = torch.load(path, weights_only=False)
            if len(graphs) == 1:
                strata.save(held, self.folder / "one")
                self.assertEqual(strata.info(f"npy:{self.folder / 'one'}")["num_nodes"], 5)
            else:
                with self.assertRaisesRegex(strata.InputError, r"a dataset, with 2 graphs\n  Save .* torch.save\(dataset\[0\]"):
                    strata.save(held, self.folder / "two")

    def test_come_from_networkx_and_dgl(self):
        import networkx

        given = networkx.Graph([("a", "b", {"weight": 2}), ("b", "c", {"weight": 3})])
        given.nodes["b"]["split"] = "val"
        strata.save(given, self.folder / "x")
        self.assertEqual((self.folder / "x" / "names.txt").read_text(), "a\nb\nc\n")
        with strata.load(f"npy:{self.folder / 'x'}", weights=True) as graph:
            self.assertEqual((graph.num_edges, graph.nodes("val").tolist()), (4, [1]))
            self.assertEqual(graph.in_edges([1]).weights.tolist(), [2, 3])
        del given.edges["a", "b"]["weight"]
        with self.assertRaisesRegex(strata.InputError, r"edge \('a', 'b'\) has no attribute 'weight'"):
            strata.save(given, self.folder / "y")
        of_dgl = DglGraph(torch.tensor([[0, 1], [1, 0]]), 3, {"cls": torch.tensor([0, 1, 1])}, {})
        type(of_dgl).__module__ = "dgl.heterograph"
        self.addCleanup(setattr, DglGraph, "__module__", __name__)
        strata.save(of_dgl, self.folder / "z", y="cls")
        self.assertEqual(strata.info(f"npy:{self.folder / 'z'}")["labels"]["classes"], 2)


class Loaded(unittest.TestCase):
    def test_generated(self):
        with strata.load("synthetic:kind=sbm,nodes=2000,features=8,classes=4,train=500,seed=3") as graph:
            self.assertEqual((graph.num_nodes, graph.num_features, graph.num_classes), (2000, 8, 4))
            self.assertEqual(len(graph.nodes("train")), 500)

    def test_refused(self):
        for source, message in (
            ("synthetik:products", "synthetic"),
            ("/nowhere/parts", "/nowhere/parts"),
            ("npy:/nowhere", "no such directory"),
            ("synthetic:kind=sbm,noodles=3", "nodes"),
        ):
            with self.subTest(source), self.assertRaisesRegex(strata.InputError, message) as caught:
                strata.load(source)
            self.assertIsInstance(caught.exception, ValueError)
        with self.assertRaisesRegex(strata.InputError, "replicate"):
            strata.load("synthetic:kind=sbm,nodes=100", replicate="perhaps")
        for options, message in (({"replicate": True}, "replicate is True; give a word"), ({"edge_ids": "yes"}, "edge_ids is 'yes'; give True")):
            with self.assertRaisesRegex(TypeError, message):
                strata.load("synthetic:kind=sbm,nodes=100", **options)


class Import(unittest.TestCase):
    def test_takes_no_torch_and_half_a_second(self):
        code = (
            "import time; begun = time.perf_counter(); import strata; took = time.perf_counter() - begun\n"
            "import sys; print(took, 'torch' in sys.modules, 'torch_geometric' in sys.modules)"
        )
        best, *flags = min(
            subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() for _ in range(3)
        )
        self.assertEqual(flags, ["False", "False"])
        self.assertLess(float(best), 2, "half a second on a machine that does nothing else")


if __name__ == "__main__":
    unittest.main()
