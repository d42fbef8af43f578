# SPDX-License-Identifier: Apache-2.0
"""strata.dgl: DGL's samplers, loaders and blocks by DGL's names. What needs DGL itself is skipped where it is not installed.

    python -m venv dgl && dgl/bin/pip install torch==2.11.0 numpy torch_geometric dgl==1.1.3
    PYTHONPATH=build/cuda/python dgl/bin/python tests/python/test_dgl.py
"""

import importlib.util
import pathlib
import subprocess
import sys
import unittest
import warnings

import torch

import strata
import strata.dgl as dgl_names
from random_graphs import random_graph
from test_threads import at_once

HERE = pathlib.Path(__file__).resolve().parent
HAS_DGL = importlib.util.find_spec("dgl") is not None


class OwnSampler(dgl_names.dataloading.BlockSampler):
    """That of DGL's tutorial of several GPUs."""

    def __init__(self, fanouts, **options):
        super().__init__(len(fanouts), return_eids=False, **options)
        self.fanouts = fanouts

    def sample_frontier(self, layer_id, g, seed_nodes):
        return dgl_names.sampling.sample_neighbors(g, seed_nodes, self.fanouts[layer_id])


class NewerSampler(dgl_names.BlockSampler):
    """As DGL writes them since 0.8."""

    def sample_blocks(self, g, seed_nodes, exclude_eids=None):
        output_nodes, blocks = seed_nodes, []
        for fanout in (3, 4):
            block = dgl_names.to_block(dgl_names.sample_neighbors(g, seed_nodes, fanout), seed_nodes)
            seed_nodes = block.srcdata[dgl_names.NID]
            blocks.insert(0, block)
        return seed_nodes, output_nodes, blocks


class DglCase(unittest.TestCase):
    def setUp(self):
        self.plain = random_graph()
        self.graph = self.plain.load(strata)
        self.addCleanup(self.graph.close)

    def loader(self, sampler, nids=None, **options):
        options = {"batch_size": 64, "blocks": "strata"} | options
        return dgl_names.NodeDataLoader(self.graph, self.plain.train if nids is None else nids, sampler, **options)

    def assert_same(self, one, other):
        self.assertEqual(len(one), len(other))
        for mine, theirs in zip(one, other):
            self.assertTrue(torch.equal(mine.input_nodes, theirs.input_nodes))
            self.assertTrue(torch.equal(mine.output_nodes, theirs.output_nodes))
            for a, b in zip(mine.blocks, theirs.blocks):
                for name in ("edge_index", "indptr", "indices", "edge_ids", "src_nodes"):
                    self.assertTrue(torch.equal(getattr(a, name), getattr(b, name)), name)
                self.assertEqual((a.size, a.indices.dtype), (b.size, b.indices.dtype))


