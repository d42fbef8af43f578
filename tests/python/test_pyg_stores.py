# SPDX-License-Identifier: Apache-2.0
"""PyG's protocol for remote backends: stores of a graph, and PyG's own loaders on them."""

import os
import pathlib
import pickle
import subprocess
import tempfile
import unittest
import warnings

import torch
import torch_geometric.typing
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.feature_store import TensorAttr
from torch_geometric.loader import NeighborLoader, NodeLoader
from torch_geometric.nn import GraphSAGE
from torch_geometric.sampler import BaseSampler, SamplerOutput

import strata
from random_graphs import random_graph
from strata.pyg import FeatureStore, GraphStore, stores_of

BIN = pathlib.Path(os.environ.get("STRATA_BIN", pathlib.Path(__file__).resolve().parents[2] / "build/cuda/bin"))


class AllNeighbors(BaseSampler):
    """Two hops of all in-neighbors, out of what the graph store gives; PyG's own sampler needs pyg-lib or torch-sparse."""

    def __init__(self, graph_store):
        self.row, self.colptr, self.ids = graph_store.csc()

    @property
    def edge_permutation(self):
        return self.ids

    def sample_from_nodes(self, index, **others):
        nodes = index.node.tolist()
        position = {node: i for i, node in enumerate(nodes)}
        rows, cols, edges, begin = [], [], [], 0
        for _ in range(2):
            for node in nodes[begin : (begin := len(nodes))]:
                for edge in range(self.colptr[node], self.colptr[node + 1]):
                    source = int(self.row[edge])
                    if source not in position:
                        position[source] = len(nodes)
                        nodes.append(source)
                    rows.append(position[source])
                    cols.append(position[node])
                    edges.append(edge)
        return SamplerOutput(*map(torch.tensor, (nodes, rows, cols, edges)), metadata=(index.input_id, index.time))

    def sample_from_edges(self, index, **others):
        raise NotImplementedError


