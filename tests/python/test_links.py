# SPDX-License-Identifier: Apache-2.0
"""Decoders, losses and metrics of links: equal to torch_geometric's, to the formulas written out, and to counts by hand."""

import itertools
import pathlib
import unittest
import warnings

import numpy
import torch
import torch.nn.functional as F
import torch_geometric.nn.kge as kge
from torch_geometric.data import Data, HeteroData, TemporalData
from torch_geometric.transforms import RandomLinkSplit

import metrics_of_rank
import strata
import strata.pyg
from strata import _link_ranks, metrics, nn
from test_launch import mpirun

HERE = pathlib.Path(__file__).resolve().parent
DEVICE = torch.device(strata.process().device)


def integers(below, *shape):
    return torch.randint(below, shape, device=DEVICE)


def decoders(width):
    """Decoders of 7 relations of rows of 2 * width columns."""
    yield nn.DotProduct()
    yield nn.DistMult(7, 2 * width)
    yield nn.ComplEx(7, width)
    yield from (nn.RotatE(7, width, 4.0, norm) for norm in ("l1", "l2"))
    yield from (nn.TransE(7, 2 * width, norm) for norm in (1.0, 2.0))
    yield from (nn.MLPDecoder(2 * width, 6, 3, num_relations=7, combine=combine) for combine in ("mul", "cat"))


class Decoders(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)

    def test_scores_are_those_of_pyg(self):
        head, relation, tail = integers(20, 50), integers(7, 50), integers(20, 50)
        for width in (1, 3, 33, 100):
            pairs = [
                (kge.DistMult(20, 7, width), nn.DistMult(7, width)),
                (kge.ComplEx(20, 7, width), nn.ComplEx(7, width)),
                (kge.RotatE(20, 7, width, 2.5), nn.RotatE(7, width, 2.5)),
                (kge.TransE(20, 7, width, p_norm=1.0), nn.TransE(7, width)),
                (kge.TransE(20, 7, width, p_norm=2.0), nn.TransE(7, width, p_norm=2.0)),
            ]
            for other, mine in pairs:
                other, mine = other.to(DEVICE), mine.to(DEVICE)
                self.assertEqual(mine.load_state_dict(other.state_dict(), strict=False).missing_keys, [])
                tables = [other.node_emb, *([other.node_emb_im] if hasattr(other, "node_emb_im") else [])]
                rows = torch.cat([table.weight for table in tables], dim=1)
                torch.testing.assert_close(
                    mine(rows[head], relation, rows[tail]), other(head, relation, tail), rtol=1e-6, atol=1e-6
                )

    def test_scores_and_gradients_against_candidates_are_those_of_triples(self):
        for width, side in itertools.product((1, 33), ("tail", "head")):
            for decoder in decoders(width):
                decoder, relation = decoder.to(DEVICE), integers(7, 5)
                made = [torch.randn(size, 2 * width, device=DEVICE).requires_grad_() for size in (5, 41)]
                known, others = made[0].unsqueeze(1), made[1].expand(5, -1, -1)
                weights = torch.randn(5, 41, device=DEVICE)
                ends = (known, others) if side == "tail" else (others, known)
                expected = decoder(ends[0], relation.unsqueeze(1), ends[1])
                for candidates in (made[1], others):
                    scores = decoder.against(made[0], relation, candidates, side)
                    torch.testing.assert_close(scores, expected, rtol=1e-4, atol=1e-4)
                    tensors = [*made, *decoder.parameters()]
                    of_scores = torch.autograd.grad((scores * weights).sum(), tensors)
                    of_expected = torch.autograd.grad((expected * weights).sum(), tensors, retain_graph=True)
                    torch.testing.assert_close(of_scores, of_expected, rtol=1e-3, atol=1e-3)

    def test_no_tensor_has_an_element_for_each_edge_candidate_and_column(self):
        for decoder in decoders(32):
            decoder = decoder.to(DEVICE)
            rows, others = (torch.randn(count, 64, device=DEVICE, requires_grad=True) for count in (100, 500))
            largest = 0

            def packed(tensor):
                nonlocal largest
                largest = max(largest, tensor.numel())
                return tensor

            with torch.autograd.graph.saved_tensors_hooks(packed, lambda tensor: tensor):
                scores = decoder.against(rows, integers(7, 100), others)
            scores.sum().backward()
            self.assertLessEqual(largest, 100 * 500)  # not times 64 columns

    def test_of_one_relation_its_number_may_be_left_out(self):
        head, tail = torch.randn(2, 9, 8, device=DEVICE)
        one = nn.DistMult(1, 8).to(DEVICE)
        self.assertTrue(torch.equal(one(head, None, tail), one(head, integers(1, 9), tail)))
        with self.assertRaisesRegex(strata.InputError, "7 relations, but `relation` is None"):
            nn.DistMult(7, 8).to(DEVICE)(head, None, tail)
        with self.assertRaisesRegex(strata.InputError, "side is 'left'"):
            one.against(head, None, tail, "left")
        with self.assertRaisesRegex(strata.InputError, r"groups are \[3\]"):
            one.against(head, None, tail, groups=integers(2, 3))
        self.assertEqual(nn.MLPDecoder(8, 4, out_channels=3).to(DEVICE)(head, None, tail).shape, (9, 3))
        with self.assertRaisesRegex(strata.InputError, "out_channels=3"):
            nn.MLPDecoder(8, 4, out_channels=3).to(DEVICE).against(head, None, tail)

    def test_candidates_of_groups(self):
        torch.manual_seed(9)
        rows, candidates, groups = torch.randn(20, 8, device=DEVICE), torch.randn(4, 6, 8, device=DEVICE), integers(3, 20)
        relation = integers(7, 20)
        for decoder in (nn.DistMult(7, 8), nn.TransE(7, 8), nn.MLPDecoder(8, 4, num_relations=7)):
            decoder = decoder.to(DEVICE)
            for side in ("tail", "head"):
                found = decoder.against(rows, relation, candidates, side, groups=groups)
                torch.testing.assert_close(
                    found, decoder.against(rows, relation, candidates[groups], side), rtol=1e-4, atol=1e-5
                )
                one = decoder.against(rows, relation, candidates[:1], side, groups=torch.zeros_like(groups))
                torch.testing.assert_close(one, decoder.against(rows, relation, candidates[0], side))
        self.assertEqual(nn.DotProduct().against(rows[:0], None, candidates, groups=groups[:0]).shape, (0, 6))


