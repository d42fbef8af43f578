# SPDX-License-Identifier: Apache-2.0
"""PyG's own models on our batches: with all neighbors they give the logits of the whole graph."""

import unittest

import torch
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


if __name__ == "__main__":
    unittest.main()
