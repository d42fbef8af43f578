# SPDX-License-Identifier: Apache-2.0
"""Batches of links: PyG's fields, edges that a step leaves out, and negatives."""

import tempfile
import unittest

import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import LinkLoader
from torch_geometric.sampler import BaseSampler, HeteroSamplerOutput, NegativeSampling, SamplerOutput
from torch_geometric.sampler.neighbor_sampler import edge_sample

import strata

NODES = 200


def pairs(count, num_sources, num_destinations, seed):
    random = torch.Generator().manual_seed(seed)
    return torch.stack([torch.randint(n, (count,), generator=random) for n in (num_sources, num_destinations)])


def homogeneous(seed=1):
    """Both directions of 900 edges, some of which are there twice."""
    half = pairs(900, NODES, NODES, seed)
    return Data(x=torch.randn(NODES, 4), y=torch.arange(NODES), edge_index=torch.cat([half, half.flip(0)], 1), num_nodes=NODES)


def heterogeneous():
    data = HeteroData()
    data["user"].x, data["item"].x = torch.randn(120, 3), torch.randn(60, 5)
    data["user", "buys", "item"].edge_index = pairs(700, 120, 60, 2)
    data["item", "rev_buys", "user"].edge_index = data["user", "buys", "item"].edge_index.flip(0)
    data["user", "knows", "user"].edge_index = pairs(400, 120, 120, 3)
    return data


class OnlySeeds(BaseSampler):
    """PyG's way from links to seeds and back, without neighbors."""

    edge_permutation = None

    def __init__(self, data):
        typed = isinstance(data, HeteroData)
        self.num_nodes = {kind: data[kind].num_nodes for kind in data.node_types} if typed else data.num_nodes
        self.edge_types = data.edge_types if typed else None

    def sample_from_nodes(self, inputs):
        raise NotImplementedError

    def sample_from_edges(self, inputs, neg_sampling=None):
        return edge_sample(inputs, self.sample, self.num_nodes, disjoint=False, neg_sampling=neg_sampling)

    def sample(self, seed, _time):
        none = torch.zeros(0, dtype=torch.long)
        if not isinstance(seed, dict):
            return SamplerOutput(seed, none, none, none)
        empty = dict.fromkeys(self.edge_types, none)
        return HeteroSamplerOutput({kind: seed.get(kind, none) for kind in self.num_nodes}, empty, empty, empty)


class OnTheCpu(strata.LinkNeighborLoader):
    """Its batches are compared with graphs that lie there."""

    def __iter__(self):
        return (batch.cpu() for batch in super().__iter__())


def negatives_of(*args, **options):
    return NegativeSampling(*args, **options)


