# SPDX-License-Identifier: Apache-2.0
"""Batches: what is in them, how long they live, and what is refused."""

import gc
import os
import pickle
import resource
import subprocess
import sys
import threading
import unittest
import warnings

import numpy
import torch

import strata
from random_graphs import Exported, random_graph


class LoaderCase(unittest.TestCase):
    def setUp(self):
        self.plain = random_graph()
        self.graph = self.plain.load(strata)
        self.addCleanup(self.graph.close)
        self.device = torch.device(strata.process().device)

    def loader(self, fanouts=(5, 3), input_nodes="train", **options):
        return strata.NeighborLoader(self.graph, fanouts, input_nodes, **({"batch_size": 64} | options))

    def check(self, batch):
        """The batch says what the graph does."""
        n_id, edges = batch.n_id.cpu(), batch.edge_index.cpu()
        self.assertEqual(len(n_id.unique()), len(n_id))
        self.assertTrue(torch.equal(batch.x.cpu(), self.plain.x[n_id]))
        self.assertTrue(torch.equal(batch.y.cpu(), self.plain.y[n_id[: batch.batch_size]]))
        self.assertTrue(torch.equal(n_id[edges], self.plain.edge_index[:, batch.e_id.cpu()]))
        self.assertEqual(sum(batch.num_sampled_nodes), batch.num_nodes)
        self.assertEqual(sum(batch.num_sampled_edges), batch.num_edges)


