# SPDX-License-Identifier: Apache-2.0
"""strata.dgl: graphs by DGL's names, and layers with its arguments. What needs DGL itself is skipped where it is not installed."""

import os
import pickle
import unittest

import torch

import strata
import strata.dgl as dgl_names
from test_dgl import HAS_DGL, DglCase, OwnSampler


class Graphs(DglCase):
    def setUp(self):
        super().setUp()
        self.named = dgl_names.DGLGraph(self.graph)

    def test_answer_to_names_of_dgl(self):
        named, plain = self.named, self.plain
        self.assertEqual((named.num_nodes(), named.number_of_edges(), named.is_homogeneous, named.is_block), (1000, 6000, True, False))
        self.assertTrue(torch.equal(named.nodes(), torch.arange(1000)))
        degrees = torch.bincount(plain.edge_index[1], minlength=1000)
        self.assertTrue(torch.equal(named.in_degrees(), degrees))
        self.assertTrue(torch.equal(named.in_degrees([[7, 3]]), degrees[torch.tensor([[7, 3]])]))
        self.assertEqual(sorted(zip(*map(torch.Tensor.tolist, named.edges()))), sorted(zip(*plain.edge_index.tolist())))
        src, dst, ids = named.in_edges([7, 3], form="all")
        self.assertTrue(torch.equal(torch.stack([src, dst]), plain.edge_index[:, ids]))
        self.assertIs(named.int().long().to(named.device), named)
        self.assertIsNone(named.create_formats_())
        self.assertEqual(named.num_features, 16)
        with self.assertRaisesRegex(strata.InputError, "device='meta' is not this process's(.|\n)*strata.unified.tensor..ids."):
            named.to("meta")
        with self.assertRaisesRegex(AttributeError, "DGLGraph has no 'update_all': functions over whole graphs"):
            getattr(named, "update_all")  # noqa: B009

    def test_have_features_labels_and_masks_as_data_of_nodes(self):
        ndata, ids = self.named.ndata, [5, 700]
        self.assertTrue(torch.equal(ndata["feat"][ids].cpu(), self.plain.x[ids]))
        self.assertTrue(torch.equal(ndata["label"][ids].cpu(), self.plain.y[ids]))
        for name, nodes in (("train", self.plain.train), ("val", self.plain.valid), ("test", self.plain.test)):
            self.assertTrue(torch.equal(ndata[f"{name}_mask"].nonzero().view(-1), nodes))
        kept = set(ndata)
        with self.named.local_scope():
            ndata["h"] = ndata.pop("feat")
            self.named.edata["w"] = 1
        self.assertEqual((set(ndata), self.named.edata), (kept, {}))
        featureless = strata.from_tensors(self.plain.edge_index, num_nodes=1000)
        self.addCleanup(featureless.close)
        self.assertNotIn("feat", dgl_names.DGLGraph(featureless).ndata)

    def test_are_sampled(self):
        seen = []

        class Mine(OwnSampler):
            def sample_frontier(self, layer_id, g, seed_nodes):
                seen.append(g)
                return super().sample_frontier(layer_id, g, seed_nodes)

        for sampler in (dgl_names.NeighborSampler([2, 3]), Mine([2, 3])):
            loader = dgl_names.NodeDataLoader(self.named, self.plain.train, sampler, batch_size=64, blocks="strata")
            self.assert_same(list(loader), list(self.loader(sampler)))
        self.assertIs(seen[0], self.named)

    def test_are_asked_for_what_is_elsewhere(self):
        for name, words in (
            ("x", "graph.features"),
            ("y", "graph.labels"),
            ("train_mask", 'graph.nodes."train"'),
            ("edge_index", "graph.in_edges"),
            ("ndata", "strata.dgl.DGLGraph"),
            ("in_degrees", "strata.dgl.DGLGraph"),
        ):
            with self.assertRaisesRegex(AttributeError, f"strata.Graph has no '{name}': .*{words}"):
                getattr(self.graph, name)
        self.assertFalse(hasattr(self.graph, "nothing_of_the_kind"))

    def test_go_to_other_processes(self):
        """Each makes its own, when it first uses it: here a process that learned of its rank after the graph was unpickled."""
        weighted = strata.from_tensors(
            self.plain.edge_index, self.plain.x, self.plain.y, edge_weight=torch.rand(6000), train=self.plain.train
        )
        spec = strata.load("synthetic:kind=sbm,nodes=2000,features=4,classes=4,train=600", fanouts=[3], weights=False)
        graphs = {"tensors": self.graph, "weights": weighted, "a source": spec, "names": self.named}
        for what, graph in graphs.items():
            with self.subTest(what):
                held = pickle.loads(pickle.dumps(graph))
                self.assertIn("to be made in this process", repr(held))
                one, other = (
                    list(dgl_names.DataLoader(g, "train", dgl_names.NeighborSampler([3]), batch_size=100, blocks="strata"))
                    for g in (graph, held)
                )
                self.assertEqual(len(one), 6)
                for mine, theirs in zip(one, other):
                    self.assertTrue(torch.equal(mine.input_nodes, theirs.input_nodes))
                    self.assertEqual(mine.blocks[0].edata.keys(), theirs.blocks[0].edata.keys())
                    self.assertTrue(torch.equal(mine.blocks[0].indices, theirs.blocks[0].indices))
                self.assertTrue(torch.equal(graph.features[:], held.features[:]))
                held.close()
        for graph in (weighted, spec):
            graph.close()

    def test_of_a_forked_process_refuse_loaders(self):
        for make in (lambda: self.loader(OwnSampler([2])), lambda: strata.NodeLoader(self.graph, fanouts=[2], own_nodes=True)):
            reader, writer = os.pipe()
            if os.fork() == 0:
                try:
                    make()
                except strata.InputError as error:
                    os.write(writer, str(error).encode())
                os._exit(0)
            os.close(writer)
            with os.fdopen(reader) as told:
                self.assertRegex(told.read(), "was forked from one that uses Strata\n.*spawn method, which graphs can be handed to")
            os.wait()


