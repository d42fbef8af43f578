# SPDX-License-Identifier: Apache-2.0
"""strata.dgl: edges to predict by DGL's names."""

import unittest

import torch

import strata
import strata.dgl as dgl_names

NODES, HALF = 150, 600


class Pairs(unittest.TestCase):
    def setUp(self):
        random = torch.Generator().manual_seed(4)
        half = torch.randint(NODES, (2, HALF), generator=random)
        self.edges = torch.cat([half, half.flip(0)], 1)
        self.graph = strata.from_tensors(self.edges, torch.randn(NODES, 3), num_nodes=NODES)
        self.edges = self.edges.to(strata.process().device)
        self.addCleanup(self.graph.close)

    def loader(self, eids, exclude=None, negatives=None, sampler=None, **options):
        sampler = sampler or dgl_names.NeighborSampler([3, -1], prefetch_node_feats="feat")
        reverse = (torch.arange(2 * HALF) + HALF) % (2 * HALF) if exclude == "reverse_id" else None
        edges = dgl_names.as_edge_prediction_sampler(sampler, exclude=exclude, reverse_eids=reverse, negative_sampler=negatives)
        return dgl_names.dataloading.DataLoader(self.graph, eids, edges, batch_size=50, blocks="strata", **options)

    def test_are_those_that_were_asked_for(self):
        eids = torch.randperm(2 * HALF)[:230]
        for exclude in (None, "self", "reverse_id"):
            met = []
            for input_nodes, pairs, blocks in self.loader(eids, exclude, shuffle=True):
                chosen = pairs.edata[dgl_names.EID]
                met += chosen.tolist()
                nodes = pairs.ndata[dgl_names.NID]
                self.assertTrue(torch.equal(nodes[torch.stack(pairs.edges())], self.edges[:, chosen]))
                self.assertTrue(torch.equal(blocks[-1].dstdata[dgl_names.NID], nodes))
                self.assertEqual(pairs.num_nodes(), blocks[-1].num_dst)
                self.assertEqual(blocks[0].srcdata["feat"].shape, (len(input_nodes), 3))
                out = {None: [], "self": [chosen], "reverse_id": [chosen, (chosen + HALF) % (2 * HALF)]}[exclude]
                wanted = torch.isin(self.edges[1], nodes)
                wanted[torch.cat(out) if out else []] = False
                self.assertEqual(sorted(blocks[-1].edata[dgl_names.EID].tolist()), wanted.nonzero().view(-1).tolist())
                self.assertFalse(out and torch.isin(blocks[0].edata[dgl_names.EID], torch.cat(out)).any())
            self.assertEqual(sorted(met), sorted(eids.tolist()))

    def test_have_negatives_of_their_sources(self):
        for _, pairs, negatives, blocks in self.loader(torch.arange(100), "self", dgl_names.negative_sampler.Uniform(4)):
            self.assertEqual((pairs.num_edges(), negatives.num_edges()), (50, 200))
            self.assertTrue(torch.equal(negatives.edges()[0], pairs.edges()[0].repeat_interleave(4)))
            self.assertIs(negatives.ndata[dgl_names.NID], pairs.ndata[dgl_names.NID])
            self.assertLess(int(negatives.edges()[1].max()), blocks[-1].num_dst)

    def test_have_negatives_that_are_no_edges(self):
        code = self.edges[0] * NODES + self.edges[1]
        for _, pairs, negatives, _ in self.loader(torch.arange(100), "self", dgl_names.negative_sampler.GlobalUniform(5)):
            self.assertEqual((pairs.num_edges(), negatives.num_edges()), (50, 250))
            src, dst = negatives.ndata[dgl_names.NID][torch.stack(negatives.edges())]
            self.assertFalse(bool(torch.isin(src * NODES + dst, code).any() or (src == dst).any()))

    def test_are_refused_with_what_to_do(self):
        sampler = dgl_names.NeighborSampler([2])
        make = dgl_names.as_edge_prediction_sampler
        for message, call in (
            ("exclude='all'", lambda: make(sampler, exclude="all")),
            ("belong together", lambda: make(sampler, exclude="reverse_id")),
            ("reverse_etypes belong together", lambda: make(sampler, reverse_etypes={"a": "b"})),
            ("labels are not possible|labels is not possible", lambda: make(sampler, prefetch_labels=["y"])),
            ("negative_sampler is a int", lambda: make(sampler, negative_sampler=3)),
            ("are not predicted with a BlockSampler", lambda: make(dgl_names.BlockSampler(2))),
        ):
            with self.assertRaisesRegex(strata.InputError, message):
                call()
        with self.assertRaisesRegex(IndexError, "no edge"):
            self.loader([2 * HALF])


if __name__ == "__main__":
    unittest.main()