class Fields(unittest.TestCase):
    def same(self, mine, theirs, names, seeds_first):
        for name in names:
            self.assertEqual(name in mine, name in theirs, name)
            if name not in theirs:
                continue
            found, expected = mine[name], theirs[name]
            self.assertEqual((found.dtype, found.shape), (expected.dtype, expected.shape), name)
            if name in ("edge_label", "input_id"):
                self.assertTrue(torch.equal(found, expected), name)
        self.assertEqual(seeds_first, sorted(set(seeds_first)), "seeds are distinct and ascending")

    def test_of_one_type_are_pygs(self):
        data = homogeneous()
        links, labels = data.edge_index[:, :50], torch.arange(50) % 3
        with strata.from_pyg(data) as graph:
            for negatives, edge_label in (
                (None, None),
                (None, labels),
                (negatives_of("binary"), None),
                (negatives_of("binary", 0.4), labels),
                (negatives_of("binary", 2.5), labels + 1),
                (negatives_of("triplet"), None),
                (negatives_of("triplet", 3), None),
            ):
                options = {"edge_label_index": links, "edge_label": edge_label, "neg_sampling": negatives, "batch_size": 16}
                theirs = LinkLoader(data, OnlySeeds(data), **options)
                triplets = negatives is not None and negatives.is_triplet()
                names = (
                    ("src_index", "dst_pos_index", "dst_neg_index")
                    if triplets
                    else ("edge_label_index", "edge_label", "edge_label_time")
                )
                for mine, batch in zip(OnTheCpu(graph, [3, 2], **options), theirs, strict=True):
                    seeds = mine.n_id[: mine.num_sampled_nodes[0]].tolist()
                    self.same(mine, batch, (*names, "input_id"), seeds)
                    for field, row in zip(names, links if triplets else [links]):
                        ids, count = mine.n_id[mine[field]], len(mine.input_id)
                        self.assertTrue(torch.equal(ids[..., :count], row[..., mine.input_id]))
                    self.assertTrue(torch.equal(mine.x, data.x[mine.n_id]))
                    self.assertTrue(torch.equal(mine.y, mine.n_id))
                    used = torch.cat([mine[name].view(-1) for name in names if name.endswith("index")])
                    self.assertEqual(used.unique().tolist(), list(range(len(seeds))))

    def test_of_several_types_are_pygs(self):
        data = heterogeneous()
        with strata.from_pyg(data) as graph:
            for edge in data.edge_types:
                for negatives in (None, negatives_of("binary", 1.5), negatives_of("triplet", 2)):
                    options = {
                        "edge_label_index": (edge, data[edge].edge_index[:, 5:70]),
                        "neg_sampling": negatives,
                        "batch_size": 30,
                    }
                    theirs = LinkLoader(data, OnlySeeds(data), **options)
                    for mine, batch in zip(OnTheCpu(graph, [2, 2], **options), theirs, strict=True):
                        chosen, links = mine[edge].input_id, data[edge].edge_index[:, 5:70]
                        if negatives is not None and negatives.is_triplet():
                            self.assertEqual(mine[edge[2]].dst_neg_index.shape, batch[edge[2]].dst_neg_index.shape)
                            ends = mine[edge[0]].n_id[mine[edge[0]].src_index], mine[edge[2]].n_id[mine[edge[2]].dst_pos_index]
                            self.assertTrue((mine[edge[2]].dst_neg_index < mine[edge[2]].num_sampled_nodes[0]).all())
                        else:
                            self.same(mine[edge], batch[edge], ("edge_label_index", "edge_label", "input_id"), [])
                            ends = [mine[kind].n_id[row] for kind, row in zip((edge[0], edge[2]), mine[edge].edge_label_index)]
                        for row, ids in zip(links[:, chosen], ends):
                            self.assertTrue(torch.equal(ids[: len(chosen)], row))

    def test_blocks_have_them_too(self):
        data = homogeneous()
        with strata.from_pyg(data) as graph:
            for sample, x in strata.LinkLoader(
                graph, data.edge_index[:, :40], fanouts=[3, 2], batch_size=20, neg_sampling="binary", features=True
            ):
                ends = sample.input_nodes[sample.edge_label_index].cpu()
                self.assertTrue(torch.equal(ends[:, :20], data.edge_index[:, sample.input_id.cpu()]))
                self.assertEqual(sample.edge_label.tolist(), [1] * 20 + [0] * 20)
                self.assertEqual(sample.blocks[-1].num_dst, len(sample.output_nodes))
                self.assertTrue(torch.equal(x.cpu(), data.x[sample.input_nodes.cpu()]))


