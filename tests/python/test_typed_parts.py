# SPDX-License-Identifier: Apache-2.0
"""Parts of graphs of several types: batches of them are those of the graph in memory, on any number of ranks and machines."""

import json
import pathlib
import tempfile
import unittest
import warnings

import torch
from torch_geometric.data import HeteroData

import strata
from test_launch import HERE, mpirun
from typed_batches_of_rank import FANOUTS, SEEDS, steps_of

COUNTS = {"paper": 300, "author": 120, "venue": 5, "nothing": 0}
EDGES = {
    ("author", "writes", "paper"): 1200,
    ("paper", "written_by", "author"): 1200,
    ("paper", "cites", "paper"): 2000,
    ("paper", "likes", "paper"): 150,  # parallel to the one before
    ("author", "knows", "author"): 0,
    ("paper", "in", "venue"): 300,
}


def random_data(seed=1):
    random = torch.Generator().manual_seed(seed)
    data = HeteroData()
    for kind, count in COUNTS.items():
        data[kind].num_nodes = count
    data["paper"].x = torch.randint(64, (300, 12), generator=random) / 8
    data["author"].x = torch.randint(64, (120, 3), generator=random) / 8
    data["paper"].y = torch.randint(5, (300,), generator=random)
    splits = torch.randint(3, (300,), generator=random)
    for number, name in enumerate(("train_mask", "val_mask", "test_mask")):
        data["paper"][name] = splits == number
    for kind, count in EDGES.items():
        data[kind].edge_index = torch.stack([torch.randint(COUNTS[end], (count,), generator=random) for end in (kind[0], kind[2])])
    data["paper", "cites", "paper"].edge_weight = torch.randint(1, 9, (2000,), generator=random).float()
    return data


def content(batch):
    """What a batch says, whatever the order of its nodes."""
    said = {"seeds": sorted(batch["paper"].n_id[: batch["paper"].batch_size].tolist())}
    for kind in batch.node_types:
        store = batch[kind]
        said[kind] = (sorted(store.n_id.tolist()), store.num_sampled_nodes)
    for kind in batch.edge_types:
        store, edges = batch[kind], batch[kind].edge_index
        source, destination = batch[kind[0]].n_id[edges[0]], batch[kind[2]].n_id[edges[1]]
        said[kind] = (sorted(zip(source.tolist(), destination.tolist(), store.e_id.tolist())), store.num_sampled_edges)
    return said


