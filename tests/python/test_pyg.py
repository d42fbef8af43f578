# SPDX-License-Identifier: Apache-2.0
"""PyG's own models on our batches: with all neighbors they give the logits of the whole graph. What batches bring along."""

import pathlib
import tempfile
import unittest
import warnings

import numpy
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GAT, GCN, GIN, GATConv, GINConv, GraphSAGE, SAGEConv

import strata
from random_graphs import random_graph


class Logits(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.plain = random_graph(num_nodes=600, num_edges=2500, cols=8)
        self.graph = self.plain.load(strata)
        self.addCleanup(self.graph.close)
        self.device = torch.device(strata.process().device)

    def whole(self, model):
        with torch.no_grad():
            return model(self.plain.x.to(self.device), self.plain.edge_index.to(self.device))

    def model(self, kind, **options):
        return kind(8, 16, num_layers=2, out_channels=5, **options).to(self.device).eval()

    def check(self, kind, hops, **options):
        model = self.model(kind, **options)
        expected = self.whole(model)
        for batch in strata.NeighborLoader(self.graph, [-1] * hops, "test", batch_size=32):
            with torch.no_grad():
                out = model(batch.x, batch.edge_index)[: batch.batch_size]
            torch.testing.assert_close(out, expected[batch.n_id[: batch.batch_size]], atol=1e-5, rtol=1e-5)

    def test_of_sage(self):
        self.check(GraphSAGE, 2)

    def test_of_gin(self):
        self.check(GIN, 2)

    def test_of_gat(self):
        self.check(GAT, 2, heads=4)

    def test_of_gcn(self):
        self.check(GCN, 3)  # a hop more: its weights need the degrees of all sources

    def on_bipartite_layers(self, forward):
        """Layers that take sources and destinations: of them GCNConv is none."""
        for name, make in {
            "SAGE": SAGEConv,
            "GAT": lambda before, after: GATConv((before, before), after),
            "GIN": lambda before, after: GINConv(torch.nn.Linear(before, after)),
        }.items():
            layers = torch.nn.ModuleList([make(8, 16), make(16, 5)]).to(self.device)
            with self.subTest(name), torch.no_grad():
                x, edges = self.plain.x.to(self.device), self.plain.edge_index.to(self.device)
                for layer in layers:
                    x = layer((x, x), edges).relu()
                for batch in strata.NodeLoader(self.graph, "test", fanouts=[-1, -1], batch_size=32):
                    out = forward(layers, batch)
                    torch.testing.assert_close(out, x[batch.output_nodes], atol=1e-5, rtol=1e-5)

    def test_of_layers_on_blocks(self):
        def forward(layers, batch):
            x = self.graph.features[batch.input_nodes]
            for layer, block in zip(layers, batch.blocks):
                x = layer((x, x[: block.num_dst]), block.edge_index, size=block.size).relu()
            return x

        self.on_bipartite_layers(forward)

    def test_of_layers_on_adjs(self):
        def forward(layers, batch):
            x = self.graph.features[batch.input_nodes]
            for layer, (edge_index, _, size) in zip(layers, batch.adjs):
                x = layer((x, x[: size[1]]), edge_index, size=size).relu()
            return x

        self.on_bipartite_layers(forward)

    def test_train(self):
        model = self.model(GraphSAGE).train()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        losses = []
        for _ in range(15):
            total = 0.0
            for batch in strata.NeighborLoader(self.graph, [10, 5], "train", batch_size=120, shuffle=True):
                optimizer.zero_grad()
                out = model(batch.x, batch.edge_index)[: batch.batch_size]
                loss = torch.nn.functional.cross_entropy(out, batch.y)
                loss.backward()
                optimizer.step()
                total += float(loss.detach())
            losses.append(total)
        self.assertLess(losses[-1], 0.7 * losses[0])

    def test_trims_layers_as_pyg_does(self):
        from torch_geometric.utils import trim_to_layer

        batch = next(iter(strata.NeighborLoader(self.graph, [3, 3], "train", batch_size=20)))
        x, edges, _ = trim_to_layer(1, batch.num_sampled_nodes, batch.num_sampled_edges, batch.x, batch.edge_index)
        self.assertEqual(x.size(0), sum(batch.num_sampled_nodes[:2]))
        self.assertEqual(edges.size(1), batch.num_sampled_edges[0])


class Attributes(unittest.TestCase):
    """Batches have rows of everything that a Data has, as PyG's have."""

    def setUp(self):
        self.plain = plain = random_graph(num_nodes=300, num_edges=1800, cols=4)
        self.weights = torch.rand(1800)
        self.weights[plain.edge_index[0] == plain.edge_index[1]] = 0.5  # of parallel loops, torch_geometric takes any one
        self.data = Data(x=plain.x, edge_index=plain.edge_index, y=plain.y, edge_weight=self.weights, name="plain", levels=[1, 2])
        self.data.edge_attr, self.data.edge_time = torch.rand(1800, 3).bfloat16(), torch.arange(1800)
        self.data.pos, self.data.train_mask = torch.rand(300, 2), torch.arange(300) % 2 == 0
        self.data.seeds_index = torch.randint(9, (2, 300))  # PyG counts its columns
        self.graph = strata.from_pyg(self.data)
        self.addCleanup(self.graph.close)

    def check(self, batch):
        for name in ("edge_weight", "edge_attr", "edge_time"):
            self.assertTrue(torch.equal(batch[name].cpu(), self.data[name][batch.e_id.cpu()]), name)
            self.assertEqual(batch[name].device, batch.e_id.device)
        for name in ("pos", "train_mask"):
            self.assertTrue(torch.equal(batch[name].cpu(), self.data[name][batch.n_id.cpu()]), name)
        self.assertTrue(torch.equal(batch.seeds_index.cpu(), self.data.seeds_index[:, batch.n_id.cpu()]))
        self.assertEqual((batch.name, batch.levels), ("plain", [1, 2]))

    def test_reach_batches(self):
        loader = strata.NeighborLoader(self.graph, [4, 3], None, batch_size=100, shuffle=True)
        for batch in (*loader, loader([3, 5])):
            self.check(batch)

    def test_give_weighted_layers_the_results_of_the_whole_graph(self):
        torch.manual_seed(1)
        layer = GCN(4, 8, num_layers=1).to(strata.process().device)
        given = [self.data[name].to(strata.process().device) for name in ("x", "edge_index", "edge_weight")]
        with torch.no_grad():
            expected = layer(given[0], given[1], given[2])
            (batch,) = strata.NeighborLoader(self.graph, [-1], None, batch_size=300)
            torch.testing.assert_close(layer(batch.x, batch.edge_index, batch.edge_weight), expected, atol=1e-5, rtol=1e-5)

    def test_keep_an_x_that_is_no_matrix_in_its_own_type(self):
        for x in (torch.arange(1 << 40, (1 << 40) + 300), torch.rand(300, 2, 3)):
            with strata.from_pyg(Data(x=x, edge_index=self.plain.edge_index)) as graph:
                batch = next(iter(strata.NeighborLoader(graph, [3], batch_size=20)))
                self.assertTrue(torch.equal(batch.x.cpu(), x[batch.n_id.cpu()]))

    def test_are_read_in_mapped_files_and_arrays(self):
        with tempfile.TemporaryDirectory(prefix="strata-python-") as folder:
            file = pathlib.Path(folder) / "attr.npy"
            numpy.save(file, self.weights.numpy().reshape(-1, 1))
            mapped = numpy.load(file, mmap_mode="r")
            given = {"mapped": mapped, "backwards": self.weights.numpy()[::-1], "list": self.weights.tolist()}
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                graph = strata.from_tensors(self.plain.edge_index, num_nodes=300, edge_attrs=given)
            with graph:
                self.assertEqual(graph._attributes.edges["mapped"].values.data_ptr(), mapped.ctypes.data)
                batch = next(iter(strata.NeighborLoader(graph, [3], batch_size=20)))
                of_edges = self.weights[batch.e_id.cpu()]
                self.assertTrue(torch.equal(batch.mapped.cpu().view(-1), of_edges))
                self.assertTrue(torch.equal(batch.list.cpu().float(), of_edges))
                self.assertTrue(torch.equal(batch.backwards.cpu(), self.weights.flip(0)[batch.e_id.cpu()]))

    def test_are_padded_for_recorded_steps(self):
        data = Data(x=self.plain.x, edge_index=self.plain.edge_index, edge_weight=self.weights, age=torch.arange(300))
        with strata.from_pyg(data) as graph:
            loader = strata.NeighborLoader(graph, [4, 3], batch_size=32)

            def step(batch):
                return (batch.x[batch.edge_index[0]].sum(dim=1) * batch.edge_weight).sum() + batch.age.sum()

            recorded = strata.graphed(step, loader)
            for batch in loader:
                torch.testing.assert_close(recorded(batch), step(batch))
            with self.assertRaisesRegex(strata.InputError, 'cannot be padded\n  Take subgraph_type="directional"'):
                strata.graphed(step, strata.NeighborLoader(graph, [4, 3], batch_size=32, subgraph_type="induced"))

    def test_of_weights_that_are_only_sampled_by_give_a_warning(self):
        with tempfile.TemporaryDirectory(prefix="strata-python-") as folder:
            strata.save(Data(x=self.plain.x, edge_index=self.plain.edge_index, edge_weight=self.weights), f"{folder}/npy")
            with strata.load(f"npy:{folder}/npy", weights=True) as graph:
                with self.assertWarnsRegex(UserWarning, "its batches have no edge_weight: .*edge_weight.batch.e_id"):
                    strata.NeighborLoader(graph, [3], None)
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    strata.NeighborLoader(graph, [3], None, sampler="weighted")

    def test_are_refused_where_they_do_not_fit(self):
        edges = self.plain.edge_index
        for options, message in (
            ({"edge_attrs": {"w": torch.ones(7)}}, "w has 7 rows for 1800 edges"),
            ({"node_attrs": {"age": torch.ones(299)}, "num_nodes": 300}, "age has 299 rows for 300 nodes"),
            ({"node_attrs": {"n_id": torch.ones(300)}}, "node_attrs has 'n_id', which batches have themselves"),
            ({"x": self.plain.x, "node_attrs": {"x": torch.ones(300)}}, "x is given twice"),
        ):
            with self.subTest(message), self.assertRaisesRegex(strata.InputError, message):
                strata.from_tensors(edges, **options)

    def test_choose_neighbors_only_where_they_are_the_graphs_weights(self):
        weights = torch.where(torch.arange(1800) % 3 == 0, 1.0, 0.0)
        for data in (self.data, Data(x=self.plain.x, edge_index=self.plain.edge_index)):
            data.cost = weights
            with strata.from_pyg(data) as graph, self.assertRaisesRegex(strata.InputError, "from_pyg.data, edge_weight=data.cost"):
                strata.NeighborLoader(graph, [3], None, weight_attr="cost")
            with strata.from_pyg(data, edge_weight=data.cost) as graph:
                for batch in strata.NeighborLoader(graph, [3], None, batch_size=50, weight_attr="cost"):
                    self.assertEqual((batch.e_id % 3).sum(), 0)
                    self.assertTrue(torch.equal(batch.cost, batch.edge_weight) and torch.equal(batch.cost.cpu(), weights[batch.e_id.cpu()]))


class Subgraphs(unittest.TestCase):
    def setUp(self):
        self.plain = random_graph(num_nodes=200, num_edges=1500)
        self.edge_attr = torch.rand(1500, 2)
        self.graph = self.plain.load(strata, edge_attrs={"edge_attr": self.edge_attr})
        self.addCleanup(self.graph.close)

    def loader(self, kind, **options):
        return strata.NeighborLoader(self.graph, [3, 2], None, batch_size=20, subgraph_type=kind, **options)

    def ends(self, batch):
        return batch.n_id.cpu()[batch.edge_index.cpu()]

    def test_induced_have_all_edges_among_their_nodes(self):
        edges = self.plain.edge_index
        for batch, sampled in zip(self.loader("induced"), self.loader("directional"), strict=True):
            self.assertTrue(torch.equal(batch.n_id, sampled.n_id))
            inside = torch.isin(edges[0], batch.n_id.cpu()) & torch.isin(edges[1], batch.n_id.cpu())
            self.assertEqual(sorted(batch.e_id.tolist()), inside.nonzero().view(-1).tolist())
            self.assertTrue(torch.equal(self.ends(batch), edges[:, batch.e_id.cpu()]))
            self.assertTrue(torch.equal(batch.edge_attr.cpu(), self.edge_attr[batch.e_id.cpu()]))
            self.assertNotIn("num_sampled_edges", batch)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            old = strata.NeighborLoader(self.graph, [3, 2], None, batch_size=20, directed=False)
        for batch, same in zip(old, self.loader("induced"), strict=True):
            self.assertTrue(torch.equal(batch.edge_index, same.edge_index))

    def test_bidirectional_have_every_pair_of_sampled_ends_once_in_both_directions(self):
        from torch_geometric.utils import is_undirected

        for batch, sampled in zip(self.loader("bidirectional"), self.loader("directional"), strict=True):
            pairs = set(map(tuple, sampled.edge_index.t().tolist()))
            expected = sorted(pairs | {(b, a) for a, b in pairs}, key=lambda pair: (pair[1], pair[0]))
            self.assertEqual(list(map(tuple, batch.edge_index.t().tolist())), expected)
            self.assertTrue(is_undirected(batch.edge_index))
            own, given = self.ends(batch), self.plain.edge_index[:, batch.e_id.cpu()]
            is_own = (own == given).all(dim=0)
            self.assertTrue(torch.equal(torch.where(is_own, own, own.flip(0)), given))
            self.assertEqual([pair in pairs for pair in expected], is_own.tolist())
            self.assertTrue(torch.equal(batch.edge_attr.cpu(), self.edge_attr[batch.e_id.cpu()]))

    def test_of_nodes_without_edges_are_empty(self):
        with strata.from_tensors(torch.empty(2, 0, dtype=torch.int64), num_nodes=4) as graph:
            for kind in ("induced", "bidirectional"):
                batch = next(iter(strata.NeighborLoader(graph, [3], batch_size=3, subgraph_type=kind)))
                self.assertEqual((batch.edge_index.shape, batch.num_nodes), ((2, 0), 3))


class InputNodes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="strata-python-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def parts(self):
        """A graph in two parts, and the mask of its training nodes in the order of the input."""
        plain = random_graph(num_nodes=500, num_edges=3000)
        mask = torch.zeros(500, dtype=torch.bool)
        mask[plain.train] = True
        strata.save(Data(x=plain.x, edge_index=plain.edge_index, y=plain.y, train_mask=mask), self.folder / "npy")
        strata.partition(f"npy:{self.folder / 'npy'}", parts=2, output=str(self.folder / "parts"), progress=False)
        graph = strata.load(str(self.folder / "parts"))
        self.addCleanup(graph.close)
        return plain, mask, graph

    def test_of_the_input_are_told_from_the_graphs(self):
        plain, mask, graph = self.parts()
        self.assertTrue(graph.is_renumbered)

        def seeds(nodes, loader=strata.NeighborLoader, **options):
            made = loader(graph, [2], nodes, **options) if loader is strata.NeighborLoader else loader(graph, nodes, fanouts=[2], **options)
            batches = list(made)
            found = [batch.n_id[: batch.batch_size] if "n_id" in batch else batch.output_nodes for batch in batches]
            return graph.original_ids(torch.cat(found).cpu()).tolist()

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for loader in (strata.NeighborLoader, strata.NodeLoader):
                for nodes in (mask, plain.train, mask.numpy(), plain.train.tolist()):
                    self.assertEqual(seeds(nodes, loader, batch_size=64, original=True), plain.train.tolist())
            ids = graph.nodes("train")
            self.assertEqual(seeds(ids, batch_size=64), plain.train.tolist())
            own = torch.zeros(500, dtype=torch.bool).index_fill(0, ids, True)
            self.assertEqual(sorted(seeds(own, batch_size=64, original=False)), plain.train.tolist())
            of_shown = strata.NeighborLoader(graph, [2], mask, batch_size=64, original=True)([5, 7])
            self.assertEqual(graph.original_ids(of_shown.n_id[:2].cpu()).tolist(), plain.train[[5, 7]].tolist())
        for use in (lambda: seeds(mask, batch_size=64), lambda: graph.features[mask], lambda: graph.labels[mask]):
            with self.assertWarnsRegex(UserWarning, "is a mask of all nodes, and this graph has numbered its nodes anew.*original=True") as caught:
                use()
            self.assertEqual(caught.filename, __file__)
        with self.assertRaisesRegex(TypeError, "original is 'yes'; give True or False"):
            seeds(mask, original="yes")

    def test_that_are_left_out_are_all_nodes_or_refused(self):
        plain = random_graph()
        with strata.from_tensors(plain.edge_index, plain.x) as graph:
            self.assertEqual(len(strata.NeighborLoader(graph, [2], batch_size=100)), 10)
            self.assertEqual(len(strata.NeighborLoader(graph, [2], batch_size=100)([3, 999]).input_id), 2)
        with plain.load(strata) as graph:
            with self.assertRaisesRegex(strata.InputError, '600 of the graph.s 1000 nodes are training nodes\n  Give input_nodes="train"'):
                strata.NeighborLoader(graph, [2], batch_size=100)
            self.assertEqual(len(strata.NodeLoader(graph, fanouts=[2], batch_size=100)), 6)
            for name in ("val", "valid"):
                self.assertEqual(graph.nodes(name).tolist(), plain.valid.tolist())
                self.assertEqual(len(strata.NeighborLoader(graph, [2], name, batch_size=100).dataset), 200)

    def test_of_no_batches_give_a_warning(self):
        plain = random_graph()
        with strata.from_tensors(plain.edge_index, plain.x) as graph:
            for make, message in (
                (lambda: strata.NodeLoader(graph, fanouts=[2]), "no nodes of the split 'train'; input_nodes takes ids, a mask, or None"),
                (lambda: strata.NeighborLoader(graph, [2], "val"), "no nodes of the split 'val'"),
                (lambda: strata.NeighborLoader(graph, [2], torch.zeros(1000, dtype=torch.bool)), "input_nodes has no nodes"),
                (lambda: strata.NeighborLoader(graph, [2], range(9), batch_size=10, drop_last=True), "9 input nodes are fewer"),
            ):
                with self.subTest(message), self.assertWarnsRegex(UserWarning, f"has no batches: .*{message}") as caught:
                    self.assertEqual(list(make()), [])
                self.assertEqual(caught.filename, __file__)


if __name__ == "__main__":
    unittest.main()