class Exclusion(unittest.TestCase):
    """With all neighbors asked for, a batch has exactly the in-edges of its seeds that are not left out."""

    def setUp(self):
        self.data = homogeneous()
        self.graph = strata.from_pyg(self.data)
        self.addCleanup(self.graph.close)

    def check(self, loader, left_out):
        """left_out(input_id) are ids of edges that the batch must not have."""
        for batch in loader:
            seeds = batch.n_id[: batch.num_sampled_nodes[0]]
            wanted = torch.isin(self.data.edge_index[1], seeds)
            wanted[left_out(batch.input_id)] = False
            self.assertEqual(sorted(batch.e_id.tolist()), wanted.nonzero().view(-1).tolist())

    def between(self, sources, destinations):
        code = self.data.edge_index[0] * NODES + self.data.edge_index[1]
        return torch.isin(code, sources * NODES + destinations)

    def test_of_pairs_takes_all_edges_between_them(self):
        links = self.data.edge_index[:, 100:300]
        options = {"edge_label_index": links, "batch_size": 32, "shuffle": True}
        self.check(
            OnTheCpu(self.graph, [-1], **options),
            lambda ids: self.between(*links[:, ids]) | self.between(*links[:, ids].flip(0)),
        )
        self.check(OnTheCpu(self.graph, [-1], reverse=False, **options), lambda ids: self.between(*links[:, ids]))
        self.check(OnTheCpu(self.graph, [-1], exclude_seed_edges=False, **options), lambda ids: [])

    def test_of_ids_takes_these_edges(self):
        chosen = torch.randperm(1800)[:150]
        opposite = (torch.arange(1800) + 900) % 1800
        self.check(
            OnTheCpu(self.graph, [-1], chosen, batch_size=20, reverse=opposite),
            lambda ids: torch.cat([chosen[ids], opposite[chosen[ids]]]),
        )
        self.check(OnTheCpu(self.graph, [-1], chosen, batch_size=20, reverse=False), lambda ids: chosen[ids])
        mask = torch.zeros(1800, dtype=torch.bool)
        mask[chosen] = True
        loader = OnTheCpu(self.graph, [-1], mask, batch_size=20, reverse=False)
        self.check(loader, lambda ids: mask.nonzero().view(-1)[ids])
        self.assertEqual(len(OnTheCpu(self.graph, [2], batch_size=100)), 18, "all edges")
        batch = loader([3, 140])
        self.assertEqual(batch.input_id.tolist(), [3, 140])
        ends = batch.n_id[batch.edge_label_index].cpu()
        self.assertTrue(torch.equal(ends, self.data.edge_index[:, mask.nonzero().view(-1)[[3, 140]]]))

    def test_fills_fanouts(self):
        links = self.data.edge_index[:, :64]
        for options in ({}, {"replace": True}):
            (batch,) = OnTheCpu(self.graph, [4], links, batch_size=64, **options)
            seeds = batch.n_id[: batch.num_sampled_nodes[0]]
            gone = self.between(*links) | self.between(*links.flip(0))
            left = self.data.edge_index[1][~gone].bincount(minlength=NODES)[seeds]
            counts = batch.edge_index[1].bincount(minlength=len(seeds))
            self.assertFalse(gone[batch.e_id].any())
            expected = torch.where(left > 0, 4, 0) if options else left.clamp(max=4)
            self.assertTrue(torch.equal(counts, expected))

    def test_of_several_types(self):
        data = heterogeneous()
        buys, opposite, knows = data.edge_types
        ids = torch.arange(100, 200)
        with strata.from_pyg(data) as graph:
            (batch,) = OnTheCpu(graph, [-1], (buys, ids), batch_size=100)
            users, items = (batch[kind].n_id[: batch[kind].num_sampled_nodes[0]] for kind in ("user", "item"))
            for edge, seeds in ((buys, items), (opposite, users)):
                wanted = torch.isin(data[edge].edge_index[1], seeds)
                wanted[ids] = False
                self.assertEqual(sorted(batch[edge].e_id.tolist()), wanted.nonzero().view(-1).tolist())
            self.assertEqual(len(batch[knows].e_id), torch.isin(data[knows].edge_index[1], users).sum())
            (batch,) = OnTheCpu(graph, [-1], (buys, data[buys].edge_index[:, ids]), batch_size=100, reverse=opposite)
            for edge, (first, second) in ((buys, (0, 1)), (opposite, (1, 0))):
                left = data[edge].edge_index[:, batch[edge].e_id]
                code = left[first] * 60 + left[second]
                self.assertFalse(torch.isin(code, data[buys].edge_index[0, ids] * 60 + data[buys].edge_index[1, ids]).any())


