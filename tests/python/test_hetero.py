# SPDX-License-Identifier: Apache-2.0
"""Graphs of several types: batches of HeteroData against the graph they come from, and against PyG's layers on all of it."""

import copy
import itertools
import threading
import unittest
import warnings

import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import HeteroConv, SAGEConv
from torch_geometric.sampler import NumNeighbors
from torch_geometric.utils import trim_to_layer

import strata
from strata import nn

COUNTS = {"paper": 400, "author": 150, "venue": 7, "nothing": 0}
EDGES = {
    ("author", "writes", "paper"): 1500,
    ("paper", "written_by", "author"): 1500,
    ("paper", "cites", "paper"): 3000,
    ("paper", "likes", "paper"): 200,  # parallel to the one before
    ("venue", "shows", "paper"): 400,
    ("author", "knows", "author"): 0,
    ("paper", "in", "venue"): 400,
}
HOPS = 3


def random_data(seed=1):
    random = torch.Generator().manual_seed(seed)
    data = HeteroData()
    for kind, count in COUNTS.items():
        data[kind].num_nodes = count
    data["paper"].x = torch.randn(COUNTS["paper"], 16, generator=random)
    data["paper"].y = torch.randint(5, (COUNTS["paper"],), generator=random)
    data["paper"].train_mask = torch.rand(COUNTS["paper"], generator=random) < 0.5
    data["author"].x = torch.randn(COUNTS["author"], 3, generator=random).half()
    data["nothing"].x = torch.randn(0, 9)
    for kind, count in EDGES.items():
        ends = [torch.randint(COUNTS[end], (count,), generator=random) for end in (kind[0], kind[2])]
        data[kind].edge_index = torch.stack(ends)
    data["paper", "cites", "paper"].edge_attr = torch.randn(3000, 2, generator=random)
    return data


def loader_of(graph, fanouts, nodes=("paper", None), **options):
    return strata.NeighborLoader(graph, fanouts, input_nodes=nodes, **({"batch_size": 32} | options))