class Losses(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(4)
        self.positive, self.negative = torch.randn(30, device=DEVICE), torch.randn(30, 5, device=DEVICE)
        self.weight = torch.rand(30, device=DEVICE)

    def same(self, one, other):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)

    def test_of_links_are_those_of_torch(self):
        positive, negative = self.positive, self.negative
        both = torch.cat([positive.unsqueeze(1), negative], dim=1)
        labels = torch.zeros_like(both)
        labels[:, 0] = 1
        self.same(nn.link_loss(positive, negative), F.binary_cross_entropy_with_logits(both, labels))
        flat = positive.repeat_interleave(5)
        expected = F.margin_ranking_loss(flat, negative.flatten(), torch.ones_like(flat), margin=0.7)
        self.same(nn.link_loss(positive, negative, "margin", margin=0.7), expected)
        self.same(nn.link_loss(positive, negative, "bpr"), -F.logsigmoid(positive.unsqueeze(1) - negative).mean())
        expected = F.cross_entropy(both / 0.2, integers(1, 30))
        self.same(nn.link_loss(positive, negative, "contrastive", temperature=0.2), expected)
        self.same(nn.link_loss(positive, negative[:, 0], "bpr"), -F.logsigmoid(positive - negative[:, 0]).mean())

    def test_masked_negatives_count_for_nothing(self):
        mask = torch.rand(30, 5, device=DEVICE) < 0.6
        mask[0], mask[1] = True, False
        for kind in ("cross_entropy", "bpr", "margin", "contrastive", "adversarial"):
            negative = self.negative.clone().requires_grad_()
            found = nn.link_loss(self.positive, negative, kind, mask=mask, reduction="none")
            for edge in (0, 2, 3):
                alone = self.positive[edge : edge + 1], self.negative[edge : edge + 1, mask[edge]]
                self.same(found[edge : edge + 1], nn.link_loss(*alone, kind, reduction="none"))
            found.sum().backward()
            self.assertTrue(bool(found.isfinite().all()) and bool(negative.grad.isfinite().all()))
            self.assertEqual(int(negative.grad[~mask].count_nonzero()), 0)
        with self.assertRaisesRegex(strata.InputError, r"mask is \[5\]"):
            nn.link_loss(self.positive, self.negative, mask=mask[0])

    def test_adversarial_weights_get_no_gradient(self):
        negative = self.negative.requires_grad_()
        loss = nn.link_loss(self.positive, negative, "adversarial", temperature=0.5)
        weights = (0.5 * negative).exp().detach()
        weights /= weights.sum(1, keepdim=True)
        self.same(loss, -(F.logsigmoid(self.positive) + (weights * F.logsigmoid(-negative)).sum(1)).mean() / 2)
        self.same(torch.autograd.grad(loss, negative)[0], weights * negative.sigmoid() / 60)

    def test_weights_of_edges(self):
        for kind in ("cross_entropy", "bpr", "margin", "contrastive", "adversarial"):
            of_edges = nn.link_loss(self.positive, self.negative, kind, reduction="none")
            weighted = nn.link_loss(self.positive, self.negative, kind, weight=self.weight)
            self.same(weighted, (of_edges * self.weight).sum() / self.weight.sum())
        with self.assertRaisesRegex(strata.InputError, "Choose one of cross_entropy, bpr"):
            nn.link_loss(self.positive, self.negative, "hinge")
        with self.assertRaisesRegex(strata.InputError, r"negative \[29, 5\]"):
            nn.link_loss(self.positive, self.negative[1:])

    def test_focal_and_quantile(self):
        logits, labels = torch.randn(30, 4, device=DEVICE), integers(4, 30)
        right = logits.softmax(1)[range(30), labels]
        self.same(nn.focal_loss(logits, labels, 1.5), (-((1 - right) ** 1.5) * right.log()).mean())
        self.same(
            nn.focal_loss(logits, labels, 0.0, weight=self.weight, reduction="none").sum(), (-right.log() * self.weight).sum()
        )
        binary = integers(2, 30)
        right = torch.where(binary == 1, self.positive.sigmoid(), 1 - self.positive.sigmoid())
        self.same(nn.focal_loss(self.positive, binary), (-((1 - right) ** 2) * right.log()).mean())
        targets = torch.randn(4001, device=DEVICE)
        places = torch.linspace(-2, 2, 401, device=DEVICE)
        losses = torch.stack([nn.quantile_loss(place.expand_as(targets), targets, 0.8) for place in places])
        self.assertAlmostEqual(float(places[losses.argmin()]), float(targets.quantile(0.8)), delta=0.02)
        self.same(nn.quantile_loss(self.positive, self.weight), F.l1_loss(self.positive, self.weight) / 2)

    def test_targets_are_scaled_by_column(self):
        targets = torch.randn(50, 3, device=DEVICE) * torch.tensor([2.0, 1e6, 0.0], device=DEVICE) + 5
        targets[3, 0] = torch.nan
        scale = nn.TargetScale(targets)
        scaled = scale(targets)
        known = scaled[~scaled.isnan().any(1)]
        self.same(scaled[:, 1].std(correction=0), torch.ones((), device=DEVICE))
        self.same(known[:, 2], torch.zeros(49, device=DEVICE))
        torch.testing.assert_close(scale.inverse(scaled), targets, rtol=1e-4, atol=1e-4, equal_nan=True)
        other = nn.TargetScale(torch.ones(2, 3, device=DEVICE))
        other.load_state_dict(scale.state_dict())
        self.assertTrue(torch.equal(other(targets)[4:], scaled[4:]))
        with self.assertRaisesRegex(strata.InputError, "a column has no targets"):
            nn.TargetScale(torch.full((3,), torch.nan))