class OfParts(unittest.TestCase):
    """Parts number nodes anew, and lack edges that their input lists again."""

    def parts_of(self, data):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        strata.partition(data, parts=3, output=f"{folder.name}/parts")
        graph = strata.load(f"{folder.name}/parts")
        self.addCleanup(graph.close)
        return graph

    def test_of_one_type(self):
        data = homogeneous()
        graph = self.parts_of(data)
        links = data.edge_index[:, :40]
        (batch,) = OnTheCpu(graph, [-1], links, batch_size=40, original=True, neg_sampling="triplet")
        for field, row in (("src_index", links[0]), ("dst_pos_index", links[1])):
            self.assertTrue(torch.equal(batch.original_ids[batch[field]], row))
        code = torch.tensor([NODES, 1])
        found = (batch.original_ids[batch.edge_index].T * code).sum(1)
        left_out = torch.cat([(links.T * code).sum(1), (links.flip(0).T * code).sum(1)])
        seeds = batch.original_ids[: batch.num_sampled_nodes[0]]
        wanted = (data.edge_index[:, torch.isin(data.edge_index[1], seeds)].T * code).sum(1).unique()
        self.assertEqual(sorted(found.tolist()), wanted[~torch.isin(wanted, left_out)].tolist())
        every = sum(len(batch.input_id) for batch in OnTheCpu(graph, [1], batch_size=500))
        self.assertEqual(every, graph.num_edges)

    def test_of_several_types(self):
        data, ids = heterogeneous(), torch.arange(50, 150)
        buys, opposite, _ = data.edge_types
        ends = data[buys].edge_index
        code = ends[0] * 60 + ends[1]
        graph = self.parts_of(data)
        for given in (ids, ends[:, ids]):
            negatives = strata.NegativeSampling("binary", 2, strict=True)
            (batch,) = OnTheCpu(graph, [-1], (buys, given), batch_size=100, neg_sampling=negatives)
            users, items = (batch[kind].n_id[row] for kind, row in zip(("user", "item"), batch[buys].edge_label_index))
            self.assertTrue(torch.equal(torch.stack([users, items])[:, :100], ends[:, ids[batch[buys].input_id]]))
            self.assertFalse(torch.isin(users * 60 + items, code)[100:].any())
            wanted = torch.isin(ends[1], items)
            wanted[ids if given is ids else torch.isin(code, code[ids])] = False
            self.assertEqual(sorted(batch[buys].e_id.tolist()), wanted.nonzero().view(-1).tolist())
            self.assertFalse(torch.isin(batch[opposite].e_id, ids).any())