class Neighbors(LoaderCase):
    def test_give_every_seed_once_an_epoch(self):
        loader = self.loader(shuffle=True)
        self.assertEqual((len(loader), len(loader.dataset)), (10, 600))
        orders = []
        for _ in range(2):
            seeds = []
            for batch in loader:
                self.check(batch)
                self.assertEqual(batch.batch_size, min(64, 600 - len(seeds)))
                self.assertEqual((batch.num_global_seeds, batch.loss_scale), (batch.batch_size, 1))
                self.assertEqual(batch.sum_scale, 1 / batch.batch_size)
                seeds += batch.n_id[: batch.batch_size].tolist()
            self.assertEqual(sorted(seeds), self.plain.train.tolist())
            orders.append(seeds)
        self.assertNotEqual(orders[0], orders[1])
        loader.set_epoch(0)
        self.assertEqual([v for batch in loader for v in batch.n_id[: batch.batch_size].tolist()], orders[0])

    def test_follow_torchs_generator_where_they_have_no_seed(self):
        def seeds_of(number, **options):
            torch.manual_seed(number)
            return next(iter(self.loader(shuffle=True, **options))).n_id.tolist()

        self.assertEqual(seeds_of(1, seed=None), seeds_of(1, seed=None))
        self.assertNotEqual(seeds_of(1, seed=None), seeds_of(2, seed=None))
        self.assertEqual(seeds_of(1), seeds_of(2))
        self.assertEqual(seeds_of(1), seeds_of(1, seed=0))

    def test_keep_the_order_that_is_not_shuffled(self):
        nodes = [900, 3, 77, 4]
        seeds = [v for batch in self.loader(input_nodes=nodes, batch_size=3) for v in batch.n_id[: batch.batch_size].tolist()]
        self.assertEqual(seeds, nodes)
        self.assertEqual(len(self.loader(input_nodes=nodes, batch_size=3, drop_last=True)), 1)

    def test_take_nodes_in_every_form(self):
        def seeds(input_nodes):
            return sorted(v for batch in self.loader(input_nodes=input_nodes) for v in batch.n_id[: batch.batch_size].tolist())

        mask = torch.zeros(1000, dtype=torch.bool)
        mask[self.plain.valid] = True
        expected = self.plain.valid.tolist()
        ids = self.plain.valid
        for form in ("valid", mask, mask.numpy(), mask.tolist(), Exported(mask), ids, ids.int(), ids.numpy(), expected, Exported(ids)):
            self.assertEqual(seeds(form), expected)
        self.assertEqual(seeds(range(3, 9)), list(range(3, 9)))
        self.assertEqual(seeds(None), list(range(1000)))
        self.assertEqual(seeds([]), [])

    def test_take_all_neighbors(self):
        degree = torch.bincount(self.plain.edge_index[1], minlength=1000)
        for batch in self.loader([-1, -1]):
            self.check(batch)
            asked = sum(batch.num_sampled_nodes[:2])
            counts = torch.bincount(batch.edge_index[1].cpu(), minlength=batch.num_nodes)
            self.assertTrue(torch.equal(counts[:asked], degree[batch.n_id[:asked].cpu()]))
            self.assertEqual(counts[asked:].sum(), 0)

    def test_take_so_many_neighbors(self):
        degree = torch.bincount(self.plain.edge_index[1], minlength=1000)
        for replace in (False, True):
            for batch in self.loader([4, 2], replace=replace):
                self.check(batch)
                first, second = batch.num_sampled_nodes[:2]
                fanouts = torch.cat([torch.full((first,), 4), torch.full((second,), 2)])
                known = degree[batch.n_id[: first + second].cpu()]
                wanted = torch.where(known > 0, fanouts, 0) if replace else torch.minimum(known, fanouts)
                counts = torch.bincount(batch.edge_index[1].cpu(), minlength=batch.num_nodes)
                self.assertTrue(torch.equal(counts[: first + second], wanted))

    def test_by_labor_and_by_weight(self):
        for batch in self.loader([4, 2], sampler="labor"):
            self.check(batch)
        weights = torch.zeros(6000)
        weights[::2] = 1
        with strata.from_tensors(self.plain.edge_index, self.plain.x, edge_weight=weights) as graph:
            for batch in strata.NeighborLoader(graph, [3, 3], None, batch_size=100, sampler="weighted"):
                self.assertEqual((batch.e_id % 2).sum(), 0)

    def test_take_pygs_options_with_its_defaults(self):
        from torch_geometric.sampler.base import SubgraphType

        usual = {"input_time": None, "time_attr": None, "temporal_strategy": "uniform", "weight_attr": None, "directed": True}
        usual |= {"transform_sampler_output": None, "neighbor_sampler": None, "generator": None, "collate_fn": None}
        usual |= {"subgraph_type": SubgraphType.directional, "is_sorted": False, "filter_per_worker": None}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for mine, plain in zip(self.loader(**usual), self.loader(), strict=True):
                self.assertTrue(torch.equal(mine.edge_index, plain.edge_index))

    def test_by_the_weights_that_pygs_option_names(self):
        weights = torch.zeros(6000)
        weights[::2] = 1
        with strata.from_tensors(self.plain.edge_index, self.plain.x, edge_weight=weights) as graph:
            named = strata.NeighborLoader(graph, [3, 3], None, batch_size=100, weight_attr="edge_weight")
            for mine, plain in zip(named, strata.NeighborLoader(graph, [3, 3], None, batch_size=100, sampler="weighted"), strict=True):
                self.assertTrue(torch.equal(mine.e_id, plain.e_id))
                self.assertEqual((mine.e_id % 2).sum(), 0)
        with self.assertRaisesRegex(strata.InputError, r"loaded without weights\n.*load\(weights=True\) or from_tensors\(edge_weight="):
            self.loader(weight_attr="edge_weight")

    def test_change_as_they_are_told(self):
        batch = next(iter(self.loader(transform=lambda data: (data, data.num_nodes))))
        self.assertEqual(batch[1], batch[0].num_nodes)

    def test_say_where_seeds_are_among_the_input_nodes(self):
        nodes = torch.tensor([900, 3, 77, 4, 123, 8])
        places = []
        for batch in self.loader(input_nodes=nodes, batch_size=4, shuffle=True):
            self.assertTrue(torch.equal(nodes[batch.input_id.cpu()], batch.n_id[: batch.batch_size].cpu()))
            self.assertEqual(batch.input_id.device, batch.n_id.device)
            places += batch.input_id.tolist()
        self.assertEqual(sorted(places), list(range(6)))
        for batch in strata.NodeLoader(self.graph, nodes, fanouts=[2], batch_size=4):
            self.assertTrue(torch.equal(nodes[batch.input_id.cpu()], batch.output_nodes.cpu()))

    def test_of_some_input_nodes_on_request(self):
        loader = self.loader(input_nodes="valid", transform=lambda batch: batch)
        self.assertRegex(str(loader), r"NeighborLoader\(strata.Graph.*, num_neighbors=\[5, 3\], batch_size=64, seeds=200\)")
        for index in ([7, 0, 150], torch.tensor([7, 0, 150])):
            batch = loader(index)
            self.check(batch)
            self.assertEqual(batch.input_id.tolist(), [7, 0, 150])
            self.assertEqual(batch.n_id[:3].tolist(), self.plain.valid[[7, 0, 150]].tolist())
        self.assertEqual(loader(slice(7, 9)).input_id.tolist(), [7, 8])
        with self.assertRaises(IndexError):
            loader([200])
        with self.assertRaisesRegex(IndexError, "a mask of shape .3,. for 200 input nodes"):
            loader([True, False, True])
        with self.assertRaisesRegex(strata.InputError, "no input nodes"):
            loader([])

    def test_of_a_ranks_own_nodes(self):
        nodes = [5, 900, 17]
        batches = list(self.loader(input_nodes=nodes, deal=False, batch_size=2))
        self.assertEqual([v for batch in batches for v in batch.n_id[: batch.batch_size].tolist()], nodes)


