# SPDX-License-Identifier: Apache-2.0
"""Samplers written in Python: what they are asked, what becomes of their answers and errors."""

import gc
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy
import torch

import strata
from random_graphs import random_graph


HERE = pathlib.Path(__file__).resolve().parent
BIN = pathlib.Path(os.environ.get("STRATA_BIN", HERE.parents[1] / "build/cuda/bin"))


class First(strata.NeighborChooser):
    """The first neighbors of every list."""

    def choose(self, query):
        lists = query.graph.in_edges(query.nodes)
        counts = numpy.minimum(lists.counts, query.fanout)
        begins = numpy.cumsum(lists.counts) - lists.counts
        edges = numpy.repeat(begins - numpy.cumsum(counts) + counts, counts) + numpy.arange(counts.sum())
        return counts, lists.sources[edges], lists.edge_ids[edges]


class AnyOnes(strata.NeighborChooser):
    """Neighbors drawn with replacement."""

    def choose(self, query):
        lists = query.graph.in_edges(query.nodes)
        counts = numpy.where(lists.counts > 0, query.fanout, 0)
        begins = numpy.cumsum(lists.counts) - lists.counts
        places = query.numbers(counts) * numpy.repeat(lists.counts, counts)
        edges = numpy.repeat(begins, counts) + places.astype(numpy.int64)
        return torch.from_numpy(counts), torch.from_numpy(lists.sources[edges]), torch.from_numpy(lists.edge_ids[edges])


class Choosers(unittest.TestCase):
    def setUp(self):
        self.plain = random_graph()
        self.graph = self.plain.load(strata)
        self.addCleanup(self.graph.close)

    def loader(self, sampler, **options):
        return strata.NodeLoader(self.graph, "train", **({"fanouts": [4, 3], "batch_size": 64, "sampler": sampler} | options))

    def answering(self, answer):
        class Answering(strata.NeighborChooser):
            def choose(self, query):
                return answer(query)

        return self.loader(Answering(self.graph))

    def test_decide_what_blocks_have(self):
        sources = self.plain.edge_index[0]
        lists = {v: (self.plain.edge_index[1] == v).nonzero().view(-1) for v in range(1000)}
        lists = {v: edges[sources[edges].argsort(stable=True)].tolist() for v, edges in lists.items()}
        for batch in self.loader(First(self.graph)):
            for block, fanout in zip(batch.blocks, (3, 4)):
                for dst, node in enumerate(block.src_nodes[: block.num_dst].tolist()):
                    chosen = block.edge_ids[block.indptr[dst] : block.indptr[dst + 1]].tolist()
                    self.assertEqual(chosen, lists[node][:fanout])

    def test_work_in_merged_batches(self):
        for batch in strata.NeighborLoader(self.graph, [4, 3], "train", batch_size=64, sampler=First(self.graph)):
            ends = batch.n_id.cpu()[batch.edge_index.cpu()]
            self.assertTrue(torch.equal(ends, self.plain.edge_index[:, batch.e_id.cpu()]))

    def test_draw_anew_in_every_epoch_and_the_same_again(self):
        loader = self.loader(AnyOnes(self.graph), seed=3)
        epochs = [[block.edge_ids.tolist() for batch in loader for block in batch.blocks] for _ in range(2)]
        self.assertNotEqual(*epochs)
        loader.set_epoch(0)
        self.assertEqual([block.edge_ids.tolist() for batch in loader for block in batch.blocks], epochs[0])

    def test_are_told_what_is_asked(self):
        asked = []

        def answer(query):
            asked.append((query.nodes.copy(), query.fanout, query.hop, query.seed, query.epoch, query.step))
            self.assertIsNot(threading.current_thread(), threading.main_thread())
            nothing = numpy.empty(0, dtype=numpy.int64)
            return numpy.zeros(len(query.nodes), dtype=numpy.int64), nothing, nothing

        batches = list(self.answering(answer))
        self.assertEqual(len(asked), 2 * len(batches))
        for step, batch in enumerate(batches):
            for hop, fanout in ((0, 4), (1, 3)):
                nodes, *facts = asked[2 * step + hop]
                self.assertEqual(nodes.tolist(), batch.output_nodes.tolist())
                self.assertEqual(facts, [fanout, hop, 0, 0, step])
            self.assertEqual([len(block.indices) for block in batch.blocks], [0, 0])

    def test_are_checked(self):
        one = numpy.ones
        for answer, message in (
            (lambda q: None, "returned NoneType"),
            (lambda q: (one(len(q.nodes)),), "counts, neighbors"),
            (lambda q: (one(len(q.nodes)), one(len(q.nodes))), "counts is of type float64"),
            (lambda q: (one(3, dtype=int), one(3, dtype=int), one(3, dtype=int)), "which do not fit"),
            (lambda q: (one(len(q.nodes), dtype=int), one(len(q.nodes), dtype=int)), "0 edge ids"),
            (lambda q: (one(len(q.nodes), dtype=int),) + (one(len(q.nodes), dtype=int) * 1000,) * 2, "gave node 1000"),
        ):
            with self.subTest(message), self.assertRaisesRegex(strata.StrataError, message):
                list(self.answering(answer))

    def test_end_the_epoch_with_what_they_raise(self):
        def answer(query):
            raise KeyError(f"step {query.step}")

        with self.assertRaisesRegex(KeyError, "step 0"):
            list(self.answering(answer))
        with self.assertRaisesRegex(NotImplementedError, "does not define choose"):
            list(self.loader(strata.NeighborChooser(self.graph)))
        self.assertEqual(len(list(self.loader(First(self.graph)))), 10)

    def test_may_be_dropped_while_they_work(self):
        for _ in range(10):
            loader = self.loader(First(self.graph), shuffle=True, batch_size=8)
            batch = next(iter(loader))
            del loader
        self.assertEqual(len(batch.output_nodes), 8)
        gc.collect()

    def test_are_refused_where_they_make_no_sense(self):
        class Bare(strata.NeighborChooser):
            def __init__(self):
                pass

        with strata.from_tensors(self.plain.edge_index, num_nodes=1000) as other:
            for call, message in (
                (lambda: self.loader(First(other)), "made for another graph"),
                (lambda: self.loader(Bare()), "Call super"),
                (lambda: self.loader(First(self.graph), replace=True), "replace=True has no effect"),
            ):
                with self.subTest(message), self.assertRaisesRegex(strata.InputError, message):
                    call()

    def test_ask_the_graph(self):
        lists = self.graph.in_edges([3, 999, 3])
        degree = int((self.plain.edge_index[1] == 3).sum())
        self.assertEqual(lists.counts.tolist(), [degree, 0, degree])
        self.assertEqual(lists.sources.tolist(), self.plain.edge_index[0, lists.edge_ids].tolist())
        self.assertIsNone(lists.weights)
        with self.assertRaises(IndexError):
            self.graph.in_edges([1000])