class Hetero(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.data = random_data()
        cls.graph = strata.from_pyg(cls.data)
        cls.degrees = {kind: cls.data[kind].edge_index[1].bincount(minlength=COUNTS[kind[2]]) for kind in EDGES}

    @classmethod
    def tearDownClass(cls):
        cls.graph.close()

    def check(self, batch, fanouts, seeds):
        """All that PyG promises of a batch; fanouts by relation and hop."""
        self.assertEqual(batch.node_types, list(COUNTS))
        self.assertEqual(batch.edge_types, list(EDGES))
        self.assertEqual(batch.input_type, "paper")
        self.assertEqual(batch["paper"].n_id[: batch["paper"].batch_size].tolist(), seeds.tolist())
        for kind in COUNTS:
            store = batch[kind]
            self.assertEqual(len(store.num_sampled_nodes), HOPS + 1)
            self.assertEqual(sum(store.num_sampled_nodes), len(store.n_id))
            self.assertEqual(store.num_sampled_nodes[0], len(seeds) if kind == "paper" else 0)
            self.assertEqual(len(store.n_id.unique()), len(store.n_id))
            for name, rows in self.data[kind].items():
                if name != "num_nodes":
                    self.assertTrue(torch.equal(store[name].cpu(), rows[store.n_id.cpu()]), name)
        for kind in EDGES:
            self.check_relation(batch, kind, fanouts[kind])

    def check_relation(self, batch, kind, fanouts):
        store, source, destination = batch[kind], batch[kind[0]], batch[kind[2]]
        self.assertEqual(len(store.num_sampled_edges), HOPS)
        edges = store.edge_index.cpu()
        true = self.data[kind].edge_index[:, store.e_id.cpu()]
        self.assertTrue(torch.equal(torch.stack([source.n_id.cpu()[edges[0]], destination.n_id.cpu()[edges[1]]]), true))
        self.assertEqual(len(store.e_id.unique()), len(store.e_id))
        self.assertEqual(edges.shape[1], sum(store.num_sampled_edges))
        ends = list(itertools.accumulate(destination.num_sampled_nodes))
        first = 0
        for hop, (fanout, count) in enumerate(zip(fanouts, store.num_sampled_edges)):
            of_hop = edges[1, first : first + count]
            first += count
            # A node is expanded once, in the hop after it was found.
            expanded = torch.arange(ends[hop - 1] if hop else 0, ends[hop])
            degrees = self.degrees[kind][destination.n_id.cpu()[expanded]]
            wanted = degrees if fanout < 0 else degrees.clamp(max=fanout)
            found = of_hop.bincount(minlength=ends[-1])
            self.assertTrue(torch.equal(found[expanded], wanted), (kind, hop))
            self.assertEqual(int(found.sum()), int(wanted.sum()))
            self.assertTrue(bool((of_hop.diff() >= 0).all()))

    def test_batches_are_those_of_pyg(self):
        uneven = {kind: [3, 2, 1] for kind in EDGES} | {("paper", "cites", "paper"): [-1, 0, 4], ("venue", "shows", "paper"): [0, 0, 0]}
        for fanouts, nodes in (([3, 2, 2], "paper"), ([-1, 5, 1], ("paper", self.data["paper"].train_mask)), (uneven, ("paper", [9, 3, 200]))):
            of_relations = fanouts if isinstance(fanouts, dict) else dict.fromkeys(EDGES, fanouts)
            ids = {"paper": torch.arange(400)}.get(nodes) if isinstance(nodes, str) else torch.as_tensor(nodes[1])
            ids = ids.nonzero().view(-1) if ids.dtype == torch.bool else ids
            batches = list(loader_of(self.graph, fanouts, nodes))
            self.assertEqual(sum(batch["paper"].batch_size for batch in batches), len(ids))
            for number, batch in enumerate(batches):
                seeds = ids[32 * number : 32 * number + 32]
                is_mask = isinstance(nodes, tuple) and torch.as_tensor(nodes[1]).dtype == torch.bool
                expected = seeds.tolist() if is_mask else list(range(32 * number, 32 * number + len(seeds)))
                self.assertEqual(batch["paper"].input_id.tolist(), expected)
                self.check(batch, of_relations, seeds)

    def test_fanouts_may_have_a_default_and_short_keys(self):
        wanted = dict.fromkeys(EDGES, [2, 2, 0]) | {("paper", "cites", "paper"): [4, 1, 1]}
        short = NumNeighbors({("paper", "cites", "paper"): [4, 1, 1]}, default=[2, 2, 0])
        for batch, again in zip(loader_of(self.graph, wanted), loader_of(self.graph, short)):
            for kind in EDGES:
                self.assertTrue(torch.equal(batch[kind].e_id, again[kind].e_id))

    def test_one_relation_gives_the_batches_of_a_plain_graph(self):
        edge_index = self.data["paper", "cites", "paper"].edge_index
        alone = HeteroData()
        alone["paper"].num_nodes = 400
        alone["paper", "cites", "paper"].edge_index = edge_index
        pair = (strata.from_pyg(alone), strata.from_pyg(Data(edge_index=edge_index, num_nodes=400)))
        for replace in (False, True):
            typed = loader_of(pair[0], [4, 3, 2], shuffle=True, replace=replace)
            plain = strata.NeighborLoader(pair[1], [4, 3, 2], input_nodes=None, batch_size=32, shuffle=True, replace=replace)
            for one, other in zip(typed, plain, strict=True):
                self.assertTrue(torch.equal(one["paper"].n_id, other.n_id))
                self.assertTrue(torch.equal(one["paper", "cites", "paper"].edge_index, other.edge_index))
                self.assertTrue(torch.equal(one["paper", "cites", "paper"].e_id, other.e_id))
        for graph in pair:
            graph.close()

    def test_seeds_of_several_types_are_one_batch(self):
        nodes = [("author", [5, 2, 7]), ("paper", [1, 300])]
        (batch,) = loader_of(self.graph, [2, 2], nodes)
        self.assertEqual(batch["author"].n_id[:3].tolist(), [5, 2, 7])
        self.assertEqual(batch["paper"].n_id[:2].tolist(), [1, 300])
        self.assertEqual((batch["author"].batch_size, batch["paper"].batch_size), (3, 2))
        self.assertEqual(batch["paper"].input_id.tolist(), [0, 1])

    def test_a_loader_gives_the_batch_of_positions(self):
        nodes = [("author", [5, 2, 7]), ("paper", [1, 300, 9])]
        loader = loader_of(self.graph, [2, 2], nodes, transform=lambda batch: batch)
        batch = loader([4, 0, 2, 3])
        self.assertEqual(batch["author"].n_id[:2].tolist(), [5, 7])
        self.assertEqual(batch["paper"].n_id[:2].tolist(), [300, 1])
        self.assertEqual([batch[kind].input_id.tolist() for kind in ("author", "paper")], [[0, 2], [1, 0]])
        self.assertEqual([batch[kind].batch_size for kind in ("author", "paper")], [2, 2])
        whole = loader_of(self.graph, [3, 2, 2], "paper")
        mask = torch.zeros(400, dtype=torch.bool)
        mask[[11, 37]] = True
        for index in (mask, torch.tensor([11, 37]), [11, 37]):
            one = whole(index)
            self.assertEqual(one["paper"].input_id.tolist(), [11, 37])
            self.check(one, dict.fromkeys(EDGES, [3, 2, 2]), torch.tensor([11, 37]))
        self.assertEqual(loader([1])["paper"].batch_size, 0)
        with self.assertRaisesRegex(strata.InputError, "no input nodes"):
            loader([])

    def test_seeds_that_get_no_edges_are_named(self):
        with self.assertWarnsRegex(UserWarning, "no relation goes to 'nothing'"):
            loader_of(self.graph, [2], [("nothing", None), ("paper", [3])])

    def test_weights_of_one_relation_choose_and_others_are_uniform(self):
        data = random_data(2)
        data["paper", "cites", "paper"].edge_weight = (torch.arange(3000) % 3 == 0).float()
        with strata.from_pyg(data) as graph:
            for batch in loader_of(graph, [3, 2, 2], sampler="weighted"):
                self.assertTrue(bool((batch["paper", "cites", "paper"].e_id % 3 == 0).all()))
                self.assertTrue(torch.equal(batch["paper", "cites", "paper"].edge_weight.cpu(), torch.ones(len(batch["paper", "cites", "paper"].e_id))))
                self.assertGreater(len(batch["author", "writes", "paper"].e_id), 0)

    def test_models_of_pyg_give_what_they_give_on_the_whole_graph(self):
        torch.manual_seed(3)
        data = random_data(3)
        device = strata.process().device
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyG's, that nothing flows into a type
            convs = [
                HeteroConv({kind: SAGEConv((-1, -1), 8) for kind in EDGES if kind != ("author", "knows", "author")}).to(device) for _ in range(2)
            ]
            for kind, count in COUNTS.items():
                data[kind].x = torch.randn(count, 6)
            del data["nothing"]
            whole = data.to(device)
            with torch.no_grad():
                h = convs[0](whole.x_dict, {k: e for k, e in whole.edge_index_dict.items() if k in EDGES})
                expected = convs[1]({kind: rows.relu() for kind, rows in h.items()}, whole.edge_index_dict)["paper"]
            with strata.from_pyg(data.to("cpu")) as graph, torch.no_grad():
                for batch in loader_of(graph, [-1, -1], batch_size=50):
                    x, edge_index = batch.x_dict, batch.edge_index_dict
                    for layer, conv in enumerate(convs):
                        x, edge_index, _ = trim_to_layer(
                            layer, batch.num_sampled_nodes_dict, batch.num_sampled_edges_dict, x, edge_index
                        )
                        x = conv(x, edge_index)
                        x = {kind: rows.relu() for kind, rows in x.items()} if layer == 0 else x
                    seeds = batch["paper"].n_id[: batch["paper"].batch_size]
                    torch.testing.assert_close(x["paper"][: len(seeds)], expected[seeds], rtol=1e-5, atol=1e-5)

    def test_equal_features_of_all_types_are_the_graphs_own(self):
        data = random_data(4)
        for kind, count in COUNTS.items():
            data[kind].x = torch.randn(count, 6)
        with strata.from_pyg(data) as graph:
            self.assertEqual((graph.num_nodes, graph.num_features), (sum(COUNTS.values()), 6))
            for batch in loader_of(graph, [3, 2]):
                for kind in COUNTS:
                    self.assertTrue(torch.equal(batch[kind].x.cpu(), data[kind].x[batch[kind].n_id.cpu()]))
        data["author"].x = torch.randn(COUNTS["author"] - 1, 6)
        data["author"].num_nodes = COUNTS["author"]
        with self.assertRaisesRegex(strata.InputError, "x of 'author' has no row for each of 150"):
            strata.from_pyg(data)

    def test_blocks_and_layers_over_them_give_what_the_whole_graph_gives(self):
        torch.manual_seed(6)
        data = random_data(5)
        del data["nothing"]
        for kind in data.node_types:
            data[kind].x = torch.randn(COUNTS[kind], 8)
        device, kinds = strata.process().device, data.edge_types
        sage = {kind: nn.SAGEConv(8, 8) for kind in kinds}
        attention = {kind: nn.GATConv(8, 4, heads=2, add_self_loops=False) for kind in kinds}
        layers = [nn.HeteroConv(convs, aggr) for convs in (sage, attention) for aggr in ("sum", "mean")]
        layers.append(nn.HGTConv(8, 8, data.metadata(), heads=2))
        with strata.from_pyg(data) as graph:
            for layer in layers:
                layer.to(device)
                x = data.to(device).x_dict
                once = layer(x, data.edge_index_dict)
                expected = layer({kind: rows.relu() for kind, rows in once.items()}, data.edge_index_dict)["paper"]
                loader = strata.NodeLoader(graph, "paper", fanouts=[-1, -1], batch_size=400, features=True)
                ((inputs, seeds, blocks), rows, labels) = next(iter(loader))
                self.assertEqual(len(rows), len(inputs))
                h = layer(layer(rows, blocks[0]).relu(), blocks[1])
                torch.testing.assert_close(h, expected[seeds], rtol=1e-4, atol=1e-4)
                self.assertTrue(torch.equal(labels, data["paper"].y[seeds]))
                grads = [torch.autograd.grad(out.square().sum(), list(layer.parameters()), allow_unused=True) for out in (h, expected)]
                for one, other in zip(*grads, strict=True):
                    torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)
                ends = blocks[0].types.of_nodes[blocks[0].edge_index[0]]
                wanted = torch.tensor([graph.node_types.index(kind[0]) for kind in graph.edge_types], device=device)
                self.assertTrue(torch.equal(ends, wanted[blocks[0].types.of_edges]))
                data = data.to("cpu")

    def test_the_host_never_waits_for_a_gpu_on_blocks(self):
        device = torch.device(strata.process().device)
        if device.type != "cuda":
            self.skipTest("needs a GPU")
        kinds = self.graph.edge_types
        layers = [
            nn.HeteroConv({kind: nn.SAGEConv(8, 8) for kind in kinds}, "mean"),
            nn.HeteroConv({kind: nn.GATConv(8, 4, heads=2, add_self_loops=False) for kind in kinds}),
            nn.HGTConv(8, 8, self.graph.metadata(), heads=2),
        ]
        layers = [layer.to(device) for layer in layers]
        relational = nn.RGCNConv(8, 8, len(kinds)).to(device)
        loader = strata.NodeLoader(self.graph, "paper", fanouts=[4, 3], batch_size=40)
        for batch in loader:  # the first allocates
            x = torch.randn(len(batch.input_nodes), 8, device=device, requires_grad=True)
            torch.cuda.synchronize()
            torch.cuda.set_sync_debug_mode("error")
            try:
                for layer in layers:
                    h = layer(x, batch.blocks[0]).relu()
                    relational(h, batch.blocks[1], batch.blocks[1].types.of_edges).sum().backward()
            finally:
                torch.cuda.set_sync_debug_mode("default")

    def test_two_threads_load_and_train(self):
        data = random_data(7)
        for kind in data.node_types:
            data[kind].x = torch.randn(COUNTS[kind], 8)

        def train(number, results):
            layer = copy.deepcopy(layers[number])
            loader = strata.NodeLoader(graph, "paper", fanouts=[4, 3], batch_size=100, shuffle=True, seed=number, features=True)
            losses = []
            for batch, x, _ in loader:
                for block in batch.blocks:
                    x = layer(x, block).relu()
                losses.append(x.square().mean())
                losses[-1].backward()
            results[number] = [loss.item() for loss in losses] + [p.grad.double().sum().item() for p in layer.parameters()]

        layers = [nn.HeteroConv({kind: nn.SAGEConv(8, 8) for kind in EDGES}, "mean") for _ in range(2)]
        with strata.from_pyg(data) as graph:
            for layer in layers:
                layer.to(strata.process().device)
            alone, together = {}, {}
            for number in range(2):
                train(number, alone)
            threads = [threading.Thread(target=train, args=(number, together)) for number in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(together, alone)

    def test_mistakes_are_named(self):
        graph = self.graph
        for fanouts, nodes, message in (
            ({("paper", "cites", "paper"): [2]}, "paper", "does not name the relation"),
            ({("paper", "eats", "paper"): [2]}, "paper", "no relation"),
            ([2], "book", "names no type of nodes"),
            ([2], None, "names no type of nodes"),
            ([2], [("paper", [1]), ("paper", [2])], "names 'paper' twice"),
            ([2], ("paper", torch.ones(3, dtype=torch.bool)), "a mask of shape"),
            (dict.fromkeys(EDGES, [2]) | {("paper", "cites", "paper"): [2, 2]}, "paper", "number of hops must be the same"),
        ):
            with self.assertRaisesRegex(strata.InputError, message):
                loader_of(graph, fanouts, nodes)
        with self.assertRaises(IndexError):
            loader_of(graph, [2], ("author", [150]))
        data = random_data()
        with self.assertRaisesRegex(strata.InputError, "split=1 chooses a column"):
            strata.from_pyg(data, split=1)
        data["author", "writes", "paper"].edge_index[0, 7] = 150
        with self.assertRaisesRegex(strata.InputError, "edge 7 names node 150 of the type 'author', which has 150 nodes"):
            strata.from_pyg(data)
        self.assertEqual(graph.metadata(), (list(COUNTS), list(EDGES)))


if __name__ == "__main__":
    unittest.main()