class Memory(LoaderCase):
    def test_lives_as_long_as_anything_of_a_batch(self):
        loader = self.loader(shuffle=True)
        batches = list(loader)
        list(loader)
        for batch in batches:
            self.check(batch)
        rows = [batch.x for batch in batches]
        wanted = [self.plain.x[batch.n_id.cpu()] for batch in batches]
        del batches, batch
        list(loader)
        self.graph.close()
        for x, expected in zip(rows, wanted):
            self.assertTrue(torch.equal(x.cpu(), expected))

    def test_is_used_again(self):
        loader = self.loader()
        for _ in range(5):
            for batch in loader:
                self.check(batch)
        del batch
        self.assertEqual((loader.batches_held, loader.batches_made), (0, 2))
        kept = list(loader)
        self.assertEqual(loader.batches_held, len(kept))

    def test_does_not_grow(self):
        loader = self.loader(batch_size=8, shuffle=True)

        def run(batches):
            count = 0
            while count < batches:
                for batch in loader:
                    count += 1
                    del batch
                    if count % 100 == 50:
                        break  # an epoch that is left

        run(500)
        gc.collect()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        run(10000)
        self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, 64 << 10)  # KiB

    def test_of_a_loader_that_was_left(self):
        def leave(times):
            for _ in range(times):
                loader = self.loader()
                next(iter(loader))
                del loader
            gc.collect()
            return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

        before = leave(3)
        self.assertEqual(leave(50), before, "open files and threads")
        several = [iter(self.loader()) for _ in range(4)]
        for batches in zip(*several):
            for batch in batches:
                self.check(batch)


    def test_of_a_second_iteration_end_the_first(self):
        loader = self.loader()
        with self.assertRaisesRegex(strata.InputError, "one iteration, and one thread, at a time; make a second loader"):
            for _ in zip(loader, loader):
                pass
        self.assertEqual(len(list(loader)), len(loader))

    def test_of_two_threads_at_once_are_refused(self):
        loader, counts = self.loader(batch_size=5), []

        def take():
            try:
                counts.append(len(list(loader)))
            except strata.InputError as error:
                counts.append(str(error))

        for _ in range(5):
            threads = [threading.Thread(target=take, daemon=True) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(20)
                self.assertFalse(thread.is_alive())
        self.assertTrue(all(count == len(loader) or "thread" in str(count) for count in counts), counts)

    def test_of_a_graph_that_is_closed_in_mid_epoch(self):
        for _ in range(20):
            graph = self.plain.load(strata)
            loaders = [strata.NeighborLoader(graph, [5, 3], "train", batch_size=8, shuffle=True) for _ in range(3)]
            epochs = [iter(loader) for loader in loaders]
            batches = [next(epoch) for epoch in epochs]
            del loaders[0]
            graph.close()
            with self.assertRaisesRegex(strata.StrataError, "was closed"):
                next(epochs[1])
            loaders[1].close()
            for batch in batches:
                self.check(batch)


class OtherProcesses(LoaderCase):
    """Workers, which torch's DataLoader forks or spawns, are refused, and leave this process as it is."""

    def worker(self, dataset, **options):
        with self.assertRaises(Exception) as caught:
            list(torch.utils.data.DataLoader(dataset, num_workers=1, batch_size=None, **options))
        next(iter(self.loader()))
        return str(caught.exception)

    def test_that_were_forked(self):
        class Batches(torch.utils.data.IterableDataset):
            def __init__(self, loader):
                self.loader = loader

            def __iter__(self):
                return iter(self.loader)

        class Rows(torch.utils.data.Dataset):
            def __init__(self, graph):
                self.graph = graph

            def __len__(self):
                return self.graph.num_nodes

            def __getitem__(self, index):
                return self.graph.features[[index]]

        for dataset in (Batches(self.loader()), Rows(self.graph)):
            self.assertIn("this process was forked from one that uses Strata", self.worker(dataset, multiprocessing_context="fork"))

    def test_that_were_forked_in_mid_epoch(self):
        batches = iter(self.loader())
        next(batches)
        child = os.fork()
        if child == 0:
            try:
                next(batches)
            except strata.InputError:
                os._exit(7)
            os._exit(0)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
        self.check(next(batches))

    def test_that_were_forked_end_as_they_like(self):
        code = (
            "import os, strata, sys\n"
            "graph = strata.load('synthetic:kind=sbm,nodes=2000,features=4,classes=4,train=1000')\n"
            "batches = iter(strata.NeighborLoader(graph, [3], 'train', batch_size=10))\n"
            "next(batches)\n"
            "child = os.fork()\n"
            "if child == 0: sys.exit(3)\n"
            "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
            "next(batches)\n"
        )
        command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]  # Python 3.12 warns of any fork beside threads
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.stdout, done.stderr, done.returncode), ("3\n", "", 0))

    def test_that_were_spawned(self):
        with self.assertRaisesRegex(strata.InputError, "a loader cannot be sent to another process\n  Hand on a graph"):
            pickle.dumps(self.loader())