class Samplers(DglCase):
    def test_take_fanouts_of_the_farthest_layer_first(self):
        for sampler in (dgl_names.MultiLayerNeighborSampler([2, 3, 4]), OwnSampler([2, 3, 4])):
            widest = [0, 0, 0]
            for _, output_nodes, blocks in self.loader(sampler):
                self.assertEqual(blocks[-1].num_dst_nodes(), len(output_nodes))
                widest = [max(most, int(block.in_degrees().max())) for most, block in zip(widest, blocks)]
            self.assertEqual(widest, [2, 3, 4])

    def test_of_ones_own_draw_what_the_loaders_in_cpp_draw(self):
        native = list(strata.NodeLoader(self.graph, "train", fanouts=[4, 3, 2], batch_size=64, seed=5))
        for sampler in (dgl_names.NeighborSampler([2, 3, 4]), OwnSampler([2, 3, 4])):
            self.assert_same(list(self.loader(sampler, ddp_seed=5)), native)
        loader = self.loader(OwnSampler([3, 3]))
        epochs = [list(loader), list(loader)]
        self.assertFalse(torch.equal(epochs[0][0].blocks[1].edge_ids, epochs[1][0].blocks[1].edge_ids))
        loader.set_epoch(0)
        self.assert_same(list(loader), epochs[0])

    def test_of_ones_own_bring_what_gradients_need(self):
        for sampler, count in ((OwnSampler([3, 4, 2]), 2), (NewerSampler(), 2)):
            for _, _, blocks in self.loader(sampler):
                needed = blocks[-count:]
                self.assertEqual([block.transposed for block in blocks[:-count]], [None] * (len(blocks) - count))
                for block in needed:
                    lists = strata.nn.EdgeLists(block.num_src, block.num_dst, block.indptr, block.indices)
                    for brought, made in zip(block.transposed, lists.transposed()):
                        self.assertTrue(torch.equal(brought, made))
        frontier = dgl_names.sample_neighbors(self.graph, torch.arange(9), 2)
        self.assertIsNone(frontier.block.transposed, "outside of a loader")

    def test_may_be_written_in_the_newer_way(self):
        self.assert_same(list(self.loader(NewerSampler())), list(self.loader(OwnSampler([4, 3]))))

    def test_with_all_neighbors(self):
        degree = torch.bincount(self.plain.edge_index[1], minlength=1000)

        class Full(OwnSampler):
            def sample_frontier(self, layer_id, g, seed_nodes):
                return dgl_names.in_subgraph(g, seed_nodes)

        for sampler in (dgl_names.MultiLayerFullNeighborSampler(2), dgl_names.MultiLayerNeighborSampler([None, -1]), Full([0, 0])):
            for _, _, blocks in self.loader(sampler):
                for block in blocks:
                    nodes = block.dstdata[dgl_names.NID].cpu()
                    self.assertTrue(torch.equal(block.in_degrees().cpu(), degree[nodes]))

    def test_by_weight_and_with_replacement(self):
        weights = torch.zeros(6000)
        weights[::2] = 1
        with strata.from_tensors(self.plain.edge_index, self.plain.x, edge_weight=weights) as graph:
            sampler = dgl_names.NeighborSampler([3, 3], prob="w", replace=True)
            for batch in dgl_names.DataLoader(graph, torch.arange(1000), sampler, batch_size=100, blocks="strata"):
                for block in batch.blocks:
                    self.assertEqual((block.edata[dgl_names.EID] % 2).sum(), 0)
                    self.assertEqual(set(block.in_degrees().tolist()) - {0, 3}, set())
            frontier = dgl_names.sample_neighbors(graph, torch.arange(50), 3, prob="w")
            self.assertEqual((frontier.edge_ids % 2).sum(), 0)

    def test_are_called_outside_of_loaders(self):
        nodes = torch.arange(300)
        torch.manual_seed(3)
        one, other = (dgl_names.sample_neighbors(self.graph, nodes, 2).edge_ids for _ in range(2))
        self.assertFalse(torch.equal(one, other))


    def test_that_return_something_else_are_named(self):
        def kind(method, returned):
            class Mine(dgl_names.BlockSampler):
                pass

            setattr(Mine, method, lambda self, *arguments, **options: returned)
            return Mine(2)

        frontier = dgl_names.sample_neighbors(self.graph, [1, 2], 2)
        for method, returned, words in (
            ("sample_frontier", None, "sample_frontier of Mine returned None; return a frontier"),
            ("sample_frontier", dgl_names.to_block(frontier), "sample_frontier of Mine returned a Block; return a frontier"),
            ("sample_frontier", frontier.edges(), "sample_frontier of Mine returned a tuple; return a frontier"),
            ("sample_blocks", None, "sample_blocks of Mine returned None; return .input nodes, output nodes, list of blocks."),
            ("sample_blocks", (1, 2), "sample_blocks of Mine returned a tuple; return .input nodes"),
            ("sample_blocks", [None, None], "sample_blocks of Mine returned among its blocks None; return blocks"),
            ("sample", None, "sample of Mine returned None; return .input nodes"),
            ("sample", (1, 2, 3), "sample of Mine returned a tuple; return .input nodes"),
            ("sample", (1, 2, [frontier]), "sample of Mine returned among its blocks a Frontier; return blocks"),
        ):
            with self.subTest(words), self.assertRaisesRegex(TypeError, words):
                next(iter(self.loader(kind(method, returned))))
        with self.assertRaisesRegex(TypeError, "to_block.. was given None; give a frontier"):
            dgl_names.to_block(None)