class TypedParts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.data = random_data()
        folder = tempfile.TemporaryDirectory(prefix="strata-python-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.graph = strata.from_pyg(cls.data)
        cls.addClassCleanup(cls.graph.close)

    def parts(self, count, data=None, **options):
        folder = self.folder / f"parts-{self.id()}-{count}"
        self.report = strata.partition(self.data if data is None else data, parts=count, output=folder, progress=False, **options)
        self.assertEqual(strata.verify(folder, progress=False)["problems"], [])
        return folder

    def check_batches(self, parts, graph=None, **options):
        uneven = dict.fromkeys(EDGES, [2, 1]) | {("paper", "cites", "paper"): [-1, 3], ("paper", "likes", "paper"): [0, 0]}
        with strata.load(parts, weights=options.get("sampler") == "weighted") as loaded:
            self.assertEqual(loaded.metadata(), self.graph.metadata())
            for fanouts, nodes in ((FANOUTS, ("paper", self.data["paper"].train_mask)), (uneven, [("author", [5, 2, 7]), ("paper", [1, 250])])):
                pair = [strata.NeighborLoader(g, fanouts, input_nodes=nodes, batch_size=32, **options) for g in (loaded, graph or self.graph)]
                for batch, expected in zip(*pair, strict=True):
                    self.assertEqual(content(batch), content(expected))
                    self.check_rows(batch)

    def check_rows(self, batch):
        for kind in batch.node_types:
            store, given = batch[kind], self.data[kind]
            self.assertEqual(set(store.keys()) & {"x", "y", "train_mask", "val_mask", "test_mask"}, set(given.keys()) - {"num_nodes"})
            for name in set(given.keys()) - {"num_nodes"}:
                self.assertTrue(torch.equal(store[name].cpu(), given[name][store.n_id.cpu()]), (kind, name))

    def test_give_the_batches_of_the_graph_in_memory(self):
        for count in (1, 3):
            self.check_batches(self.parts(count))

    def test_hold_edges_out_that_no_batch_has(self):
        kind = ("paper", "cites", "paper")
        parts = self.parts(2, edge_split="0.2,0.1", split_relation="paper__cites__paper", seed=3)
        self.assertEqual(self.report["edge_splits"].keys(), {"valid", "test"})
        with strata.load(parts) as graph:
            held = set()
            for split in ("valid", "test"):
                ids, pairs = graph.link_ids(split, kind), graph.links(split, kind)
                self.assertEqual(len(ids), self.report["edge_splits"][split])
                self.assertTrue(torch.equal(pairs, self.data[kind].edge_index[:, ids]))
                held |= set(ids.tolist())
            self.assertGreater(len(held), 400)
            self.assertEqual(graph.links("val", ("paper", "in", "venue")).shape, (2, 0))
            loader = strata.LinkNeighborLoader(graph, [-1, -1], (kind, graph.links("test", kind)), batch_size=64)
            sampled = {edge for batch in loader for edge in batch[kind].e_id.tolist()}
            self.assertGreater(len(sampled), 1000)
            self.assertFalse(sampled & held)
            trained = strata.LinkNeighborLoader(graph, [1], kind, batch_size=2000, exclude_seed_edges=False)
            self.assertEqual(sum(batch[kind].edge_label_index.shape[1] for batch in trained), 2000 - len(held))
            for wrong in (("train", kind), ("valid", None)):
                with self.assertRaises(strata.InputError):
                    graph.links(*wrong)
            strata.partition(graph, parts=1, output=self.folder / "of_training", progress=False)
        self.assertEqual(strata.info(self.folder / "of_training", progress=False)["num_edges"], self.report["num_edges"])

    def test_choose_by_weight_and_by_labor_as_in_memory(self):
        parts = self.parts(2)
        for sampler in ("weighted", "labor"):
            self.check_batches(parts, sampler=sampler)

    def test_are_made_of_a_graph_in_memory_and_of_parts(self):
        self.check_batches(self.parts(2, self.graph))
        first = self.report["graph_digest"]
        parts = self.parts(3)
        self.assertEqual(self.report["graph_digest"], first)
        again = strata.repartition(parts, parts=2, output=self.folder / "again", progress=False)
        self.assertEqual(again["graph_digest"], first)
        self.check_batches(again["path"])
        merged = strata.repartition(parts, parts=1, output=self.folder / "merged", method="merge", progress=False)
        self.check_batches(merged["path"])

    def test_are_described(self):
        parts = self.parts(2, balance=["types"], imbalance=0.2)
        types = strata.info(parts, progress=False)["types"]
        self.assertEqual([(t["name"], t["nodes"], t["feature_cols"]) for t in types["nodes"]],
                         [("paper", 300, 12), ("author", 120, 3), ("venue", 5, 0), ("nothing", 0, 0)])
        self.assertEqual([r["edges"] for r in types["relations"]], list(EDGES.values()))
        self.assertIn("type venue", [c["name"] for c in self.report["constraints"] if c["asked"]])

    def test_say_what_they_do_not_hold(self):
        data = random_data()
        data["author"].born = torch.arange(120)
        data["paper", "in", "venue"].edge_attr = torch.zeros(300, 2)
        with self.assertWarnsRegex(UserWarning, r"parts do not hold edge_attr of .*'in'.*, born of author"):
            self.parts(2, data)
        with self.assertRaisesRegex(strata.InputError, "duplicates has no effect"):
            self.parts(3, duplicates="keep")

    def test_become_folders_of_arrays(self):
        strata.convert(self.parts(2), f"npy:{self.folder / 'arrays'}", progress=False)
        with strata.load(f"npy:{self.folder / 'arrays'}") as graph:
            self.assertEqual([sorted(names) for names in graph.metadata()], [sorted(names) for names in self.data.metadata()])
            (batch,) = strata.NeighborLoader(graph, [-1], input_nodes="author", batch_size=COUNTS["author"])
            batch = batch.cpu()
            relation = batch["paper", "written_by", "author"]
            self.assertGreater(len(relation.e_id), 1100)  # of 1,200, without those that are there twice
            ends = torch.stack([batch["paper"].n_id[relation.edge_index[0]], batch["author"].n_id[relation.edge_index[1]]])
            self.assertTrue(torch.equal(ends, self.data["paper", "written_by", "author"].edge_index[:, relation.e_id]))
            self.assertTrue(torch.equal(batch["author"].x, self.data["author"].x[batch["author"].n_id]))

    def test_train_and_predict_from_memory(self):
        options = {"model": "rsage", "hidden": 8, "fanouts": [3, 2], "epochs": 2, "seed": 1, "device": "cpu"}
        of_data = strata.train(self.data, output=self.folder / "of-data", **options)
        of_parts = strata.train(str(self.parts(1)), output=self.folder / "of-parts", **options)
        self.assertEqual(of_data.valid.loss, of_parts.valid.loss)
        self.assertEqual(strata.train(self.graph, output=self.folder / "of-graph", **options).valid.loss, of_data.valid.loss)
        logits = strata.predict(of_data, self.data)
        self.assertEqual(logits.shape, (COUNTS["paper"], 5))
        self.assertTrue(torch.equal(logits, strata.predict(of_parts, self.parts(3))))

    def test_keep_the_names_of_one_type_and_one_relation(self):
        data = HeteroData()
        data["paper"].x = torch.ones(40, 2)
        data["paper", "cites", "paper"].edge_index = torch.randint(40, (2, 100))
        with strata.load(self.parts(2, data)) as graph:
            self.assertEqual(graph.metadata(), data.metadata())
            (batch,) = strata.NeighborLoader(graph, [-1], input_nodes="paper", batch_size=40)
            self.assertEqual(sorted(batch["paper", "cites", "paper"].e_id.tolist()), list(range(100)))

    def test_give_the_same_on_any_number_of_ranks_and_machines(self):
        parts = self.parts(3)
        expected = steps_of(self.graph, False)
        x = torch.cat([self.data["paper"].x.sum(dim=1), self.data["author"].x.sum(dim=1), torch.zeros(5)]).tolist()
        y = self.data["paper"].y.tolist()
        for ranks, ranks_per_machine in ((2, 0), (2, 1)):
            folder = self.folder / f"ranks-{ranks}-{ranks_per_machine}"
            folder.mkdir()
            done = mpirun(ranks, HERE / "typed_batches_of_rank.py", parts, folder, ranks_per_machine)
            self.assertEqual(done.returncode, 0, done.stderr)
            of_ranks = [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(ranks)]
            self.assertEqual(of_ranks[0]["machines"], ranks if ranks_per_machine else 1)
            for step, *found in zip(expected, *(one["steps"] for one in of_ranks), strict=True):
                self.assertEqual(
                    {tuple(edge) for one in found for edge in one["edges"]}, {tuple(edge) for edge in step["edges"]}
                )
                types = dict(step["types"])
                for one in found:
                    self.assertEqual(dict(map(tuple, one["types"])).items() - types.items(), set())
                    self.assertEqual(one["rows"], {node: x[int(node)] for node in one["rows"]})
                    self.assertEqual(one["labels"], {node: y[int(node)] for node in one["labels"]})
            seeds = [tuple(pair) for one in of_ranks for pair in one["seeds"]]
            self.assertEqual(sorted(seeds), [(seed, y[seed]) for seed in SEEDS])


if __name__ == "__main__":
    warnings.simplefilter("default")
    unittest.main()