class Blocks(LoaderCase):
    def test_are_those_of_a_layer_each(self):
        loader = strata.NodeLoader(self.graph, "train", fanouts=[4, 3, 2], batch_size=50, shuffle=True)
        for input_nodes, output_nodes, blocks in loader:
            self.assertEqual(len(blocks), 3)
            self.assertTrue(torch.equal(blocks[0].src_nodes, input_nodes))
            self.assertEqual(len(output_nodes), blocks[-1].num_dst)
            for block, after, fanout in zip(blocks, [*blocks[1:], None], [2, 3, 4]):
                if after is not None:
                    self.assertEqual(block.num_dst, after.num_src)
                self.assertEqual(block.size, (block.num_src, block.num_dst))
                self.assertTrue(torch.equal(block.edge_index[0], block.indices.long()))
                counts = block.indptr.diff()
                self.assertTrue(torch.equal(torch.bincount(block.edge_index[1], minlength=block.num_dst), counts))
                self.assertLessEqual(counts.max(), fanout)
                ends = block.src_nodes.cpu()[block.edge_index.cpu()]
                self.assertTrue(torch.equal(ends, self.plain.edge_index[:, block.edge_ids.cpu()]))

    def test_make_their_edge_index_once_when_it_is_read(self):
        for _, _, blocks in strata.NodeLoader(self.graph, "train", fanouts=[4, 3], batch_size=50):
            for block in blocks:
                self.assertIsNone(block._edge_index)
                with torch.inference_mode():
                    edge_index = block.edge_index
                self.assertFalse(edge_index.is_inference())
                self.assertIs(block.edge_index, edge_index)
                self.assertEqual((edge_index.dtype, edge_index.device), (torch.int64, block.indptr.device))

    def test_give_adjs_that_move_as_pygs_do(self):
        batch = next(iter(strata.NodeLoader(self.graph, fanouts=[4, 3], batch_size=50)))
        for adj, block in zip(batch.adjs, batch.blocks, strict=True):
            self.assertEqual((adj.edge_index.device, adj.size), (self.device, block.size))
            self.assertTrue(torch.equal(adj.edge_index, block.edge_index) and torch.equal(adj.e_id, block.edge_ids))
            edge_index, e_id, size = adj.to("meta")
            self.assertEqual((edge_index.device.type, e_id.device.type, size), ("meta", "meta", block.size))
            self.assertIsNone(adj._replace(e_id=None).to(self.device).e_id)

    def test_bring_rows_on_request(self):
        loader = strata.NodeLoader(self.graph, "train", fanouts=[4, 3], batch_size=50, features=True)
        for (input_nodes, output_nodes, _), x, y in loader:
            self.assertTrue(torch.equal(x.cpu(), self.plain.x[input_nodes.cpu()]))
            self.assertTrue(torch.equal(y.cpu(), self.plain.y[output_nodes.cpu()]))