class Layers(DglCase):
    def test_take_blocks_first(self):
        layers = dgl_names.nn
        torch.manual_seed(0)
        for make in (
            lambda i, o: layers.SAGEConv(i, o, "mean", activation=torch.relu),
            lambda i, o: layers.GraphConv(i, o, allow_zero_in_degree=True),
            lambda i, o: layers.GATConv(i, o, 1, allow_zero_in_degree=True),
            lambda i, o: layers.GINConv(torch.nn.Linear(i, o), learn_eps=True),
        ):
            model = torch.nn.ModuleList([make(16, 8), make(8, 4)]).to(strata.process().device)
            for input_nodes, output_nodes, blocks in self.loader(dgl_names.NeighborSampler([3, 3])):
                x = self.graph.features[input_nodes]
                for layer, block in zip(model, blocks):
                    x = layer(block, x).reshape(block.num_dst_nodes(), -1)
                self.assertEqual(x.shape, (len(output_nodes), 4))
            x.sum().backward()
            self.assertTrue(all(weight.grad is not None for weight in model.parameters()))
        whole, x = dgl_names.DGLGraph(self.graph), self.plain.x.to(strata.process().device)
        with self.subTest("of a whole graph"):
            mean = layers.GraphConv(16, 4, norm="right", allow_zero_in_degree=True).to(x.device)
            self.assertEqual(mean(whole, x).shape, (1000, 4))
        for call, kind, words in (
            (lambda: layers.SAGEConv(16, 4, "lstm"), strata.InputError, 'aggregator_type=.lstm.. is not possible\n.*Choose "mean"'),
            (lambda: layers.GraphConv(16, 4)(whole, x), strata.InputError, "nodes without in-edges(.|\n)*allow_zero_in_degree=True"),
            (lambda: layers.GraphConv(16, 4, norm="sum"), strata.InputError, "norm='sum'. is not possible"),
            (lambda: layers.SAGEConv(16, 4, "mean")(x, whole), TypeError, r"call the layer as layer\(block, x\)"),
        ):
            with self.subTest(words), self.assertRaisesRegex(kind, words):
                call()

    @unittest.skipUnless(HAS_DGL, "DGL is not installed")
    def test_give_what_those_of_dgl_give(self):
        import dgl.nn

        ours, frontier = dgl_names.nn, dgl_names.sample_neighbors(self.graph, torch.arange(300), 4)
        block = dgl_names.to_block(frontier)
        x = self.plain.x[block.src_nodes]

        def copy_of(kind, layer):
            if kind == "SAGEConv":
                return {"fc_neigh.weight": layer.lin_l.weight, "fc_self.weight": layer.lin_r.weight, "fc_self.bias": layer.lin_l.bias}
            if kind == "GATConv":
                return {"fc.weight": layer.lin.weight, "attn_l": layer.att_src, "attn_r": layer.att_dst, "bias": layer.bias}
            return dict(layer.state_dict())

        cases = [("SAGEConv", (16, 4, "mean"), {}), ("GATConv", (16, 4, 3), {"allow_zero_in_degree": True}), ("GINConv", (), {"init_eps": 0.5})]
        cases += [("GraphConv", (16, 4), {"norm": norm, "allow_zero_in_degree": True}) for norm in ("both", "right", "left", "none")]
        for kind, arguments, options in cases:
            with self.subTest(kind, **options):
                mine, theirs = getattr(ours, kind)(*arguments, **options), getattr(dgl.nn, kind)(*arguments, **options)
                if arguments:
                    theirs.load_state_dict(copy_of(kind, mine))
                expected = theirs(block.to_dgl(), x)
                for graph in (block, block.to_dgl()):
                    torch.testing.assert_close(mine(graph, x), expected, atol=1e-5, rtol=1e-5)


class Names(unittest.TestCase):
    def test_that_are_missing_name_another_way(self):
        for module, name, words in (
            (dgl_names, "graph", "strata.from_tensors"),
            (dgl_names, "as_heterograph", "leave the call out"),
            (dgl_names, "heterograph", "from_pyg.HeteroData. makes a graph of several types"),
            (dgl_names.dataloading, "EdgeDataLoader", "as_edge_prediction_sampler"),
            (strata, "RandomLinkSplit", "LinkNeighborLoader their edge_label_index"),
            (strata, "HeteroData", "strata.from_pyg.data. makes a graph of a HeteroData"),
            (strata, "ShaDowKHopSampler", "strata.NeighborChooser"),
            (strata, "nothing", "module 'strata' has no attribute 'nothing'$"),
            (strata.nn, "GATv2Conv", "torch_geometric.nn has it"),
            (dgl_names, "nothing", "has no attribute 'nothing'$"),
        ):
            with self.assertRaisesRegex(AttributeError, words):
                getattr(module, name)


if __name__ == "__main__":
    unittest.main()