class Negatives(unittest.TestCase):
    def draws(self, graph, negatives, edge_label_index, epochs=3, **options):
        """(sources, destinations) of negatives, as ids of their types."""
        found = []
        loader = OnTheCpu(
            graph, [0, 0][:1] if graph.metadata()[1][1:] else [1], edge_label_index, neg_sampling=negatives, **options
        )
        for _ in range(epochs):
            for batch in loader:
                found.append(batch.n_id[batch.edge_label_index[:, len(batch.input_id) :]])
        return loader, torch.cat(found, 1)

    def chi_square(self, counts, weights):
        """In deviations from its mean, of a chi-square distribution."""
        expected = counts.sum() * weights / weights.sum()
        used = expected > 0
        self.assertEqual(int(counts[~used].sum()), 0)
        degrees = int(used.sum()) - 1
        return float((((counts - expected)[used] ** 2 / expected[used]).sum() - degrees) / (2 * degrees) ** 0.5)

    def test_are_drawn_as_asked(self):
        data = homogeneous()
        degree = data.edge_index[1].bincount(minlength=NODES)
        degree[:20] = 0
        with strata.from_pyg(data) as graph:
            for weight in (None, degree**0.75):
                negatives = strata.NegativeSampling("binary", 10, dst_weight=weight)
                _, found = self.draws(graph, negatives, data.edge_index, batch_size=300)
                self.assertLess(abs(self.chi_square(found[0].bincount(minlength=NODES), torch.ones(NODES))), 5)
                weights = torch.ones(NODES) if weight is None else weight
                self.assertLess(abs(self.chi_square(found[1].bincount(minlength=NODES), weights)), 5)
                both = (found[0] // 20) * 10 + found[1] // 20
                if weight is None:
                    self.assertLess(abs(self.chi_square(both.bincount(minlength=100), torch.ones(100))), 5)

    def test_are_keyed(self):
        data = homogeneous()
        with strata.from_pyg(data) as graph:
            options = {"batch_size": 100, "shuffle": True, "epochs": 1}
            _, first = self.draws(graph, "binary", data.edge_index, **options)
            self.assertTrue(torch.equal(first, self.draws(graph, "binary", data.edge_index, **options)[1]))
            self.assertFalse(torch.equal(first, self.draws(graph, "binary", data.edge_index, seed=3, **options)[1]))
            _, two = self.draws(graph, "binary", data.edge_index, **(options | {"epochs": 2}))
            self.assertTrue(torch.equal(two[:, : first.shape[1]], first))
            self.assertFalse(torch.equal(two[:, first.shape[1] :], first))

    def test_strict_ones_are_no_edges(self):
        edges = torch.tensor([(a, b) for a in range(30) for b in range(30) if (a + b) % 3 == 0]).T
        with strata.from_pyg(Data(edge_index=edges, num_nodes=30)) as graph:
            loader, found = self.draws(graph, strata.NegativeSampling("binary", 4, strict=True), edges, batch_size=50)
            self.assertEqual(int(((found[0] + found[1]) % 3 == 0).sum()), 0)
            self.assertEqual(found.shape[1] + loader.failed_draws, 3 * 4 * edges.shape[1])
            self.assertLess(loader.failed_draws, found.shape[1] / 3**6 * 3)
            negatives = strata.NegativeSampling("binary", 4, strict=True, self_loops=False)
            _, found = self.draws(graph, negatives, edges, batch_size=50)
            self.assertFalse(bool((found[0] == found[1]).any()))
            _, plain = self.draws(graph, strata.NegativeSampling("binary", 4), edges, batch_size=50)
            self.assertGreater(int(((plain[0] + plain[1]) % 3 == 0).sum()), found.shape[1] / 4)

    def test_are_of_the_relations_types(self):
        data = heterogeneous()
        edge = ("user", "buys", "item")
        with strata.from_pyg(data) as graph:
            for batch in OnTheCpu(graph, [2], edge, neg_sampling=strata.NegativeSampling("triplet", 2), batch_size=300):
                self.assertLess(int(batch["item"].dst_neg_index.max()), batch["item"].num_sampled_nodes[0])
                self.assertLess(int(batch["item"].n_id.max()), 60)


class SharedNegatives(unittest.TestCase):
    def test_are_those_of_groups(self):
        data = homogeneous()
        with strata.from_pyg(data) as graph:
            for mode, group, size in (("joint", None, 100), ("joint", 32, 32), ("in_batch", None, 100), ("in_batch", 32, 32)):
                negatives = strata.NegativeSampling(mode, 5, group=group)
                first = 0
                for batch in OnTheCpu(graph, [2], data.edge_index[:, :230], neg_sampling=negatives, batch_size=100):
                    links = data.edge_index[:, batch.input_id]
                    self.assertTrue(torch.equal(batch.n_id[batch.src_index], links[0]))
                    self.assertTrue(torch.equal(batch.n_id[batch.dst_pos_index], links[1]))
                    number = (batch.input_id - first) // min(size, len(links[0]))
                    self.assertTrue(torch.equal(batch.neg_group, number))
                    drawn = batch.n_id[batch.dst_neg_index]
                    self.assertEqual(len(drawn), int(number.max()) + 1)
                    wanted = drawn[number] != links[1].unsqueeze(1)
                    if mode == "in_batch":
                        for row, mask, at in zip(drawn[number], batch.neg_mask, number):
                            of_group = links[1][number == at]
                            self.assertTrue(torch.equal(row[: len(of_group)], of_group))
                            self.assertFalse(bool(mask[len(of_group) :].any()))
                        sizes = number.bincount()[number].unsqueeze(1)
                        wanted &= torch.arange(drawn.shape[1]) < sizes
                    self.assertTrue(torch.equal(batch.neg_mask, wanted))
                    first += len(links[0])

    def test_are_keyed_by_group(self):
        data = homogeneous()
        with strata.from_pyg(data) as graph:
            options = {"neg_sampling": strata.NegativeSampling("joint", 50, group=50), "batch_size": 100}
            runs = [
                [b.n_id[b.dst_neg_index] for b in OnTheCpu(graph, [1], data.edge_index[:, :300], **options)] for _ in range(2)
            ]
            self.assertTrue(all(torch.equal(*pair) for pair in zip(*runs)))
            sets = torch.cat(runs[0])
            self.assertEqual(len(sets.unique(dim=0)), 6)

    def test_listed_ones_are_those_of_the_links(self):
        data, typed = homogeneous(), heterogeneous()
        buys = typed.edge_types[0]
        with strata.from_pyg(data) as graph, strata.from_pyg(typed) as several:
            candidates = pairs(1800, NODES, NODES, 7).T.contiguous()
            negatives = strata.NegativeSampling("listed", candidates=candidates)
            loader = OnTheCpu(graph, [2], data.edge_index, neg_sampling=negatives, batch_size=500, shuffle=True)
            for batch in (*loader, loader([7, 3]).cpu()):
                self.assertTrue(torch.equal(batch.n_id[batch.dst_neg_index], candidates[batch.input_id]))
            negatives = strata.NegativeSampling("listed", candidates=torch.arange(700).view(700, 1) % 60)
            for batch in OnTheCpu(several, [2], buys, neg_sampling=negatives, batch_size=300):
                self.assertTrue(torch.equal(batch["item"].n_id[batch["item"].dst_neg_index], batch[buys].input_id % 60))
            joint = strata.NegativeSampling("joint", 9, group=100)
            for batch in OnTheCpu(several, [2], buys, neg_sampling=joint, batch_size=300):
                self.assertLess(int(batch["item"].dst_neg_index.max()), batch["item"].num_sampled_nodes[0])
                self.assertEqual(batch[buys].neg_mask.shape, (len(batch[buys].input_id), 9))
            for message, arguments in (
                ("3 rows for 1800 links", {"candidates": candidates[:3]}),
                ("nodes of their type", {"candidates": candidates + NODES}),
            ):
                with self.assertRaisesRegex((strata.InputError, IndexError), message):
                    OnTheCpu(graph, [2], data.edge_index, neg_sampling=strata.NegativeSampling("listed", **arguments))
        for message, arguments in (
            ("not possible with 'joint'", {"mode": "joint", "strict": True}),
            ("without strict=True", {"self_loops": False}),
            ("'triplet' has no groups", {"mode": "triplet", "group": 3}),
            ("belong together", {"mode": "listed"}),
            ("have the shape", {"mode": "listed", "candidates": [1, 2]}),
        ):
            with self.assertRaisesRegex(strata.InputError, message):
                strata.NegativeSampling(**arguments)


class Refusals(unittest.TestCase):
    def test_say_what_to_do(self):
        data, typed = homogeneous(), heterogeneous()
        with strata.from_pyg(data) as graph, strata.from_pyg(typed) as several:
            for kind, message, arguments in (
                (strata.InputError, "has the shape", {"edge_label_index": torch.zeros(3, 4, dtype=torch.long)}),
                (IndexError, "there are 200 nodes", {"edge_label_index": torch.tensor([[0], [NODES]])}),
                (IndexError, "1800, which is no edge", {"edge_label_index": torch.tensor([1800])}),
                (strata.InputError, "a mask of shape", {"edge_label_index": torch.ones(5, dtype=torch.bool)}),
                (strata.InputError, "for 1800 links", {"edge_label": torch.ones(7)}),
                (strata.InputError, "triplet negatives are given", {"edge_label": torch.ones(1800), "neg_sampling": "triplet"}),
                (strata.InputError, "whole number", {"neg_sampling": {"mode": "triplet", "amount": 1.5}}),
                (strata.InputError, "above 0", {"neg_sampling": {"mode": "binary", "amount": 0}}),
                (
                    strata.InputError,
                    "weights of destinations",
                    {"neg_sampling": {"mode": "binary", "dst_weight": torch.ones(3)}},
                ),
                (strata.InputError, "are 0", {"neg_sampling": {"mode": "binary", "src_weight": torch.zeros(NODES)}}),
                (strata.InputError, "reverse maps ids", {"edge_label_index": data.edge_index, "reverse": torch.arange(1800)}),
                (TypeError, "neg_sampling is", {"neg_sampling": 3}),
                (strata.InputError, "not possible", {"disjoint": True}),
                (strata.InputError, "names a relation", {"edge_label_index": ("a", "b", "c")}),
            ):
                with self.assertRaisesRegex(kind, message):
                    OnTheCpu(graph, [2], **arguments)
            for message, arguments in (
                ("names no relation", {}),
                ("the graph has no relation", {"edge_label_index": ("user", "sells", "item")}),
                ("does not go from", {"edge_label_index": ("user", "buys", "item"), "reverse": ("user", "knows", "user")}),
            ):
                with self.assertRaisesRegex(strata.InputError, message):
                    OnTheCpu(several, [2], **arguments)


if __name__ == "__main__":
    unittest.main()