class Ranks(unittest.TestCase):
    def test_get_the_same_batches(self):
        """By step: edges of the seeds of all ranks, in the input's numbers, on one rank and on two machines."""
        script = (
            "import json, pathlib, sys, strata\n"
            f"sys.path.insert(0, {str(HERE)!r})\n"
            "from test_choosers import AnyOnes\n"
            "process = strata.init('cpu', int(sys.argv[2]))\n"
            "graph = strata.load(sys.argv[1])\n"
            "steps = []\n"
            "loader = strata.NodeLoader(graph, fanouts=[3, 2], batch_size=60 // process.size, shuffle=True, sampler=AnyOnes(graph))\n"
            "for batch in loader:\n"
            "    names = graph.original_ids(batch.input_nodes).tolist()\n"
            "    block = batch.blocks[-1]\n"
            "    steps.append([[names[d], e] for d, e in zip(block.edge_index[1].tolist(), block.edge_ids.tolist())])\n"
            "pathlib.Path(sys.argv[3], f'{process.rank}.json').write_text(json.dumps(steps))\n"
            "loader.close()\n"
            "graph.close()\n"
        )
        with tempfile.TemporaryDirectory(prefix="strata-python-") as folder:
            parts = pathlib.Path(folder, "parts")
            spec = "synthetic:kind=sbm,nodes=2000,degree=10,features=6,classes=4,train=600,valid=10,test=10,seed=2"
            build = [BIN / "strata-partition", "build", "--input", spec, "--parts", "2", "--output", parts]
            subprocess.run(build, check=True, capture_output=True)
            found = []
            for ranks, ranks_per_machine in ((1, 0), (2, 1)):
                command = ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none", sys.executable, "-c", script]
                done = subprocess.run([*command, parts, str(ranks_per_machine), folder], capture_output=True, text=True, timeout=120)
                self.assertEqual(done.returncode, 0, done.stderr)
                of_ranks = [json.loads(pathlib.Path(folder, f"{rank}.json").read_text()) for rank in range(ranks)]
                found.append([sorted(map(tuple, sum(step, []))) for step in zip(*of_ranks)])
        self.assertEqual(len(found[0]), 10)
        self.assertEqual(found[1], found[0])


if __name__ == "__main__":
    unittest.main()