def rank_by_hand(scores, true, left_out):
    """The rank of one of the candidates' scores, where some are left out."""
    others = [score for number, score in enumerate(scores.tolist()) if number != true and number not in left_out]
    mine = scores.tolist()[true]
    return 1 + sum(score > mine for score in others) + sum(score == mine for score in others) / 2


class Ranks(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(5)
        self.head, self.relation, self.tail = integers(60, 700), integers(4, 700), integers(60, 700)
        self.edges = self.head, self.relation, self.tail
        self.decoder = nn.DistMult(4, 8).to(DEVICE)
        # Small integers, so that products are exact and many scores tie.
        self.rows = integers(3, 60, 8).float()
        with torch.no_grad():
            self.decoder.rel_emb.weight.copy_(integers(3, 4, 8).float())

    def test_among_all_nodes_and_given_ones_are_those_by_hand(self):
        shared, own = integers(60, 25), integers(60, 700, 12)
        known = metrics.KnownEdges(*(part[:600] for part in self.edges))
        triples = set(zip(*(part[:600].tolist() for part in self.edges)))
        for side, candidates, is_filtered in itertools.product(("tail", "head"), (None, shared, own), (False, True)):
            ranks = metrics.link_ranks(
                self.decoder, self.rows, *self.edges, side=side, candidates=candidates, known=known if is_filtered else None
            )
            for edge in range(0, 700, 29):
                head, relation, tail = (int(part[edge]) for part in self.edges)
                nodes, true = (self.head, head) if side == "head" else (self.tail, tail)
                ids = torch.arange(60, device=DEVICE) if candidates is None else shared if candidates is shared else own[edge]
                ids = torch.cat([ids[ids != true], nodes[edge : edge + 1]])
                ends = [(id, relation, tail) if side == "head" else (head, relation, id) for id in ids.tolist()]
                left_out = {place for place, triple in enumerate(ends[:-1]) if is_filtered and triple in triples}
                many = [torch.tensor(part, device=DEVICE) for part in zip(*ends)]
                scores = self.decoder(self.rows[many[0]], many[1], self.rows[many[2]])
                self.assertEqual(float(ranks[edge]), rank_by_hand(scores, len(ids) - 1, left_out))

    def test_among_those_of_groups_are_those_among_own_ones(self):
        groups, candidates = integers(5, 700), integers(60, 6, 30)
        known = metrics.KnownEdges(*(part[:600] for part in self.edges))
        for decoder, side, left_out in itertools.product(
            (self.decoder, nn.TransE(4, 8, 2.0).to(DEVICE)), ("tail", "head"), (None, known)
        ):
            options = {"side": side, "known": left_out}
            rows = self.rows if decoder is self.decoder else torch.randn(60, 8, device=DEVICE)
            ranks = metrics.link_ranks(decoder, rows, *self.edges, candidates=candidates, groups=groups, **options)
            own = metrics.link_ranks(decoder, rows, *self.edges, candidates=candidates[groups], **options)
            self.assertLessEqual(float((ranks - own).abs().max()), 0 if decoder is self.decoder else 1)  # sums are rounded
        for wrong in (
            {"groups": groups[:3]},
            {"groups": groups, "candidates": None},
            {"groups": groups, "candidates": candidates[:2]},
        ):
            with self.assertRaisesRegex(strata.InputError, "groups"):
                metrics.link_ranks(self.decoder, self.rows, *self.edges, **({"candidates": candidates} | wrong))

    def test_of_many_groups_are_counted_at_once_as_of_one(self):
        groups, candidates = integers(5, 700), integers(60, 5, 30)
        found = []
        for device in ("cpu", "cuda"):  # how much is done at a time
            edges = _link_ranks._Edges(self.decoder, self.rows, self.rows, "tail", None, device)
            with torch.no_grad():
                found.append(edges.among_groups(self.head, self.relation, self.tail, candidates, groups))
        self.assertTrue(torch.equal(*found))

    def test_of_equal_rows_are_in_the_middle(self):
        for decoder in decoders(5):
            count = 5000 if isinstance(decoder, nn.DotProduct) else 600
            rows = torch.randn(1, 10, device=DEVICE).repeat(count, 1)
            ends = integers(count, 520), integers(7, 520), integers(count, 520)
            shared = [integers(count, 101)] if isinstance(decoder, nn.decoders.ProductDecoder) else []
            for candidates in (None, *shared, integers(count, 520, 101)):
                ranks = metrics.link_ranks(decoder.to(DEVICE), rows, *ends, candidates=candidates)
                middle = (count + 1) / 2 if candidates is None else 1 + (candidates != ends[2].unsqueeze(1)).sum(1).double() / 2
                self.assertTrue(bool((ranks == middle).all()), f"{decoder} {ranks}")

    def test_do_not_depend_on_the_edges_beside(self):
        rows, decoder = torch.randn(3000, 40, device=DEVICE), nn.ComplEx(4, 20).to(DEVICE)
        edges = integers(3000, 900), integers(4, 900), integers(3000, 900)
        whole = metrics.link_ranks(decoder, rows, *edges)
        pieces = [metrics.link_ranks(decoder, rows, *of_piece) for of_piece in zip(*(part.split(77) for part in edges))]
        self.assertTrue(torch.equal(whole, torch.cat(pieces)))
        shared = integers(3000, 200)
        whole = metrics.link_ranks(decoder, rows, *edges, candidates=shared)
        parts = zip(*(part.split(77) for part in edges))
        pieces = [metrics.link_ranks(decoder, rows, *of_piece, candidates=shared) for of_piece in parts]
        self.assertTrue(torch.equal(whole, torch.cat(pieces)))
        self.assertEqual(metrics.link_ranks(decoder, rows, *(part[:0] for part in edges), candidates=shared).shape, (0,))

    def test_of_a_derived_decoder_are_its_own(self):
        class Reversed(nn.DotProduct):
            def _against(self, rows, relation, candidates, side):
                return -super()._against(rows, relation, candidates, side)

        shared = integers(60, 25)
        plain = metrics.link_ranks(nn.DotProduct(), self.rows, *self.edges, candidates=shared)
        other = metrics.link_ranks(Reversed(), self.rows, *self.edges, candidates=shared)
        counted = (shared.unsqueeze(0) != self.tail.unsqueeze(1)).sum(1)
        self.assertTrue(torch.equal(plain + other, counted + 2.0))

    def test_of_nodes_of_two_types(self):
        users, items = torch.randn(30, 8, device=DEVICE), torch.randn(50, 8, device=DEVICE)
        head, tail = integers(30, 40), integers(50, 40)
        ranks = metrics.link_ranks(nn.DotProduct(), (users, items), head, None, tail)
        scores = users[head] @ items.t()
        self.assertTrue(torch.equal(ranks, 1.0 + (scores > scores.gather(1, tail.unsqueeze(1))).sum(1).double()))
        known = metrics.KnownEdges(head, None, tail)
        of_heads = metrics.link_ranks(nn.DotProduct(), (users, items), head, None, tail, side="head", known=known)
        self.assertLessEqual(float(of_heads.max()), 30)

    def test_memory_is_that_of_a_tile(self):
        rows, decoder = torch.randn(20_000, 4, device=DEVICE), nn.DotProduct()
        head, tail = integers(20_000, 1024), integers(20_000, 1024)
        largest = 0
        against = decoder.against

        def watched(*arguments):
            nonlocal largest
            scores = against(*arguments)
            largest = max(largest, scores.numel())
            return scores

        decoder.against = watched
        metrics.link_ranks(decoder, rows, head, None, tail)
        self.assertLessEqual(largest, 512 * 8192)  # not 1024 * 20,000

    def test_scores_by_relation_add_up_and_have_no_rounding(self):
        ranks = torch.cat([torch.randint(2, 40, (500,), device=DEVICE) / 2, torch.ones(3, device=DEVICE)]).double()
        groups = torch.arange(503, device=DEVICE) % 4
        whole = metrics.ranking(ranks, (1, 5))
        self.assertAlmostEqual(whole["mrr"], float((1 / ranks).mean()), places=9)
        self.assertAlmostEqual(whole["mean_rank"], float(ranks.mean()), places=9)
        self.assertEqual(whole["hits@5"], float((ranks <= 5).double().mean()))
        self.assertEqual(whole["count"], 503)
        of_groups = metrics.ranking(ranks, (1, 5), groups=groups, num_groups=5)
        self.assertAlmostEqual(float(of_groups["mrr"][2]), float((1 / ranks[groups == 2]).mean()), places=9)
        self.assertEqual(of_groups["count"].tolist(), [126, 126, 126, 125, 0])
        self.assertTrue(of_groups["mrr"][4].isnan())
        order = torch.randperm(503, device=DEVICE)
        self.assertEqual(metrics.ranking(ranks[order], (1, 5)), whole)

    def test_mistakes_are_named(self):
        rows = self.rows.clone()
        rows[5, 1] = torch.inf
        with self.assertRaisesRegex(strata.InputError, "not finite"):
            metrics.link_ranks(self.decoder, rows, *self.edges)
        broken = nn.DistMult(4, 8).to(DEVICE)
        with torch.no_grad():
            broken.rel_emb.weight[2, 3] = torch.nan
        for candidates in (None, integers(60, 700, 3)):
            with self.assertRaisesRegex(strata.InputError, "a score is nan"):
                metrics.link_ranks(broken, self.rows, *self.edges, candidates=candidates)
        with self.assertRaisesRegex(strata.InputError, "a score is nan"):
            metrics.ranks_among(torch.tensor([torch.nan]), torch.zeros(1, 3))
        with self.assertRaisesRegex(strata.InputError, "K is 0"):
            metrics.hits_at(torch.ones(3), torch.zeros(3), 0)
        with self.assertRaisesRegex(strata.InputError, "belong together"):
            metrics.ranking(torch.ones(3), groups=torch.zeros(3))


class Scores(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(6)

    def test_roc_auc_and_average_precision_with_ties(self):
        for values in (3, 40, 10_000):
            scores, labels = integers(values, 300).float() - 1.5, integers(2, 300)
            positive, negative = scores[labels == 1], scores[labels == 0]
            wins = (positive.unsqueeze(1) > negative).double() + (positive.unsqueeze(1) == negative).double() / 2
            self.assertAlmostEqual(metrics.roc_auc(scores, labels), float(wins.mean()), places=12)
            precision, before = 0.0, 0.0
            for threshold in scores.unique().flip(0):
                recall = float((positive >= threshold).double().mean())
                precision += (recall - before) * float((labels[scores >= threshold] == 1).double().mean())
                before = recall
            self.assertAlmostEqual(metrics.average_precision(scores, labels), precision, places=12)
        self.assertTrue(numpy.isnan(metrics.roc_auc(scores, torch.ones_like(labels))))
        with self.assertRaisesRegex(strata.InputError, "labels are not 0 and 1"):
            metrics.roc_auc(scores, labels + 1)

    def test_hits_and_mrr_are_those_of_ogb(self):
        positive, shared, own = integers(50, 200).float(), integers(50, 90).float(), integers(50, 200, 30).float()
        for most in (1, 20, 90):
            threshold = shared.sort(descending=True).values[most - 1]
            self.assertEqual(metrics.hits_at(positive, shared, most), float((positive > threshold).double().mean()))
        self.assertEqual(metrics.hits_at(positive, shared, 91), 1.0)
        mine = positive.unsqueeze(1)
        ranks = ((own > mine).sum(1) + (own >= mine).sum(1)) / 2 + 1
        found = metrics.ranking(metrics.ranks_among(positive, own))
        self.assertAlmostEqual(found["mrr"], float((1 / ranks.double()).mean()), places=9)
        self.assertEqual(found["hits@10"], float((ranks <= 10).double().mean()))

    def test_of_regression(self):
        target = torch.randn(300, 2, device=DEVICE) * 3 + 100
        predicted = target + torch.randn(300, 2, device=DEVICE)
        predicted[7, 1], hidden = 1e9, target.clone()
        hidden[7, 1] = torch.nan
        pairs = [(predicted[:, 0].double(), target[:, 0].double())]
        keep = torch.arange(300, device=DEVICE) != 7
        pairs.append((predicted[keep, 1].double(), target[keep, 1].double()))
        found = metrics.regression(predicted, hidden)
        errors = torch.cat([one - other for one, other in pairs])
        self.assertAlmostEqual(found["rmse"], float(errors.square().mean().sqrt()), places=9)
        self.assertAlmostEqual(found["mae"], float(errors.abs().mean()), places=9)
        r2 = [1 - float((one - other).square().sum() / (other - other.mean()).square().sum()) for one, other in pairs]
        self.assertAlmostEqual(found["r2"], sum(r2) / 2, places=9)

    def test_are_the_same_on_any_number_of_ranks(self):
        alone = metrics_of_rank.scores_of_all(0, 1)
        self.assertGreater(alone["hits"], 0)
        done = mpirun(3, HERE / "metrics_of_rank.py")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.strip(), str(alone))


class Splits(unittest.TestCase):
    """PyG's splits of edges, whose messages become graphs as they are."""

    def setUp(self):
        torch.manual_seed(7)

    def edges_of(self, graph, edge_type=None):
        """The graph's edges as pairs of numbers."""
        row, ends, _ = strata.pyg.GraphStore(graph).csc()
        row, ends = (part if edge_type is None else part[edge_type] for part in (row, ends))
        return sorted(zip(row.tolist(), torch.arange(len(ends) - 1).repeat_interleave(ends.diff()).tolist()))

    def test_random_links_carry_no_messages(self):
        one = torch.combinations(torch.arange(40))[torch.randperm(780)[:300]].t()
        data = Data(x=torch.randn(40, 4), edge_index=torch.cat([one, one.flip(0)], dim=1))
        train, valid, test = RandomLinkSplit(0.1, 0.2, is_undirected=True, disjoint_train_ratio=0.3)(data)
        for split, messages, links in ((train, 2 * 147, 63), (valid, 2 * 210, 30), (test, 2 * 240, 60)):
            with strata.from_pyg(split) as graph:
                edges = self.edges_of(graph)
            self.assertEqual(edges, sorted(zip(*split.edge_index.tolist())))
            self.assertEqual(len(edges), messages)
            seeds = split.edge_label_index[:, split.edge_label == 1]
            self.assertEqual(seeds.shape[1], links)
            both = {*zip(*seeds.tolist()), *zip(*seeds.flip(0).tolist())}
            self.assertFalse(both & set(edges))

    def test_random_links_of_a_relation_take_their_reverse_along(self):
        pairs = torch.cartesian_prod(torch.arange(20), torch.arange(15))[torch.randperm(300)[:100]].t()
        data, rates, rated = HeteroData(), ("user", "rates", "item"), ("item", "rated_by", "user")
        data["user"].x, data["item"].num_nodes = torch.randn(20, 3), 15
        data[rates].edge_index, data[rates].rating, data[rated].edge_index = pairs, torch.rand(100), pairs.flip(0)
        train, _, test = RandomLinkSplit(10, 20, edge_types=[rates], rev_edge_types=[rated])(data)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            graph = strata.from_pyg(train)
        for edge_type, edge_index in ((rates, train[rates].edge_index), (rated, train[rates].edge_index.flip(0))):
            edges = self.edges_of(graph, edge_type)
            self.assertEqual(edges, sorted(zip(*edge_index.tolist())))
            self.assertEqual(len(edges), 70)
        self.assertFalse({*zip(*test[rates].edge_label_index[:, :20].tolist())} & {*zip(*train[rates].edge_index.tolist())})
        graph.close()

    def test_by_time_of_sorted_events(self):
        events = TemporalData(src=torch.randint(30, (200,)), dst=torch.randint(30, (200,)), t=torch.randperm(1000)[:200])
        train, valid, test = events[events.t.argsort()].train_val_test_split(val_ratio=0.15, test_ratio=0.15)
        self.assertEqual([len(part) for part in (train, valid, test)], [140, 30, 30])
        self.assertLess(int(train.t.max()), int(valid.t.min()))
        self.assertLess(int(valid.t.max()), int(test.t.min()))
        with strata.from_pyg(Data(edge_index=torch.stack([train.src, train.dst]), num_nodes=30)) as graph:
            self.assertEqual(self.edges_of(graph), sorted(zip(train.src.tolist(), train.dst.tolist())))


if __name__ == "__main__":
    unittest.main()