class Refusals(LoaderCase):
    def test_of_options(self):
        for options, message in (
            ({"fanouts": [-2]}, "fanout -2 is below -1"),
            ({"fanouts": []}, r"no fanouts were given \(in num_neighbors\)\n  Give one number of neighbors per hop"),
            ({"batch_size": 0}, "batch_size is 0"),
            ({"input_nodes": "trein"}, "train"),
            ({"input_nodes": [1.5]}, "input_nodes is of type float64"),
            ({"input_nodes": torch.ones(3, dtype=torch.bool)}, "a mask of shape"),
            ({"input_nodes": torch.ones(1000, dtype=torch.uint8)}, "input_nodes is of type uint8\n  Give ids as int64, or a mask as bool"),
            ({"input_nodes": ("paper", [1, 2])}, "input_nodes names the type 'paper'"),
            ({"sampler": "labour"}, "labor"),
            ({"sampler": "weighted"}, "loaded without weights"),
            ({"subgraph_type": "undirected"}, "subgraph_type='undirected' is not possible"),
            ({"disjoint": True}, "disjoint=True is not possible"),
            ({"time_attr": "t"}, "time_attr is not possible"),
            ({"temporal_strategy": "last"}, "temporal_strategy is not possible"),
            ({"transform_sampler_output": len}, "derive from strata.NeighborChooser"),
            ({"weight_attr": "w", "sampler": "labor"}, "weight_attr and sampler='labor' both say"),
        ):
            with self.subTest(options), self.assertRaisesRegex(strata.InputError, message):
                self.loader(**options)
        for options, message in (
            ({"sampler": 3}, "sampler is 3; give a name"),
            ({"sampler": None}, "sampler is None"),
            ({"sampler": strata.NeighborChooser}, "sampler is <class"),
            ({"fanouts": [2.7]}, r"num_neighbors\[0\] is 2.7; give an integer"),
            ({"fanouts": ["5"]}, r"num_neighbors\[0\] is '5'; give an integer"),
            ({"fanouts": {("a", "to", "b"): [5]}}, "num_neighbors is a dict of types of edges"),
            ({"fanouts": 15}, "num_neighbors is 15; give one number"),
            ({"fanouts": [1 << 40]}, "1099511627776"),
            ({"fanouts": [0]}, "fanout 0"),
            ({"batch_size": 1.5}, "batch_size is 1.5; give an integer"),
            ({"batch_size": None}, "batch_size is None"),
            ({"seed": -1}, "seed is -1"),
            ({"shuffle": 1}, "shuffle is 1; give True or False"),
            ({"input_nodes": [[1, 2], [3, 4]]}, r"input_nodes has the shape \(2, 2\)"),
            ({"weight_attr": torch.ones(3)}, "weight_attr is tensor"),
        ):
            with self.subTest(options), self.assertRaisesRegex((strata.InputError, TypeError), message):
                self.loader(**options)
        for bad in (1000, -1):
            with self.subTest(bad=bad), self.assertRaisesRegex(IndexError, f"index 1 is {bad}, which is not a node of the graph"):
                self.loader(input_nodes=[3, bad, 2000])
        for epoch in (-1, 1.5, "1", 1 << 32):
            with self.subTest(epoch=epoch), self.assertRaisesRegex((strata.InputError, TypeError), "epoch is"):
                self.loader().set_epoch(epoch)
        with self.assertRaisesRegex(TypeError, "the graph is 'parts'"):
            strata.NeighborLoader("parts", [3])
        with self.assertRaisesRegex(TypeError, "step_fn is 3"):
            strata.graphed(3, self.loader())
        with self.assertRaisesRegex(TypeError, "num_neigbors"):
            self.loader(num_neigbors=3)

    def test_of_what_workers_would_do_is_a_warning(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.loader(num_workers=0, pin_memory=False, persistent_workers=False, prefetch_factor=None)
            self.assertEqual(caught, [])
            self.loader(num_workers=4, pin_memory=True, persistent_workers=True)
            strata.NodeLoader(self.graph, fanouts=[2], num_workers=4)
        self.assertEqual([warning.filename for warning in caught], [__file__] * 2)
        self.assertIn("num_workers, pin_memory, persistent_workers have no effect: threads of C++", str(caught[0].message))
        self.assertIn("num_workers has no effect", str(caught[1].message))
        for options, message in (({"generator": torch.Generator()}, "give seed"), ({"collate_fn": list}, "transform")):
            with self.assertRaisesRegex(strata.InputError, message):
                self.loader(**options)
        with self.assertRaisesRegex(TypeError, "NodeLoader.. got an unexpected keyword argument 'num_worker'"):
            strata.NodeLoader(self.graph, fanouts=[2], num_worker=4)

    def test_of_a_graph_without_rows_or_labels(self):
        with strata.from_tensors(self.plain.edge_index, num_nodes=1000) as graph:
            batch = next(iter(strata.NeighborLoader(graph, [3], None, batch_size=10)))
            self.assertNotIn("x", batch)
            self.assertNotIn("y", batch)
            with self.assertRaisesRegex(strata.InputError, "no node features"):
                graph.features[[0]]

    def test_of_numpy_integers_there_are_none(self):
        loader = strata.NeighborLoader(self.graph, numpy.array([3, 2]), "train", batch_size=10)
        self.assertEqual(next(iter(loader)).batch_size, 10)


class SmSplits(LoaderCase):
    def test_are_refused_without_a_gpu_and_without_sense(self):
        for loading, training in ((0, 50), (50, 101)):
            with self.assertRaisesRegex(strata.InputError, "is no percentage of SMs"):
                strata.SmSplit(loading, training)
        with self.assertRaisesRegex(TypeError, "loading is '10'; give an integer"):
            strata.SmSplit("10", 90)
        if self.device.type == "cpu":
            with self.assertRaisesRegex(strata.InputError, "this process computes on the CPU"):
                strata.SmSplit(10, 90)

    def test_change_no_batch(self):
        if self.device.type == "cpu":
            self.skipTest("needs a GPU")
        expected = [(batch.n_id.tolist(), batch.edge_index.tolist()) for batch in self.loader(shuffle=True)]
        for shares in ((20, 80), (100, 40)):
            split = strata.SmSplit(*shares)
            self.assertGreaterEqual(split.loading_sms, 1)
            loader = self.loader(shuffle=True)
            loader.run_on(split)
            with split.training():
                self.assertEqual(torch.cuda.current_stream(), split.training_stream)
                self.assertEqual([(batch.n_id.tolist(), batch.edge_index.tolist()) for batch in loader], expected)


class Sets(unittest.TestCase):
    def test_of_classes_are_rows_of_zeros_and_ones(self):
        plain = random_graph()
        y = torch.rand((1000, 40)).round()
        with strata.from_tensors(plain.edge_index, plain.x, y, train=plain.train) as graph:
            for batch in strata.NeighborLoader(graph, [3], "train", batch_size=100):
                self.assertTrue(torch.equal(batch.y.cpu(), y[batch.n_id[: batch.batch_size].cpu()]))


if __name__ == "__main__":
    unittest.main()
