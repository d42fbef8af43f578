# SPDX-License-Identifier: Apache-2.0
"""Graphs from tensors, generators and other libraries."""

import copy
import gc
import resource
import subprocess
import sys
import unittest

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

    def test_leaves_features_where_they_are_until_it_is_made(self):
        x = self.plain.x.clone()
        graph = strata.from_tensors(self.plain.edge_index, x, num_nodes=1000)
        x.zero_()
        self.assertTrue(torch.equal(graph.features[[4]].cpu(), self.plain.x[4:5]))
        graph.close()

    def test_takes_arrays_of_other_types(self):
        lists = strata.from_tensors([[0, 1], [1, 2]], [[1, 2], [3, 4], [5, 6]])
        self.assertEqual(lists.features[[2]].tolist(), [[5, 6]])
        lists.close()
        plain = self.plain
        graph = strata.from_tensors(
            plain.edge_index.int().numpy(), plain.x.half(), plain.y.numpy().astype("float32"), train=numpy.arange(1000) < 3
        )
        self.assertEqual(graph.nodes("train").tolist(), [0, 1, 2])
        self.assertTrue(torch.equal(graph.features[[9]].cpu(), plain.x[9:10].half().float()))
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
        loader = strata.NeighborLoader(graph, [2], batch_size=10)
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


class FromOthers(unittest.TestCase):
    def test_data_of_pyg(self):
        from torch_geometric.data import Data, HeteroData

        plain = random_graph()
        mask = torch.zeros(1000, dtype=torch.bool)
        mask[plain.train] = True
        data = Data(x=plain.x, edge_index=plain.edge_index, y=plain.y.view(-1, 1), train_mask=mask)
        with strata.from_pyg(data) as graph:
            self.assertEqual((graph.num_nodes, graph.num_edges, graph.num_classes), (1000, 6000, 5))
            self.assertTrue(torch.equal(graph.nodes("train"), plain.train))
        del data.edge_index
        for given, kind in ((data, "Data"), (HeteroData({"a": {"x": plain.x}}), "HeteroData")):
            with self.assertRaisesRegex(strata.InputError, f"the {kind} has no edge_index\n  Give a Data with edges"):
                strata.from_pyg(given)

    def test_networkx(self):
        try:
            import networkx
        except ImportError:
            self.skipTest("needs networkx, which torch brings")
        given = networkx.Graph([("a", "b", {"w": 2}), ("b", "c", {"w": 3}), ("c", "c", {"w": 5})])
        networkx.set_node_attributes(given, {"a": [1.0, 0], "b": [2.0, 0], "c": [3.0, 0]}, "f")
        with strata.from_networkx(given, x="f", edge_weight="w") as graph:
            self.assertEqual((graph.num_nodes, graph.num_edges), (3, 5))
            self.assertEqual(graph.features[[1]].tolist(), [[2, 0]])
            edges = graph.in_edges([0, 1, 2])
            self.assertEqual((edges.sources.tolist(), edges.weights.tolist()), ([1, 0, 2, 1, 2], [2, 2, 3, 3, 5]))
        with strata.from_networkx(given.to_directed(), edge_weight=[1.0] * 5) as graph:
            self.assertEqual(graph.num_edges, 5)
        for options, message in (({"y": "label"}, "node 'a' has no attribute 'label'"), ({"edge_weight": "v"}, r"edge \('a', 'b'\) has")):
            with self.assertRaisesRegex(strata.InputError, message):
                strata.from_networkx(given, **options)


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