class Loaders(DglCase):
    def test_give_each_seed_once_in_an_order_of_the_epoch(self):
        for sampler in (dgl_names.NeighborSampler([2]), OwnSampler([2])):
            loader = self.loader(sampler, shuffle=True)
            self.assertEqual(len(loader), 10)
            orders = [[v for batch in loader for v in batch.output_nodes.tolist()] for _ in range(2)]
            self.assertEqual(sorted(orders[0]), self.plain.train.tolist())
            self.assertNotEqual(*orders)
            self.assertEqual(len(list(self.loader(sampler, drop_last=True))), 9)
            self.assertEqual(list(self.loader(sampler, nids=[])), [])

    def test_say_where_seeds_are_among_the_ids(self):
        ids = self.plain.valid
        for sampler in (dgl_names.NeighborSampler([2]), OwnSampler([2])):
            places = []
            for batch in self.loader(sampler, nids=ids, shuffle=True):
                self.assertTrue(torch.equal(ids[batch.input_id.cpu()], batch.output_nodes.cpu()))
                self.assertEqual(batch.input_id.device, batch.output_nodes.device)
                places += batch.input_id.tolist()
            self.assertEqual(sorted(places), list(range(len(ids))))

    def test_bring_features_and_labels_on_request(self):
        options = {"prefetch_node_feats": ["feat"], "prefetch_labels": "label"}
        for sampler in (dgl_names.NeighborSampler([2, 2], **options), OwnSampler([2, 2], **options)):
            for input_nodes, output_nodes, blocks in self.loader(sampler):
                self.assertTrue(torch.equal(blocks[0].srcdata["feat"].cpu(), self.plain.x[input_nodes.cpu()]))
                self.assertTrue(torch.equal(blocks[-1].dstdata["label"].cpu(), self.plain.y[output_nodes.cpu()]))

    def test_refuse_a_second_iteration_while_one_goes_on(self):
        loader = self.loader(dgl_names.NeighborSampler([3]))
        with self.assertRaisesRegex(strata.InputError, "one iteration, and one thread, at a time; make a second loader"):
            for _ in zip(loader, loader):
                pass
        self.assertEqual(len(list(loader)), len(loader))

    def test_give_two_threads_what_one_gets(self):
        def sample():
            loader = self.loader(OwnSampler([3, 2]), batch_size=60, shuffle=True)
            return [(batch.input_nodes.tolist(), batch.blocks[0].edges()[0].tolist()) for batch in loader]

        expected = sample()
        for found in at_once([sample] * 2, times=3):
            self.assertEqual(found, expected)

    def test_draw_other_neighbors_in_every_thread(self):
        def draw():
            return dgl_names.sampling.sample_neighbors(self.graph, torch.arange(200), 3).edge_ids.tolist()

        found = at_once([draw] * 2, times=20)
        self.assertEqual(len({tuple(edges) for edges in found}), 40)

    def test_give_every_rank_its_own_or_deal_to_ranks(self):
        """Ranks take different numbers of batches of their own, and the first one validates on its own."""
        script = (
            "import strata, torch, sys\n"
            "import strata.dgl as dgl\n"
            f"sys.path.insert(0, {str(HERE)!r})\n"
            "from test_dgl import OwnSampler\n"
            "process = strata.init('cpu')\n"
            "graph = strata.load('synthetic:kind=sbm,nodes=2000,features=4,classes=4,train=600,valid=100')\n"
            "train, valid = graph.nodes('train'), graph.nodes('valid')\n"
            "for sampler in (OwnSampler([3, 3]), dgl.NeighborSampler([3, 3])):\n"
            "    own = train[: 200 * (1 + process.rank)]\n"
            "    seeds = [v for _, out, _ in dgl.NodeDataLoader(graph, own, sampler, batch_size=50) for v in out.tolist()]\n"
            "    assert seeds == own.tolist()\n"
            "    valid_loader = dgl.NodeDataLoader(graph, valid, sampler, batch_size=30)\n"
            "    if process.rank == 0: assert sum(len(out) for _, out, _ in valid_loader) == 100\n"
            "    dealt = dgl.DataLoader(graph, train, sampler, use_ddp=True, batch_size=50, shuffle=True)\n"
            "    batches = list(dealt)\n"
            "    assert len(batches) == len(dealt) == 6, len(batches)\n"
            "    ids = torch.cat([batch.output_nodes for batch in batches])\n"
            "    mine = process.broadcast(','.join(map(str, ids.tolist())), 0).split(',')\n"
            "    if process.rank == 1: assert sorted(map(int, mine)) == sorted(set(train.tolist()) - set(ids.tolist()))\n"
            "    assert all(batch.loss_scale == 1 and batch.sum_scale == 2 / 100 for batch in batches)\n"
            "print(f'rank {process.rank} is done', flush=True)\n"
        )
        command = ["mpirun", "-n", "2", "--oversubscribe", "--bind-to", "none", sys.executable, "-c", script]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.split("\n")), ["", "rank 0 is done", "rank 1 is done"])

    def test_refuse_what_they_cannot_do(self):
        names, sampler = dgl_names, dgl_names.NeighborSampler([2])
        for call, message in (
            (lambda: names.NeighborSampler([2], edge_dir="out"), "edge_dir='out' is not possible"),
            (lambda: names.NeighborSampler([2], mask="m"), "mask is not possible"),
            (lambda: self.loader(names.NeighborSampler([{"a": 2}])), "the sampler names types"),
            (lambda: names.NeighborSampler([2], prefetch_edge_feats=["w"]), "Edges have no features"),
            (lambda: names.NeighborSampler([2], prefetch_node_feats=["a", "b"]), "has 2 names"),
            (lambda: self.loader("sampler"), "Derive it from strata.dgl.BlockSampler"),
            (lambda: self.loader(sampler, nids={"a": [1]}), "indices name types of nodes"),
            (lambda: self.loader(sampler, nids=[1000]), "index 0 is 1000, which is not a node"),
            (lambda: self.loader(sampler, device="meta"), "device='meta' is not this process's"),
            (lambda: self.loader(sampler, batch_size=0), "batch_size is 0"),
            (lambda: self.loader(sampler, ddp_seed=-1), "ddp_seed is -1"),
            (lambda: names.NeighborSampler([2, 0]), "fanout 0 takes no neighbors"),
            (lambda: names.sample_neighbors(self.graph, [1], -2), "fanout -2 is below -1"),
            (lambda: self.loader(sampler, blocks="pyg"), "blocks='pyg' is not possible"),
            (lambda: next(iter(self.loader(OwnSampler([2]), nids=[1, 1]))), "node 1 is among the seeds of a batch more than once"),
            (lambda: next(iter(self.loader(OwnSampler([2]), nids=[1000]))), "1000 is not a node"),
            (lambda: names.BlockSampler().sample(self.graph, torch.arange(3)), "has no number of layers"),
            (lambda: OwnSampler([2]).sample(self.graph, torch.arange(3), exclude_eids=[1]), "exclude_eids is not possible"),
            (lambda: names.in_subgraph(self.graph, [1], relabel_nodes=True), "numbers the nodes anew"),
        ):
            with self.subTest(message), self.assertRaisesRegex((strata.InputError, IndexError), message):
                call()
        with self.assertRaisesRegex(NotImplementedError, "neither sample_frontier"):
            names.BlockSampler(2).sample(self.graph, torch.arange(3))
        for call, message in (
            (lambda: self.loader(sampler, bach_size=3), "bach_size"),
            (lambda: self.loader(sampler, batch_size=None), "batch_size is None; give an integer"),
            (lambda: self.loader(sampler, shuffle="yes"), "shuffle is 'yes'; give True or False"),
            (lambda: names.NeighborSampler([2.7]), r"fanouts\[0\] is 2.7; give an integer"),
            (lambda: names.NeighborSampler(5), "fanouts is 5; give one number of neighbors per layer"),
            (lambda: names.DataLoader(self.plain, [1], OwnSampler([2])), "the graph is RandomGraph"),
            (lambda: names.sample_neighbors(self.plain, [1], 2), "the graph is RandomGraph"),
        ):
            with self.subTest(message), self.assertRaisesRegex(TypeError, message):
                call()

    def test_say_what_has_no_effect(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.loader(dgl_names.NeighborSampler([2]), num_workers=0, use_uva=False)
            self.assertEqual(caught, [])
            self.loader(dgl_names.NeighborSampler([2]), num_workers=4, use_uva=True)
        self.assertEqual(len(caught), 2)
        self.assertIn("num_workers has no effect", str(caught[0].message))


class Frontiers(DglCase):
    def test_become_blocks_of_any_edges(self):
        nodes = torch.tensor([5, 3, 700, 41])
        frontier = dgl_names.sample_neighbors(self.graph, nodes, -1)
        src, dst = (ends.cpu() for ends in frontier.edges())
        self.assertTrue(torch.equal(torch.stack([src, dst]), self.plain.edge_index[:, frontier.edata[dgl_names.EID].cpu()]))
        again = dgl_names.to_block(dgl_names.Frontier((src, dst), frontier.edge_ids.cpu()), nodes)
        for mine, theirs in zip(again, frontier.block):
            self.assertTrue(torch.equal(mine, theirs.cpu()) if torch.is_tensor(mine) else mine == theirs)
        fewer = frontier.remove_edges([0, 2])
        self.assertEqual(fewer.num_edges(), frontier.num_edges() - 2)
        block = dgl_names.to_block(fewer)
        src, dst = block.edges()
        pairs = torch.stack([block.src_nodes[src], block.src_nodes[dst]]).cpu()
        self.assertTrue(torch.equal(pairs, self.plain.edge_index[:, block.edge_ids.cpu()]))
        self.assertEqual(block.dstdata[dgl_names.NID].tolist(), nodes.tolist())

    def test_without_edges(self):
        block = dgl_names.to_block(dgl_names.Frontier((torch.arange(0), torch.arange(0))), torch.tensor([4, 2]))
        self.assertEqual((block.size, block.num_edges(), block.indptr.tolist()), ((2, 2), 0, [0, 0, 0]))
        self.assertEqual(block.edata, {})

    def test_are_refused_where_destinations_are_missing(self):
        frontier = dgl_names.Frontier((torch.tensor([1, 2]), torch.tensor([7, 9])))
        with self.assertRaisesRegex(strata.InputError, "edges to node 9, which is not among dst_nodes"):
            dgl_names.to_block(frontier, torch.tensor([7]))
        with self.assertRaisesRegex(strata.InputError, "a destination twice"):
            dgl_names.to_block(frontier, torch.tensor([7, 9, 7]))
        with self.assertRaisesRegex(strata.InputError, "begin with their destinations"):
            dgl_names.to_block(frontier, include_dst_in_src=False)
        with self.assertRaisesRegex(strata.InputError, "a frontier of torch.float32"):
            dgl_names.Frontier(([1.5], [7]))
        with self.assertRaisesRegex(strata.InputError, "1 sources and 2 destinations"):
            dgl_names.Frontier((torch.tensor([1]), torch.tensor([7, 9])))


class Blocks(DglCase):
    def test_answer_to_names_of_graphs(self):
        block = next(iter(self.loader(dgl_names.NeighborSampler([2])))).blocks[0]
        self.assertIs(block.int().to(block.device), block)
        self.assertIsNone(block.create_formats_())
        self.assertEqual(block.num_nodes(), block.num_src_nodes() + block.num_dst_nodes())
        self.assertTrue(torch.equal(block.in_degrees([1, 0]), block.in_degrees()[[1, 0]]))
        self.assertTrue(torch.equal(block.out_degrees(), torch.bincount(block.edges()[0], minlength=block.num_src_nodes())))
        with block.local_scope():
            block.srcdata["h"] = block.dstdata["h"] = block.edata["h"] = 1
        self.assertEqual([list(frame) for frame in (block.srcdata, block.dstdata, block.edata)], [["_ID"]] * 3)
        for name, words in (("ndata", "srcdata"), ("update_all", "to_dgl")):
            with self.assertRaisesRegex(AttributeError, f"Block has no '{name}': .*{words}"):
                getattr(block, name)

    def test_move(self):
        block = next(iter(self.loader(dgl_names.NeighborSampler([2])))).blocks[0]
        self.assertIs(block.to(block.device), block)
        block.srcdata["h"] = torch.ones(block.num_src_nodes(), device=block.device)
        moved = block.to("meta")
        self.assertEqual((moved.device.type, moved.srcdata["h"].device.type, moved.num_dst), ("meta", "meta", block.num_dst))

    def test_feed_layers_of_strata(self):
        from strata.nn import SAGEConv

        conv = SAGEConv(16, 4).to(strata.process().device)
        for input_nodes, output_nodes, blocks in self.loader(dgl_names.NeighborSampler([3])):
            self.assertEqual(conv(self.graph.features[input_nodes], blocks[0]).shape, (len(output_nodes), 4))
        with self.assertRaisesRegex(strata.InputError, "SAGEConv: x is Block\n.*strata.dgl.nn"):
            conv(blocks[0], self.graph.features[input_nodes])

    @unittest.skipIf(HAS_DGL, "DGL is installed")
    def test_say_that_dgl_is_missing(self):
        batch = next(iter(strata.NodeLoader(self.graph, fanouts=[2], batch_size=10)))
        for call in (batch.to_dgl, batch.blocks[0].to_dgl):
            with self.assertRaisesRegex(strata.InputError, "DGL cannot be imported(.|\n)*pip install dgl==1.1.3"):
                call()
        default = dgl_names.DataLoader(self.graph, [1], dgl_names.NeighborSampler([2]))
        self.assertIsInstance(next(iter(default)).blocks[0], dgl_names.Block)


@unittest.skipUnless(HAS_DGL, "DGL is not installed")
class WithDgl(DglCase):
    def check(self, made, block):
        import dgl

        self.assertIsInstance(made, dgl.DGLGraph)
        self.assertTrue(made.is_block)
        self.assertEqual((made.num_src_nodes(), made.num_dst_nodes(), made.num_edges()), (*block.size, len(block.indices)))
        self.assertTrue(torch.equal(torch.stack(made.edges(order="eid")), block.edge_index))
        self.assertTrue(torch.equal(made.srcdata[dgl.NID], block.src_nodes))
        self.assertTrue(torch.equal(made.dstdata[dgl.NID], block.src_nodes[: block.num_dst]))
        self.assertTrue(torch.equal(made.edata[dgl.EID], block.edge_ids))

    def test_blocks_become_its_own(self):
        import dgl

        self.assertEqual((dgl.NID, dgl.EID), (dgl_names.NID, dgl_names.EID))
        for batch in strata.NodeLoader(self.graph, fanouts=[4, 3], batch_size=50):
            input_nodes, output_nodes, blocks = batch.to_dgl()
            self.assertIs(input_nodes, batch.input_nodes)
            for made, block in zip(blocks, batch.blocks):
                self.check(made, block)
        options = {"prefetch_node_feats": ["feat"], "prefetch_labels": ["label"]}
        for sampler in (dgl_names.NeighborSampler([2, 2], **options), OwnSampler([2, 2], **options)):
            for made, batch in zip(self.loader(sampler, blocks="auto"), self.loader(sampler)):
                for mine, theirs in zip(made.blocks, batch.blocks):
                    self.check(mine, theirs)
                self.assertTrue(torch.equal(made.blocks[0].srcdata["feat"], batch.blocks[0].srcdata["feat"]))
                self.assertTrue(torch.equal(made.blocks[-1].dstdata["label"], batch.blocks[-1].dstdata["label"]))

    def test_its_own_block_is_ours(self):
        import dgl

        graph = dgl.graph((self.plain.edge_index[0], self.plain.edge_index[1]), num_nodes=1000)
        nodes = torch.tensor([5, 3, 700, 41])
        theirs = dgl.to_block(dgl.in_subgraph(graph, nodes), nodes)
        ours = dgl_names.to_block(dgl_names.in_subgraph(self.graph, nodes), nodes)
        self.assertEqual((theirs.num_src_nodes(), theirs.num_edges()), (ours.num_src_nodes(), ours.num_edges()))

        def pairs(block):
            src, dst = block.edges()
            return sorted(zip(block.srcdata[dgl.NID][src].tolist(), block.dstdata[dgl.NID][dst].tolist()))

        self.assertEqual(pairs(ours), pairs(theirs))

    def test_its_layers_give_the_logits_of_the_whole_graph(self):
        import dgl
        from dgl.nn import GATConv, GraphConv, SAGEConv

        whole = dgl.graph((self.plain.edge_index[0], self.plain.edge_index[1]), num_nodes=1000)
        kinds = {
            "sage": lambda i, o: SAGEConv(i, o, "mean"),
            "pool": lambda i, o: SAGEConv(i, o, "pool"),
            "gcn": lambda i, o: GraphConv(i, o, norm="right", allow_zero_in_degree=True),
            "gat": lambda i, o: GATConv(i, o, 1, allow_zero_in_degree=True),
        }
        for name, make in kinds.items():
            torch.manual_seed(0)
            layers = torch.nn.ModuleList([make(16, 8), make(8, 5)]).eval()

            def forward(blocks, x):
                for layer, block in zip(layers, blocks):
                    x = layer(block, x).reshape(block.num_dst_nodes(), -1).relu()
                return x

            with torch.no_grad(), self.subTest(name):
                expected = forward([whole, whole], self.plain.x)
                for sampler in (dgl_names.MultiLayerFullNeighborSampler(2), OwnSampler([-1, -1])):
                    for input_nodes, output_nodes, blocks in self.loader(sampler, nids=self.plain.test, blocks="dgl"):
                        out = forward(blocks, self.graph.features[input_nodes])
                        torch.testing.assert_close(out, expected[output_nodes], atol=1e-5, rtol=1e-5)

    def test_graphs_come_from_it(self):
        import dgl

        plain = self.plain
        graph = dgl.graph((plain.edge_index[0], plain.edge_index[1]), num_nodes=1000)
        graph.ndata["feat"], graph.ndata["label"] = plain.x, plain.y
        for name, nodes in (("train", plain.train), ("val", plain.valid), ("test", plain.test)):
            graph.ndata[f"{name}_mask"] = torch.zeros(1000, dtype=torch.bool).index_fill(0, nodes, True)
        with strata.from_dgl(graph) as loaded:
            one = list(strata.NodeLoader(loaded, "valid", fanouts=[3], batch_size=50))
            self.assert_same(one, list(strata.NodeLoader(self.graph, "valid", fanouts=[3], batch_size=50)))
            self.assertTrue(torch.equal(loaded.features[[7, 900]], plain.x[[7, 900]]))
            self.assertTrue(torch.equal(loaded.labels[[7, 900]], plain.y[[7, 900]]))
        two = dgl.heterograph({("a", "to", "b"): ([0], [1]), ("b", "to", "a"): ([0], [0])})
        with strata.from_dgl(two) as loaded:
            self.assertEqual(loaded.metadata(), (["a", "b"], [("a", "to", "b"), ("b", "to", "a")]))


if __name__ == "__main__":
    unittest.main()