class Stores(unittest.TestCase):
    def setUp(self):
        self.plain = random_graph(num_nodes=300, num_edges=900, cols=8)
        self.graph = self.plain.load(strata)
        self.addCleanup(self.graph.close)
        self.features, self.edges = stores_of(self.graph)

    def test_name_what_they_have(self):
        self.assertEqual([(a.group_name, a.attr_name) for a in self.features.get_all_tensor_attrs()], [(None, "x"), (None, "y")])
        (attr,) = self.edges.get_all_edge_attrs()
        self.assertEqual((attr.edge_type, attr.layout.value, attr.size, attr.is_sorted), (None, "csc", (300, 300), True))
        self.assertEqual(self.features.get_tensor_size(None, "x"), (300, 8))
        self.assertEqual(self.features.get_tensor_size(None, "y"), (300,))
        self.assertIsNone(self.features.get_tensor_size(None, "z"))
        with strata.from_tensors(self.plain.edge_index, num_nodes=300) as bare:
            self.assertEqual(FeatureStore(bare).get_all_tensor_attrs(), [])

    def test_give_rows_by_every_index(self):
        mask = torch.zeros(300, dtype=torch.bool)
        mask[[3, 250]] = True
        ids = torch.tensor([7, 299, 7])
        for index, rows in ((ids, ids), (mask, [3, 250]), (slice(5, 20, 3), range(5, 20, 3)), (None, range(300))):
            rows = torch.tensor(list(rows))
            self.assertTrue(torch.equal(self.features.get_tensor(None, "x", index).cpu(), self.plain.x[rows]))
            self.assertTrue(torch.equal(self.features[None, "y", index].cpu(), self.plain.y[rows]))
        self.assertTrue(torch.equal(self.features.get_tensor(None, "x", -1).cpu(), self.plain.x[-1]))
        many = self.features.multi_get_tensor([TensorAttr(None, name, ids) for name in ("x", "y")])
        self.assertTrue(torch.equal(many[1].cpu(), self.plain.y[ids]))

    def test_give_the_edges_in_every_layout(self):
        row, colptr, edge_ids = self.edges.csc()
        self.assertTrue(torch.equal(row, self.plain.edge_index[0, edge_ids]))
        destinations = torch.arange(300).repeat_interleave(colptr.diff())
        self.assertTrue(torch.equal(destinations, self.plain.edge_index[1, edge_ids]))
        sources, ends, _ = self.edges.coo()
        self.assertEqual(sorted(zip(sources.tolist(), ends.tolist())), sorted(zip(*self.plain.edge_index.tolist())))
        rowptr, _, _ = self.edges.csr()
        self.assertTrue(torch.equal(rowptr.diff(), torch.bincount(self.plain.edge_index[0], minlength=300)))

    def check(self, loader):
        model = GraphSAGE(8, 16, num_layers=2, out_channels=5).eval()
        seeds = []
        with torch.no_grad():
            expected = model(self.plain.x, self.plain.edge_index)
            for batch in loader:
                self.assertIsInstance(batch, Data)
                nodes = batch.n_id
                self.assertTrue(torch.equal(batch.x.cpu(), self.plain.x[nodes]))
                self.assertTrue(torch.equal(batch.y.cpu(), self.plain.y[nodes]))
                self.assertTrue(torch.equal(nodes[batch.edge_index], self.plain.edge_index[:, batch.e_id]))
                out = model(batch.x.cpu(), batch.edge_index)[: batch.batch_size]
                torch.testing.assert_close(out, expected[nodes[: batch.batch_size]], atol=1e-5, rtol=1e-5)
                seeds += nodes[: batch.batch_size].tolist()
        self.assertEqual(seeds, self.plain.test.tolist())

    def test_serve_pygs_node_loader(self):
        self.check(NodeLoader((self.features, self.edges), AllNeighbors(self.edges), self.plain.test, batch_size=25))

    def test_serve_pygs_neighbor_loader(self):
        if not (torch_geometric.typing.WITH_PYG_LIB or torch_geometric.typing.WITH_TORCH_SPARSE):
            self.skipTest("PyG's sampler needs pyg-lib or torch-sparse")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.check(NeighborLoader((self.features, self.edges), num_neighbors=[-1, -1], input_nodes=self.plain.test, batch_size=25))

    def test_refuse_what_they_do_not_have_and_writing(self):
        with self.assertRaisesRegex(KeyError, "no tensor 'z'"):
            self.features.get_tensor(None, "z", None)
        with self.assertRaisesRegex(KeyError, "not found"):
            self.edges.get_edge_index(edge_type=("a", "to", "b"), layout="csc")
        with self.assertRaisesRegex(IndexError, "a mask of shape"):
            self.features.get_tensor(None, "x", torch.ones(4, dtype=torch.bool))
        with self.assertRaises(IndexError):
            self.features.get_tensor(None, "x", torch.tensor([300]))
        for write in (
            lambda: self.features.put_tensor(self.plain.x, None, "x", None),
            lambda: self.features.remove_tensor(None, "x", None),
            lambda: self.edges.put_edge_index(self.plain.edge_index, edge_type=None, layout="coo"),
            lambda: self.edges.remove_edge_index(edge_type=None, layout="csc"),
        ):
            with self.assertRaisesRegex(strata.InputError, "cannot be written"):
                write()
        for store in (self.features, self.edges):
            with self.assertRaisesRegex(strata.InputError, "cannot be sent to another process"):
                pickle.dumps(store)

    def test_have_the_types_of_a_graph(self):
        data = HeteroData()
        data["a"].x, data["a"].y = torch.randn(40, 3), torch.randint(5, (40,))
        data["b"].num_nodes = 15
        for source, name, destination in (("a", "r", "a"), ("b", "s", "a"), ("a", "t", "b")):
            ends = [torch.randint(40 if kind == "a" else 15, (90,)) for kind in (source, destination)]
            data[source, name, destination].edge_index = torch.stack(ends)
        data["b", "s", "a"].edge_attr = torch.randn(90, 2)
        with strata.from_pyg(data) as graph:
            features, edges = stores_of(graph)
            names = [(attr.group_name, attr.attr_name) for attr in features.get_all_tensor_attrs()]
            self.assertEqual(names, [("a", "x"), ("a", "y"), ("b", "id"), (("b", "s", "a"), "edge_attr")])
            self.assertEqual(features.get_tensor_size(("b", "s", "a"), "edge_attr"), (90, 2))
            ids = torch.tensor([7, 39, 7])
            for group, name in (("a", "x"), ("a", "y"), (("b", "s", "a"), "edge_attr")):
                self.assertTrue(torch.equal(features.get_tensor(group, name, ids).cpu(), data[group][name][ids]))
            self.assertTrue(torch.equal(features.get_tensor("a", "y", None).cpu(), data["a"].y))
            self.assertEqual(features.get_tensor("b", "id", slice(3, 6)).tolist(), [3, 4, 5])
            with self.assertRaises(IndexError):
                features.get_tensor("a", "x", torch.tensor([40]))
            self.assertEqual([attr.size for attr in edges.get_all_edge_attrs()], [(40, 40), (15, 40), (40, 15)])
            row, colptr, perm = edges.csc()
            self.assertEqual(list(row), data.edge_types)
            for kind in data.edge_types:
                true = data[kind].edge_index[:, perm[kind]]
                self.assertTrue(torch.equal(row[kind], true[0]))
                destinations = torch.arange(len(colptr[kind]) - 1).repeat_interleave(colptr[kind].diff())
                self.assertTrue(torch.equal(destinations, true[1]))
                self.assertTrue(torch.equal(edges.get_edge_index(edge_type=kind, layout="csc")[0], row[kind]))

    def test_read_part_files(self):
        with tempfile.TemporaryDirectory(prefix="strata-stores-") as folder:
            spec = "synthetic:kind=sbm,nodes=500,degree=6,features=4,classes=3,train=100"
            command = [BIN / "strata-partition", "build", "--input", spec, "--parts", "3", "--output", f"{folder}/parts"]
            subprocess.run(command, check=True, capture_output=True)
            with strata.load(f"{folder}/parts", edge_ids=True) as parts, strata.load(spec) as whole:
                features, edges = stores_of(parts)
                names = parts.original_ids(torch.arange(500))
                self.assertTrue(torch.equal(features.get_tensor(None, "x", None), whole.features[names]))
                row, colptr, _ = edges.csc()
                _, of_whole, _ = GraphStore(whole).csc()
                self.assertTrue(torch.equal(colptr.diff(), of_whole.diff()[names]))
                loader = NodeLoader((features, edges), AllNeighbors(edges), parts.nodes("train"), batch_size=50)
                for batch in loader:
                    self.assertTrue(torch.equal(batch.x, whole.features[names[batch.n_id]]))


if __name__ == "__main__":
    unittest.main()
